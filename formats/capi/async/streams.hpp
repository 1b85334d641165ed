// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stream that tasks write.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "capi/async/tasks.hpp"
#include "capi/streams.hpp"

namespace weir::capi {

/// A stream whose writes are carried out one after another, in the order of their
/// launches.
/// @threads{safe to call concurrently}
class ordered_stream {
 public:
  using write = std::function<outcome<void>(message_stream&)>;

  explicit ordered_stream(message_stream stream) : stream_(std::move(stream)) {}

  /// Puts a write at the end of the line. Each one that is put there needs one
  /// carry_out().
  void line_up(std::shared_ptr<task_state> task, write what);
  /// Carries out all that stands in line, unless another thread is at it, which then
  /// does.
  void carry_out();

  struct object_count {
    TgmObjectCountStatus status;
    std::size_t count;
  };
  [[nodiscard]] object_count count() const;

 private:
  struct entry {
    std::shared_ptr<task_state> task;
    write what;
  };

  mutable std::mutex mutex_;
  message_stream stream_;   ///< of the thread that is at it, else under `mutex_`
  std::deque<entry> line_;  ///< under `mutex_`
  bool busy_ = false;       ///< a thread is at it; under `mutex_`
};

}  // namespace weir::capi
