// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts programs of several ranks and reads their samples (`sampled_program.hpp`).
#pragma once

#include <functional>
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

/// Computes a ratio from the seconds of one sample of each program.
using ratio_of_samples = std::function<double(const std::vector<double>&)>;

/// Starts all programs, again after every eight turns, and lets them take their samples
/// in turn, so that a slow spell of the machine affects all sides of a ratio. A turn is
/// one sample of each program, and gives one ratio. A turn is quiet if the processors ran
/// at full speed before and after each of its samples, and no thread of a rank waited for
/// a processor.
///
/// Ends when there are enough quiet turns, or when the interval of the median of all
/// ratios no longer contains the limit, or after two minutes. Returns the median of the
/// ratios of the quiet turns, or of all turns with their interval if the quiet ones are
/// few. The states of the programs at the end must be equal.
/// @throws std::runtime_error if a program ends early or with another state
[[nodiscard]] measured ratio_in_turn(const std::vector<launch>& programs, bar limit,
                                     const ratio_of_samples& ratio);

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
