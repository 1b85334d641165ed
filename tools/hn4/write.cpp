// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir hn4`: the verbs that write volumes.
///
/// A verb opens the volume, changes it, and writes the index at its end. The lock on the
/// volume is held from the opening to the end of the verb.
#include <algorithm>
#include <optional>

#include "hn4/source.hpp"
#include "hn4/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_code.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::tools {

namespace {

using storage::hn4_volume;

/// Finds a medium by its name.
/// "hdd" is accepted, because it is what most people call a rotational disk.
result<storage::hn4_medium> medium_named(const std::string& name) {
  if (name == "ssd") {
    return storage::hn4_medium::ssd;
  }
  if (name == "rotational" || name == "hdd") {
    return storage::hn4_medium::rotational;
  }
  if (name == "tape") {
    return storage::hn4_medium::tape;
  }
  return error(
      errc::unknown_key,
      fmt::format("cannot find medium \"{}\": expected ssd, rotational or tape", name));
}

/// Opens the volume of the options for writing and prints its warnings.
/// Fails if another process has the volume open for writing.
result<hn4_volume> open_for_writing(const hn4_options& options) {
  WEIR_TRY(hn4_volume volume,
           hn4_volume::open(options.volume, storage::device_mode::writable));
  print_notes(volume.warnings());
  return volume;
}

/// Stores bytes under the tag of the options and prints what the tag holds afterwards.
/// The lock on the volume ends with the function.
result<void> store(const hn4_options& options, bytes_view content, output& out) {
  // The content was opened before, so that a missing file does not even lock the volume.
  WEIR_TRY(hn4_volume volume, open_for_writing(options));
  storage::hn4_put_options put;
  put.shards = options.shards;
  put.compress = options.compress;
  // By default a tag that exists is refused.
  put.existing = options.replace  ? storage::hn4_existing::replace
                 : options.append ? storage::hn4_existing::append
                                  : storage::hn4_existing::refuse;
  // Either all of the content is stored, or the tag stays as it was.
  WEIR_CHECK(volume.put(options.tag, content, put));
  // The index makes later opening fast. It is no part of the data and can be built again.
  WEIR_CHECK(volume.write_index());
  // Read back, so that what is printed is what the volume has.
  WEIR_TRY(const auto stream, volume.stream(options.tag));
  if (options.json) {
    out.print("{{\"tag\": {}, \"size\": {}, \"shards\": {}}}\n", json_quote(options.tag),
              stream.size(), stream.shards().size());
  } else {
    out.print("{}: {} in {}\n", options.tag, counted(stream.size(), "byte"),
              counted(stream.shards().size(), "shard"));
  }
  return {};
}

}  // namespace

/// Makes an empty volume and says which geometry it got.
command_result hn4_mkfs(const hn4_options& options, output& out) {
  storage::hn4_format_options format;
  // Names and sizes are parsed before anything is written.
  WEIR_TRY(format.capacity, parse_size(options.size));
  WEIR_TRY(format.profile, storage::hn4_profile_named(options.profile));
  WEIR_TRY(format.medium, medium_named(options.medium));
  format.sector = options.sector;
  format.label = options.label;
  format.overwrite = options.force;
  // With a seed, two volumes with equal options are equal byte for byte, so the time must
  // not be part of them.
  if (options.seeded) {
    format.uuid_seed = options.seed;
    format.time_ns = 0;
  }
  WEIR_CHECK(storage::hn4_format(options.volume, format));
  // Opened again to show what was really written. The profile may have rounded the
  // capacity.
  WEIR_TRY(const hn4_volume volume, hn4_volume::open(options.volume));
  const auto& g = volume.geometry();
  if (options.json) {
    out.print(
        "{{\"volume\": {}, \"capacity\": {}, \"block\": {}, \"sector\": {}, \"profile\": "
        "\"{}\"}}\n",
        json_quote(options.volume), g.capacity, g.block, g.sector, name_of(g.profile));
  } else {
    out.print("{}: {} in blocks of {}, profile {}\n", options.volume,
              human_bytes(g.capacity), human_bytes(g.block), name_of(g.profile));
  }
  return 0;
}

/// Stores any bytes.
command_result hn4_put(const hn4_options& options, output& out) {
  WEIR_TRY(const source content, source::open(options.file));
  WEIR_CHECK(store(options, content.bytes(), out));
  return 0;
}

/// Stores a file whose tensors can then be read by name.
command_result hn4_import(const hn4_options& options, output& out) {
  WEIR_TRY(const source content, source::open(options.file));
  // A file that claims to be a container must be a sound one before it is stored.
  WEIR_TRY(const auto directory, storage::tensor_directory::from_bytes(content.bytes()));
  // A file that was cut in its first bytes looks like raw bytes. The name tells that it
  // should be more.
  const std::string_view file = options.file;
  if (directory.format() == storage::container_format::raw &&
      (file.ends_with(".safetensors") || file.ends_with(".gguf"))) {
    return storage::hn4_error(
               storage::hn4_code::data_rot,
               fmt::format("cannot import \"{}\": expected the header that its name "
                           "promises, found none in {}",
                           file, counted(content.bytes().size(), "byte")))
        .hint("it may have been cut; `weir hn4 put` stores any bytes");
  }
  WEIR_CHECK(store(options, content.bytes(), out));
  // The JSON of `store` is complete by itself; this line is for people.
  if (!options.json) {
    out.print("{}, format {}\n", counted(directory.tensors().size(), "tensor"),
              name_of(directory.format()));
  }
  return 0;
}

/// Removes a tag. Its blocks become free.
command_result hn4_rm(const hn4_options& options, output& out) {
  WEIR_TRY(hn4_volume volume, open_for_writing(options));
  WEIR_CHECK(volume.remove(options.tag));
  WEIR_CHECK(volume.write_index());
  if (options.json) {
    out.print("{{\"tag\": {}, \"removed\": true}}\n", json_quote(options.tag));
  } else {
    out.print("{}: removed\n", options.tag);
  }
  return 0;
}

/// Moves tags together, and leaves those that cannot be read where they are.
command_result hn4_compact(const hn4_options& options, output& out) {
  WEIR_TRY(hn4_volume volume, open_for_writing(options));
  WEIR_TRY(const storage::hn4_compaction done, volume.compact());
  WEIR_CHECK(volume.write_index());
  for (const storage::hn4_damaged_tag& tag : done.left) {
    fmt::print(stderr, "note: tag \"{}\" was left where it is: {}\n", tag.name,
               tag.problem.message());
  }
  if (options.json) {
    out.print("{{\"moved\": {}, \"left\": {}}}\n", done.moves, done.left.size());
  } else {
    out.print("{}: {}\n", options.volume, counted(done.moves, "move"));
  }
  // One that was left may stand in the way of a single range of free space.
  return done.left.empty() ? 0 : 1;
}

}  // namespace weir::tools
