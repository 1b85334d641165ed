// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes failing programs smaller by leaving out operations, alone and in groups that
/// only make sense together.
#include "serial/shrinker.hpp"

#include <algorithm>
#include <set>

#include "serial/rules.hpp"

namespace weir::test::serial {
namespace {

using ids = std::set<int>;

/// Returns the program without these operations.
program without_ids(const program& p, const ids& left_out) {
  program out = p;
  out.operations.clear();
  std::vector<int> place_of(p.operations.size(), none);
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    if (left_out.count(p.operations[i].id) == 0) {
      place_of[i] = count_of(out.operations);
      out.operations.push_back(p.operations[i]);
    }
  }
  out.calls.clear();
  for (const call& c : p.calls) {
    if (at(place_of, c.operation) != none) {
      out.calls.push_back({at(place_of, c.operation), c.rank});
    }
  }
  return out;
}

/// Returns the ids of the operations for which `belongs` holds.
template <class Belongs>
ids those(const program& p, Belongs&& belongs) {
  ids out;
  for (const operation& o : p.operations) {
    if (belongs(o)) {
      out.insert(o.id);
    }
  }
  return out;
}

/// Returns sets of operations that can be left out, large sets first.
std::vector<ids> candidates(const program& p) {
  std::vector<ids> out;
  for (int s = 0; s < count_of(p.streams); ++s) {
    out.push_back(those(p, [s](const operation& o) {
      return o.stream == s ||
             std::find(o.shares.begin(), o.shares.end(), s) != o.shares.end();
    }));
  }
  for (int g = 0; g < p.graphs; ++g) {
    out.push_back(
        those(p, [g](const operation& o) { return o.graph == g || o.recorded_in == g; }));
  }
  for (int b = 0; b < count_of(p.buffers); ++b) {
    out.push_back(those(
        p, [b](const operation& o) { return o.to.buffer == b || o.from.buffer == b; }));
  }
  for (int e = 0; e < p.events; ++e) {
    out.push_back(those(p, [e](const operation& o) { return o.event == e; }));
  }
  for (std::size_t size = p.operations.size() / 2; size >= 1; size /= 2) {
    for (std::size_t first = 0; first < p.operations.size(); first += size) {
      const std::size_t end = std::min(first + size, p.operations.size());
      ids run;
      for (std::size_t i = first; i < end; ++i) {
        run.insert(p.operations[i].id);
      }
      out.push_back(std::move(run));
    }
  }
  return out;
}

/// Returns the program without operations that have no purpose any more: recordings of
/// events for which nothing waits.
program tidied(const program& p) {
  return without_ids(p, those(p, [&](const operation& o) {
                       return o.what == verb::record &&
                              std::none_of(p.operations.begin(), p.operations.end(),
                                           [&](const operation& other) {
                                             return other.event == o.event &&
                                                    other.what != verb::record;
                                           });
                     }));
}

}  // namespace

program shrink(program p, const std::function<bool(const program&)>& fails,
               int attempts) {
  const auto try_it = [&](program smaller) {
    if (smaller.operations.size() >= p.operations.size() || !is_sound(smaller) ||
        attempts <= 0) {
      return false;
    }
    --attempts;
    if (!fails(smaller)) {
      return false;
    }
    p = std::move(smaller);
    return true;
  };
  for (bool smaller = true; smaller && attempts > 0;) {
    smaller = false;
    for (const ids& some : candidates(p)) {
      smaller = (!some.empty() && try_it(without_ids(p, some))) || smaller;
    }
    smaller = try_it(tidied(p)) || smaller;
  }
  program in_order = p;
  in_order.calls = calls_in_order(p);
  return fails(in_order) ? in_order : p;
}

}  // namespace weir::test::serial
