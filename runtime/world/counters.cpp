// SPDX-License-Identifier: Apache-2.0
/// @file
/// The counters of ranks as text.
///
/// Both forms show the same counters: a table for people and JSON for programs. Times are
/// measured in nanoseconds; the table has milliseconds.
#include <fmt/format.h>

#include "weir/base/text.hpp"
#include "weir/runtime/world.hpp"

namespace weir::runtime {

/// For people: times in milliseconds, and the longest wait with its reason.
std::string counter_table(std::span<const world_counters> ranks) {
  std::string out = fmt::format("{:>4} {:>10} {:>13} {:>10} {:>8} {:>9} {:>10}  {}\n",
                                "rank", "own tasks", "foreign tasks", "sent", "waits",
                                "waited ms", "longest ms", "for");
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const world_counters& c = ranks[r];
    const std::string cause =
        c.waits == 0
            ? std::string("-")
            : fmt::format("rank {}, task \"{}\"", c.longest_for, c.longest_task.data());
    out += fmt::format("{:>4} {:>10} {:>13} {:>10} {:>8} {:>9.1f} {:>10.1f}  {}\n", r,
                       c.own_tasks, c.foreign_tasks,
                       human_bytes(static_cast<std::uint64_t>(c.bytes_sent)), c.waits,
                       static_cast<double>(c.waited_ns) * 1e-6,
                       static_cast<double>(c.longest_ns) * 1e-6, cause);
  }
  return out;
}

/// For programs: times in nanoseconds.
std::string counters_as_json(std::span<const world_counters> ranks) {
  std::string out = "[";
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const world_counters& c = ranks[r];
    out += fmt::format(
        "{}{{\"rank\": {}, \"own_tasks\": {}, \"foreign_tasks\": {}, \"pieces_sent\": "
        "{}, "
        "\"bytes_sent\": {}, \"waits\": {}, \"waited_ns\": {}, \"longest_ns\": {}, "
        "\"longest_for\": {}, \"longest_task\": {}}}",
        r == 0 ? "" : ",\n ", r, c.own_tasks, c.foreign_tasks, c.pieces_sent,
        c.bytes_sent, c.waits, c.waited_ns, c.longest_ns, c.longest_for,
        json_quote(c.longest_task.data()));
  }
  return out + "]\n";
}

}  // namespace weir::runtime
