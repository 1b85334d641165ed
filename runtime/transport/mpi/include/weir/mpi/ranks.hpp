// SPDX-License-Identifier: Apache-2.0
/// @file
/// The transport between processes that a launcher of MPI has started together, such as
/// `mpirun` or `srun`. Nothing of MPI is linked: a plug-in for OpenMPI or for MPICH is
/// loaded at run time, and only if there are several ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/runtime/transport.hpp"

namespace weir {

/// Options of a transport over MPI.
struct mpi_options {
  /// Time without a sign of life of a rank after which transfers with it fail. A thread
  /// of each rank sends signs of life, also while kernels run. @units{nanoseconds}
  std::int64_t deadline_ns = 60'000'000'000;
  /// Time for which a rank waits for the others at the start: in MPI_Init_thread, and
  /// again until all have made their transports. MPI_Init_thread takes seconds if there
  /// are many ranks or the machines are busy. @units{nanoseconds}
  std::int64_t start_deadline_ns = 60'000'000'000;
  /// Largest number of bytes of messages that were begun and that MPI has not sent yet. A
  /// send beyond it fails. @units{bytes}
  std::int64_t max_unsent = std::int64_t{4} << 30;
  /// Folder of the plug-ins; empty: that of the environment variable `WEIR_MPI_FOLDER`,
  /// or else `../lib/weir` beside the folder of the program, or that of the installation.
  std::string folder{};
};

/// Returns the transport between the ranks that a launcher has started together, or null
/// if this process is the only one. The launcher's variables in the environment choose
/// the plug-in: OMPI_COMM_WORLD_SIZE or PMIX_RANK that of OpenMPI, PMI_SIZE that of
/// MPICH. For measurements, WEIR_PRETEND replaces the other ranks by ones that do not
/// exist, see `runtime::pretended_ranks_of_environment`.
///
/// Keys of messages count modulo 2^20, so at most a million messages from one rank to
/// another may be under way in a channel. If no rank has failed, the destructor waits for
/// all ranks and ends MPI; MPI cannot be started again in this process. A program that
/// has called MPI_Init_thread before joins with MPI_COMM_WORLD, see `from_mpi`.
///
/// If MPI_Init_thread does not return within the deadline of the start, because not all
/// ranks have come to it, a line on standard error says so and the process ends with
/// status 6: nothing else can end that call.
/// @threads{call it once, from the main thread}
/// @error{rank_lost; a rank has not come to the start within its deadline}
/// @error{not_found; there is no plug-in in any of the folders}
/// @error{unsupported; the plug-in or MPI lacks something that is needed, or the launcher
/// `srun` has started the processes without a type of MPI}
/// @error{already_exists; a transport over MPI was made before}
/// @error{io; MPI cannot start} @error{invalid_argument; WEIR_PRETEND has another text}
/// @source{docs/ranks.md, Processes}
[[nodiscard]] result<std::unique_ptr<runtime::transport>> launched_ranks(
    const mpi_options& options = {});

/// Parts of one MPI library that this machine has.
struct mpi_finding {
  std::string library;   ///< "openmpi" or "mpich"
  std::string plugin;    ///< path of the plug-in; empty: there is none
  std::string launcher;  ///< path of mpirun; empty: there is none in PATH
};

/// Returns what this machine has of each MPI library, without loading any of it.
/// @param folder  see `mpi_options::folder` @threads{safe to call concurrently}
[[nodiscard]] std::vector<mpi_finding> find_mpi(const std::string& folder = {});

/// Returns the transport over a communicator, given by its address and its size, see
/// `from_mpi`. @error{unsupported; the process uses another MPI library than the plug-in;
/// and the errors of `launched_ranks`} @threads{see `from_mpi`}
[[nodiscard]] result<std::unique_ptr<runtime::transport>> ranks_of_communicator(
    const void* communicator, std::size_t bytes, const mpi_options& options = {});

/// Returns the transport over the ranks of a communicator of a program that has called
/// MPI_Init_thread itself, with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE. The
/// communicator is copied, so messages of the program stay apart, and MPI is not ended.
/// All ranks of the communicator call it. `world w(e, from_mpi(communicator))` keeps the
/// transport and throws the error.
///
/// The destructor waits for all ranks, and another transport may be made behind it. If a
/// rank has failed it does not wait; the program then ends by MPI_Abort, because
/// MPI_Finalize would wait for that rank.
/// @threads{call it from the thread that may call MPI. Threads of Weir call MPI while the
/// transport lives, so meanwhile the program calls MPI only with MPI_THREAD_MULTIPLE}
/// @error{unsupported; MPI has not begun, has ended or has another level of threads}
/// @error{unsupported; the program is linked with another MPI library than that of its
/// launcher; the text names the files of both}
/// @error{already_exists; the process has a transport over MPI}
/// @error{rank_lost; a rank has not made its transport within the deadline of the start.
/// The text names it, unless there are more than 1,024 ranks. The program should then
/// call MPI_Abort, because MPI_Finalize would wait for that rank}
/// @error{io; the communicator is MPI_COMM_NULL}
template <class Communicator>
[[nodiscard]] result<std::unique_ptr<runtime::transport>> from_mpi(
    Communicator communicator, const mpi_options& options = {}) {
  return ranks_of_communicator(&communicator, sizeof communicator, options);
}

}  // namespace weir
