// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of the check as text for a terminal.
///
/// Two tables, one of the stages in their order and one of the edges, and then the bound
/// on memory, the guarantee and the notes of the check.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "graph/memory.hpp"
#include "graph/names.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/text.hpp"
#include "weir/pipeline/graph.hpp"

namespace weir::flow {
namespace {

/// Rows of text whose columns are aligned to the left.
/// Widths are counted in bytes; names are ASCII.
class text_table {
 public:
  // The first row has the titles.
  using row = std::vector<std::string>;

  explicit text_table(row head) : rows_{std::move(head)} {}

  void add(row r) { rows_.push_back(std::move(r)); }

  /// Returns the rows, each indented by two blanks and ended by a line feed.
  [[nodiscard]] std::string text() const {
    // The widest cell of each column.
    std::vector<std::size_t> widths(rows_.front().size(), 0);
    for (const row& r : rows_) {
      for (std::size_t i = 0; i < r.size(); ++i) {
        widths[i] = std::max(widths[i], r[i].size());
      }
    }
    std::string out;
    for (const row& r : rows_) {
      std::string line;
      // Blanks at the end of a line are cut off, because the last column has them.
      for (std::size_t i = 0; i < r.size(); ++i) {
        line += fmt::format("  {:<{}}", r[i], widths[i]);
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return out;
  }

 private:
  std::vector<row> rows_;
};

/// Name of a face for people.
std::string_view face_text(face f) noexcept {
  switch (f) {
    case face::task: return "task";
    case face::late: return "late";
    case face::looping: return "step loop";
    case face::source: return "source";
    case face::sink: return "sink";
    case face::blocking: return "blocking";
  }
  return "unknown";
}

/// Name of a guarantee for people.
std::string_view guarantee_text(guarantee g) noexcept {
  switch (g) {
    case guarantee::none: return "none";
    case guarantee::at_least_once: return "at least once";
    case guarantee::exactly_once: return "exactly once";
  }
  return "unknown";
}

std::string bytes_text(std::int64_t bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes));
}

/// Takes the quotes of a name away.
std::string plain(const std::string& quoted) {
  return quoted.substr(1, quoted.size() - 2);
}

/// Memory is that of all slots of a stage, with its scratch.
std::string stages_text(const plan& p) {
  text_table table({"stage", "uses", "face", "numbering", "slots", "memory"});
  // The order is that of the run, in which an item passes the stages.
  for (const std::uint32_t s : p.order) {
    const graph_stage& stage = p.source.stages[s];
    std::int64_t bytes = 0;
    for (const std::int64_t b : p.stages[s].bytes) {
      bytes += b;
    }
    // Scratch counts per call; a stage has as many calls as slots.
    for (const port_type& piece : p.stages[s].scratch) {
      bytes += p.stages[s].slots * align_up(piece.bytes().value_or(0), slot_alignment);
    }
    // A stage without memory of its own shows a dash.
    table.add({stage.name, stage.info.name, std::string(face_text(stage.info.face)),
               std::to_string(p.stages[s].numbering), std::to_string(p.stages[s].slots),
               bytes == 0 ? "-" : bytes_text(bytes)});
  }
  return table.text();
}

/// A type is shown as the check has unified it.
std::string edges_text(const plan& p) {
  text_table table({"edge", "", "", "type", "window"});
  for (const graph_edge& e : p.source.edges) {
    // Both limits of the window are shown, because either can be reached first.
    std::string window =
        counted(e.window_items, "item") + ", " + bytes_text(e.window_bytes);
    if (e.delay > 0) {
      window += fmt::format(", delay {}", e.delay);
    }
    table.add({plain(outlet_name(p.source, e)), "->", plain(inlet_name(p.source, e)),
               p.stages[e.from].types[e.outlet].text(), std::move(window)});
  }
  return table.text();
}

}  // namespace

std::string describe(const plan& p) {
  std::string out = fmt::format("pipeline \"{}\": {}, {}\n\n", p.source.name,
                                counted(p.source.stages.size(), "stage"),
                                counted(p.source.edges.size(), "edge"));
  // Without edges there is no second table.
  out += stages_text(p) + '\n';
  if (!p.source.edges.empty()) {
    out += edges_text(p) + '\n';
  }
  out += fmt::format("memory of items: at most {} bytes ({})\n", p.memory_bound,
                     bytes_text(p.memory_bound));
  out += fmt::format("guarantee: {}", guarantee_text(p.promise));
  // The stage that weakens the guarantee, if there is one.
  out += p.weakest.empty() ? "\n" : fmt::format(" (because of \"{}\")\n", p.weakest);
  for (const std::string& note : p.notes) {
    out += fmt::format("note: {}\n", note);
  }
  return out;
}

}  // namespace weir::flow
