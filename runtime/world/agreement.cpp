// SPDX-License-Identifier: Apache-2.0
/// @file
/// Waits of a world: all ranks compare their streams and agree on the oldest failure.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "world/ranked.hpp"

namespace weir::runtime {
namespace {

/// Copies as much of a text as fits in front of a zero.
template <std::size_t Size>
void put_text(std::array<char, Size>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), Size - 1), to.begin());
}

}  // namespace

/// Keeps the failure with the lowest step. Kernels of several workers call it.
void world::ranked::note_failure(std::uint64_t step, const char* name,
                                 const error& cause) {
  const std::lock_guard lock(mutex_);
  if (failure_.failed_step != 0 && failure_.failed_step <= step) {
    return;
  }
  failure_.failed_step = step;
  failure_.code = static_cast<std::uint32_t>(
      cause.code() == errc::timeout || cause.code() == errc::collective_mismatch
          ? cause.code()
          : errc::kernel_failed);
  put_text(failure_.name, name);
  put_text(failure_.text, cause.text());
}

/// Ends the use of the transport. Tasks that use pieces end before the pieces do.
error world::ranked::fail(error cause) {
  link_.close_channel(data_);
  link_.close_channel(control_);
  held_.clear();
  static_cast<void>(tasks_.wait_all());
  sends_.clear();
  receives_.clear();
  broken_ = cause;
  return cause;
}

/// Sends the own report to all ranks and returns the reports of all. Tasks and pieces
/// move on meanwhile, because other ranks may need them before they come to the exchange.
result<std::vector<rank_report>> world::ranked::exchange(const rank_report& own) {
  const message_key key{control_, exchanges_++};
  std::vector<rank_report> all(link_.ranks());
  all[link_.rank()] = own;
  std::vector<transfer_id> open;
  for (rank_id r = 0; r < link_.ranks(); ++r) {
    if (r == link_.rank()) {
      continue;
    }
    const auto out = std::as_bytes(std::span(&own, 1));
    auto sent = link_.send(r, key, out);
    auto begun =
        sent ? link_.receive(r, key, std::as_writable_bytes(std::span(&all[r], 1)))
             : std::move(sent);
    if (!begun) {
      return fail(std::move(begun).error());
    }
    open.push_back(*begun);
    if (sent) {
      open.push_back(*sent);
    }
  }
  while (!open.empty()) {
    std::vector<transfer_end> ended;
    link_.poll(control_, ended);
    for (transfer_end& one : ended) {
      if (!one.outcome) {
        return fail(std::move(one.outcome).error());
      }
      std::erase(open, one.id);
    }
    if (!open.empty()) {
      if (auto moved = advance(); !moved) {
        return std::move(moved).error();
      }
    }
  }
  return all;
}

/// Compares the streams before pieces are awaited that no rank may send.
result<void> world::ranked::check_equal_streams() {
  rank_report own;
  own.steps = steps_;
  own.fold = fold_;
  put_text(own.name, newest_);
  WEIR_TRY(const auto all, exchange(own));
  for (rank_id r = 1; r < all.size(); ++r) {
    if (all[r].steps != all[0].steps || all[r].fold != all[0].fold) {
      return fail(
          error(errc::collective_mismatch,
                fmt::format("ranks 0 and {} differ: expected {} tasks, the last one "
                            "\"{}\", found {}, the last one \"{}\"",
                            r, all[0].steps, all[0].name.data(), all[r].steps,
                            all[r].name.data()))
              .hint("control flow, names and accesses must be the same on all ranks"));
    }
  }
  return {};
}

/// Returns the failure that is oldest in the stream, the same on all ranks.
result<void> world::ranked::agree() {
  rank_report own;
  {
    const std::lock_guard lock(mutex_);
    own = std::exchange(failure_, {});
  }
  WEIR_TRY(const auto all, exchange(own));
  const rank_report* oldest = nullptr;
  rank_id failed = 0;
  for (rank_id r = 0; r < all.size(); ++r) {
    if (all[r].failed_step != 0 &&
        (oldest == nullptr || all[r].failed_step < oldest->failed_step)) {
      oldest = &all[r];
      failed = r;
    }
  }
  if (oldest == nullptr) {
    return {};
  }
  return error(
      static_cast<errc>(oldest->code),
      fmt::format("step {} \"{}\" failed on rank {}: expected success, found: {}",
                  oldest->failed_step, oldest->name.data(), failed, oldest->text.data()));
}

result<void> world::ranked::wait() {
  if (broken_) {
    return *broken_;
  }
  WEIR_CHECK(check_equal_streams());
  WEIR_CHECK(drain());
  return agree();
}

}  // namespace weir::runtime
