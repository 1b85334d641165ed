// SPDX-License-Identifier: Apache-2.0
/// @file
/// The supervisor actor: watches its children, reports a child that fails, and stops all
/// children in order.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// The logic of the supervisor, without actors: which children live, and which of them
/// stop next.
///
/// Children stop by groups, in the order of `stop_group`: an actor stops only after the
/// actors that send it work. `stop` returns the children of the first group that has
/// living ones. When `group_ended` is true, or when the deadline of the group has passed,
/// `next` returns those of the following group, until none is left.
/// @threads{thread-compatible}
class supervisor_state {
 public:
  /// Number of a child, in the order of adoption.
  using child = std::size_t;

  /// Adds a child, which is alive.
  child adopt(std::string name, stop_group group);
  /// Notes that a child has ended. Returns true if that is a failure: nobody had asked
  /// the child to stop.
  [[nodiscard]] bool down(child c);
  /// Notes that a child is asked to end by itself. Returns false if it has ended.
  [[nodiscard]] bool end(child c);
  /// Begins to stop, and returns the children of the first group that has living ones.
  [[nodiscard]] std::vector<child> stop();
  /// Returns whether all children of the present group have ended.
  [[nodiscard]] bool group_ended() const;
  /// Returns the children of the next group that has living ones; empty if there is none.
  /// Children of the present group that still live are given up.
  [[nodiscard]] std::vector<child> next();
  /// Returns whether `stop` was called.
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  /// Returns the number of the present group's turn, by which the deadline of an earlier
  /// turn is recognised.
  [[nodiscard]] std::uint32_t round() const noexcept { return round_; }
  /// Returns the names of the children that live.
  [[nodiscard]] survivors alive() const;
  /// Returns a line with name, group and state of each child.
  [[nodiscard]] std::string describe() const;
  /// Returns the name of a child.
  [[nodiscard]] const std::string& name_of(child c) const { return children_[c].name; }

 private:
  struct entry {
    std::string name;
    stop_group group = stop_group::last;
    bool alive = true;
    bool asked = false;  ///< the child was told to stop
  };
  std::vector<entry> children_;
  bool stopping_ = false;
  std::uint32_t round_ = 0;
  std::optional<stop_group> group_;  ///< whose turn it is; empty before the first turn
};

struct supervisor_config {
  std::chrono::milliseconds group_deadline{
      5000};                          ///< for the children of one group to end
  std::function<void(error)> failed;  ///< a child failed; called from the actor's thread
};
struct supervisor_shell {
  static constexpr const char* name = "weir.supervisor";
  supervisor_state core;
  std::vector<caf::actor> handles;          ///< by child
  pending_reply<local<survivors>> stopped;  ///< reply to the stop
  std::multimap<supervisor_state::child, pending_reply<bool>>
      closing;  ///< replies to those who ended one child
};
/// Returns the behavior of a supervisor; CAF calls this when it spawns the actor.
supervisor_actor::behavior_type supervisor(
    supervisor_actor::stateful_pointer<supervisor_shell> self, supervisor_config config);

}  // namespace weir::actors
