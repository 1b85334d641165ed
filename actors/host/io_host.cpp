// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of an I/O host's messages.
#include "host/io_host.hpp"

#include "weir/base/clock.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::actors {
namespace {

/// Adds the time until its end to the busy time of a stage.
class busy_scope {
 public:
  explicit busy_scope(const io_host_config& c) : to_(*c.busy_ns) {}
  busy_scope(const busy_scope&) = delete;
  busy_scope& operator=(const busy_scope&) = delete;
  ~busy_scope() { to_.fetch_add(now_ns() - begin_, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t>& to_;
  std::int64_t begin_ = now_ns();
};

result<std::uint64_t> write(const io_host_config& c, const ready_batch& batch) {
  auto done = flow::call_write(*c.stage, c.name, batch.items);
  if (done.failed) {
    return std::move(*done.failed);
  }
  return std::uint64_t{batch.items.size()};
}

}  // namespace

io_host_actor::behavior_type io_host(io_host_actor::stateful_pointer<io_host_shell> self,
                                     const io_host_config& config) {
  install_defaults(self);
  return {
      answers("I/O host, fill",
              [config](fill_atom,
                       const local<blank_batch>& batch) -> result<local<filled_batch>> {
                const busy_scope busy(config);
                return by_reference(
                    flow::call_fill(*config.stage, config.name, batch->items));
              }),
      answers("I/O host, process",
              [config](work_atom, const local<exchange_batch>& batch)
                  -> result<local<exchanged_batch>> {
                const busy_scope busy(config);
                return by_reference(flow::call_work(*config.stage, batch->items));
              }),
      answers("I/O host, write",
              [config](write_atom, const local<ready_batch>& batch) {
                const busy_scope busy(config);
                return write(config, *batch);
              }),
      answers("I/O host, cursor",
              [config](cursor_atom) -> result<local<flow::small_record>> {
                return by_reference(config.stage->position());
              }),
      answers("I/O host, flush",
              [config](flush_atom) -> result<local<flow::small_record>> {
                const busy_scope busy(config);
                WEIR_TRY(const auto offset,
                         flow::call_settle(*config.stage, config.name));
                return by_reference(offset);
              }),
  };
}

}  // namespace weir::actors
