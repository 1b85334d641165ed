// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds out whether files still hold what was consumed, and keeps digests of it.
///
/// Small sets are digested whole when they are opened. Of larger ones, a segment is
/// digested once it has been consumed. A cursor takes these digests along, so that a
/// resumed run compares each segment when it is read again.
#include <fmt/core.h>

#include <algorithm>

#include "context/files/token_set.hpp"
#include "weir/base/record.hpp"

/// The time of the last change of a file tells cheaply that nothing happened; only if it
/// has changed, digests are compared.
namespace weir::storage {

namespace {

/// Version of a state without and with ranges that the user named.
constexpr std::uint32_t plain_state_version = 1;
constexpr std::uint32_t token_state_version = 2;
/// A cursor holds up to three states of each part of a mixture, so they must be small.
constexpr std::uint64_t max_consumed_digests = 512;

/// Both texts end the sentence of the error.
error bad_state(std::string_view expected, std::string_view found) {
  return error(errc::corrupt,
               fmt::format("cannot restore the state of token files: expected {}, found "
                           "{}",
                           expected, found));
}

}  // namespace

/// Returns the number of tokens of one segment: at least 4096, and a power of two times
/// as much, so that no more than `max_consumed_digests` segments cover the source.
std::uint64_t consumed_segment(std::uint64_t tokens) {
  std::uint64_t segment = 4096;
  while (tokens / segment >= max_consumed_digests) {
    segment *= 2;
  }
  return segment;
}

/// The error of a file that was changed in a part that counts. `byte` is the place of
/// the read that has found it.
error token_set::changed(std::size_t leaf, std::uint64_t byte) const {
  return error(errc::history_mismatch,
               fmt::format("cannot read source \"{}\": expected its bytes as when it "
                           "was attached, found others",
                           leaves_.name(leaf)))
      .located(fmt::format("{}:{}", leaves_.name(leaf), byte))
      .hint("restore the file and resume the run; write later text to another file");
}

/// Compares a segment with its digest, unless that was done since the last change.
///
/// `number` is that of the segment, `time` the last change of the file. The read of the
/// segment itself must not be checked, which `comparing_` prevents.
result<void> token_set::check_segment(std::size_t leaf, std::uint64_t byte,
                                      std::uint64_t number, std::uint64_t expected,
                                      std::int64_t time) {
  const auto known = compared_.find(number);
  if (known != compared_.end() && known->second == time) {
    return {};
  }
  const std::uint64_t length =
      segment_tokens_ != 0 ? segment_tokens_ : identity_.segment_tokens;
  const std::uint64_t start = number * length;
  comparing_ = true;
  auto digest = digest_tokens(*this, start, std::min(size_, start + length));
  comparing_ = false;
  WEIR_CHECK(digest);
  if (*digest != expected) {
    return changed(leaf, byte);
  }
  // The segment need not be read again until the file changes once more.
  compared_[number] = time;
  return {};
}

// The time of a change is taken after the bytes, so that it shows every change that they
// contain.
//
// `leaf` is the file of the tokens from `index` on, of which `count` were just read. It
// is called after every read.
result<void> token_set::check_again(std::size_t leaf, std::uint64_t index,
                                    std::size_t count) {
  const std::uint64_t length =
      segment_tokens_ != 0 ? segment_tokens_ : identity_.segment_tokens;
  if (comparing_ || length == 0) {
    return {};  // the segments are just being digested
  }
  // Nothing if the file was not changed since it was opened.
  const auto time = leaves_.changed_at(leaf);
  // Digests of the whole source, or only of what was consumed.
  const bool whole = segment_tokens_ == 0;
  // Not changed, and nothing that a cursor has brought along to compare with.
  if (!time && (whole || digests_.empty())) {
    return {};
  }
  const std::vector<std::uint64_t>& known = whole ? identity_.segments : digests_;
  const std::uint64_t byte = place_of(index).byte;
  // A segment without a digest was never consumed, so its change is allowed only if the
  // file has grown.
  bool all_known = true;
  for (std::uint64_t i = index / length; i * length < index + count; ++i) {
    if (i < known.size()) {
      WEIR_CHECK(check_segment(leaf, byte, i, known[i], time.value_or(0)));
    } else {
      all_known = false;
    }
  }
  // Text that was appended does not change what was there before.
  if (time && !all_known) {
    WEIR_TRY(const bool grown, leaves_.grown(leaf));
    return grown ? result<void>() : result<void>(changed(leaf, byte));
  }
  return {};
}

/// Digests the segments before a token that have no digest yet.
result<void> token_set::digest_until(std::uint64_t index) {
  const std::uint64_t count = std::min(index, size_) / segment_tokens_;
  while (digests_.size() < count) {
    const std::uint64_t start = digests_.size() * segment_tokens_;
    WEIR_TRY(const std::uint64_t digest,
             digest_tokens(*this, start, start + segment_tokens_));
    // The bytes were just read, so this is the time of the content that the digest has.
    compared_[digests_.size()] = leaves_.changed_at(place_of(start).leaf).value_or(0);
    digests_.push_back(digest);
  }
  return {};
}

/// Returns the ranges that are left out and the digests of all whole segments before
/// `index`. Empty if there are neither.
result<byte_vector> token_set::state(std::uint64_t index) const {
  if (segment_tokens_ == 0) {
    return byte_vector();
  }
  // Digests are values of the tokens before `index`, which are computed when they are
  // asked for first.
  WEIR_CHECK(const_cast<token_set*>(this)->digest_until(index));  // NOLINT
  const std::uint64_t count = std::min(index, size_) / segment_tokens_;
  if (count == 0 && left_out_.all().empty()) {
    return byte_vector();
  }
  record_writer out;
  // The older version is used where no range was named by a user.
  const bool by_hand = left_out_.any_by_hand();
  out.put(by_hand ? token_state_version : plain_state_version);
  left_out_.put(out, by_hand);
  out.put(segment_tokens_);
  out.put(count);
  out.put_all(std::span(digests_).first(static_cast<std::size_t>(count)));
  return std::move(out).take();
}

/// The ranges of the cursor come first, because they change the indices of all tokens
/// behind them.
result<void> token_set::restore_state(std::uint64_t index, bytes_view state) {
  record_reader from(state);
  const auto version = from.get<std::uint32_t>();
  if ((version < plain_state_version || version > token_state_version) &&
      !from.failed()) {
    return bad_state(
        fmt::format("version {} to {}", plain_state_version, token_state_version),
        fmt::format("{}", version));
  }
  left_out_list known;
  const bool ordered = known.get(from, version == token_state_version);
  const auto segment = from.get<std::uint64_t>();
  const std::size_t count = from.get_count<std::uint64_t>(8);
  auto digests = from.get_all<std::uint64_t>(count);
  if (from.failed() || !from.rest().empty()) {
    // The list has read itself completely, so only now its order is judged.
    return bad_state("its end behind the digests", "another length");
  }
  if (!ordered) {
    return bad_state("rising ranges that are left out", "others");
  }
  WEIR_CHECK(take_known(index, std::move(known)));
  if (left_out_.any_by_hand() && segment_tokens_ == 0) {
    segment_tokens_ = consumed_segment(identity_.tokens);
  }
  // A set of another size may have segments of another size, or digests of its own.
  if (segment == segment_tokens_ && segment != 0) {
    // A shorter source cannot have been consumed so far.
    if (count > size_ / segment) {
      return error(errc::position_out_of_bounds,
                   fmt::format("cannot restore the state of token files: expected at "
                               "least {} tokens, found {}",
                               count * segment, size_))
          .located(leaves_.name(leaves_.count() - 1))
          .hint("restore the files that the run began with, or start another run");
    }
    digests_ = std::move(digests);
    // Nothing is compared yet; each segment is compared when it is read.
    compared_.clear();
  }
  return {};
}

}  // namespace weir::storage
