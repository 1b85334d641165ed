// SPDX-License-Identifier: Apache-2.0
/// @file
/// The supervisor actor: knows all children, notices who fails, stops them in order.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// The supervisor without actors: children by number, and the order in which they stop.
/// @threads{thread-compatible}
class supervisor_state {
 public:
  using child = std::size_t;

  child adopt(std::string name, stop_group group);
  /// A child has ended. @return true if nobody asked it to
  [[nodiscard]] bool down(child c);
  /// Begins to stop: children of the first group that has living ones.
  [[nodiscard]] std::vector<child> stop();
  /// Whether the present group is over, so that `next` may be called.
  [[nodiscard]] bool group_ended() const;
  /// The children to stop next: those of the next group that has living ones. Whoever
  /// still lives in the present one counts as survivor. Empty: all ranks are done.
  [[nodiscard]] std::vector<child> next();
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  /// Number of the present group; settle messages of earlier ones are late.
  [[nodiscard]] std::uint32_t round() const noexcept { return round_; }
  [[nodiscard]] survivors alive() const;
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] const std::string& name_of(child c) const { return children_[c].name; }

 private:
  struct entry {
    std::string name;
    stop_group group = stop_group::last;
    bool alive = true;
    bool asked = false;
  };
  std::vector<entry> children_;
  bool stopping_ = false;
  std::uint32_t round_ = 0;
  std::optional<stop_group> group_;
};

struct supervisor_config {
  std::chrono::milliseconds group_deadline{
      5000};                          ///< for the children of one group to end
  std::function<void(error)> failed;  ///< a child failed; called from the actor's thread
};
struct supervisor_shell {
  static constexpr const char* name = "weir.supervisor";
  supervisor_state core;
  std::vector<caf::actor> handles;  ///< by child
  pending_reply<local<survivors>> stopped;
};
supervisor_actor::behavior_type supervisor(
    supervisor_actor::stateful_pointer<supervisor_shell> self, supervisor_config config);

}  // namespace weir::actors
