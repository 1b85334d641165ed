// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds places for faults in programs.
#include "serial/run/faults.hpp"

#include <algorithm>
#include <string_view>

namespace weir::test::serial {
namespace {

/// Returns whether exchanging the two calls on one rank causes no error.
bool same_call(const collective_spec& a, const collective_spec& b) {
  return a.way == b.way && a.way != collective_way::send &&
         a.way != collective_way::barrier && a.op == b.op && a.bytes == b.bytes &&
         a.count == b.count && std::string_view(a.axis) == b.axis && a.root == b.root &&
         a.packed == b.packed;
}

/// Returns whether the operation makes a stream begin or join a capture.
bool begins_to_record(const program& p, std::size_t index) {
  const operation& o = p.operations[index];
  if (o.what == verb::begin_capture) {
    return true;
  }
  return o.what == verb::wait && !o.runs &&
         std::none_of(p.operations.begin(),
                      p.operations.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const operation& before) {
                        return before.stream == o.stream &&
                               (before.recorded_in == o.recorded_in ||
                                (before.what == verb::begin_capture &&
                                 before.graph == o.recorded_in));
                      });
}

/// Returns the ids of the waits that come directly before the operation on its stream.
std::vector<int> waits_before(const program& p, std::size_t index) {
  std::vector<int> out;
  const int stream = p.operations[index].stream;
  for (std::size_t i = index; i > 0; --i) {
    const operation& o = p.operations[i - 1];
    if (o.stream != stream &&
        std::find(o.shares.begin(), o.shares.end(), stream) == o.shares.end()) {
      continue;
    }
    if (o.what != verb::wait) {
      break;
    }
    out.push_back(o.id);
  }
  return out;
}

}  // namespace

std::optional<fault> plant(fault_kind kind, const program& p, dice& d) {
  std::vector<fault> all;
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    const operation& o = p.operations[i];
    if (kind == fault_kind::dropped_wait && o.what == verb::wait && o.runs) {
      all.push_back({kind, 0, 0, none, {o.id}});
    } else if (kind == fault_kind::waits_lost_at_capture && begins_to_record(p, i)) {
      auto lost = waits_before(p, i);
      if (!lost.empty()) {
        all.push_back({kind, 0, 0, none, std::move(lost)});
      }
    } else if (kind == fault_kind::event_of_one_chain && o.what == verb::record &&
               o.runs) {
      all.push_back({kind, 0, 0, none, {}});
    } else if (kind == fault_kind::pairing_by_admission && !o.shares.empty()) {
      for (std::size_t k = i + 1; k < p.operations.size(); ++k) {
        const operation& later = p.operations[k];
        const bool alike = later.shares.size() == o.shares.size() &&
                           same_call(later.collective, o.collective);
        for (int r = 0; alike && r < count_of(o.shares); ++r) {
          if (at(o.shares, r) != at(later.shares, r)) {
            all.push_back({kind, o.id, later.id, r, {}});
          }
        }
      }
    }
  }
  return all.empty()
             ? std::nullopt
             : std::optional(all[static_cast<std::size_t>(d.in(0, count_of(all) - 1))]);
}

}  // namespace weir::test::serial
