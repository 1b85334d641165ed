// SPDX-License-Identifier: Apache-2.0
/// @file
/// Steps of operations whose work devices do while workers go on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

/// Work that one step of an operation has given to a device. The task of the step ends
/// with the last piece of the work, on the thread that completes it; workers do not wait.
/// @threads{`give`, `refuse` and `close`: the thread of the step}
class device_step : public std::enable_shared_from_this<device_step> {
 public:
  /// Receives the first error of the work, if there is one, before the task ends.
  using outcome_call = std::function<void(std::optional<error>)>;

  /// Keeps the task of the running step of `owner` from ending. @pre called in a step
  /// @throws std::bad_alloc without memory for the engine's table of such tasks
  device_step(operation& owner, outcome_call at_end);
  device_step(const device_step&) = delete;
  device_step& operator=(const device_step&) = delete;

  /// Gives a piece of work to the devices. `keeps` is released when the piece has ended.
  void give(device_backend& to, const device_work& work,
            std::shared_ptr<const void> keeps = nullptr);
  /// Returns the completion of a piece of work that another object gives to devices. It
  /// must be called exactly once.
  [[nodiscard]] completion piece(std::shared_ptr<const void> keeps = nullptr);
  /// Notes an error that kept the rest of the work from being given.
  void refuse(error why);
  /// Says that there is no more work.
  void close() { ended(last_piece, {}); }

 private:
  static constexpr std::uint32_t last_piece = ~std::uint32_t{0};
  void ended(std::uint32_t piece, result<void> outcome);
  void finish() noexcept;

  operation& owner_;
  outcome_call at_end_;
  bool owns_ = false;  ///< the step has a reference to the operation
  runtime::completion task_;
  std::uint32_t given_ = 0;
  std::mutex mutex_;
  std::uint32_t left_ = 1;                   ///< pieces, and `close`
  std::uint32_t first_failed_ = last_piece;  ///< lowest piece that has failed
  std::optional<error> why_;                 ///< its error
};

template <class Give>
void operation::run_later(device_chains& chains, unsigned chain, Give&& give) noexcept {
  if (!may_run(chains, chain)) {
    pass_failure_on(chains, chain);
    return;
  }
  const std::int64_t start = begin();
  std::shared_ptr<device_step> step;
  auto outcome = guarded([&]() -> result<void> {
    const auto at_end = [this, &chains, chain, start](std::optional<error> why) {
      if (why) {
        fail(chains.chain_of(chain), *std::move(why));
      }
      observe(chain, start);
      pass_failure_on(chains, chain);
    };
    step = std::make_shared<device_step>(*this, at_end);
    return give(*step);
  });
  if (step == nullptr) {
    fail(chains.chain_of(chain), std::move(outcome).error());
    pass_failure_on(chains, chain);
    return;
  }
  if (!outcome) {
    step->refuse(std::move(outcome).error());
  }
  step->close();
}

}  // namespace weir::tessera
