// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the sections of a report, from the top of the page to its bottom.
///
/// Each function adds one section to the page. Data that is missing gives a note in place
/// of a figure, so a report can be made of every run that wrote metrics.
#include "report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "drawing/charts.hpp"
#include "drawing/page.hpp"
#include "run_data.hpp"
#include "watch/progress.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

using points = std::vector<std::pair<double, double>>;

/// Returns a number of a file as a text of bytes. Numbers that no amount of memory has,
/// such as negative ones, are shown as the nearest amount.
std::string bytes_text(double bytes) {
  constexpr double most = 0x1p63;
  return human_bytes(bytes > 0 ? static_cast<std::uint64_t>(std::min(bytes, most)) : 0);
}

// Averages the curve of the model over the windows of the other models, so that the
// curves can be compared.
// The curve has one value for each pulse, or for several; the count models have windows
// of another size.
points resample(const points& curve, double window) {
  points out;
  double bits = 0;
  double before = 0;
  double begun = 0;
  for (const auto& [tokens, value] : curve) {
    // A value is an average, so it is weighted by its number of tokens.
    bits += value * (tokens - before);
    before = tokens;
    // Windows end at points of the curve and may be somewhat longer than asked for.
    if (before - begun >= window) {
      out.emplace_back(before, bits / (before - begun));
      begun = before;
      bits = 0;
    }
  }
  // The average of fewer tokens than half a window would be too noisy for a point.
  if (before - begun >= window / 2 || (out.empty() && before > begun)) {
    out.emplace_back(before, bits / (before - begun));
  }
  return out;
}

// Returns the curve of a count model. A last window of less than half the usual size is
// left out, because its average would be too noisy.
points count_points(const count_curve& counts, const corpus_comparison& corpus) {
  points out;
  for (std::size_t i = 0; i < counts.windows.size(); ++i) {
    const std::uint64_t begin = i * corpus.window;
    const std::uint64_t end =
        std::min<std::uint64_t>(begin + corpus.window, corpus.tokens);
    // A text shorter than half a window has only this one.
    if (end - begin >= corpus.window / 2 || out.empty()) {
      out.emplace_back(static_cast<double>(end), counts.windows[i]);
    }
  }
  return out;
}

// Returns the curves of the report: the count models, gzip as a straight line, and the
// model of the run.
// The model of the run comes last and is thereby drawn above the others.
std::vector<curve_line> all_curves(const run_data& run, double tokens) {
  std::vector<curve_line> lines;
  if (run.corpus) {
    const corpus_comparison& c = *run.corpus;
    for (const count_curve& counts : c.counts) {
      // The label has the value of the whole text, as the legend stands at the right.
      lines.push_back({fmt::format("order {}: {:.2f}", counts.order, counts.cumulative),
                       fmt::format("o{}", std::min(counts.order, 3U)),
                       count_points(counts, c)});
    }
    lines.push_back({fmt::format("gzip -9: {:.2f}", c.gzip),
                     "gzip",
                     // gzip has one value for the text as a whole, hence a straight line.
                     {{0, c.gzip}, {tokens, c.gzip}}});
  }
  // Without a corpus the curve gets about 150 points.
  const double window =
      run.corpus ? static_cast<double>(run.corpus->window) : tokens / 150;
  lines.push_back({fmt::format("this model: {:.2f}",
                               number_at(run.metrics, "bits_per_byte.cumulative")),
                   "model", resample(run.curve, window)});
  return lines;
}

/// Returns the sentence that compares the model with the others. The corpus must exist.
std::string model_verdict(const run_data& run) {
  return verdict(*run.corpus, number_at(run.metrics, "bits_per_byte.cumulative"),
                 number_at(run.metrics, "bits_per_byte.last_quarter"),
                 number_at(run.metrics, "phases.build.tokens"));
}

/// Adds the figures at the top of the page.
void add_head(html_page& page, const run_data& run) {
  const auto& m = run.metrics;
  page.tiles({{"bits per byte, whole text",
               // Absent figures read as zero throughout the page.
               fmt::format("{:.3f}", number_at(m, "bits_per_byte.cumulative"))},
              {"bits per byte, last quarter",
               number_at(m, "bits_per_byte.last_quarter") > 0
                   ? fmt::format("{:.3f}", number_at(m, "bits_per_byte.last_quarter"))
                   // Zero bits are impossible, so zero means that the run ended earlier.
                   : "not reached"},
              {"tokens learned from", grouped(number_at(m, "phases.build.tokens"))},
              {"tokens per second", grouped(number_at(m, "tokens_per_second"))},
              {"peak memory", bytes_text(number_at(m, "peak_rss_bytes"))},
              {"times resumed", fmt::format("{:.0f}", number_at(m, "resumed"))}});
}

/// Adds the curve and the sentence about it.
void add_curve(html_page& page, const run_data& run) {
  const double tokens = number_at(run.metrics, "phases.build.tokens");
  page.section("Learning curve");
  if (run.curve.empty()) {
    page.paragraph("No tokens were learned from.", "note");
    return;
  }
  // Only a corpus that has not changed can be compared.
  if (run.corpus) {
    page.paragraph(model_verdict(run), "verdict");
  }
  page.figure(
      draw_curves(all_curves(run, tokens), tokens),
      "Bits per byte of each window of text, predicted before it was learned; the "
      "figures at the "
      "right are of the whole text. Orders 0 to 3 are adaptive count models "
      "(Witten-Bell) of the same "
      "tokens under the same protocol. The dashed line is gzip -9 of the same bytes.");
}

// Returns median and 99th percentile of a duration.
std::string quantiles_of(const nlohmann::json& m, const std::string& key) {
  return fmt::format("{:.3f} and {:.3f} ms", 1000 * number_at(m, key + ".p50"),
                     1000 * number_at(m, key + ".p99"));
}

// Returns the slowest and the fastest lane.
std::string lane_rates_of(const nlohmann::json& m) {
  double low = 0;
  double high = 0;
  std::size_t lanes = 0;
  // One entry for each lane, with its own rate.
  if (const auto found = m.find("lanes"); found != m.end()) {
    for (const auto& lane : *found) {
      const double rate = number_at(lane, "tokens_per_second");
      // The first lane sets the smallest rate. Rates are positive, so zero is a good
      // start for the largest.
      low = lanes == 0 ? rate : std::min(low, rate);
      high = std::max(high, rate);
      ++lanes;
    }
  }
  return fmt::format("{:.0f} to {:.0f} tokens/s, {} lanes", low, high, lanes);
}

// Adds the section about time. With one worker the overhead of the engine is known; with
// several, the idle time of all of them is shown in its place.
void add_time(html_page& page, const run_data& run) {
  const auto& m = run.metrics;
  page.section("Where the time went");
  // Names at the left, values with units at the right.
  std::vector<std::pair<std::string, std::string>> rows{
      {"Build", human_seconds(number_at(m, "build_seconds"))},
      {"inside kernels", human_seconds(number_at(m, "kernel_seconds"))},
      {"waiting for text (stall)",
       fmt::format("{:.1f} ms", 1000 * number_at(m, "stall_seconds"))},
      {"reading a pulse, p50 and p99", quantiles_of(m, "next_seconds")},
      {"a pulse in the model, p50 and p99", quantiles_of(m, "pulse_seconds")},
      {"most pulses read ahead", fmt::format("{:.0f}", number_at(m, "queue_deepest"))},
      {"rate of the lanes", lane_rates_of(m)}};
  // Without the key, one worker is assumed.
  if (number_at(m, "workers", 1) < 2) {
    rows.emplace_back("engine overhead",
                      fmt::format("{:.1f} %", 100 * number_at(m, "engine_overhead")));
  } else {
    rows.emplace_back("idle, all workers", human_seconds(number_at(m, "idle_seconds")));
  }
  page.table(rows);
  // A trace may have been read and be empty.
  if (!run.trace || run.trace->spans.empty()) {
    page.paragraph("No tasks were recorded (run.trace is off, or the run had none).",
                   "note");
    return;
  }
  page.figure(draw_load(*run.trace),
              "Load of each thread while tasks were recorded; where nothing is drawn "
              "none were (run.trace says which).");
  // A window of the trace that is short enough for single tasks to be seen.
  page.figure(draw_tasks(*run.trace, 8000),
              "8 ms of tasks, one colour per kernel as in the table.");
  page.figure(kernel_table(*run.trace));
}

/// Adds a bar for each owner of tensors.
void add_memory(html_page& page, const run_data& run) {
  page.section("Memory by owner");
  std::vector<bar> bars;
  const auto memory = run.metrics.find("memory");
  // The keys are the owners.
  if (memory != run.metrics.end() && memory->is_object()) {
    for (const auto& [owner, bytes] : memory->items()) {
      if (bytes.is_number()) {
        const auto n = bytes.get<double>();
        bars.push_back({owner, n, bytes_text(n)});
      }
    }
  }
  if (bars.empty()) {
    page.paragraph("Not recorded.", "note");
    return;
  }
  page.figure(draw_bars(bars, "Bytes by owner"),
              "Memory of the tensors; the peak of the whole process is above.");
}

/// Adds identity and files of the corpus.
void add_corpus(html_page& page, const run_data& run) {
  page.section("Corpus");
  const std::string identity = text_at(run.metrics, "corpus.identity");
  if (!identity.empty()) {
    page.paragraph(fmt::format("Identity over names, sizes and content: {}", identity));
  }
  if (!run.corpus) {
    page.paragraph("Its files could not be compared; see the end of this page.", "note");
    return;
  }
  std::string rows =
      "<table><tr><th>file</th><th class=\"n\">bytes</th><th "
      "class=\"n\">XXH3-64</th></tr>";
  for (const corpus_file& f : run.corpus->files) {
    rows += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td "
        "class=\"n\"><code>{}</code></td></tr>\n",
        // A path may hold any character, so it is escaped.
        xml_escape(f.path), f.bytes, hex64(f.digest));
  }
  page.figure(rows + "</table>");
}

// Lines of the log that say when a process began, resumed, failed or ended.
std::string history(const std::string& log) {
  std::string out;
  // Goes through the lines. The last one may have no line feed.
  for (std::size_t from = 0; from < log.size();) {
    const std::size_t end = std::min(log.find('\n', from), log.size());
    const std::string line = log.substr(from, end - from);
    for (const char* event :
         // Words of the log behind the time of a line.
         {" info started", " info resumed", " info ended", " error "}) {
      if (line.find(event) != std::string::npos) {
        out += line + "\n";
        break;
      }
    }
    from = end + 1;
  }
  return out.empty() ? "nothing" : out;
}

/// Adds hashes, history and the files of the run as text.
void add_state(html_page& page, const run_data& run) {
  const auto& m = run.metrics;
  page.section("State and history");
  page.table(
      {{"ended", text_at(m, "ended")},
       {"state_hash", text_at(m, "state_hash")},
       {"context_hash", text_at(m, "context_hash")},
       {"parameter_hash", text_at(m, "parameter_hash")},
       {"largest norm of a memory",
        fmt::format("{:.2f} (lane {:.0f}, block {:.0f}, level {:.0f}, head {:.0f})",
                    number_at(m, "memory_norm.largest"), number_at(m, "memory_norm.lane"),
                    number_at(m, "memory_norm.block"), number_at(m, "memory_norm.level"),
                    number_at(m, "memory_norm.head"))},
       {"pulses", fmt::format("{:.0f}", number_at(m, "pulses"))},
       {"checkpoints written", fmt::format("{:.0f}", number_at(m, "generations"))},
       {"kernels", text_at(m, "kernel_set")}});
  page.paragraph("Processes of this run, by its log:");
  page.text(history(run.log));
  page.folded("Log of all processes of this run, resumes included", run.log);
  // Folded parts can be opened on the page, which stays short without them.
  page.folded("Settings (config.toml)", run.config_text);
  page.folded("All metrics (metrics.json)",
              // Texts of the file may be invalid UTF-8, which is replaced.
              m.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  // One line for each part that could not be read.
  for (const std::string& missing : run.missing) {
    page.paragraph("Left out: " + missing, "note");
  }
}

}  // namespace

result<written_report> write_report(const std::string& folder) {
  // Fails only without metrics. All other parts may be missing.
  WEIR_TRY(const run_data run, read_run(folder));
  html_page page("Run " + run.config.name,
                 fmt::format("{}, {} in {}", text_at(run.metrics, "ended"),
                             // The order of the page: first what matters most, at the end
                             // the details.
                             text_at(run.metrics, "kernel_set"), folder));
  add_head(page, run);
  add_curve(page, run);
  add_time(page, run);
  add_memory(page, run);
  add_corpus(page, run);
  add_state(page, run);
  const std::string path = join_path(folder, "report.html");
  const std::string html = std::move(page).finish();
  // The old page stays until the new one is complete.
  WEIR_CHECK(write_file_atomically(posix_file_system(), path, as_view(html)));
  // What the caller prints besides the path.
  written_report out{path, {}, 0, {}};
  if (run.corpus) {
    out.verdict = model_verdict(run);
    out.gzip = run.corpus->gzip;
    for (const count_curve& counts : run.corpus->counts) {
      out.orders.push_back(counts.cumulative);
    }
  }
  return out;
}

}  // namespace weir::tools
