// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the ids of several files as one source.
///
/// A source is the joined list of runs. Each run is a piece of a file with consecutive
/// ids, and may be followed by a separator. `place_runs` computes the first index of
/// each run, so a bisection finds the run of a token.
#include "context/files/token_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/hash.hpp"

namespace weir::storage {

namespace {

/// Largest number of bytes of one read from a leaf. Limits the memory of one read.
constexpr std::size_t max_read = std::size_t{4} << 20;
/// Largest vocabulary of token files.
constexpr std::uint32_t max_file_vocabulary = std::uint32_t{1} << 31;
/// Largest id between documents: the vocabulary, one more, is a number of 32 bits.
constexpr std::uint32_t max_separator = 0xffff'fffe;

/// Widens ids to 32 bits. What does not fit becomes the largest number, which no
/// vocabulary has.
///
/// Returns the largest id, so that one comparison checks all of them.
template <class T>
std::uint32_t widen(bytes_view from, std::span<std::uint32_t> to) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto id =
        static_cast<T>(load_le<std::make_unsigned_t<T>>(from.data() + i * sizeof(T)));
    if constexpr (sizeof(T) == 8) {
      to[i] = static_cast<std::uint64_t>(id) > 0xffff'ffff
                  ? 0xffff'ffff
                  : static_cast<std::uint32_t>(id);
    } else {
      to[i] = static_cast<std::uint32_t>(id);  // negative ids become large ones
    }
    largest = std::max(largest, to[i]);
  }
  return largest;
}

/// Returns an id as the file has it, for messages.
std::string text_of_id(id_encoding ids, bytes_view from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < ids.bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  }
  if (!ids.is_signed) {
    return fmt::to_string(value);
  }
  // Extends the sign.
  const unsigned unused = 64U - 8U * ids.bytes;
  return fmt::to_string(static_cast<std::int64_t>(value << unused) >> unused);
}

}  // namespace

/// `from` has `to.size()` ids of the width of `ids`.
std::uint32_t widen_ids(id_encoding ids, bytes_view from, std::span<std::uint32_t> to) {
  switch (ids.bytes) {
    case 1:
      return ids.is_signed ? widen<std::int8_t>(from, to) : widen<std::uint8_t>(from, to);
    case 2:
      return ids.is_signed ? widen<std::int16_t>(from, to)
                           : widen<std::uint16_t>(from, to);
    // Negative ids of 32 bits become large numbers, too.
    case 4: return widen<std::uint32_t>(from, to);
    default: return widen<std::uint64_t>(from, to);
  }
}

/// Opens the source: sizes, layouts, vocabulary, identity, digests, and the ranges of
/// damage if the policy leaves them out. The identity is computed before any range is
/// known, so it does not depend on damage.
result<void> token_set::attach() {
  WEIR_CHECK(leaves_.measure());
  WEIR_CHECK(read_layouts());
  WEIR_CHECK(choose_ids());
  std::vector<source_leaf> listed;
  std::uint64_t bytes = 0;
  for (std::size_t leaf = 0; leaf < leaves_.count(); ++leaf) {
    // The limit of 2^60 bytes keeps all later sums of tokens small.
    if (!checked_add(bytes, leaves_.size(leaf), bytes) || bytes >> 60 != 0) {
      return error(errc::source_unavailable,
                   fmt::format("cannot attach source \"{}\": the set is too large",
                               leaves_.name(leaf)))
          .located(leaves_.name(leaf));
    }
    listed.push_back(make_leaf(leaves_.name(leaf), leaves_.size(leaf)));
  }
  WEIR_CHECK(place_runs());
  // What is left out is part of a state, not of the identity.
  identity_.tokens = size_;
  set_leaves(identity_, std::move(listed), rule());
  const bool skips = options_.on_damage == damage_policy::skip;
  // Large sources and damaged ones get digests of what was consumed instead.
  if (skips || bytes > options_.digest_limit) {
    segment_tokens_ = consumed_segment(identity_.tokens);
  } else {
    WEIR_CHECK(digest_content(*this, identity_));
  }
  if (skips) {
    WEIR_CHECK(find_damage());
    WEIR_CHECK(place_runs());
  }
  return {};
}

/// All files must have one format, because one rule joins them.
result<void> token_set::read_layouts() {
  for (std::size_t leaf = 0; leaf < leaves_.count(); ++leaf) {
    WEIR_TRY(leaf_layout one, read_layout(fs_, leaves_, leaf, options_.format));
    if (leaf > 0 && one.format != layouts_.front().format) {
      return error(
                 errc::invalid_argument,
                 fmt::format("cannot join \"{}\" and \"{}\": expected one format of all "
                             "files, found {} and {}",
                             leaves_.name(0), leaves_.name(leaf),
                             name_of(layouts_.front().format), name_of(one.format)))
          .located(leaves_.name(leaf))
          .hint("name files of another format in a source of their own");
    }
    layouts_.push_back(std::move(one));
  }
  return {};
}

/// Chooses vocabulary and separator. The widest of the formats counts.
///
/// The separator is an id of its own behind the vocabulary, unless the options name one.
/// A source counts its ids in 32 bits, the separator included.
result<void> token_set::choose_ids() {
  if (options_.vocabulary > max_file_vocabulary) {
    return error(errc::invalid_argument,
                 fmt::format("cannot read \"{}\" as tokens: expected at most {} distinct "
                             "ids, found vocabulary = {}",
                             leaves_.name(0), max_file_vocabulary, options_.vocabulary))
        .located(leaves_.name(0));
  }
  if (options_.separator > max_separator) {
    return error(
               errc::invalid_argument,
               fmt::format("cannot read \"{}\" as tokens: expected an end-of-text id of "
                           "at most {}, found {}",
                           leaves_.name(0), max_separator, *options_.separator))
        .located(leaves_.name(0))
        .hint("leave the id unset to separate documents by a new id");
  }
  vocabulary_ = options_.vocabulary;
  // Without a stated vocabulary, every format must imply one.
  for (std::size_t leaf = 0; options_.vocabulary == 0 && leaf < layouts_.size(); ++leaf) {
    if (layouts_[leaf].vocabulary == 0) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read \"{}\" as tokens: expected the number of "
                               "distinct ids, which {} signed or wide ids do not imply, "
                               "found none",
                               leaves_.name(leaf), name_of(layouts_[leaf].format)))
          .located(leaves_.name(leaf))
          .hint("state vocabulary = N; every id is smaller than N");
    }
    vocabulary_ = std::max(vocabulary_, layouts_[leaf].vocabulary);
  }
  separator_ = options_.separator.value_or(static_cast<std::uint32_t>(vocabulary_));
  // A separator below the vocabulary occurs in the files themselves.
  separator_in_files_ = separator_ < vocabulary_;
  return {};
}

/// Returns the number of ids, the separator included if it can occur.
///
/// Damage that is skipped may end documents anywhere, so a separator must then be
/// expected.
std::uint32_t token_set::vocabulary() const noexcept {
  const bool separates =
      options_.separate_documents && (options_.on_damage == damage_policy::skip ||
                                      std::ranges::any_of(runs_, &run::separated));
  return static_cast<std::uint32_t>(
      separates ? std::max<std::uint64_t>(vocabulary_, separator_ + 1ULL) : vocabulary_);
}

/// Returns the rule by which the leaves are joined: 0 or 1 for bytes, else a hash of the
/// format with a bit that makes it neither.
///
/// The rule is part of the identity: sources that join the same files differently are
/// different texts.
std::uint32_t token_set::rule() const {
  const std::uint32_t separates = options_.separate_documents ? 1 : 0;
  const bool bytes = layouts_.front().format == token_format::bytes &&
                     options_.tag.empty() && vocabulary_ == 256 && separator_ == 256;
  if (bytes) {
    return separates;
  }
  record_writer out;
  out.put(static_cast<std::uint32_t>(layouts_.front().format));
  out.put(layouts_.front().ids.bytes);
  out.put(separates);
  out.put(vocabulary_);
  out.put(separator_);
  return static_cast<std::uint32_t>(xxh3_64(out.view())) | 2U;
}

/// Adds the ids of a leaf from one byte to another as a run.
///
/// `ends` says that a document ends behind the part.
void token_set::add_part(std::uint64_t leaf, std::uint64_t begin, std::uint64_t end,
                         bool ends) {
  const std::uint64_t tokens = (end - begin) / layouts_[leaf].ids.bytes;
  if (tokens != 0) {
    runs_.push_back({size_, begin, tokens, leaf, ends && options_.separate_documents});
    size_ += tokens + (runs_.back().separated ? 1 : 0);
  } else if (ends && !runs_.empty() && !runs_.back().separated &&
             options_.separate_documents) {
    // The rest of a document is left out, so it ends with its last ids.
    runs_.back().separated = true;
    ++size_;
  }
}

/// Gives every run of ids its index, without the ranges that are left out. No separator
/// follows the last run.
///
/// Called again whenever the ranges change; all indices behind a range move.
result<void> token_set::place_runs() {
  runs_.clear();
  size_ = 0;
  for (std::uint64_t leaf = 0; leaf < layouts_.size(); ++leaf) {
    for (const token_run& r : layouts_[leaf].runs) {
      std::uint64_t at = r.byte;
      const std::uint64_t end = r.byte + r.tokens * layouts_[leaf].ids.bytes;
      // The first range that ends behind the begin of the run.
      const auto gaps = left_out_.all();
      auto gap = std::ranges::partition_point(gaps, [&](const left_out_range& g) {
        return g.leaf < leaf || (g.leaf == leaf && g.byte + g.bytes <= at);
      });
      for (; gap != gaps.end() && gap->leaf == leaf && gap->byte < end; ++gap) {
        // A user can choose the ends of documents, so nothing ends in a range by hand.
        add_part(leaf, at, std::max(at, gap->byte), !gap->by_hand);
        at = std::min(end, gap->byte + gap->bytes);
      }
      add_part(leaf, at, end, r.ends);
    }
  }
  // Everything is left out.
  if (runs_.empty()) {
    return error(
               errc::source_unavailable,
               fmt::format("cannot attach source \"{}\": expected at least 1 token that "
                           "can be read, found 0",
                           leaves_.name(0)))
        .located(leaves_.name(0));
  }
  // The last document has no separator behind it.
  if (runs_.back().separated) {
    runs_.back().separated = false;
    --size_;
  }
  return {};
}

/// A separator belongs to the run before it.
std::size_t token_set::run_of(std::uint64_t index) const {
  const auto after = std::ranges::upper_bound(runs_, index, {}, &run::start);
  return static_cast<std::size_t>(after - runs_.begin()) - 1;
}

/// Reads ids from a byte of a leaf on. An id that is not below the vocabulary is an
/// error.
///
/// The buffer `bytes_` is kept between calls.
result<void> token_set::read_ids(std::size_t leaf, std::uint64_t byte,
                                 std::span<std::uint32_t> to) {
  const id_encoding ids = layouts_[leaf].ids;
  bytes_.resize(to.size() * ids.bytes);
  WEIR_CHECK(leaves_.read(leaf, byte, bytes_));
  if (widen_ids(ids, bytes_, to) < vocabulary_) {
    return {};
  }
  // Only now the id is searched for, because it is rare.
  const auto bad = std::ranges::find_if(to, [&](auto id) { return id >= vocabulary_; });
  const auto at = static_cast<std::uint64_t>(bad - to.begin()) * ids.bytes;
  return error(errc::out_of_range,
               fmt::format("cannot read source \"{}\": expected ids below {}, found {}",
                           leaves_.name(leaf), vocabulary_,
                           text_of_id(ids, bytes_view(bytes_).subspan(at))))
      .located(fmt::format("{}:{}", leaves_.name(leaf), byte + at))
      .hint(
          "state the vocabulary or the format of the file, or leave such ids out with "
          "on_damage = \"skip\"");
}

/// Reads tokens of one leaf, as many as lie one behind another in it: the ids of several
/// runs are read together, and the separators between them are put in from the back.
///
/// An example: runs of 2 and 3 ids with a separator between them are read as five ids,
/// and then the last three move back by one place.
result<std::size_t> token_set::read_joined(std::uint64_t index,
                                           std::span<std::uint32_t> to) {
  const std::size_t first = run_of(index);
  const run& r = runs_[first];
  const std::uint64_t inside = index - r.start;
  // The token is the separator behind the run.
  if (inside == r.tokens) {
    to[0] = separator_;
    return std::size_t{1};
  }
  const std::uint64_t width = layouts_[r.leaf].ids.bytes;
  // Limits the bytes, with up to 8 per id.
  const std::uint64_t wanted = std::min<std::uint64_t>(to.size(), max_read / 8);
  std::size_t last = first;
  std::uint64_t ids = std::min<std::uint64_t>(r.tokens - inside, wanted);
  std::uint64_t all = ids;
  // Takes further runs as long as their ids follow in the file.
  while (all < wanted && last + 1 < runs_.size() && runs_[last + 1].leaf == r.leaf &&
         runs_[last + 1].byte == runs_[last].byte + runs_[last].tokens * width) {
    const std::uint64_t between = runs_[last].separated ? 1 : 0;
    // The next run would give no id any more.
    if (all + between == wanted) {
      break;
    }
    ++last;
    const std::uint64_t more =
        std::min<std::uint64_t>(runs_[last].tokens, wanted - all - between);
    ids += more;
    all += between + more;
  }
  const std::uint64_t byte = byte_in(r, inside);
  WEIR_CHECK(read_ids(r.leaf, byte, to.first(static_cast<std::size_t>(ids))));
  // From the back, so that no id is overwritten before it has moved.
  std::uint64_t end = ids;  // behind the ids of run i, as they were read
  for (std::size_t i = last; i > first; --i) {
    const std::uint64_t from = (runs_[i].byte - byte) / width;
    const std::uint64_t target = runs_[i].start - index;
    std::copy_backward(to.begin() + static_cast<std::ptrdiff_t>(from),
                       to.begin() + static_cast<std::ptrdiff_t>(end),
                       to.begin() + static_cast<std::ptrdiff_t>(target + end - from));
    if (runs_[i - 1].separated) {
      to[static_cast<std::size_t>(target) - 1] = separator_;
    }
    end = from;
  }
  // After the read, so that a change of the file during the read is noticed.
  WEIR_CHECK(check_again(r.leaf, index, static_cast<std::size_t>(all)));
  return static_cast<std::size_t>(all);
}

/// Goes on until `to` is full or the source ends.
result<std::size_t> token_set::read(std::uint64_t index, std::span<std::uint32_t> to) {
  std::size_t done = 0;
  while (done < to.size() && index + done < size_) {
    WEIR_TRY(const std::size_t got, read_joined(index + done, to.subspan(done)));
    done += got;
  }
  return done;
}

/// The place behind the last token is the end of the last run.
token_source::place token_set::place_of(std::uint64_t index) const {
  const std::uint64_t at = std::min(index, size_);
  const run& r = runs_[run_of(at)];
  return {r.leaf, byte_in(r, std::min(at - r.start, r.tokens))};
}

std::string token_set::place_text(std::uint64_t index) const {
  const place p = place_of(index);
  return fmt::format("{}:{}", leaves_.name(p.leaf), p.byte);
}

// Documents begin behind separators, which lie between runs or within them.
//
// Returns the size if no document begins behind `index`. It reads the source if
// separators occur in the files.
result<std::uint64_t> token_set::next_document(std::uint64_t index) {
  if (index == 0 || index >= size_) {
    return std::min(index, size_);
  }
  // The first run at or behind the index that begins a document.
  auto next = std::ranges::lower_bound(runs_, index, {}, &run::start);
  while (next != runs_.end() && !(next - 1)->separated) {
    ++next;
  }
  const std::uint64_t end = next == runs_.end() ? size_ : next->start;
  std::vector<std::uint32_t> piece(separator_in_files_ ? 4096 : 0);
  // A separator at the index before makes `index` itself a begin.
  for (std::uint64_t at = index - 1; separator_in_files_ && at < end;) {
    WEIR_TRY(const std::size_t got, read(at, piece));
    const std::span<const std::uint32_t> ids = std::span(piece).first(got);
    const auto found = std::find(ids.begin(), ids.end(), separator_);
    at += static_cast<std::uint64_t>(found - ids.begin());
    if (found != ids.end()) {
      return std::min(at + 1, end);
    }
  }
  return end;
}

/// Opens several files, or one, as one source.
result<std::unique_ptr<token_source>> open_token_files(
    file_system& fs, std::vector<std::string> paths, const token_file_options& options) {
  if (paths.empty()) {
    return error(errc::invalid_argument,
                 "cannot attach a set of files: expected at least 1, found 0");
  }
  auto source = std::make_unique<token_set>(fs, std::move(paths), options);
  WEIR_CHECK(source->attach());
  return std::unique_ptr<token_source>(std::move(source));
}

/// Opens files as plain bytes, with the options of a source.
result<std::unique_ptr<token_source>> open_file_set(file_system& fs,
                                                    std::vector<std::string> paths,
                                                    source_options options) {
  token_file_options given;
  given.format = token_format::bytes;
  given.separate_documents = options.separate_documents;
  given.digest_limit = options.digest_limit;
  return open_token_files(fs, std::move(paths), given);
}

/// Opens one file as plain bytes.
result<std::unique_ptr<token_source>> open_file_source(file_system& fs,
                                                       const std::string& path,
                                                       source_options options) {
  return open_file_set(fs, {path}, options);
}

}  // namespace weir::storage
