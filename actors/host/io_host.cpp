// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of an I/O host's messages.
#include "host/io_host.hpp"

#include <fmt/format.h>

namespace weir::actors {
namespace {

error at_item(const io_host_config& c, std::uint64_t seq, error cause) {
  const errc code = cause.code();
  return error(code, fmt::format("cannot process item {} in stage \"{}\"", seq, c.name))
      .because(std::move(cause));
}

/// Calls a function of the stage; an exception becomes an error.
template <class Function>
auto guarded(Function&& call_stage) -> decltype(call_stage()) {
  try {
    return call_stage();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "cannot allocate memory for a stage");
  } catch (const std::exception& e) {
    return error(errc::kernel_failed, fmt::format("a stage has thrown: {}", e.what()));
  }
}

result<local<filled_batch>> fill(const io_host_config& c, const blank_batch& batch) {
  filled_batch done;
  for (flow::blank* item : batch.items) {
    pull p(*item);
    const auto more = guarded([&] { return c.stage->next(p); });
    if (!more) {
      return at_item(c, p.seq(), more.error());
    }
    if (!*more) {
      done.ended = true;
      done.cursor = c.stage->position();
      break;
    }
    if (flow::execution::took_nothing(*item)) {
      break;
    }
    ++done.filled;
  }
  return by_reference(done);
}

result<std::uint64_t> write(const io_host_config& c, const ready_batch& batch) {
  for (const flow::ready* item : batch.items) {
    taken t(*item);
    const auto put = guarded([&] { return c.stage->put(t); });
    if (!put) {
      return at_item(c, t.seq(), put.error());
    }
  }
  return std::uint64_t{batch.items.size()};
}

}  // namespace

io_host_actor::behavior_type io_host(io_host_actor::stateful_pointer<io_host_shell> self,
                                     io_host_config config) {
  install_defaults(self);
  return {
      answers("I/O host, fill",
              [config](fill_atom, const local<blank_batch>& batch) {
                return fill(config, *batch);
              }),
      answers("I/O host, write",
              [config](write_atom, const local<ready_batch>& batch) {
                return write(config, *batch);
              }),
      answers("I/O host, cursor",
              [config](cursor_atom) -> result<local<flow::small_record>> {
                return by_reference(config.stage->position());
              }),
      answers("I/O host, flush",
              [config](flush_atom) -> result<local<flow::small_record>> {
                auto offset = guarded([&] { return config.stage->settle(); });
                if (!offset) {
                  const errc code = offset.error().code();
                  return error(code,
                               fmt::format("cannot make the items of stage \"{}\" durable",
                                           config.name))
                      .because(std::move(offset.error()));
                }
                return by_reference(*offset);
              }),
  };
}

}  // namespace weir::actors
