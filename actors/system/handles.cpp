// SPDX-License-Identifier: Apache-2.0
/// @file
/// The requests of handles, and typed handles for programs that use CAF.
///
/// Requests travel through the relay, which is an actor: the thread of a program only
/// sends a job to it and waits on a future. The answer is a value (`as_value`) or shares
/// ownership with the actor's message (`as_shared`).
#include "weir/actors/handles.hpp"

#include <algorithm>

#include "system/system_core.hpp"

namespace weir::actors {
namespace {

/// Returns the handle of CAF for an actor that still lives.
/// The core outlives the handle, even if the system has ended.
template <class Actor, class Handle>
result<Actor> typed(const Handle& handle) {
  system_core& core = *handle_access::core(handle);
  const std::lock_guard lock(core.mutex);
  // Numbers are never given twice, so an old handle finds nothing.
  const auto found = core.entries.find(handle_access::number(handle));
  if (core.stopping || found == core.entries.end()) {
    return ended_error("finding an actor");
  }
  return caf::actor_cast<Actor>(found->second.main);
}

/// Error of programs that use CAF's system after its end.
error system_ended() {
  return error(errc::stopping, "using the actor system failed: it has ended");
}

}  // namespace

/// Closing ends the actor when its requests are answered.
result<void> actor_handle::close() const {
  return core_->close(number_);
}

// A stream of the answer is named by its number in all later calls.
reply<opened_streams> volume_reader_handle::open(volume_spec spec) const {
  return request_of<volume_reader_actor, local<opened_streams>>(
      *core_, number_, "opening a volume", as_value(), open_atom_v,
      by_reference(std::move(spec)));
}
/// The next piece of a stream, in order.
reply<volume_piece> volume_reader_handle::pull(std::uint64_t stream) const {
  return request_of<volume_reader_actor, local<volume_piece>>(
      *core_, number_, "pulling a piece of a volume", as_value(), pull_atom_v, stream);
}
/// A range of a stream.
reply<volume_piece> volume_reader_handle::read(std::uint64_t stream, std::uint64_t offset,
                                               std::uint64_t count) const {
  return request_of<volume_reader_actor, local<volume_piece>>(
      *core_, number_, "reading a volume", as_value(), read_atom_v, stream, offset,
      count);
}
/// Copies a range of a stream to memory of the order.
reply<std::uint64_t> volume_reader_handle::fill(fill_order order) const {
  return request_of<volume_reader_actor, std::uint64_t>(
      *core_, number_, "filling memory from a volume", as_value(), fill_atom_v,
      by_reference(std::move(order)));
}
// It has no answer. A reader that has ended has no streams, so nothing is done then.
void volume_reader_handle::close_stream(std::uint64_t stream) const {
  // The lock is that of the table of actors.
  const std::lock_guard lock(core_->mutex);
  const auto found = core_->entries.find(number_);
  if (!core_->stopping && found != core_->entries.end()) {
    // By the requester, so that it arrives behind the requests of this thread.
    relay_job job{[reader = caf::actor_cast<volume_reader_actor>(found->second.main),
                   stream](relay_actor::pointer self) {
      self->send(reader, close_atom_v, stream);
    }};
    caf::anon_send(core_->requester, work_atom_v, by_reference(std::move(job)));
  }
}
// Reads through this function wait for the reader, so actors of its system must not call
// it.
stream_source volume_reader_handle::source_of(std::uint64_t stream) const {
  return [reader = *this, stream](std::uint64_t offset,
                                  mutable_bytes memory) -> result<std::size_t> {
    // A worker that is late may write after this call has returned `timeout`. It writes
    // to `own`, which its order keeps alive, and not to memory that the caller may reuse.
    // A copy costs less than a late write would.
    auto own = std::make_shared<byte_vector>(memory.size());
    WEIR_TRY(const std::uint64_t count,
             reader.fill({stream, offset, {mutable_bytes(*own), own, {}}}).get());
    std::copy_n(own->begin(), static_cast<std::size_t>(count), memory.begin());
    return static_cast<std::size_t>(count);
  };
}
/// A text for people.
reply<std::string> volume_reader_handle::status() const {
  return request_of<volume_reader_actor, std::string>(
      *core_, number_, "asking a volume reader", as_value(), status_atom_v);
}

/// The delivery is shared and not copied, because it may be large.
reply<std::shared_ptr<const message_delivery>> message_reader_handle::pull() const {
  return request_of<message_reader_actor, local<message_delivery>>(
      *core_, number_, "pulling a message", as_shared(), pull_atom_v);
}
/// A text for people.
reply<std::string> message_reader_handle::status() const {
  return request_of<message_reader_actor, std::string>(
      *core_, number_, "asking a message reader", as_value(), status_atom_v);
}

/// The answer comes when the message is durable. Several messages share one sync.
reply<appended_message> message_appender_handle::append(message_order order) const {
  return request_of<message_appender_actor, local<appended_message>>(
      *core_, number_, "appending a message", as_value(), write_atom_v,
      by_reference(std::move(order)));
}
/// Makes everything durable that was appended.
reply<std::uint64_t> message_appender_handle::flush() const {
  return request_of<message_appender_actor, std::uint64_t>(
      *core_, number_, "making messages durable", as_value(), flush_atom_v);
}

/// The answer comes when the kernel is in the stream, not when it has ended.
reply<std::uint64_t> stream_handle::launch(launch_order order) const {
  return request_of<stream_actor, std::uint64_t>(*core_, number_, "launching a kernel",
                                                 as_value(), launch_atom_v,
                                                 by_reference(std::move(order)));
}
/// As `launch`, for a copy.
reply<std::uint64_t> stream_handle::copy(copy_order order) const {
  return request_of<stream_actor, std::uint64_t>(*core_, number_, "copying memory",
                                                 as_value(), copy_atom_v,
                                                 by_reference(std::move(order)));
}
/// The event is complete when everything before it is.
reply<event_ptr> stream_handle::record() const {
  return request_of<stream_actor, local<tessera::event>>(
      *core_, number_, "recording a point of a stream", as_shared(), record_atom_v);
}
/// Later operations of the stream wait for the event; the caller does not.
reply<std::uint64_t> stream_handle::wait_for(event_ptr point) const {
  return request_of<stream_actor, std::uint64_t>(
      *core_, number_, "waiting for a point of a stream", as_value(), await_atom_v,
      local<tessera::event>(std::move(point)));
}
/// The answer comes when all operations before it have ended.
reply<std::uint64_t> stream_handle::synchronize() const {
  return request_of<stream_actor, std::uint64_t>(
      *core_, number_, "waiting for the operations of a stream", as_value(), sync_atom_v);
}
reply<std::string> stream_handle::status() const {
  return request_of<stream_actor, std::string>(*core_, number_, "asking a stream",
                                               as_value(), status_atom_v);
}

/// The answer comes when the collective has ended.
reply<std::uint64_t> collective_handle::join(join_order order) const {
  return request_of<collective_actor, std::uint64_t>(
      *core_, number_, "joining a collective", as_value(), join_atom_v,
      by_reference(std::move(order)));
}
reply<std::string> collective_handle::status() const {
  return request_of<collective_actor, std::string>(*core_, number_, "asking a collective",
                                                   as_value(), status_atom_v);
}

// The pointer is valid as long as the caller keeps `system`.
result<caf::actor_system*> caf_system_of(const actor_system& system) {
  // The lock orders this with the end of the system.
  system_core& core = *handle_access::core(system);
  const std::lock_guard lock(core.mutex);
  if (core.stopping) {
    return system_ended();
  }
  return &core.system->native();
}

/// The child ends with the system.
result<void> adopt(const actor_system& system, child_spec child) {
  system_core& core = *handle_access::core(system);
  const std::lock_guard lock(core.mutex);
  if (core.stopping) {
    return system_ended();
  }
  core.system->adopt(std::move(child));
  return {};
}

/// Typed handles, for programs that send messages of CAF themselves.
result<volume_reader_actor> actor_of(const volume_reader_handle& handle) {
  return typed<volume_reader_actor>(handle);
}
result<message_reader_actor> actor_of(const message_reader_handle& handle) {
  return typed<message_reader_actor>(handle);
}
result<message_appender_actor> actor_of(const message_appender_handle& handle) {
  return typed<message_appender_actor>(handle);
}
result<stream_actor> actor_of(const stream_handle& handle) {
  return typed<stream_actor>(handle);
}
result<collective_actor> actor_of(const collective_handle& handle) {
  return typed<collective_actor>(handle);
}

}  // namespace weir::actors
