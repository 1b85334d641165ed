// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir hn4`: make a volume, put a stream of bytes under a tag, list and read tags.
#include "weir/storage/hn4.hpp"

#include <algorithm>

#include "commands.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

using storage::hn4_volume;

void note(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    fmt::print(stderr, "note: {}\n", warning);
  }
}

}  // namespace

command_result hn4_mkfs(const hn4_options& options, output& out) {
  storage::hn4_format_options format;
  WEIR_TRY(format.capacity, parse_size(options.size));
  format.label = options.label;
  format.overwrite = options.force;
  if (options.seeded) {
    format.uuid_seed = options.seed;
    format.time_ns = 0;
  }
  WEIR_CHECK(storage::hn4_format(options.volume, format));
  WEIR_TRY(const hn4_volume volume, hn4_volume::open(options.volume));
  const auto& g = volume.geometry();
  if (options.json) {
    out.print(
        "{{\"volume\": {}, \"capacity\": {}, \"block\": {}, \"profile\": \"{}\"}}\n",
        json_quote(options.volume), g.capacity, g.block, name_of(g.profile));
  } else {
    out.print("{}: {} in blocks of {}, profile {}\n", options.volume,
              human_bytes(g.capacity), human_bytes(g.block), name_of(g.profile));
  }
  return 0;
}

command_result hn4_put(const hn4_options& options, output& out) {
  WEIR_TRY(hn4_volume volume,
           hn4_volume::open(options.volume, storage::device_mode::writable));
  WEIR_TRY(const byte_vector content, read_input(options.file));
  storage::hn4_put_options put;
  put.shards = options.shards;
  WEIR_CHECK(volume.put(options.tag, content, put));
  WEIR_TRY(const auto stream, volume.stream(options.tag));
  if (options.json) {
    out.print("{{\"tag\": {}, \"bytes\": {}, \"shards\": {}}}\n", json_quote(options.tag),
              stream.size(), stream.shards().size());
  } else {
    out.print("{}: {} bytes in {} shards\n", options.tag, stream.size(),
              stream.shards().size());
  }
  return 0;
}

command_result hn4_ls(const hn4_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, hn4_volume::open(options.volume));
  WEIR_TRY(const auto tags, volume.tags());
  note(volume.warnings());
  if (!options.json) {
    for (const auto& tag : tags) {
      out.print("{:32} {:>14} bytes  {} shards  generation {}\n", tag.name, tag.bytes,
                tag.shards, tag.generation);
    }
    return 0;
  }
  out.print("{{\"volume\": {}, \"label\": {}, \"tags\": [", json_quote(options.volume),
            json_quote(volume.label()));
  for (std::size_t i = 0; i < tags.size(); ++i) {
    out.print("{}\n  {{\"name\": {}, \"bytes\": {}, \"shards\": {}, \"generation\": {}}}",
              i == 0 ? "" : ",", json_quote(tags[i].name), tags[i].bytes, tags[i].shards,
              tags[i].generation);
  }
  out.write("]}\n");
  return 0;
}

command_result hn4_cat(const hn4_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, hn4_volume::open(options.volume));
  WEIR_TRY(const auto stream, volume.stream(options.tag));
  note(stream.warnings());
  // Pieces of whole blocks: no block is verified twice.
  const std::size_t piece = std::size_t{256} * volume.geometry().payload;
  byte_vector buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(piece, stream.size())));
  for (std::uint64_t at = 0; at < stream.size();) {
    WEIR_TRY(const std::size_t n, stream.read(at, buffer));
    out.write(bytes_view(buffer).first(n));
    at += n;
  }
  return 0;
}

}  // namespace weir::tools
