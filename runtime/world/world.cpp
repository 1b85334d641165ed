// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public interface of worlds. A world of one rank forwards to the engine.
#include "weir/runtime/world.hpp"

#include <utility>

#include "world/ranked.hpp"

namespace weir::runtime {

world::world(engine& tasks) : tasks_(&tasks) {}

world::world(engine& tasks, transport& link)
    : tasks_(&tasks), rank_(link.rank()), ranks_(link.ranks()) {
  if (ranks_ > 1) {
    ranked_ = std::make_unique<ranked>(tasks, link);
  }
}
world::~world() = default;

result<storage> world::allocate(std::int64_t bytes, std::string_view owner) {
  return ranked_ ? ranked_->allocate(bytes, owner) : tasks_->allocate(bytes, owner);
}
result<void> world::release(storage_id id) {
  return ranked_ ? ranked_->release(id) : tasks_->release(id);
}
result<void> world::bring_everywhere(const tensor& t) {
  return ranked_ ? ranked_->bring_everywhere(t) : result<void>();
}
result<void> world::wait() {
  return ranked_ ? ranked_->wait() : tasks_->wait_all();
}
result<void> world::submit_with(const world_submission& with, const char* name,
                                std::span<const access> accesses, start run) {
  return ranked_->submit(with, name, accesses, std::move(run));
}
std::uint64_t world::next_step() const noexcept {
  return ranked_->next_step();
}
void world::note_failure(std::uint64_t step, const char* name, const error& cause) {
  ranked_->note_failure(step, name, cause);
}
const world_counters& world::counters() const noexcept {
  static constexpr world_counters none;
  return ranked_ ? ranked_->counters() : none;
}

}  // namespace weir::runtime
