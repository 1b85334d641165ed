// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the report of a pipeline's run.
///
/// The page is made from metrics.json alone, plus the texts of pipeline.toml and log. It
/// can therefore be written again at any time, also for a run that was killed.
/// metrics.json may be from another version or damaged, so each value is looked up with a
/// substitute.
#include "report.hpp"

#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>

#include "drawing/charts.hpp"
#include "drawing/page.hpp"
#include "picture.hpp"
#include "report/metrics_file.hpp"
#include "watch/progress.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// Returns the content of a file of the folder; empty if it cannot be read.
std::string read_text(const std::string& folder, const char* name) {
  // The file may be missing, for instance if the run has not written its log yet.
  const auto content = read_file(posix_file_system(), join_path(folder, name));
  return content ? std::string(as_text(*content)) : "";
}

/// Returns a value as text for people. Numbers get groups of digits.
std::string shown(const facts& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  // A missing value and null look alike to the reader.
  if (found == object.end() || found->is_null()) {
    return "-";
  }
  if (found->is_string()) {
    return found->get<std::string>();
  }
  // Large numbers with a fraction are shown without it.
  if (found->is_number_unsigned() || found->is_number_integer() ||
      (found->is_number_float() && found->get<double>() >= 100)) {
    return grouped(found->get<double>());
  }
  return found->is_number_float() ? fmt::format("{:.3g}", found->get<double>())
                                  // Other kinds, such as true, are shown as JSON.
                                  : found->dump();
}

/// Returns the points of a curve. Entries of another form are left out, because the file
/// may be damaged.
std::vector<std::pair<double, double>> points_of(const facts& curve) {
  std::vector<std::pair<double, double>> out;
  const auto points = curve.find("points");
  if (points == curve.end() || !points->is_array()) {
    return out;
  }
  for (const facts& point : *points) {
    if (point.is_array() && point.size() == 2 && point[0].is_number() &&
        point[1].is_number()) {
      out.emplace_back(point[0].get<double>(), point[1].get<double>());
    }
  }
  return out;
}

/// A column of a table: key of the facts, and heading.
using column = std::pair<std::string_view, std::string_view>;

/// Returns a table with a row for each object of a list. Cells of numbers have the class
/// "n", which aligns them to the right.
template <std::size_t N>
std::string table_html(const facts& metrics, const char* list,
                       const std::array<column, N>& columns) {
  std::string out = "<table><tr>";
  for (const auto& [key, heading] : columns) {
    out += fmt::format("<th>{}</th>", heading);
  }
  out += "</tr>\n";
  const auto rows = metrics.find(list);
  // Without the list, the table has only its head.
  if (rows != metrics.end() && rows->is_array()) {
    for (const facts& row : *rows) {
      out += "<tr>";
      for (const auto& [key, heading] : columns) {
        // A row that is no object has no cells, so its cells show "-".
        const auto cell = row.find(std::string(key));
        const bool number = cell != row.end() && cell->is_number();
        out += fmt::format("<td{}>{}</td>", number ? " class=\"n\"" : "",
                           xml_escape(shown(row, key)));
      }
      out += "</tr>\n";
    }
  }
  return out + "</table>";
}

/// Columns of the table of stages.
constexpr std::array<column, 10> stage_columns{
    {{"name", "stage"},
     {"use", "uses"},
     {"face", "face"},
     {"items", "items taken"},
     {"emitted", "handed on"},
     {"skipped", "skipped"},
     {"failed", "failed"},
     {"blocked_input", "turns without item"},
     {"blocked_output", "turns without credit"},
     {"busy_seconds", "busy for s"}}};
/// Columns of the table of edges.
constexpr std::array<column, 8> edge_columns{{{"from", "from"},
                                              {"to", "to"},
                                              {"type", "type"},
                                              {"items", "items"},
                                              {"gaps", "gaps"},
                                              {"bytes", "bytes"},
                                              {"deepest", "most alive"},
                                              {"window_items", "window"}}};

/// Returns a time in milliseconds, or in larger units from a second on.
std::string duration_text(const facts& latency, const char* key) {
  const auto found = latency.find(key);
  if (found == latency.end() || !found->is_number()) {
    // The value was missing or damaged.
    return "-";
  }
  // Latencies are nanoseconds in the file.
  const double seconds = found->get<double>() * 1e-9;
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : human_seconds(seconds);
}

/// Returns a sentence for each sink: how long items took until they were durable.
std::string latency_text(const facts& metrics) {
  std::string out;
  const auto stages = metrics.find("stages");
  if (stages == metrics.end() || !stages->is_array()) {
    return out;
  }
  for (const facts& stage : *stages) {
    const auto latency = stage.find("latency");
    // Only sinks have latencies.
    if (latency == stage.end() || !latency->is_object()) {
      continue;
    }
    out += fmt::format(
        "From their source until a checkpoint held them, half of the items of \"{}\" "
        "took at most {}, 99 % at most {}, and the slowest one {}. ",
        shown(stage, "name"), duration_text(*latency, "p50_ns"),
        duration_text(*latency, "p99_ns"), duration_text(*latency, "largest_ns"));
  }
  return out;
}

/// Returns a sentence about the stage that limited the rate.
std::string bottleneck_text(const facts& metrics) {
  // Null if no stage was ever seen to limit the rate.
  const auto found = metrics.find("bottleneck");
  if (found == metrics.end() || !found->is_object()) {
    return "No stage was found to limit the rate: the run was too short, or nothing had "
           "to wait.";
  }
  // The share is a fraction.
  const auto share = found->find("share");
  const double part =
      share != found->end() && share->is_number() ? share->get<double>() : 0;
  return fmt::format(
      "The stage \"{}\" limited the rate in {:.0f} % of the observations: items waited "
      "in "
      "front of it, and it could hand on what it had made.",
      shown(*found, "stage"), 100 * part);
}

/// Adds the notes of the plan, each as a paragraph.
void add_notes(html_page& page, const facts& metrics) {
  const auto notes = metrics.find("notes");
  if (notes == metrics.end() || !notes->is_array()) {
    return;
  }
  for (const facts& note : *notes) {
    // A note is a text. Anything else is damage and shown as it is.
    page.paragraph(note.is_string() ? note.get<std::string>() : note.dump(), "note");
  }
}

/// Returns a sentence about a run that has not ended well; empty for others.
std::string failure_text(const facts& metrics) {
  // A killed process leaves metrics.json as it was written last.
  if (shown(metrics, "ended") == "running") {
    return "These figures were written while the run was going on. It goes on still, or "
           "its process was killed since; `weir resume` then continues it.";
  }
  const auto failure = metrics.find("failure");
  // Other runs have ended well or were stopped.
  return failure == metrics.end() || !failure->is_object()
             ? std::string()
             : fmt::format("The run has failed ({}): {}", shown(*failure, "code"),
                           shown(*failure, "message"));
}

/// Adds what stages have told about themselves: a table of figures, and their curves.
void add_figures_of_run(html_page& page, const facts& metrics) {
  const auto stages = metrics.find("stages");
  if (stages == metrics.end() || !stages->is_array()) {
    return;
  }
  // The rows are collected first, because the section is left out if there are none.
  std::string rows;
  for (const facts& stage : *stages) {
    // A stage without figures has no such object.
    const auto found = stage.find("figures");
    if (found == stage.end() || !found->is_object()) {
      continue;
    }
    for (const auto& [name, value] : found->items()) {
      rows += fmt::format("<tr><td>{}</td><td>{}</td><td{}>{}</td></tr>\n",
                          xml_escape(shown(stage, "name")), xml_escape(name),
                          // Numbers are aligned to the right, as in the other tables.
                          value.is_number() ? " class=\"n\"" : "",
                          xml_escape(shown(*found, name)));
    }
  }
  if (rows.empty()) {
    return;
  }
  page.section("Figures of stages");
  // Curves of all stages come first, and then one table for all figures.
  for (const facts& stage : *stages) {
    const auto curves = stage.find("curves");
    if (curves == stage.end() || !curves->is_array()) {
      continue;
    }
    for (const facts& one : *curves) {
      page.figure(
          draw_line(points_of(one), shown(one, "title"), shown(one, "x"),
                    shown(one, "y")),
          fmt::format("{} of \"{}\".", shown(one, "title"), shown(stage, "name")));
    }
  }
  page.figure("<table><tr><th>stage</th><th>figure</th><th>value</th></tr>\n" + rows +
              "</table>");
}

/// Makes the page. The order is from what most readers want to details: figures, graph,
/// tables, log.
std::string page_of(const std::string& folder, const facts& metrics) {
  html_page page(fmt::format("Pipeline {}", shown(metrics, "pipeline")),
                 fmt::format("{}: {}", folder, shown(metrics, "ended")));
  if (const std::string text = failure_text(metrics); !text.empty()) {
    page.paragraph(text, "verdict");
  }
  // Key and unit are in the name below each figure.
  page.tiles({{"items", shown(metrics, "items")},
              {"items per second", shown(metrics, "items_per_second")},
              {"seconds", shown(metrics, "seconds")},
              {"checkpoints", shown(metrics, "checkpoints")},
              {"bytes of items, of at most",
               fmt::format("{} / {}", shown(metrics, "peak_item_bytes"),
                           shown(metrics, "memory_bound_bytes"))},
              {"guarantee", shown(metrics, "guarantee")}});
  // A run without observations has a sentence for that.
  page.paragraph(bottleneck_text(metrics), "verdict");
  if (const std::string latency = latency_text(metrics); !latency.empty()) {
    page.paragraph(latency);
  }
  page.section("Graph");
  page.figure(
      picture_svg(picture_of(metrics)),
      "Stages with their ports and rates; at each inlet stands how many items were "
      "alive at most, of the window; a dashed edge has a delay.");
  add_notes(page, metrics);
  page.section("Stages");
  page.figure(table_html(metrics, "stages", stage_columns));
  page.section("Edges");
  page.figure(table_html(metrics, "edges", edge_columns),
              "Items and bytes of this process; \"most alive\" is the largest number of "
              "items on the edge at one time.");
  // Left out if no stage has told anything.
  add_figures_of_run(page, metrics);
  page.section("File and log");
  // Both are folded, since they may be long.
  page.folded("pipeline.toml", read_text(folder, "pipeline.toml"));
  page.folded("log", read_text(folder, "log"));
  return std::move(page).finish();
}

}  // namespace

error missing_metrics(const std::string& folder) {
  const std::string text = fmt::format(
      "cannot report on \"{}\": expected a run folder with the file "
      "metrics.json, found none",
      folder);
  // A folder with a log is that of a run, which may not have written the file yet.
  if (!posix_file_system().exists(join_path(folder, "log"))) {
    // No sign of a run at all, so there is nothing to hint at.
    return {errc::not_found, text};
  }
  return error(errc::not_found, text)
      .hint(
          fmt::format("a run of a pipeline writes it soon after it has begun, other runs "
                      "at the end; `weir resume {}` continues the run",
                      folder));
}

result<facts> read_pipeline_metrics(const std::string& folder) {
  const std::string path = join_path(folder, "metrics.json");
  const auto content = read_file(posix_file_system(), path);
  // Other failures of reading, such as missing permission, are reported as they are.
  if (!content && content.error().code() != errc::not_found) {
    return content.error();
  }
  if (!content) {
    return missing_metrics(folder);
  }
  return parse_metrics<facts>(as_text(*content), path);
}

result<std::string> write_pipeline_report(const std::string& folder) {
  WEIR_TRY(const facts metrics, read_pipeline_metrics(folder));
  const std::string path = join_path(folder, "report.html");
  // The page is complete or not written at all.
  WEIR_CHECK(write_file_atomically(posix_file_system(), path,
                                   as_view(page_of(folder, metrics))));
  return path;
}

}  // namespace weir::tools
