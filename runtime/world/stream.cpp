// SPDX-License-Identifier: Apache-2.0
/// @file
/// One rank's view of the stream: pieces that it sends and receives, tasks that it runs,
/// and how they move on.
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

/// Entries of the stream that wait before `submit` waits too.
constexpr std::size_t max_held = 1024;
/// Submissions between two polls while nothing is on its way.
constexpr std::uint64_t steps_between_polls = 64;
/// Time that a rank waits for the end of a task before it polls again.
constexpr std::int64_t idle_ns = 50'000;
/// Number of idle rounds after which a rank asks others for their calls; a power of two.
/// It asks again each time that the number has doubled.
constexpr std::uint64_t rounds_before_question = 64;

std::uint64_t key_of_storage(storage_id id) noexcept {
  return (std::uint64_t{id.generation} << 32U) | id.index;
}

/// Gathers the blocks of a piece.
void pack(outgoing_piece& piece) {
  std::byte* to = piece.packed.data();
  for_each_run(piece.bytes, [&](std::int64_t lo, std::int64_t hi) {
    std::memcpy(to, piece.base + lo, static_cast<std::size_t>(hi - lo));
    to += hi - lo;
  });
  piece.is_packed.store(true, std::memory_order_release);
}

/// Scatters the blocks of a piece.
void unpack(const incoming_piece& piece) {
  const std::byte* from = piece.packed.data();
  for_each_run(piece.bytes, [&](std::int64_t lo, std::int64_t hi) {
    std::memcpy(piece.base + lo, from, static_cast<std::size_t>(hi - lo));
    from += hi - lo;
  });
}

/// Returns true if a task sees or leaves old bytes of its access `index`.
bool sees_old_bytes(const access& a, std::size_t index, std::uint64_t overwrites) {
  const bool whole = index < 64 && (overwrites >> index & 1) != 0;
  return needs_old_bytes(a.mode, whole);
}

}  // namespace

world::ranked::ranked(engine& tasks, transport& link)
    : tasks_(tasks),
      link_(link),
      data_(link.open_channel()),
      control_(link.open_channel()),
      sent_to_(link.ranks()),
      received_from_(link.ranks()),
      inquiry_(link) {
  WEIR_EXPECT(link.ranks() <= copy_ledger::max_holders);
  link.enter(*this);
}

/// Tasks that have been started use the pieces, so they end first.
world::ranked::~ranked() {
  link_.leave(*this);
  const error cause(errc::stopping,
                    fmt::format("rank {} sends nothing more: expected its world to "
                                "live, found that it has ended",
                                link_.rank()));
  static_cast<void>(end(cause, cause));
}

result<storage> world::ranked::allocate(std::int64_t bytes, std::string_view owner) {
  WEIR_TRY(const storage s, tasks_.allocate(bytes, owner));
  const std::array<std::int64_t, 1> shape{bytes};
  WEIR_TRY(const tensor all, tensor::over(s, dtype::uint8, shape));
  copy_ledger ledger(bytes, 0);
  for (rank_id r = 1; r < link_.ranks(); ++r) {  // all ranks have the zeros
    ledger.copied(all.bytes(), r);
  }
  storages_.try_emplace(key_of_storage(s.id),
                        shared_storage{s, std::move(ledger), ++ordinals_});
  log_.fold(static_cast<std::uint64_t>(bytes));
  log_.note("allocate");
  return s;
}

/// Entries that are held back may use the storage, so they are started first.
result<void> world::ranked::release(storage_id id) {
  if (const auto s = storages_.find(key_of_storage(id)); s != storages_.end()) {
    log_.fold(s->second.ordinal);
    log_.note("release");
  }
  while (!held_.empty() && !broken_) {
    WEIR_CHECK(advance());
  }
  storages_.erase(key_of_storage(id));
  return tasks_.release(id);
}

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

/// Checks a submission before it changes anything.
result<void> world::ranked::check(const world_submission& with,
                                  std::span<const access> accesses) {
  if (broken_) {
    return error(errc::stopping,
                 "task not submitted: expected a world without a "
                 "failure of a rank, found one")
        .because(*broken_);
  }
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

/// Mixes a submission into the hash that ranks compare. Storages count by their order,
/// since ids may differ between ranks.
void world::ranked::fold_submission(const world_submission& with, const char* name,
                                    std::span<const access> accesses) {
  log_.fold(with.executor);
  log_.fold(with.overwrites);
  log_.fold(with.everywhere ? 1 : 0);
  log_.fold(name);
  for (const access& a : accesses) {
    const footprint& f = a.bytes;
    log_.fold(storages_.at(key_of_storage(f.id)).ordinal);
    log_.fold(static_cast<std::uint64_t>(a.mode));
    for (const std::int64_t number : {f.lo, f.hi, f.run, std::int64_t{f.depth}}) {
      log_.fold(static_cast<std::uint64_t>(number));
    }
    for (std::size_t i = 0; i < f.depth; ++i) {
      log_.fold(static_cast<std::uint64_t>(f.steps[i].stride));
      log_.fold(static_cast<std::uint64_t>(f.steps[i].count));
    }
  }
  log_.note(name);
}

result<void> world::ranked::submit(const world_submission& with, const char* name,
                                   std::span<const access> accesses, start run) {
  WEIR_CHECK(check(with, accesses));
  ++steps_;
  fold_submission(with, name, accesses);
  const rank_id first = with.everywhere ? 0 : with.executor;
  const rank_id last = with.everywhere ? link_.ranks() - 1 : with.executor;
  for (rank_id r = first; r <= last; ++r) {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (sees_old_bytes(accesses[i], i, with.overwrites)) {
        WEIR_TRY(shared_storage * s, find(accesses[i].bytes.id, accesses[i].bytes.hi));
        WEIR_CHECK(fetch(*s, accesses[i].bytes, r, name));
      }
    }
  }
  WEIR_CHECK(note_writes(accesses, first, last));
  if (run) {
    ++counters_.own_tasks;
    held_.push_back({nullptr, nullptr, std::move(run), steps_, name});
  } else if (!with.everywhere) {
    ++counters_.foreign_tasks;
  }
  const bool quiet = held_.empty() && sends_.empty() && receives_.empty();
  if (quiet && steps_ % steps_between_polls != 0) {
    return {};
  }
  WEIR_CHECK(move_on());
  while (held_.size() > max_held) {
    WEIR_CHECK(advance());
  }
  return {};
}

/// Notes that the ranks from `first` to `last` have the new bytes, and no other rank.
result<void> world::ranked::note_writes(std::span<const access> accesses, rank_id first,
                                        rank_id last) {
  for (const access& a : accesses) {
    if (!changes_bytes(a.mode)) {
      continue;
    }
    WEIR_TRY(shared_storage * s, find(a.bytes.id, a.bytes.hi));
    s->ledger.wrote(a.bytes, first);
    for (rank_id r = first + 1; r <= last; ++r) {
      s->ledger.copied(a.bytes, r);
    }
  }
  return {};
}

/// Every rank finds the same pieces in the same order; each acts on its own alone.
result<void> world::ranked::fetch(shared_storage& s, const footprint& bytes, rank_id to,
                                  const char* name) {
  missing_.clear();
  s.ledger.find_missing(bytes, to, missing_);
  for (const missing_piece& piece : missing_) {
    if (piece.from == link_.rank()) {
      send_piece(s, piece.bytes, to);
    } else if (to == link_.rank()) {
      WEIR_CHECK(receive_piece(s, piece.bytes, piece.from, name));
    }
    s.ledger.copied(piece.bytes, to);
  }
  return {};
}

void world::ranked::send_piece(const shared_storage& s, const footprint& bytes,
                               rank_id to) {
  outgoing_piece& piece = sends_.emplace_back();
  piece.bytes = bytes;
  piece.base = s.local.base;
  piece.to = to;
  piece.key = {data_, sent_to_[to]++};
  piece.packed.resize(static_cast<std::size_t>(byte_count(bytes)));
  ++counters_.pieces_sent;
  counters_.bytes_sent += byte_count(bytes);
  held_.push_back({&piece, nullptr, {}, steps_, "send"});
}

/// The receive begins at once, into memory of its own: older readers of the bytes do not
/// delay it.
result<void> world::ranked::receive_piece(const shared_storage& s, const footprint& bytes,
                                          rank_id from, const char* name) {
  incoming_piece& piece = receives_.emplace_back();
  piece.bytes = bytes;
  piece.base = s.local.base;
  piece.from = from;
  piece.packed.resize(static_cast<std::size_t>(byte_count(bytes)));
  held_.push_back({nullptr, &piece, {}, steps_, name});
  auto begun = link_.receive(from, {data_, received_from_[from]++}, piece.packed);
  if (!begun) {
    return fail(std::move(begun).error());
  }
  piece.transfer = *begun;
  return {};
}

/// Moves on, or runs a task, or lets other worlds move on, or waits a short time.
result<void> world::ranked::advance() {
  WEIR_TRY(const bool moved, move_on());
  if (moved || tasks_.run_one() || link_.move_others_on(*this)) {
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
void world::ranked::begin_idle() {
  if (idle_since_ != 0 || held_.empty() || held_.front().receive == nullptr ||
      !held_.front().receive->on_its_way) {
    return;
  }
  idle_since_ = now_ns();
  idle_for_ = held_.front().receive->from;
  idle_task_ = held_.front().name;
}

/// Counts the time since `begin_idle`.
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
result<void> world::ranked::question_others() {
  ++idle_rounds_;
  const bool asks =
      idle_rounds_ >= rounds_before_question && std::has_single_bit(idle_rounds_);
  auto equal = inquiry_.move_on(log_);
  if (equal && asks) {
    equal = inquiry_.ask();
  }
  return equal ? result<void>() : fail(std::move(equal).error());
}

/// Does not ask other ranks, but answers them. A failure is reported by the next call.
bool world::ranked::move_on_for_others() {
  if (broken_) {
    return false;
  }
  const auto moved = move_on();
  if (moved && !*moved) {
    if (auto equal = inquiry_.move_on(log_); !equal) {
      static_cast<void>(fail(std::move(equal).error()));
    }
  }
  return !moved || *moved || tasks_.run_one();
}

/// Returns true if anything has changed.
result<bool> world::ranked::move_on() {
  WEIR_TRY(const bool ended, end_transfers());
  WEIR_TRY(const bool started, start_entries());
  WEIR_TRY(const bool sent, hand_over_sends());
  return ended || started || sent;
}

/// Takes the transfers that have ended from the transport, and drops received pieces
/// whose tasks have ended.
result<bool> world::ranked::end_transfers() {
  std::vector<transfer_end> ended;
  link_.poll(data_, ended);
  for (transfer_end& one : ended) {
    const auto is_it = [&one](const auto& piece) { return piece.transfer == one.id; };
    if (const auto it = std::find_if(receives_.begin(), receives_.end(), is_it);
        it != receives_.end()) {
      it->on_its_way = false;
      if (!one.outcome) {
        it->failure = std::move(one.outcome).error();
        it->is_absent = !one.abandoned && it->failure->code() == errc::upstream_failed;
      }
    } else if (one.outcome) {
      sends_.remove_if(is_it);
    } else {
      return fail(std::move(one.outcome).error());
    }
  }
  receives_.remove_if([this](const incoming_piece& piece) {
    return piece.task != 0 && tasks_.ended(piece.task);
  });
  return !ended.empty();
}

result<bool> world::ranked::start_entries() {
  bool any = false;
  while (!held_.empty()) {
    auto started = start_entry(held_.front());
    if (!started) {
      return fail(std::move(started).error());
    }
    if (!*started) {
      break;
    }
    held_.pop_front();
    any = true;
  }
  return any;
}

/// Submits one entry to the engine. Returns false if its piece is on its way.
result<bool> world::ranked::start_entry(stream_entry& entry) {
  if (entry.run) {
    WEIR_CHECK(entry.run(tasks_));
    return true;
  }
  if (outgoing_piece* piece = entry.send; piece != nullptr) {
    const std::array<access, 1> accesses{access{piece->bytes, access_mode::read}};
    WEIR_TRY(piece->task, tasks_.submit("send", accesses,
                                        [piece](const task_context&) { pack(*piece); }));
    return true;
  }
  incoming_piece* piece = entry.receive;
  if (piece->on_its_way) {
    return false;
  }
  if (piece->failure && !piece->is_absent) {
    note_failure(entry.step, entry.name, *piece->failure);
  }
  const std::array<access, 1> accesses{access{piece->bytes, access_mode::write}};
  const auto kernel = [piece](const task_context&) -> result<void> {
    if (piece->failure) {
      return *piece->failure;
    }
    unpack(*piece);
    return {};
  };
  WEIR_TRY(piece->task, tasks_.submit("receive", accesses, kernel));
  return true;
}

/// Gives packed pieces to the transport. The task of a piece that was not packed was
/// poisoned, and the receiver is told so.
result<bool> world::ranked::hand_over_sends() {
  bool any = false;
  for (outgoing_piece& piece : sends_) {
    if (piece.task == 0 || piece.transfer != 0 || !tasks_.ended(piece.task)) {
      continue;
    }
    auto begun = piece.is_packed.load(std::memory_order_acquire)
                     ? link_.send(piece.to, piece.key, piece.packed)
                     : link_.send_failure(piece.to, piece.key);
    if (!begun) {
      return fail(std::move(begun).error());
    }
    piece.transfer = *begun;
    any = true;
  }
  return any;
}

bool world::ranked::receives_open() const noexcept {
  return std::any_of(receives_.begin(), receives_.end(),
                     [](const incoming_piece& piece) { return piece.on_its_way; });
}

/// Waits until all entries have been started, all tasks have ended and all pieces have
/// been sent. Polls meanwhile, as a sign of life. A failure of the engine counts behind
/// those that have been noted with their steps.
result<void> world::ranked::drain() {
  while (!held_.empty() || !sends_.empty() || receives_open() ||
         tasks_.in_flight() != 0) {
    WEIR_CHECK(advance());
  }
  if (const auto all = tasks_.wait_all(); !all) {
    note_failure(rank_report::no_step, "", all.error());
  }
  receives_.clear();
  return {};
}

}  // namespace weir::runtime
