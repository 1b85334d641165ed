// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions of NCCL over the streams of the stand-in: communicators that become
/// ready when they have been asked often enough, and groups that enter their streams
/// late.
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "tessera/cuda/stand_in/nccl/state.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::nccl_communicator;
using cuda::nccl_operation;
using cuda::nccl_status;
using cuda::nccl_type;
using cuda::status;
using cuda::stream_handle;

/// Communicators, and cliques by their identifiers.
struct nccl_world {
  std::map<void*, std::shared_ptr<communicator_state>> communicators;
  std::map<std::uint64_t, std::shared_ptr<clique_of_ranks>> cliques;
  std::uint64_t next_id = 1;
};
nccl_world& nccl() {
  static auto* const made = new nccl_world;
  return *made;
}

/// Takes a planned failure, if it is due.
nccl_status planned(std::string_view function) {
  auto& failures = the_world().nccl_failures;
  const auto found = failures.find(function);
  const bool due =
      found != failures.end() && found->second.first > 0 && --found->second.first == 0;
  return due ? found->second.second : nccl_status::success;
}

/// The lock of a call, which it counts.
class nccl_call {
 public:
  explicit nccl_call(const char* function) : lock_(the_world().mutex) {
    ++the_world().calls[function];
    if (inside_host_function) {
      report("host_function", fmt::format("{} was called by a host function", function));
    }
    outcome_ = planned(function);
  }
  [[nodiscard]] nccl_status refused() const noexcept { return outcome_; }

 private:
  std::unique_lock<std::mutex> lock_;
  nccl_status outcome_ = nccl_status::success;
};

unsigned some_polls() {
  world& w = the_world();
  return w.shown.nccl_polls == 0
             ? 0
             : static_cast<unsigned>(w.blocks() % (w.shown.nccl_polls + 1));
}

communicator_state* find_communicator(nccl_communicator handle, const char* function) {
  const auto found = nccl().communicators.find(handle);
  if (found == nccl().communicators.end()) {
    report("nccl_live", fmt::format("{} got a communicator that is not alive", function));
    return nullptr;
  }
  return found->second.get();
}

bool in_progress(const communicator_state& c) {
  return !c.initialised || c.posting != nullptr || (c.finalizing && !c.finalized);
}

/// Returns a communicator that may be used, or null with a breach.
communicator_state* usable(nccl_communicator handle, const char* function) {
  communicator_state* const c = find_communicator(handle, function);
  if (c != nullptr && c->finalizing) {
    report("nccl_finalized",
           fmt::format("{} got a communicator that was finalized", function));
    return nullptr;
  }
  if (c != nullptr && in_progress(*c)) {
    report("nccl_state",
           fmt::format("{} got a communicator whose state is in_progress", function));
    return nullptr;
  }
  return c;
}

void set_posting(const fused_group& group, const std::shared_ptr<fused_group>& value) {
  for (const group_call& c : group.calls) {
    if (value == nullptr || !c.from->aborted->load()) {
      c.from->posting = value;
    }
    c.stream->posting = value != nullptr;
  }
}

nccl_status get_version(int* version) {
  const nccl_call call("ncclGetVersion");
  *version = the_world().shown.nccl_version;
  return call.refused();
}

nccl_status get_unique_id(cuda::nccl_id* id) {
  const nccl_call call("ncclGetUniqueId");
  if (call.refused() == nccl_status::success) {
    const std::uint64_t number = nccl().next_id++;
    *id = {};
    std::memcpy(id->bytes.data(), &number, sizeof number);
    nccl().cliques[number] = std::make_shared<clique_of_ranks>();
  }
  return call.refused();
}

bool good_config(const cuda::nccl_config* config) {
  if (config == nullptr || config->size < sizeof(cuda::nccl_config) ||
      config->magic != 0xcafebeef || config->version < 21400) {
    report("nccl_config", "ncclCommInitRankConfig got options that are not initialised");
    return false;
  }
  if (config->blocking != 0) {
    report("nccl_blocking",
           "ncclCommInitRankConfig got options for a communicator that blocks");
  }
  return true;
}

/// Checks the rank of a new communicator.
bool good_rank(const clique_of_ranks& clique, int ranks, int rank) {
  if (rank < 0 || rank >= ranks || (clique.ranks != 0 && clique.ranks != ranks) ||
      (clique.ranks != 0 && clique.members[static_cast<std::size_t>(rank)] != nullptr)) {
    report("nccl_rank", fmt::format("ncclCommInitRankConfig got rank {} of {}, which is "
                                    "taken or does not exist",
                                    rank, ranks));
    return false;
  }
  const device_state* const here = context_stack.back();
  for (const communicator_state* const other : clique.members) {
    if (other != nullptr && other->device == here) {
      report("nccl_one_device", fmt::format("ncclCommInitRankConfig got ranks {} and {} "
                                            "on device {}",
                                            other->rank, rank, here->number));
      return false;
    }
  }
  return true;
}

/// Notes the outcome of a call in the group of the thread.
nccl_status in_group(nccl_status outcome) {
  open_group& group = group_of_thread();
  const bool error =
      outcome != nccl_status::success && outcome != nccl_status::in_progress;
  if (error && group.depth > 0 && group.failed == nccl_status::success) {
    group.failed = outcome;
  }
  return outcome;
}

nccl_status make_rank(nccl_communicator* made, int ranks, cuda::nccl_id id, int rank,
                      cuda::nccl_config* config) {
  const nccl_call call("ncclCommInitRankConfig");
  *made = nullptr;
  if (call.refused() != nccl_status::success) {
    return call.refused();
  }
  if (context_stack.empty()) {
    report("nccl_device", "ncclCommInitRankConfig was called without a device");
    return nccl_status::unhandled_cuda_error;
  }
  std::uint64_t number = 0;
  std::memcpy(&number, id.bytes.data(), sizeof number);
  const auto found = nccl().cliques.find(number);
  if (found == nccl().cliques.end()) {
    report("nccl_unique_id",
           "ncclCommInitRankConfig got an identifier that "
           "ncclGetUniqueId did not make");
    return nccl_status::invalid_argument;
  }
  clique_of_ranks& clique = *found->second;
  if (!good_config(config) || !good_rank(clique, ranks, rank)) {
    return nccl_status::invalid_argument;
  }
  clique.ranks = ranks;
  clique.members.resize(static_cast<std::size_t>(ranks));
  auto c = std::make_shared<communicator_state>();
  c->clique = found->second;
  c->rank = rank;
  c->device = context_stack.back();
  c->polls = some_polls();
  clique.members[static_cast<std::size_t>(rank)] = c.get();
  if (group_of_thread().depth == 0 && ranks > 1) {
    report("nccl_group",
           "ncclCommInitRankConfig was called for one of several ranks "
           "outside of a group");
  }
  group_of_thread().inits.push_back(c.get());
  *made = reinterpret_cast<nccl_communicator>(c.get());
  nccl().communicators.emplace(c.get(), c);
  return nccl_status::in_progress;
}

nccl_status init_rank(nccl_communicator* made, int ranks, cuda::nccl_id id, int rank,
                      cuda::nccl_config* config) {
  return in_group(make_rank(made, ranks, id, rank, config));
}

/// Lets a communicator come nearer to its end or readiness, and returns its state.
nccl_status advance(communicator_state& c) {
  const stuck what = the_world().shown.nccl_stuck;
  const auto& members = c.clique->members;
  if (!c.initialised) {
    const bool all = std::find(members.begin(), members.end(), nullptr) == members.end();
    if (!all || what == stuck::init || c.polls > 0) {
      c.polls -= all && c.polls > 0 ? 1U : 0U;
      return nccl_status::in_progress;
    }
    c.initialised = true;
  }
  if (c.posting != nullptr) {
    if (what == stuck::post || c.posting->polls > 0) {
      c.posting->polls -= c.posting->polls > 0 ? 1U : 0U;
      return nccl_status::in_progress;
    }
    const std::shared_ptr<fused_group> group = c.posting;
    set_posting(*group, nullptr);
    post_group(group);
  }
  if (c.finalizing && !c.finalized) {
    const bool idle = std::all_of(c.work.begin(), c.work.end(), [](const auto& w) {
      return w.first->ended >= w.second;
    });
    if (!idle || what == stuck::finalize || c.polls > 0) {
      c.polls -= c.polls > 0 ? 1U : 0U;
      return nccl_status::in_progress;
    }
    c.finalized = true;
  }
  return nccl_status::success;
}

nccl_status async_error(nccl_communicator handle, nccl_status* state) {
  const nccl_call call("ncclCommGetAsyncError");
  if (call.refused() != nccl_status::success) {
    return call.refused();
  }
  communicator_state* const c = find_communicator(handle, "ncclCommGetAsyncError");
  if (c == nullptr) {
    return nccl_status::invalid_argument;
  }
  const nccl_status failure = planned("state");
  *state = failure != nccl_status::success        ? failure
           : c->device->broken != status::success ? nccl_status::unhandled_cuda_error
                                                  : advance(*c);
  return nccl_status::success;
}

nccl_status finalize(nccl_communicator handle) {
  const nccl_call call("ncclCommFinalize");
  communicator_state* const c = usable(handle, "ncclCommFinalize");
  if (c == nullptr || call.refused() != nccl_status::success) {
    return c == nullptr ? nccl_status::invalid_argument : call.refused();
  }
  c->finalizing = true;
  c->polls = some_polls();
  return nccl_status::in_progress;
}

void remove(communicator_state& c) {
  c.aborted->store(true);
  if (const std::shared_ptr<fused_group> group = c.posting) {  // kept while it is changed
    set_posting(*group, nullptr);
  }
  c.clique->members[static_cast<std::size_t>(c.rank)] = nullptr;
  nccl().communicators.erase(&c);
  the_world().ended.notify_all();
}

nccl_status destroy(nccl_communicator handle) {
  const nccl_call call("ncclCommDestroy");
  communicator_state* const c = find_communicator(handle, "ncclCommDestroy");
  if (c == nullptr) {
    return nccl_status::invalid_argument;
  }
  if (!c->finalized) {
    report("nccl_destroy", "ncclCommDestroy got a communicator that is not finalized");
  }
  remove(*c);
  return call.refused();
}

nccl_status abort_communicator(nccl_communicator handle) {
  const nccl_call call("ncclCommAbort");
  communicator_state* const c = find_communicator(handle, "ncclCommAbort");
  if (c == nullptr) {
    return nccl_status::invalid_argument;
  }
  remove(*c);
  return call.refused();
}

nccl_status group_start() {
  const nccl_call call("ncclGroupStart");
  if (call.refused() == nccl_status::success) {
    ++group_of_thread().depth;
  }
  return call.refused();
}

nccl_status group_end() {
  const nccl_call call("ncclGroupEnd");
  open_group& group = group_of_thread();
  if (group.depth == 0) {
    report("nccl_group_balance", "ncclGroupEnd was called without ncclGroupStart");
    return nccl_status::invalid_usage;
  }
  if (--group.depth > 0) {
    return call.refused();
  }
  const open_group closed = std::exchange(group, {});
  if (call.refused() != nccl_status::success || closed.failed != nccl_status::success) {
    return call.refused() != nccl_status::success ? call.refused() : closed.failed;
  }
  if (!closed.inits.empty() && !closed.calls.empty()) {
    report("nccl_group_mixed",
           "ncclGroupEnd ends a group with both collectives and new "
           "communicators");
    return nccl_status::invalid_usage;
  }
  if (closed.calls.empty()) {
    return closed.inits.empty() ? nccl_status::success : nccl_status::in_progress;
  }
  if (!check_group(closed.calls)) {
    return nccl_status::invalid_usage;
  }
  auto fused = std::make_shared<fused_group>();
  fused->calls = closed.calls;
  for (const group_call& c : closed.calls) {
    fused->communicators.push_back(c.from->shared_from_this());
  }
  fused->polls = some_polls();
  if (fused->polls == 0 && the_world().shown.nccl_stuck != stuck::post) {
    post_group(fused);
    return nccl_status::success;
  }
  set_posting(*fused, fused);
  return nccl_status::in_progress;
}

/// Checks the memory of a call: accessible to the device, in place or apart.
bool good_memory(const group_call& c) {
  const auto ranges = ranges_of(c);
  for (const touched_range& r : ranges) {
    const allocation* const at = allocation_at(r.first, r.bytes);
    if (at == nullptr || at->device != c.from->device) {
      report("nccl_memory", fmt::format("{} of rank {} got [{:#x}, {:#x}), which is no "
                                        "memory of device {}",
                                        c.name, c.from->rank, r.first, r.first + r.bytes,
                                        c.from->device->number));
      return false;
    }
  }
  if (ranges.size() < 2) {
    return true;
  }
  const std::size_t shard =
      c.count * size_of(c.type) * static_cast<std::size_t>(c.from->rank);
  const std::uintptr_t place = c.name == "ncclAllGather"       ? ranges[1].first + shard
                               : c.name == "ncclReduceScatter" ? ranges[1].first - shard
                                                               : ranges[1].first;
  const bool overlapping = ranges[0].first < ranges[1].first + ranges[1].bytes &&
                           ranges[1].first < ranges[0].first + ranges[0].bytes;
  if (overlapping && ranges[0].first != place) {
    report("nccl_in_place",
           fmt::format("{} of rank {} got buffers that overlap without being in place",
                       c.name, c.from->rank));
    return false;
  }
  return true;
}

/// Adds a call to the group of the thread.
nccl_status checked_call(group_call made, nccl_communicator handle,
                         stream_handle stream) {
  const nccl_call call(made.name.c_str());
  if (call.refused() != nccl_status::success) {
    return call.refused();
  }
  made.from = usable(handle, made.name.c_str());
  if (made.from == nullptr) {
    return nccl_status::invalid_usage;
  }
  const bool known_type =
      static_cast<int>(made.type) < (the_world().shown.nccl_version >= 22400 ? 12 : 10);
  if (!known_type || made.peer < 0 || made.peer >= made.from->clique->ranks) {
    return nccl_status::invalid_argument;
  }
  const auto found = the_world().streams.find(stream);
  if (found == the_world().streams.end() || found->second->device != made.from->device) {
    report("nccl_stream_device", fmt::format("{} of rank {} got a stream that is not of "
                                             "its device",
                                             made.name, made.from->rank));
    return nccl_status::invalid_usage;
  }
  made.stream = found->second;
  if (!good_memory(made)) {
    return nccl_status::invalid_argument;
  }
  open_group& group = group_of_thread();
  if (group.depth == 0) {
    report("nccl_group", fmt::format("{} was called outside of a group", made.name));
    return nccl_status::invalid_usage;
  }
  group.calls.push_back(std::move(made));
  return nccl_status::success;
}

nccl_status add_call(group_call made, nccl_communicator handle, stream_handle stream) {
  return in_group(checked_call(std::move(made), handle, stream));
}

const std::byte* bytes_at(const void* p) {
  return static_cast<const std::byte*>(p);
}
std::byte* bytes_at(void* p) {
  return static_cast<std::byte*>(p);
}

nccl_status all_reduce(const void* from, void* to, std::size_t count, nccl_type t,
                       nccl_operation op, nccl_communicator c, stream_handle s) {
  return add_call(
      {"ncclAllReduce", nullptr, nullptr, bytes_at(from), bytes_at(to), count, t, op, 0},
      c, s);
}
nccl_status reduce_scatter(const void* from, void* to, std::size_t count, nccl_type t,
                           nccl_operation op, nccl_communicator c, stream_handle s) {
  return add_call({"ncclReduceScatter", nullptr, nullptr, bytes_at(from), bytes_at(to),
                   count, t, op, 0},
                  c, s);
}
nccl_status all_gather(const void* from, void* to, std::size_t count, nccl_type t,
                       nccl_communicator c, stream_handle s) {
  return add_call({"ncclAllGather", nullptr, nullptr, bytes_at(from), bytes_at(to), count,
                   t, nccl_operation::sum, 0},
                  c, s);
}
nccl_status broadcast(const void* from, void* to, std::size_t count, nccl_type t,
                      int root, nccl_communicator c, stream_handle s) {
  return add_call({"ncclBroadcast", nullptr, nullptr, bytes_at(from), bytes_at(to), count,
                   t, nccl_operation::sum, root},
                  c, s);
}
nccl_status reduce(const void* from, void* to, std::size_t count, nccl_type t,
                   nccl_operation op, int root, nccl_communicator c, stream_handle s) {
  return add_call(
      {"ncclReduce", nullptr, nullptr, bytes_at(from), bytes_at(to), count, t, op, root},
      c, s);
}
nccl_status send(const void* from, std::size_t count, nccl_type t, int peer,
                 nccl_communicator c, stream_handle s) {
  return add_call({"ncclSend", nullptr, nullptr, bytes_at(from), nullptr, count, t,
                   nccl_operation::sum, peer},
                  c, s);
}
nccl_status receive(void* to, std::size_t count, nccl_type t, int peer,
                    nccl_communicator c, stream_handle s) {
  return add_call({"ncclRecv", nullptr, nullptr, nullptr, bytes_at(to), count, t,
                   nccl_operation::sum, peer},
                  c, s);
}

const char* error_string(nccl_status s) {
  constexpr std::array names{"no error",
                             "unhandled cuda error",
                             "unhandled system error",
                             "internal error",
                             "invalid argument",
                             "invalid usage",
                             "remote process exited or there was a network error",
                             "NCCL operation in progress"};
  const auto number = static_cast<std::size_t>(s);
  return number < names.size() ? names[number] : "unknown result code";
}

}  // namespace

open_group& group_of_thread() {
  thread_local open_group group;
  return group;
}

std::size_t communicator_count() {
  return nccl().communicators.size();
}
void forget_communicators() {
  nccl().communicators.clear();
  nccl().cliques.clear();
}

void fail_nccl_call(std::string_view function, unsigned nth, nccl_status outcome) {
  const std::lock_guard lock(the_world().mutex);
  the_world().nccl_failures[std::string(function)] = {nth, outcome};
}

}  // namespace weir::tessera::stand_in

extern "C" const weir::tessera::cuda::nccl_api* weir_stand_in_nccl() {
  namespace stand_in = weir::tessera::stand_in;
  static const weir::tessera::cuda::nccl_api functions{
      &stand_in::get_version, &stand_in::get_unique_id,  &stand_in::init_rank,
      &stand_in::finalize,    &stand_in::destroy,        &stand_in::abort_communicator,
      &stand_in::async_error, &stand_in::group_start,    &stand_in::group_end,
      &stand_in::all_reduce,  &stand_in::reduce_scatter, &stand_in::all_gather,
      &stand_in::broadcast,   &stand_in::reduce,         &stand_in::send,
      &stand_in::receive,     &stand_in::error_string};
  return &functions;
}
