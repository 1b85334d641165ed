// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of collectives that begin together. All calls are made and checked before the
/// first is enqueued, and calls in one context are enqueued under one hold of the
/// submission lock, so that no other thread comes between them.
#include <algorithm>
#include <utility>

#include "stream/collectives/rank_share.hpp"
#include "weir/tessera/stream/collective.hpp"

namespace weir::tessera {
namespace {

/// A call that has been checked and is ready to be enqueued.
struct made_call {
  std::shared_ptr<stream> target;
  ref<tessera::operation> operation;
};

/// Combines the shares of each stream of one rank into one operation, in the place of the
/// first. Calls without work are removed.
std::vector<made_call> gather_shares(std::vector<made_call> calls) {
  std::vector<made_call> out;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].operation) {
      continue;
    }
    // Calls on streams of a whole mesh stay as they are.
    if (calls[i].target->options().rank < 0) {
      out.push_back(std::move(calls[i]));
      continue;
    }
    std::vector<ref<rank_share>> shares;
    for (std::size_t j = i; j < calls.size(); ++j) {
      if (calls[j].target == calls[i].target && calls[j].operation) {
        // For a stream of one rank, `make_collective` returns nothing but shares.
        shares.emplace_back(static_cast<rank_share*>(calls[j].operation.get()));
        calls[j].operation = {};
      }
    }
    out.push_back({calls[i].target, make_ref<share_group>(std::move(shares))});
  }
  return out;
}

/// Enqueues the calls that belong to one context.
/// @error{invalid_argument; a stream is in a capture of another thread; nothing is
/// enqueued}
result<void> enqueue_all(context& owner, const std::vector<made_call>& calls) {
  std::uint32_t tasks = 0;
  for (const made_call& c : calls) {
    tasks +=
        &c.target->context() == &owner ? c.operation->tasks(c.target->chain_count()) : 0;
  }
  auto in = owner.submission_lock().enter();
  in.reserve(tasks);
  // All streams are checked before anything is enqueued.
  for (const made_call& c : calls) {
    if (&c.target->context() == &owner) {
      WEIR_CHECK(c.target->check_caller());
    }
  }
  for (const made_call& c : calls) {
    if (&c.target->context() == &owner) {
      c.target->enqueue(in, c.operation);
    }
  }
  return {};
}

}  // namespace

// Calls may be on streams of several contexts; each context gets its calls while its
// submission lock is held once.
result<void> enqueue_group(std::span<const grouped_call> calls) {
  std::vector<made_call> made;
  // Nothing is enqueued if any call is refused.
  for (const grouped_call& c : calls) {
    WEIR_TRY(auto operation_of_call, make_collective(*c.target, c.request));
    made.push_back({c.target, std::move(operation_of_call)});
  }
  made = gather_shares(std::move(made));
  // Each context once.
  std::vector<context*> seen;
  for (const made_call& c : made) {
    context& owner = c.target->context();
    if (std::find(seen.begin(), seen.end(), &owner) == seen.end()) {
      seen.push_back(&owner);
      WEIR_CHECK(enqueue_all(owner, made));
    }
  }
  return {};
}

}  // namespace weir::tessera
