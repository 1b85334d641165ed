// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files that the stages of a pipeline read and write.
///
/// Two stages that write one file would destroy each other's output, and so would a stage
/// that reads what another one is writing. Files are compared by device and inode,
/// because one file can have many paths. Sinks with a file for each item have a pattern
/// as their path, which is compared with the paths and the patterns of all others.
#include "weir/pipeline/paths.hpp"

#include <fmt/format.h>

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "graph/names.hpp"
#include "graph/output_pattern.hpp"

namespace weir::flow {
namespace {

namespace fs = std::filesystem;

/// A path that stands for standard input or standard output.
constexpr std::string_view standard_stream = "-";

/// Returns one name for all paths that lead to one file, also if it does not exist yet.
std::string name_of_file(const std::string& path) {
  struct stat facts {};
  // Two paths lead to one file if device and inode are equal.
  if (::stat(path.c_str(), &facts) == 0) {
    return fmt::format("{}:{}", facts.st_dev, facts.st_ino);
  }
  // A file that does not exist yet is named by its path without links and dots.
  std::error_code failure;
  const fs::path full = fs::absolute(path, failure);
  const fs::path canonical = fs::weakly_canonical(full, failure);
  return failure ? full.lexically_normal().string() : canonical.string();
}

/// Returns whether several stages may write to a path, because it is a pipe or a
/// terminal.
bool is_shared(const std::string& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_block_file(status);
}

/// Returns a path or a pattern without links and dots. The folders in front of the first
/// name in braces may exist.
std::string without_links(const std::string& path) {
  const std::size_t slash = path.rfind('/', path.find('{'));
  const std::size_t rest = slash == std::string::npos ? 0 : slash + 1;
  std::error_code failure;
  const fs::path folder =
      fs::absolute(rest == 0 ? std::string(".") : path.substr(0, rest), failure);
  const fs::path canonical = fs::weakly_canonical(folder, failure);
  const fs::path full = (failure ? folder : canonical) / path.substr(rest);
  return full.lexically_normal().string();
}

/// Error of an output that is an input as well.
error read_and_written(const graph& g, std::uint32_t reader, std::uint32_t writer,
                       const std::string& setting, const path_setting& read) {
  return refused_stage(
             g, writer,
             fmt::format("another file than those that the pipeline reads in the setting "
                         "\"{}\"",
                         setting),
             fmt::format("\"{}\", which the stage {} reads", read.path,
                         stage_name(g, reader)))
      .hint("write to a new file and rename it afterwards");
}

/// Error of an output that two stages have.
error written_twice(const graph& g, std::uint32_t first, std::uint32_t second,
                    const path_setting& path) {
  const std::string& place = g.stages[first].place;
  return refused_stage(
             g, second,
             fmt::format("a file of its own in the setting \"{}\"", path.setting),
             fmt::format("\"{}\", which the stage {} writes", path.path,
                         stage_name(g, first)))
      .hint(place.empty()
                ? ""
                : fmt::format("{} is defined at {}", stage_name(g, first), place));
}

/// Error of two stages of which one has a pattern that can name a file of the other one.
error may_be_written_twice(const graph& g, std::uint32_t first, std::string_view pattern,
                           std::uint32_t second, const path_setting& path) {
  const std::string& place = g.stages[first].place;
  return refused_stage(
             g, second,
             fmt::format("files of its own in the setting \"{}\"", path.setting),
             fmt::format("\"{}\", which can name a file of \"{}\" of the stage {}",
                         path.path, pattern, stage_name(g, first)))
      .hint(place.empty()
                ? ""
                : fmt::format("{} is defined at {}", stage_name(g, first), place));
}

/// The outputs of all stages. Each pattern is compared with the others.
class pattern_outputs {
 public:
  /// Adds an output, unless it can name a file of another one.
  result<void> add(const graph& g, std::uint32_t stage, const path_setting& path,
                   const std::string& full) {
    output added{stage, path.path, output_pattern(without_links(full))};
    for (const output& other : outputs_) {
      // Two files without patterns are compared by `name_of_file`.
      if ((added.name.has_number() || other.name.has_number()) &&
          added.name.may_meet(other.name)) {
        return may_be_written_twice(g, other.stage, other.path, stage, path);
      }
    }
    outputs_.push_back(std::move(added));
    return {};
  }

 private:
  struct output {
    std::uint32_t stage;
    std::string path;  ///< as in the setting
    output_pattern name;
  };
  std::vector<output> outputs_;
};

}  // namespace

/// Relative paths begin at the folder, if there is one.
std::string path_in(std::string_view folder, std::string_view path) {
  if (path.empty() || path.front() == '/' || folder.empty()) {
    return std::string(path);
  }
  return fmt::format("{}/{}", folder, path);
}

/// Outputs first: a file with two writers is reported before one that is also read.
result<void> check_outputs(const graph& g, std::string_view folder) {
  struct written {
    std::uint32_t stage;
    std::string setting;
  };
  std::map<std::string, written> writers;
  pattern_outputs patterns;
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    for (const path_setting& one : g.stages[s].info.paths) {
      // Pipes and terminals take the output of several stages.
      const std::string path = path_in(folder, one.path);
      if (one.use != path_use::output || one.path == standard_stream || is_shared(path)) {
        continue;
      }
      // The first stage that writes the file is remembered.
      const auto [writer, is_new] =
          writers.try_emplace(name_of_file(path), written{s, one.setting});
      if (!is_new) {
        return written_twice(g, writer->second.stage, s, one);
      }
      WEIR_CHECK(patterns.add(g, s, one, path));
    }
  }
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    for (const path_setting& one : g.stages[s].info.paths) {
      // An input that does not exist is found later, by `missing_inputs`.
      if (one.use != path_use::input || one.path == standard_stream) {
        continue;
      }
      const auto writer = writers.find(name_of_file(path_in(folder, one.path)));
      if (writer != writers.end()) {
        return read_and_written(g, s, writer->second.stage, writer->second.setting, one);
      }
    }
  }
  return {};
}

/// Returns an error per missing input. A path that cannot be asked about is not reported.
std::vector<error> missing_inputs(const graph& g, std::string_view folder) {
  std::vector<error> missing;
  for (const graph_stage& s : g.stages) {
    for (const path_setting& one : s.info.paths) {
      std::error_code failure;
      const std::string path = path_in(folder, one.path);
      // Paths that are folders count as well.
      if (one.use != path_use::input || one.path == standard_stream ||
          fs::exists(path, failure) || failure) {
        continue;
      }
      missing.push_back(error(errc::not_found,
                              fmt::format("cannot read \"{}\" in the stage \"{}\" ({}): "
                                          "expected a file or a folder, found none",
                                          path, s.name, s.info.name))
                            .located(s.place));
    }
  }
  return missing;
}

}  // namespace weir::flow
