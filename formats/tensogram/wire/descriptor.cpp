// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion of object descriptors from and to CBOR. Keys other than those of the
/// descriptor itself are parameters of the pipeline and keep their values untouched.
///
/// A descriptor that is read and written again has the same content: keys that no stage
/// interprets stay among the parameters, and strides are kept as they are.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>

#include "tensogram/wire/metadata.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"

namespace weir::formats {

namespace {

/// Key of the mark that szip offsets are correct; see make_reserved().
constexpr std::string_view szip_mark_key = "szip_offsets";

/// Returns the error for a key of a descriptor.
error bad_key(std::string_view key, std::string_view expected, std::string_view found) {
  return error(errc::corrupt,
               fmt::format("cannot read descriptor key \"{}\": expected {}, found {}",
                           key, expected, found));
}

/// Returns the text of a required key.
/// A value of another kind is an error like a missing one.
result<std::string> text_at(const cbor_map& map, std::string_view key) {
  const cbor_value* value = map.find(key);
  if (value == nullptr || value->text() == nullptr) {
    return bad_key(key, "text", value == nullptr ? "nothing" : name_of(value->kind()));
  }
  return *value->text();
}

/// Returns the unsigned integers of a required key.
result<std::vector<std::uint64_t>> unsigned_array_at(const cbor_map& map,
                                                     std::string_view key) {
  const cbor_value* value = map.find(key);
  if (value == nullptr || value->array() == nullptr) {
    return bad_key(key, "an array",
                   value == nullptr ? "nothing" : name_of(value->kind()));
  }
  std::vector<std::uint64_t> out;
  out.reserve(value->array()->size());
  for (const cbor_value& item : *value->array()) {
    // Negative numbers and reals are refused alike.
    if (!item.uint64()) {
      return bad_key(key, "unsigned integers", to_json(item));
    }
    out.push_back(*item.uint64());
  }
  return out;
}

/// Returns the type with a name of Tensogram, which has no names for the fp8 types and
/// bool of Tessera.
result<dtype> tensogram_dtype(std::string_view name) {
  // Several types have no name; the comparison skips these.
  for (const dtype_info& row : all_dtypes()) {
    if (!row.tensogram.empty() && row.tensogram == name) {
      return row.id;
    }
  }
  // The names serve a suggestion only.
  std::vector<std::string> names;
  for (const dtype_info& row : all_dtypes()) {
    names.emplace_back(row.tensogram);
  }
  return bad_key("dtype", "a type of Tensogram",
                 fmt::format("\"{}\"{}", name, did_you_mean(name, names)));
}

/// Reads the shape and compares its length with `ndim`.
result<shape_vector> parse_shape(const cbor_map& map) {
  WEIR_TRY(const auto extents, unsigned_array_at(map, "shape"));
  // An extent is a signed number in memory; a file may have any unsigned one.
  shape_vector shape;
  for (const std::uint64_t n : extents) {
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return bad_key("shape", "extents below 2^63", std::to_string(n));
    }
    shape.push_back(static_cast<std::int64_t>(n));
  }
  // `ndim` is redundant but required, and must agree.
  const cbor_value* ndim = map.find("ndim");
  if (ndim == nullptr || !ndim->uint64()) {
    return bad_key("ndim", "an unsigned integer",
                   ndim == nullptr ? "nothing" : to_json(*ndim));
  }
  if (*ndim->uint64() != shape.size()) {
    return bad_key("ndim", fmt::format("{} as in the shape", shape.size()),
                   std::to_string(*ndim->uint64()));
  }
  return shape;
}

/// Reads the byte order; that of the machine if the key is absent.
result<byte_order> parse_order(const cbor_map& map) {
  if (map.find("byte_order") == nullptr) {
    return native_byte_order;
  }
  WEIR_TRY(const std::string name, text_at(map, "byte_order"));
  if (name != "big" && name != "little") {
    return bad_key("byte_order", "\"big\" or \"little\"", fmt::format("\"{}\"", name));
  }
  return name == "big" ? byte_order::big : byte_order::little;
}

/// Returns whether a key belongs to the descriptor and not to a stage.
/// Keys of stages must not be lost, so this list has the keys of the descriptor and
/// treats all others as parameters.
bool is_descriptor_key(std::string_view key) {
  for (const std::string_view own :
       {"type", "ndim", "shape", "strides", "dtype", "byte_order", "encoding", "filter",
        "compression", "masks"}) {
    if (key == own) {
      return true;
    }
  }
  return false;
}

/// Moves the masks and the parameters of the stages into the descriptor.
result<void> take_rest(const cbor_map& map, object_descriptor& out) {
  // Masks are checked when the places of the payloads are known.
  if (const cbor_value* masks = map.find("masks")) {
    if (masks->map() == nullptr) {
      return bad_key("masks", "a map", name_of(masks->kind()));
    }
    out.masks = *masks->map();
  }
  std::vector<cbor_entry> rest;
  for (const cbor_entry& entry : map) {
    // The order of the entries is that of the map, so `from_entries` need not sort.
    if (entry.key.text() == nullptr || !is_descriptor_key(*entry.key.text())) {
      rest.push_back(entry);
    }
  }
  // What is left are the parameters.
  out.parameters = cbor_map::from_entries(std::move(rest));
  return {};
}

/// Extents are written as integers.
cbor_array as_array(const shape_vector& shape) {
  cbor_array out;
  out.reserve(shape.size());
  for (const std::int64_t n : shape) {
    out.emplace_back(n);
  }
  return out;
}

/// Strides are unsigned already.
cbor_array as_array(const std::vector<std::uint64_t>& values) {
  return cbor_array(values.begin(), values.end());
}

}  // namespace

/// An overflow beyond the first dimension is an error; the product with the first one is
/// not needed for strides.
/// The last dimension has stride 1. A shape with a zero has strides that nothing uses.
result<std::vector<std::uint64_t>> element_strides(const shape_vector& shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::int64_t stride = 1;
  // From the last dimension to the first, as strides grow in this direction.
  for (std::size_t k = shape.size(); k-- > 0;) {
    strides[k] = static_cast<std::uint64_t>(stride);
    // A negative extent cannot come from a file, but from a program.
    if (shape[k] < 0 || (k > 0 && !checked_mul(stride, shape[k], stride))) {
      return error(
          errc::out_of_range,
          fmt::format("cannot lay out shape [{}]: expected extents whose products stay "
                      "below 2^63, found more",
                      fmt::join(shape, ",")));
    }
  }
  return strides;
}

/// Returns the size of the decoded elements. A shape comes from a file, so its product
/// may overflow.
/// The limit of 2^63 is that of offsets in files.
result<std::uint64_t> decoded_size(const object_descriptor& descriptor) {
  // A negative count stands for an overflow.
  const std::int64_t count = element_count(descriptor.shape);
  if (count < 0) {
    return error(
        errc::out_of_range,
        fmt::format("cannot size shape [{}]: expected fewer than 2^63 elements, found "
                    "more",
                    fmt::join(descriptor.shape, ",")));
  }
  // The size of an element may overflow once more.
  WEIR_TRY(const std::int64_t bytes, byte_size(descriptor.type, count));
  return static_cast<std::uint64_t>(bytes);
}

/// Reads the required keys in a fixed order, so that the first fault is always the same
/// one.
result<object_descriptor> parse_descriptor(const cbor_value& from) {
  const cbor_map* map = from.map();
  // Everything else is found through the map.
  if (map == nullptr) {
    return error(errc::corrupt,
                 fmt::format("cannot read descriptor: expected a map, found {}",
                             name_of(from.kind())));
  }
  object_descriptor out;
  // The order is type, dtype, shape, strides, byte order, stages.
  WEIR_TRY(out.object_type, text_at(*map, "type"));
  WEIR_TRY(const std::string type, text_at(*map, "dtype"));
  WEIR_TRY(out.type, tensogram_dtype(type));
  WEIR_TRY(out.shape, parse_shape(*map));
  WEIR_TRY(out.strides, unsigned_array_at(*map, "strides"));
  if (out.strides.size() != out.shape.size()) {
    return bad_key("strides", fmt::format("{} as in the shape", out.shape.size()),
                   std::to_string(out.strides.size()));
  }
  WEIR_TRY(out.order, parse_order(*map));
  WEIR_TRY(out.encoding, text_at(*map, "encoding"));
  WEIR_TRY(out.filter, text_at(*map, "filter"));
  WEIR_TRY(out.compression, text_at(*map, "compression"));
  WEIR_CHECK(take_rest(*map, out));
  return out;
}

/// The four keys are part of both the descriptor and the metadata of the object.
/// A type of Tessera that Tensogram lacks cannot be written.
result<cbor_map> tensor_entry(const object_descriptor& from) {
  const dtype_info& info = info_of(from.type);
  if (info.tensogram.empty()) {
    return error(
               errc::unsupported,
               fmt::format(
                   "cannot write dtype {}: expected a type of Tensogram, found one that "
                   "it does not have",
                   info.tessera))
        .hint("store it as uint8 and name the type in the metadata");
  }
  WEIR_TRY(const auto c_order, element_strides(from.shape));
  // Strides that were read are kept; a new descriptor gets those of C order.
  const auto& strides = from.strides.empty() ? c_order : from.strides;
  if (strides.size() != from.shape.size()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot write descriptor: expected {} strides as there are "
                             "dimensions, or none, found {}",
                             from.shape.size(), strides.size()))
        .hint("leave the strides empty to have those of C order written");
  }
  // The order does not matter, since maps are sorted.
  return cbor_map{{"ndim", from.shape.size()},
                  {"dtype", info.tensogram},
                  {"shape", as_array(from.shape)},
                  {"strides", as_array(strides)}};
}

/// Only szip with offsets of this writer has a mark.
result<cbor_map> make_reserved(const object_descriptor& from) {
  WEIR_TRY(cbor_map tensor, tensor_entry(from));
  cbor_map out{{"tensor", std::move(tensor)}};
  if (from.szip_offsets != 0) {
    out.set(szip_mark_key, hex64(from.szip_offsets));
  }
  return out;
}

/// Returns the digest that marks trusted szip offsets, or 0 if there is no valid mark. A
/// damaged mark is no error: the object can be decoded without it.
std::uint64_t parse_szip_mark(const cbor_map& reserved) noexcept {
  const cbor_value* mark = reserved.find(szip_mark_key);
  std::uint64_t out = 0;
  // The text has one length, whatever the number is.
  if (mark == nullptr || mark->text() == nullptr || mark->text()->size() != 16) {
    return 0;
  }
  // Sixteen hexadecimal digits and nothing behind them.
  const char* end = mark->text()->data() + 16;
  const auto parsed = std::from_chars(mark->text()->data(), end, out, 16);
  return parsed.ec == std::errc() && parsed.ptr == end ? out : 0;
}

/// A parameter must not replace a key of the descriptor itself.
result<cbor_map> make_descriptor(const object_descriptor& from) {
  WEIR_TRY(cbor_map out, tensor_entry(from));
  out.set("type", from.object_type);
  out.set("byte_order", from.order == byte_order::big ? "big" : "little");
  out.set("encoding", from.encoding);
  out.set("filter", from.filter);
  out.set("compression", from.compression);
  // Without masks, the key is absent and not an empty map.
  if (!from.masks.empty()) {
    out.set("masks", from.masks);
  }
  for (const cbor_entry& entry : from.parameters) {
    // `set` returns true if it replaced a value, that is, a key of the descriptor.
    if (out.set(entry.key, entry.value)) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot write descriptor: expected pipeline parameters, found its "
                      "own key {}",
                      to_json(entry.key)));
    }
  }
  return out;
}

}  // namespace weir::formats
