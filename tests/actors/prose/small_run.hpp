// SPDX-License-Identifier: Apache-2.0
/// @file
/// A corpus and a configuration for runs that take a fraction of a second.
#pragma once

#include <fstream>
#include <string>

#include "support/temp_folder.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/philox.hpp"

namespace weir::test {

/// Returns sentences of random words. Equal seeds give equal texts.
inline std::string some_text(std::size_t bytes, std::uint64_t seed = 1) {
  static const char* const words[] = {"the",   "weir", "lets", "water",   "pass", "when",
                                      "level", "is",   "high", "reached", "and",  "flow"};
  const philox random(seed, 5);
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    text += words[random.below(i, std::size(words))];
    text += i % 9 == 8 ? ".\n" : " ";
  }
  text.resize(bytes);
  return text;
}

/// Writes a file.
inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A folder that holds a corpus and the folders of runs over it.
class small_runs {
 public:
  explicit small_runs(std::size_t bytes = 6000) {
    write_text(corpus(), some_text(bytes));
  }
  [[nodiscard]] std::string corpus() const { return folder_ / "text"; }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  /// Returns the configuration of a run in the folder `name`.
  [[nodiscard]] actors::run_config config(const std::string& name) const {
    actors::run_config c;
    c.name = name;
    c.folder = path(name);
    c.source.paths = {corpus()};
    c.phase.build.tokens = 2000;
    c.phase.test.tokens = 300;
    c.every_tokens = 500;
    c.model.width = 32;
    c.model.heads = 1;
    c.model.hidden = 32;
    c.model.blocks = 1;
    c.trace = runtime::trace_mode::off;
    return c;
  }

 private:
  temp_folder folder_;
};

}  // namespace weir::test
