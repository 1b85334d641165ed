// SPDX-License-Identifier: Apache-2.0
/// @file
/// How a process becomes a rank: MPI begins, or has begun, all ranks make communicators
/// of their own together, and each makes its transport. Every wait for other ranks has a
/// deadline.
#include "start.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/core.h>

#include "loading.hpp"
#include "ranks_over_mpi.hpp"
#include "weir/base/clock.hpp"
#include "weir/runtime/copy_ledger.hpp"
#include "weir/runtime/world.hpp"

namespace weir {
namespace mpi {
namespace {

/// Largest tag that messages have. A tag has the slot of a channel and the low bits of
/// the number.
constexpr int max_needed_tag =
    static_cast<int>(((std::uint64_t{channels_of_communicator} + 1) << number_bits) - 1);

/// Time between two looks of a rank that waits for the communicators.
constexpr std::chrono::microseconds start_sleep{50};

/// Hint for ranks that have not come to the start of the others.
constexpr const char* hint_of_late_ranks =
    "a rank may have ended, or be stopped, before it has made its transport; raise "
    "mpi_options::start_deadline_ns if it only comes later";

/// Ends the process if MPI_Init_thread does not return within the deadline. Nothing else
/// can end that call, in which the libraries wait for all ranks. Nothing of the program
/// is lost that could go on: it has asked for ranks, and has none yet.
class start_watch {
 public:
  start_watch(const char* library, std::int64_t deadline_ns)
      : library_(library), deadline_ns_(deadline_ns), rank_(rank_of_launcher()) {
    thread_ = std::thread([this] { wait(); });
  }
  ~start_watch() {
    {
      const std::lock_guard lock(mutex_);
      has_returned_ = true;
    }
    returned_.notify_all();
    thread_.join();
  }
  start_watch(const start_watch&) = delete;
  start_watch& operator=(const start_watch&) = delete;

 private:
  // The environment is not read here, since MPI_Init_thread may change it meanwhile.
  void wait() {
    runtime::silence_clock clock(deadline_ns_);
    const std::int64_t begun = now_ns();
    std::unique_lock lock(mutex_);
    clock.look(begun);
    const std::chrono::nanoseconds sleep(clock.longest_sleep_ns(deadline_ns_));
    while (!returned_.wait_for(lock, sleep, [this] { return has_returned_; })) {
      clock.look(now_ns());
      if (clock.is_overdue(begun)) {
        std::fprintf(stderr, "%s\n", text_after(clock.since(begun)).c_str());
        _exit(exit_code_of(errc::rank_lost));
      }
    }
  }

  [[nodiscard]] std::string text_after(std::int64_t waited_ns) const {
    return fmt::format(
        "{}{}: ranks not started: expected that MPI_Init_thread of {} returns within {} "
        "ms, found that it has not returned for {} ms; {}",
        rank_.value_or(0) == 0 ? "" : runtime::line_prefix(*rank_),
        name_of(errc::rank_lost), library_, deadline_ns_ / 1'000'000,
        waited_ns / 1'000'000, hint_of_late_ranks);
  }

  const char* const library_;
  const std::int64_t deadline_ns_;
  const std::optional<rank_id> rank_;  ///< empty if the launcher does not tell
  std::mutex mutex_;
  std::condition_variable returned_;
  bool has_returned_ = false;  ///< guarded by the mutex
  std::thread thread_;
};

/// Returns the error that says why MPI cannot be used, if there is a reason. All of
/// these are checked once, when MPI has started.
result<void> check_facts(const calls& plugin, const start_facts& facts) {
  if (facts.thread_level < facts.needed_level) {
    return error(errc::unsupported,
                 fmt::format("ranks not started: expected {} with the level of threads "
                             "MPI_THREAD_SERIALIZED or more, found {}",
                             plugin.library, facts.level))
        .hint(facts.started_here
                  ? "use an MPI library that was built with support for threads"
                  : "call MPI_Init_thread with MPI_THREAD_SERIALIZED");
  }
  if (facts.max_tag < max_needed_tag) {
    return error(errc::unsupported,
                 fmt::format("ranks not started: expected {} with tags up to {}, found "
                             "tags up to {}",
                             plugin.library, max_needed_tag, facts.max_tag));
  }
  if (static_cast<std::size_t>(facts.ranks) > runtime::copy_ledger::max_holders) {
    return error(errc::unsupported,
                 fmt::format("ranks not started: expected at most {}, found {}",
                             runtime::copy_ledger::max_holders, facts.ranks));
  }
  return {};
}

/// Returns the error of a call of MPI at the start. The library explains its codes by
/// texts.
error failure_of_start(const calls& plugin, int code) {
  std::array<char, 512> text{};
  plugin.explain(code, text.data(), text.size());
  return error(errc::io, fmt::format("ranks not started: expected success of {}, "
                                     "found: {}",
                                     plugin.library, text.data()));
}

/// Returns the error of a rank that has no memory or no thread.
error without_thread(const std::exception& e) {
  return error(errc::out_of_memory,
               fmt::format("ranks not started: expected memory and threads for the "
                           "messages of this rank, found: {}",
                           e.what()))
      .hint("raise the limits of memory and threads of the process");
}

/// Makes the communicators of the transport, in which all ranks take part. There are no
/// signs of life before, so a rank that does not come is named by the greetings that have
/// not come.
result<void> make_communicators(const calls& plugin, const start_facts& facts,
                                std::int64_t deadline_ns) {
  runtime::silence_clock clock(deadline_ns);
  const std::int64_t begun = now_ns();
  bool ready = false;
  for (int code = plugin.begin_copy(); !ready;) {
    code = code == 0 ? plugin.copy_ready(&ready) : code;
    if (code != 0) {
      return failure_of_start(plugin, code);
    }
    clock.look(now_ns());
    if (!ready && clock.is_overdue(begun)) {
      const int absent = plugin.absent_rank();
      return error(errc::rank_lost,
                   fmt::format("ranks not started: expected that all {} ranks make their "
                               "transports within {} ms, found {}",
                               facts.ranks, deadline_ns / 1'000'000,
                               absent < 0
                                   ? "that one of them does not go on"
                                   : fmt::format("no sign of life of rank {}", absent)))
          .hint(hint_of_late_ranks);
    }
    if (!ready) {
      std::this_thread::sleep_for(start_sleep);
    }
  }
  return {};
}

/// Starts MPI, or uses a communicator. `communicator` is null if Weir starts MPI itself.
result<std::unique_ptr<runtime::transport>> start_ranks(const calls& plugin,
                                                        const void* communicator,
                                                        const mpi_options& options) {
  if (was_made().exchange(true)) {
    return error(errc::already_exists,
                 "ranks not started: expected one transport over MPI in a process, found "
                 "a second one")
        .hint(
            "worlds share a transport; a program that has called MPI_Init_thread makes "
            "one after another by from_mpi");
  }
  start_facts facts;
  try {
    std::optional<start_watch> watch;
    if (communicator == nullptr) {
      watch.emplace(plugin.library, options.start_deadline_ns);
    }
    // MPI itself may have been started. It is not ended: MPI_Finalize would wait for the
    // other ranks, which may run on, and the error would never be seen. A program with
    // MPI of its own may try another communicator.
    if (const int code = plugin.start(communicator, &facts); code != 0) {
      was_made() = communicator == nullptr;
      return failure_of_start(plugin, code);
    }
  } catch (const std::exception& e) {
    was_made() = false;
    return without_thread(e);
  }
  if (!facts.is_active) {
    was_made() = false;
    return error(errc::unsupported,
                 fmt::format("ranks not started: expected that {} is active, found that "
                             "the program has not called MPI_Init_thread yet, or has "
                             "called MPI_Finalize",
                             plugin.library))
        .hint("make the ranks between MPI_Init_thread and MPI_Finalize");
  }
  if (auto usable = check_facts(plugin, facts); !usable) {
    // MPI that was started here is ended, because the launcher reports a process that
    // ends without MPI_Finalize as failed. All ranks find the same facts.
    static_cast<void>(plugin.finish());
    was_made() = facts.started_here;
    return std::move(usable).error();
  }
  // From here on MPI is not ended: MPI_Finalize would wait for the other ranks, which run
  // on.
  WEIR_CHECK(make_communicators(plugin, facts, options.start_deadline_ns));
  try {
    return std::make_unique<ranks_over_mpi>(plugin, facts, options);
  } catch (const std::exception& e) {
    return without_thread(e);  // the others find this rank silent
  }
}

}  // namespace

std::atomic<bool>& was_made() {
  static std::atomic<bool> made{false};
  return made;
}

}  // namespace mpi

/// Returns an empty pointer if the program was not started by a launcher of MPI.
result<std::unique_ptr<runtime::transport>> launched_ranks(const mpi_options& options) {
  WEIR_TRY(auto pretended, runtime::pretended_ranks_of_environment());
  if (pretended) {
    return pretended;
  }
  WEIR_TRY(const mpi::library which, mpi::library_of_launcher());
  if (which == mpi::library::none) {
    return std::unique_ptr<runtime::transport>();
  }
  WEIR_TRY(const mpi::calls* plugin, mpi::load_plugin(which, options.folder));
  return mpi::start_ranks(*plugin, nullptr, options);
}

/// Serves programs that use MPI themselves. The launcher chooses the plug-in here as
/// well: a program that is linked with another library than that of its launcher has
/// started as many times as there are ranks, and each is alone in its MPI_COMM_WORLD.
result<std::unique_ptr<runtime::transport>> ranks_of_communicator(
    const void* communicator, std::size_t bytes, const mpi_options& options) {
  WEIR_TRY(mpi::library which, mpi::library_of_launcher());
  if (which == mpi::library::none) {
    // MPI_Comm is a pointer in OpenMPI and an int in MPICH.
    which = bytes == sizeof(void*) ? mpi::library::openmpi : mpi::library::mpich;
  }
  WEIR_TRY(const mpi::calls* plugin, mpi::load_plugin(which, options.folder));
  if (bytes != plugin->communicator_bytes) {
    return error(errc::unsupported,
                 fmt::format("ranks not started: expected a communicator of {}, which "
                             "has {} bytes, found one of {} bytes",
                             plugin->library, plugin->communicator_bytes, bytes))
        .hint(
            "start the program with the launcher of the library that it is linked "
            "with");
  }
  return mpi::start_ranks(*plugin, communicator, options);
}

}  // namespace weir
