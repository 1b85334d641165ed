// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of sources and sinks, and the errors that name them.
#include "weir/pipeline/host/stage_calls.hpp"

#include <fmt/core.h>

#include "flow/stage_run.hpp"

namespace weir::flow {

error item_error(const std::string& stage, std::uint64_t seq, error cause) {
  const errc code = cause.code();
  return error(code, fmt::format("cannot process item {} in stage \"{}\"", seq, stage))
      .because(std::move(cause));
}

result<bool> call_next(stage_object& stage, const std::string& name, blank& item) {
  auto more = guarded([&]() -> result<bool> {
    pull p(item);
    WEIR_TRY(const bool goes_on, stage.next(p));
    if (goes_on && item.wants_mark && !item.nothing_yet) {
      WEIR_TRY(item.mark, mark_of(stage, item.stage->name()));
    }
    return goes_on;
  });
  if (!more) {
    return item_error(name, item.seq, std::move(more.error()));
  }
  return more;
}

result<void> call_on_ready(stage_object& stage, exchange& item) {
  taken from(item.input);
  pull to(item.output);
  return guarded([&] { return stage.on_ready(from, to); });
}

result<void> call_put(stage_object& stage, const std::string& name, taken& item) {
  auto put = guarded([&] { return stage.put(item); });
  if (!put) {
    return item_error(name, item.seq(), std::move(put.error()));
  }
  return put;
}

result<small_record> call_settle(stage_object& stage, const std::string& name) {
  auto offset = guarded([&] { return stage.settle(); });
  if (!offset) {
    const errc code = offset.error().code();
    return error(code, fmt::format("cannot make the items of stage \"{}\" durable", name))
        .because(std::move(offset.error()));
  }
  return offset;
}

}  // namespace weir::flow
