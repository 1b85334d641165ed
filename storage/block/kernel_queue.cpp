// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads of one file that are in flight in the kernel (io_uring), through liburing.
#include <liburing.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <thread>

#include "block/queued_reads.hpp"
#include "weir/base/clock.hpp"

namespace weir::storage {

namespace {

/// Longest time for which an entry is offered to a kernel that is short of memory.
constexpr std::int64_t max_busy_ns = 10'000'000'000;

/// A ring of its own for each queue: the kernel takes requests from it and puts their
/// results into it, in any order.
///
/// The queue is used by one thread at a time, the one that owns the reader. Reads that
/// the kernel refuses are kept in `refused_` and delivered by `wait` like any other end,
/// so a caller has one way to learn of failures.
class kernel_queue final : public queued_reads {
 public:
  explicit kernel_queue(int file) : file_(file) {}
  kernel_queue(const kernel_queue&) = delete;
  kernel_queue& operator=(const kernel_queue&) = delete;
  ~kernel_queue() override {
    // Ends the ring. The owner has waited for all its reads before.
    if (is_open_) {
      ::io_uring_queue_exit(&ring_);
    }
  }

  /// Sets the ring up; false if the kernel does not allow it or is too old.
  [[nodiscard]] bool open(unsigned depth) {
    is_open_ = ::io_uring_queue_init(depth, &ring_, 0) == 0;
    // The kernel announces no feature for IORING_OP_READ. It appeared in Linux 5.6,
    // together with this one. An old kernel fails here, and the caller then uses
    // threads.
    return is_open_ && (ring_.features & IORING_FEAT_RW_CUR_POS) != 0;
  }

  void start(std::size_t number, std::uint64_t offset, mutable_bytes to) override {
    // The ring has an entry for each of the `depth` reads, and every entry is handed to
    // the kernel at once: there is always a free one, unless the ring has failed.
    io_uring_sqe* const entry = failure_ == 0 ? ::io_uring_get_sqe(&ring_) : nullptr;
    if (entry == nullptr) {
      refused_.push_back({number, failure_ != 0 ? failure_ : -EBUSY});
      return;
    }
    ::io_uring_prep_read(entry, file_, to.data(), static_cast<unsigned>(to.size()),
                         offset);
    // The number comes back with the result and says to which read it belongs.
    ::io_uring_sqe_set_data64(entry, number);
    if (const int problem = submit(); problem < 0) {
      // The entry stays in the ring, where a later call would hand it to the kernel after
      // its owner has been told that it failed. So nothing is handed over any more.
      failure_ = problem;
      refused_.push_back({number, problem});
    }
  }

  ended_read wait() override {
    // Reads that never started are reported first.
    if (!refused_.empty()) {
      const ended_read e = refused_.front();
      refused_.pop_front();
      return e;
    }
    io_uring_cqe* entry = nullptr;
    // A signal interrupts the call, and then it is repeated. It is also repeated if it
    // fails in another way, which no kernel is known to do: the reads are in flight, and
    // their memory must not be used again before they have ended.
    while (::io_uring_wait_cqe(&ring_, &entry) != 0) {
    }
    const ended_read e{static_cast<std::size_t>(::io_uring_cqe_get_data64(entry)),
                       entry->res};
    // Gives the place of the result back to the kernel.
    ::io_uring_cqe_seen(&ring_, entry);
    return e;
  }

 private:
  /// Hands the new entry to the kernel. It may lack memory for the moment (EAGAIN) or
  /// have to deliver results first (EBUSY), so the call is repeated for a limited time.
  [[nodiscard]] int submit() {
    for (const std::int64_t start = now_ns();;) {
      const int n = ::io_uring_submit(&ring_);
      // With EBUSY or EAGAIN after this time, the kernel has refused the entry for good.
      const bool is_busy = n == -EAGAIN || n == -EBUSY;
      if (n != 0 && n != -EINTR && (!is_busy || now_ns() - start > max_busy_ns)) {
        return n;
      }
      // Other threads of the system have to free memory meanwhile.
      if (is_busy) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  io_uring ring_{};
  bool is_open_ = false;
  int file_;
  int failure_ = 0;                 ///< -errno of the first entry that the kernel refused
  std::deque<ended_read> refused_;  ///< reads that failed before they were in flight
};

}  // namespace

/// Returns nullptr if io_uring cannot be used, for example under a filter of system
/// calls.
std::unique_ptr<queued_reads> queue_in_kernel(int descriptor, unsigned depth) {
  auto queue = std::make_unique<kernel_queue>(descriptor);
  return queue->open(depth) ? std::move(queue) : nullptr;
}

}  // namespace weir::storage
