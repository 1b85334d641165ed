// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads ahead in chunks, and completes chunks whose transfers were short.
///
/// The slots form a ring over consecutive chunks of the file. A slot is idle, running
/// (its transfer is in flight) or ready (its bytes or its error have arrived). When the
/// consumer moves into a chunk, the slots of earlier chunks become idle and are used for
/// chunks further ahead. Only the transfer touches the memory of a slot
/// while it is running, so an error never frees that memory early.
#include "block/sequential_reader.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::storage {

/// All direct transfers need memory that begins at a multiple of `direct_unit`.
aligned_memory allocate_aligned(std::size_t bytes) {
  return aligned_memory(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{direct_unit})));
}

/// The number is an errno, or 0 for the end of the file. The place is that of the first
/// byte that is missing.
error direct_file::failed(std::uint64_t offset, std::size_t bytes, int number) const {
  return error(number != 0 ? errc_of_errno(number) : errc::torn,
               fmt::format("cannot read \"{}\" directly: expected {} bytes, found {}",
                           name, bytes,
                           number != 0 ? std::strerror(number) : "the end of the file"))
      .located(fmt::format("{}:{}", name, offset));
}

// A direct read must begin at a multiple of the unit, so each attempt begins at the last
// whole unit that is there and reads a part of it again. A read that adds nothing means
// that the file has become shorter.
//
// `have` bytes of `to` are there already; at least `least` must be there at the end.
// `offset` and the size of `to` are multiples of the unit, and so is every offset at
// which an attempt begins.
result<void> direct_file::fill(std::uint64_t offset, mutable_bytes to, std::size_t have,
                               std::size_t least) const {
  while (have < least) {
    const std::size_t from = align_down<std::size_t>(have, direct_unit);
    const mutable_bytes rest = to.subspan(from);
    const ssize_t n =
        ::pread(descriptor, rest.data(), rest.size(), static_cast<off_t>(offset + from));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    // Progress is measured behind `have`, because the first bytes of each attempt were
    // there before.
    if (n < 0 || from + static_cast<std::size_t>(n) <= have) {
      return failed(offset + have, least - have, n < 0 ? errno : 0);
    }
    have = from + static_cast<std::size_t>(n);
  }
  return {};
}

// A read that continues keeps the chunks in flight and extends them by a full queue. Any
// other one drops them, because the file may have changed since they were requested.
//
// `last_` is the last chunk that may be requested. A new read requests no more than it
// needs, since it may stay alone; only a read that goes on proves that reading ahead
// pays.
void sequential_reader::begin(std::uint64_t offset, std::uint64_t bytes) {
  const bool goes_on = offset == next_;
  next_ = UINT64_MAX;  // an unfinished read cannot be continued
  if (!goes_on) {
    forget();
  }
  last_ = (offset + bytes - 1) / chunk + (goes_on ? depth : 0);
  // No chunk behind the end of the file is requested.
  last_ = std::min(last_, (file_.size - 1) / chunk);
}

// Chunk i has slot i modulo `depth`, so a chunk is requested when its slot is free.
//
// The slot of a chunk that is still running or ready is left alone.
void sequential_reader::start_until(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t index = first; index <= last; ++index) {
    slot& s = slots_[index % depth];
    if (s.status == state::idle) {
      s = {index, state::running, 0};
      ++running_;
      reads_->start(index % depth, index * chunk, memory_of(index));
    }
  }
}

/// Takes the next end from the queue, in whatever order transfers end, and files it with
/// its slot. The bytes are examined only when the consumer reaches them.
void sequential_reader::wait_for_one() {
  const queued_reads::ended_read e = reads_->wait();
  slots_[e.number].got = e.bytes;
  slots_[e.number].status = state::ready;
  --running_;
}

// Returns bytes from `offset` on: at least one, at most `max_bytes`, all of one chunk.
// Chunks before it are finished, which frees their slots for reading ahead.
result<bytes_view> sequential_reader::bytes_at(std::uint64_t offset,
                                               std::uint64_t max_bytes) {
  const std::uint64_t index = offset / chunk;
  for (slot& s : slots_) {
    if (s.status == state::ready && s.index < index) {
      s.status = state::idle;  // consumed
    }
  }
  start_until(index, std::min(last_, index + depth - 1));
  slot& s = slots_[index % depth];
  // Other transfers may end first; they are noted on the way.
  while (s.status == state::running) {
    wait_for_one();
  }
  const std::uint64_t begins = index * chunk;
  const auto skip = static_cast<std::size_t>(offset - begins);
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(max_bytes, chunk - skip));
  // An interrupted transfer has read nothing; `fill` below repeats it. The error is
  // reported by the read that needs the chunk, not by one that only read ahead.
  if (s.got < 0 && s.got != -EINTR && s.got != -EAGAIN) {
    return file_.failed(offset, count, static_cast<int>(-s.got));
  }
  const auto have = static_cast<std::size_t>(std::max<std::int64_t>(s.got, 0));
  // The transfer was short: read the rest directly.
  if (have < skip + count) {
    WEIR_CHECK(file_.fill(begins, memory_of(index), have, skip + count));
  }
  return bytes_view(memory_of(index)).subspan(skip, count);
}

// Waits for everything in flight, because it still writes into the memory of the slots.
//
// Errors of dropped chunks are dropped with them.
void sequential_reader::forget() {
  while (running_ > 0) {
    wait_for_one();
  }
  slots_ = {};
}

}  // namespace weir::storage
