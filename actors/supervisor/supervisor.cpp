// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order of shutdown, and the handlers of the supervisor's messages.
///
/// The supervisor monitors its children and ends them in groups, in the order of
/// `stop_group`: sources, the conductor, sinks, the engine, and then the rest. A group
/// has a deadline. When it has ended or its deadline has passed, the next group is told
/// to end, so a child that hangs delays the stop and cannot prevent it.
///
/// `supervisor_state` decides this without actors; the handlers below connect it to CAF.
/// Children are numbered by the order of their adoption, and `handles` has the same
/// order.
#include "supervisor/supervisor.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

/// Returns the number of the child. Numbers are not used again.
supervisor_state::child supervisor_state::adopt(std::string name, stop_group group) {
  children_.push_back({std::move(name), group});
  return children_.size() - 1;
}

/// Notes the end of a child. Returns whether it was a surprise: nobody had asked the
/// child, and no stop is under way.
bool supervisor_state::down(child c) {
  entry& e = children_[c];
  const bool surprise = e.alive && !e.asked && !stopping_;
  e.alive = false;
  return surprise;
}

/// Notes that a child was asked to end. Returns whether it lives.
bool supervisor_state::end(child c) {
  entry& e = children_[c];
  e.asked = true;
  return e.alive;
}

/// Begins the stop and returns the children of the first group.
std::vector<supervisor_state::child> supervisor_state::stop() {
  stopping_ = true;
  group_.reset();
  return next();
}

bool supervisor_state::group_ended() const {
  return std::none_of(children_.begin(), children_.end(), [&](const entry& e) {
    return group_ && e.group == *group_ && e.alive;
  });
}

/// Chooses the next group to stop: the lowest one, above the group before, that has
/// living actors. Marks them as asked to end, and returns them. Returns nothing when
/// there is no such group.
std::vector<supervisor_state::child> supervisor_state::next() {
  // Timers of earlier groups carry an older number; see the handler of the deadline.
  ++round_;
  std::optional<stop_group> next_group;
  for (const entry& e : children_) {
    const bool later = !group_ || e.group > *group_;
    if (e.alive && later && (!next_group || e.group < *next_group)) {
      next_group = e.group;
    }
  }
  std::vector<child> out;
  // Without another group, `group_` stands at the last one, so that nothing is later.
  group_ = next_group ? next_group : std::optional(stop_group::last);
  for (child c = 0; next_group && c < children_.size(); ++c) {
    if (children_[c].alive && children_[c].group == *next_group) {
      children_[c].asked = true;
      out.push_back(c);
    }
  }
  return out;
}

survivors supervisor_state::alive() const {
  survivors names;
  for (const entry& e : children_) {
    if (e.alive) {
      names.push_back(e.name);
    }
  }
  return names;
}

/// One line per child, for people.
std::string supervisor_state::describe() const {
  std::string text;
  for (const entry& e : children_) {
    text += fmt::format("{} (group {}): {}\n", e.name, static_cast<int>(e.group),
                        !e.alive  ? "ended"
                        : e.asked ? "stopping"
                                  : "running");
  }
  return text;
}

namespace {

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_shell>;

/// Tells the children of one group to stop and starts the group's deadline. Without
/// children, all groups have had their turn: answers the stop with those that still live.
void stop_children(supervisor_pointer self, const supervisor_config& config,
                   std::vector<supervisor_state::child> children) {
  auto& s = self->state;
  // All groups have ended or have passed their deadlines.
  if (children.empty()) {
    s.stopped.deliver(by_reference(s.core.alive()));
    s.handles.clear();
    return;
  }
  for (const auto c : children) {
    self->send_exit(s.handles[c], caf::exit_reason::user_shutdown);
  }
  self->delayed_send(self, config.group_deadline, deadline_atom_v, s.core.round());
}

/// Returns the number of the child with an address, if it lives.
/// A linear search: a system has few children, and they end rarely.
std::optional<supervisor_state::child> child_at(const supervisor_shell& s,
                                                const caf::actor_addr& address) {
  const auto found =
      std::find_if(s.handles.begin(), s.handles.end(),
                   [&](const caf::actor& a) { return a.address() == address; });
  return found == s.handles.end()
             ? std::nullopt
             : std::optional(static_cast<std::size_t>(found - s.handles.begin()));
}

/// Ends one child, and answers when it has ended.
caf::typed_response_promise<bool> close_child(supervisor_pointer self,
                                              const caf::actor& child) {
  auto& s = self->state;
  const auto promise = self->make_response_promise<bool>();
  // The promise is answered when the child is down, or at once if it does not live.
  pending_reply<bool> ended(promise, "the end of a child");
  const auto c = child_at(s, child.address());
  if (!c || !s.core.end(*c)) {
    ended.deliver(false);
  } else {
    s.closing.emplace(*c, std::move(ended));
    self->send_exit(child, caf::exit_reason::user_shutdown);
  }
  return promise;
}

/// Handles the end of a child: reports a failure, and goes on with the next group if this
/// child was the last of its group.
/// CAF sends this message once for each monitored actor, whatever the reason of its end.
void on_down(supervisor_pointer self, const supervisor_config& config,
             const caf::down_msg& down) {
  auto& s = self->state;
  const auto found = child_at(s, down.source);
  if (!found) {
    return;
  }
  const supervisor_state::child c = *found;
  s.handles[c] = nullptr;  // its memory is not needed any more
  // Several requests may wait for the end of the same child.
  for (auto [one, last] = s.closing.equal_range(c); one != last;) {
    one->second.deliver(true);
    one = s.closing.erase(one);
  }
  if (s.core.down(c) && config.failed) {
    // The error names the actor, because its own text often does not.
    const std::string& name = s.core.name_of(c);
    const error cause = from_caf(down.reason, name);
    config.failed(
        error(cause.code(), fmt::format("actor {} ended early", name)).because(cause));
  }
  if (s.core.stopping() && s.core.group_ended()) {
    stop_children(self, config, s.core.next());
  }
}

}  // namespace

supervisor_actor::behavior_type supervisor(supervisor_pointer self,
                                           supervisor_config config) {
  install_defaults(self);
  self->set_down_handler(
      [self, config](const caf::down_msg& d) { on_down(self, config, d); });
  return {
      // The child is monitored from here on; one that has ended already is reported down
      // at once.
      reacts(self, "supervisor, adopt",
             [self](adopt_atom, const local<child_spec>& child) {
               self->state.core.adopt(child->name, child->group);
               self->state.handles.push_back(child->handle);
               self->monitor(child->handle);
             }),
      answers("supervisor, stop",
              [self, config](stop_atom) {
                auto promise = self->make_response_promise<local<survivors>>();
                self->state.stopped = {promise, "a stop"};
                stop_children(self, config, self->state.core.stop());
                return promise;
              }),
      answers("supervisor, close",
              [self](close_atom, const caf::actor& child) {
                return close_child(self, child);
              }),
      reacts(self, "supervisor, deadline",
             [self, config](deadline_atom, std::uint32_t round) {
               auto& core = self->state.core;
               // The timer of a group that ended in time still fires: its number is old.
               if (core.stopping() && round == core.round() && !core.group_ended()) {
                 stop_children(self, config, core.next());
               }
             }),
      answers("supervisor, status",
              [self](status_atom) -> result<std::string> {
                return self->state.core.describe();
              }),
  };
}

}  // namespace weir::actors
