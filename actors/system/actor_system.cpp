// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starting a system and spawning its actors.
///
/// Every spawned actor gets a number and an entry in the core. A handle of a program
/// holds the number alone, so that a handle that is too old leads to an error and not to
/// an actor that is gone.
#include "weir/actors/system.hpp"

#include "collective/collective.hpp"
#include "stream/stream.hpp"
#include "system/system_core.hpp"
#include "tensogram/message_appender.hpp"
#include "tensogram/message_reader.hpp"
#include "volume/volume_reader.hpp"
#include "volume/volume_worker.hpp"

namespace weir::actors {
namespace {

/// Spawns actors by `make`, which gets the supervised system and returns their entry.
/// Returns their number.
/// Fails if the system is being stopped. The lock is held while actors start, so that
/// `stop` sees either all of an entry or nothing of it.
template <class Make>
result<std::uint64_t> add_entry(system_core& core, Make make) {
  // Held while the actors start.
  const std::lock_guard lock(core.mutex);
  if (core.stopping) {
    return ended_error("spawning an actor");
  }
  core.entries.emplace(++core.last_number, make(*core.system));
  return core.last_number;
}

/// Handles of different types are kept in one map.
template <class Actor>
caf::actor untyped(const Actor& actor) {
  return caf::actor_cast<caf::actor>(actor);
}

/// Hands a new actor out, or ends it again if it could not be opened.
/// Spawning succeeds before the actor has opened its file or queue, so the outcome comes
/// from a first request.
template <class Handle, class T>
result<Handle> opened(Handle spawned, const result<T>& outcome) {
  if (!outcome) {
    // The error of the opening is more important than that of the end.
    static_cast<void>(spawned.close());
    return outcome.error();
  }
  return spawned;
}

}  // namespace

/// The thread of the caller is none of the system.
result<actor_system> actor_system::start(actor_system_options options) {
  auto core = std::make_shared<system_core>();
  core->options = std::move(options);
  // The actors may report a failure while the last handle goes away.
  const std::weak_ptr<system_core> weak = core;
  WEIR_TRY(core->system,
           supervised_system::open(core->options.deadline, [weak](const error& e) {
             if (const auto alive = weak.lock()) {
               alive->note_failure(e);
             }
           }));
  // The relay ends last, because stopping other actors needs its requests.
  // All requests of handles go through this actor.
  core->requester = core->system->spawn("relay", stop_group::last, relay, relay_config());
  return actor_system(std::move(core));
}

// The system that this object had before is stopped first, as by its destructor.
actor_system& actor_system::operator=(actor_system&& other) noexcept {
  if (this != &other) {
    if (core_) {
      static_cast<void>(core_->stop());
    }
    core_ = std::move(other.core_);
  }
  return *this;
}

// Errors of the stop are lost here; programs that need them call `stop`.
actor_system::~actor_system() {
  if (core_) {
    static_cast<void>(core_->stop());
  }
}

/// Ends all actors; later requests are errors.
result<void> actor_system::stop() {
  return core_->stop();
}

result<volume_reader_handle> actor_system::spawn_volume_reader(
    const volume_reader_options& options) {
  if (options.workers == 0) {
    return error(errc::invalid_argument,
                 "cannot spawn a volume reader: expected at least 1 worker, found 0");
  }
  // Workers first, because the reader names them.
  WEIR_TRY(
      const std::uint64_t number, add_entry(*core_, [&](supervised_system& s) {
        // A reader has workers that block on the device; the reader itself never blocks.
        system_entry entry;
        // Workers end after the reader, which may have requests under way at them.
        volume_reader_config config;
        for (unsigned i = 0; i < options.workers; ++i) {
          config.workers.push_back(s.spawn_io("volume_worker_io", stop_group::last,
                                              volume_worker_io, volume_worker_config{}));
          entry.helpers.push_back(untyped(config.workers.back()));
        }
        config.plan.piece = options.piece;
        config.plan.window = options.window;
        config.plan.credits = options.credits;
        config.plan.deadline_ns = options.deadline_ns;
        entry.main = untyped(s.spawn("volume_reader", stop_group::source, volume_reader,
                                     std::move(config)));
        return entry;
      }));
  // The reader opens nothing before it is asked.
  return volume_reader_handle(core_, number);
}

// Opening happens in the actor, because the first read of a pipe may block.
result<message_reader_handle> actor_system::spawn_message_reader(
    const message_source& source) {
  WEIR_TRY(const std::uint64_t number, add_entry(*core_, [](supervised_system& s) {
             return system_entry{
                 last_work::nothing,
                 untyped(s.spawn_io("message_reader_io", stop_group::source,
                                    message_reader_io, message_reader_config{})),
                 {}};
           }));
  message_reader_handle out(core_, number);
  // Waits for the answer of the actor.
  auto info = request_of<message_reader_actor, local<message_source_info>>(
                  *core_, number, "opening a source of messages", as_value(), open_atom_v,
                  by_reference(source))
                  .get();
  if (info) {
    out.info_ = *info;
  }
  return opened(std::move(out), info);
}

// An appender gets last work only after it has a file: `stop` then makes its messages
// durable.
result<message_appender_handle> actor_system::spawn_message_appender(
    const message_target& target) {
  WEIR_TRY(const std::uint64_t number, add_entry(*core_, [](supervised_system& s) {
             return system_entry{
                 last_work::nothing,
                 untyped(s.spawn_io("message_appender_io", stop_group::sink,
                                    message_appender_io, message_appender_config{})),
                 {}};
           }));
  message_appender_handle out(core_, number);
  auto info = request_of<message_appender_actor, local<message_target_info>>(
                  *core_, number, "opening a target of messages", as_value(), open_atom_v,
                  by_reference(target))
                  .get();
  if (info) {
    out.info_ = *info;
    // The entry may have been removed by `stop`.
    const std::lock_guard lock(core_->mutex);
    if (const auto found = core_->entries.find(number); found != core_->entries.end()) {
      found->second.before_end = last_work::flush;
    }
  }
  return opened(std::move(out), info);
}

// Waiting for the operations is the last work of a stream.
result<stream_handle> actor_system::spawn_stream(const queue_spec& spec) {
  WEIR_TRY(const std::uint64_t number, add_entry(*core_, [&](supervised_system& s) {
             return system_entry{
                 last_work::synchronize,
                 untyped(s.spawn("stream", stop_group::engine, stream_queue, spec)),
                 {}};
           }));
  stream_handle out(core_, number);
  // An actor whose queue could not be made answers every request with the reason.
  return opened(out, out.status().get());
}

// A group has no last work: a collective that was not joined by all ranks never ends.
result<collective_handle> actor_system::spawn_collective(const collective_spec& spec) {
  WEIR_TRY(const std::uint64_t number, add_entry(*core_, [&](supervised_system& s) {
             return system_entry{last_work::nothing,
                                 untyped(s.spawn("collective", stop_group::engine,
                                                 collective_group, spec)),
                                 {}};
           }));
  collective_handle out(core_, number);
  return opened(out, out.status().get());
}

}  // namespace weir::actors
