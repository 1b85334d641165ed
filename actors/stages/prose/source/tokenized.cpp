// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes text files while they are read.
///
/// Every cut that the stream of the tokenizer finds becomes a mark: the index of the next
/// id, the file and the place of the cut. The state at an index is the last mark at or
/// before it and the number of ids since. All ids of the last block of a file become
/// known together with the mark of the next file, so the marks before an index are known
/// whenever the ids before it are.
#include "stages/prose/source/tokenized.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "weir/base/file_times.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::actors {
namespace {

/// Number of the newest ids that stay readable, as of a pipe.
constexpr std::size_t kept_ids = std::size_t{1} << 20;
constexpr std::size_t text_block = std::size_t{64} << 10;
/// Bytes before a cut that a resumed source compares.
constexpr std::uint64_t compared_bytes = 4096;
constexpr std::uint32_t tokenized_version = 1;

/// A cut, from which encoding can go on.
struct cut_mark {
  std::uint64_t index = 0;   ///< index of the first id behind the cut
  std::uint64_t file = 0;    ///< number of the file
  std::uint64_t offset = 0;  ///< byte of the file
  std::uint8_t inside = 0;   ///< as in `formats::token_cursor`
  std::uint8_t begun = 0;    ///< as in `formats::token_cursor`
};

class tokenized_text final : public storage::token_source {
 public:
  tokenized_text(file_system& fs, std::vector<std::string> paths, formats::tokenizer with,
                 const tokenized_options& options)
      : fs_(fs), paths_(std::move(paths)), with_(std::move(with)), options_(options) {
    separator_ = options_.separator.value_or(end_of_text_id(with_));
  }

  result<void> attach() {
    WEIR_CHECK(formats::token_stream::open(with_, stream_options()));
    record_writer list;
    list.put(with_.digest());
    list.put(separator_);
    list.put(std::uint32_t{options_.separate_documents});
    list.put(std::uint32_t{options_.replace_invalid});
    for (const std::string& path : paths_) {
      WEIR_TRY(const std::uint64_t size, measure(path));
      sizes_.push_back(size);
      times_.push_back(modification_time(path));
      storage::source_leaf leaf;
      leaf.name = path.substr(path.find_last_of('/') + 1);
      leaf.name_hash = xxh3_64(as_view(leaf.name));
      leaf.bytes = size;
      list.put(leaf.name_hash);
      list.put(leaf.bytes);
      identity_.leaves.push_back(std::move(leaf));
    }
    if (identity_.leaves.size() > storage::max_listed_leaves) {
      identity_.leaves.clear();
    }
    identity_.list_digest = xxh3_64(list.view());
    marks_.push_back({});
    return {};
  }

  std::uint64_t size() const noexcept override { return storage::unknown_size; }
  bool seekable() const noexcept override { return false; }
  std::uint32_t separator() const noexcept override { return separator_; }
  std::uint32_t vocabulary() const noexcept override {
    const bool separates = options_.separate_documents && paths_.size() > 1;
    return separates ? std::max(with_.vocabulary_size(), separator_ + 1)
                     : with_.vocabulary_size();
  }
  const storage::source_identity& identity() const noexcept override { return identity_; }

  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    if (index < first_) {
      return error(errc::source_unavailable,
                   fmt::format("cannot read tokenised text again: expected a position "
                               "from {} on, found {}",
                               first_, index))
          .located(place_text(index));
    }
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
  std::string place_text(std::uint64_t index) const override {
    const place p = place_of(index);
    return fmt::format("{}:{}", paths_[p.leaf], p.byte);
  }
  place place_of(std::uint64_t index) const override {
    const cut_mark& mark = mark_before(index);
    return {mark.file, mark.offset};
  }
  /// Documents begin behind separators. Reads on until one is found.
  result<std::uint64_t> next_document(std::uint64_t index) override {
    for (std::uint64_t at = std::max<std::uint64_t>(index, first_ + 1);; ++at) {
      WEIR_CHECK(fill(at - first_));
      if (at - first_ > ids_.size()) {
        return first_ + ids_.size();
      }
      if (ids_[static_cast<std::size_t>(at - first_ - 1)] == separator_) {
        return at;
      }
    }
  }

  result<byte_vector> state(std::uint64_t index) const override {
    const cut_mark& mark = mark_before(index);
    if (mark.index > index || index > first_ + ids_.size()) {
      return error(errc::source_unavailable,
                   fmt::format("cannot make the state of tokenised text: expected a "
                               "position from {} to {}, found {}",
                               marks_.front().index, first_ + ids_.size(), index))
          .located(place_text(index));
    }
    WEIR_TRY(const std::uint64_t before, digest_before(mark));
    record_writer out;
    out.put(tokenized_version);
    out.put(std::uint16_t{mark.inside});
    out.put(std::uint16_t{mark.begun});
    out.put(mark.file);
    out.put(mark.offset);
    out.put(index - mark.index);
    out.put(with_.digest());
    out.put(before);
    return std::move(out).take();
  }
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
    if (from.failed() || !from.rest().empty() || version != tokenized_version ||
        mark.file >= paths_.size() || mark.offset > sizes_[mark.file] || since > index) {
      return error(errc::corrupt,
                   "cannot restore the state of tokenised text: expected a cut within "
                   "its files, found other bytes");
    }
    WEIR_TRY(const std::uint64_t found, digest_before(mark));
    if (found != before) {
      return error(
                 errc::history_mismatch,
                 fmt::format("cannot resume: expected digest {} of the bytes before the "
                             "cut, found {}",
                             hex64(before), hex64(found)))
          .located(fmt::format("{}:{}", paths_[mark.file], mark.offset))
          .hint("the data has changed; restore it, or start another run");
    }
    formats::token_cursor cursor = start_of(mark);
    cursor.ids = since;
    cursor.taken = since;
    cursor.tokenizer = digest;
    WEIR_TRY(stream_, formats::token_stream::resume(with_, cursor));
    mark.index = index - since;
    marks_ = {mark};
    file_ = mark.file;
    offset_ = mark.offset;
    first_ = index;
    ids_.clear();
    ended_ = false;
    return {};
  }
  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    if (!ids_.empty() || first_ != index || before.size() > index) {
      return error(errc::unsupported,
                   "cannot continue tokenised text: expected a state for the position, "
                   "found none")
          .located(place_text(index))
          .hint("the checkpoint was made without a tokenizer; start another run");
    }
    ids_.assign(before.begin(), before.end());
    first_ = index - before.size();
    return {};
  }

 private:
  [[nodiscard]] formats::token_stream_options stream_options() const {
    return {.add_special_tokens = false,
            .invalid = options_.replace_invalid ? formats::invalid_utf8::replace
                                                : formats::invalid_utf8::refuse};
  }
  /// Returns the cursor of the tokenizer at a cut.
  [[nodiscard]] formats::token_cursor start_of(const cut_mark& mark) const {
    formats::token_cursor out;
    out.offset = mark.offset;
    out.tokenizer = with_.digest();
    out.inside = mark.inside;
    out.begun = mark.begun;
    out.add_special = 0;
    out.invalid = static_cast<std::uint8_t>(stream_options().invalid);
    return out;
  }

  result<std::uint64_t> measure(const std::string& path) {
    auto opened = fs_.open(path, open_mode::read);
    auto size = opened ? (*opened)->size() : result<std::uint64_t>(opened.error());
    if (!size) {
      return error(errc::source_unavailable,
                   fmt::format("cannot attach source \"{}\"", path))
          .located(path)
          .because(std::move(size).error());
    }
    if (*size == 0) {
      return error(errc::source_unavailable,
                   fmt::format(
                       "cannot attach source \"{}\": expected at least 1 byte, found 0",
                       path))
          .located(path)
          .hint("leave the empty file out");
    }
    return *size;
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

  /// Returns the digest of the bytes of a file before a cut.
  [[nodiscard]] result<std::uint64_t> digest_before(const cut_mark& mark) const {
    byte_vector bytes(static_cast<std::size_t>(std::min(mark.offset, compared_bytes)));
    WEIR_CHECK(read_bytes(mark.file, mark.offset - bytes.size(), bytes));
    return xxh3_64(bytes);
  }
  [[nodiscard]] result<void> read_bytes(std::uint64_t number, std::uint64_t offset,
                                        mutable_bytes to) const {
    const std::string& path = paths_[number];
    auto opened = fs_.open(path, open_mode::read);
    auto read = opened ? read_exactly(**opened, offset, to)
                       : result<void>(std::move(opened).error());
    if (!read) {
      return error(errc::source_unavailable,
                   fmt::format("cannot read source \"{}\": expected {} bytes as when it "
                               "was attached",
                               path, sizes_[number]))
          .located(fmt::format("{}:{}", path, offset))
          .because(std::move(read).error());
    }
    if (modification_time(path) != times_[number]) {
      WEIR_TRY(const std::uint64_t size, (*opened)->size());
      if (size <= sizes_[number]) {
        return error(errc::history_mismatch,
                     fmt::format("cannot read source \"{}\": expected its bytes as when "
                                 "it was attached, found others",
                                 path))
            .located(fmt::format("{}:{}", path, offset))
            .hint("restore the file and resume the run");
      }
    }
    return {};
  }

  /// Encodes until `count` ids are kept or the text ends.
  result<void> fill(std::uint64_t count) {
    while (!ended_ && ids_.size() < count) {
      WEIR_CHECK(step());
    }
    return {};
  }
  /// Encodes the next block. With the last one of a file, the start of the next file
  /// becomes known.
  result<void> step() {
    if (!stream_) {
      WEIR_TRY(stream_, formats::token_stream::open(with_, stream_options()));
    }
    const std::uint64_t left = sizes_[file_] - offset_;
    byte_vector block(
        static_cast<std::size_t>(std::min<std::uint64_t>(left, text_block)));
    WEIR_CHECK(read_bytes(file_, offset_, block));
    auto done = stream_->push(block);
    offset_ += block.size();
    const bool last = offset_ == sizes_[file_];
    if (done && last) {
      done = stream_->finish();
    }
    if (!done) {
      const errc code = done.error().code();
      return error(code, fmt::format("cannot encode \"{}\"", paths_[file_]))
          .located(fmt::format("{}:{}", paths_[file_], offset_ - block.size()))
          .because(std::move(done).error());
    }
    take_ids();
    if (last) {
      enter_next_file();
    }
    return {};
  }
  /// Takes the ids that are known, and notes the cuts between them.
  void take_ids() {
    const auto ready = stream_->ready();
    const std::size_t before = ids_.size();
    ids_.insert(ids_.end(), ready.begin(), ready.end());
    const std::size_t count = ready.size();
    for (std::size_t i = 0; i < count; ++i) {
      stream_->take(1);
      const formats::token_cursor at = stream_->cursor();
      if (at.offset != marks_.back().offset) {
        marks_.push_back(
            {first_ + before + i + 1 - at.ids, file_, at.offset, at.inside, at.begun});
      }
    }
  }
  void enter_next_file() {
    stream_.reset();
    if (file_ + 1 == paths_.size()) {
      ended_ = true;
      return;
    }
    if (options_.separate_documents) {
      ids_.push_back(separator_);
    }
    ++file_;
    offset_ = 0;
    marks_.push_back({first_ + ids_.size(), file_, 0, 0, 0});
  }
  /// Drops old ids, and the marks that no id needs any more.
  void forget() {
    if (ids_.size() <= 2 * kept_ids) {
      return;
    }
    const std::size_t old = ids_.size() - kept_ids;
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(old));
    first_ += old;
    const cut_mark oldest = mark_before(first_);
    while (marks_.front().index < oldest.index) {
      marks_.pop_front();
    }
  }

  file_system& fs_;
  std::vector<std::string> paths_;
  formats::tokenizer with_;
  tokenized_options options_;
  std::uint32_t separator_ = 0;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::int64_t> times_;  ///< of the last changes, when it was attached
  storage::source_identity identity_;

  std::vector<std::uint32_t> ids_;  ///< the newest ids, the oldest first
  std::uint64_t first_ = 0;         ///< index of the first of them
  std::deque<cut_mark> marks_;      ///< with rising indices; never empty
  std::uint64_t file_ = 0;          ///< file that is being encoded
  std::uint64_t offset_ = 0;        ///< bytes of it that were pushed
  std::optional<formats::token_stream> stream_;
  bool ended_ = false;
};

}  // namespace

std::uint32_t end_of_text_id(const formats::tokenizer& with) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"}) {
    if (const auto id = with.id(name)) {
      return *id;
    }
  }
  return with.vocabulary_size();
}

result<std::unique_ptr<storage::token_source>> open_tokenized(
    file_system& fs, std::vector<std::string> paths, formats::tokenizer with,
    const tokenized_options& options) {
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
