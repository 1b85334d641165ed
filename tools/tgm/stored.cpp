// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages out of stored objects.
#include "tgm/stored.hpp"

namespace weir::tools {

using formats::message_reader;

namespace {

/// Flag of a preamble: the writer was asked for digests.
/// @source{Tensogram v3, preamble flags}
constexpr std::uint16_t hashes_present = 0x80;

}  // namespace

void stored_message::take_head(const message_reader& reader) {
  hashes = (reader.flags() & hashes_present) != 0;
  extra = reader.metadata().extra;
}

result<void> stored_message::take(const message_reader& reader, std::size_t i) {
  formats::cbor_map base = reader.metadata(i);
  base.erase("_reserved_");
  WEIR_TRY(byte_vector region, reader.stored_region(i));
  descriptors.push_back(reader.descriptor(i));
  metadata.push_back(std::move(base));
  regions.push_back(std::move(region));
  return {};
}

result<byte_vector> stored_message::encode() const {
  std::vector<formats::object_to_write> objects;
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    objects.push_back({descriptors[i], metadata[i], regions[i], true});
  }
  formats::message_options options;
  options.extra = extra;
  options.hashes = hashes;
  options.writer.reproducible = false;
  return formats::encode_message(objects, options);
}

}  // namespace weir::tools
