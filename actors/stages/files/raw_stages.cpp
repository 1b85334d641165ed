// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `raw.read` and the sink `raw.write`: files of elements without a header.
///
/// A raw file has no header, so the type of the setting must give everything but the
/// size. Both stages only say how an item is read or encoded; `file_source` and
/// `item_files` do the rest.
#include "stages/files/factories.hpp"
#include "stages/files/file_source.hpp"
#include "stages/files/item_files.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view raw_read_name = "raw.read";
constexpr std::string_view raw_write_name = "raw.write";

/// Returns a type whose extents are numbers, except that the slowest one may be open: the
/// size of the file then gives it.
// Returns nothing for other types. The size of an item must fit into 64 bits.
std::optional<flow::port_type> raw_type(const std::string& text) {
  auto type = flow::port_type::parse(text);
  // Types without whole bytes have no raw form.
  if (!type || !type->element || info_of(*type->element).size == 0) {
    return std::nullopt;
  }
  auto bytes = static_cast<std::int64_t>(info_of(*type->element).size);
  // The size of an item is computed to find types that are too large.
  for (std::size_t i = 0; i < type->shape.size(); ++i) {
    // The slowest extent may be open or 0; all others are numbers above 0.
    const flow::extent& one = type->shape[i];
    const bool fixed = one.is == flow::extent::kind::fixed;
    if ((!fixed && i != 0) || (fixed && i != 0 && one.number == 0) ||
        (fixed && !checked_mul(bytes, one.number, bytes))) {
      return std::nullopt;
    }
  }
  return std::move(*type);
}

/// The defaults of raw files; the type has none.
struct raw_read_settings : file_source_settings {
  raw_read_settings() { pattern = "*.raw"; }
};

settings_table<raw_read_settings> raw_read_table() {
  settings_table<raw_read_settings> table("the source raw.read");
  add_file_settings(table, ".raw");
  table
      .add("type", own<raw_read_settings>(&raw_read_settings::type),
           "type of the content of a file, such as u8[480,640]")
      .required()
      .rule(
          "that is a type of fewer than 2^63 bytes with an element type, whose extents "
          "are numbers, or ? for the first one",
          [](const std::string& text) { return raw_type(text).has_value(); });
  return table;
}

/// The elements go straight from the file into the memory of the item.
class raw_read final : public file_source {
 public:
  raw_read(raw_read_settings settings, flow::port_type type, file_system& fs)
      : file_source(raw_read_name, std::move(settings), fs), type_(std::move(type)) {}

 private:
  // `row` becomes the size of an item, or of one element of the open extent.
  result<std::uint64_t> load(pull& p, file& f, std::uint64_t size) override {
    // The shape of the item; an open extent is filled in below.
    std::vector<std::int64_t> shape;
    std::uint64_t row = info_of(*type_.element).size;
    for (const flow::extent& one : type_.shape) {
      const bool open = one.is != flow::extent::kind::fixed;
      shape.push_back(open ? 1 : one.number);
      row *= static_cast<std::uint64_t>(shape.back());
    }
    const bool open =
        !type_.shape.empty() && type_.shape[0].is != flow::extent::kind::fixed;
    // An open extent takes any whole number of rows.
    // A file of another size was written for another type, or is not complete.
    if (open ? size % row != 0 : size != row) {
      return error(
          size < row ? errc::torn : errc::corrupt,
          fmt::format(
              "cannot read a raw file as {}: expected {} bytes, found {}", type_.text(),
              open ? fmt::format("a multiple of {}", row) : fmt::format("{}", row),
              size));
    }
    // The open extent follows from the size.
    if (open) {
      shape[0] = static_cast<std::int64_t>(size / row);
    }
    WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, *type_.element, shape));
    const mutable_bytes to(x.data(), static_cast<std::size_t>(size));
    // The digest is that of the elements, which are the whole file.
    WEIR_CHECK(read_exactly(f, 0, to));
    return xxh3_64(to);
  }
  flow::port_type type_;
};

struct raw_write_settings {
  std::string path;
};

settings_table<raw_write_settings> raw_write_table() {
  settings_table<raw_write_settings> table("the sink raw.write");
  add_item_path(table, "out/{item:6}.raw");
  return table;
}

class raw_write final : public item_files {
 public:
  raw_write(const raw_write_settings& settings, name_pattern pattern, file_system& fs)
      : item_files(raw_write_name, settings.path, std::move(pattern), fs) {}

 private:
  /// Copies the elements as they are.
  result<byte_vector> encode(const taken& t) override {
    const runtime::tensor& x = t[any_in{0}];
    // The elements alone, without any header.
    WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
    return byte_vector(x.data(), x.data() + bytes);
  }
};

/// Further paragraphs of the reference of `raw.read`.
constexpr std::string_view raw_read_details =
    R"(Outlet `x` has the type of the setting. A file holds exactly the elements of one
item, the slowest dimension first, in the byte order of the machine. If the first extent
is `?`, the size of the file gives it. A file of another size is an error that names it.

Attributes: `file` is the name of the file. The cursor holds the number of files, a
digest of their names, and size and XXH3 digest of the last one. Files may be added
behind the cursor.)";

/// A small pipeline with `raw.read`.
constexpr std::string_view raw_read_example = R"([[stage]]
name = "frames"
use = "raw.read"
path = "raw"
type = "f32[4,4]"

[[stage]]
name = "sink"
use = "null"
)";

/// Further paragraphs of the reference of `raw.write`.
constexpr std::string_view raw_write_details =
    R"(Inlet `x` has any type. A file holds the elements alone, the slowest dimension
first, in the byte order of the machine. Files are written, made durable and verified as
those of `png.write`.)";

/// A small pipeline with `raw.write`.
constexpr std::string_view raw_write_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 3
shape = [4, 4]

[[stage]]
name = "frames"
use = "raw.write"
path = "made/{item:4}.raw"
)";

}  // namespace

/// Makes the source from its settings.
result<void> make_raw_read(flow::described_stage& made, const given_settings& given,
                           file_system& fs) {
  made.info = source_info(std::string(raw_read_name),
                          "reads files of elements without a header, each as an item");
  made.info.details = raw_read_details;
  made.info.example = raw_read_example;
  WEIR_TRY(raw_read_settings settings,
           flow::read_settings(made.info, raw_read_table(), given));
  // The rule of the setting has accepted the type already.
  const auto type = raw_type(settings.type);
  made.info.ports = {{"x", *type, false}};
  made.object = std::make_unique<raw_read>(std::move(settings), *type, fs);
  return {};
}

/// Makes the sink from its settings.
result<void> make_raw_write(flow::described_stage& made, const given_settings& given,
                            file_system& fs) {
  made.info.name = raw_write_name;
  made.info.documentation = "writes the elements of each item to a file of its own";
  made.info.face = flow::face::sink;
  made.info.details = raw_write_details;
  made.info.example = raw_write_example;
  made.info.state = {{last_file_part, false}};
  WEIR_TRY(const raw_write_settings settings,
           flow::read_settings(made.info, raw_write_table(), given));
  // The pattern is checked by the rule of the setting, and read here once more.
  WEIR_TRY(name_pattern pattern, name_pattern::parse(settings.path));
  made.info.ports = {{"x", {}, true}};
  made.object = std::make_unique<raw_write>(settings, std::move(pattern), fs);
  return {};
}

}  // namespace weir::actors
