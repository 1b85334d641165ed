// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the run of a pipeline tells: lines on the terminal and in the log, and
/// metrics.json and report.html in the run folder.
#pragma once

#include <map>
#include <string>

#include "cli/announcer.hpp"
#include "facts.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::tools {

/// Returns the line of progress: items, rate, the stage that limits it, checkpoints.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string progress_words(const pipeline_progress& p);

/// Reports the events of a run. While the run goes on, metrics.json is written every few
/// seconds and after checkpoints, so that a killed process leaves one.
/// @threads{thread-compatible}
class pipeline_reporter : public announcer {
 public:
  /// @param folder   Folder of the run.
  /// @param plan     Plan of the run.
  /// @param control  Control of the run; must outlive the object.
  pipeline_reporter(output& out, bool json, run_log& log, std::string folder,
                    flow::plan plan, const actors::run_control& control);

  /// Prints what begins.
  void begin();
  /// Prints where a resumed run continues.
  void resumed(const pipeline_start& from);
  /// Shows the progress, and writes metrics.json if it is time.
  void progress(const pipeline_progress& p);
  /// Prints the end of a run, and writes metrics.json and report.html.
  void finish(const pipeline_report& r);
  /// Reports that the run has failed. If it had begun, metrics.json and report.html say
  /// so.
  void fail(const error& e);
  /// Returns whether there was any progress: the stages were opened.
  [[nodiscard]] bool began() const { return began_; }
  /// Returns the figures of the run at its end.
  [[nodiscard]] const facts& metrics() const { return metrics_; }

 private:
  void note_stop();
  void note_cuts(const std::vector<figures>& stages);
  void keep_results(const pipeline_report& r);
  void print_end(const pipeline_report& r);
  [[nodiscard]] facts facts_so_far(const char* ended) const;
  [[nodiscard]] bool write_metrics();
  void write_results();

  std::string folder_;
  flow::plan plan_;
  const actors::run_control& control_;
  facts metrics_;
  pipeline_progress last_;         ///< progress that was seen last
  bool began_ = false;             ///< `last_` was set
  std::vector<std::string> cuts_;  ///< outputs that were cut, as they were told
  bool stop_noted_ = false;        ///< the log says that the run was asked to stop
  bool cannot_write_ = false;      ///< metrics.json could not be written while running
  std::uint64_t resumed_item_ = 0;
  std::int64_t peak_item_bytes_ = 0;
  std::int64_t start_ns_;
  std::int64_t written_ns_ = 0;       ///< time of the last metrics.json; 0: none yet
  std::uint64_t written_epochs_ = 0;  ///< checkpoints in it
  std::uint64_t logged_items_ = 0;
  std::int64_t logged_ns_;
  std::map<std::string, std::uint64_t> limiting_;  ///< observations of each stage
};

}  // namespace weir::tools
