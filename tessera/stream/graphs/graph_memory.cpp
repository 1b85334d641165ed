// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of graphs: when the program may use its address.
///
/// The memory is in one of three states. It is shown while a capture has it between the
/// nodes that take and return it, hidden while only the graph uses it, and lent while a
/// run has left it to the program. The table of addresses knows it in the first and last
/// state, so that calls with a stale address fail.
#include "stream/graphs/graph_memory.hpp"

#include <utility>

#include <fmt/core.h>

namespace weir::tessera {

// The memory comes from the devices and not from the pool, because the graph keeps it.
result<std::shared_ptr<graph_memory>> graph_memory::take(
    const std::shared_ptr<mesh>& mesh, std::size_t bytes) {
  WEIR_TRY(allocation_ptr memory,
           mesh->context->memory().allocate(mesh->devices, bytes, mesh->number));
  std::shared_ptr<graph_memory> out(new graph_memory(mesh, std::move(memory)));
  mesh->pool.note_recorded(out->data(), true);
  WEIR_TRY(out->token_, mesh->context->take_chains(1));
  return out;
}

// A capture that was never finished leaves its memory shown.
graph_memory::~graph_memory() {
  if (state_ == state::shown) {
    hide_address();
  }
  // The device chain was taken for its token only.
  if (token_ != nullptr) {
    mesh_->context->return_chains(std::move(token_));
  }
}

void graph_memory::hide_address() {
  const std::lock_guard lock(mutex_);
  // If the mesh is gone, the address is not in the table, and the error does not matter.
  static_cast<void>(
      mesh_->context->memory().remove(data(), memory_kind::device, mesh_->number));
  mesh_->pool.note_recorded(data(), false);
  state_ = state::hidden;
}

result<void> graph_memory::show_address() {
  const std::lock_guard lock(mutex_);
  WEIR_CHECK(mesh_->context->memory().restore(memory_));
  mesh_->pool.note_recorded(data(), true);
  state_ = state::shown;
  return {};
}

bool graph_memory::lent() const {
  const std::lock_guard lock(mutex_);
  return state_ == state::lent;
}

// Refuses memory that another library still has: a run would write what that library
// reads. Everything is undone if the address cannot be restored.
result<void> graph_memory::lend(const std::shared_ptr<memory_budget>& pays) {
  const std::lock_guard lock(mutex_);
  // Known to nobody when it ends.
  if (memory_->lent()) {
    return error(errc::invalid_argument,
                 fmt::format("graph not launched: expected the {} bytes at {} that it "
                             "takes to be its own, found that another library has them",
                             bytes(), data()))
        .hint("tessMemExportDlpack has exported them; nobody knows until when");
  }
  // The stream pays for the memory that the program gets.
  if (!pays->charge(bytes())) {
    return error(
        errc::out_of_memory,
        fmt::format("graph not launched: expected that the stream's limit leaves "
                    "{} bytes for the memory that the graph hands out, found {}",
                    bytes(), pays->free_bytes()));
  }
  // The address may be taken by other memory now; then the table refuses it.
  if (state_ != state::shown) {
    if (auto known = mesh_->context->memory().restore(memory_); !known) {
      pays->discharge(bytes());
      return known;
    }
  }
  mesh_->pool.note_recorded(data(), false);
  mesh_->pool.lend(memory_, pays, weak_from_this());
  state_ = state::lent;
  return {};
}

// Undoes `lend`. The budget is discharged by `forget`.
void graph_memory::take_back() {
  const std::lock_guard lock(mutex_);
  static_cast<void>(
      mesh_->context->memory().remove(data(), memory_kind::device, mesh_->number));
  static_cast<void>(mesh_->pool.forget(memory_));
  state_ = state::hidden;
}

/// Called when the program has freed the memory; `ends` are its last uses.
void graph_memory::given_back(std::vector<ref<point>> ends) {
  const std::lock_guard lock(mutex_);
  state_ = state::hidden;
  ends_ = std::move(ends);
}

std::vector<ref<point>> graph_memory::ends() const {
  const std::lock_guard lock(mutex_);
  return ends_;
}

}  // namespace weir::tessera
