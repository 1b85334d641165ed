// SPDX-License-Identifier: Apache-2.0
/// @file
/// A cache of blocks with eviction of the least recently used one, and the prediction of
/// reads. A remote read costs a round trip, so neighbouring and predicted blocks are
/// requested together with the ones that are needed.
///
///   blocks_   number -> bytes and place in by_age_
///   by_age_   numbers of blocks, the most recently used one first
///   asked_    ring of the last 64 offsets that were missed or predicted
///
/// A block is 16 KiB, except the last one of the file. All members are guarded by one
/// mutex, which is held for copies of blocks, never during a request.
#include "tensogram/remote/block_cache.hpp"

#include <algorithm>
#include <cstring>

namespace weir::formats {

namespace {

/// Largest number of blocks that are read ahead.
/// 32 blocks are 512 KiB.
constexpr std::uint64_t max_blocks_ahead = 32;
/// Largest number of steps that are predicted. Each step is a separate request.
constexpr std::uint64_t max_steps_ahead = 12;
/// Ranges with up to this many blocks between them are joined to one request.
constexpr std::uint64_t small_gap = 2;

}  // namespace

/// Copies under the lock, so no block is dropped meanwhile. Using a block moves it to the
/// front of the list.
/// The parts that are missing come in order, and neighbouring ones are joined.
std::vector<byte_range> block_cache::copy(std::uint64_t offset, mutable_bytes to) {
  const std::scoped_lock lock(mutex_);
  std::vector<byte_range> missing;
  const std::uint64_t end = offset + to.size();
  for (std::uint64_t position = offset; position < end;) {
    // `next` is the end of the block or of the range.
    const std::uint64_t number = position / block_size;
    const std::uint64_t next = std::min(end, (number + 1) * block_size);
    const auto found = blocks_.find(number);
    if (found != blocks_.end()) {
      by_age_.splice(by_age_.begin(), by_age_, found->second.age);
      std::memcpy(to.data() + (position - offset),
                  found->second.bytes.data() + (position - number * block_size),
                  next - position);
    } else if (!missing.empty() &&
               missing.back().offset + missing.back().length == position) {
      missing.back().length += next - position;
    } else {
      missing.push_back({position, next - position});
    }
    position = next;
  }
  return missing;
}

/// Sorts the numbers of all blocks and joins neighbours to ranges. Requesting the few
/// blocks in a small gap again costs less than another request.
/// `longest` bounds a request, so that a long range is requested in parts side by side.
std::vector<byte_range> block_cache::to_request(std::span<const byte_range> needed,
                                                std::span<const byte_range> guessed,
                                                std::uint64_t longest) const {
  std::vector<std::uint64_t> numbers;
  // `use` is called with the number of each block that the range touches.
  const auto for_each_block = [](const byte_range& range, const auto& use) {
    const std::uint64_t end =
        range.length == 0 ? 0 : (range.offset + range.length - 1) / block_size + 1;
    for (std::uint64_t n = range.offset / block_size; n < end; ++n) {
      use(n);
    }
  };
  for (const byte_range& range : needed) {
    for_each_block(range, [&](std::uint64_t n) { numbers.push_back(n); });
  }
  {
    const std::scoped_lock lock(mutex_);
    for (const byte_range& range : guessed) {
      for_each_block(range, [&](std::uint64_t n) {
        if (!has(n)) {
          numbers.push_back(n);
        }
      });
    }
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<byte_range> out;
  for (const std::uint64_t n : numbers) {
    const std::uint64_t begin = n * block_size;
    const std::uint64_t end = std::min(size_, begin + block_size);
    // The last range is extended over the gap if it does not become too long.
    const bool near = !out.empty() && begin <= out.back().offset + out.back().length +
                                                   small_gap * block_size;
    if (near && end - out.back().offset <= longest) {
      out.back().length = std::max(out.back().length, end - out.back().offset);
    } else if (out.empty() || end > out.back().offset + out.back().length) {
      out.push_back({begin, end - begin});
    }
  }
  return out;
}

/// Adds whole blocks and drops the oldest ones beyond the capacity, but never the last
/// one.
void block_cache::put(std::uint64_t offset, bytes_view bytes) {
  const std::scoped_lock lock(mutex_);
  for (std::uint64_t position = 0; position < bytes.size(); position += block_size) {
    const std::uint64_t number = (offset + position) / block_size;
    const bytes_view content = bytes.subspan(
        position, std::min<std::uint64_t>(block_size, bytes.size() - position));
    // Another thread has cached the block meanwhile.
    if (has(number)) {
      continue;
    }
    by_age_.push_front(number);
    blocks_[number] = {byte_vector(content.begin(), content.end()), by_age_.begin()};
    cached_bytes_ += content.size();
  }
  // The list and the map always have the same blocks.
  while (cached_bytes_ > capacity_ && by_age_.size() > 1) {
    const auto oldest = blocks_.find(by_age_.back());
    cached_bytes_ -= oldest->second.bytes.size();
    blocks_.erase(oldest);
    by_age_.pop_back();
  }
}

/// Returns the number of cached blocks directly before a block, or directly behind it, up
/// to the limit of reading ahead.
/// Called with the mutex held, like the next two functions.
std::uint64_t block_cache::neighbours(std::uint64_t number, bool before) const {
  std::uint64_t count = 0;
  while (count < max_blocks_ahead && (before ? number > count : true) &&
         has(before ? number - count - 1 : number + count + 1)) {
    ++count;
  }
  return count;
}

/// Stores an offset in the ring of recent offsets.
void block_cache::remember(std::uint64_t offset) {
  asked_[asked_count_ % asked_.size()] = offset;
  ++asked_count_;
}

/// Continues the longest sequence of offsets in equal steps that ends at `range`. For
/// each recent offset, its distance is tried as the step. Returns as many further steps
/// as the sequence has, so a reader must prove its pattern before much is read ahead.
std::vector<byte_range> block_cache::steps_from(byte_range range) const {
  const std::size_t known = std::min(asked_count_, asked_.size());
  // The offset of every read of the sequence must have been seen.
  const auto was_asked = [&](std::uint64_t offset) {
    return std::find(asked_.begin(), asked_.begin() + static_cast<std::ptrdiff_t>(known),
                     offset) != asked_.begin() + static_cast<std::ptrdiff_t>(known);
  };
  std::uint64_t best_step = 0;
  std::uint64_t best_run = 1;
  for (std::size_t i = 0; i < known; ++i) {
    const std::uint64_t step =
        range.offset -
        asked_[i];  // wraps around for a step backward, as do the sums below
    std::uint64_t run = 1;
    while (step != 0 && run < max_steps_ahead &&
           was_asked(range.offset - (run + 1) * step)) {
      ++run;
    }
    if (run > best_run) {
      best_run = run;
      best_step = step;
    }
  }
  std::vector<byte_range> out;
  // Steps that leave the file end the prediction.
  for (std::uint64_t k = 1; best_step != 0 && k <= best_run; ++k) {
    const std::uint64_t offset = range.offset + k * best_step;
    if (offset >= size_ || range.length > size_ - offset) {
      break;
    }
    out.push_back({offset, range.length});
  }
  return out;
}

/// Guesses what a reader that has just missed `range` will read next. If it moves through
/// neighbouring blocks, the guess is as long as the run that was read so far, in the same
/// direction; so the guesses double while they come true. Otherwise it may move in equal
/// steps.
std::vector<byte_range> block_cache::likely_after(byte_range range) {
  const std::scoped_lock lock(mutex_);
  // Blocks of the range: `first` to `last`.
  const std::uint64_t first = range.offset / block_size;
  const std::uint64_t last = (range.offset + range.length - 1) / block_size;
  std::vector<byte_range> out;
  // A reader that goes forward has read the blocks before this one, and a reader that
  // goes backward those behind it. The larger number decides.
  const std::uint64_t before = neighbours(first, true);
  const std::uint64_t behind = neighbours(last, false);
  if (before > 0 && before >= behind) {
    // Reading forward: as many blocks behind the range as there are cached ones before
    // it.
    const std::uint64_t start = (last + 1) * block_size;
    if (start < size_) {
      out.push_back({start, std::min(before * block_size, size_ - start)});
    }
  } else if (behind > 0) {
    // Reading backward: the start of the file is the limit.
    const std::uint64_t count = std::min(behind, first);
    if (count > 0) {
      out.push_back({(first - count) * block_size, count * block_size});
    }
  } else {
    out = steps_from(range);
  }
  // Predictions are remembered as if they had been read: reads that the cache serves do
  // not come here, and the sequence would otherwise seem to have ended.
  remember(range.offset);
  for (const byte_range& guess : out) {
    remember(guess.offset);
  }
  return out;
}

}  // namespace weir::formats
