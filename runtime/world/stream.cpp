// SPDX-License-Identifier: Apache-2.0
/// @file
/// One rank's view of the stream: pieces that it sends and receives, tasks that it runs,
/// and how they move on.
///
/// All ranks make the same calls, so each knows who holds the bytes that it wrote, who
/// wrote the others, and which of those it has. A submission with executor r needs, for
/// each access, pieces that r lacks:
///
///   1. find_missing(access, r): the same pieces in the same order on r and on the writer
///   2. the writer of a piece submits a send task, r submits a receive task
///   3. the ledger notes that r holds them; for writes, that only r holds them
///   4. r alone submits the task itself; the engine orders it behind the receives
///
/// No message asks for a piece: sender and receiver derive each message from the stream.
///
/// The second half of the file moves a rank on: it polls the transport, runs tasks,
/// answers questions, and lets other worlds move on.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "places/access_needs.hpp"
#include "places/byte_runs.hpp"
#include "weir/base/clock.hpp"
#include "world/ranked.hpp"

namespace weir::runtime {
namespace {

/// Time that a rank waits for the end of a task before it polls again.
constexpr std::int64_t idle_ns = 50'000;
/// Number of idle rounds after which a rank asks others for their calls; a power of two.
/// It asks again each time that the number has doubled.
constexpr std::uint64_t rounds_before_question = 64;

/// Generation and index together are unique.
std::uint64_t key_of_storage(storage_id id) noexcept {
  return (std::uint64_t{id.generation} << 32U) | id.index;
}

/// Returns the hash of a call with one number, which differs from that of another call
/// with the same number.
std::uint64_t hash_of_call(const char* name, std::uint64_t number) noexcept {
  mixed_hash h;
  h.add(name);
  h.add(number);
  return h.value();
}

/// Returns the transport, whose ranks a ledger can hold. The world opens no channel and
/// adds no poller before it is known that it can be made.
transport& with_ranks_of_a_world(transport& link) {
  WEIR_EXPECT(link.ranks() <= copy_ledger::max_holders);
  return link;
}

/// Returns true if a task sees or leaves old bytes of its access `index`.
///
/// Only the first 64 accesses can be marked as overwriting.
bool sees_old_bytes(const access& a, std::size_t index, std::uint64_t overwrites) {
  const bool whole = index < 64 && (overwrites >> index & 1) != 0;
  return needs_old_bytes(a.mode, whole);
}

}  // namespace

/// The order of the members matters: channels are opened in the same order on all ranks.
world::ranked::ranked(engine& tasks, transport& link)
    : tasks_(tasks),
      link_(with_ranks_of_a_world(link)),
      pieces_(tasks, link,
              [this](std::uint64_t step, const char* name, const error& cause) {
                note_failure(step, name, cause);
              }),
      control_(link.open_channel()),
      poller_(tasks.add_poller([this] { return pieces_.poll(); })),
      sent_to_(link.ranks()),
      received_from_(link.ranks()),
      inquiry_(link),
      stop_(link) {
  link.enter(*this);
}

/// Tasks that have been started use the pieces, so they end first.
///
/// The other ranks are told, so that they do not wait for pieces of this one.
world::ranked::~ranked() {
  link_.leave(*this);
  const error cause(errc::stopping,
                    fmt::format("rank {} sends nothing more: expected its world to "
                                "live, found that it has ended",
                                link_.rank()));
  static_cast<void>(end(cause, cause));
  tasks_.remove_poller(poller_);
}

/// A storage has the same bytes on all ranks: zeros.
result<storage> world::ranked::allocate(std::int64_t bytes, std::string_view owner) {
  WEIR_CHECK(disturb());
  WEIR_TRY(const storage s, tasks_.allocate(bytes, owner));
  const std::array<std::int64_t, 1> shape{bytes};
  WEIR_TRY(const tensor all, tensor::over(s, dtype::uint8, shape));
  // The ledger begins with rank 0 as the writer; all ranks have the zeros.
  copy_ledger ledger(bytes, 0, link_.rank());
  ledger.copied(all.bytes(), 1, link_.ranks() - 1);
  storages_.try_emplace(key_of_storage(s.id),
                        // The ordinal is the same on all ranks, the id may not be.
                        shared_storage{s, std::move(ledger), ++ordinals_});
  log_.fold(hash_of_call("allocate", static_cast<std::uint64_t>(bytes)));
  log_.note("allocate");
  return s;
}

/// All tasks end before: other worlds move on meanwhile, and other ranks are asked for
/// their calls, which the engine's own wait would not do.
/// Releasing is part of the log of calls, so ranks that release different storages
/// differ.
result<void> world::ranked::release(storage_id id) {
  if (!broken_) {
    WEIR_CHECK(end_steps());
  }
  if (const auto s = storages_.find(key_of_storage(id)); s != storages_.end()) {
    log_.fold(hash_of_call("release", s->second.ordinal));
    log_.note("release");
  }
  // Tasks may still use the memory.
  while (tasks_.in_flight() != 0 && !broken_) {
    WEIR_CHECK(advance());
  }
  storages_.erase(key_of_storage(id));
  return tasks_.release(id);
}

/// Returns the storage if the bytes below `end` are inside of it.
result<world::ranked::shared_storage*> world::ranked::find(storage_id id,
                                                           std::int64_t end) {
  const auto it = storages_.find(key_of_storage(id));
  if (it == storages_.end() || end > it->second.local.size) {
    return error(errc::not_found,
                 fmt::format("access of a task refused: expected bytes of a storage that "
                             "the world has allocated, found index {} generation {} and "
                             "last byte {}",
                             id.index, id.generation, end));
  }
  return &it->second;
}

/// Checks that the world takes submissions.
result<void> world::ranked::check_open() {
  if (broken_) {
    return error(errc::stopping,
                 "task not submitted: expected a world without a "
                 "failure of a rank, found one")
        .because(*broken_);
  }
  // The capture would contain tasks of the world with numbers that a replay must not
  // repeat.
  if (tasks_.is_capturing() && !records()) {
    return error(errc::unsupported,
                 "task not submitted: expected an engine without a capture of the "
                 "program, found one that has begun")
        .hint(
            "call end_capture first; steps between begin_step and end_step are "
            "recorded by the world itself");
  }
  return {};
}

/// Checks a submission before it changes anything.
result<void> world::ranked::check(const world_submission& with,
                                  std::span<const access> accesses) {
  WEIR_CHECK(check_open());
  if (with.executor >= link_.ranks()) {
    return error(errc::out_of_range,
                 fmt::format("task not submitted: expected an executor in [0, {}), found "
                             "{}",
                             link_.ranks(), with.executor));
  }
  for (const access& a : accesses) {
    WEIR_CHECK(find(a.bytes.id, a.bytes.hi));
  }
  return {};
}

/// Returns the hash of a submission that ranks compare. Storages count by their order,
/// since ids may differ between ranks. @pre check(with, accesses)
std::uint64_t world::ranked::hash_of(const world_submission& with, const char* name,
                                     std::span<const access> accesses) const {
  mixed_hash h;
  // Everything on which the movement of pieces depends is part of the hash: executor,
  // bytes and modes. The numbers of a footprint describe it completely.
  h.add(with.executor);
  h.add(with.overwrites);
  h.add(with.everywhere ? 1 : 0);
  h.add(name);
  for (const access& a : accesses) {
    const footprint& f = a.bytes;
    h.add(storages_.at(key_of_storage(f.id)).ordinal);
    h.add(static_cast<std::uint64_t>(a.mode));
    // The footprint counts completely.
    for (const std::int64_t number : {f.lo, f.hi, f.run, std::int64_t{f.depth}}) {
      h.add(static_cast<std::uint64_t>(number));
    }
    for (std::size_t i = 0; i < f.depth; ++i) {
      h.add(static_cast<std::uint64_t>(f.steps[i].stride));
      h.add(static_cast<std::uint64_t>(f.steps[i].count));
    }
  }
  return h.value();
}

/// Kernels of other ranks do not matter to this rank.
///
/// Returns whether the caller must start the kernel now. `identity` stands for the
/// kernel and its arguments; 0 means that it is not known.
result<bool> world::ranked::submit(const world_submission& with, const char* name,
                                   std::span<const access> accesses,
                                   std::uint64_t identity) {
  WEIR_CHECK(check(with, accesses));
  const std::uint64_t hash = hash_of(with, name, accesses);
  // Does this rank run it?
  const bool own = with.everywhere || with.executor == link_.rank();
  mixed_hash signature;
  signature.add(hash);
  signature.add(own ? identity : 1);
  // A call whose kernel is unknown cannot be deferred.
  WEIR_TRY(const bool later, is_put_off(own && identity == 0 ? 0 : signature.value()));
  if (later) {
    return false;
  }
  // The recording keeps what a later submission needs.
  if (records()) {
    repetition_.recorded->calls.push_back(
        {signature.value(), hash, with, name, {accesses.begin(), accesses.end()}});
  }
  WEIR_CHECK(enter(hash, with, name, accesses));
  return count_task(with, accesses.size());
}

/// Prepares a submission with a signature, 0 if it is unknown. Returns true if it is made
/// later, with the others of its period.
result<bool> world::ranked::is_put_off(std::uint64_t signature) {
  if (repetition_.in_step) {
    return defers(signature);
  }
  WEIR_CHECK(disturb());
  note_ledger_change();
  return false;
}

/// Counts a task, and waits until the engine takes it if this rank runs it.
/// `accesses` is the number of accesses, for which the engine needs space, too.
result<bool> world::ranked::count_task(const world_submission& with,
                                       std::size_t accesses) {
  if (!with.everywhere && with.executor != link_.rank()) {
    ++counters_.foreign_tasks;
    return false;
  }
  ++counters_.own_tasks;
  ++repetition_.recorded_tasks;
  WEIR_CHECK(wait_for_space(accesses));
  return true;
}

/// A bring is a submission without a kernel that all ranks need the bytes for.
result<void> world::ranked::bring(std::span<const access> accesses) {
  const world_submission everywhere{0, 0, true};
  WEIR_CHECK(check(everywhere, accesses));
  WEIR_CHECK(disturb());
  note_ledger_change();
  return enter(hash_of(everywhere, "bring", accesses), everywhere, "bring", accesses);
}

/// Enters a submission in the log of calls.
result<void> world::ranked::enter(std::uint64_t hash, const world_submission& with,
                                  const char* name, std::span<const access> accesses) {
  log_.fold(hash);
  log_.note(name);
  return enter_accesses(with, name, accesses);
}

/// Moves the pieces that a submission needs, and notes what it writes.
/// A task that runs everywhere fetches the pieces for each rank in turn. A plain write of
/// all bytes needs no old ones.
result<void> world::ranked::enter_accesses(const world_submission& with, const char* name,
                                           std::span<const access> accesses) {
  ++steps_;
  needs_pieces_ = false;
  // The ranks that run the task.
  const rank_id first = with.everywhere ? 0 : with.executor;
  const rank_id last = with.everywhere ? link_.ranks() - 1 : with.executor;
  for (rank_id r = first; r <= last; ++r) {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      // For each rank and access, the bytes that this rank lacks.
      if (sees_old_bytes(accesses[i], i, with.overwrites)) {
        WEIR_TRY(shared_storage * s, find(accesses[i].bytes.id, accesses[i].bytes.hi));
        WEIR_CHECK(fetch(*s, accesses[i].bytes, r, name));
      }
    }
  }
  WEIR_CHECK(note_writes(accesses, first, last));
  // Polls now and then, so that messages do not pile up.
  if (pieces_.any_open() || steps_ % steps_between_polls == 0) {
    WEIR_CHECK(move_on());
  }
  return {};
}

/// Waits until the engine takes one more task without waiting.
/// The engine would wait itself, but without polling the transport, and a task in front
/// may need a message.
result<void> world::ranked::wait_for_space(std::size_t accesses) {
  while (!tasks_.accepts(accesses) && tasks_.in_flight() != 0) {
    WEIR_CHECK(advance());
  }
  return {};
}

/// Notes that the ranks from `first` to `last` have the new bytes, and no other rank.
result<void> world::ranked::note_writes(std::span<const access> accesses, rank_id first,
                                        rank_id last) {
  for (const access& a : accesses) {
    // Reads leave the ledger as it is.
    if (!changes_bytes(a.mode)) {
      continue;
    }
    WEIR_TRY(shared_storage * s, find(a.bytes.id, a.bytes.hi));
    // First the writer, which takes the bytes from all others; then the further ranks.
    s->ledger.wrote(a.bytes, first);
    if (first != last) {
      s->ledger.copied(a.bytes, first, last);
    }
  }
  return {};
}

/// Every rank finds the same pieces in the same order; each acts on its own alone.
/// `to` is the rank that needs the bytes and `name` the task for which it needs them.
result<void> world::ranked::fetch(shared_storage& s, const footprint& bytes, rank_id to,
                                  const char* name) {
  missing_.clear();
  // `missing_` is kept between calls to avoid allocations.
  s.ledger.find_missing(bytes, to, missing_);
  for (const missing_piece& piece : missing_) {
    if (piece.from == link_.rank()) {
      WEIR_CHECK(move_piece(s, piece.bytes, to, name, true));
    } else if (to == link_.rank()) {
      needs_pieces_ = true;
      WEIR_CHECK(move_piece(s, piece.bytes, piece.from, name, false));
    }
    // The next access finds the bytes there.
    s.ledger.copied(piece.bytes, to);
  }
  return {};
}

/// A send or a receive becomes a task of this rank.
result<void> world::ranked::move_piece(const shared_storage& s, const footprint& bytes,
                                       rank_id other, const char* name, bool sends) {
  WEIR_CHECK(wait_for_space(1));
  piece_order what;
  what.bytes = bytes;
  what.base = s.local.base;
  what.other = other;
  // Messages between two ranks are numbered in each direction.
  what.number = sends ? sent_to_[other]++ : received_from_[other]++;
  what.step = steps_;
  what.name = name;
  what.sends = sends;
  if (sends) {
    ++counters_.pieces_sent;
    counters_.bytes_sent += byte_count(bytes);
  }
  // In a recording, the number finds the piece of a replay.
  std::size_t number = 0;
  if (records()) {
    number = repetition_.recorded->pieces.size();
    repetition_.recorded->pieces.push_back(what);
    ++repetition_.recorded_tasks;
  }
  auto begun = pieces_.submit(what, number);
  return begun ? result<void>() : fail(std::move(begun).error());
}

/// Moves on, or runs a task, or lets other worlds move on, or waits a short time. The
/// other worlds may wait as well and then move this one on, which may find a failure.
/// Returns after one step of work or a short sleep; callers test their condition again.
result<void> world::ranked::advance() {
  if (broken_) {
    return *broken_;
  }
  WEIR_TRY(const bool moved, move_on_at_times());
  ++waits_inside_;
  // The order prefers what ends waits of others.
  const bool any = moved || tasks_.run_one() || link_.move_others_on(*this);
  --waits_inside_;
  if (any) {
    idle_rounds_ = 0;
    end_idle();
    return {};
  }
  // A rank without a task looks for messages at once.
  WEIR_TRY(const bool arrived, move_on());
  if (arrived) {
    idle_rounds_ = 0;
    end_idle();
    return {};
  }
  begin_idle();
  WEIR_CHECK(question_others());
  tasks_.idle(idle_ns);
  return {};
}

/// Begins to measure if the rank has nothing to do because of a piece.
/// The clock is read only when the rank becomes idle, not in each round.
void world::ranked::begin_idle() {
  if (idle_since_ != 0) {
    return;
  }
  if (const auto awaited = pieces_.oldest_awaited()) {
    idle_since_ = now_ns();
    idle_for_ = awaited->from;
    idle_task_ = awaited->task;
  }
}

/// Counts the time since `begin_idle`.
/// The longest wait keeps the name of the task, which helps to find the slow rank.
void world::ranked::end_idle() {
  if (idle_since_ == 0) {
    return;
  }
  const std::int64_t length = now_ns() - std::exchange(idle_since_, 0);
  ++counters_.waits;
  counters_.waited_ns += length;
  if (length > counters_.longest_ns) {
    counters_.longest_ns = length;
    counters_.longest_for = idle_for_;
    counters_.longest_task.fill('\0');
    std::strncpy(counters_.longest_task.data(), idle_task_,
                 counters_.longest_task.size() - 1);
  }
}

/// Answers questions of other ranks, and asks them now and then, since a rank that has
/// made other calls may never send the piece that is awaited.
/// The number of rounds between two questions doubles, so that a long wait costs few
/// messages.
result<void> world::ranked::question_others() {
  if (link_.is_pretended()) {
    return {};
  }
  ++idle_rounds_;
  const bool asks =
      idle_rounds_ >= rounds_before_question && std::has_single_bit(idle_rounds_);
  auto equal = inquiry_.move_on(log_);
  if (equal && asks) {
    equal = inquiry_.ask();
  }
  if (equal) {
    equal = stop_.move_on();
  }
  return equal ? result<void>() : fail(std::move(equal).error());
}

/// Does not ask other ranks, but answers them. A failure is reported by the next call.
///
/// Called when another world of this process waits.
bool world::ranked::move_on_for_others() {
  if (broken_) {
    return false;
  }
  const auto moved = move_on();
  if (moved && !*moved) {
    auto answered = inquiry_.move_on(log_);
    if (answered) {
      answered = stop_.move_on();  // a rank may hold at its boundary until then
    }
    if (!answered) {
      static_cast<void>(fail(std::move(answered).error()));
      return true;
    }
  }
  // Something has happened, even if it was a failure.
  if (!moved || *moved || tasks_.run_one()) {
    held_rounds_ = 0;
    return true;
  }
  return submit_deferred_for_others();
}

/// Returns true if a transfer has ended.
/// A failure of a send ends the world, because the receiver would wait for ever.
result<bool> world::ranked::move_on() {
  const bool moved = pieces_.poll();
  if (pieces_.has_failed()) {
    return fail(std::move(*pieces_.failure()));
  }
  return moved;
}

/// Moves on unless a thread that runs tasks has polled not long ago.
result<bool> world::ranked::move_on_at_times() {
  return pieces_.polled_lately() ? result<bool>(false) : move_on();
}

/// Waits until all tasks have ended and all messages have come. Polls meanwhile, as a
/// sign of life. A failure of the engine counts behind those that have been noted with
/// their steps.
result<void> world::ranked::drain() {
  while (tasks_.in_flight() != 0 || pieces_.any_open()) {
    WEIR_CHECK(advance());
  }
  // The poll that has ended the last send may have been that of a worker.
  if (pieces_.has_failed()) {
    return fail(std::move(*pieces_.failure()));
  }
  // The engine reports failures of tasks without a step.
  if (const auto all = tasks_.wait_all(); !all) {
    note_failure(rank_report::no_step, "", all.error());
  }
  return {};
}

}  // namespace weir::runtime
