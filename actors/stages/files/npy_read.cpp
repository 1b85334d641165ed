// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `npy.read`: arrays of NumPy, whole or row by row.
///
/// Files are read one after another, and the header of a file is read when the source
/// reaches it. With `rows`, an item is one element of the first axis. Elements are read
/// from the file straight into the memory of the item. The position names the file of the
/// last item and not the next one, because the next file may not exist yet.
#include "stages/files/factories.hpp"
#include "stages/files/file_source.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/npy.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view npy_read_name = "npy.read";
/// Largest number of rows without elements.
constexpr std::uint64_t max_empty_rows = 1'000'000;

/// What an item is.
enum class items_of : std::uint8_t { file, rows };

/// The defaults of files of NumPy.
struct npy_read_settings : file_source_settings {
  npy_read_settings() {
    pattern = "*.npy";
    type = "any";
  }
  items_of items = items_of::file;
};

settings_table<npy_read_settings> npy_read_table() {
  settings_table<npy_read_settings> table("the source npy.read");
  add_file_settings(table, ".npy");
  table
      .add("type", own<npy_read_settings>(&npy_read_settings::type),
           "type of the items, such as f32[n,4]; any: as the stages behind it need")
      .rule("that is a type of a port", is_port_type);
  table.add("items", &npy_read_settings::items,
            {{"file", items_of::file}, {"rows", items_of::rows}},
            "file: each array is an item; rows: each element of the first axis");
  return table;
}

/// Position of the source: behind the last item.
struct npy_cursor {
  std::uint64_t file = 0;      ///< index of the file of the last item
  std::uint64_t rows = 0;      ///< items of that file so far
  std::uint64_t identity = 0;  ///< of the names up to that file; 0 before the first item
  std::uint64_t form = 0;      ///< digest of the type and the shape of the items
  read_block last;             ///< the bytes of the last item
};

/// Keeps one file open, of which `row_` is the next item.
class npy_read final : public flow::stage_object {
 public:
  npy_read(npy_read_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  /// Lists the files. Their headers are read later.
  result<void> open(opening& run) override {
    WEIR_TRY(files_, file_list::find(fs_, path_of(run, settings_.path), settings_.pattern,
                                     settings_.order));
    return {};
  }
  /// Makes the next item; files without rows are passed over.
  result<bool> next(pull& p) override {
    for (; next_file_ < files_.size(); leave()) {
      if (auto entered = enter(); !entered) {
        return in_file(npy_read_name, files_.path(next_file_), entered.error());
      }
      // The file has no further rows.
      // A shape with 0 rows has no items.
      if (row_ == rows_) {
        continue;
      }
      if (auto taken_row = take(p); !taken_row) {
        return in_file(npy_read_name, files_.path(next_file_), taken_row.error());
      }
      return true;
    }
    return false;
  }
  /// Files that were passed over.
  void report(figures& to) const override { files_.report(to); }
  /// Behind the item that was made last.
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(at_);
  }
  /// Continues behind the row of the cursor.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto where, record_of<npy_cursor>(stored, npy_read_name, "cursor"));
    // No item was read before this cursor.
    if (where.identity == 0) {
      return {};
    }
    if (where.file >= files_.size()) {
      return too_short(npy_read_name, settings_.path, where.file + 1, files_.size(),
                       "files");
    }
    // The digest covers the names up to the file of the last item.
    if (where.identity != files_.identity(where.file + 1)) {
      return other_data(npy_read_name, settings_.path,
                        "files of the names that the run has read before", "others");
    }
    // The file of the last item is opened, even if all of its rows were read.
    next_file_ = where.file;
    const std::string& path = files_.path(next_file_);
    if (auto entered = enter(); !entered) {
      return in_file(npy_read_name, path, entered.error());
    }
    // The file has fewer rows than were read.
    if (rows_ < where.rows) {
      return too_short(npy_read_name, path, where.rows, rows_, "rows");
    }
    // A file that was replaced by one of another form is found before its bytes are
    // compared.
    if (form() != where.form) {
      return other_data(npy_read_name, path, "items of the type and the shape as before",
                        "others");
    }
    WEIR_CHECK(verify_block(where.last, header_.size + header_.bytes, npy_read_name, path,
                            [&](std::uint64_t offset, mutable_bytes to) {
                              return read_exactly(*file_, offset, to);
                            }));
    at_ = where;
    row_ = where.rows;
    return {};
  }

 private:
  /// Opens the next file unless it is open.
  /// @pre There is a next file.
  result<void> enter() {
    if (file_) {
      // Called before every item.
      return {};
    }
    WEIR_TRY(auto f, open_no_pipe(fs_, files_.path(next_file_)));
    WEIR_TRY(const std::uint64_t size, f->size());
    // The size of the file must fit the header.
    WEIR_TRY(header_, storage::read_npy_header(*f, size));
    rows_ = 1;
    shape_ = header_.shape;
    // The first axis counts the items and is no part of their shape.
    if (settings_.items == items_of::rows) {
      // A scalar has no rows.
      if (header_.shape.empty()) {
        return error(errc::invalid_argument,
                     "cannot read the rows of an array: expected at least one "
                     "dimension, found a scalar");
      }
      rows_ = static_cast<std::uint64_t>(header_.shape[0]);
      shape_.erase(shape_.begin());
    }
    // Without rows there is nothing to read.
    // All rows have the same size.
    row_bytes_ = rows_ == 0 ? 0 : header_.bytes / rows_;
    // Rows without elements take no bytes, so the size of the file limits no number of
    // them.
    if (settings_.items == items_of::rows && row_bytes_ == 0 && rows_ > max_empty_rows) {
      return error(errc::out_of_range,
                   fmt::format("cannot read the rows of an array: expected at most {} "
                               "rows without elements, found {} of the shape [{}]",
                               max_empty_rows, rows_, fmt::join(shape_, ",")))
          .hint("read the array as one item with items = \"file\"");
    }
    if (row_bytes_ > settings_.max_bytes) {
      return too_large(fmt::format("an item of shape [{}]", fmt::join(shape_, ",")),
                       settings_.max_bytes, row_bytes_);
    }
    // Set last, so that a failed file is not taken for an open one.
    file_ = std::move(f);
    row_ = 0;
    return {};
  }
  /// Goes on to the file behind the open one.
  void leave() {
    file_.reset();
    ++next_file_;
  }
  /// Reads the next row into an item and moves the position behind it.
  result<void> take(pull& p) {
    // The type of the outlet may refuse it.
    WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, header_.type, shape_));
    const mutable_bytes to(x.data(), static_cast<std::size_t>(row_bytes_));
    // Rows of equal size follow each other behind the header.
    const std::uint64_t offset = header_.size + row_ * row_bytes_;
    WEIR_CHECK(read_exactly(*file_, offset, to));
    attribute_collector about(p.emitted());
    about.add("file", files_.name(next_file_));
    if (settings_.items == items_of::rows) {
      about.add("row", row_);
    }
    ++row_;
    // The position names the item that was just made.
    at_ = {next_file_,
           row_,
           files_.identity(next_file_ + 1),
           form(),
           {offset + row_bytes_, row_bytes_, xxh3_64(to)}};
    return {};
  }
  /// Digest of type and shape of an item, for the cursor.
  [[nodiscard]] std::uint64_t form() const {
    // As text, so that it can be computed on any machine.
    return xxh3_64(as_view(
        fmt::format("{} [{}]", info_of(header_.type).tensogram, fmt::join(shape_, ","))));
  }

  npy_read_settings settings_;
  file_system& fs_;
  file_list files_;
  /// Index of the file that is open or comes next.
  std::size_t next_file_ = 0;
  std::unique_ptr<file> file_;       ///< null if no file is open
  storage::npy_header header_;       ///< of the open file
  std::vector<std::int64_t> shape_;  ///< of the items of the open file
  std::uint64_t rows_ = 0;           ///< items of the open file
  std::uint64_t row_bytes_ = 0;      ///< size of an item of the open file
  std::uint64_t row_ = 0;            ///< next item of the open file
  npy_cursor at_;
};

/// Further paragraphs of the reference of `npy.read`.
constexpr std::string_view npy_read_details =
    R"(Outlet `x` has the type of the setting. Files of the versions 1.0, 2.0 and 3.0
with little-endian numbers or booleans in C order are read; elements go straight into
the memory of the item. The size of a file must be exactly that of its header and its
elements: a shorter file is `torn`, any other damage `corrupt`, and other forms of
arrays are `unsupported`. The message names the file. Rows without elements take no bytes
of the file, so more than 1,000,000 of them are refused as `out_of_range`.

Attributes: `file` is the name of the file, `row` the index on the first axis. The
cursor holds file and row, a digest of the names so far, type and shape, and the XXH3
digest of the last item. Files may be added behind the cursor.)";

/// A small pipeline with `npy.read`.
constexpr std::string_view npy_read_example = R"([[stage]]
name = "samples"
use = "npy.read"
path = "in.npy"
items = "rows"
type = "f32[4]"

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// Makes the stage from its settings.
result<void> make_npy_read(flow::described_stage& made, const given_settings& given,
                           file_system& fs) {
  made.info = source_info(std::string(npy_read_name),
                          "reads arrays of NumPy, whole or row by row");
  made.info.details = npy_read_details;
  made.info.example = npy_read_example;
  WEIR_TRY(npy_read_settings settings,
           flow::read_settings(made.info, npy_read_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", std::move(type), false}};
  made.object = std::make_unique<npy_read>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
