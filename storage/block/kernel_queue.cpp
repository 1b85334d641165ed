// SPDX-License-Identifier: Apache-2.0
/// @file
/// io_uring without a library: two rings shared with the kernel, one system call.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>

#include "block/queued_reads.hpp"

namespace weir::storage {

namespace {

/// Memory shared with the kernel.
class shared_pages {
 public:
  shared_pages(int descriptor, std::size_t size, off_t what) : size_(size) {
    void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     descriptor, what);
    memory_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
  }
  shared_pages(const shared_pages&) = delete;
  shared_pages& operator=(const shared_pages&) = delete;
  ~shared_pages() {
    if (memory_ != nullptr) {
      ::munmap(memory_, size_);
    }
  }
  [[nodiscard]] explicit operator bool() const noexcept { return memory_ != nullptr; }
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(memory_ + offset);
  }

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_;
};

std::size_t ring_bytes(const io_uring_params& p) {
  const std::size_t submissions = p.sq_off.array + p.sq_entries * sizeof(std::uint32_t);
  const std::size_t completions = p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe);
  return std::max(submissions, completions);
}

class kernel_queue final : public queued_reads {
 public:
  kernel_queue(int ring, int file, const io_uring_params& p)
      : ring_(ring),
        file_(file),
        p_(p),
        rings_(ring, ring_bytes(p), IORING_OFF_SQ_RING),
        entries_(ring, p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES) {}
  kernel_queue(const kernel_queue&) = delete;
  kernel_queue& operator=(const kernel_queue&) = delete;
  ~kernel_queue() override { ::close(ring_); }
  [[nodiscard]] bool usable() const { return rings_ && entries_; }

  void start(std::size_t number, std::uint64_t offset, mutable_bytes to) override {
    const std::uint32_t mask = *rings_.at<std::uint32_t>(p_.sq_off.ring_mask);
    std::atomic_ref<std::uint32_t> tail(*rings_.at<std::uint32_t>(p_.sq_off.tail));
    const std::uint32_t at = tail.load(std::memory_order_relaxed) & mask;
    io_uring_sqe& e = entries_.at<io_uring_sqe>(0)[at];
    e = {};
    e.opcode = IORING_OP_READ;
    e.fd = file_;
    e.off = offset;
    e.addr = reinterpret_cast<std::uintptr_t>(to.data());
    e.len = static_cast<std::uint32_t>(to.size());
    e.user_data = number;
    rings_.at<std::uint32_t>(p_.sq_off.array)[at] = at;
    tail.fetch_add(1, std::memory_order_release);
    if (const int problem = enter(1, 0); problem != 0) {
      tail.fetch_sub(1, std::memory_order_release);  // the kernel did not take it
      refused_.push_back({number, -problem});
    }
  }

  ended wait() override {
    if (!refused_.empty()) {
      const ended e = refused_.front();
      refused_.pop_front();
      return e;
    }
    const std::uint32_t mask = *rings_.at<std::uint32_t>(p_.cq_off.ring_mask);
    std::atomic_ref<std::uint32_t> head(*rings_.at<std::uint32_t>(p_.cq_off.head));
    const std::atomic_ref<std::uint32_t> tail(*rings_.at<std::uint32_t>(p_.cq_off.tail));
    const std::uint32_t at = head.load(std::memory_order_relaxed);
    while (tail.load(std::memory_order_acquire) == at) {
      static_cast<void>(enter(0, 1));  // interrupted or refused: look again
    }
    const io_uring_cqe& e = rings_.at<io_uring_cqe>(p_.cq_off.cqes)[at & mask];
    const ended out{static_cast<std::size_t>(e.user_data), e.res};
    head.store(at + 1, std::memory_order_release);
    return out;
  }

 private:
  // 0, or why the kernel did not do it.
  [[nodiscard]] int enter(unsigned submit, unsigned wait_for) const {
    for (;;) {
      const long n = ::syscall(__NR_io_uring_enter, ring_, submit, wait_for,
                               wait_for != 0 ? IORING_ENTER_GETEVENTS : 0U, nullptr, 0);
      if (n >= static_cast<long>(submit)) {
        return 0;
      }
      if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) {
        return errno;
      }
    }
  }

  int ring_;
  int file_;
  io_uring_params p_;
  shared_pages rings_, entries_;
  std::deque<ended> refused_;
};

}  // namespace

std::unique_ptr<queued_reads> queue_in_kernel(int descriptor, unsigned depth) {
  io_uring_params p{};
  const long ring = ::syscall(__NR_io_uring_setup, depth, &p);
  if (ring < 0) {
    return nullptr;  // not built in, or forbidden
  }
  auto queue = std::make_unique<kernel_queue>(static_cast<int>(ring), descriptor, p);
  // One mapping holds both rings since Linux 5.4; plain reads came with the same release
  // as reads at the file's own position, 5.6.
  const std::uint32_t needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_RW_CUR_POS;
  return queue->usable() && (p.features & needed) == needed ? std::move(queue) : nullptr;
}

}  // namespace weir::storage
