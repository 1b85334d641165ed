// SPDX-License-Identifier: Apache-2.0
// The project's side of the exchange with the reference's package: `write FOLDER` leaves
// messages and the elements they hold; `read FILE` prints every message as JSON, elements
// as hexadecimal text.
#include <cstdio>
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

void write_stream(const std::string& path, const std::vector<sample_object>& objects,
                  bool with_length) {
  byte_vector bytes;
  message_options options;
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

void read_file_as_json(const std::string& path) {
  const byte_vector bytes = load(path);
  read_options options;
  options.hashes = hash_check::required;
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
      read_file_as_json(argv[2]);
    } else {
      std::fprintf(stderr, "usage: tensogram_peer write FOLDER | read FILE\n");
      return 2;
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "tensogram_peer: %s\n", failure.what());
    return 1;
  }
  return 0;
}
