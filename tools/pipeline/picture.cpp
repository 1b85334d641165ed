// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws pipelines as SVG, and writes them for Graphviz.
///
/// Both start from a `graph_picture`, which is made from facts: of a plan, or of a run,
/// which has rates and depths too. `layout.cpp` finds the positions. A drawing is a file
/// of its own and a part of report.html as well, so it brings its style along.
#include "picture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "drawing/charts.hpp"
#include "layout.hpp"
#include "watch/progress.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

// The classes have a prefix because a page holds other drawings, too.
// The colours have a second form for dark surroundings.
constexpr std::string_view picture_style = R"(<style>
.pl-page{fill:#fbfbfa}.pl-box{fill:#ffffff;stroke:#98a0a9;stroke-width:1}
.pl-edge{fill:none;stroke:#545e69;stroke-width:1.4}
.pl-delay{fill:none;stroke:#8a6fc1;stroke-width:1.4;stroke-dasharray:5 4}
.pl-arrow{fill:#545e69}.pl-arrow-delay{fill:#8a6fc1}
svg text.pl-title{font:600 15px system-ui,sans-serif;fill:#1d2126}
svg text.pl-name{font:600 13px system-ui,sans-serif;fill:#1d2126}
svg text.pl-use,svg text.pl-port{font:11.5px system-ui,sans-serif;fill:#636b74}
.pl-source{fill:#4f9d69}.pl-task{fill:#3b82c4}.pl-late{fill:#e08e3c}.pl-sink{fill:#c4574f}
@media (prefers-color-scheme:dark){.pl-page{fill:#1b1f23}
.pl-box{fill:#23282d;stroke:#646d76}.pl-edge{stroke:#aeb7c0}.pl-arrow{fill:#aeb7c0}
svg text.pl-title,svg text.pl-name{fill:#e4e7ea}
svg text.pl-use,svg text.pl-port{fill:#98a1aa}}
</style>
)";

// For the stage that limited the rate of a run.
constexpr std::string_view limit_style =
    "<style>.pl-limit{stroke:#c4574f;stroke-width:2.5}</style>\n";

/// Faces with a colour of their own; all others are drawn as tasks.
constexpr std::array<std::string_view, 4> faces{"source", "task", "late", "sink"};
constexpr double wide_picture = 980;  ///< a wider one is scrolled and not made smaller

/// Returns a text of the facts; empty if it is missing or no text.
std::string fact_text(const facts& object, const char* key) {
  const auto found = object.find(key);
  // Facts may come from a file, so neither presence nor kind is certain.
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Returns a count of the facts; 0 if it is missing or no count.
std::uint64_t fact_number(const facts& object, const char* key) {
  const auto found = object.find(key);
  const bool is_count =
      // Negative and fractional numbers are no counts.
      found != object.end() && found->is_number_integer() && *found >= 0;
  return is_count ? found->get<std::uint64_t>() : 0;
}

/// Returns the objects of a list; none if there is no list.
std::vector<facts> objects_at(const facts& object, const char* key) {
  std::vector<facts> out;
  const auto list = object.find(key);
  if (list != object.end() && list->is_array()) {
    std::ranges::copy_if(*list, std::back_inserter(out),
                         [](const facts& one) { return one.is_object(); });
  }
  return out;
}

/// Finds the stage of a text such as "first.y", and cuts the text down to the port.
std::optional<std::size_t> take_stage(const graph_picture& picture, std::string& end) {
  const std::size_t dot = end.rfind('.');
  // The names of ports have no dots, so the last one divides.
  if (dot == std::string::npos) {
    return std::nullopt;
  }
  const auto found =
      std::ranges::find(picture.stages, end.substr(0, dot), &pictured_stage::name);
  // Cut even if the stage is not found; the caller then drops the edge.
  end.erase(0, dot + 1);
  return found == picture.stages.end()
             ? std::nullopt
             : std::optional(static_cast<std::size_t>(found - picture.stages.begin()));
}

/// Returns the window of an edge in words.
std::string window_text(const facts& edge) {
  // Both limits hold at once.
  return fmt::format("window {}, {}", counted(fact_number(edge, "window_items"), "item"),
                     human_bytes(fact_number(edge, "window_bytes")));
}

/// Returns the rate at which a stage has handed items on, or at which a sink has taken
/// them; empty if there was no run.
std::string rate_text(const facts& run, const facts& stage) {
  // A sink hands nothing on, so its items are counted where they arrive.
  const char* const count = fact_text(stage, "face") == "sink" ? "items" : "emitted";
  const auto seconds = run.find("seconds");
  // No run, or one so short that a rate has no meaning.
  if (!stage.contains(count) || seconds == run.end() || !seconds->is_number() ||
      *seconds <= 0) {
    return {};
  }
  return fmt::format(
      "{} items/s",
      grouped(static_cast<double>(fact_number(stage, count)) / seconds->get<double>()));
}

/// Draws the box of a stage: a stripe in the colour of its face, names, rate, and the
/// labels of its ports outside of the box.
void draw_stage(svg& s, const pictured_stage& stage, const placed_stage& box) {
  // The tip appears under the pointer.
  s.rect(box.x, box.y, box.width, box.height,
         css(stage.limits ? "pl-box pl-limit" : "pl-box"), stage.tip);
  // The stripe at the left side says what kind of stage it is.
  s.rect(box.x, box.y, 5, box.height, css("pl-" + stage.face));
  draw_text(s, box.x + 14, box.y + 18, "pl-name", "start", stage.name);
  draw_text(s, box.x + 14, box.y + 33, "pl-use", "start", stage.use);
  if (!stage.rate.empty()) {
    draw_text(s, box.x + 14, box.y + 50, "pl-port", "start", stage.rate);
  }
  for (std::size_t i = 0; i < box.outlets.size(); ++i) {
    // Labels stand a little above the line of their edge.
    draw_text(s, box.x + box.width + 5, box.port_y(box.outlets, box.outlets[i]) - 4,
              "pl-port", "start", box.outlet_labels[i]);
  }
  for (std::size_t i = 0; i < box.inlets.size(); ++i) {
    draw_text(s, box.x - 11, box.port_y(box.inlets, box.inlets[i]) - 4, "pl-port", "end",
              box.inlet_labels[i]);
  }
}

/// Draws an edge with an arrow at its end. Feedback edges are dashed and show their
/// delay.
void draw_edge(svg& s, const pictured_edge& edge, const std::vector<point>& points,
               point label) {
  const bool delayed = edge.delay > 0;
  s.polyline(points, css(delayed ? "pl-delay" : "pl-edge"), edge.tip);
  // The last point is the tip of the arrow.
  const auto [x, y] = points.back();
  // The arrow points to the right, because edges enter a box at its left side.
  s.polyline({{x - 8, y - 4}, {x, y}, {x - 8, y + 4}},
             css(delayed ? "pl-arrow-delay" : "pl-arrow"));
  if (delayed) {
    draw_text(s, label.first, label.second, "pl-port", "middle",
              fmt::format("delay {}", edge.delay));
  }
}

/// Draws the faces that occur, with their colours, at height `y`.
void draw_legend(svg& s, const graph_picture& picture, double y) {
  // The entries stand in one line, in a fixed order.
  double x = 16;
  for (const std::string_view face : faces) {
    if (std::ranges::count(picture.stages, face, &pictured_stage::face) == 0) {
      continue;
    }
    s.rect(x, y - 10, 10, 10, css(fmt::format("pl-{}", face)));
    draw_text(s, x + 15, y, "pl-use", "start", face);
    x += 70;
  }
}

/// Returns a text in quotes, as the language of Graphviz wants it.
std::string dot_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    // A line feed is the only control character that names and tips have.
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return out + '"';
}

/// Returns the shape of a stage.
std::string_view dot_shape(std::string_view face) {
  // Sources and sinks are round, so that the ends of a graph can be seen.
  return face == "source" || face == "sink" ? "ellipse" : "box";
}

}  // namespace

graph_picture picture_of(const facts& plan) {
  graph_picture picture;
  picture.name = fact_text(plan, "pipeline");
  // Only a run knows the stage that limited its rate.
  const auto bottleneck = plan.find("bottleneck");
  const std::string limiting = bottleneck != plan.end() && bottleneck->is_object()
                                   ? fact_text(*bottleneck, "stage")
                                   : "";
  for (const facts& one : objects_at(plan, "stages")) {
    // The tip needs the other texts and is made below.
    pictured_stage stage{fact_text(one, "name"), fact_text(one, "use"),
                         fact_text(one, "face"), ""};
    // Step loops, blocking stages and faces of a newer version.
    if (std::ranges::count(faces, stage.face) == 0) {
      stage.face = "task";
    }
    stage.tip = fmt::format("{} ({}, {}): {}, {} in slots", stage.name, stage.use,
                            stage.face, counted(fact_number(one, "slots"), "slot"),
                            human_bytes(fact_number(one, "memory_bytes")));
    stage.rate = rate_text(plan, one);
    stage.limits = !stage.name.empty() && stage.name == limiting;
    if (!stage.rate.empty()) {
      stage.tip += ", " + stage.rate;
    }
    // A stage without a name cannot be the end of an edge and is left out.
    if (!stage.name.empty()) {
      picture.stages.push_back(std::move(stage));
    }
  }
  for (const facts& one : objects_at(plan, "edges")) {
    pictured_edge edge;
    edge.outlet = fact_text(one, "from");
    edge.inlet = fact_text(one, "to");
    edge.type = fact_text(one, "type");
    edge.delay = fact_number(one, "delay");
    edge.tip = fmt::format("{} to {}: {}, {}", edge.outlet, edge.inlet, edge.type,
                           window_text(one));
    // Counters exist only in the facts of a run.
    if (one.contains("deepest")) {
      edge.depth = fmt::format("{}/{}", fact_number(one, "deepest"),
                               fact_number(one, "window_items"));
      edge.tip +=
          fmt::format(", {} alive at most, {} and {} in all", fact_number(one, "deepest"),
                      counted(fact_number(one, "items"), "item"),
                      human_bytes(fact_number(one, "bytes")));
    }
    // The texts "stage.port" become the names of ports.
    const auto from = take_stage(picture, edge.outlet);
    const auto to = take_stage(picture, edge.inlet);
    // An edge whose ends are not in the picture cannot be drawn.
    if (from && to) {
      edge.from = *from;
      edge.to = *to;
      picture.edges.push_back(std::move(edge));
    }
  }
  return picture;
}

std::string picture_svg(const graph_picture& picture) {
  const placed_picture placed = place_picture(picture);
  // The legend stands below the graph.
  const double legend_y = placed.height + 14;
  const double height = legend_y + 14;
  // A file needs its name space and its size, and a page must not shrink a wide drawing.
  svg s(
      fmt::format("xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
                  "height=\"{1:.0f}\" style=\"width:{0:.0f}px;max-width:{2}\" "
                  "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" aria-label=\"{3}\"",
                  placed.width, height, placed.width > wide_picture ? "none" : "100%",
                  xml_escape("pipeline " + picture.name)));
  s.add(picture_style);
  if (std::ranges::any_of(picture.stages, &pictured_stage::limits)) {
    s.add(limit_style);
  }
  // Behind everything else, so that the drawing can be read on any background.
  s.rect(0, 0, placed.width, height, css("pl-page"));
  draw_text(s, 16, 28, "pl-title", "start", picture.name);
  // Edges come first, so that boxes cover their ends.
  for (std::size_t i = 0; i < picture.edges.size(); ++i) {
    draw_edge(s, picture.edges[i], placed.edges[i], placed.delay_labels[i]);
  }
  for (std::size_t i = 0; i < picture.stages.size(); ++i) {
    draw_stage(s, picture.stages[i], placed.stages[i]);
  }
  draw_legend(s, picture, legend_y);
  return std::move(s).finish();
}

std::string picture_dot(const graph_picture& picture) {
  std::string out =
      // Ranks go from left to right, like the drawing.
      fmt::format("digraph {} {{\n  rankdir=LR;\n", dot_quote(picture.name));
  for (const pictured_stage& stage : picture.stages) {
    const std::string label =
        // Without a label, Graphviz shows the name.
        stage.rate.empty()
            ? ""
            : fmt::format(" label={},", dot_quote(stage.name + "\n" + stage.rate));
    out += fmt::format("  {} [shape={},{} tooltip={}];\n", dot_quote(stage.name),
                       dot_shape(stage.face), label, dot_quote(stage.tip));
  }
  for (const pictured_edge& edge : picture.edges) {
    // The label has the type and, if there are any, delay and depth.
    const std::string label =
        (edge.delay == 0 ? edge.type
                         : fmt::format("{}, delay {}", edge.type, edge.delay)) +
        (edge.depth.empty() ? "" : "\n" + edge.depth);
    out +=
        fmt::format("  {} -> {} [label={}, taillabel={}, headlabel={}, tooltip={}{}];\n",
                    dot_quote(picture.stages[edge.from].name),
                    dot_quote(picture.stages[edge.to].name), dot_quote(label),
                    dot_quote(edge.outlet), dot_quote(edge.inlet), dot_quote(edge.tip),
                    // Feedback edges must not change the order of the ranks.
                    edge.delay == 0 ? "" : ", style=dashed, constraint=false");
  }
  return out + "}\n";
}

}  // namespace weir::tools
