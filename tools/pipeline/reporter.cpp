// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lines, log, metrics and report of the run of a pipeline.
///
/// Four readers get the same events in different forms: the terminal gets lines and one
/// line of progress that replaces itself; the log gets the events that matter afterwards;
/// metrics.json is replaced every few seconds, so that `weir watch` and the web page see
/// a run that goes on; and report.html is written once, at the end.
#include "reporter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

// Checkpoints may follow each other faster than a reader of the log can bear.
// Shortest time between two entries of the log about durable items.
constexpr std::int64_t log_interval_ns = 10'000'000'000;
/// Longest time between two files of metrics, if no checkpoint asks for one before.
constexpr std::int64_t metrics_interval_ns = 5'000'000'000;
/// Shortest time between two files of metrics, also if there was a checkpoint.
constexpr std::int64_t shortest_interval_ns = 1'000'000'000;

}  // namespace

std::string progress_words(const pipeline_progress& p) {
  std::string out = fmt::format("{} items", grouped(static_cast<double>(p.items)));
  if (p.items_per_second > 0) {
    out += fmt::format("  {} items/s", grouped(p.items_per_second));
  }
  if (!p.bottleneck.empty()) {
    out += fmt::format("  limited by {}", p.bottleneck);
  }
  // Two spaces separate the figures, because some have single spaces within them.
  out += p.durable_items > 0
             ? fmt::format("  durable {}", grouped(static_cast<double>(p.durable_items)))
             : std::string("  no checkpoint yet");
  return out;
}

namespace {

/// Returns a sentence about the outputs of a run that had finished before.
std::string outputs_words(const std::vector<std::string>& unverified) {
  if (unverified.empty()) {
    return "its outputs are complete";
  }
  return fmt::format(
      "its outputs are complete, apart from {}, which cannot be compared with the "
      "checkpoint",
      fmt::join(unverified, ", "));
}

}  // namespace

pipeline_reporter::pipeline_reporter(output& out, bool json, run_log& log,
                                     std::string folder, flow::plan plan,
                                     const actors::run_control& control)
    : announcer(out, json, log),
      folder_(std::move(folder)),
      plan_(std::move(plan)),
      control_(control),
      // The entry about durable items waits for a whole interval, too.
      start_ns_(now_ns()),
      logged_ns_(start_ns_) {}

void pipeline_reporter::begin() {
  // A process that was killed may have been writing. What stays is no failure.
  // The file under the temporary name, not metrics.json itself, is removed.
  static_cast<void>(
      remove_unfinished(posix_file_system(), join_path(folder_, "metrics.json")));
  const std::string& name = plan_.source.name;
  const std::string stages = counted(plan_.source.stages.size(), "stage");
  say(fmt::format("run folder {}", folder_));
  say(fmt::format("pipeline   {}: {}, {}", name, stages,
                  counted(plan_.source.edges.size(), "edge")));
  say(fmt::format("memory     at most {} bytes of items ({})", plan_.memory_bound,
                  human_bytes(static_cast<std::uint64_t>(plan_.memory_bound))));
  say(fmt::format("guarantee  {}", guarantee_words(plan_.promise)));
  // The log has no details of the plan beside its notes; the copy of the pipeline in the
  // run folder has them.
  log().info(fmt::format("begins: pipeline {}, {}", name, stages));
  for (const std::string& note : plan_.notes) {
    log().info("note: " + note);
  }
}

void pipeline_reporter::resumed(const pipeline_start& from) {
  // Items in front of this one were durable before this process began, and the log has an
  // entry for them already.
  resumed_item_ = logged_items_ = from.next_item;
  say(fmt::format("resumed    at item {}, from generation {}", from.next_item,
                  from.generation));
  log().info(fmt::format("resumes: at item {}, from generation {}", from.next_item,
                         from.generation));
}

/// The request may come at any time; the log gets it with the next event.
/// A request to stop is set by the handler of a signal, which can neither lock nor write
/// a file.
void pipeline_reporter::note_stop() {
  if (control_.stop_requested() && !stop_noted_) {
    stop_noted_ = true;
    log().info(
        "stops: asked by a signal or by a closed output; a last checkpoint follows");
  }
}

/// The first progress has the figures of all stages.
/// Says which outputs were cut back to the state of the checkpoint. The same list comes
/// with each progress, and again after a restart of stages, in which case it differs.
void pipeline_reporter::note_cuts(const std::vector<figures>& stages) {
  std::vector<std::string> all;
  for (const figures& one : stages) {
    // "cut" is a figure of stages that own files. It lists what a stage removed from
    // them.
    if (const auto* cuts = one.find<std::vector<std::string>>("cut")) {
      all.insert(all.end(), cuts->begin(), cuts->end());
    }
  }
  if (all.empty() || all == cuts_) {
    return;
  }
  for (const std::string& cut : all) {
    const std::string words = cut + " behind the checkpoint";
    say("cut        " + words);
    log().info("cut: " + words);
  }
  cuts_ = std::move(all);
}

void pipeline_reporter::progress(const pipeline_progress& p) {
  // The cuts come first, because they happened before the first item of this run.
  note_cuts(p.stages);
  // From here on a failure writes results. A run that fails earlier has none of its own,
  // and must not replace those of an earlier run in the folder.
  began_ = true;
  last_ = p;
  note_stop();
  line().show(progress_words(p));
  // Counts how often each stage was the slowest. At the end the most frequent one is the
  // bottleneck of the run.
  if (!p.bottleneck.empty()) {
    ++limiting_[p.bottleneck];
  }
  if (p.counters) {
    peak_item_bytes_ = std::max(peak_item_bytes_, p.counters->item_bytes);
  }
  const std::int64_t now = now_ns();
  // Two conditions: there is something new to say, and the last entry is old enough.
  if (p.durable_items > logged_items_ && now - logged_ns_ > log_interval_ns) {
    logged_items_ = p.durable_items;
    logged_ns_ = now;
    log().info(fmt::format("the items before number {} are durable", p.durable_items));
  }
  const std::int64_t age = now - written_ns_;
  // Metrics are written at once at the first progress, then after five seconds; after a
  // checkpoint already when one second has passed, since readers wait for durable items.
  if (written_ns_ == 0 || age > metrics_interval_ns ||
      (p.epochs != written_epochs_ && age > shortest_interval_ns)) {
    written_ns_ = now;
    written_epochs_ = p.epochs;
    metrics_ = facts_so_far("running");
    // After the first failure no more attempts are made while the run goes on. One
    // warning is enough, and a full disk does not become better by writing to it.
    cannot_write_ = cannot_write_ || !write_metrics();
  }
}

/// The generation of the last checkpoint is known at the end alone.
/// Makes a report in the form of the final one from what the last progress said.
facts pipeline_reporter::facts_so_far(const char* ended) const {
  pipeline_report r;
  r.ended = ended;
  r.items = last_.items;
  r.epochs = last_.epochs;
  r.resumed_item = resumed_item_;
  r.seconds = static_cast<double>(now_ns() - start_ns_) * 1e-9;
  r.memory_bound = plan_.memory_bound;
  r.planned = plan_;
  r.peak_item_bytes = peak_item_bytes_;
  if (last_.counters) {
    r.counters = *last_.counters;
    r.item_bytes = r.counters.item_bytes;
  }
  facts all = run_facts(r, limiting_);
  // Zero would mean that there was no checkpoint, so the key is left out.
  all.erase("generation");
  return all;
}

void pipeline_reporter::print_end(const pipeline_report& r) {
  note_stop();
  say(fmt::format("{:<10} {} in {}, {} items/s", r.ended, counted(r.items, "item"),
                  human_seconds(r.seconds),
                  // A run that did nothing may take less than the resolution of the
                  // clock.
                  grouped(r.seconds > 0 ? static_cast<double>(r.items) / r.seconds : 0)));
  say(r.generation == 0 ? std::string("durable    without a checkpoint")
                        : fmt::format("durable    {}, the last is generation {}",
                                      counted(r.epochs, "checkpoint"), r.generation));
  // The counters of a stage that was made again begin at zero.
  if (r.restarts != 0) {
    say(fmt::format("restarts   {}; the figures above count from the last one on",
                    r.restarts));
  }
  log().info(fmt::format("ended: {}, {}, generation {}", r.ended,
                         counted(r.items, "item"), r.generation));
}

void pipeline_reporter::finish(const pipeline_report& r) {
  metrics_ = run_facts(r, limiting_);
  if (!r.finished_before) {
    print_end(r);
    write_results();
    return;
  }
  // A run folder of a finished run was given once more. Nothing was done, so metrics.json
  // of the run that did the work is more telling than the figures of this one.
  const std::string words = outputs_words(r.unverified);
  say("nothing to do: the run had finished before; " + words);
  log().info("ended: had finished before; " + words);
  keep_results(r);
}

/// The process that finished the run may have been killed before it could say so.
void pipeline_reporter::keep_results(const pipeline_report& r) {
  // Reads what the finishing process left. It is no failure if there is nothing.
  auto before = read_pipeline_metrics(folder_);
  if (before && before->contains("ended") && (*before)["ended"] == r.ended) {
    return;
  }
  // The figures of the earlier process are kept, as they count the items. Only the
  // outcome is corrected.
  const facts now = metrics_;
  if (before) {
    metrics_ = std::move(*before);
    metrics_["ended"] = r.ended;
    metrics_["generation"] = r.generation;
    metrics_.erase("failure");
  }
  write_results();
  // The caller prints the facts of this process, with `finished_before`.
  metrics_ = now;
}

void pipeline_reporter::fail(const error& e) {
  note_stop();
  // Prints the error on the terminal and writes it to the log.
  failure(e);
  if (!began_) {
    return;
  }
  log().info(fmt::format("ended: failed, {}", counted(last_.items, "item")));
  metrics_ = facts_so_far("failed");
  // Readers of the file tell a failed run by this key, and its kind by the code.
  metrics_["failure"] = {{"code", std::string(name_of(e.code()))},
                         {"message", e.message()}};
  write_results();
}

/// Writes metrics.json. Returns false if that fails, which is a warning: it changes
/// nothing about the results of the run.
bool pipeline_reporter::write_metrics() {
  if (cannot_write_) {
    return false;
  }
  const std::string text = facts_text(metrics_);
  const auto written = write_file_atomically(
      posix_file_system(), join_path(folder_, "metrics.json"), as_view(text));
  if (!written) {
    warning(written.error().message());
  }
  return written.has_value();
}

void pipeline_reporter::write_results() {
  cannot_write_ = false;  // space may have become free
  // The page is made from metrics.json on disk, so without it there is no page either.
  if (!write_metrics()) {
    return;
  }
  if (const auto page = write_pipeline_report(folder_); page) {
    say(fmt::format("report     {}", *page));
  } else {
    warning(page.error().message());
  }
}

}  // namespace weir::tools
