// SPDX-License-Identifier: Apache-2.0
/// @file
/// When the address of a graph's memory is known, and to whom.
#include "stream/graphs/graph_memory.hpp"

#include <utility>

#include <fmt/format.h>

namespace weir::tessera {

result<std::shared_ptr<graph_memory>> graph_memory::take(
    const std::shared_ptr<mesh>& mesh, std::size_t bytes) {
  WEIR_TRY(allocation_ptr memory,
           mesh->context->memory().allocate(mesh->devices, bytes, mesh->number));
  std::shared_ptr<graph_memory> out(new graph_memory(mesh, std::move(memory)));
  mesh->pool.note_recorded(out->data(), true);
  WEIR_TRY(out->token_, mesh->context->take_lanes(1));
  return out;
}

graph_memory::~graph_memory() {
  if (state_ == state::shown) {
    hide();
  }
  if (token_ != nullptr) {
    mesh_->context->return_lanes(std::move(token_));
  }
}

void graph_memory::hide() {
  const std::lock_guard lock(mutex_);
  // Nothing is known at its address any more if the mesh has gone.
  static_cast<void>(
      mesh_->context->memory().remove(data(), memory_kind::device, mesh_->number));
  mesh_->pool.note_recorded(data(), false);
  state_ = state::hidden;
}

result<void> graph_memory::show() {
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

result<void> graph_memory::lend(const std::shared_ptr<memory_budget>& pays) {
  const std::lock_guard lock(mutex_);
  if (memory_->lent()) {
    return error(errc::invalid_argument,
                 fmt::format("graph not launched: expected the {} bytes at {} that it "
                             "takes to be its own, found that another library has them",
                             bytes(), data()))
        .hint("tessMemExportDlpack has exported them; nobody knows until when");
  }
  if (!pays->charge(bytes())) {
    return error(errc::out_of_memory,
                 fmt::format("graph not launched: expected room in the stream's limit "
                             "for {} bytes that it leaves to the program, found {}",
                             bytes(), pays->free_bytes()));
  }
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

void graph_memory::take_back() {
  const std::lock_guard lock(mutex_);
  static_cast<void>(
      mesh_->context->memory().remove(data(), memory_kind::device, mesh_->number));
  static_cast<void>(mesh_->pool.forget(memory_));
  state_ = state::hidden;
}

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
