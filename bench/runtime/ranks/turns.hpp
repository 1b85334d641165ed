// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns between programs that run at the same time: one takes a sample while the others
/// wait. `launches.cpp` gives the turns, and the ranks of the programs wait for them
/// (`sampled_program.hpp`). Both sides map a file of a few bytes.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace weir::bench {

/// The number of samples that the ranks of one program may take, in shared memory.
/// @threads{thread-safe}
class turns {
 public:
  /// Name of the environment variable with the path of the file.
  static constexpr const char* variable = "WEIR_BENCH_TURNS";

  /// Makes a file in memory. It is gone when the last process with a mapping has ended.
  turns() : file_(::memfd_create("turns", 0)) {
    if (file_ < 0 || ::ftruncate(file_, sizeof(allowed)) != 0) {
      throw std::runtime_error("cannot make a file in memory for the turns");
    }
    map();
  }
  /// Maps the file of another process.
  explicit turns(const char* path) : file_(::open(path, O_RDWR)) {
    if (file_ < 0) {
      throw std::runtime_error("cannot open " + std::string(path) + " for the turns");
    }
    map();
  }
  ~turns() {
    ::munmap(allowed_, sizeof(allowed));
    ::close(file_);
  }
  turns(const turns&) = delete;
  turns& operator=(const turns&) = delete;

  /// Returns a path by which other processes can open the file as long as this lives.
  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
  }
  /// Allows one more sample.
  void give() {
    allowed_->fetch_add(1);
    wake();
  }
  /// Tells the ranks that no sample follows.
  void end() {
    allowed_->store(ended);
    wake();
  }
  /// Waits until sample `index` may begin, or returns false if no sample follows. The
  /// rank sleeps meanwhile, so that the program whose turn it is has the processors.
  [[nodiscard]] bool wait_for(std::int32_t index) const {
    for (;;) {
      const std::int32_t now = allowed_->load();
      if (now > index || now == ended) {
        return now != ended;
      }
      // The waits of `std::atomic` do not reach from one process to another.
      ::syscall(SYS_futex, allowed_, FUTEX_WAIT, now, nullptr, nullptr, 0);
    }
  }

 private:
  using allowed = std::atomic<std::int32_t>;
  static_assert(allowed::is_always_lock_free);
  static constexpr std::int32_t ended = -1;

  void wake() {
    ::syscall(SYS_futex, allowed_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  void map() {
    void* const at =
        ::mmap(nullptr, sizeof(allowed), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) {
      throw std::runtime_error("cannot map the file of the turns");
    }
    allowed_ = static_cast<allowed*>(at);
  }

  int file_;
  allowed* allowed_ = nullptr;
};

}  // namespace weir::bench
