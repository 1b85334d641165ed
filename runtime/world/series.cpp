// SPDX-License-Identifier: Apache-2.0
/// @file
/// Series of tasks: what a rank does for the tasks of others that do not concern it.
///
/// A task of another rank concerns this rank if it needs a piece that this rank has
/// written, or if it changes what the ledger of this rank says. In a loop over tiles that
/// is so for the tasks of the neighbours. All others have no effect here, so the tasks of
/// a rank are left out together, after one look at the bytes that all of them access.
#include <utility>

#include <fmt/core.h>

#include "places/access_needs.hpp"
#include "world/ranked.hpp"

namespace weir::runtime {

/// All storages exist, so the tasks of a series do not fail in the middle of it.
result<world::ranked::storages_of_series> world::ranked::find_storages(
    const task_series& all) {
  WEIR_CHECK(check_open());
  storages_of_series out;
  for (std::size_t i = 0; i < all.accesses().size(); ++i) {
    const byte_range hull = all.hull_of(i, 0, all.size());
    WEIR_TRY(const shared_storage* s, find(all.accesses()[i].store, hull.hi));
    out.push_back(s);
  }
  if (const auto last = all.size() - 1;
      last >= 0 && all.executor_of(last, link_.ranks()) >= link_.ranks()) {
    return error(errc::out_of_range,
                 fmt::format("tasks \"{}\" not submitted: expected executors in [0, {}), "
                             "found {} for task {}",
                             all.name(), link_.ranks(),
                             all.executor_of(last, link_.ranks()), last))
        .hint("the tensor that they write has fewer tiles than there are tasks");
  }
  return out;
}

/// One call of the stream, whatever the number of its tasks.
result<void> world::ranked::submit_series(const std::shared_ptr<const task_series>& all) {
  WEIR_TRY(const storages_of_series storages, find_storages(*all));
  mixed_hash call;
  call.add(all->digest());
  call.add(all->name());
  for (std::size_t i = 0; i < storages.size(); ++i) {
    call.add(storages[i]->ordinal);
    call.add(static_cast<std::uint64_t>(all->accesses()[i].mode));
  }
  mixed_hash signature;
  signature.add(call.value());
  signature.add(all->identity());
  WEIR_TRY(const bool later, is_put_off(all->identity() == 0 ? 0 : signature.value()));
  if (later) {
    return {};
  }
  if (records()) {
    recorded_call& one = repetition_.recorded->calls.emplace_back();
    one.signature = signature.value();
    one.hash = call.value();
    one.name = all->name();
    one.series = all;
  }
  return enter_series(call.value(), *all);
}

/// The tasks of a rank that concern this one are entered one by one, in their order, as
/// if each had been submitted by a call.
result<void> world::ranked::enter_series(std::uint64_t hash, const task_series& all) {
  WEIR_TRY(const storages_of_series storages, find_storages(all));
  log_.fold(hash);
  log_.note(all.name());
  const rank_id ranks = link_.ranks();
  const auto concerns = [&](rank_id executor, std::int64_t first, std::int64_t last) {
    for (std::size_t i = 0; i < storages.size(); ++i) {
      const copy_ledger& ledger = storages[i]->ledger;
      const byte_range hull = all.hull_of(i, first, last);
      const access_mode mode = all.accesses()[i].mode;
      // If the executor alone has the bytes, it does not lack them either.
      if (changes_bytes(mode) ? !ledger.has_only(hull.lo, hull.hi, executor)
                              : needs_old_bytes(mode, false) &&
                                    ledger.may_lack(hull.lo, hull.hi, executor)) {
        return true;
      }
    }
    return false;
  };
  std::vector<access> accesses;
  for (std::int64_t task = 0; task < all.size();) {
    const rank_id executor = all.executor_of(task, ranks);
    const std::int64_t end = std::min(all.end_of(executor, ranks), all.size());
    if (executor == link_.rank() || concerns(executor, task, end)) {
      for (; task < end; ++task) {
        WEIR_CHECK(enter_task(all, task, executor, accesses));
      }
    } else {
      const auto left_out = static_cast<std::uint64_t>(end - task);
      steps_ += left_out;
      counters_.foreign_tasks += left_out;
      task = end;
    }
  }
  return {};
}

/// A number without a task counts as a submission, so that all ranks count alike.
result<void> world::ranked::enter_task(const task_series& all, std::int64_t task,
                                       rank_id executor, std::vector<access>& accesses) {
  const world_submission with{executor, 0, false};
  accesses.clear();
  if (!all.find_accesses(task, accesses)) {
    ++steps_;
    return {};
  }
  WEIR_CHECK(enter_accesses(with, all.name(), accesses));
  WEIR_TRY(const bool runs, count_task(with, accesses.size()));
  return runs ? all.start(task, steps_) : result<void>();
}

}  // namespace weir::runtime
