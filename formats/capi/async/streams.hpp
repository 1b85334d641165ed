// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stream whose writes are tasks.
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

/// A stream whose writes are carried out one after the other, in the order of their
/// launches. @threads{safe to call concurrently}
class ordered_stream {
 public:
  // A write gets the stream and returns its outcome.
  using write = std::function<outcome<void>(message_stream&)>;

  explicit ordered_stream(message_stream stream) : stream_(std::move(stream)) {}

  /// Places a write at the end of the line. Each write needs one later call of
  /// carry_out().
  void line_up(std::shared_ptr<task_state> task, write operation);
  /// Carries out all writes in the line. Returns at once if another thread is already
  /// doing so, since that thread then carries them out.
  void carry_out();

  /// Number of written objects, if it is known now.
  struct object_count {
    TgmObjectCountStatus status;  ///< whether the number is known
    std::size_t count;            ///< valid if the status is OK
  };
  /// Returns the number of objects, or that writes are in progress.
  [[nodiscard]] object_count count() const;

 private:
  // A place in the line.
  struct entry {
    std::shared_ptr<task_state> task;  ///< ends when the write has ended
    write operation;                   ///< the write itself
  };

  mutable std::mutex mutex_;  ///< for the members below
  message_stream
      stream_;  ///< used by the thread that sets busy_; otherwise under `mutex_`
  std::deque<entry> line_;  ///< under `mutex_`
  bool busy_ = false;       ///< a thread carries out writes; under `mutex_`
};

}  // namespace weir::capi
