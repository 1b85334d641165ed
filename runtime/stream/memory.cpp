// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of meshes and streams: from where it comes, when it goes back.
#include <utility>

#include <fmt/format.h>

#include "weir/runtime/stream/context.hpp"
#include "weir/runtime/stream/graph.hpp"
#include "weir/runtime/stream/stream.hpp"

namespace weir::runtime {
namespace {

/// Lets go of memory with the last point that holds this.
class last_use : public counted {
 public:
  last_use(allocation_ptr memory, std::shared_ptr<std::atomic<int>> pending)
      : memory_(std::move(memory)), pending_(std::move(pending)) {
    ++*pending_;
  }
  ~last_use() override {
    memory_ = nullptr;
    --*pending_;
  }

 private:
  allocation_ptr memory_;
  std::shared_ptr<std::atomic<int>> pending_;
};

/// What a stream has when memory goes back to it.
ref<point> end_of(stream& s, const ref<last_use>& user) {
  auto end = make_ref<point>(s.lanes(), s.of().bell());
  end->when_reached([user] {});
  s.enqueue_beside(end);
  return end;
}

/// Memory has no place in a recording: it would be taken and given back once, now.
result<void> refuse_capture(stream& by, std::string_view what) {
  const auto in = by.of().port().enter();
  if (by.recording() == nullptr || !by.recording_only()) {
    return {};
  }
  by.recording()->spoil("a stream was asked for memory, or given some back");
  return error(errc::invalid_argument,
               fmt::format("{}: expected a stream that does not capture, found one whose "
                           "capture has begun; it is lost",
                           what));
}

/// What `take` gives; if devices are full, what it gives with less in the way.
template <class Take>
result<void*> insist(context& of, const std::shared_ptr<mesh>& m, bool pending,
                     Take&& take) {
  result<void*> made = take();
  if (made || made.error().code() != errc::out_of_memory) {
    return made;
  }
  of.trim_pools();
  if (pending) {
    // What another mesh gives back may lie on the same devices.
    for (const auto& other : of.open_meshes()) {
      const auto& ids = other->devices;
      if (std::find_first_of(ids.begin(), ids.end(), m->devices.begin(),
                             m->devices.end()) != ids.end()) {
        static_cast<void>(of.drain(other, -1));
      }
    }
  }
  return take();
}

}  // namespace

void context::trim_pools() {
  for (const auto& m : open_meshes()) {
    m->pool.trim(0);
  }
}

result<void*> context::allocate(const std::shared_ptr<mesh>& m, std::size_t bytes) {
  return insist(*this, m, frees_pending(), [&]() -> result<void*> {
    WEIR_TRY(const auto made, memory_->allocate(m->devices, bytes, m->number));
    return made == nullptr ? nullptr : static_cast<void*>(made->data());
  });
}

result<void*> context::allocate(stream& by, std::size_t bytes) {
  WEIR_CHECK(refuse_capture(by, "memory not allocated"));
  if (bytes == 0) {
    return nullptr;
  }
  const auto& budget = by.budget();
  if (!budget->charge(bytes)) {
    return error(errc::out_of_memory,
                 fmt::format("memory not allocated: expected at most {} bytes beside the "
                             "{} that stream {} has, found {}",
                             budget->room(), budget->used(), by.number(), bytes))
        .hint("the stream's limit is " + std::to_string(budget->limit()) + " bytes");
  }
  auto made = insist(*this, by.on(), frees_pending(),
                     [&] { return by.on()->pool.take(by.number(), bytes, budget); });
  if (!made) {
    budget->discharge(bytes);
  }
  return made;
}

result<void> context::free_later(const std::shared_ptr<mesh>& m, void* at) {
  WEIR_TRY(allocation_ptr memory, memory_->remove(at, memory_kind::device, m->number));
  m->pool.forget(memory);
  const auto user = make_ref<last_use>(std::move(memory), frees_);
  for (const auto& s : streams_of(*m)) {
    static_cast<void>(end_of(*s, user));
  }
  return {};
}

result<void> context::free_later(stream& by, void* at) {
  WEIR_CHECK(refuse_capture(by, "memory not freed"));
  const std::shared_ptr<mesh>& m = by.on();
  WEIR_TRY(allocation_ptr memory, memory_->remove(at, memory_kind::device, m->number));
  ref<point> end = end_of(by, make_ref<last_use>(memory, frees_));
  m->pool.give_back(by.number(), memory, std::move(end));
  return {};
}

}  // namespace weir::runtime
