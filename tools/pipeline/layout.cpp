// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places the boxes and edges of a pipeline in layers, as Sugiyama, Tagawa and Toda do: a
/// layer for each distance from the sources, then an order within each layer with few
/// crossings, then heights close to those of the neighbours.
///
/// An edge that passes layers is divided by a cell in each of them, so that it keeps
/// clear of the boxes there. Edges with a delay lead back and are left out of all this:
/// each runs below the boxes in a lane of its own. Distances are in pixels.
/// @source{IEEE Transactions on Systems, Man and Cybernetics 11 (1981), 109-125}
#include "layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weir::tools {

namespace {

/// Around the whole drawing.
constexpr double margin = 16;
constexpr double title_height = 34;
constexpr double head_height = 40;   ///< of a box, for the names above its ports
constexpr double port_height = 20;   ///< distance of two ports of a box
constexpr double box_distance = 26;  ///< smallest distance of two boxes above each other
constexpr double lane_height = 12;   ///< of an edge that passes a layer
constexpr double bend_width = 46;    ///< part of a gap in which edges change their height
constexpr double lane_distance = 18;  ///< distance of two feedback edges
constexpr double arrow_width = 8;     ///< room for the arrow in front of an inlet

/// A box, or the place at which an edge passes a layer.
struct cell {
  std::size_t layer = 0;  ///< number of its layer, from the left
  bool box = false;       ///< false for the place of an edge
  double y = 0;           ///< its upper side
  double height = lane_height;
  std::vector<std::size_t> left{};   ///< cells of the layer before, with edges to here
  std::vector<std::size_t> right{};  ///< cells of the layer behind
  [[nodiscard]] double middle() const { return y + height / 2; }
};

/// Places one picture. The steps are called in the order of `place`.
class layouter {
 public:
  explicit layouter(const graph_picture& picture) : picture_(picture) {}

  // Later steps use what earlier ones have found, so their order is fixed.
  placed_picture place() {
    out_.stages.resize(picture_.stages.size());
    out_.edges.resize(picture_.edges.size());
    out_.delay_labels.resize(picture_.edges.size());
    assign_layers();
    size_boxes();
    make_cells();
    order_layers();
    set_heights();
    set_columns();
    for (std::size_t e = 0; e < picture_.edges.size(); ++e) {
      is_forward(e) ? route_forward(e) : route_back(e);
    }
    // Below the boxes there is room for all feedback edges.
    const double lanes = lanes_ == 0 ? 0 : 10 + lane_distance * lanes_;
    out_.height = bottom_ + lanes + margin;
    return std::move(out_);
  }

 private:
  using edge = pictured_edge;

  // Gives each stage the layer behind the last of its predecessors. The rounds are
  // limited because a drawing of damaged facts may have a cycle. An edge that still leads
  // to the left is drawn like a feedback edge.
  void assign_layers() {
    for (std::size_t round = 0; round < picture_.stages.size(); ++round) {
      bool changed = false;
      for (const edge& e : picture_.edges) {
        const std::size_t layer = out_.stages[e.from].layer + 1;
        if (e.delay == 0 && e.from != e.to && out_.stages[e.to].layer < layer &&
            layer < picture_.stages.size()) {
          out_.stages[e.to].layer = layer;
          changed = true;
        }
      }
      // Without a change, further rounds would change nothing.
      if (!changed) {
        break;
      }
    }
    // A source stands right before the first stage that it feeds.
    for (std::size_t s = 0; s < picture_.stages.size(); ++s) {
      std::size_t next = SIZE_MAX;
      bool has_inlet = false;
      for (const edge& e : picture_.edges) {
        has_inlet = has_inlet || e.to == s;
        next = e.from == s ? std::min(next, out_.stages[e.to].layer) : next;
      }
      // Stages with inlets already stand as far left as they can.
      if (!has_inlet && next != SIZE_MAX && next > 0) {
        out_.stages[s].layer = next - 1;
      }
    }
    // One column for each layer, up to the last one that has a stage.
    for (const placed_stage& s : out_.stages) {
      columns_.resize(std::max(columns_.size(), s.layer + 1));
    }
  }

  // Returns whether an edge leads to a later layer. All others are drawn as feedback
  // edges.
  [[nodiscard]] bool is_forward(std::size_t index) const {
    const edge& e = picture_.edges[index];
    return e.delay == 0 && out_.stages[e.from].layer < out_.stages[e.to].layer;
  }

  // Adds a name that is not there yet.
  static void add_once(std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }

  // Collects the ports that edges use, and sizes the boxes. The factor at the name is due
  // to its bold font.
  void size_boxes() {
    for (const edge& e : picture_.edges) {
      placed_stage& from = out_.stages[e.from];
      const std::size_t known = from.outlets.size();
      add_once(from.outlets, e.outlet);
      // The label is made with the port, so both lists have equal lengths.
      if (from.outlets.size() > known) {
        from.outlet_labels.push_back(e.outlet + "  " + e.type);
      }
      placed_stage& to = out_.stages[e.to];
      const std::size_t before = to.inlets.size();
      add_once(to.inlets, e.inlet);
      if (to.inlets.size() > before) {
        to.inlet_labels.push_back(e.depth.empty() ? e.inlet : e.depth + "  " + e.inlet);
      }
    }
    for (std::size_t s = 0; s < out_.stages.size(); ++s) {
      placed_stage& box = out_.stages[s];
      // A stage without ports has room for one.
      const std::size_t rows =
          std::max({box.inlets.size(), box.outlets.size(), std::size_t{1}});
      box.height = head_height + port_height * static_cast<double>(rows);
      box.width = 28 + std::max({1.15 * text_width(picture_.stages[s].name),
                                 text_width(picture_.stages[s].use),
                                 text_width(picture_.stages[s].rate), 60.0});
    }
  }

  // Makes a cell for each box and for each layer that an edge passes, and links the cells
  // of each edge. The number of a box's cell is that of its stage.
  void make_cells() {
    for (const placed_stage& s : out_.stages) {
      cells_.push_back({s.layer, true, 0, s.height});
    }
    for (std::size_t e = 0; e < picture_.edges.size(); ++e) {
      paths_.emplace_back();
      if (!is_forward(e)) {
        continue;
      }
      // The path begins at the cell of the box and ends at that of the other box.
      std::size_t last = picture_.edges[e].from;
      paths_[e].push_back(last);
      const std::size_t end = picture_.edges[e].to;
      // One cell in each layer between the two.
      for (std::size_t layer = cells_[last].layer + 1; layer < cells_[end].layer;
           ++layer) {
        cells_.push_back({layer});
        link(last, cells_.size() - 1);
        last = cells_.size() - 1;
        paths_[e].push_back(last);
      }
      link(last, end);
      paths_[e].push_back(end);
    }
    // Cells get into their layers in the order in which they were made.
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      columns_[cells_[c].layer].cells.push_back(c);
    }
  }

  // Notes that an edge leads from one cell to a cell of the next layer.
  void link(std::size_t left, std::size_t right) {
    cells_[left].right.push_back(right);
    cells_[right].left.push_back(left);
  }

  // Sorts each layer by the mean position of the neighbours, alternately those of the
  // left and those of the right.
  void order_layers() {
    // `rank` is the position of each cell in its layer.
    std::vector<double> rank(cells_.size(), 0);
    // Writes the positions of an order into `rank`.
    const auto number = [&](const std::vector<std::size_t>& order) {
      for (std::size_t i = 0; i < order.size(); ++i) {
        rank[order[i]] = static_cast<double>(i);
      }
    };
    for (const column& c : columns_) {
      number(c.cells);
    }
    // Sorts one layer by the neighbours on one side.
    const auto sort = [&](column& c, auto neighbours) {
      std::vector<std::pair<double, std::size_t>> wanted;
      for (const std::size_t one : c.cells) {
        const std::vector<std::size_t>& near = cells_[one].*neighbours;
        double sum = 0;
        for (const std::size_t other : near) {
          sum += rank[other];
        }
        // A cell without neighbours on this side keeps its position.
        wanted.emplace_back(
            near.empty() ? rank[one] : sum / static_cast<double>(near.size()), one);
      }
      // Stable, so that cells with equal means keep their order.
      std::ranges::stable_sort(wanted, {}, &std::pair<double, std::size_t>::first);
      std::ranges::transform(wanted, c.cells.begin(),
                             &std::pair<double, std::size_t>::second);
      number(c.cells);
    };
    // A few sweeps suffice; further ones change little.
    for (int sweep = 0; sweep < 6; ++sweep) {
      for (column& c : columns_) {
        sort(c, &cell::left);
      }
      for (auto c = columns_.rbegin(); c != columns_.rend(); ++c) {
        sort(*c, &cell::right);
      }
    }
  }

  // Sets the heights: cells move towards the middle of their neighbours, from left to
  // right, from right to left, and at the end towards both sides.
  void set_heights() {
    // The first heights only follow the order.
    for (const column& c : columns_) {
      spread(c, [](const cell&) { return 0.0; });
    }
    // `near` is the mean middle of the neighbours on the wanted sides.
    const auto near = [&](const cell& one, bool left, bool right) {
      double sum = 0;
      double count = 0;
      // The other side does not count.
      for (const auto& [used, cells] :
           {std::pair{left, &one.left}, {right, &one.right}}) {
        for (const std::size_t other : *cells) {
          sum += used ? cells_[other].middle() : 0;
          count += used ? 1 : 0;
        }
      }
      // A cell without neighbours stays where it is.
      return count == 0 ? one.middle() : sum / count;
    };
    for (int sweep = 0; sweep < 4; ++sweep) {
      for (const column& c : columns_) {
        spread(c, [&](const cell& one) { return near(one, true, false); });
      }
      for (auto c = columns_.rbegin(); c != columns_.rend(); ++c) {
        spread(*c, [&](const cell& one) { return near(one, false, true); });
      }
    }
    // At the end both sides pull at once.
    for (const column& c : columns_) {
      spread(c, [&](const cell& one) { return near(one, true, true); });
    }
    // The drawing is moved so that its highest cell is below the title.
    double top = HUGE_VAL;
    for (const cell& one : cells_) {
      top = std::min(top, one.y);
    }
    bottom_ = margin + title_height;
    for (cell& one : cells_) {
      one.y += margin + title_height - top;
      bottom_ = std::max(bottom_, one.y + one.height);
    }
    for (std::size_t s = 0; s < out_.stages.size(); ++s) {
      out_.stages[s].y = cells_[s].y;
    }
  }

  // A layer: the boxes of all its stages begin at the same place.
  struct column {
    std::vector<std::size_t> cells{};  ///< from top to bottom
    double x = 0;                      ///< left side of the boxes
    double width = 0;                  ///< of the widest box
    double before = 0;                 ///< width for the labels of inlets
    double behind = 0;                 ///< width for the labels of outlets
  };

  // Moves each cell as close to its wanted middle as the cells above it allow, then the
  // whole layer by the mean error that remains.
  // Cells never overlap and keep their order.
  template <class Wanted>
  void spread(const column& c, Wanted wanted) {
    double limit = -HUGE_VAL;
    double error = 0;
    for (const std::size_t index : c.cells) {
      cell& one = cells_[index];
      // The wanted middle, as an upper side.
      const double goal = wanted(one) - one.height / 2;
      one.y = std::max(goal, limit);
      // Positive if the cells above have pushed this one down.
      error += one.y - goal;
      limit = one.y + one.height + box_distance;
    }
    for (const std::size_t index : c.cells) {
      cells_[index].y -= error / static_cast<double>(c.cells.size());
    }
  }

  // Sets the left side of each layer. Labels of ports stand beside the boxes, so each
  // layer needs room for the longest of them.
  void set_columns() {
    for (std::size_t s = 0; s < out_.stages.size(); ++s) {
      const placed_stage& box = out_.stages[s];
      column& c = columns_[box.layer];
      c.width = std::max(c.width, box.width);
      for (const std::string& label : box.outlet_labels) {
        // Some pixels keep labels and curves apart.
        c.behind = std::max(c.behind, text_width(label) + 12);
      }
      for (const std::string& label : box.inlet_labels) {
        c.before = std::max(c.before, text_width(label) + 12 + arrow_width);
      }
    }
    double x = margin;
    for (column& c : columns_) {
      // Only the first layer needs room for feedback edges on its left.
      c.x = x + c.before + (x > margin ? 0 : first_bend());
      x = c.x + c.width + c.behind + bend_width;
    }
    // A drawing of a few stages has at least the width of its title.
    out_.width = std::max(x - bend_width + last_bend(), 240.0) + margin;
    // All boxes of a layer begin at its left side.
    for (placed_stage& box : out_.stages) {
      box.x = columns_[box.layer].x;
    }
  }

  /// Returns the width beside the first and the last layer that feedback edges need.
  [[nodiscard]] double first_bend() const {
    return std::ranges::any_of(picture_.edges, [](const edge& e) { return e.delay > 0; })
               ? bend_width / 2
               : 0;
  }
  [[nodiscard]] double last_bend() const { return first_bend(); }

  // Returns the point at which an edge begins: its outlet.
  [[nodiscard]] point begin_of(const edge& e) const {
    const placed_stage& box = out_.stages[e.from];
    return {box.x + box.width, box.port_y(box.outlets, e.outlet)};
  }
  // Returns the point at which an edge ends: its inlet.
  [[nodiscard]] point end_of(const edge& e) const {
    const placed_stage& box = out_.stages[e.to];
    return {box.x, box.port_y(box.inlets, e.inlet)};
  }

  /// Adds a curve that is level at both ends.
  static void add_curve(std::vector<point>& points, point from, point to) {
    constexpr int steps = 14;
    for (int i = 0; i <= steps; ++i) {
      const double t = static_cast<double>(i) / steps;
      // The polynomial rises from 0 to 1 and is level at both.
      const double rise = t * t * (3 - 2 * t);
      points.emplace_back(from.first + (to.first - from.first) * t,
                          from.second + (to.second - from.second) * rise);
    }
  }

  // Draws an edge from cell to cell: a curve in each gap between layers, a line through
  // each layer.
  void route_forward(std::size_t index) {
    const edge& e = picture_.edges[index];
    std::vector<point>& points = out_.edges[index];
    points.push_back(begin_of(e));
    const std::vector<std::size_t>& path = paths_[index];
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      const column& left = columns_[cells_[path[i]].layer];
      const column& right = columns_[cells_[path[i + 1]].layer];
      // The last curve ends at the height of the inlet itself.
      const double y =
          i + 2 == path.size() ? end_of(e).second : cells_[path[i + 1]].middle();
      add_curve(points, {left.x + left.width + left.behind, points.back().second},
                {right.x - right.before, y});
    }
    // A straight line along the label leads to the inlet.
    points.push_back(end_of(e));
  }

  // A feedback edge runs below all boxes.
  void route_back(std::size_t index) {
    const edge& e = picture_.edges[index];
    // Edges that lead back from one layer turn at different places.
    const double shift = 4 + std::fmod(5 * lanes_, bend_width / 2 - 6);
    // Each feedback edge takes the next lane.
    lanes_ += 1;
    const double y = bottom_ + 10 + lane_distance * lanes_ - lane_distance / 2;
    const column& tail = columns_[out_.stages[e.from].layer];
    const column& head = columns_[out_.stages[e.to].layer];
    const point begin = begin_of(e);
    const point end = end_of(e);
    const double right = tail.x + tail.width + tail.behind + shift;
    const double left = head.x - head.before - shift;
    // Out to the right, down, back to the left, up, and in.
    out_.edges[index] = {begin,     {right, begin.second}, {right, y},
                         {left, y}, {left, end.second},    end};
    // The label stands above the middle of the lane.
    out_.delay_labels[index] = {(left + right) / 2, y - 4};
  }

  const graph_picture& picture_;                 ///< what is drawn
  placed_picture out_;                           ///< the result
  std::vector<cell> cells_;                      ///< the boxes come first
  std::vector<std::vector<std::size_t>> paths_;  ///< for each edge its cells
  std::vector<column> columns_;                  ///< the layers
  double bottom_ = 0;                            ///< lower end of the boxes
  double lanes_ = 0;                             ///< number of feedback edges so far
};

}  // namespace

/// The row of a port is its place in the list.
double placed_stage::port_y(const std::vector<std::string>& ports,
                            const std::string& name) const {
  // A port that is not in the list would stand below all others.
  const auto row = std::ranges::find(ports, name) - ports.begin();
  return y + head_height + port_height * (static_cast<double>(row) + 0.5) - 4;
}

/// An estimate: the font of the reader is not known.
double text_width(const std::string& text) {
  // The mean width of a character.
  return 6.6 * static_cast<double>(text.size());
}

placed_picture place_picture(const graph_picture& picture) {
  return layouter(picture).place();
}

}  // namespace weir::tools
