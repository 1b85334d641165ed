// SPDX-License-Identifier: Apache-2.0
/// @file
/// What an object goes through between its elements and its stored bytes.
#include "tensogram/codec/pipeline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tensogram/codec/zstd.hpp"

namespace weir::formats {

namespace {

struct stage_name {
  std::string_view name;
  bool built;
};

constexpr std::array encodings{stage_name{"none", true},
                               stage_name{"simple_packing", false}};
constexpr std::array filters{stage_name{"none", true}, stage_name{"shuffle", false}};
constexpr std::array compressions{
    stage_name{"none", true},    stage_name{"zstd", true}, stage_name{"szip", false},
    stage_name{"lz4", false},    stage_name{"zfp", false}, stage_name{"sz3", false},
    stage_name{"blosc2", false}, stage_name{"rle", false}, stage_name{"roaring", false}};

using stage_names = std::span<const stage_name>;

pipeline_support support_of(stage_names names, std::string_view name) noexcept {
  for (const stage_name& row : names) {
    if (row.name == name) {
      return row.built ? pipeline_support::built : pipeline_support::known;
    }
  }
  return pipeline_support::unknown;
}

std::string built_names(stage_names names) {
  std::string out;
  for (const stage_name& row : names) {
    if (row.built) {
      out += (out.empty() ? "" : ", ") + std::string(row.name);
    }
  }
  return out;
}

result<void> check_stage(std::string_view stage, stage_names names, std::string_view name,
                         errc unknown_code) {
  const pipeline_support support = support_of(names, name);
  if (support == pipeline_support::built) {
    return {};
  }
  if (support == pipeline_support::unknown) {
    return error(unknown_code,
                 fmt::format("cannot run {}: expected a name of Tensogram v3, found "
                             "\"{}\"",
                             stage, name));
  }
  return error(errc::unsupported,
               fmt::format("cannot run {}: expected one that is built in ({}), "
                           "found \"{}\"",
                           stage, built_names(names), name));
}

result<void> check_stages(const object_descriptor& descriptor, errc unknown_code) {
  WEIR_CHECK(check_stage("encoding", encodings, descriptor.encoding, unknown_code));
  WEIR_CHECK(check_stage("filter", filters, descriptor.filter, unknown_code));
  WEIR_CHECK(
      check_stage("compression", compressions, descriptor.compression, unknown_code));
  if (!descriptor.masks.empty()) {
    return error(
        errc::unsupported,
        "cannot run masks: expected an object without masks of non-finite values, found "
        "some");
  }
  return {};
}

}  // namespace

pipeline_support support_of(const object_descriptor& descriptor) noexcept {
  return std::max(
      {support_of(encodings, descriptor.encoding), support_of(filters, descriptor.filter),
       support_of(compressions, descriptor.compression),
       descriptor.masks.empty() ? pipeline_support::built : pipeline_support::known});
}

result<void> check_readable(const object_descriptor& descriptor) {
  return check_stages(descriptor, errc::corrupt);
}

result<void> check_writable(const object_descriptor& descriptor) {
  WEIR_CHECK(check_stages(descriptor, errc::invalid_argument));
  if (descriptor.object_type.empty()) {
    return error(
        errc::invalid_argument,
        "cannot write object: expected a type such as \"ntensor\", found nothing");
  }
  if (descriptor.compression == "zstd") {
    WEIR_CHECK(zstd_level(descriptor.parameters));
  }
  return {};
}

result<void> check_sizes(const object_descriptor& descriptor, std::uint64_t stored,
                         std::uint64_t decoded, std::uint64_t limit) {
  if (descriptor.compression == "none") {
    if (stored != decoded) {
      return error(
          errc::corrupt,
          fmt::format("cannot read payload: expected {} bytes from shape and dtype, "
                      "found {}",
                      decoded, stored));
    }
    return {};
  }
  if (decoded / zstd_largest_ratio > stored) {
    return error(
        errc::corrupt,
        fmt::format(
            "cannot read payload: expected at most {} times its {} bytes, found a "
            "shape of {} bytes",
            zstd_largest_ratio, stored, decoded));
  }
  if (decoded > limit) {
    return error(errc::out_of_range,
                 fmt::format(
                     "cannot read payload: expected at most {} decoded bytes, found {}",
                     limit, decoded))
        .hint("raise max_object_bytes");
  }
  return {};
}

result<encoded_payload> encode_payload(const object_descriptor& descriptor,
                                       bytes_view elements) {
  if (descriptor.compression == "zstd") {
    WEIR_TRY(const int level, zstd_level(descriptor.parameters));
    return zstd_encode(elements, level);
  }
  return encoded_payload{nullptr, elements};
}

result<void> decode_payload(const object_descriptor& descriptor, bytes_view stored,
                            mutable_bytes to) {
  if (descriptor.compression == "zstd") {
    return zstd_decode(stored, to);
  }
  WEIR_EXPECT(stored.size() == to.size());
  if (!to.empty()) {
    std::memcpy(to.data(), stored.data(), to.size());
  }
  return {};
}

}  // namespace weir::formats
