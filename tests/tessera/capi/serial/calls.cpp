// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order of a program's calls: one after another, or interleaved as ranks would make
/// them that do not wait for each other.
#include <algorithm>
#include <array>

#include "serial/program.hpp"

namespace weir::test::serial {
namespace {

/// Returns a number for the caller: a rank of a mesh, or a stream of all ranks. Returns
/// `none` for calls of the program's thread, which no other call may pass.
int caller_of(const program& p, const call& c) {
  const operation& o = at(p.operations, c.operation);
  const bool passes = o.what == verb::launch || o.what == verb::copy ||
                      o.what == verb::fill || o.what == verb::host_function ||
                      o.what == verb::record || o.what == verb::wait ||
                      o.what == verb::collective;
  if (!passes || o.recorded_in != none) {
    return none;
  }
  const int stream = c.rank == none ? o.stream : at(o.shares, c.rank);
  const stream_spec& s = at(p.streams, stream);
  constexpr int ranks = 64;
  return s.rank == none ? stream : count_of(p.streams) + s.mesh * ranks + s.rank;
}

/// Returns whether `later` may be called before `earlier`: both have different callers,
/// neither is the program's thread, and they do not name the same event.
bool may_pass(const program& p, const call& later, const call& earlier) {
  const int a = caller_of(p, later);
  const int b = caller_of(p, earlier);
  const int event = at(p.operations, later.operation).event;
  return a != none && b != none && a != b &&
         (event == none || event != at(p.operations, earlier.operation).event);
}

}  // namespace

std::vector<call> calls_in_order(const program& p) {
  std::vector<call> out;
  for (int i = 0; i < count_of(p.operations); ++i) {
    const operation& o = at(p.operations, i);
    if (o.shares.empty()) {
      out.push_back({i, none});
    }
    for (int r = 0; r < count_of(o.shares); ++r) {
      if (at(o.shares, r) != none) {
        out.push_back({i, r});
      }
    }
  }
  return out;
}

std::vector<call> merged_calls(const program& p, dice& d) {
  std::vector<call> left = calls_in_order(p);
  std::vector<call> out;
  int last = none;
  // average number of calls that one caller makes in a row
  constexpr std::array<std::int64_t, 3> in_a_row = {2, 5, 30};
  const std::int64_t turns = in_a_row[static_cast<std::size_t>(d.in(0, 2))];
  while (!left.empty()) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool first =
          std::all_of(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const call& earlier) { return may_pass(p, left[i], earlier); });
      if (first) {
        ready.push_back(i);
      }
    }
    const auto same = std::find_if(ready.begin(), ready.end(), [&](std::size_t i) {
      return last != none && caller_of(p, left[i]) == last;
    });
    const std::size_t next = same != ready.end() && !d.one_in(turns)
                                 ? *same
                                 : ready[static_cast<std::size_t>(d.in(
                                       0, static_cast<std::int64_t>(ready.size()) - 1))];
    last = caller_of(p, left[next]);
    out.push_back(left[next]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return out;
}

}  // namespace weir::test::serial
