// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file that is read without the page cache (O_DIRECT).
///
/// Direct transfers need offset, length and memory that are multiples of a sector. Short
/// reads go through a buffer per thread. Long reads go through a sequential reader, which
/// keeps several transfers in flight. Each caller takes a reader for itself, so that
/// threads do not wait for each other; a reader that stopped where the read begins is
/// preferred, because it has the next chunks already.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "block/file_based_device.hpp"
#include "block/sequential_reader.hpp"

namespace weir::storage {

namespace {

/// Reads up to this size are one transfer each, and nothing is read ahead for them.
constexpr std::uint64_t short_read = std::uint64_t{64} << 10;
/// Largest number of sequential readers that one device keeps, each with its own
/// read-ahead.
constexpr std::size_t max_readers = 16;

/// Returns the memory of this thread for one short read. A direct transfer needs aligned
/// memory, offset and length, which a caller's buffer rarely has. The buffer has one
/// unit more at each end, because a short read that begins and ends inside a unit
/// touches both units in whole.
mutable_bytes bounce() {
  constexpr std::size_t bytes = short_read + 2 * direct_unit;
  thread_local const aligned_memory memory = allocate_aligned(bytes);
  return {memory.get(), bytes};
}

/// Copies consecutive bytes into several buffers, one after another.
class scatter {
 public:
  explicit scatter(std::span<const mutable_bytes> pieces) : pieces_(pieces) {}
  // Bytes arrive in parts of any size; a part may end one buffer and begin the next.
  void operator()(bytes_view bytes) {
    while (!bytes.empty()) {
      const mutable_bytes rest = pieces_.front().subspan(filled_);
      const std::size_t n = std::min(rest.size(), bytes.size());
      if (n > 0) {
        std::memcpy(rest.data(), bytes.data(), n);
      }
      bytes = bytes.subspan(n);
      filled_ += n;
      if (filled_ == pieces_.front().size()) {
        pieces_ = pieces_.subspan(1);
        filled_ = 0;
      }
    }
  }

 private:
  std::span<const mutable_bytes> pieces_;
  std::size_t filled_ = 0;  ///< bytes of the first buffer that are filled
};

/// A device with two descriptors of one file: one for direct reads, one for the rest.
///
/// The sequential readers are the only mutable state. `mutex_` protects the list of
/// those that are not in use; a reader in use belongs to one caller alone, so transfers
/// themselves run without the lock.
class direct_device final : public file_based_device {
 public:
  direct_device(std::unique_ptr<block_device> file, int descriptor, direct_reads queueing)
      : file_based_device(std::move(file)), queueing_(queueing) {
    direct_.descriptor = descriptor;
    direct_.size = size();
    direct_.name = name();
  }
  ~direct_device() override {
    readers_.clear();  // waits for transfers in flight, which still use the descriptor
    ::close(direct_.descriptor);
  }

  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    const mutable_bytes whole[] = {to};
    return read_scattered(offset, whole);
  }
  // Chooses between one short transfer and a sequential reader. A range outside the file
  // goes to the ordinary device, so that both kinds of device report the same error.
  result<void> read_scattered(std::uint64_t offset,
                              std::span<const mutable_bytes> pieces) override {
    std::uint64_t bytes = 0;
    for (const mutable_bytes piece : pieces) {
      bytes += piece.size();
    }
    if (bytes == 0 || offset > size() || bytes > size() - offset) {
      return file().read_scattered(offset, pieces);  // reports what is wrong
    }
    if (bytes <= short_read) {
      return read_short(offset, static_cast<std::size_t>(bytes), scatter(pieces));
    }
    // The reader is given back even after a failure: it then continues nothing, and its
    // next read begins anew.
    auto reader = take_reader(offset);
    auto done = reader->read(offset, bytes, scatter(pieces));
    const std::lock_guard lock(mutex_);
    readers_.push_back(std::move(reader));
    return done;
  }

 private:
  /// Reads a range by one transfer of all aligned units that it touches.
  result<void> read_short(std::uint64_t offset, std::size_t bytes, scatter take) const {
    const std::uint64_t begin = align_down<std::uint64_t>(offset, direct_unit);
    const auto skip = static_cast<std::size_t>(offset - begin);
    const mutable_bytes to =
        bounce().first(align_up<std::size_t>(skip + bytes, direct_unit));
    WEIR_CHECK(direct_.fill(begin, to, 0, skip + bytes));
    take(bytes_view(to).subspan(skip, bytes));
    return {};
  }

  /// Takes the reader that stopped at `offset`, else makes a new one; if there are too
  /// many, takes the one that was unused longest. The caller has it for itself until it
  /// gives it back.
  std::unique_ptr<sequential_reader> take_reader(std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    // A stream that is read piece by piece finds the reader that has already read ahead.
    auto found = std::find_if(readers_.begin(), readers_.end(), [&](const auto& reader) {
      return reader->next() == offset;
    });
    if (found == readers_.end()) {
      if (readers_.size() < max_readers) {
        return std::make_unique<sequential_reader>(direct_, queue());
      }
      found = readers_.begin();
    }
    auto reader = std::move(*found);
    readers_.erase(found);
    return reader;
  }
  /// Makes the queue of a new reader. After the kernel has refused one, threads are used
  /// for good.
  std::unique_ptr<queued_reads> queue() {
    // Some containers forbid io_uring. The first refusal is remembered, so that it is
    // not asked for again with each reader.
    if (queueing_ == direct_reads::queue) {
      if (auto in_kernel =
              queue_in_kernel(direct_.descriptor, sequential_reader::depth)) {
        return in_kernel;
      }
      queueing_ = direct_reads::threads;
    }
    if (!threads_) {
      threads_ = start_read_threads(sequential_reader::depth);
    }
    return queue_on_threads(threads_, direct_.descriptor);
  }

  direct_file direct_;
  std::mutex mutex_;
  direct_reads queueing_;
  std::shared_ptr<read_threads> threads_;
  std::vector<std::unique_ptr<sequential_reader>>
      readers_;  ///< not in use, the oldest first
};

}  // namespace

/// Asks by setting up the smallest possible ring, once in the life of the process. A
/// wrong descriptor does no harm, because nothing is read.
bool io_uring_allowed() noexcept {
  static const bool allowed = queue_in_kernel(-1, 1) != nullptr;
  return allowed;
}

// The file is opened twice: once as an ordinary device, which measures it and reports
// errors, and once for direct reads.
result<std::unique_ptr<block_device>> open_direct_device(const std::string& path,
                                                         direct_reads queueing) {
  WEIR_TRY(auto file, open_file_device(path, device_mode::read_only));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (descriptor < 0) {
    if (errno == EINVAL) {
      return file;  // this file system has no direct transfers
    }
    return system_error("open for direct reading", path, errno);
  }
  return std::unique_ptr<block_device>(
      std::make_unique<direct_device>(std::move(file), descriptor, queueing));
}

}  // namespace weir::storage
