// SPDX-License-Identifier: Apache-2.0
/// @file
/// Vector clocks over the words of a program's memory.
#include "serial/order.hpp"

#include <algorithm>

namespace weir::test::serial {

order::order(const program& p)
    : clocks_(p.streams.size() + 1, clock(p.streams.size() + 1)) {
  for (int b = 0; b < count_of(p.buffers); ++b) {
    const auto words = static_cast<std::size_t>(at(p.buffers, b).words);
    memory_.emplace_back(
        static_cast<std::size_t>(p.instances(b)),
        std::vector<word_state>(words, {none, 0, clock(clocks_.size())}));
  }
}

std::vector<order::word_state>& order::words(const touch& t) {
  return at(at(memory_, t.buffer), t.instance);
}

std::vector<unordered> order::races_of(const std::vector<touch>& touches) const {
  // greatest index found, by (waiting agent, agent waited for)
  std::map<std::pair<std::size_t, std::size_t>, int> found;
  const clock& thread = clocks_.back();
  for (const touch& t : touches) {
    const std::size_t waiting = agent(t.stream);
    const clock& known = clocks_[waiting];
    const auto require = [&](std::size_t behind, int index) {
      if (behind != waiting && index > std::max(known[behind], thread[behind])) {
        int& greatest = found[{waiting, behind}];
        greatest = std::max(greatest, index);
      }
    };
    const auto& all = at(at(memory_, t.buffer), t.instance);
    for (int w = t.first; w < t.first + t.words; ++w) {
      const word_state& state = at(all, w);
      if (state.written > 0) {
        require(agent(state.writer), state.written);
      }
      for (std::size_t a = 0; t.writes && a < state.read.size(); ++a) {
        require(a, state.read[a]);
      }
    }
  }
  std::vector<unordered> out;
  for (const auto& [agents, index] : found) {
    out.push_back({stream_of(agents.first), stream_of(agents.second), index});
  }
  return out;
}

void order::take(int stream, const std::vector<touch>& touches) {
  std::vector<std::size_t> seen;
  const auto step = [&](std::size_t by) {
    if (std::find(seen.begin(), seen.end(), by) == seen.end()) {
      seen.push_back(by);
      join(stream_of(by), clocks_.back());
      ++clocks_[by][by];
    }
  };
  step(agent(stream));
  for (const touch& t : touches) {
    const std::size_t by = agent(t.stream);
    step(by);
    for (int w = t.first; w < t.first + t.words; ++w) {
      word_state& state = at(words(t), w);
      if (t.writes) {
        state.writer = t.stream;
        state.written = clocks_[by][by];
        std::fill(state.read.begin(), state.read.end(), 0);
      } else {
        state.read[by] = clocks_[by][by];
      }
    }
  }
}

void order::join(int stream, const clock& other) {
  clock& mine = clocks_[agent(stream)];
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = std::max(mine[i], other[i]);
  }
}

void order::record(int event, int stream) {
  open(stream);
  events_[event] = clocks_[agent(stream)];
}

void order::wait(int stream, int event) {
  open(stream);
  if (const auto found = events_.find(event); found != events_.end()) {
    join(stream, found->second);
  }
}

void order::await(int event) {
  wait(none, event);
}

void order::synchronize(int stream) {
  join(none, clocks_[agent(stream)]);
}

bool order::covers(int event, const unordered& missing) const {
  const auto found = events_.find(event);
  return found != events_.end() && found->second[agent(missing.behind)] >= missing.index;
}

bool order::ends_in(int stream) const {
  const clock& mine = clocks_[agent(stream)];
  for (std::size_t a = 0; a < clocks_.size(); ++a) {
    if (clocks_[a][a] > mine[a]) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::test::serial
