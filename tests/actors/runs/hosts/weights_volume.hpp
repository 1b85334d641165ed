// SPDX-License-Identifier: Apache-2.0
/// @file
/// The volume from which a `weighted` stage takes its constant.
#pragma once

#include <filesystem>
#include <string>

#include "pipeline/support/number_stages.hpp"
#include "storage/hn4/support.hpp"
#include "weir/base/bytes.hpp"

namespace weir::test {

/// Makes a volume with the tensor `layer.w` of 1 x 3 numbers that begin with `first`.
inline void write_volume(const std::string& path, std::uint64_t first) {
  std::filesystem::remove(path);
  const std::string header =
      R"({"layer.w":{"dtype":"U64","shape":[1,3],"data_offsets":[0,24]}})";
  byte_vector file(8);
  store_le(file.data(), std::uint64_t{header.size()});
  append(file, as_view(header));
  for (std::uint64_t i = 0; i < elements; ++i) {
    byte_vector one(8);
    store_le(one.data(), first + i);
    append(file, one);
  }
  storage::hn4_format_options options = storage::test::fixed_format();
  options.profile = storage::hn4_profile::pico;
  options.capacity = std::uint64_t{2} << 20;
  or_throw(storage::hn4_format(path, options));
  auto volume = or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
  or_throw(volume.put("model", file, storage::test::fixed_put(2)));
}

}  // namespace weir::test
