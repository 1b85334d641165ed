// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `text.lines`: lines of files, several in an item.
///
/// An item has several lines, so that a model gets enough texts at a time. The position
/// describes the last item and not the next one: on resuming, that item is made again and
/// its digest compared, and the source stands behind it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "stages/source_parts.hpp"
#include "stages/texts/factories.hpp"
#include "stages/texts/items.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view text_lines_name = "text.lines";

/// See the table.
struct line_settings {
  std::vector<std::string> files;
  std::uint32_t lines = 32;
  std::uint32_t bytes = 2048;
};

/// Files and the size of an item.
settings_table<line_settings> line_table() {
  settings_table<line_settings> table("the source text.lines");
  table
      .add("files", &line_settings::files,
           "files in the order in which they are read, or - for standard input")
      .required()
      .single()
      .path(path_use::input);
  // Both limits hold; the first that is reached ends the item.
  table.add("lines", &line_settings::lines, "lines of the largest item").range(1, 4096);
  table
      .add("bytes", &line_settings::bytes,
           "bytes of the lines of an item; one line may have more")
      .range(1, 1 << 20)
      .unit("bytes");
  return table;
}

/// Position of the source.
struct texts_cursor {
  std::uint64_t items = 0;   ///< items so far
  std::uint64_t file = 0;    ///< number of the file of the last item
  std::uint64_t line = 0;    ///< number that the item's first line has or would have
  std::uint64_t offset = 0;  ///< of this line
  std::uint64_t digest = 0;  ///< XXH3-64 of the last item
  std::uint64_t before = 0;  ///< digest of the sizes of the files before
};

/// Has one file open.
class text_lines final : public flow::stage_object {
 public:
  explicit text_lines(line_settings settings) : settings_(std::move(settings)) {}

  /// All files must exist from the start, so that a misspelt name is found early. A named
  /// pipe is opened once, because its writer ends when it is closed.
  result<void> open(opening& run) override {
    for (const std::string& name : settings_.files) {
      // Errors name the path as it is opened.
      paths_.push_back(path_of(run, name));
      std::error_code failed;  // a file that is missing is no pipe
      if (name != standard_stream && !std::filesystem::is_fifo(paths_.back(), failed)) {
        // The file is closed again; only one is open at a time.
        WEIR_TRY(const auto f, text_line_reader::open(paths_.back()));
      }
    }
    return {};
  }
  /// Makes the next item. A file without lines gives one item as well, which marks its
  /// end.
  result<bool> next(pull& p) override {
    // `ended_` tells that the item before was the last of its file.
    if (cursor_.items != 0 && ended_) {
      ended_ = false;
      reader_.reset();
      ++file_;
    }
    if (file_ == paths_.size()) {
      return false;
    }
    // The first item of a file.
    if (!reader_) {
      WEIR_CHECK(enter());
    }
    // The cursor names the first line of this item.
    cursor_.file = file_;
    cursor_.line = held_ ? held_->number : reader_->next_number();
    cursor_.offset = held_ ? held_->offset : reader_->next_offset();
    // Lines as numbers and bytes; see `encode_line_item`.
    WEIR_TRY(const auto elements, make());
    const std::int64_t count = static_cast<std::int64_t>(elements.size());
    WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, dtype::uint64, {&count, 1}));
    std::copy(elements.begin(), elements.end(), x.as<std::uint64_t>());
    ++cursor_.items;
    return true;
  }
  /// The item that was made last.
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(cursor_);
  }
  /// Makes the last item again and compares it.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const texts_cursor to,
             record_of<texts_cursor>(stored, text_lines_name, "cursor"));
    // No item was made before this cursor.
    if (to.items == 0) {
      return {};
    }
    // The list of files may have become shorter.
    if (to.file >= paths_.size()) {
      return too_short(text_lines_name, paths_.back(), to.file + 1, paths_.size(),
                       "files");
    }
    file_ = to.file;
    // Also adds the sizes of the files before.
    WEIR_CHECK(enter());
    WEIR_CHECK(reader_->go_to(to.line, to.offset));
    cursor_ = to;
    // `make` leaves the reader behind the item.
    WEIR_TRY(const auto elements, make());
    if (cursor_.digest != to.digest || before_ != to.before) {
      return other_data(text_lines_name, paths_[file_],
                        fmt::format("the lines from {} on, and the files before, as when "
                                    "they were read",
                                    to.line),
                        "others");
    }
    return {};
  }

 private:
  /// Opens the next file.
  /// The sizes of the files before are added to the digest.
  result<void> enter() {
    // Each file counts once, when it has been left.
    for (; sized_ < file_; ++sized_) {
      std::error_code failed;  // a pipe has no size
      const auto size = std::filesystem::file_size(paths_[sized_], failed);
      before_ = xxh3_64(as_view(fmt::format("{} {}", before_, failed ? 0 : size)));
    }
    cursor_.before = before_;
    // A pipe that was opened before cannot be read again.
    WEIR_TRY(auto opened, text_line_reader::open(paths_[file_]));
    reader_.emplace(std::move(opened));
    held_.reset();
    return {};
  }
  /// Makes the elements of an item of the next lines. A line that would make it too large
  /// is held back.
  result<std::vector<std::uint64_t>> make() {
    // The lines are moved into the item.
    line_item item;
    std::uint64_t bytes = 0;
    while (item.lines.size() < settings_.lines) {
      // A line that did not fit before comes first.
      if (!held_) {
        WEIR_TRY(held_, reader_->next());
      }
      // The end of the file is known only after the read behind its last line.
      if (!held_) {
        ended_ = true;
        break;
      }
      // A line alone may be larger than the limit.
      if (!item.lines.empty() && bytes + held_->bytes.size() > settings_.bytes) {
        break;
      }
      bytes += held_->bytes.size();
      item.lines.push_back(std::move(*held_));
      held_.reset();
    }
    // The name as in the settings.
    item.from = {file_, ended_, settings_.files[file_]};
    const auto elements = encode_line_item(item);
    // Of the elements as the item holds them.
    cursor_.digest = xxh3_64(std::as_bytes(std::span(elements)));
    return elements;
  }

  line_settings settings_;
  std::vector<std::string> paths_;
  /// File that is open or comes next.
  std::size_t file_ = 0;
  /// Empty if no file is open.
  std::optional<text_line_reader> reader_;
  std::optional<text_line> held_;  ///< the next line, if it was read
  bool ended_ = false;             ///< the last item ended its file
  std::size_t sized_ = 0;          ///< files whose sizes `before_` covers
  std::uint64_t before_ = 0;       ///< digest of the sizes of the files before
  texts_cursor cursor_;
};

/// Further paragraphs of the reference of `text.lines`.
constexpr std::string_view text_lines_details =
    R"(Outlet `x` has the type `u64[?]`: name of the file, numbers and offsets of lines,
and their bytes, for `text.tokens`. A line ends with LF or CR LF. A line of more than 16
MiB comes without its bytes. An item has lines of one file. The last item of a file
is marked as the last one, even if it has no lines.

The cursor holds file, line and offset of the last item and its XXH3 digest, and a digest
of the sizes of the files before. Standard input cannot be read again, so a run with it
cannot be resumed.)";

}  // namespace

/// Makes the source. Standard input cannot be resumed.
result<void> make_text_lines(flow::described_stage& made, const given_settings& given) {
  made.info = source_info(std::string(text_lines_name),
                          "reads lines of files of texts, several in an item");
  made.info.details = text_lines_details;
  made.info.example = embedding_example;
  WEIR_TRY(line_settings settings, flow::read_settings(made.info, line_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse(line_item_type));
  made.info.ports = {{"x", std::move(type), false}};
  // A resumed run could not read the same lines.
  if (std::ranges::count(settings.files, standard_stream) != 0) {
    made.info.promise = flow::guarantee::none;
  }
  made.object = std::make_unique<text_lines>(std::move(settings));
  return {};
}

}  // namespace weir::actors
