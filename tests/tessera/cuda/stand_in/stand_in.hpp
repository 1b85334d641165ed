// SPDX-License-Identifier: Apache-2.0
/// @file
/// Control of the stand-in for the CUDA driver and NCCL: the machine that it shows, the
/// rules that it checks, errors on demand, and the objects that are alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/collectives/nccl_api.hpp"
#include "device/cuda/driver_api.hpp"
#include "tessera/cuda/stand_in/executor.hpp"

namespace weir::tessera::stand_in {

/// What of NCCL never comes to an end.
enum class stuck : unsigned char { nothing, init, post, run, finalize };

/// The machine that the driver shows.
struct machine {
  int devices = 1;                             ///< number of devices
  std::size_t memory = std::size_t{64} << 20;  ///< memory of a device in bytes
  int version = 13000;                         ///< version of the driver
  int capability = 90;                         ///< 10 * major + minor
  int multiprocessors = 8;                     ///< multiprocessors of a device
  unsigned seed = 1;                           ///< seed of all delays
  unsigned max_delay_us = 0;                   ///< longest pause before an operation
  unsigned max_block_us = 0;                   ///< longest time that a call blocks
  int nccl_version = 22809;                    ///< version of NCCL
  /// Largest number of times that a communicator is asked before it is ready.
  unsigned nccl_polls = 0;
  stuck nccl_stuck = stuck::nothing;  ///< what never ends
};

/// A rule of the Driver API or of NCCL that the stand-in checks.
struct rule {
  std::string_view name;      ///< name in reports
  std::string_view calls;     ///< calls that are checked
  std::string_view place;     ///< function, error or section of the reference
  std::string_view sentence;  ///< sentence of the reference; empty: it has none
};
/// Returns the table of rules. @source{CUDA Driver API, reference of the toolkit 13.0;
/// nccl.h 2.28.9 and the user guide of NCCL}
[[nodiscard]] std::span<const rule> rules() noexcept;

/// A use that breaks a rule.
struct breach {
  std::string rule;  ///< name of the rule
  std::string text;  ///< what was done to which objects
};

/// Numbers of objects that are alive.
struct object_counts {
  std::size_t contexts = 0;       ///< retains of primary contexts without a release
  std::size_t streams = 0;        ///< streams
  std::size_t events = 0;         ///< events
  std::size_t pools = 0;          ///< pools of memory
  std::size_t allocations = 0;    ///< allocations of devices
  std::size_t host_ranges = 0;    ///< registered ranges of the host
  std::size_t libraries = 0;      ///< libraries
  std::size_t graphs = 0;         ///< graphs
  std::size_t graph_execs = 0;    ///< graphs that can be launched
  std::size_t communicators = 0;  ///< communicators of NCCL
  bool operator==(const object_counts&) const = default;
};

/// Begins with a new machine and forgets everything else. All objects of the last machine
/// have to be gone, except those of devices that were broken.
void set_up(const machine& shown, std::shared_ptr<kernel_executor> executor);
/// Returns what has broken rules since the last call, in order.
[[nodiscard]] std::vector<breach> take_breaches();
/// Returns the numbers of objects that are alive.
[[nodiscard]] object_counts objects();
/// Makes the call with the number `nth`, from 1 on, of a function fail, counted from now.
void fail_call(std::string_view function, unsigned nth, cuda::status outcome);
/// Makes the call with the number `nth`, from 1 on, of a function of NCCL fail, counted
/// from now. The name "state" stands for the state that ncclCommGetAsyncError returns.
void fail_nccl_call(std::string_view function, unsigned nth, cuda::nccl_status outcome);
/// Waits until all streams are idle, without telling the host of the end of operations. A
/// test that lets memory go too early calls it, so that the mistake does no harm.
void settle();
/// Lets a stream say that it captures, as if its library had begun a capture on it.
void let_capture(void* stream, bool captures);
/// Returns how often a function was called since `set_up`.
[[nodiscard]] unsigned calls_of(std::string_view function);
/// Lets each call block up to this time from now on.
void block_calls(unsigned max_us);
/// Breaks the context of a device: all calls return this outcome from now on.
void break_device(int device, cuda::status outcome);

}  // namespace weir::tessera::stand_in

/// The functions of NCCL that libnccl.so.2 passes calls to; the test program exports it.
extern "C" __attribute__((visibility("default"))) const weir::tessera::cuda::nccl_api*
weir_stand_in_nccl();
/// What cuGetProcAddress_v2 of the library does; the test program exports it.
extern "C" __attribute__((visibility("default"))) weir::tessera::cuda::status
weir_stand_in_lookup(const char* name, void** function, int version, std::uint64_t flags,
                     weir::tessera::cuda::lookup* outcome);
