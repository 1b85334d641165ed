// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts programs of several ranks and reads their samples (`sampled_program.hpp`).
#pragma once

#include <string>
#include <vector>

#include "bench.hpp"

namespace weir::bench {

/// A program of several ranks and how it is started.
struct launch {
  std::string program;       ///< name of the program in the folder of the peers
  std::string words;         ///< its size and steps
  std::string more{};        ///< words behind the number of samples
  int ranks = 2;             ///< number of ranks
  bool over_tcp = false;     ///< messages go through sockets, also on one machine
  bool beside_work = false;  ///< a process that computes runs at the same time
};

/// Samples of a side of a ratio.
struct launch_samples {
  std::vector<double> quiet;  ///< seconds of the samples that nothing disturbed
  std::vector<double> all;    ///< seconds of all samples
  std::string checksum;       ///< state at the end

  /// Returns the median of the quiet samples, or of all if the quiet ones are few.
  [[nodiscard]] double seconds() const {
    return median(quiet.size() < sampling::least_quiet ? all : quiet);
  }
};

/// Starts a program once and adds its samples. A sample is quiet if the processors ran at
/// full speed before and after the launch and no thread of a rank waited for a processor.
/// @throws std::runtime_error if the program prints no samples, or another checksum than
/// the launches before
void add_launch(const launch& one, launch_samples& to);

/// Starts the programs in turn until each has enough quiet samples, or ten times. The
/// states at the end must be equal. Notes the samples for the verdict of the row, unless
/// a process runs beside them. @throws std::runtime_error see `add_launch`
[[nodiscard]] std::vector<launch_samples> launch_in_turn(
    const std::vector<launch>& programs);

/// Figures of a process that pretends to be a rank of many (`pretended_rank.cpp`).
struct pretended_figures {
  double own_ns = 0;      ///< of a repeated step for each task of the rank
  double foreign_ns = 0;  ///< of a step that is submitted for each task of other ranks
  double peak_kib = 0;    ///< largest memory of the process
};
/// Returns the medians of several launches. Launches for different numbers of ranks
/// alternate, and all figures of one number of ranks come from the same launches.
/// @throws std::runtime_error if the program prints no figures
[[nodiscard]] const pretended_figures& figures_of_pretended(int ranks);

}  // namespace weir::bench
