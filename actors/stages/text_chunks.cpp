// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `text.chunks`: files as blocks of bytes.
///
/// Chunks never cross files. The position is that of the last chunk, with a digest of
/// names and sizes of the files before its file.
#include <algorithm>

#include "stages/factories.hpp"
#include "stages/files/file_list.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/file_times.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view text_chunks_name = "text.chunks";

/// See the table.
struct text_settings {
  std::vector<std::string> files;
  std::uint64_t chunk = 65536;
};

/// Files and the size of a chunk.
settings_table<text_settings> text_table() {
  settings_table<text_settings> table("the source text.chunks");
  table
      .add("files", &text_settings::files,
           "files in the order in which they are read; a file named twice is read twice")
      .required()
      .single()
      .path(path_use::input);
  table
      .add("chunk", &text_settings::chunk,
           "size of a chunk; the last one of a file may "
           "be shorter")
      .range(1, std::int64_t{1} << 30)
      .unit("bytes");
  return table;
}

/// Position of the source.
struct text_cursor {
  std::uint64_t file = 0;      ///< index of the file of the last chunk
  read_block last;             ///< the last chunk
  std::uint64_t identity = 0;  ///< of the files up to that one
};

/// Has one file open, that of the next chunk.
class text_chunks final : public flow::stage_object {
 public:
  text_chunks(text_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  /// All files must exist from the start, so that a misspelt name is found early.
  result<void> open(opening& run) override {
    for (const std::string& name : settings_.files) {
      paths_.push_back(path_of(run, name));
      // The file is closed again; only one is open at a time.
      WEIR_TRY(const auto f, open_no_pipe(fs_, paths_.back()));
    }
    return {};
  }
  /// Makes the next chunk; files that are at their end are passed over.
  result<bool> next(pull& p) override {
    while (next_file_ < paths_.size()) {
      WEIR_CHECK(enter());
      const std::uint64_t left = size_ - offset_;
      // An empty file, or the end of one.
      if (left == 0) {
        WEIR_CHECK(close());
        continue;
      }
      const std::uint64_t count = std::min(left, settings_.chunk);
      WEIR_TRY(const mutable_bytes to, fill_block(p, count));
      // Read first, then compared: a change during the read shows here.
      WEIR_CHECK(read_exactly(*file_, offset_, to));
      WEIR_CHECK(check_unchanged());
      // What the item is: the name in the settings, and the place.
      attribute_collector about(p.emitted());
      about.add("file", settings_.files[next_file_]);
      about.add("offset", offset_);
      offset_ += count;
      last_file_ = next_file_;
      last_ = {offset_, count, xxh3_64(to)};
      return true;
    }
    return false;
  }
  /// The chunk that was made last.
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(
        text_cursor{last_file_, last_, identity(last_file_)});
  }
  /// Continues behind the chunk of the cursor. The sizes of the files before it are asked
  /// for again, as far as they belong to the identity.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto cursor,
             record_of<text_cursor>(stored, text_chunks_name, "cursor"));
    // No chunk was read before this cursor.
    if (cursor.last.length == 0) {
      return {};
    }
    // The list of files may have become shorter.
    if (cursor.file >= paths_.size()) {
      return too_short(text_chunks_name, paths_.back(), cursor.file + 1, paths_.size(),
                       "files");
    }
    // Sizes are part of the identity.
    sizes_.clear();
    for (std::uint64_t i = 0; i < cursor.file; ++i) {
      WEIR_TRY(const auto f, fs_.open(paths_[i], open_mode::read));
      WEIR_TRY(const std::uint64_t size, f->size());
      sizes_.push_back(size);
    }
    if (identity(cursor.file) != cursor.identity) {
      return other_data(text_chunks_name, paths_[cursor.file],
                        "files of the names and sizes before it as when they were read",
                        "others");
    }
    // The file of the last chunk is opened, even if the chunk has ended it.
    next_file_ = last_file_ = cursor.file;
    WEIR_CHECK(enter());
    WEIR_CHECK(verify_block(cursor.last, size_, text_chunks_name, paths_[next_file_],
                            [&](std::uint64_t offset, mutable_bytes to) {
                              return read_exactly(*file_, offset, to);
                            }));
    last_ = cursor.last;
    offset_ = last_.end;
    return {};
  }

 private:
  /// Opens the next file unless it is open.
  result<void> enter() {
    // Called for every chunk.
    if (file_) {
      return {};
    }
    // Before the file is opened, so that a change in between is noticed.
    time_ = modification_time(paths_[next_file_]);
    WEIR_TRY(file_, fs_.open(paths_[next_file_], open_mode::read));
    WEIR_TRY(size_, file_->size());
    offset_ = 0;
    return {};
  }
  /// A file may grow while it is read: what is behind its first size is not read. Any
  /// other change means that the chunks are from different texts.
  result<void> check_unchanged() {
    // The usual case costs one system call.
    const std::int64_t time = modification_time(paths_[next_file_]);
    if (time == time_) {
      return {};
    }
    WEIR_TRY(const std::uint64_t size, file_->size());
    if (size <= size_) {
      return error(errc::history_mismatch,
                   fmt::format("cannot read \"{}\": expected a file that stays as it is "
                               "while text.chunks reads it, found that it was changed",
                               paths_[next_file_]))
          .located(fmt::format("{}:{}", paths_[next_file_], offset_));
    }
    time_ = time;
    return {};
  }
  /// Goes to the next file and notes the size of this one, which belongs to the identity.
  /// It is the size at the end, because the file may have grown while it was read, and a
  /// run that continues asks for the size again.
  result<void> close() {
    WEIR_TRY(const std::uint64_t size, file_->size());
    sizes_.push_back(size);
    file_.reset();
    ++next_file_;
    return {};
  }
  /// Returns a digest of the names of the files up to one, and of the sizes of those
  /// before it. The size of the file itself may grow.
  [[nodiscard]] std::uint64_t identity(std::uint64_t file) const {
    // Names as in the settings, so that folders may move.
    std::string text;
    for (std::uint64_t i = 0; i <= file; ++i) {
      text += fmt::format("{}\n{}\n", settings_.files[i], i < file ? sizes_[i] : 0);
    }
    return xxh3_64(as_view(text));
  }

  text_settings settings_;
  file_system& fs_;
  std::vector<std::string> paths_;
  std::vector<std::uint64_t> sizes_;  ///< of the files before `next_file_`
  std::unique_ptr<file> file_;
  /// Size of the open file when it was opened.
  std::uint64_t size_ = 0;
  std::int64_t time_ = 0;     ///< modification time of the open file
  std::uint64_t offset_ = 0;  ///< of the next chunk
  /// File that is open or comes next.
  std::uint64_t next_file_ = 0;
  /// File of the last chunk.
  std::uint64_t last_file_ = 0;
  /// The last chunk.
  read_block last_;
};

/// Further paragraphs of the reference of `text.chunks`.
constexpr std::string_view text_chunks_details =
    R"(Outlet `x` has the type `u8[?]`. Files are read in the given order, and a file
that is named twice is read twice. A chunk never has bytes of two files.

Attributes: `file` as it is named in the settings, and `offset` in bytes. The cursor
holds the file, offset, length and XXH3 digest of the last chunk, and a digest of the
names of the files so far and of the sizes of those before the last.)";

/// A small pipeline with `text.chunks`.
constexpr std::string_view text_chunks_example = R"([[stage]]
name = "text"
use = "text.chunks"
files = ["a.txt", "b.txt", "a.txt"]
chunk = 4096

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

/// Makes the source. The edge can plan with the size of a chunk.
result<void> make_text_chunks(flow::described_stage& made, const given_settings& given,
                              file_system& fs) {
  made.info = source_info(std::string(text_chunks_name),
                          "reads files one after another as chunks of bytes");
  made.info.details = text_chunks_details;
  made.info.example = text_chunks_example;
  WEIR_TRY(text_settings settings, flow::read_settings(made.info, text_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse("u8[?]"));
  made.info.ports = {{"x", std::move(type), false}};
  made.info.ports.back().longest = static_cast<std::int64_t>(settings.chunk);
  made.object = std::make_unique<text_chunks>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
