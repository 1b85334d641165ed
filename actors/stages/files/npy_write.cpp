// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `npy.write`: an array for each item, or one array that grows.
///
/// A path with `{item}` makes a file per item. Another path makes one array whose first
/// axis counts the items: its header has space for the largest number of rows, so that it
/// can be written again in place. Between two checkpoints the file has more bytes than
/// its header says; readers of NumPy ignore them.
#include "stages/files/factories.hpp"
#include "stages/files/item_files.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/npy.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view npy_write_name = "npy.write";

/// See the table.
struct npy_write_settings {
  std::string path;
};

/// The form of the path decides what is written; see `make_npy_write`.
settings_table<npy_write_settings> npy_write_table() {
  settings_table<npy_write_settings> table("the sink npy.write");
  table
      .add("path", &npy_write_settings::path,
           "one file whose first axis counts the items, or with {item} a file for each "
           "item, such as out/{item:6}.npy; {item:6} stands for the number of the item "
           "with at least 6 digits, {NAME} for an attribute, in which /, NUL and a point "
           "at the begin become _")
      .required()
      .path(path_use::output)
      .rule("with names in braces, {item} among them, or without braces",
            [](const std::string& text) {
              const auto pattern = name_pattern::parse(text);
              return pattern && (pattern->has_number() || pattern->is_constant());
            });
  return table;
}

/// @error{out_of_range; the bytes of the tensor cannot be counted}
/// The bytes of an item.
result<bytes_view> elements_of(const runtime::tensor& x) {
  WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
  return bytes_view(x.data(), static_cast<std::size_t>(bytes));
}

/// One file for each item.
class npy_files final : public item_files {
 public:
  npy_files(const npy_write_settings& settings, name_pattern pattern, file_system& fs)
      : item_files(npy_write_name, settings.path, std::move(pattern), fs) {}

 private:
  /// Header and elements of one array. The header is as short as possible.
  result<byte_vector> encode(const taken& t) override {
    // The type must be one that NumPy has.
    const runtime::tensor& x = t[any_in{0}];
    WEIR_TRY(byte_vector out, storage::make_npy_header(x.type(), x.shape(), false));
    WEIR_TRY(const bytes_view elements, elements_of(x));
    append(out, elements);
    return out;
  }
};

/// Position of the sink.
struct npy_offset {
  std::uint64_t rows = 0;  ///< items so far
  std::uint64_t form = 0;  ///< digest of the header without the number of items
  read_block last;         ///< the last item; `end` is the end of the file
};

/// One file whose first axis counts the items.
/// Type and shape of the rows are those of the first item.
class npy_rows final : public flow::stage_object {
 public:
  npy_rows(npy_write_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  /// Begins with an empty file; a resumed run leaves it to `rewind`.
  result<void> open(opening& run) override {
    path_ = path_of(run, settings_.path);
    WEIR_TRY(file_, fs_.open(path_, open_mode::create_or_open));
    if (run.resuming()) {
      return {};
    }
    // Another kind of file is not emptied.
    WEIR_CHECK(check_ours(*file_, path_, "an array of NumPy", {&storage::npy_magic, 1}));
    return file_->resize(0);
  }
  /// Appends the elements of an item. The header keeps the old number of rows until
  /// `settle`.
  result<void> put(taken& t) override {
    const runtime::tensor& x = t[any_in{0}];
    // The first item decides about type and shape, and its header is written.
    if (at_.rows == 0) {
      type_ = x.type();
      shape_.assign(1, 0);
      shape_.insert(shape_.end(), x.shape().begin(), x.shape().end());
      // The header is written with space for any number of items.
      WEIR_TRY(const byte_vector header, storage::make_npy_header(type_, shape_, true));
      WEIR_CHECK(write_all(*file_, 0, header));
      at_.form = xxh3_64(header);
      at_.last.end = header.size();
    }
    // All items of one array have the same type and shape.
    if (x.type() != type_ || !std::equal(x.shape().begin(), x.shape().end(),
                                         shape_.begin() + 1, shape_.end())) {
      return error(errc::invalid_argument,
                   fmt::format("cannot append to the array \"{}\": expected the type and "
                               "the shape [{}] of its first item, found {} [{}]",
                               path_, fmt::join(shape_.begin() + 1, shape_.end(), ","),
                               flow::port_text(x.type()), fmt::join(x.shape(), ",")));
    }
    WEIR_TRY(const bytes_view elements, elements_of(x));
    // Elements follow each other without padding.
    WEIR_CHECK(write_all(*file_, at_.last.end, elements));
    at_.last = {at_.last.end + elements.size(), elements.size(), xxh3_64(elements)};
    ++at_.rows;
    return {};
  }
  /// Writes the number of rows into the header, and makes the file durable. A file
  /// without rows stays empty.
  result<flow::small_record> settle() override {
    if (at_.rows != 0) {
      WEIR_CHECK(write_header());
    }
    // Elements and header become durable together.
    WEIR_CHECK(file_->sync());
    if (!entry_durable_) {
      WEIR_CHECK(fs_.sync_folder(folder_of(path_)));
      entry_durable_ = true;
    }
    return flow::small_record::holding(at_);
  }
  /// Cuts the file behind the durable items, and corrects the header.
  result<void> rewind(bytes_view stored) override {
    WEIR_TRY(at_, record_of<npy_offset>(stored, npy_write_name, "offset"));
    WEIR_CHECK(check(*file_));
    // Nothing proves that an empty offset belongs to this file, so its first bytes do.
    if (at_.last.end == 0) {
      WEIR_CHECK(
          check_ours(*file_, path_, "an array of NumPy", {&storage::npy_magic, 1}));
    }
    // Bytes behind the checkpoint belong to items that come again.
    WEIR_CHECK(file_->resize(at_.last.end));
    return at_.rows == 0 ? result<void>() : write_header();
  }
  /// Compares the last item of a finished run.
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    WEIR_TRY(at_, record_of<npy_offset>(stored, npy_write_name, "offset"));
    path_ = path_of(run, settings_.path);
    if (!fs_.exists(path_)) {
      // Without items, no file is needed.
      return at_.rows == 0 ? result<bool>(true) : result<bool>(shorter(0));
    }
    WEIR_TRY(const auto f, fs_.open(path_, open_mode::read));
    WEIR_CHECK(check(*f));
    return true;
  }

 private:
  /// @pre At least one item was written.
  result<void> write_header() {
    // Only the first extent changes, so the header keeps its size.
    shape_[0] = static_cast<std::int64_t>(at_.rows);
    WEIR_TRY(const byte_vector header, storage::make_npy_header(type_, shape_, true));
    return write_all(*file_, 0, header);
  }
  /// Compares the file with the offset, and takes type and shape of it.
  /// Used to continue, and to verify a finished run.
  result<void> check(file& f) {
    // The file must have at least the items of the checkpoint.
    WEIR_TRY(const std::uint64_t size, f.size());
    if (size < at_.last.end) {
      return shorter(size);
    }
    // Nothing of the file counts before the first item.
    if (at_.rows == 0) {
      return {};
    }
    // The header may have the number of items of a later moment.
    WEIR_TRY(const storage::npy_header header, storage::read_npy_head(f));
    type_ = header.type;
    shape_ = header.shape;
    // The file has a scalar, which this stage never writes.
    if (shape_.empty()) {
      return another();
    }
    // The number of rows is no part of the form.
    shape_[0] = 0;
    WEIR_TRY(const byte_vector form, storage::make_npy_header(type_, shape_, true));
    if (xxh3_64(form) != at_.form) {
      return another();
    }
    // The last item must have the bytes of the checkpoint.
    auto same = verify_block(at_.last, size, npy_write_name, path_,
                             [&](std::uint64_t offset, mutable_bytes to) {
                               return read_exactly(f, offset, to);
                             });
    return same ? std::move(same) : another().because(std::move(same.error()));
  }
  /// The file belongs to another run.
  [[nodiscard]] error another() const {
    return error(errc::hash_mismatch,
                 fmt::format("cannot append to the array \"{}\": expected the items that "
                             "the checkpoint knows before {} bytes, found others",
                             path_, at_.last.end));
  }
  /// Bytes that were durable are missing.
  [[nodiscard]] error shorter(std::uint64_t size) const {
    return error(errc::torn,
                 fmt::format("cannot append to the array \"{}\": expected at least the "
                             "{} bytes of the checkpoint, found {}",
                             path_, at_.last.end, size))
        .hint("restore the file, or begin the run anew");
  }

  npy_write_settings settings_;
  file_system& fs_;
  std::string path_;
  std::unique_ptr<file> file_;
  dtype type_ = dtype::fp32;
  std::vector<std::int64_t> shape_;  ///< of the array
  npy_offset at_;
  bool entry_durable_ = false;
};

/// Further paragraphs of the reference of `npy.write`.
constexpr std::string_view npy_write_details =
    R"(Inlet `x` has any type that NumPy has. Files have version 1.0 and C order.

With `{item}` in the path, files are written, made durable and verified as those of
`png.write`. Without, all items have one type and shape, and the file is one array: its
header is written again at each checkpoint with the number of items, so that NumPy opens
the file at any time and finds the items of the last checkpoint. The file must be new, or
an array, which is replaced; without items it stays empty. The offset holds the number
of items, the length of the file and the XXH3 digest of the last item. A resumed run cuts
the file to exactly the offset; a shorter file is `torn`, another one `hash_mismatch`.)";

/// A small pipeline with `npy.write`.
constexpr std::string_view npy_write_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "array"
use = "npy.write"
path = "out.npy"
)";

}  // namespace

/// The setting `path` decides which of the two sinks is made.
result<void> make_npy_write(flow::described_stage& made, const given_settings& given,
                            file_system& fs) {
  made.info.name = npy_write_name;
  made.info.documentation =
      "writes items as arrays of NumPy, one for each or one for all";
  made.info.face = flow::face::sink;
  made.info.details = npy_write_details;
  made.info.example = npy_write_example;
  WEIR_TRY(npy_write_settings settings,
           flow::read_settings(made.info, npy_write_table(), given));
  // A mistake in the pattern is found before the run.
  WEIR_TRY(name_pattern pattern, name_pattern::parse(settings.path));
  made.info.ports = {{"x", {}, true}};
  // A path without braces is one file for all items.
  if (pattern.is_constant()) {
    made.object = std::make_unique<npy_rows>(std::move(settings), fs);
  } else {
    made.info.state = {{last_file_part, false}};
    made.object = std::make_unique<npy_files>(settings, std::move(pattern), fs);
  }
  return {};
}

}  // namespace weir::actors
