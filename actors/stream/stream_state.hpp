// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stream actor without actors: one queue, what is known to have ended, who waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stream/landmarks.hpp"
#include "weir/actors/streams.hpp"

namespace weir::actors {

/// @threads{thread-compatible; what it hears of its operations comes from workers}
class stream_state {
 public:
  using ticket = std::uint64_t;
  struct answer {
    ticket asked = 0;
    result<std::uint64_t> outcome;
  };

  /// `ended` is called by workers when it is worth to look for answers; it neither blocks
  /// nor throws. @error{invalid_argument, no mesh, no window or no such rank}
  [[nodiscard]] static result<std::unique_ptr<stream_state>> make(
      queue_spec spec, std::function<void()> ended);
  /// What is enqueued still runs.
  ~stream_state();
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  /// Number of the operation in its queue. @error{out_of_range, more operations than the
  /// window; as of tessera::make_launch}
  [[nodiscard]] result<std::uint64_t> launch(const launch_order& order);
  /// 0 where there is nothing to do. @error{out_of_range; as of tessera::make_copy}
  [[nodiscard]] result<std::uint64_t> copy(const copy_order& order);
  [[nodiscard]] event_ptr record();
  [[nodiscard]] result<std::uint64_t> wait(const tessera::event& point);

  /// Asks for an answer when everything before has ended.
  [[nodiscard]] ticket synchronize(std::int64_t now_ns);
  /// What has ended or is overdue since the last call, in the order asked for.
  [[nodiscard]] std::vector<answer> take_answers(std::int64_t now_ns);
  /// When somebody's time is over next; the largest number if nobody waits.
  [[nodiscard]] std::int64_t next_deadline() const noexcept;
  [[nodiscard]] std::string describe();

 private:
  struct asked {
    ticket number = 0;
    tessera::ref<settling> end;
    std::uint64_t operations = 0;
    std::int64_t deadline_ns = 0;
    bool answered = false;
  };
  struct mark {
    tessera::ref<tessera::point> at;
    std::uint64_t operations = 0;
  };
  stream_state(queue_spec spec, std::function<void()> ended)
      : spec_(std::move(spec)), ended_call_(std::move(ended)) {}
  [[nodiscard]] result<void> check_window(const char* what);
  std::uint64_t enqueue(tessera::ref<tessera::operation> what,
                        const std::shared_ptr<const void>& holder);
  void look_at_marks();
  [[nodiscard]] result<std::uint64_t> outcome_of(const asked& a);

  queue_spec spec_;
  std::function<void()> ended_call_;
  std::shared_ptr<tessera::stream> queue_;
  std::uint64_t operations_ = 0;
  std::uint64_t ended_ = 0;   ///< of them, as far as is known
  std::deque<mark> marks_;    ///< by which credits come back
  std::deque<asked> asked_;   ///< not ended yet
  tessera::failure unheard_;  ///< of synchronizations whose time was over
  std::uint64_t tickets_ = 0;
};

}  // namespace weir::actors
