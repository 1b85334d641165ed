// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a graph takes and gives back.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

/// Memory that was taken in a capture. Its address is the same in all runs of the graph,
/// so the graph keeps it. The address is known to the program's calls
/// * in the capture, from the call that takes it to the one that gives it back;
/// * where the capture does not give it back, from each launch of the graph until the
///   program gives it back. The next launch is possible only then.
///
/// Runs of all graphs that have it go one after another: the tasks that enter and leave
/// such a graph hold its order token.
/// @threads{safe from any thread; the order token: whoever has the session}
class graph_memory : public std::enable_shared_from_this<graph_memory> {
 public:
  /// Takes memory for a capture on this mesh. @error{out_of_memory}
  [[nodiscard]] static result<std::shared_ptr<graph_memory>> take(
      const std::shared_ptr<mesh>& on, std::size_t bytes);
  ~graph_memory();
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;

  [[nodiscard]] void* data() const noexcept { return memory_->data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_->bytes(); }
  /// What tasks hold that enter and leave a graph with this memory.
  [[nodiscard]] const runtime::access& held() const noexcept {
    return token_->of(0).held;
  }

  /// The capture has given it back.
  void hide();
  /// The capture takes it again. @error as of symmetric_memory::restore
  [[nodiscard]] result<void> show();

  /// A run has left it to the program, which has not given it back.
  [[nodiscard]] bool lent() const;
  /// A run is about to leave it to the program, at the cost of a stream's budget.
  /// @error{out_of_memory, the budget; already_exists, something else has become known at
  /// its address; invalid_argument, it was exported to another library}
  [[nodiscard]] result<void> lend(const std::shared_ptr<memory_budget>& pays);
  /// That run does not come about.
  void take_back();
  /// The program has given it back; nobody uses it behind these points.
  void given_back(std::vector<ref<point>> ends);
  /// The points behind which the program no longer uses it.
  [[nodiscard]] std::vector<ref<point>> ends() const;

 private:
  enum class state : std::uint8_t { shown, hidden, lent };

  graph_memory(std::shared_ptr<mesh> on, allocation_ptr memory)
      : mesh_(std::move(on)), memory_(std::move(memory)) {}

  std::shared_ptr<mesh> mesh_;
  allocation_ptr memory_;
  std::unique_ptr<lane_set> token_;
  mutable std::mutex mutex_;
  state state_ = state::shown;
  std::vector<ref<point>> ends_;
};

/// A node that takes memory, or gives it back. It does nothing but keep its place in the
/// order of its stream.
class memory_node final : public joining_operation {
 public:
  enum class direction : std::uint8_t { takes, gives_back };

  /// `first`: no other node takes the same memory before.
  memory_node(direction which, std::shared_ptr<graph_memory> what, bool first)
      : joining_operation(kind::memory),
        direction_(which),
        what_(std::move(what)),
        first_(first) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return takes() ? "take memory" : "give memory back";
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return what_->bytes(); }
  [[nodiscard]] memory_need needs() const noexcept override {
    return {0, takes() && first_ ? what_->bytes() : 0};
  }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<memory_node>(direction_, what_, first_);
  }
  [[nodiscard]] bool takes() const noexcept { return direction_ == direction::takes; }
  [[nodiscard]] const std::shared_ptr<graph_memory>& memory() const noexcept {
    return what_;
  }

 protected:
  void run(lane_set&) override {}

 private:
  direction direction_;
  std::shared_ptr<graph_memory> what_;
  bool first_;
};

}  // namespace weir::tessera
