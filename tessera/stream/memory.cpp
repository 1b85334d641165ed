// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that meshes and streams allocate and free in the order of streams.
///
/// Freeing never waits. The address disappears from the table at once, so that later
/// calls with it fail, and the memory itself is held by a point behind the operations
/// that may use it (`last_use`). Memory of a stream returns to the pool of its mesh, from
/// which the same stream may take it again immediately and other streams once the point
/// is reached. In a capture, an allocation and its release are nodes of the graph, and
/// the graph owns the memory between its runs.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "stream/graphs/graph_memory.hpp"
#include "weir/base/clock.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/graph.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {
namespace {

/// Holds memory until the last point that refers to this object has been reached.
class last_use : public counted {
 public:
  /// Makes a holder. If `releases` is not null, the holder is counted there until its
  /// end, so that an allocation which finds no memory knows that waiting may help.
  last_use(allocation_ptr memory, std::shared_ptr<late_releases> releases)
      : memory_(std::move(memory)), releases_(std::move(releases)) {
    if (releases_ != nullptr) {
      releases_->add();
    }
  }
  // The memory goes first: a thread that waits for releases then finds it free.
  ~last_use() override {
    memory_ = nullptr;
    if (releases_ != nullptr) {
      releases_->remove();
    }
  }

 private:
  allocation_ptr memory_;
  std::shared_ptr<late_releases> releases_;
};

/// Longest time that an allocation waits for memory that was freed while operations still
/// use it. An operation may never end before the allocation does: it may be a persistent
/// kernel, or wait for a rank whose call the same thread makes next. @units{nanoseconds}
constexpr std::int64_t release_limit_ns = 30'000'000'000;
/// Longest time between two attempts to allocate. @units{nanoseconds}
constexpr std::int64_t attempt_ns = 64'000'000;

/// Returns how long an allocation waits for memory. The limit is below that of ranks that
/// wait for other ranks, so that an allocation does not end their collectives.
std::int64_t release_limit(const runtime_settings& settings) {
  std::int64_t limit = release_limit_ns;
  for (const std::int64_t ms : {settings.wait_limit_ms, settings.rendezvous_limit_ms}) {
    // 0 means no limit.
    if (ms != 0 && ms < limit / 500'000) {
      limit = ms * 500'000;
    }
  }
  return limit;
}

/// Enqueues a point behind all operations of a stream. The point keeps `user` alive until
/// it is reached.
ref<point> end_of(stream& s, const ref<last_use>& user) {
  auto end = make_ref<point>(s.chain_count(), s.context().notifier());
  end->order_only = true;  // failures do not pass to the next user of the memory
  end->when_reached([user] {});
  s.enqueue_beside(end);
  return end;
}

/// The capture that a stream records into, as seen by a call about memory.
struct seen_capture {
  std::shared_ptr<graph_recording> recording;
  bool only = false;  ///< the stream does not run what it records
};

/// Returns the capture of a stream.
/// @error{invalid_argument; the capture has ended meanwhile, or belongs to another
/// thread}
result<seen_capture> capture_of(stream& by) {
  const auto in = by.context().submission_lock().enter();
  WEIR_CHECK(by.check_caller());
  if (by.recording() == nullptr) {
    return error(errc::invalid_argument,
                 "memory not taken or given back: expected the capture of the stream to "
                 "go on, found that it has ended meanwhile");
  }
  return seen_capture{by.recording(), by.recording_only()};
}

/// Adds a node to the capture. It is checked again that the capture goes on, because the
/// submission lock was released since `capture_of`.
/// @error{invalid_argument; the capture has ended meanwhile}
result<void> record_memory(stream& by, const seen_capture& seen, ref<operation> node) {
  auto in = by.context().submission_lock().enter();
  in.reserve(node->tasks(by.chain_count()));
  if (by.recording() != seen.recording) {
    return error(errc::invalid_argument,
                 "memory not taken or given back: expected the capture of the stream to "
                 "go on, found that it has ended meanwhile");
  }
  by.enqueue(in, std::move(node));
  return {};
}

/// Calls `take`. If the devices are out of memory, empties the pools and calls `take`
/// again, as long as memory that was freed while streams still use it may come back. An
/// allocation therefore rarely fails only because the streams have not come far enough.
template <class Take>
auto insist(context& owner, Take&& take) -> decltype(take()) {
  auto made = take();
  if (made || made.error().code() != errc::out_of_memory) {
    return made;
  }
  const std::int64_t until = now_ns() + release_limit(owner.settings());
  // Each time is twice the one before: short waits find memory early, long ones cost
  // little.
  for (std::int64_t time = 1'000'000;; time = std::min(2 * time, attempt_ns)) {
    const std::int64_t left = until - now_ns();
    const bool last = left <= 0 || owner.frees().wait_for_none(std::min(time, left));
    owner.trim_pools();
    made = take();
    if (last || made || made.error().code() != errc::out_of_memory) {
      return made;
    }
  }
}

}  // namespace

void context::trim_pools() {
  for (const auto& m : open_meshes()) {
    m->pool.trim(0);
  }
}

// Memory of a mesh is not charged to any stream and does not come from the pool.
result<void*> context::allocate(const std::shared_ptr<mesh>& m, std::size_t bytes) {
  return insist(*this, [&]() -> result<void*> {
    WEIR_TRY(const auto made, memory_->allocate(m->devices, bytes, m->number));
    return made == nullptr ? nullptr : static_cast<void*>(made->data());
  });
}

// The bytes are charged to the stream before memory is taken, and the charge is undone if
// no memory is found.
result<void*> context::allocate(stream& by, std::size_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  if (by.records()) {
    return allocate_in_capture(by, bytes);
  }
  const auto& budget = by.budget();
  if (!budget->charge(bytes)) {
    return error(errc::out_of_memory,
                 fmt::format("memory not allocated: expected at most {} bytes beside the "
                             "{} that stream {} has, found {}",
                             budget->free_bytes(), budget->used(), by.number(), bytes))
        .hint("the stream's limit is " + std::to_string(budget->limit()) + " bytes");
  }
  auto made =
      insist(*this, [&] { return by.mesh()->pool.take(by.number(), bytes, budget); });
  if (!made) {
    budget->discharge(bytes);
  }
  return made;
}

// Allocates in a capture. Memory that the same capture has given back before is used
// again if it fits (`reusable`). If the stream also runs what it records, the memory is
// lent to the program for this first run.
result<void*> context::allocate_in_capture(stream& by, std::size_t bytes) {
  WEIR_TRY(const seen_capture seen, capture_of(by));
  std::shared_ptr<graph_memory> memory = [&] {
    const auto in = submission_lock_->enter();
    return seen.recording->reusable(by, bytes);
  }();
  const bool first = memory == nullptr;
  if (first) {
    WEIR_TRY(memory, insist(*this, [&] { return graph_memory::take(by.mesh(), bytes); }));
  } else {
    WEIR_CHECK(memory->show_address());
  }
  void* const address = memory->data();
  if (!seen.only) {  // the stream also runs what it records
    WEIR_CHECK(memory->lend(by.budget()));
  }
  auto recorded = record_memory(
      by, seen,
      make_ref<memory_node>(memory_node::direction::takes, std::move(memory), first));
  if (!recorded) {
    if (!seen.only) {
      static_cast<void>(free_behind(by, address));
    }
    return std::move(recorded).error();
  }
  return address;
}

// Refuses memory that only a capture has: freeing it would break the graph.
result<void> context::check_free(const mesh& m, const void* address) const {
  if (!m.pool.recorded(address)) {
    return {};
  }
  return error(
             errc::invalid_argument,
             fmt::format("memory not freed: expected memory that the program has, found "
                         "that a capture took it at {}",
                         address))
      .hint("give it back by tessFreeAsync on a stream of the capture");
}

// Frees memory of a mesh behind all streams of the mesh, since any of them may use it.
result<void> context::free_later(const std::shared_ptr<mesh>& m, void* address) {
  WEIR_CHECK(check_free(*m, address));
  WEIR_TRY(allocation_ptr memory,
           memory_->remove(address, memory_kind::device, m->number));
  const std::shared_ptr<graph_memory> of_graph = m->pool.forget(memory);
  memory->release_late(frees_);
  const auto user = make_ref<last_use>(std::move(memory), nullptr);
  std::vector<ref<point>> ends;
  for (const auto& s : streams_of(*m)) {
    ends.push_back(end_of(*s, user));
  }
  if (of_graph != nullptr) {
    of_graph->given_back(std::move(ends));
  }
  return {};
}

// Frees memory in the order of one stream.
result<void> context::free_later(stream& by, void* address) {
  if (by.records()) {
    return free_in_capture(by, address);
  }
  const std::shared_ptr<mesh>& m = by.mesh();
  WEIR_CHECK(check_free(*m, address));
  return free_behind(by, address);
}

// The memory is kept by the point at the stream's end, and by the pool if that has
// capacity for it.
result<void> context::free_behind(stream& by, void* address) {
  const std::shared_ptr<mesh>& m = by.mesh();
  WEIR_TRY(allocation_ptr memory,
           memory_->remove(address, memory_kind::device, m->number));
  ref<point> end = end_of(by, make_ref<last_use>(memory, frees_));
  m->pool.give_back(by.number(), memory, std::move(end));
  return {};
}

// Records that the memory is given back. If the stream does not run what it records, the
// address only disappears from the table until the next allocation shows it again.
result<void> context::free_in_capture(stream& by, void* address) {
  WEIR_TRY(const seen_capture seen, capture_of(by));
  std::shared_ptr<graph_memory> memory = [&] {
    const auto in = submission_lock_->enter();
    return seen.recording->memory_at(address);
  }();
  if (!seen.only) {  // the stream also runs what it records
    WEIR_CHECK(free_behind(by, address));
    if (memory == nullptr) {
      return {};  // the memory is not the graph's, so nothing is recorded
    }
  } else if (memory == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("memory not freed: expected memory that was taken in the "
                             "capture of the stream, found none at {}",
                             address));
  } else {
    memory->hide_address();
  }
  return record_memory(by, seen,
                       make_ref<memory_node>(memory_node::direction::gives_back,
                                             std::move(memory), false));
}

}  // namespace weir::tessera
