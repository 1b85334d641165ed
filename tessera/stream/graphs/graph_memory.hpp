// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a graph takes and returns.
///
/// A graph owns such memory as long as it exists, because the addresses are in its
/// operations.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

/// Memory that was taken in a capture. Its address is the same in all runs of the graph,
/// so the graph keeps it. The program's calls know the address
/// * in the capture, from the call that takes the memory to the call that returns it;
/// * if the capture does not return it, from each launch of the graph until the program
/// returns it. The next launch is possible only then.
///
/// Runs of all graphs with this memory follow one another, because the tasks that enter
/// and leave such a graph hold its order token.
/// @threads{safe from any thread; the order token: the thread that holds the submission
/// lock}
class graph_memory : public std::enable_shared_from_this<graph_memory> {
 public:
  /// Takes memory for a capture on this mesh. @error{out_of_memory; a device has not
  /// enough}
  [[nodiscard]] static result<std::shared_ptr<graph_memory>> take(
      const std::shared_ptr<mesh>& mesh, std::size_t bytes);
  ~graph_memory();
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;

  /// Returns the address of instance 0.
  [[nodiscard]] void* data() const noexcept { return memory_->data(); }
  /// Returns the size of an instance. @units{bytes}
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_->bytes(); }
  /// Returns the access of the tasks that enter and leave a graph with this memory.
  [[nodiscard]] const runtime::access& token_access() const noexcept {
    return token_->chain_of(0).held;
  }

  /// Removes the address from the table, because the capture has returned the memory.
  void hide_address();
  /// Adds the address again, because the capture takes the memory again. Errors are those
  /// of symmetric_memory::restore.
  [[nodiscard]] result<void> show_address();

  /// Returns true if a run has left the memory to the program, which has not returned it.
  [[nodiscard]] bool lent() const;
  /// Leaves the memory to the program for a run and charges it to the stream's budget.
  /// @error{out_of_memory; the budget leaves less}
  /// @error{already_exists; other memory at the address is known}
  /// @error{invalid_argument; it was exported to another library}
  [[nodiscard]] result<void> lend(const std::shared_ptr<memory_budget>& pays);
  /// Undoes `lend` for a run that does not take place.
  void take_back();
  /// Notes that the program has returned the memory, which it uses until these points.
  void given_back(std::vector<ref<point>> ends);
  /// Returns the points until which the program uses the memory.
  [[nodiscard]] std::vector<ref<point>> ends() const;

 private:
  /// Who may use the address: a capture, only the graph, or the program.
  enum class state : std::uint8_t { shown, hidden, lent };

  graph_memory(std::shared_ptr<mesh> mesh, allocation_ptr memory)
      : mesh_(std::move(mesh)), memory_(std::move(memory)) {}

  std::shared_ptr<mesh> mesh_;
  allocation_ptr memory_;
  std::unique_ptr<device_chains> token_;
  mutable std::mutex mutex_;
  state state_ = state::shown;
  std::vector<ref<point>> ends_;
};

/// A node that takes or returns memory. It does nothing in a run except to keep its place
/// in the order of its stream.
class memory_node final : public joining_operation {
 public:
  enum class direction : std::uint8_t { takes, gives_back };

  /// Makes a node. `first` is true if no earlier node takes this memory.
  memory_node(direction which, std::shared_ptr<graph_memory> memory, bool first)
      : joining_operation(operation_kind::memory),
        direction_(which),
        memory_(std::move(memory)),
        first_(first) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return takes() ? "take memory" : "give memory back";
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return memory_->bytes(); }
  [[nodiscard]] memory_need needs() const noexcept override {
    return {0, takes() && first_ ? memory_->bytes() : 0};
  }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<memory_node>(direction_, memory_, first_);
  }
  /// Returns true if it takes memory, and false if it returns it.
  [[nodiscard]] bool takes() const noexcept { return direction_ == direction::takes; }
  /// Returns the memory.
  [[nodiscard]] const std::shared_ptr<graph_memory>& memory() const noexcept {
    return memory_;
  }

 protected:
  void run(device_chains&) override {}

 private:
  direction direction_;
  std::shared_ptr<graph_memory> memory_;
  bool first_;
};

}  // namespace weir::tessera
