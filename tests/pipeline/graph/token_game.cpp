// SPDX-License-Identifier: Apache-2.0
/// @file
/// An abstract run of a graph: items are numbers, and only credits decide who may go on.
#include "token_game.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace weir::test {

using flow::face;
using flow::graph_edge;

token_game::token_game(const flow::graph& g, std::int64_t items, bool full,
                       std::uint64_t seed)
    : graph_(g),
      items_(items),
      full_(full),
      random_(seed),
      stages_(g.stages.size()),
      edges_(g.edges.size()) {
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    stages_[g.edges[e].from].out.push_back(e);
    stages_[g.edges[e].to].in.push_back(e);
    edges_[e].entered = g.edges[e].delay;
  }
}

bool token_game::play() {
  std::vector<std::size_t> turn(stages_.size());
  std::iota(turn.begin(), turn.end(), std::size_t{0});
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    std::ranges::shuffle(turn, random_);
    for (const std::size_t s : turn) {
      // Some stages run far ahead of others in this way.
      for (auto steps = 1 + random_() % 8; steps > 0 && step(s); --steps) {
        goes_on = true;
        note_alive();
      }
    }
  }
  return waiting().empty();
}

std::string token_game::waiting() const {
  std::string out;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (!stages_[s].ended) {
      out += (out.empty() ? "" : " ") + graph_.stages[s].name;
    }
  }
  return out;
}

bool token_game::is_late(std::size_t s) const {
  return info(s).face == face::late ||
         graph_.stages[s].on_failure == flow::failure_policy::skip;
}

/// Returns the number of items that all inlets have.
std::int64_t token_game::available(std::size_t s) const {
  std::int64_t out = std::numeric_limits<std::int64_t>::max();
  for (const std::uint32_t e : stages_[s].in) {
    out = std::min(out, edges_[e].entered - stages_[s].taken);
  }
  return out;
}

bool token_game::input_has_ended(std::size_t s) const {
  return std::ranges::all_of(stages_[s].in, [&](std::uint32_t e) {
    return graph_.edges[e].delay > 0 || stages_[graph_.edges[e].from].ended;
  });
}

bool token_game::has_credits(std::size_t s, std::int64_t items) const {
  return std::ranges::all_of(stages_[s].out, [&](std::uint32_t e) {
    const bool drops = stages_[graph_.edges[e].to].ended;
    return drops || edges_[e].entered + items - edges_[e].released <=
                        std::int64_t{graph_.edges[e].window_items};
  });
}

void token_game::emit(std::size_t s, std::int64_t items) {
  stages_[s].made += items;
  for (const std::uint32_t e : stages_[s].out) {
    edges_[e].entered += items;
    if (stages_[graph_.edges[e].to].ended) {
      edges_[e].released = edges_[e].entered;
    }
  }
}

/// Releases the first items of each inlet.
/// @param items  Number of items from the first one on.
void token_game::release(std::size_t s, std::int64_t items) {
  for (const std::uint32_t e : stages_[s].in) {
    edges_[e].released = std::max(edges_[e].released, items);
  }
}

void token_game::end(std::size_t s) {
  stages_[s].ended = true;
  for (const std::uint32_t e : stages_[s].in) {
    edges_[e].released = edges_[e].entered;
  }
}

std::int64_t token_game::amount(std::int64_t low, std::int64_t high) {
  return full_ ? high : std::uniform_int_distribution<std::int64_t>(low, high)(random_);
}

bool token_game::step(std::size_t s) {
  if (stages_[s].ended) {
    return false;
  }
  if (info(s).face == face::source) {
    return step_source(s);
  }
  const bool takes_first = random_() % 2 == 0;
  return (takes_first && take(s)) || finish(s) || take(s) || flush(s);
}

bool token_game::step_source(std::size_t s) {
  if (stages_[s].made == items_) {
    end(s);
    return true;
  }
  if (!has_credits(s, info(s).gives)) {
    return false;
  }
  emit(s, std::min(items_ - stages_[s].made, amount(1, info(s).gives)));
  return true;
}

/// Takes items, fewer than usual only at the end. A late stage makes its items later.
bool token_game::take(std::size_t s) {
  stage_state& state = stages_[s];
  std::int64_t count = info(s).takes;
  if (available(s) < count) {
    count = input_has_ended(s) ? available(s) : 0;
  }
  if (count < 1 || (!is_late(s) && !has_credits(s, info(s).gives))) {
    return false;
  }
  state.taken += count;
  return is_late(s) || finish(s);
}

/// Lets the tasks of the items that were taken first end, and makes items of them.
bool token_game::finish(std::size_t s) {
  stage_state& state = stages_[s];
  if (state.done == state.taken || !has_credits(s, info(s).gives)) {
    return false;
  }
  const std::int64_t before = state.done;
  state.done = std::min(state.taken, state.done + std::int64_t{info(s).takes});
  const std::int64_t held = info(s).holds;
  if (info(s).own_numbering) {
    emit(s, state.done > held ? amount(0, info(s).gives) : 0);
  } else {
    emit(s, std::max(std::int64_t{0}, state.done - held) -
                std::max(std::int64_t{0}, before - held));
  }
  release(s, state.done - held);
  return true;
}

/// Gives the items that a stage has kept back, and ends it.
bool token_game::flush(std::size_t s) {
  stage_state& state = stages_[s];
  const bool has_all = std::ranges::all_of(state.in, [&](std::uint32_t e) {
    return graph_.edges[e].delay > 0 || edges_[e].entered == state.taken;
  });
  if (!input_has_ended(s) || !has_all || state.done < state.taken) {
    return false;
  }
  if (info(s).own_numbering || state.made == state.done || state.out.empty()) {
    end(s);
    return true;
  }
  if (!has_credits(s, 1)) {
    return false;
  }
  emit(s, 1);
  release(s, state.made);
  return true;
}

/// Returns the number of the oldest item of a stage that is alive behind the stage.
std::int64_t token_game::oldest(std::size_t s) const {
  std::int64_t out = stages_[s].made;
  for (const std::uint32_t e : stages_[s].out) {
    const graph_edge& edge = graph_.edges[e];
    out = std::min(out, edges_[e].released - std::int64_t{edge.delay});
    if (info(edge.to).forwards) {
      out = std::min(out, oldest(edge.to) - std::int64_t{edge.delay});
    }
  }
  return std::max(out, std::int64_t{0});
}

void token_game::note_alive() {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stage_state& state = stages_[s];
    std::int64_t calls = state.ended ? 0 : 1;
    if (is_late(s) && info(s).face != face::source) {
      calls = (state.taken - state.done + info(s).takes - 1) / info(s).takes;
    }
    const std::int64_t making = calls * info(s).gives;
    state.max_alive = std::max(state.max_alive, state.made - oldest(s) + making);
  }
  for (edge_state& e : edges_) {
    e.max_alive = std::max(e.max_alive, e.entered - e.released);
  }
}

}  // namespace weir::test
