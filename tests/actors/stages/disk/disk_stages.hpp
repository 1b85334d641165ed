// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tgm.read` and `tgm.write` on a disk of a test, under names by which a child process
/// makes them on the same disk.
#pragma once

#include <string>

#include "stages/factories.hpp"
#include "weir/pipeline.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::test {

inline constexpr const char* disk_read = "test.disk_read";
inline constexpr const char* disk_write = "test.disk_write";
/// Environment variable with the path of the socket of a `served_disk`.
inline constexpr const char* disk_variable = "WEIR_TEST_DISK";

/// Makes one of the two stages. @param fs Must outlive the stage.
inline result<void> make_disk_stage(flow::described_stage& made, file_system& fs,
                                    const std::string& use,
                                    const given_settings& settings) {
  return use == disk_read ? actors::make_tgm_read(made, settings, fs)
                          : actors::make_tgm_write(made, settings, fs);
}

/// Adds one of the two stages to a pipeline. @param fs Must outlive the pipeline.
inline node add_disk_stage(pipeline& p, const std::string& name, file_system& fs,
                           const std::string& use, const given_settings& settings) {
  return p.add_maker(name, [=, &fs]() -> result<flow::described_stage> {
    flow::described_stage made;
    WEIR_CHECK(make_disk_stage(made, fs, use, settings));
    made.origin.use = use;
    for (const auto& [key, given] : settings) {
      made.origin.settings.emplace_back(key, given.value);
    }
    return made;
  });
}

/// Adds both stages to a catalog. @param fs Must outlive the catalog.
inline void add_disk_stages(flow::catalog& to, file_system& fs) {
  for (const std::string use : {disk_read, disk_write}) {
    or_throw(
        to.add(use, [&fs, use](flow::described_stage& made, const given_settings& given) {
          return make_disk_stage(made, fs, use, given);
        }));
  }
}

}  // namespace weir::test
