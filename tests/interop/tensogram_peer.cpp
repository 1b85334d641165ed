// SPDX-License-Identifier: Apache-2.0
// The project's side of the exchange with the reference's package: `write FOLDER` leaves
// messages and the elements they hold; `read FILE` prints every message as JSON, elements
// as hexadecimal text; `read-bare FILE` does so where there are no digests.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "formats/support.hpp"
#include "weir/formats/tensogram.hpp"

namespace {

using namespace weir;
using namespace weir::formats;
using namespace weir::test;

void save(const std::string& path, bytes_view bytes) {
  or_throw(write_file_atomically(posix_file_system(), path, bytes));
}

/// The types that the package hands out as arrays of NumPy.
std::vector<sample_object> numpy_objects() {
  std::vector<sample_object> out;
  std::uint64_t seed = 1;
  for (const dtype type :
       {dtype::fp32, dtype::fp64, dtype::int8, dtype::int16, dtype::int32, dtype::int64,
        dtype::uint8, dtype::uint16, dtype::uint32, dtype::uint64, dtype::complex64,
        dtype::complex128, dtype::fp16, dtype::bf16, dtype::bitmask}) {
    for (const byte_order order : {byte_order::little, byte_order::big}) {
      for (const char* compression : {"none", "zstd"}) {
        out.push_back(sample(seed, type, {3, static_cast<std::int64_t>(seed % 7)}, order,
                             compression));
        out.back().metadata = {{"name", "object" + std::to_string(seed)},
                               {"half", 0.5},
                               {"list", cbor_array{1, -2, "three", nullptr, true}}};
        ++seed;
      }
    }
  }
  return out;
}

/// An object of `n` slowly changing elements through the given stages.
sample_object staged(dtype type, byte_order order, std::int64_t n,
                     const std::string& filter, const std::string& compression,
                     cbor_map parameters) {
  sample_object out =
      sample(static_cast<std::uint64_t>(n), type, {n}, order, compression);
  const std::size_t width = info_of(type).size;
  for (std::size_t i = 0; width > 0 && i + width <= out.data.size(); i += width) {
    // Whole runs of equal elements, so that compression has something to do.
    std::copy_n(out.data.begin() + static_cast<std::ptrdiff_t>(i / (8 * width) * width),
                width, out.data.begin() + static_cast<std::ptrdiff_t>(i));
  }
  out.descriptor.filter = filter;
  if (filter == "shuffle") {
    parameters.set("shuffle_element_size", std::max<std::size_t>(1, width));
  }
  out.descriptor.parameters = std::move(parameters);
  return out;
}

std::vector<std::pair<std::string, cbor_map>> codecs_for(unsigned bits) {
  std::vector<std::pair<std::string, cbor_map>> out{
      {"none", {}},
      {"lz4", {}},
      {"zstd", {{"zstd_level", 5}}},
      {"blosc2", {{"blosc2_codec", "lz4"}}},
      {"blosc2", {{"blosc2_codec", "zstd"}, {"blosc2_clevel", 3}}}};
  if (bits % 8 == 0 && bits > 0 && bits <= 32) {
    out.push_back(
        {"szip", {{"szip_rsi", 16}, {"szip_block_size", 8}, {"szip_flags", 8}}});
    out.push_back(
        {"szip", {{"szip_rsi", 128}, {"szip_block_size", 32}, {"szip_flags", 0}}});
  }
  return out;
}

/// Doubles near 250 in little-endian order.
sample_object field(std::int64_t n, byte_order order) {
  sample_object out = sample(1, dtype::fp64, {n}, order);
  const philox random(9, 9);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const double value = 250 + static_cast<double>(i % 97) / 4 +
                         static_cast<double>(random.bits(i) >> 54) / 1024;
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, 8);
    store_le(out.data.data() + 8 * i, bits);
  }
  if (order == byte_order::big) {
    swap_units(out.data, 8);
  }
  return out;
}

void add_packed(std::vector<sample_object>& out) {
  for (const unsigned bits : {0u, 1u, 7u, 8u, 12u, 16u, 24u, 31u, 32u, 33u, 52u, 64u}) {
    for (auto [codec, parameters] : codecs_for(bits)) {
      sample_object object =
          field(400, bits % 2 == 0 ? byte_order::little : byte_order::big);
      object.descriptor.encoding = "simple_packing";
      object.descriptor.compression = codec;
      parameters.set("sp_bits_per_value", bits);
      parameters.set("sp_decimal_scale_factor", static_cast<int>(bits % 3) - 1);
      object.descriptor.parameters = parameters;
      if (codec != "blosc2" || (bits > 0 && 400 * bits / 8 % ((bits + 7) / 8) == 0)) {
        out.push_back(object);
      }
      if (bits % 8 == 0 && bits > 0 && codec != "none") {
        object.descriptor.filter = "shuffle";
        object.descriptor.parameters.set("shuffle_element_size", bits / 8);
        out.push_back(object);
      }
    }
  }
}

/// Every type, encoding, filter and codec that is written.
std::vector<sample_object> staged_objects() {
  std::vector<sample_object> out;
  for (const dtype_info& type : all_dtypes()) {
    if (type.tensogram.empty()) {
      continue;
    }
    if (type.id == dtype::bitmask) {
      for (const char* codec : {"none", "rle", "roaring", "lz4", "zstd"}) {
        out.push_back(staged(type.id, byte_order::little, 3001, "none", codec, {}));
      }
      continue;
    }
    for (const byte_order order : {byte_order::little, byte_order::big}) {
      for (const auto& [codec, parameters] : codecs_for(8u * type.size)) {
        out.push_back(staged(type.id, order, 301, "none", codec, parameters));
      }
      for (const auto& [codec, parameters] : codecs_for(8)) {
        out.push_back(staged(type.id, order, 301, "shuffle", codec, parameters));
      }
    }
  }
  add_packed(out);
  const std::vector<cbor_map> modes{
      {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 20.0}},
      {{"zfp_mode", "fixed_precision"}, {"zfp_precision", 30}},
      {{"zfp_mode", "fixed_accuracy"}, {"zfp_tolerance", 0.001}}};
  for (const cbor_map& mode : modes) {
    out.push_back(field(1001, byte_order::little));
    out.back().descriptor.compression = "zfp";
    out.back().descriptor.parameters = mode;
  }
  return out;
}

/// A field on two coordinates, named as xarray's engine looks for it.
void write_field(const std::string& path) {
  const auto coordinate = [](const char* name, std::int64_t n, double first) {
    sample_object out = sample(1, dtype::fp64, {n});
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = first + static_cast<double>(i);
      std::memcpy(out.data.data() + 8 * i, &value, 8);
    }
    out.metadata = {{"name", name}};
    return out;
  };
  sample_object values = sample(2, dtype::fp32, {3, 4});
  values.descriptor.compression = "zstd";
  values.metadata = {{"name", "t2m"},
                     {"units", "K"},
                     {"dim_names", cbor_array{"latitude", "longitude"}}};
  save(path, or_throw(encode_message(to_write({coordinate("latitude", 3, 50),
                                               coordinate("longitude", 4, 8), values}))));
}

void write_stream(const std::string& path, const std::vector<sample_object>& objects,
                  bool with_length, message_options options = {}) {
  byte_vector bytes;
  options.extra = {{"kind", "stream"}};
  auto writer = or_throw(stream_writer::open(
      [&](bytes_view piece) {
        append(bytes, piece);
        return result<void>();
      },
      options));
  for (const sample_object& object : objects) {
    or_throw(writer.write(object.to_write()));
  }
  if (with_length) {
    or_throw(writer.finish([&](std::uint64_t offset, bytes_view piece) {
      std::copy(piece.begin(), piece.end(),
                bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      return result<void>();
    }));
  } else {
    or_throw(writer.finish());
  }
  save(path, bytes);
}

/// Every float and complex type with NaN and infinities, a mask method per message.
void write_masked(const std::string& folder) {
  constexpr std::array methods{
      std::pair("none", mask_method::none), std::pair("rle", mask_method::rle),
      std::pair("roaring", mask_method::roaring), std::pair("lz4", mask_method::lz4),
      std::pair("zstd", mask_method::zstd)};
  for (const auto& [name, method] : methods) {
    std::vector<sample_object> objects;
    for (const dtype type : {dtype::fp16, dtype::bf16, dtype::fp32, dtype::fp64,
                             dtype::complex64, dtype::complex128}) {
      for (const char* codec : {"none", "lz4", "zstd"}) {
        objects.push_back(staged(type, byte_order::little, 2000, "none", codec, {}));
        byte_vector& data = objects.back().data;
        const std::size_t unit = info_of(type).swap_unit;
        for (std::size_t i = 0; i + unit <= data.size(); i += 7 * unit) {
          data[i + unit - 1] = i % 2 == 0 ? std::byte{0x7F} : std::byte{0xFF};
          data[i + unit - 2] = i % 3 == 0 ? std::byte{0xFF} : data[i + unit - 2];
        }
      }
    }
    message_options options;
    options.masks = {true, true, method, method, method, 0};
    save(folder + "/staged_mask_" + name + ".tgm",
         or_throw(encode_message(to_write(objects), options)));
    write_stream(folder + "/staged_mask_stream_" + name + ".tgm", objects, true, options);
  }
}
void write_all(const std::string& folder) {
  const auto objects = numpy_objects();
  const auto writable = to_write(objects);
  for (const auto& [name, list] :
       {std::pair("auto", hash_list::automatic), std::pair("none", hash_list::none),
        std::pair("footer", hash_list::footer), std::pair("both", hash_list::both)}) {
    message_options options;
    options.list = list;
    options.extra = {{"kind", name}};
    save(folder + "/whole_" + name + ".tgm", or_throw(encode_message(writable, options)));
  }
  message_options bare;
  bare.hashes = false;
  save(folder + "/bare.tgm", or_throw(encode_message(writable, bare)));
  save(folder + "/empty.tgm", or_throw(encode_message({})));
  const std::vector<sample_object> many(600, sample(1, dtype::uint8, {1}));
  save(folder + "/many.tgm", or_throw(encode_message(to_write(many))));
  write_stream(folder + "/stream.tgm", objects, false);
  write_stream(folder + "/stream_length.tgm", objects, true);
  const auto staged_ones = staged_objects();
  for (const auto& [name, list] :
       {std::pair("auto", hash_list::automatic), std::pair("none", hash_list::none),
        std::pair("header", hash_list::header), std::pair("footer", hash_list::footer),
        std::pair("both", hash_list::both)}) {
    message_options options;
    options.list = list;
    options.threads = 2;
    save(folder + "/staged_" + name + ".tgm",
         or_throw(encode_message(to_write(staged_ones), options)));
  }
  save(folder + "/staged_bare.tgm",
       or_throw(encode_message(to_write(staged_ones), bare)));
  write_stream(folder + "/staged_bare_stream.tgm", staged_ones, false, bare);
  message_options aligned;
  aligned.payload_alignment = 64;
  save(folder + "/staged_aligned.tgm",
       or_throw(encode_message(to_write(staged_ones), aligned)));
  write_stream(folder + "/staged_stream.tgm", staged_ones, false);
  write_stream(folder + "/staged_stream_length.tgm", staged_ones, true);
  write_masked(folder);
  write_field(folder + "/field_xarray.tgm");
  byte_vector native;
  for (const sample_object& object : objects) {
    byte_vector data = object.data;
    if (object.descriptor.order != native_byte_order) {
      swap_units(data, info_of(object.descriptor.type).swap_unit);
    }
    append(native, data);
  }
  save(folder + "/elements.bin", native);
}

void read_file_as_json(const std::string& path, hash_check hashes) {
  const byte_vector bytes = load(path);
  read_options options;
  options.hashes = hashes;
  cbor_array messages;
  for (const message_span& span : scan(bytes)) {
    const auto reader = or_throw(message_reader::open(
        bytes_view(bytes).subspan(span.offset, span.length), options));
    cbor_array objects;
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      objects.emplace_back(
          cbor_map{{"dtype", info_of(reader.descriptor(i).type).tensogram},
                   {"shape", cbor_array(reader.descriptor(i).shape.begin(),
                                        reader.descriptor(i).shape.end())},
                   {"metadata", reader.metadata(i)},
                   {"hex", to_hex(or_throw(reader.decode(i)))}});
    }
    messages.emplace_back(
        cbor_map{{"objects", std::move(objects)}, {"extra", reader.metadata().extra}});
  }
  std::printf("%s\n", to_json(cbor_value(std::move(messages))).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  try {
    if (verb == "write") {
      write_all(argv[2]);
    } else if (verb == "read") {
      read_file_as_json(argv[2], hash_check::required);
    } else if (verb == "read-bare") {
      read_file_as_json(argv[2], hash_check::present);
    } else {
      std::fprintf(stderr,
                   "usage: tensogram_peer write FOLDER | read FILE | read-bare FILE\n");
      return 2;
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "tensogram_peer: %s\n", failure.what());
    return 1;
  }
  return 0;
}
