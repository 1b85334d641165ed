// SPDX-License-Identifier: Apache-2.0
/// @file
/// Unification of the types of ports along edges.
///
/// Three passes make the result independent of the order of the edges. The first pass
/// joins ports of type `any` that have one type. The second pass settles element types
/// and numbers of dimensions, and which extents of `any` ports are unknown. The third
/// pass joins extents.
#include "graph/types.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "graph/extent_sets.hpp"
#include "graph/names.hpp"

namespace weir::flow {
namespace {

/// Index of an extent that is written `?`, so that nothing is known about it.
constexpr std::int32_t unknown_extent = -1;

/// Type of a port, or of several ports of type `any`.
// Ports of one root have one type.
struct shared_type {
  std::size_t parent = 0;        ///< index of an equal type; its own if it has none
  std::optional<dtype> element;  ///< absent as long as nothing is known
  std::vector<std::int32_t> extents{};  ///< indices in `extent_sets`, or `unknown_extent`
  bool adopts = false;                  ///< true if the port is declared as `any`
};

// Example: a source of f32[4,n] and a stage from `any` to `any` that forwards: both ports
// of the stage become f32[4,n], and so does the inlet behind it.
class unifier {
 public:
  explicit unifier(plan& p) : plan_(p), graph_(p.source) {}

  result<void> run() {
    for (std::uint32_t s = 0; s < graph_.stages.size(); ++s) {
      add_stage(s);
    }
    // Pass 1: ports of type `any` at both ends of an edge.
    for (const graph_edge& e : graph_.edges) {
      // The representatives are joined, so that a chain of `any` ports becomes one type.
      if (from(e).adopts && to(e).adopts) {
        types_[root(index(e.from, e.outlet))].parent = root(index(e.to, e.inlet));
      }
    }
    // Pass 2: elements and numbers of dimensions.
    for (const graph_edge& e : graph_.edges) {
      WEIR_CHECK(settle_dimensions(e));
    }
    // Pass 3: the extents themselves.
    for (const graph_edge& e : graph_.edges) {
      WEIR_CHECK(join_extents(e));
    }
    // The types in the plan are texts of what is known now.
    for (std::uint32_t s = 0; s < graph_.stages.size(); ++s) {
      auto texts = types_of(s);
      // Scratch stands behind the ports of a stage.
      const auto scratch =
          texts.begin() + static_cast<std::ptrdiff_t>(graph_.stages[s].info.ports.size());
      plan_.stages[s].scratch.assign(scratch, texts.end());
      texts.erase(scratch, texts.end());
      plan_.stages[s].types = std::move(texts);
    }
    return {};
  }

 private:
  // Scratch follows the ports of its stage, so that letters cover both.
  // Letters mean the same extent in all ports of one stage.
  void add_stage(std::uint32_t s) {
    const stage_info& info = graph_.stages[s].info;
    first_.push_back(types_.size());
    // Extents of letters are shared by all ports of the stage.
    std::map<char, std::int32_t> letters;
    std::optional<std::size_t> shared_any;
    std::vector<std::size_t> inlets;
    std::size_t dead_letters = 0;
    for (const port_info& port : info.ports) {
      const std::size_t added = add_type(port.type, letters);
      if (port.inlet) {
        inlets.push_back(added);
      }
      // An outlet for failed items has the type of its inlet.
      if (port.dead_letter) {
        types_[added].parent = inlets[dead_letters++];
      } else if (!port.type.element && info.forwards) {
        // Ports of type `any` of a stage that forwards have one type.
        shared_any = shared_any.value_or(added);
        types_[added].parent = *shared_any;
      }
    }
    for (const port_info& piece : info.scratch) {
      add_type(piece.type, letters);
    }
    letters_.push_back(std::move(letters));
  }

  /// Adds a type and returns its index. @param letters  Extents of the stage by letter.
  std::size_t add_type(const port_type& type, std::map<char, std::int32_t>& letters) {
    shared_type added{types_.size(), type.element, {}, !type.element};
    // A fixed extent is a set of its own with a number.
    for (const extent& e : type.shape) {
      switch (e.is) {
        case extent::kind::fixed:
          added.extents.push_back(sets_.add(e.number, '\0'));
          break;
        case extent::kind::unknown: added.extents.push_back(unknown_extent); break;
        case extent::kind::letter:
          if (!letters.contains(e.letter)) {
            letters.emplace(e.letter, sets_.add(std::nullopt, e.letter));
          }
          added.extents.push_back(letters[e.letter]);
      }
    }
    types_.push_back(std::move(added));
    return types_.size() - 1;
  }

  /// Index of the type of a port.
  [[nodiscard]] std::size_t index(std::uint32_t stage, std::uint32_t port) const {
    return first_[stage] + port;
  }

  /// Representative of the types that are one.
  [[nodiscard]] std::size_t root(std::size_t type) const {
    while (types_[type].parent != type) {
      type = types_[type].parent;
    }
    return type;
  }

  [[nodiscard]] shared_type& from(const graph_edge& e) {
    return types_[root(index(e.from, e.outlet))];
  }
  [[nodiscard]] shared_type& to(const graph_edge& e) {
    return types_[root(index(e.to, e.inlet))];
  }

  /// Settles what an edge says about elements and dimensions.
  result<void> settle_dimensions(const graph_edge& e) {
    shared_type& giver = from(e);
    shared_type& taker = to(e);
    // Ports of one root need no comparison.
    if (&giver == &taker) {
      return {};
    }
    // A type that is not known yet is taken over from the other end, in both directions.
    adopt(giver, taker);
    adopt(taker, giver);
    // The comparison comes after adopting, so it fails for contradictions only.
    if (giver.element != taker.element || giver.extents.size() != taker.extents.size()) {
      return clash(e);
    }
    // An extent that nobody knows cannot become known by adopting.
    for (std::size_t i = 0; taker.adopts && i < taker.extents.size(); ++i) {
      if (giver.extents[i] == unknown_extent) {
        taker.extents[i] = unknown_extent;
      }
    }
    return {};
  }

  // The extents of an adopted type are new ones: which of them equal those of the other
  // end is known only when the dimensions of all types are settled.
  void adopt(shared_type& type, const shared_type& other) {
    if (!type.adopts || type.element || !other.element) {
      return;
    }
    type.element = other.element;
    for (std::size_t i = 0; i < other.extents.size(); ++i) {
      type.extents.push_back(sets_.add(std::nullopt, '\0'));
    }
  }

  /// Joins the extents of both ends of an edge. A mistake leaves the sets as they were.
  result<void> join_extents(const graph_edge& e) {
    shared_type& giver = from(e);
    shared_type& taker = to(e);
    // The sets are small, so a copy is cheap.
    const extent_sets before = sets_;
    for (std::size_t i = 0; i < giver.extents.size(); ++i) {
      if (giver.extents[i] != unknown_extent && taker.extents[i] != unknown_extent &&
          !sets_.join(giver.extents[i], taker.extents[i])) {
        sets_ = before;  // the message shows the types before this edge
        return clash(e);
      }
    }
    return {};
  }

  /// Returns the types of the ports and of the scratch of a stage, as far as they are
  /// known now.
  [[nodiscard]] std::vector<port_type> types_of(std::uint32_t s) const {
    // Letters that the stage has declared are shown under their names.
    std::map<std::int32_t, char> shown;
    for (const auto& [letter, extent] : letters_[s]) {
      shown.try_emplace(sets_.root(extent), letter);
    }
    // The types of a stage end where those of the next begin.
    const std::size_t end = s + 1 < first_.size() ? first_[s + 1] : types_.size();
    std::vector<port_type> out;
    for (std::size_t i = first_[s]; i < end; ++i) {
      const shared_type& type = types_[root(i)];
      port_type& text = out.emplace_back();
      text.element = type.element;
      for (const std::int32_t e : type.extents) {
        text.shape.push_back(shown_extent(e, shown));
      }
    }
    return out;
  }

  // A letter that an `any` port has taken over keeps its name unless the stage shows it
  // for another extent.
  [[nodiscard]] extent shown_extent(std::int32_t e,
                                    std::map<std::int32_t, char>& shown) const {
    if (e == unknown_extent) {
      return {};
    }
    // A number is known: it replaces letter and question mark.
    if (const auto number = sets_.number(e)) {
      return {extent::kind::fixed, *number, '?'};
    }
    const auto known = shown.find(sets_.root(e));
    if (known != shown.end()) {
      return {extent::kind::letter, 0, known->second};
    }
    // Another letter is needed if the stage uses this one for a different extent.
    const auto is_free = [&](char c) {
      const auto has = [&](const auto& entry) { return entry.second == c; };
      return std::ranges::none_of(shown, has);
    };
    char letter = sets_.letter(e);
    if (letter == '\0') {
      return {};
    }
    for (char c = 'a'; !is_free(letter) && c <= 'z'; ++c) {
      letter = c;
    }
    if (!is_free(letter)) {
      return {};
    }
    shown.emplace(sets_.root(e), letter);
    return {extent::kind::letter, 0, letter};
  }

  /// Error of an edge whose ends do not fit.
  [[nodiscard]] error clash(const graph_edge& e) const {
    const port_type found = types_of(e.from)[e.outlet];
    const port_type expected = types_of(e.to)[e.inlet];
    return error(errc::invalid_argument,
                 fmt::format("cannot connect {} to {}: expected {}, found {}",
                             outlet_name(graph_, e), inlet_name(graph_, e),
                             expected.text(), found.text()))
        .hint(explanation(e, found, expected))
        .located(place_of(graph_, e));
  }

  // A reader sees other types in the sources than in the message if letters have been
  // replaced. The places of both stages follow if they are known.
  [[nodiscard]] std::string explanation(const graph_edge& e, const port_type& found,
                                        const port_type& expected) const {
    std::string out;
    const auto add = [&](const std::string& sentence) {
      out += (out.empty() ? "" : ", ") + sentence;
    };
    const auto declared = [&](std::uint32_t stage, std::uint32_t port,
                              const port_type& now) {
      // Only types that differ from their declaration are explained.
      const std::string text = graph_.stages[stage].info.ports[port].type.text();
      if (text != now.text()) {
        add(fmt::format("{} is declared as {}", full_name(graph_, stage, port), text));
      }
    };
    declared(e.from, e.outlet, found);
    declared(e.to, e.inlet, expected);
    // Two inlets of type `any` have one type, which the edge to the other one has fixed.
    for (const graph_edge& other : graph_.edges) {
      const std::size_t inlet = index(other.to, other.inlet);
      if (other.to == e.to && other.inlet != e.inlet &&
          root(inlet) == root(index(e.to, e.inlet))) {
        add(fmt::format(
            "{} and {} have one type, and {} gets {} from {}", inlet_name(graph_, e),
            inlet_name(graph_, other), inlet_name(graph_, other),
            types_of(other.from)[other.outlet].text(), outlet_name(graph_, other)));
        break;
      }
    }
    for (const std::uint32_t stage : {e.from, e.to}) {
      const std::string& place = graph_.stages[stage].place;
      if (!place.empty() && place != place_of(graph_, e)) {
        add(fmt::format("{} is defined at {}", stage_name(graph_, stage), place));
      }
    }
    return out;
  }

  plan& plan_;
  const graph& graph_;
  extent_sets sets_;
  std::vector<shared_type> types_;  ///< of the ports and the scratch of all stages
  std::vector<std::size_t> first_;  ///< for each stage the index of its first type
  std::vector<std::map<char, std::int32_t>> letters_;  ///< of each stage
};

}  // namespace

result<void> unify_types(plan& p) {
  return unifier(p).run();
}

}  // namespace weir::flow
