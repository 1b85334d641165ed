// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir hn4`: what each takes, and how they stand on the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

struct hn4_options {
  std::string volume;
  std::string tag;
  std::string file = "-";  ///< what `put` stores, or where `get` and `export` write
  std::string size = "128MiB";
  std::string label = "weir";
  std::string profile = "GENERIC";
  std::string medium = "ssd";
  std::string order = "seed";  ///< of `cat`: seed or clock
  std::string tensor;          ///< of `get`: one tensor of an imported file
  std::string map;             ///< of `check`: where to draw the volume
  std::string repair;          ///< of `check`: new image for what can be read
  std::uint32_t sector = 512;
  std::uint32_t shards = 0;  ///< of `put`; 0: as few as fit
  std::uint64_t seed = 0;    ///< of `mkfs`: identity and creation time follow from it
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
  std::uint32_t threads = 1;  ///< of `bench`
  bool seeded = false;
  bool force = false;     ///< of `mkfs` and `get`: replace an existing file
  bool replace = false;   ///< of `put`
  bool append = false;    ///< of `put`
  bool compress = false;  ///< of `put`
  bool strict = false;
  bool recover = false;  ///< read what is left of a damaged tag
  bool direct = false;   ///< of `bench`: past the page cache
  bool json = false;
};

[[nodiscard]] command_result hn4_mkfs(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_put(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_get(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_ls(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_cat(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_stat(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_rm(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_compact(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_check_command(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_import(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_export(const hn4_options& options, output& out);
[[nodiscard]] command_result hn4_bench(const hn4_options& options, output& out);

/// Adds `hn4` with its verbs; `chosen` is set when one was asked for.
void add_hn4_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
