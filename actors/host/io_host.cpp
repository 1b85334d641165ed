// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of an I/O host's messages.
///
/// Every handler calls one function of the stage on this actor's thread. Exceptions of
/// the stage are caught by the `call_` functions of the flow. The answer carries failures
/// of items as values; only a sink's failure is an error of the request.
#include "host/io_host.hpp"

#include "weir/base/clock.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::actors {
namespace {

/// Adds the time until its end to the busy time of a stage.
/// The engine host reads the sum while the stage works, hence the atomic.
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

/// Lets a source fill items.
local<filled_batch> fill(const io_host_config& c, const blank_batch& batch) {
  const busy_scope busy(c);
  return by_reference(flow::call_fill(*c.stage, c.name, batch.items));
}

local<exchanged_batch> work(const io_host_config& c, io_host_shell& s,
                            const exchange_batch& batch) {
  s.ended_early = s.ended_early && !batch.first;
  if (s.ended_early) {
    return by_reference(exchanged_batch());
  }
  const busy_scope busy(c);
  auto done = flow::call_work(*c.stage, batch.items);
  const std::size_t ended = done.processed + (done.failed || done.partial ? 1 : 0);
  s.ended_early = ended != batch.items.size();
  return by_reference(std::move(done));
}

/// Lets a sink write items. If one fails, the run ends, and the offset of the last
/// durable epoch says which items have to be written again.
result<std::uint64_t> write(const io_host_config& c, const ready_batch& batch) {
  const busy_scope busy(c);
  auto done = flow::call_write(*c.stage, c.name, batch.items);
  if (done.failed) {
    return std::move(*done.failed);
  }
  return std::uint64_t{batch.items.size()};
}

/// Answers a request at once, and then waits a short time for the next one.
/// The next request usually comes within microseconds, and waking a sleeping thread costs
/// more than that.
template <class T, class Self>
caf::typed_response_promise<T> answer_now(Self self, result<T> answer) {
  auto promise = self->template make_response_promise<T>();
  if (answer) {
    promise.deliver(std::move(*answer));
  } else {
    promise.deliver(to_caf(answer.error()));
  }
  wait_for_message(self, self->state.short_wait);
  return promise;
}

}  // namespace

// The cursor is copied out of the stage without its time counting as busy.
io_host_actor::behavior_type io_host(io_host_actor::stateful_pointer<io_host_shell> self,
                                     const io_host_config& config) {
  install_defaults(self);
  return {
      answers("I/O host, fill",
              [self, config](fill_atom, const local<blank_batch>& batch) {
                return answer_now<local<filled_batch>>(self, fill(config, *batch));
              }),
      answers("I/O host, process",
              [self, config](work_atom, const local<exchange_batch>& batch) {
                return answer_now<local<exchanged_batch>>(
                    self, work(config, self->state, *batch));
              }),
      answers("I/O host, write",
              [self, config](write_atom, const local<ready_batch>& batch) {
                return answer_now<std::uint64_t>(self, write(config, *batch));
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
