// SPDX-License-Identifier: Apache-2.0
/// @file
/// The actor that sends requests for threads which are not actors, and the promises by
/// which it hands the answers to them.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "shim/shim.hpp"
#include "weir/actors/system.hpp"

namespace weir::actors {

struct relay_job;

/// Sends requests for other threads. It never blocks.
using relay_actor = caf::typed_actor<
    // Calls the job, which sends a request and handles its answer.
    caf::reacts_to<work_atom, local<relay_job>>>;

/// Work for a relay.
struct relay_job {
  std::function<void(relay_actor::pointer)> run;
};

/// A promise that is kept in any case: if it is destroyed without an answer, as happens
/// to the handlers of an actor that ends, the answer is `stopping`.
/// @threads{thread-compatible}
/// A future whose promise is destroyed would throw in the waiting thread; this class
/// gives it an error instead.
template <class T>
class kept_promise {
 public:
  /// @param action  What was asked for, e.g. "pulling a message"; begins the error.
  explicit kept_promise(std::string action) : action_(std::move(action)) {}
  kept_promise(const kept_promise&) = delete;
  kept_promise& operator=(const kept_promise&) = delete;
  ~kept_promise() {
    give(error(errc::stopping, action_ + ": the actor system has ended"));
  }

  /// Answers; does nothing the second time.
  void give(result<T> answer) {
    if (!std::exchange(given_, true)) {
      promise_.set_value(std::move(answer));
    }
  }
  [[nodiscard]] reply<T> answer() { return promise_.get_future(); }
  [[nodiscard]] const std::string& action() const noexcept { return action_; }

 private:
  std::promise<result<T>> promise_;
  std::string action_;
  bool given_ = false;
};

/// Configuration of a relay, which has none.
struct relay_config {};
/// State that CAF keeps for a relay.
struct relay_shell {
  static constexpr const char* name = "weir.relay";
};
/// Returns the behavior of a relay; CAF calls this when it spawns the actor.
relay_actor::behavior_type relay(relay_actor::stateful_pointer<relay_shell> self,
                                 relay_config);

}  // namespace weir::actors
