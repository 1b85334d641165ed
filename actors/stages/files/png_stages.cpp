// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `png.read` and the sink `png.write`.
///
/// Both stages are thin: `file_source` and `item_files` do the work with files, and
/// `png_codec` that with images.
#include "stages/files/factories.hpp"
#include "stages/files/file_source.hpp"
#include "stages/files/item_files.hpp"
#include "stages/files/png_codec.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view png_read_name = "png.read";
constexpr std::string_view png_write_name = "png.write";

/// Returns whether a type is one of images: u8 or u16 with three extents.
// A type that cannot be read is no image.
bool is_image_type(const std::string& text) {
  const auto type = flow::port_type::parse(text);
  return type && type->element && type->shape.size() == 3 &&
         (*type->element == dtype::uint8 || *type->element == dtype::uint16);
}

/// The defaults of images: any size and any number of channels, 8 bits.
struct png_read_settings : file_source_settings {
  png_read_settings() {
    pattern = "*.png";
    type = "u8[?,?,?]";
  }
};

/// The settings of `file_source` with other defaults.
settings_table<png_read_settings> png_read_table() {
  settings_table<png_read_settings> table("the source png.read");
  add_file_settings(table, ".png");
  table
      .add("type", own<png_read_settings>(&png_read_settings::type),
           "type of the images: rows, columns and channels; u16 for images of 16 bits")
      .rule("that is u8 or u16 with three extents, such as u8[480,640,3]", is_image_type);
  return table;
}

/// Belongs to the thread of its I/O host.
class png_read final : public file_source {
 public:
  png_read(file_source_settings settings, file_system& fs)
      : file_source(png_read_name, std::move(settings), fs) {}

 private:
  /// The whole file is read first, because its digest is part of the position.
  result<std::uint64_t> load(pull& p, file& f, std::uint64_t size) override {
    // The size was compared with `max_bytes` before.
    byte_vector content(static_cast<std::size_t>(size));
    WEIR_CHECK(read_exactly(f, 0, content));
    // Called with the form before any sample is decoded; the type of the outlet may
    // refuse it.
    WEIR_CHECK(decode_png(
        content, max_bytes(), [&](const png_form& form) -> result<mutable_bytes> {
          // The type of the outlet may fix some of the extents.
          const std::int64_t shape[] = {form.height, form.width, form.channels};
          WEIR_TRY(const runtime::tensor x,
                   p.fill_bytes(0, form.wide ? dtype::uint16 : dtype::uint8, shape));
          return mutable_bytes(x.data(), static_cast<std::size_t>(form.bytes()));
        }));
    // The digest of the file, not that of the samples.
    return xxh3_64(content);
  }
};

/// See the table.
struct png_write_settings {
  std::string path;
  std::string type = "u8[?,?,?]";
  std::int32_t level = 6;
};

/// Path, type and level.
settings_table<png_write_settings> png_write_table() {
  settings_table<png_write_settings> table("the sink png.write");
  add_item_path(table, "out/{item:6}.png");
  table
      .add("type", &png_write_settings::type,
           "type of the images: rows, columns and channels")
      .rule("that is u8 or u16 with three extents, such as u8[480,640,3]", is_image_type);
  table.add("level", &png_write_settings::level, "level of compression").range(0, 9);
  return table;
}

/// Encodes; `item_files` writes.
class png_write final : public item_files {
 public:
  png_write(png_write_settings settings, name_pattern pattern, file_system& fs)
      : item_files(png_write_name, settings.path, std::move(pattern), fs),
        level_(settings.level) {}

 private:
  /// The inlet has three extents, so the shape has three numbers.
  result<byte_vector> encode(const taken& t) override {
    const runtime::tensor& x = t[any_in{0}];
    const auto shape = x.shape();
    constexpr std::int64_t max_extent = 0x7fffffff;
    // Rows and columns have 31 bits in the format.
    // Images without pixels do not exist in the format.
    if (std::any_of(shape.begin(), shape.end(),
                    [](std::int64_t one) { return one < 1 || one > max_extent; }) ||
        shape[2] > 4) {
      return error(errc::invalid_argument,
                   fmt::format("cannot write an image: expected rows, columns and 1 to 4 "
                               "channels, found [{}]",
                               fmt::join(shape, ",")));
    }
    // The form decides about colours by the number of channels.
    png_form form;
    form.height = static_cast<std::uint32_t>(shape[0]);
    form.width = static_cast<std::uint32_t>(shape[1]);
    form.channels = static_cast<std::uint32_t>(shape[2]);
    form.wide = x.type() == dtype::uint16;
    return encode_png(form, {x.data(), static_cast<std::size_t>(form.bytes())}, level_);
  }
  /// Level of zlib.
  int level_;
};

/// Further paragraphs of the reference of `png.read`.
constexpr std::string_view png_read_details =
    R"(Outlet `x` has the type of the setting: rows, columns and channels. Grey images
have 1 channel, grey and alpha 2, colours 3, colours and alpha 4. Palettes become
colours, and samples of less than 8 bits are scaled to 8 bits. Samples of 16 bits need
the type u16.

An image whose size differs from the type, or exceeds `max_bytes`, is refused when its
header has been read: nothing of the size of the image is allocated. Checksums of all
chunks are verified. A damaged file is `corrupt`, one that is cut short `torn`, and the
message names the file.

Attributes: `file` is the name of the file. The cursor holds the number of files, a
digest of their names, and size and XXH3 digest of the last one. Files may be added
behind the cursor.)";

/// A small pipeline with `png.read`.
constexpr std::string_view png_read_example = R"([[stage]]
name = "images"
use = "png.read"
path = "images"
type = "u8[h,w,3]"

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

/// Further paragraphs of the reference of `png.write`.
constexpr std::string_view png_write_details =
    R"(Inlet `x` has rows, columns and 1 to 4 channels: grey, grey and alpha, colours,
colours and alpha. Elements of u16 become samples of 16 bits.

Attributes come from the data, so their values choose no folder: in a value, each `/` and
each NUL becomes `_`, and so does a point at its begin. An empty value becomes `_` if the
name in front of it is empty or consists of points. The number of the item keeps files
apart whose values become the same.

Each file is written beside its place, as NAME.tmp, and renamed, so that a reader finds
it whole or not at all. The folder is made if it is missing. Files are made durable at
checkpoints, and after 256 files. A resumed run compares the last file before the
checkpoint: a missing one is `torn`, another one is `hash_mismatch`. It writes the files
behind the checkpoint again, with the same bytes as long as libpng and zlib are the
same. The state holds the name of the last file.)";

/// A small pipeline with `png.write`.
constexpr std::string_view png_write_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 3
shape = [16, 16, 3]
element = "u8"

[[stage]]
name = "images"
use = "png.write"
path = "made/{item:4}.png"
)";

}  // namespace

/// Makes the source from its settings.
result<void> make_png_read(flow::described_stage& made, const given_settings& given,
                           file_system& fs) {
  made.info =
      source_info(std::string(png_read_name), "reads PNG images, one from each file");
  made.info.details = png_read_details;
  made.info.example = png_read_example;
  WEIR_TRY(png_read_settings settings,
           flow::read_settings(made.info, png_read_table(), given));
  // The rule of the setting has accepted it already.
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", std::move(type), false}};
  made.object = std::make_unique<png_read>(std::move(settings), fs);
  return {};
}

/// Makes the sink from its settings.
result<void> make_png_write(flow::described_stage& made, const given_settings& given,
                            file_system& fs) {
  made.info.name = png_write_name;
  made.info.documentation = "writes each item to a PNG file of its own";
  made.info.face = flow::face::sink;
  made.info.details = png_write_details;
  made.info.example = png_write_example;
  made.info.state = {{last_file_part, false}};
  WEIR_TRY(png_write_settings settings,
           flow::read_settings(made.info, png_write_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  // The pattern is checked here, so that a mistake is found before the run.
  WEIR_TRY(name_pattern pattern, name_pattern::parse(settings.path));
  made.info.ports = {{"x", std::move(type), true}};
  made.object = std::make_unique<png_write>(std::move(settings), std::move(pattern), fs);
  return {};
}

}  // namespace weir::actors
