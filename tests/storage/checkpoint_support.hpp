// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small but complete checkpoint, whose cursor a real stream has made.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "storage/context_support.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::test {

/// Sections of a model after `pulse` pulses. Their bytes depend on the pulse.
struct small_model {
  explicit small_model(std::uint64_t at_pulse) : pulse(at_pulse) {
    storage::stream_config config;
    config.chunk = 8;
    config.frequencies = {1};
    config.end = storage::end_policy::loop;
    const auto stream = open_stream(config, random_tokens(50, 3));
    read_all(*stream, 8, 0, static_cast<std::size_t>(pulse));
    cursor = or_throw(stream->cursor(pulse));
    cursor_parts = storage::sections_of(cursor);
    conductor = storage::conductor_section(pulse, as_view("budget 12"));
    const philox random(pulse, 1);
    for (std::uint64_t i = 0; i < weights.size(); ++i) {
      weights[i] = random.uniform(i);
    }
  }
  /// Returns the sections of the checkpoint, which refer to this object.
  [[nodiscard]] std::vector<storage::checkpoint_section> sections() const {
    std::vector<storage::checkpoint_section> out = {
        {"CONFIG", as_view("chunk = 8"), dtype::uint8, {}},
        {"CONDUCTOR", conductor, dtype::uint8, {}}};
    for (auto& s : cursor_parts.sections()) {
      out.push_back(s);
    }
    out.push_back({"PARAM/w", std::as_bytes(std::span(weights)), dtype::fp32, {3, 5}});
    return out;
  }

  std::uint64_t pulse;
  storage::stream_cursor cursor;
  storage::cursor_sections cursor_parts;
  byte_vector conductor;
  std::vector<float> weights = std::vector<float>(15);
};

/// Returns the content of a file.
inline byte_vector bytes_of(const std::string& path) {
  return or_throw(read_file(posix_file_system(), path));
}
/// Writes a file without any protocol, as damage would.
inline void replace(const std::string& path, bytes_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

/// Returns the names of the checkpoints of a folder.
inline std::vector<std::string> checkpoints_in(file_system& fs,
                                               const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& name : or_throw(fs.list(folder))) {
    if (name.rfind("ck-", 0) == 0) {
      out.push_back(name);
    }
  }
  return out;
}

}  // namespace weir::test
