// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of sources and sinks, and the errors that name them.
///
/// Hosts call stages through these functions. Each of them turns exceptions into errors
/// (`guarded`) and names the stage and the item. A stage of a child process works on
/// batches; all others are called item by item.
#include "weir/pipeline/host/stage_calls.hpp"

#include <fmt/core.h>

#include "flow/stage_run.hpp"
#include "weir/pipeline/host/batch_stage.hpp"

namespace weir::flow {

/// The code of the cause stays.
error item_error(const std::string& stage, std::uint64_t seq, error cause) {
  const errc code = cause.code();
  return error(code, fmt::format("cannot process item {} in stage \"{}\"", seq, stage))
      .because(std::move(cause));
}

/// Lets a source fill an item. Returns false at the end of its data.
result<bool> call_next(stage_object& stage, const std::string& name, blank& item) {
  // Valid during this call only.
  pull p(item);
  auto more = guarded([&] { return stage.next(p); });
  // A joined source needs the position behind each item.
  if (more && *more && item.wants_mark && !item.nothing_yet) {
    more = guarded([&]() -> result<bool> {
      WEIR_TRY(item.mark, mark_of(stage, item.stage->name()));
      return true;
    });
  }
  // The number of the item is part of the message.
  if (!more) {
    more = result<bool>(item_error(name, item.seq, std::move(more.error())));
  }
  return more;
}

/// Lets a blocking stage process one item.
result<void> call_on_ready(stage_object& stage, exchange& item) {
  // Input and output of the same item.
  taken from(item.input);
  pull to(item.output);
  return guarded([&] { return stage.on_ready(from, to); });
}

namespace {

/// Calls a stage with a batch. An exception becomes the error of the first item.
/// @param failure  The member that holds the error.
template <class Result, class Function>
Result in_batch(Function&& call_stage, std::optional<error> Result::*failure) {
  Result done;
  // The result is only complete if the call has returned.
  auto called = guarded([&]() -> result<void> {
    done = call_stage();
    return {};
  });
  if (!called) {
    // What was done before an exception is not known.
    // Nothing of a batch counts then.
    done = {};
    done.*failure = std::move(called.error());
  }
  return done;
}

/// Fills items until the source has none, ends or fails.
filled_items fill_each(stage_object& stage, const std::string& name,
                       std::span<blank* const> items) {
  filled_items done;
  for (blank* item : items) {
    auto more = call_next(stage, name, *item);
    if (!more) {
      done.failure = std::move(more.error());
      break;
    }
    if (!*more) {
      done.ended = true;
      // The position at the end goes into the last image.
      // The position is read on this thread, while the source does nothing else.
      done.cursor = stage.position();
      break;
    }
    // The source is asked again later.
    if (item->nothing_yet) {
      done.nothing_yet = true;
      break;
    }
    ++done.filled;
  }
  return done;
}

/// Writes items until one fails.
processed_items write_each(stage_object& stage, const std::string& name,
                           std::span<const ready* const> items) {
  processed_items done;
  for (const ready* item : items) {
    taken t(*item);
    // A sink that has failed is not called again.
    if (auto put = call_put(stage, name, t); !put) {
      done.failed = std::move(put.error());
      break;
    }
    ++done.processed;
  }
  return done;
}

/// Error of a batch stage that is called by the function of another face.
error no_batches() {
  return error(errc::internal,
               "call of a stage with several items: expected a stage "
               "that takes them, found one of another face");
}

}  // namespace

/// The defaults are for batch stages of other faces.
processed_items batch_stage::work(std::span<exchange* const> /*items*/) {
  return {0, no_batches(), false};
}
filled_items batch_stage::fill(std::span<blank* const> /*items*/) {
  filled_items none;
  none.failure = no_batches();
  return none;
}
processed_items batch_stage::write(std::span<const ready* const> /*items*/) {
  return {0, no_batches(), false};
}

/// Processes items of a blocking stage; `processed` of them are complete.
processed_items call_work(stage_object& stage, std::span<exchange* const> items) {
  // A stage of a child process takes the whole batch in one message.
  if (auto* batches = dynamic_cast<batch_stage*>(&stage)) {
    return in_batch<processed_items>([&] { return batches->work(items); },
                                     &processed_items::failed);
  }
  processed_items done;
  for (exchange* item : items) {
    if (auto made = call_on_ready(stage, *item); !made) {
      done.failed = std::move(made.error());
      break;
    }
    ++done.processed;
  }
  return done;
}

/// Fills items of a source.
filled_items call_fill(stage_object& stage, const std::string& name,
                       std::span<blank* const> items) {
  // A stage of a child process.
  if (auto* batches = dynamic_cast<batch_stage*>(&stage)) {
    return in_batch<filled_items>([&] { return batches->fill(items); },
                                  &filled_items::failure);
  }
  return fill_each(stage, name, items);
}

/// Writes items of a sink.
processed_items call_write(stage_object& stage, const std::string& name,
                           std::span<const ready* const> items) {
  if (auto* batches = dynamic_cast<batch_stage*>(&stage)) {
    return in_batch<processed_items>([&] { return batches->write(items); },
                                     &processed_items::failed);
  }
  return write_each(stage, name, items);
}

/// Lets a sink write one item.
result<void> call_put(stage_object& stage, const std::string& name, taken& item) {
  auto put = guarded([&] { return stage.put(item); });
  if (!put) {
    return item_error(name, item.seq(), std::move(put.error()));
  }
  return put;
}

/// Makes the items of a sink durable and returns its offset.
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
