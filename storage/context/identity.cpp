// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names, sizes and digests by which a changed source is noticed.
///
/// An identity has two parts. The list (names, sizes, joining rule) is always there.
/// Digests of the content are there only for sources up to a limit, because they cost one
/// pass over all bytes when the source is opened. A comparison reports the first file or
/// the first segment that differs, so that users can find what has changed.
#include "context/identity.hpp"

#include <fmt/core.h>

#include "weir/base/hash.hpp"

namespace weir::storage {

namespace {

/// Smallest number of tokens that one digest covers.
constexpr std::uint64_t smallest_segment = 4096;

/// Makes the error for a source that is not the one of the cursor.
error other_corpus(std::string expected, std::string found, std::string where) {
  return error(errc::history_mismatch,
               fmt::format("cannot resume on another corpus: expected {}, found {}",
                           expected, found))
      .located(std::move(where))
      .hint("restore the files that the run began with, or start another run");
}

/// Returns the index of the first token of a leaf; 0 if the source has an unknown size.
///
/// The leaves have ascending tokens, so a bisection finds it.
std::uint64_t first_token_of(const token_source& source, std::size_t leaf) {
  std::uint64_t low = 0;
  std::uint64_t high = source.size() == unknown_size ? 0 : source.size();
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (source.place_of(middle).leaf < leaf) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Compares the lists of files, and names the first file that differs. With `grown`, the
/// last file may have become longer, and further files may follow it.
result<void> compare_leaves(const source_identity& expected, const source_identity& found,
                            const token_source& source, bool grown) {
  const std::size_t common = std::min(expected.leaves.size(), found.leaves.size());
  for (std::size_t i = 0; i < common; ++i) {
    const source_leaf& a = expected.leaves[i];
    const source_leaf& b = found.leaves[i];
    // Only the last file of the list may have grown.
    const bool longer = grown && i + 1 == expected.leaves.size() && a.bytes < b.bytes;
    if (a.name != b.name || (a.bytes != b.bytes && !longer)) {
      return other_corpus(fmt::format("file {} \"{}\" of {} bytes", i, a.name, a.bytes),
                          fmt::format("\"{}\" of {} bytes", b.name, b.bytes),
                          source.place_text(first_token_of(source, i)));
    }
  }
  if (expected.leaves.size() > found.leaves.size() ||
      (expected.leaves.size() < found.leaves.size() && !grown)) {
    return other_corpus(
        fmt::format("{} files", expected.leaves.size()),
        fmt::format("{} files", found.leaves.size()),
        // The first file that is too many, or the begin.
        source.place_text(common < found.leaves.size() ? first_token_of(source, common)
                                                       : 0));
  }
  return {};
}

}  // namespace

/// Two identities with equal digests are taken for equal.
std::uint64_t source_identity::digest() const {
  record_writer out;
  put_identity(out, *this);
  return xxh3_64(out.view());
}

/// Only the last component of the path counts, so that files may be moved together.
source_leaf make_leaf(const std::string& path, std::uint64_t bytes) {
  source_leaf leaf;
  leaf.name = path.substr(path.find_last_of('/') + 1);
  leaf.name_hash = xxh3_64(as_view(leaf.name));
  leaf.bytes = bytes;
  return leaf;
}

// The digest covers all leaves, even those that are too many to be listed.
//
// `rule` says how the leaves are joined. The list is kept only up to
// `max_listed_leaves`.
void set_leaves(source_identity& identity, std::vector<source_leaf> leaves,
                std::uint32_t rule) {
  record_writer out;
  out.put(rule);
  for (const source_leaf& leaf : leaves) {
    out.put(leaf.name_hash);
    out.put(leaf.bytes);
  }
  identity.list_digest = xxh3_64(out.view());
  if (leaves.size() <= max_listed_leaves) {
    identity.leaves = std::move(leaves);
  }
}

/// Digest of the tokens from `start` to `end - 1`, as words of 32 bits, read in pieces.
result<std::uint64_t> digest_tokens(token_source& source, std::uint64_t start,
                                    std::uint64_t end) {
  std::vector<std::uint32_t> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(64 * 1024, end - start)));
  xxh3_stream hash;
  for (std::uint64_t offset = start; offset < end;) {
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(end - offset, piece.size()));
    WEIR_TRY(const std::size_t got, source.read(offset, std::span(piece).first(want)));
    // The source ends too early.
    if (got == 0) {
      return error(errc::source_unavailable,
                   fmt::format("cannot digest source: expected {} tokens, found {}",
                               source.size(), offset))
          .located(source.place_text(offset));
    }
    record_writer bytes;
    bytes.put_all(std::span<const std::uint32_t>(piece).first(got));
    hash.update(bytes.view());
    offset += got;
  }
  return hash.digest();
}

// The segments double in size until `max_segments` of them cover the source, so that an
// identity stays small for any corpus.
//
// The size must be known.
result<void> digest_content(token_source& source, source_identity& identity) {
  std::uint64_t segment = smallest_segment;
  while ((source.size() + segment - 1) / segment > max_segments) {
    segment *= 2;
  }
  std::vector<std::uint64_t> segments;
  for (std::uint64_t start = 0; start < source.size(); start += segment) {
    const std::uint64_t end = std::min(source.size(), start + segment);
    WEIR_TRY(const std::uint64_t digest, digest_tokens(source, start, end));
    segments.push_back(digest);
  }
  identity.segment_tokens = segment;
  identity.segments = std::move(segments);
  return {};
}

/// The ranges of a part, with its leaves renumbered by those of the parts before it.
void append_left_out(std::vector<left_out_range>& all, const token_source& part,
                     std::uint64_t index, std::uint64_t first_leaf) {
  for (left_out_range range : part.left_out(index)) {
    range.leaf += first_leaf;
    all.push_back(range);
  }
}

/// The encoding is part of checkpoints and must not change.
void put_identity(record_writer& to, const source_identity& identity) {
  to.put(identity.tokens);
  to.put(identity.list_digest);
  to.put(static_cast<std::uint32_t>(identity.leaves.size()));
  for (const source_leaf& leaf : identity.leaves) {
    to.put_text(leaf.name);
    to.put(leaf.name_hash);
    to.put(leaf.bytes);
  }
  to.put(identity.segment_tokens);
  to.put(static_cast<std::uint32_t>(identity.segments.size()));
  to.put_all(std::span<const std::uint64_t>(identity.segments));
}

/// Inverse of `put_identity`. Whether it succeeded is asked of the reader.
source_identity get_identity(record_reader& from) {
  source_identity out;
  out.tokens = from.get<std::uint64_t>();
  out.list_digest = from.get<std::uint64_t>();
  // A leaf has at least 20 bytes: the length of its name, a hash and a size.
  const std::size_t leaves = from.get_count<std::uint32_t>(20);
  for (std::size_t i = 0; i < leaves && !from.failed(); ++i) {
    source_leaf leaf;
    leaf.name = from.get_text();
    leaf.name_hash = from.get<std::uint64_t>();
    leaf.bytes = from.get<std::uint64_t>();
    out.leaves.push_back(std::move(leaf));
  }
  out.segment_tokens = from.get<std::uint64_t>();
  const std::size_t segments = from.get_count<std::uint32_t>(8);
  out.segments = from.get_all<std::uint64_t>(segments);
  return out;
}

namespace {

/// Returns whether all tokens of an identity are covered by digests. Live sources have no
/// size and are never digested.
bool is_digested(const source_identity& identity) {
  return identity.segment_tokens != 0 && identity.tokens != unknown_size;
}

/// Returns the digest of the tokens from `start` to `end - 1`: a stored one, if the
/// source has the same segment, else one of the tokens.
result<std::uint64_t> segment_of(token_source& source, std::uint64_t segment,
                                 std::uint64_t start, std::uint64_t end) {
  const source_identity& found = source.identity();
  // The segment is complete, or it is the last one.
  const bool whole = end - start == segment || end == found.tokens;
  if (segment == found.segment_tokens && whole) {
    return found.segments[start / segment];
  }
  return digest_tokens(source, start, end);
}

/// Checks that a stored identity has one digest for each segment.
///
/// Without this, a damaged checkpoint could lead behind the list of digests.
result<void> check_segments(const source_identity& stored) {
  const std::uint64_t whole = stored.tokens / stored.segment_tokens;
  const std::uint64_t count =
      whole + (stored.tokens % stored.segment_tokens != 0 ? 1 : 0);
  if (count == stored.segments.size()) {
    return {};
  }
  return error(errc::corrupt,
               fmt::format("cannot read the identity of a source: expected {} digests of "
                           "{} tokens each, found {}",
                           count, stored.segment_tokens, stored.segments.size()))
      .hint("go on from another checkpoint");
}

/// Compares the digested tokens of an identity with those of a source.
result<void> compare_content(const source_identity& expected, token_source& source) {
  const std::uint64_t segment = expected.segment_tokens;
  for (std::size_t i = 0; i < expected.segments.size(); ++i) {
    const std::uint64_t start = i * segment;
    // The last segment may be shorter.
    const std::uint64_t end = start + std::min(segment, expected.tokens - start);
    WEIR_TRY(const std::uint64_t found, segment_of(source, segment, start, end));
    if (expected.segments[i] != found) {
      return other_corpus(
          fmt::format("digest {} of the tokens from {} to {}",
                      hex64(expected.segments[i]), source.place_text(start),
                      source.place_text(end - 1)),
          hex64(found), source.place_text(start));
    }
  }
  return {};
}

}  // namespace

// The content decides if both sources are digested: a file may have been renamed. Else
// names and sizes are compared, and then the totals, for leaves that are not listed.
//
// `grown` allows text that was appended. Whether the old part is unchanged is then shown
// by digests, if there are any.
result<void> compare_identity(const source_identity& expected, token_source& source,
                              bool grown) {
  const source_identity& found = source.identity();
  const bool longer = grown && found.tokens != unknown_size &&
                      expected.tokens != unknown_size && found.tokens > expected.tokens;
  if (is_digested(expected)) {
    WEIR_CHECK(check_segments(expected));
  }
  // Behind the end of a text that has grown, the digests of its last segment are made of
  // its tokens, which lack what is left out.
  const bool digested = is_digested(expected) && is_digested(found) &&
                        (!longer || source.left_out(unknown_size).empty());
  // The content is the same if all segments are.
  if (digested && (longer || expected.tokens == found.tokens)) {
    return compare_content(expected, source);
  }
  WEIR_CHECK(compare_leaves(expected, found, source, longer));
  // The list has too many files to be compared one by one.
  if (!longer &&
      (expected.list_digest != found.list_digest || expected.tokens != found.tokens)) {
    return other_corpus(
        fmt::format("{} tokens, list digest {}", expected.tokens,
                    hex64(expected.list_digest)),
        fmt::format("{} tokens, list digest {}", found.tokens, hex64(found.list_digest)),
        source.place_text(0));
  }
  return {};
}

}  // namespace weir::storage
