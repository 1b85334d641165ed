// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes text files while they are read.
///
/// Every cut that the stream of the tokenizer finds becomes a mark: the index of the next
/// id, the file and the place of the cut. The state at an index is the last mark at or
/// before it and the number of ids since. All ids of the last block of a file become
/// known together with the mark of the next file, so the marks before an index are known
/// whenever the ids before it are.
///
/// A range that is left out ends a text as the end of a file does. It has a mark before
/// it and one behind it, so the ranges of a state are those at or before its mark.
#include "stages/prose/source/tokenized.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "stages/prose/source/text_files.hpp"

#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::actors {
namespace {

/// Number of the newest ids that stay readable, as of a pipe.
constexpr std::size_t kept_ids = std::size_t{1} << 20;
/// Version of a state without and with ranges that are left out.
constexpr std::uint32_t whole_version = 1;
constexpr std::uint32_t tokenized_version = 2;

/// A cut, from which encoding can go on.
struct cut_mark {
  std::uint64_t index = 0;   ///< index of the first id behind the cut
  std::uint64_t file = 0;    ///< number of the file
  std::uint64_t offset = 0;  ///< byte of the file
  std::uint8_t inside = 0;   ///< as in `formats::token_cursor`
  std::uint8_t begun = 0;    ///< as in `formats::token_cursor`
};

/// A source of ids. The newest `kept_ids` can be read again; older positions need a
/// state.
class tokenized_text final : public storage::token_source {
 public:
  /// @param with  Must be able to encode a stream; `attach` checks it.
  tokenized_text(file_system& fs, std::vector<std::string> paths, formats::tokenizer with,
                 const tokenized_options& options)
      : files_(fs, std::move(paths), options.skip_damage),
        with_(std::move(with)),
        options_(options) {
    // Without a setting, the tokenizer says which id separates texts.
    separator_ = options_.separator.value_or(end_of_text_id(with_));
  }

  /// Measures the files and makes the identity of the source, which a resumed run
  /// compares.
  result<void> attach() {
    // Fails if the tokenizer cannot encode a stream.
    WEIR_CHECK(formats::token_stream::open(with_, stream_options()));
    // Everything that decides about ids counts for the identity.
    record_writer list;
    list.put(with_.digest());
    list.put(separator_);
    list.put(std::uint32_t{options_.separate_documents});
    list.put(std::uint32_t{options_.skip_damage});
    WEIR_CHECK(files_.measure());
    for (std::uint64_t file = 0; file < files_.count(); ++file) {
      const std::string& path = files_.path(file);
      storage::source_leaf leaf;
      // Folders may move, so only the name counts.
      leaf.name = path.substr(path.find_last_of('/') + 1);
      leaf.name_hash = xxh3_64(as_view(leaf.name));
      leaf.bytes = files_.size(file);
      list.put(leaf.name_hash);
      list.put(leaf.bytes);
      identity_.leaves.push_back(std::move(leaf));
    }
    // A long list of files is replaced by its digest.
    if (identity_.leaves.size() > storage::max_listed_leaves) {
      identity_.leaves.clear();
    }
    identity_.list_digest = xxh3_64(list.view());
    // The begin of the first file is a cut.
    marks_.push_back({});
    return {};
  }

  /// Known only at the end of the text.
  std::uint64_t size() const noexcept override { return storage::unknown_size; }
  /// Only by a state.
  bool seekable() const noexcept override { return false; }
  /// See `kept_ids`.
  std::uint64_t kept_tokens() const noexcept override { return kept_ids; }
  /// Id between texts.
  std::uint32_t separator() const noexcept override { return separator_; }
  // A file alone has no separator behind it, unless damage puts one inside.
  std::uint32_t vocabulary() const noexcept override {
    const bool separates =
        options_.separate_documents && (files_.count() > 1 || options_.skip_damage);
    return separates ? std::max(with_.vocabulary_size(), separator_ + 1)
                     : with_.vocabulary_size();
  }
  const storage::source_identity& identity() const noexcept override { return identity_; }

  /// Returns fewer ids than asked for at the end of the text, and then 0.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    if (index < first_) {
      return error(errc::source_unavailable,
                   fmt::format("cannot read tokenised text again: expected a position "
                               "from {} on, found {}",
                               first_, index))
          .located(place_text(index));
    }
    // Encodes on until the wanted ids are known.
    // At most a block more than is needed.
    WEIR_CHECK(fill(index - first_ + to.size()));
    const std::uint64_t start = index - first_;
    if (start >= ids_.size()) {
      return std::size_t{0};
    }
    const std::size_t count = std::min<std::uint64_t>(to.size(), ids_.size() - start);
    std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(start), count, to.begin());
    forget();
    return count;
  }
  /// File and byte, for messages.
  std::string place_text(std::uint64_t index) const override {
    const place p = place_of(index);
    return fmt::format("{}:{}", files_.path(p.leaf), p.byte);
  }
  /// Place of the last cut at or before an index, for people.
  place place_of(std::uint64_t index) const override {
    const cut_mark& mark = mark_before(index);
    return {mark.file, mark.offset};
  }
  /// Documents begin behind separators. Reads on until one is found.
  result<std::uint64_t> next_document(std::uint64_t index) override {
    for (std::uint64_t at = std::max<std::uint64_t>(index, first_ + 1);; ++at) {
      WEIR_CHECK(fill(at - first_));
      // The text has ended.
      if (at - first_ > ids_.size()) {
        return first_ + ids_.size();
      }
      // The id before the document.
      if (ids_[static_cast<std::size_t>(at - first_ - 1)] == separator_) {
        return at;
      }
    }
  }

  /// The state is the last mark before the index and the number of ids since, with the
  /// ranges before it. The ids between are encoded again on resuming.
  result<byte_vector> state(std::uint64_t index) const override {
    const cut_mark& mark = mark_before(index);
    // The ids of the position must be kept or come next.
    if (mark.index > index || index > first_ + ids_.size()) {
      return error(errc::source_unavailable,
                   fmt::format("cannot make the state of tokenised text: expected a "
                               "position from {} to {}, found {}",
                               marks_.front().index, first_ + ids_.size(), index))
          .located(place_text(index));
    }
    WEIR_TRY(const std::uint64_t before, files_.digest_before(mark.file, mark.offset));
    const storage::left_out_list ranges = files_.left_out(mark.file, mark.offset);
    record_writer out;
    // Without ranges, the state has the form of the first version.
    out.put(ranges.all().empty() ? whole_version : tokenized_version);
    out.put(std::uint16_t{mark.inside});
    out.put(std::uint16_t{mark.begun});
    out.put(mark.file);
    out.put(mark.offset);
    out.put(index - mark.index);
    out.put(with_.digest());
    out.put(before);
    if (!ranges.all().empty()) {
      ranges.put(out, true);
    }
    return std::move(out).take();
  }
  /// Takes a state. Several may be given; see below.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    record_reader from(state);
    const auto version = from.get<std::uint32_t>();
    cut_mark mark;
    mark.inside = static_cast<std::uint8_t>(from.get<std::uint16_t>());
    mark.begun = static_cast<std::uint8_t>(from.get<std::uint16_t>());
    mark.file = from.get<std::uint64_t>();
    mark.offset = from.get<std::uint64_t>();
    const auto since = from.get<std::uint64_t>();
    const auto digest = from.get<std::uint64_t>();
    const auto before = from.get<std::uint64_t>();
    storage::left_out_list ranges;
    const bool ordered = version != tokenized_version || ranges.get(from, true);
    // Every number is compared with the files before it is used.
    // The order of the tests matters: sizes are asked only of files that exist.
    if (from.failed() || !from.rest().empty() || version < whole_version ||
        version > tokenized_version || !ordered || mark.file >= files_.count() ||
        mark.offset > files_.size(mark.file) || since > index ||
        !files_.take(std::move(ranges))) {
      return error(errc::corrupt,
                   "cannot restore the state of tokenised text: expected a cut within "
                   "its files, found other bytes");
    }
    // The text before the cut must be the same.
    WEIR_TRY(const std::uint64_t found, files_.digest_before(mark.file, mark.offset));
    if (found != before) {
      return error(
                 errc::history_mismatch,
                 fmt::format("cannot resume: expected digest {} of the bytes before the "
                             "cut, found {}",
                             hex64(before), hex64(found)))
          .located(fmt::format("{}:{}", files_.path(mark.file), mark.offset))
          .hint("the data has changed; restore it, or start another run");
    }
    if (placed_) {
      return {};  // of several states, the first is the place and the last has all ranges
    }
    // The ids between the mark and the index are encoded again.
    mark.index = index - since;
    WEIR_CHECK(begin_at(mark, digest));
    placed_ = true;
    restored_ = index;
    return {};
  }
  /// Encodes the ids before the index without and with new ranges, and compares them.
  /// An empty setting changes nothing.
  result<void> go_on_at(std::uint64_t index) override {
    if (options_.skip.empty()) {
      return {};
    }
    // Without an index, nothing was consumed.
    if (index == storage::unknown_size) {
      return files_.leave_out(options_.skip, files_.count(), 0).map([](auto&&) {});
    }
    // The ids so far, without the new ranges.
    // The first mark is the one that was restored.
    const cut_mark from = marks_.front();
    const std::uint64_t count = index - std::min(index, first_);
    WEIR_CHECK(fill(count));
    const std::vector<std::uint32_t> before = first_ids(count);
    const cut_mark at = mark_before(index);
    WEIR_TRY(const auto added, files_.leave_out(options_.skip, at.file, at.offset));
    if (added.empty()) {
      return {};
    }
    // The same ids once more, with them. A difference means that a range lies too far in
    // front.
    WEIR_CHECK(begin_at(from, with_.digest()));
    WEIR_CHECK(fill(count));
    return first_ids(count) == before
               ? result<void>()
               : storage::consumed_range(added.front(), files_.path(added.front().leaf));
  }
  std::vector<storage::left_out_range> left_out(std::uint64_t index) const override {
    const cut_mark& mark = mark_before(index);
    const auto ranges = files_.left_out(mark.file, mark.offset);
    return {ranges.all().begin(), ranges.all().end()};
  }
  /// Encodes the ids since the cut once more and compares them. A range that the user
  /// wants to be left out may lie before the ids that were consumed, or a page may have
  /// become readable.
  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    // Only the position of the state can be compared.
    if (restored_ != index || before.size() > index) {
      return error(errc::unsupported,
                   "cannot continue tokenised text: expected a state for the position, "
                   "found none")
          .located(place_text(index))
          .hint("the checkpoint was made without a tokenizer; start another run");
    }
    // The ids since the mark of the state.
    const std::uint64_t since = index - first_;
    WEIR_CHECK(fill(since));
    const auto known = before.last(std::min<std::size_t>(before.size(), since));
    const bool same =
        ids_.size() >= since &&
        std::equal(known.begin(), known.end(),
                   ids_.begin() + static_cast<std::ptrdiff_t>(since - known.size()));
    if (!same) {
      return error(errc::history_mismatch,
                   fmt::format("cannot resume: expected the last {} tokens as consumed, "
                               "found others",
                               known.size()))
          .located(place_text(index))
          .hint(
              "the data has changed, or a range is to be left out that begins before "
              "the place at which the run goes on");
    }
    // The ids before the mark cannot be encoded again; they are taken as they were
    // stored.
    const auto older = before.first(before.size() - known.size());
    ids_.insert(ids_.begin(), older.begin(), older.end());
    first_ -= older.size();
    return {};
  }

 private:
  /// With damage allowed, invalid UTF-8 becomes the replacement character.
  [[nodiscard]] formats::token_stream_options stream_options() const {
    // Special ids would be in front of each text.
    return {.add_special_tokens = false,
            .invalid = options_.skip_damage ? formats::invalid_utf8::replace
                                            : formats::invalid_utf8::refuse};
  }
  /// Goes on at a cut, from which all ids are encoded again. Offsets of the tokenizer
  /// count from the start of its text.
  result<void> begin_at(const cut_mark& mark, std::uint64_t tokenizer) {
    // A text begins at a file or behind a range.
    base_ = files_.begin_of(mark.file, mark.offset);
    formats::token_cursor cursor;
    cursor.offset = mark.begun != 0 ? mark.offset - base_ : 0;
    cursor.tokenizer = tokenizer;
    cursor.inside = mark.inside;
    cursor.begun = mark.begun;
    cursor.add_special = 0;
    cursor.invalid = static_cast<std::uint8_t>(stream_options().invalid);
    WEIR_TRY(auto resumed, formats::token_stream::resume(with_, cursor));
    stream_.reset();
    if (mark.begun != 0) {
      stream_ = std::move(resumed);  // else a text begins there, or a range
    }
    // Older marks are of no use behind the new begin.
    marks_ = {mark};
    file_ = mark.file;
    offset_ = mark.offset;
    first_ = mark.index;
    ids_.clear();
    ended_ = false;
    return {};
  }

  /// Returns the last mark at or before an index; of several at one index the first,
  /// which is known as soon as the ids before it are.
  [[nodiscard]] const cut_mark& mark_before(std::uint64_t index) const {
    const auto after = std::ranges::upper_bound(marks_, index, {}, &cut_mark::index);
    if (after == marks_.begin()) {
      return marks_.front();
    }
    const std::uint64_t at = (after - 1)->index;
    return *std::ranges::lower_bound(marks_, at, {}, &cut_mark::index);
  }

  /// Returns the oldest ids that are kept, at most so many.
  [[nodiscard]] std::vector<std::uint32_t> first_ids(std::uint64_t count) const {
    const auto end =
        static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, ids_.size()));
    return {ids_.begin(), ids_.begin() + end};
  }
  /// Encodes until `count` ids are kept or the text ends.
  result<void> fill(std::uint64_t count) {
    // A block can give no ids, or many.
    while (!ended_ && ids_.size() < count) {
      WEIR_CHECK(step());
    }
    return {};
  }
  /// Encodes the next block. With the last one of a text, the start of the next text
  /// becomes known.
  result<void> step() {
    WEIR_TRY(const text_block block, files_.read(file_, offset_));
    // A text begins here: at a file, or behind a range.
    if (!stream_) {
      base_ = offset_;
      WEIR_TRY(stream_, formats::token_stream::open(with_, stream_options()));
    }
    auto done = stream_->push(block.bytes);
    // The tokenizer holds the last ids back until the text ends.
    if (done && block.last) {
      done = stream_->finish();
    }
    if (!done) {
      const errc code = done.error().code();
      return error(code, fmt::format("cannot encode \"{}\"", files_.path(file_)))
          .located(fmt::format("{}:{}", files_.path(file_), offset_))
          .because(std::move(done).error());
    }
    // The bytes count as pushed even if their ids are not known yet.
    // The place in an error is that of the block.
    offset_ += block.bytes.size();
    take_ids();
    if (block.last) {
      stream_.reset();
      block.left_out ? pass(*block.left_out) : enter_next_file();
    }
    return {};
  }
  /// Goes on behind a range that is left out.
  // A range of damage gets a separator in its place; a range of the user gets none.
  void pass(const storage::left_out_range& range) {
    marks_.push_back({first_ + ids_.size(), file_, range.byte, 0, 0});
    // The separator belongs to no text.
    if (!range.by_hand && options_.separate_documents) {
      ids_.push_back(separator_);
    }
    offset_ = range.byte + range.bytes;
    if (offset_ == files_.size(file_)) {
      // Nothing of the file is left.
      enter_next_file();
    } else {
      marks_.push_back({first_ + ids_.size(), file_, offset_, 0, 0});
    }
  }
  /// Takes the ids that are known, and notes the cuts between them.
  // A cut is noted once, when it moves.
  void take_ids() {
    const auto ready = stream_->ready();
    const std::size_t before = ids_.size();
    ids_.insert(ids_.end(), ready.begin(), ready.end());
    const std::size_t count = ready.size();
    for (std::size_t i = 0; i < count; ++i) {
      // The cursor of the tokenizer is that behind one id.
      stream_->take(1);
      const formats::token_cursor at = stream_->cursor();
      const std::uint64_t cut = base_ + at.offset;
      if (cut != marks_.back().offset) {
        marks_.push_back(
            {first_ + before + i + 1 - at.ids, file_, cut, at.inside, at.begun});
      }
    }
  }
  /// Begins the next text behind a separator, or ends the source.
  void enter_next_file() {
    if (file_ + 1 == files_.count()) {
      ended_ = true;
      return;
    }
    if (options_.separate_documents) {
      ids_.push_back(separator_);
    }
    ++file_;
    offset_ = 0;
    // The mark is the cut at the begin of the file.
    marks_.push_back({first_ + ids_.size(), file_, 0, 0, 0});
  }
  /// Drops old ids, and the marks that no id needs any more.
  // Twice as many are collected first, so that ids are moved seldom.
  void forget() {
    if (ids_.size() <= 2 * kept_ids) {
      return;
    }
    const std::size_t old = ids_.size() - kept_ids;
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(old));
    first_ += old;
    // The mark at or before the oldest id must stay.
    const cut_mark oldest = mark_before(first_);
    while (marks_.front().index < oldest.index) {
      marks_.pop_front();
    }
  }

  text_files files_;
  formats::tokenizer with_;
  tokenized_options options_;
  std::uint32_t separator_ = 0;
  storage::source_identity identity_;

  std::vector<std::uint32_t> ids_;  ///< the newest ids, the oldest first
  std::uint64_t first_ = 0;         ///< index of the first of them
  std::deque<cut_mark> marks_;      ///< with rising indices; never empty
  std::uint64_t file_ = 0;          ///< file that is being encoded
  std::uint64_t offset_ = 0;        ///< bytes of it that were pushed
  std::uint64_t base_ = 0;          ///< byte at which its text begins
  std::optional<formats::token_stream> stream_;
  std::uint64_t restored_ = 0;  ///< index of the state that was restored
  bool placed_ = false;         ///< a state was restored
  // The last text has ended.
  bool ended_ = false;
};

}  // namespace

/// Returns the usual end-of-text id of a tokenizer, or a new id if it has none.
std::uint32_t end_of_text_id(const formats::tokenizer& with) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"}) {
    if (const auto id = with.id(name)) {
      return *id;
    }
  }
  // An id that no text has.
  return with.vocabulary_size();
}

/// @param with  The tokenizer, which the source keeps.
result<std::unique_ptr<storage::token_source>> open_tokenized(
    file_system& fs, std::vector<std::string> paths, formats::tokenizer with,
    const tokenized_options& options) {
  // A source without files has no identity.
  if (paths.empty()) {
    return error(errc::invalid_argument,
                 "cannot tokenise files: expected at least 1, found 0");
  }
  auto source =
      std::make_unique<tokenized_text>(fs, std::move(paths), std::move(with), options);
  WEIR_CHECK(source->attach());
  return std::unique_ptr<storage::token_source>(std::move(source));
}

}  // namespace weir::actors
