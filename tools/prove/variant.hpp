// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs of one pipeline that must all have the same outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/file.hpp"
#include "weir/pipeline/graph.hpp"

namespace weir::tools {

/// One way to run a pipeline.
struct variant {
  std::string name;               ///< for users, such as "2 workers"
  std::vector<std::string> sets;  ///< assignments KEY=VALUE of the run
  std::uint32_t kills = 0;        ///< most times that the run is killed and resumed
  std::uint64_t seed = 0;         ///< of the instants at which it is killed
};

/// A setting that names files which a stage writes, and its values.
struct output_setting {
  std::string stage;               ///< name of the stage
  std::string setting;             ///< name of the setting
  std::vector<std::string> paths;  ///< its values as the file has them
};

/// An outlet whose items are recorded.
struct tapped_outlet {
  std::uint32_t stage = 0;  ///< index of the stage in the plan
  std::string outlet;       ///< name of the outlet
  std::string file;         ///< file of its records, below the folder of the records
};

/// What all variants of a pipeline have in common.
struct proved_pipeline {
  written_pipeline written;             ///< the file
  flow::plan plan;                      ///< its plan
  std::vector<output_setting> outputs;  ///< what the stages write
  std::vector<tapped_outlet> outlets;   ///< outlets in the order of the graph
  std::string scratch;                  ///< folder of all variants
};

/// Finds what the stages of a pipeline write.
/// @error{unsupported, a stage reads or writes a pipe or a terminal, so that the pipeline
/// cannot run again or its output cannot be redirected}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<output_setting>> find_outputs(const flow::plan& plan,
                                                               const std::string& files);

/// Returns the outlets that have an edge, in the order of the graph.
/// @threads{safe to call concurrently}
[[nodiscard]] std::vector<tapped_outlet> find_outlets(const flow::plan& plan);

/// The end of a variant.
struct performed_variant {
  std::string outputs;          ///< folder of its outputs
  std::string records;          ///< folder of its records; empty if none were made
  std::uint32_t kills = 0;      ///< times that it was killed
  std::uint32_t continued = 0;  ///< times that it went on from a checkpoint
  double seconds = 0;           ///< time of all its processes
  std::uint64_t items = 0;      ///< items of its last process
};

/// Runs a variant in a folder of its own below `scratch`.
/// @param folder      Name of the folder, which does not exist yet.
/// @param recorded    True to record every outlet.
/// @param expected_s  Time that the run takes, by which the instants of kills are chosen.
/// @error{kernel_failed, a process of the run failed; the message holds its last line}
/// @error{io, a file or a process cannot be made}
[[nodiscard]] result<performed_variant> perform_variant(const proved_pipeline& all,
                                                        const variant& one,
                                                        const std::string& folder,
                                                        bool recorded, double expected_s);

}  // namespace weir::tools
