// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening a folder of checkpoints, writing checkpoints, and the handlers of the actor's
/// messages.
#include "checkpointer/checkpointer.hpp"

#include "checkpointer/contents.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {

/// Opens the folder for writing and loads the newest checkpoint that is sound. Damaged
/// ones are skipped, which becomes a warning and no failure, because an older checkpoint
/// is better than none. A new run refuses a folder that has checkpoints, so it cannot
/// overwrite those of another run.
result<store_info> checkpointer_state::open(const store_spec& spec) {
  WEIR_TRY(auto store, storage::checkpoint_store::open(
                           *fs_, spec.folder, storage::checkpoint_store::role::writer));
  store_info info;
  WEIR_TRY(const auto generations, store.list());
  if (!generations.empty() && !spec.may_exist) {
    return error(errc::already_exists,
                 "beginning a run failed: expected a folder without checkpoints, "
                 "found " +
                     generations.front().path)
        .hint("continue it with `weir resume`, or choose another folder with --out");
  }
  if (!generations.empty()) {
    WEIR_TRY(auto newest, store.load_newest());
    for (const error& skipped : newest.skipped()) {
      info.warnings.push_back(skipped.message());
    }
    info.newest = std::make_shared<const storage::checkpoint>(std::move(newest));
  }
  store_.emplace(std::move(store));
  return info;
}

/// Writes a checkpoint. The sections refer to the order, which lives until the call
/// returns, so a large snapshot is not copied.
result<save_done> checkpointer_state::save(const save_order& order) {
  if (!store_) {
    return error(errc::stopping,
                 "saving a checkpoint failed: expected an open folder, found none");
  }
  save_done done;
  done.start_ns = now_ns();
  done.pulse_id = order.snapshot->pulses;
  const checkpoint_contents contents(order);
  WEIR_TRY(done.generation, store_->save(contents.sections, done.pulse_id));
  done.end_ns = now_ns();
  return done;
}

checkpointer_actor::behavior_type checkpointer_io(
    checkpointer_actor::stateful_pointer<checkpointer_shell> self,
    checkpointer_config config) {
  install_defaults(self);
  self->state.core.emplace(*config.fs);
  return {
      answers(
          "checkpointer, save",
          [self](save_atom, const local<save_order>& order) -> result<local<save_done>> {
            WEIR_TRY(auto done, self->state.core->save(*order));
            return by_reference(done);
          }),
      answers(
          "checkpointer, open",
          [self](open_atom, const local<store_spec>& spec) -> result<local<store_info>> {
            WEIR_TRY(auto info, self->state.core->open(*spec));
            return by_reference(std::move(info));
          }),
  };
}

}  // namespace weir::actors
