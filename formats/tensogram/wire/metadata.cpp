// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion of metadata, index and digest lists from and to CBOR.
///
///   metadata      {base: [{...}, ...], _extra_: {...}, _reserved_: {...}, any other key}
///   index         {lengths: [...], offsets: [...]}
///   digest list   {hashes: ["16 hex digits", ...], algorithm: "xxh3"}
///
/// Absent keys mean empty parts. The base entries have one map for each object;
/// `_reserved_` is for the writer, `_extra_` for the message as a whole.
#include "tensogram/wire/metadata.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <chrono>
#include <ctime>
#include <random>

#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// Returns the error for a part of the metadata.
error bad_metadata(std::string_view part, std::string_view expected,
                   std::string_view found) {
  return error(errc::corrupt, fmt::format("cannot read {}: expected {}, found {}", part,
                                          expected, found));
}

/// Reads the base entries: an array of one map per object.
result<std::vector<cbor_map>> parse_base(cbor_value from) {
  if (from.array() == nullptr) {
    return bad_metadata("metadata key \"base\"", "an array of maps",
                        name_of(from.kind()));
  }
  std::vector<cbor_map> out;
  out.reserve(from.array()->size());
  for (cbor_value& item : *from.array()) {
    if (item.map() == nullptr) {
      return bad_metadata(fmt::format("metadata key \"base\", entry {}", out.size()),
                          "a map", name_of(item.kind()));
    }
    out.push_back(std::move(*item.map()));
  }
  return out;
}

/// Reads a map under a key of the metadata.
/// The map is moved out of the value.
result<cbor_map> parse_submap(std::string_view key, cbor_value value) {
  if (value.map() == nullptr) {
    return bad_metadata(fmt::format("metadata key {}", to_json(cbor_value(key))), "a map",
                        name_of(value.kind()));
  }
  return std::move(*value.map());
}

/// Reads a list of unsigned integers; an absent key is an empty list.
result<std::vector<std::uint64_t>> unsigned_list(const cbor_map& map,
                                                 std::string_view key) {
  std::vector<std::uint64_t> out;
  const cbor_value* value = map.find(key);
  if (value == nullptr) {
    return out;
  }
  if (value->array() == nullptr) {
    return bad_metadata(fmt::format("index key \"{}\"", key), "an array",
                        name_of(value->kind()));
  }
  for (const cbor_value& item : *value->array()) {
    if (!item.uint64()) {
      return bad_metadata(fmt::format("index key \"{}\"", key), "unsigned integers",
                          to_json(item));
    }
    out.push_back(*item.uint64());
  }
  return out;
}

/// Returns the current time in UTC as ISO 8601.
std::string utc_now() {
  const std::time_t now =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(now));
}

/// Returns a random UUID of version 4 (RFC 9562, 5.4).
std::string random_uuid() {
  std::random_device device;
  // A device may give 32 bits at a time.
  const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
  // The version is in bits 12 to 15 of the first half, and the variant in the two highest
  // bits of the second.
  const std::uint64_t high = (word() & ~std::uint64_t{0xF000}) | 0x4000;
  const std::uint64_t low = (word() & ~(std::uint64_t{3} << 62)) | std::uint64_t{1} << 63;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32,
                     (high >> 16) & 0xFFFF, high & 0xFFFF, low >> 48,
                     low & 0xFFFF'FFFF'FFFF);
}

/// Finds a value by a path of keys with dots between them.
/// A part of the path that is no map ends the search without a result.
const cbor_value* walk_path(const cbor_map& map, std::string_view path) {
  const cbor_map* level = &map;
  while (true) {
    const std::size_t dot = path.find('.');
    const cbor_value* value = level->find(path.substr(0, dot));
    if (value == nullptr || dot == std::string_view::npos) {
      return value;
    }
    level = value->map();
    path.remove_prefix(dot + 1);
    if (level == nullptr) {
      return nullptr;
    }
  }
}

}  // namespace

/// Finds a value in one map. Keys that contain a dot themselves cannot be found this way.
const cbor_value* find_path(const cbor_map& map, std::string_view path) {
  return walk_path(map, path);
}

/// Searches the base entries in order and then the keys of the message; "extra." limits
/// the search to the latter.
/// Keys of `_reserved_` are not found: they describe the writing, not the data.
const cbor_value* find_path(const message_metadata& metadata, std::string_view path) {
  for (const std::string_view prefix : {"extra.", "_extra_."}) {
    if (path.substr(0, prefix.size()) == prefix) {
      return walk_path(metadata.extra, path.substr(prefix.size()));
    }
  }
  if (path.substr(0, path.find('.')) != "_reserved_") {
    for (const cbor_map& entry : metadata.base) {
      if (const cbor_value* value = walk_path(entry, path)) {
        return value;
      }
    }
    return walk_path(metadata.extra, path);
  }
  return nullptr;
}

/// Moves values out of the map, which is not used afterwards. Keys that are not known
/// belong to the message.
result<message_metadata> parse_metadata(cbor_value from) {
  if (from.map() == nullptr) {
    return bad_metadata("metadata", "a map", name_of(from.kind()));
  }
  message_metadata out;
  std::vector<std::string> free_keys;
  // Values are moved, keys are kept until the loop is over.
  for (const cbor_entry& entry : *from.map()) {
    if (entry.key.text() == nullptr) {
      return bad_metadata("metadata", "text keys", to_json(entry.key));
    }
    const std::string& key = *entry.key.text();
    auto& value =
        const_cast<cbor_value&>(entry.value);  // `from` is owned by this function
    if (key == "base") {
      WEIR_TRY(out.base, parse_base(std::move(value)));
    } else if (key == "_extra_") {
      WEIR_TRY(out.extra, parse_submap(key, std::move(value)));
    } else if (key == "_reserved_") {
      WEIR_TRY(out.reserved, parse_submap(key, std::move(value)));
    } else {
      free_keys.push_back(key);
    }
  }
  // Other keys of the top belong to `extra`; one that is there too would be ambiguous.
  for (const std::string& key : free_keys) {
    if (out.extra.set(key, std::move(*from.map()->find(key)))) {
      return bad_metadata(fmt::format("metadata key {}", to_json(cbor_value(key))),
                          "one place", "it at the top and in _extra_");
    }
  }
  return out;
}

/// `_extra_` and the map of the message are two containers around a value.
bool too_deep_for_extra(const cbor_value& value) noexcept {
  return depth_of(value) + 2 > cbor_depth_limit;
}

/// Inverts parse_metadata(): see the declaration for keys that are nested too deep.
cbor_map make_metadata(const message_metadata& from) {
  cbor_map out;
  cbor_map extra;
  for (const cbor_entry& entry : from.extra) {
    (too_deep_for_extra(entry.value) ? out : extra).set(entry.key, entry.value);
  }
  if (!from.base.empty()) {
    out.set("base", cbor_array(from.base.begin(), from.base.end()));
  }
  // Empty parts are left out.
  if (!extra.empty()) {
    out.set("_extra_", std::move(extra));
  }
  if (!from.reserved.empty()) {
    out.set("_reserved_", from.reserved);
  }
  return out;
}

/// Describes how a message was made. Time and UUID would make two equal messages differ,
/// so a reproducible message has them only if they were given.
cbor_map make_provenance(const provenance& from) {
  // The encoder is named in any case.
  cbor_map out{
      {"encoder", cbor_map{{"name", from.name},
                           {"version", from.version.empty() ? std::string(WEIR_VERSION)
                                                            : from.version}}}};
  if (from.time || !from.reproducible) {
    out.set("time", from.time ? *from.time : utc_now());
  }
  if (from.uuid || !from.reproducible) {
    out.set("uuid", from.uuid ? *from.uuid : random_uuid());
  }
  return out;
}

/// Sets the entries of a preceder in the base entry of its object, where they replace
/// equal keys. `_reserved_` is left out, because only the encoder fills it.
void overlay(cbor_map& base, const cbor_map& preceder) {
  for (const cbor_entry& entry : preceder) {
    if (entry.key.text() == nullptr || *entry.key.text() != "_reserved_") {
      base.set(entry.key, entry.value);
    }
  }
}

/// Reads an index: two lists of equal length, one entry per object. Whether the entries
/// fit the message is checked where its frames are known.
result<object_index> parse_index(const cbor_value& from) {
  if (from.map() == nullptr) {
    return bad_metadata("index", "a map", name_of(from.kind()));
  }
  object_index out;
  WEIR_TRY(out.offsets, unsigned_list(*from.map(), "offsets"));
  WEIR_TRY(out.lengths, unsigned_list(*from.map(), "lengths"));
  if (out.offsets.size() != out.lengths.size()) {
    return bad_metadata(
        "index", fmt::format("{} lengths as there are offsets", out.offsets.size()),
        std::to_string(out.lengths.size()));
  }
  return out;
}

/// The order of the keys is that of the canonical form.
cbor_map make_index(const object_index& from) {
  return cbor_map{{"lengths", cbor_array(from.lengths.begin(), from.lengths.end())},
                  {"offsets", cbor_array(from.offsets.begin(), from.offsets.end())}};
}

/// Sums the sizes of the heads; the encoder of the message calls this several times.
std::uint64_t index_size(const object_index& index) noexcept {
  constexpr std::uint64_t map_and_keys = 1 + 2 * 8;  // A2 67"lengths" 67"offsets"
  std::uint64_t size = map_and_keys + 2 * cbor_head_size(index.offsets.size());
  // The size of an offset depends on its value, which is why the encoder of a message
  // repeats its layout until nothing changes.
  for (std::size_t i = 0; i < index.offsets.size(); ++i) {
    size += cbor_head_size(index.offsets[i]) + cbor_head_size(index.lengths[i]);
  }
  return size;
}

/// Reads a list of digests as it is. Whether the algorithm is known, and the digests fit,
/// is decided where they are compared.
result<digest_list> parse_digests(const cbor_value& from) {
  if (from.map() == nullptr) {
    return bad_metadata("digest list", "a map", name_of(from.kind()));
  }
  digest_list out;
  if (const cbor_value* algorithm = from.map()->find("algorithm")) {
    out.algorithm =
        // A value that is no text is kept as JSON, so that the comparison shows it.
        algorithm->text() != nullptr ? *algorithm->text() : to_json(*algorithm);
  }
  const cbor_value* digests = from.map()->find("hashes");
  if (digests == nullptr || digests->array() == nullptr) {
    return bad_metadata("digest list key \"hashes\"", "an array",
                        digests == nullptr ? "nothing" : name_of(digests->kind()));
  }
  for (const cbor_value& item : *digests->array()) {
    if (item.text() == nullptr) {
      return bad_metadata("digest list key \"hashes\"", "text", to_json(item));
    }
    out.digests.push_back(*item.text());
  }
  return out;
}

/// The digests are texts in the format, not numbers.
cbor_map make_digests(std::span<const std::uint64_t> digests) {
  cbor_array texts;
  texts.reserve(digests.size());
  for (const std::uint64_t digest : digests) {
    texts.emplace_back(hex64(digest));
  }
  return cbor_map{{"hashes", std::move(texts)}, {"algorithm", "xxh3"}};
}

}  // namespace weir::formats
