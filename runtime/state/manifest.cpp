// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes of a manifest: little-endian numbers, texts with their lengths, and the
/// XXH3-64 of all of them at the end.
///
/// A manifest lists the items of a state with their types, shapes and tiles, the values
/// that all ranks have, and for each part its machine, path, length and digest. It is
/// written last, so a generation without one does not exist.
#include "state/manifest.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::runtime {
namespace {

constexpr std::string_view manifest_magic = "WEIRWST1";
constexpr std::uint32_t manifest_version = 1;
/// Smallest size of an item and of a part, so that counts are checked before memory is
/// allocated for them.
constexpr std::size_t min_item_bytes = 4 + 4 + 4 + 4 + 4;
constexpr std::size_t min_part_bytes = 4 + 4 + 8 + 8;

/// Writes a list of numbers behind its length.
void put_numbers(record_writer& to, std::span<const std::int64_t> numbers) {
  to.put(static_cast<std::uint32_t>(numbers.size()));
  for (const std::int64_t number : numbers) {
    to.put(static_cast<std::uint64_t>(number));
  }
}
/// The count is limited by the bytes that are left.
std::vector<std::int64_t> get_numbers(record_reader& from) {
  const std::size_t count = from.get_count<std::uint32_t>(8);
  std::vector<std::int64_t> out;
  for (const std::uint64_t number : from.get_all<std::uint64_t>(count)) {
    out.push_back(static_cast<std::int64_t>(number));
  }
  return out;
}

/// Reads an item. Returns false if it is none that an encoder writes.
/// An item has either tiles, whose bytes are in the parts, or a value here. A list of
/// tile extents has one number for each dimension.
bool get_item(record_reader& from, state_manifest& to) {
  item_description item;
  item.name = from.get_text();
  const auto type = info_of(static_cast<int>(from.get<std::uint32_t>()));
  item.shape = get_numbers(from);
  item.tile = get_numbers(from);
  const bytes_view value = from.get_bytes(from.get<std::uint32_t>());
  // An item is either divided into tiles or has its value in the manifest.
  if (from.failed() || !type || (!item.tile.empty() && !value.empty()) ||
      (!item.tile.empty() && item.tile.size() != item.shape.size())) {
    return false;
  }
  item.type = type->id;
  to.items.push_back(std::move(item));
  to.values.emplace_back(value.begin(), value.end());
  return true;
}

/// Reads the fields behind the head. Returns false if they are damaged.
/// A state without a part would belong to no rank.
bool get_fields(record_reader& from, state_manifest& to) {
  to.generation = from.get<std::uint64_t>();
  to.step = static_cast<std::int64_t>(from.get<std::uint64_t>());
  // Counts are checked against the bytes before memory is taken.
  const std::size_t items = from.get_count<std::uint32_t>(min_item_bytes);
  for (std::size_t i = 0; i < items; ++i) {
    if (!get_item(from, to)) {
      return false;
    }
  }
  const std::size_t parts = from.get_count<std::uint32_t>(min_part_bytes);
  for (std::size_t i = 0; i < parts; ++i) {
    part_entry part;
    part.machine = from.get_text();
    part.path = from.get_text();
    part.bytes = from.get<std::uint64_t>();
    part.digest = from.get<std::uint64_t>();
    to.parts.push_back(std::move(part));
  }
  // At least one part, and nothing behind the last one.
  return !from.failed() && from.rest().empty() && parts != 0;
}

}  // namespace

/// Inverse of `decode_manifest`. The digest covers everything before it.
byte_vector encode_manifest(const state_manifest& manifest) {
  record_writer out;
  out.put_bytes(as_view(manifest_magic));
  out.put(manifest_version);
  out.put(manifest.generation);
  out.put(static_cast<std::uint64_t>(manifest.step));
  out.put(static_cast<std::uint32_t>(manifest.items.size()));
  for (std::size_t i = 0; i < manifest.items.size(); ++i) {
    const item_description& item = manifest.items[i];
    out.put_text(item.name);
    out.put(static_cast<std::uint32_t>(item.type));
    put_numbers(out, item.shape);
    put_numbers(out, item.tile);
    out.put(static_cast<std::uint32_t>(manifest.values[i].size()));
    out.put_bytes(manifest.values[i]);
  }
  out.put(static_cast<std::uint32_t>(manifest.parts.size()));
  for (const part_entry& part : manifest.parts) {
    out.put_text(part.machine);
    out.put_text(part.path);
    out.put(part.bytes);
    out.put(part.digest);
  }
  out.put(xxh3_64(out.view()));
  return std::move(out).take();
}

/// Magic, version and digest are checked before any field is read.
result<state_manifest> decode_manifest(bytes_view bytes, const std::string& path) {
  const auto damaged = [&](const std::string& text) -> error {
    return error(errc::corrupt, "cannot read the manifest of a state: " + text)
        .located(path);
  };
  const std::size_t head = manifest_magic.size() + 4;
  if (bytes.size() < head + 8 ||
      as_text(bytes.first(manifest_magic.size())) != manifest_magic) {
    return damaged(fmt::format("expected it to begin with {}, found {} other bytes",
                               manifest_magic, bytes.size()));
  }
  // Another version may have another digest.
  const auto version = load_le<std::uint32_t>(bytes.data() + manifest_magic.size());
  if (version != manifest_version) {
    return error(errc::unsupported_version,
                 fmt::format("cannot read the manifest of a state: expected version {}, "
                             "found {}",
                             manifest_version, version))
        .located(path);
  }
  const bytes_view content = bytes.first(bytes.size() - 8);
  const auto stored = load_le<std::uint64_t>(bytes.data() + content.size());
  if (stored != xxh3_64(content)) {
    return damaged(fmt::format("expected the digest {}, found {}", hex64(stored),
                               hex64(xxh3_64(content))));
  }
  record_reader in(content.subspan(head));
  state_manifest out;
  if (!get_fields(in, out)) {
    return damaged("expected items and parts, found a field that is none");
  }
  return out;
}

}  // namespace weir::runtime
