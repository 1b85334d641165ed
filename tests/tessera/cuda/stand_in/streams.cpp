// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams and events of the stand-in: threads that run operations in order, with pauses,
/// and the check that overlapping accesses are ordered.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "tessera/cuda/stand_in/world.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::status;

/// The handle CU_STREAM_LEGACY.
void* const legacy_stream = reinterpret_cast<void*>(std::uintptr_t{1});  // NOLINT

bool overlap(const access& a, const touched_range& b) {
  return a.first < b.first + b.bytes && b.first < a.first + a.bytes;
}

/// Returns true if two parts of one operation are nodes of its graph without an order.
bool apart(const graph_place& a, const graph_place& b) {
  return a.order != nullptr && b.order != nullptr && a.node != b.node &&
         !(*a.order)[a.node][b.node] && !(*b.order)[b.node][a.node];
}

/// Removes accesses whose end the host knows: everything new comes after them.
void forget_old_accesses(world& w) {
  if (w.running_launches == 0) {
    std::erase_if(w.accesses, [&](const access& a) {
      return comes_before(a.stream, a.number, w.host_clock);
    });
  }
}

/// Makes a stream with its thread.
std::shared_ptr<stream_state> start_stream(device_state& device) {
  world& w = the_world();
  auto stream = std::make_shared<stream_state>();
  stream->id = w.next_stream++;
  stream->device = &device;
  stream->delays.seed(w.shown.seed + static_cast<unsigned>(stream->id));
  stream->thread = std::thread([stream] { serve_stream(stream); });
  return stream;
}

// The default stream of a device. Streams that are not non-blocking would wait for it;
// the backend and the tests make none.
std::shared_ptr<stream_state> default_stream_of(device_state& device) {
  std::shared_ptr<stream_state>& stream = the_world().default_streams[&device];
  if (stream == nullptr) {
    stream = start_stream(device);
  }
  return stream;
}

status stream_create(cuda::stream_handle* made, unsigned flags, int /*priority*/) {
  entered call("cuStreamCreateWithPriority", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (made == nullptr || flags > 1) {
    return status::invalid_value;
  }
  const std::shared_ptr<stream_state> stream = start_stream(call.device());
  the_world().streams.emplace(stream.get(), stream);
  *made = reinterpret_cast<cuda::stream_handle>(stream.get());
  return status::success;
}

status stream_destroy(cuda::stream_handle handle) {
  entered call("cuStreamDestroy", need::context);
  world& w = the_world();
  const auto found = w.streams.find(handle);
  if (found == w.streams.end()) {
    report("handle_live", "cuStreamDestroy got a handle that is not alive");
    return status::invalid_handle;
  }
  const std::shared_ptr<stream_state> stream = found->second;
  w.streams.erase(found);
  stream->destroyed = true;
  w.dying.push_back(stream);
  stream->changed.notify_all();
  return call.refused();
}

status stream_query(cuda::stream_handle handle) {
  entered call("cuStreamQuery", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(handle, "cuStreamQuery");
  if (stream == nullptr) {
    return status::invalid_handle;
  }
  if (stream->ended < stream->given) {
    return status::not_ready;
  }
  host_knows(stream->clock);
  return status::success;
}

status stream_is_capturing(cuda::stream_handle handle, cuda::capture_status* found) {
  entered call("cuStreamIsCapturing", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(handle, "cuStreamIsCapturing");
  if (stream == nullptr || found == nullptr) {
    return stream == nullptr ? status::invalid_handle : status::invalid_value;
  }
  *found = stream->captures ? cuda::capture_status::active : cuda::capture_status::none;
  return status::success;
}

status event_create(cuda::event_handle* made, unsigned flags) {
  entered call("cuEventCreate", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (made == nullptr || flags > 7) {
    return status::invalid_value;
  }
  auto event = std::make_unique<event_state>();
  event->device = &call.device();
  *made = reinterpret_cast<cuda::event_handle>(event.get());
  the_world().events.emplace(event.get(), std::move(event));
  return status::success;
}

status event_destroy(cuda::event_handle handle) {
  entered call("cuEventDestroy", need::context);
  if (live(the_world().events, handle, "cuEventDestroy") == nullptr) {
    return status::invalid_handle;
  }
  the_world().events.erase(handle);
  return call.refused();
}

status event_record(cuda::event_handle handle, cuda::stream_handle on) {
  entered call("cuEventRecord", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(on, "cuEventRecord");
  event_state* const event = live(the_world().events, handle, "cuEventRecord");
  if (stream == nullptr || event == nullptr) {
    return status::invalid_handle;
  }
  if (event->device != stream->device) {
    report("stream_context", "cuEventRecord got an event and a stream of two contexts");
    return status::invalid_handle;
  }
  event->stream = stream;
  event->number = stream->given;
  event->clock = stream->clock;
  return status::success;
}

status event_query(cuda::event_handle handle) {
  entered call("cuEventQuery", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const event_state* const event = live(the_world().events, handle, "cuEventQuery");
  if (event == nullptr) {
    return status::invalid_handle;
  }
  if (event->stream != nullptr && event->stream->ended < event->number) {
    return status::not_ready;
  }
  host_knows(event->clock);
  return status::success;
}

status stream_wait(cuda::stream_handle waiting, cuda::event_handle handle,
                   unsigned flags) {
  entered call("cuStreamWaitEvent", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(waiting, "cuStreamWaitEvent");
  const event_state* const event = live(the_world().events, handle, "cuStreamWaitEvent");
  if (stream == nullptr || event == nullptr || flags > 1) {
    return stream == nullptr || event == nullptr ? status::invalid_handle
                                                 : status::invalid_value;
  }
  if (event->stream != nullptr) {
    join(stream->clock, event->clock);
    queued made;
    made.name = "wait for an event";
    made.run = [] { return status::success; };
    made.ready = [from = event->stream, number = event->number] {
      return from->ended >= number;
    };
    enqueue(stream, std::move(made));
  }
  return status::success;
}

status launch_host(cuda::stream_handle handle, cuda::host_function function, void* data) {
  entered call("cuLaunchHostFunc", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(handle, "cuLaunchHostFunc");
  if (stream == nullptr || function == nullptr) {
    return stream == nullptr ? status::invalid_handle : status::invalid_value;
  }
  queued made;
  made.name = "host function";
  made.run = [function, data] {
    inside_host_function = true;
    function(data);
    inside_host_function = false;
    return status::success;
  };
  enqueue(stream, std::move(made));
  return status::success;
}

}  // namespace

bool comes_before(std::uint64_t stream, std::uint64_t number, const vector_clock& clock) {
  const auto known = clock.find(stream);
  return known != clock.end() && known->second >= number;
}

std::shared_ptr<stream_state> stream_of(void* handle, const char* function) {
  world& w = the_world();
  if (handle == legacy_stream) {
    return default_stream_of(*context_stack.back());
  }
  const auto found = w.streams.find(handle);
  if (found == w.streams.end()) {
    report("handle_live", fmt::format("{} got a stream that is not alive", function));
    return nullptr;
  }
  if (found->second->device != context_stack.back()) {
    report("stream_context",
           fmt::format("{} got a stream of device {} while the context of device {} is "
                       "current",
                       function, found->second->device->number,
                       context_stack.back()->number));
    return nullptr;
  }
  if (found->second->posting) {
    report("nccl_stream",
           fmt::format("{} got a stream of a communicator that is not ready", function));
  }
  return found->second;
}

void note_accesses(const stream_state& stream, std::uint64_t number,
                   const vector_clock& before, const std::string& name,
                   const std::vector<touched_range>& ranges, const graph_place& place) {
  world& w = the_world();
  for (const touched_range& r : ranges) {
    for (const access& a : w.accesses) {
      const bool same = a.stream == stream.id && a.number == number;
      const bool ordered = same ? !apart(a.place, place)
                                : comes_before(a.stream, a.number, before) ||
                                      comes_before(stream.id, number, a.before);
      if (ordered || !(a.write || r.written) || !overlap(a, r) ||
          a.device->broken != status::success) {
        continue;
      }
      report("access_order",
             fmt::format("{} in stream {} {} [{:#x}, {:#x}) and {} in stream {} {} "
                         "[{:#x}, {:#x}) without an order",
                         a.operation, a.stream, a.write ? "writes" : "reads", a.first,
                         a.first + a.bytes, name, stream.id,
                         r.written ? "writes" : "reads", r.first, r.first + r.bytes));
    }
  }
  for (const touched_range& r : ranges) {
    w.accesses.push_back({r.first, r.bytes, r.written, stream.id, number, stream.device,
                          before, name, place});
  }
}

void host_knows(const vector_clock& clock) {
  join(the_world().host_clock, clock);
  forget_old_accesses(the_world());
}

void enqueue(const std::shared_ptr<stream_state>& stream, queued made) {
  world& w = the_world();
  join(stream->clock, w.host_clock);
  ++stream->given;
  note_accesses(*stream, stream->given, stream->clock, made.name, made.ranges);
  stream->clock[stream->id] = stream->given;
  stream->queue.push_back(std::move(made));
  stream->changed.notify_all();
}

void serve_stream(const std::shared_ptr<stream_state>& stream) {
  world& w = the_world();
  std::unique_lock lock(w.mutex);
  for (;;) {
    stream->changed.wait(lock,
                         [&] { return stream->destroyed || !stream->queue.empty(); });
    if (stream->queue.empty()) {
      return;
    }
    queued next = std::move(stream->queue.front());
    stream->queue.pop_front();
    const auto broken = [&] { return stream->device->broken != status::success; };
    if (next.ready) {
      w.ended.wait(lock, [&] { return broken() || next.ready(); });
    }
    const unsigned limit = w.shown.max_delay_us;
    const unsigned pause_us =
        limit == 0 ? 0 : static_cast<unsigned>(stream->delays() % (limit + 1));
    // A broken context runs nothing any more, and its events never come.
    if (!broken()) {
      lock.unlock();
      if (pause_us > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      }
      const status outcome = next.run();
      next = {};
      lock.lock();
      if (outcome != status::success && !broken()) {
        stream->device->broken = outcome;
      }
    } else if (next.dropped) {
      next.dropped();
    }
    ++stream->ended;
    w.ended.notify_all();
  }
}

void let_capture(void* stream, bool captures) {
  world& w = the_world();
  const std::lock_guard lock(w.mutex);
  w.streams.at(static_cast<cuda::stream_handle>(stream))->captures = captures;
}

void settle() {
  world& w = the_world();
  std::unique_lock lock(w.mutex);
  const auto idle = [](const std::shared_ptr<stream_state>& s) {
    return s->ended >= s->given;
  };
  w.ended.wait(lock, [&] {
    return std::all_of(w.dying.begin(), w.dying.end(), idle) &&
           std::all_of(w.streams.begin(), w.streams.end(),
                       [&](const auto& entry) { return idle(entry.second); }) &&
           std::all_of(w.default_streams.begin(), w.default_streams.end(),
                       [&](const auto& entry) { return idle(entry.second); });
  });
}

void block_calls(unsigned max_us) {
  const std::lock_guard lock(the_world().mutex);
  the_world().shown.max_block_us = max_us;
}

void join_dying() {
  std::vector<std::shared_ptr<stream_state>> dying;
  {
    world& w = the_world();
    const std::lock_guard lock(w.mutex);
    const auto end = [&](const std::shared_ptr<stream_state>& stream) {
      stream->destroyed = true;
      stream->changed.notify_all();
      w.dying.push_back(stream);
    };
    for (auto& [handle, stream] : w.streams) {
      end(stream);
    }
    for (auto& [device, stream] : w.default_streams) {
      end(stream);
    }
    w.streams.clear();
    w.default_streams.clear();
    dying.swap(w.dying);
    w.ended.notify_all();
  }
  for (const auto& stream : dying) {
    stream->thread.join();
  }
}

std::vector<named_function> stream_functions() {
  return {{"cuStreamCreateWithPriority", 5050, reinterpret_cast<void*>(&stream_create)},
          {"cuStreamDestroy", 4000, reinterpret_cast<void*>(&stream_destroy)},
          {"cuStreamQuery", 2000, reinterpret_cast<void*>(&stream_query)},
          {"cuStreamIsCapturing", 10000, reinterpret_cast<void*>(&stream_is_capturing)},
          {"cuStreamWaitEvent", 3020, reinterpret_cast<void*>(&stream_wait)},
          {"cuEventCreate", 2000, reinterpret_cast<void*>(&event_create)},
          {"cuEventRecord", 2000, reinterpret_cast<void*>(&event_record)},
          {"cuEventQuery", 2000, reinterpret_cast<void*>(&event_query)},
          {"cuEventDestroy", 4000, reinterpret_cast<void*>(&event_destroy)},
          {"cuLaunchHostFunc", 10000, reinterpret_cast<void*>(&launch_host)}};
}

}  // namespace weir::tessera::stand_in
