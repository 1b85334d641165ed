// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir hn4` and their options.
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

/// The options of all verbs. The comments name the verbs that use an option, if not all
/// do.
struct hn4_options {
  std::string volume;           ///< image file or block device
  std::string tag;              ///< name of a stream
  std::string file = "-";       ///< `put`: file to store; `get`, `export`: file to write
  std::string size = "128MiB";  ///< `mkfs`: capacity, as a size with a unit
  std::string label = "weir";   ///< `mkfs`
  std::string profile = "GENERIC";  ///< `mkfs`: name of a profile
  std::string medium = "ssd";       ///< `mkfs`: kind of medium
  /// `cat`: order of the shards, seed or clock.
  std::string order = "seed";
  std::string tensor;          ///< `get`: the one tensor to write
  std::string map;             ///< `check`: file for the drawing
  std::string repair;          ///< `check`: file for the new image
  std::uint32_t sector = 512;  ///< `mkfs`: bytes of a sector
  std::uint32_t shards = 0;    ///< `put`, `import`: number of shards; 0 for as few as fit
  std::uint64_t seed = 0;      ///< `mkfs`: identity and creation time are derived from it
  std::uint64_t offset = 0;    ///< `cat`: first byte
  std::uint64_t length = UINT64_MAX;  ///< `cat`: number of bytes
  std::uint32_t threads = 1;          ///< `bench`
  bool seeded = false;                ///< `mkfs`: a seed was given
  bool force = false;     ///< `mkfs`, `get`, `export`: replace an existing file
  bool replace = false;   ///< `put`, `import`
  bool append = false;    ///< `put`
  bool compress = false;  ///< `put`, `import`
  bool strict = false;    ///< `cat`: exactly what the reference implementation reads
  bool recover = false;   ///< read what is left of a damaged tag
  bool direct = false;    ///< `bench`: without the page cache
  bool json = false;      ///< print facts as JSON
};

/// Each command carries out one verb and returns its exit status.
/// `mkfs`: makes an empty volume.
[[nodiscard]] command_result hn4_mkfs(const hn4_options& options, output& out);
/// `put`: stores bytes under a tag.
[[nodiscard]] command_result hn4_put(const hn4_options& options, output& out);
/// `get`: writes a tag, or one tensor of it, to a file.
[[nodiscard]] command_result hn4_get(const hn4_options& options, output& out);
/// `ls`: lists the tags that are whole.
[[nodiscard]] command_result hn4_ls(const hn4_options& options, output& out);
/// `cat`: writes a range of a tag to standard output.
[[nodiscard]] command_result hn4_cat(const hn4_options& options, output& out);
/// `stat`: describes a volume or a tag.
[[nodiscard]] command_result hn4_stat(const hn4_options& options, output& out);
/// `rm`: removes a tag.
[[nodiscard]] command_result hn4_rm(const hn4_options& options, output& out);
/// `compact`: moves tags together.
[[nodiscard]] command_result hn4_compact(const hn4_options& options, output& out);
/// `check`: verifies a whole volume, and may draw it or make a new image of it.
[[nodiscard]] command_result hn4_check_command(const hn4_options& options, output& out);
/// `import`: stores a file whose tensors can be read by name.
[[nodiscard]] command_result hn4_import(const hn4_options& options, output& out);
/// `export`: writes an imported file back.
[[nodiscard]] command_result hn4_export(const hn4_options& options, output& out);
/// `bench`: measures how fast a tag is read.
[[nodiscard]] command_result hn4_bench(const hn4_options& options, output& out);

/// Adds the group `hn4` with its verbs. `chosen` is set when one of them is on the
/// command line.
void add_hn4_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
