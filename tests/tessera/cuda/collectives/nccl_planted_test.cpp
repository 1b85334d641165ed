// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mistakes in the use of NCCL, one switch each. Each changes functions between the
/// communicators and the stand-in, which has to report the rule that is broken.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "collectives/nccl_workload.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::nccl_communicator;
using cuda::nccl_config;
using cuda::nccl_id;
using cuda::nccl_operation;
using cuda::nccl_status;
using cuda::nccl_type;
using cuda::stream_handle;

/// The unchanged functions, and what mistakes keep.
cuda::nccl_api plain;
cuda::driver_api plain_driver;
nccl_communicator kept_communicator = nullptr;
stream_handle kept_nccl_stream = nullptr;
int counted_calls = 0;

/// A mistake: its name, the rule that it breaks, and the change of the functions.
struct nccl_mistake {
  const char* name;
  const char* rule;
  void (*plant)(cuda::nccl_api& api, cuda::driver_api& driver);
};

nccl_status no_nccl_call() {
  return nccl_status::success;
}

const std::vector<nccl_mistake> mistakes_of_communicators{
    {"ranks initialised outside of a group", "nccl_group",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.group_start = &no_nccl_call;
       a.group_end = &no_nccl_call;
     }},
    {"group ended twice", "nccl_group_balance",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.group_end = [] {
         const nccl_status s = plain.group_end();
         (void)plain.group_end();
         return s;
       };
     }},
    {"options not initialised", "nccl_config",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int rank,
                        nccl_config* config) {
         config->magic = 0;
         return plain.init_rank(made, ranks, id, rank, config);
       };
     }},
    {"size of the options forgotten", "nccl_config",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int rank,
                        nccl_config* config) {
         config->size = 0;
         return plain.init_rank(made, ranks, id, rank, config);
       };
     }},
    {"communicators that block", "nccl_blocking",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int rank,
                        nccl_config* config) {
         config->blocking = 1;
         return plain.init_rank(made, ranks, id, rank, config);
       };
     }},
    {"no device for a rank", "nccl_device",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int rank,
                        nccl_config* config) {
         cuda::context_handle popped = nullptr;
         (void)plain_driver.context_pop(&popped);
         const nccl_status s = plain.init_rank(made, ranks, id, rank, config);
         (void)plain_driver.context_push(popped);
         return s;
       };
     }},
    {"both ranks on one device", "nccl_one_device",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int rank,
                        nccl_config* config) {
         static cuda::context_handle first = nullptr;
         if (rank == 0) {
           (void)plain_driver.context_current(&first);
           return plain.init_rank(made, ranks, id, rank, config);
         }
         (void)plain_driver.context_push(first);
         const nccl_status s = plain.init_rank(made, ranks, id, rank, config);
         (void)plain_driver.context_pop(&first);
         return s;
       };
     }},
    {"an identifier of one's own", "nccl_unique_id",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.get_unique_id = [](nccl_id* id) {
         id->bytes.fill('x');
         return nccl_status::success;
       };
     }},
    {"one rank for two", "nccl_rank",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int /*rank*/,
                        nccl_config* config) {
         return plain.init_rank(made, ranks, id, 0, config);
       };
     }},
    {"a rank beyond the ranks", "nccl_rank",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.init_rank = [](nccl_communicator* made, int ranks, nccl_id id, int rank,
                        nccl_config* config) {
         return plain.init_rank(made, ranks, id, rank + 1, config);
       };
     }},
    {"collectives and communicators in one group", "nccl_group_mixed",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         nccl_id id;
         nccl_config config;
         config.blocking = 0;
         nccl_communicator made = nullptr;
         (void)plain.get_unique_id(&id);
         (void)plain.init_rank(&made, 1, id, 0, &config);
         return plain.all_reduce(from, to, count, t, op, c, s);
       };
     }},
    {"state not waited for", "nccl_state",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.async_error = [](nccl_communicator, nccl_status* state) {
         *state = nccl_status::success;
         return nccl_status::success;
       };
     }},
    {"event recorded before the group is posted", "nccl_stream",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       // The state is asked until communicators are ready, and not any more afterwards.
       a.async_error = [](nccl_communicator c, nccl_status* state) {
         if (counted_calls == 0) {
           return plain.async_error(c, state);
         }
         *state = nccl_status::success;
         return nccl_status::success;
       };
       a.group_end = [] {
         static bool first = true;
         const nccl_status s = plain.group_end();
         counted_calls += std::exchange(first, false) ? 0 : 1;
         return s;
       };
     }},
    {"destroyed without being finalized", "nccl_destroy",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.finalize = [](nccl_communicator) { return nccl_status::success; };
     }},
    {"finalized twice", "nccl_finalized",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.finalize = [](nccl_communicator c) {
         const nccl_status s = plain.finalize(c);
         (void)plain.finalize(c);
         return s;
       };
     }},
    {"destroyed twice", "nccl_live",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.destroy = [](nccl_communicator c) {
         (void)plain.destroy(c);
         return plain.destroy(c);
       };
     }},
    {"communicators not destroyed", "ledger",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.destroy = [](nccl_communicator) { return nccl_status::success; };
     }},
    {"stream not destroyed", "ledger", [](cuda::nccl_api&, cuda::driver_api& d) {
       d.stream_destroy = [](stream_handle) { return cuda::status::success; };
     }}};

const std::vector<nccl_mistake> mistakes_of_calls{
    {"collective of one rank left out", "nccl_every_rank",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         kept_communicator = kept_communicator == nullptr ? c : kept_communicator;
         return c == kept_communicator ? plain.all_reduce(from, to, count, t, op, c, s)
                                       : nccl_status::success;
       };
     }},
    {"counts that differ", "nccl_same_call",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         kept_communicator = kept_communicator == nullptr ? c : kept_communicator;
         return plain.all_reduce(from, to, c == kept_communicator ? count : count - 1, t,
                                 op, c, s);
       };
     }},
    {"types that differ", "nccl_same_call",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.broadcast = [](const void* from, void* to, std::size_t count, nccl_type t,
                        int root, nccl_communicator c, stream_handle s) {
         kept_communicator = kept_communicator == nullptr ? c : kept_communicator;
         return plain.broadcast(from, to, count,
                                c == kept_communicator ? t : nccl_type::int8, root, c, s);
       };
     }},
    {"operations that differ", "nccl_same_call",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         kept_communicator = kept_communicator == nullptr ? c : kept_communicator;
         return plain.all_reduce(from, to, count, t,
                                 c == kept_communicator ? op : nccl_operation::max, c, s);
       };
     }},
    {"roots that differ", "nccl_same_call",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                     nccl_operation op, int root, nccl_communicator c, stream_handle s) {
         kept_communicator = kept_communicator == nullptr ? c : kept_communicator;
         return plain.reduce(from, to, count, t, op,
                             c == kept_communicator ? root : root + 1, c, s);
       };
     }},
    {"collective outside of a group", "nccl_group",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_gather = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_communicator c, stream_handle s) {
         (void)plain.group_end();
         const nccl_status outcome = plain.all_gather(from, to, count, t, c, s);
         (void)plain.group_start();
         return outcome;
       };
     }},
    {"send without its receive", "nccl_pairs",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.receive = [](void*, std::size_t, nccl_type, int, nccl_communicator,
                      stream_handle) { return nccl_status::success; };
     }},
    {"receive of another size", "nccl_pairs",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.receive = [](void* to, std::size_t count, nccl_type t, int peer,
                      nccl_communicator c, stream_handle s) {
         return plain.receive(to, count - 1, t, peer, c, s);
       };
     }},
    {"stream of another device", "nccl_stream_device",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         kept_nccl_stream = kept_nccl_stream == nullptr ? s : kept_nccl_stream;
         return plain.all_reduce(from, to, count, t, op, c, kept_nccl_stream);
       };
     }},
    {"memory beyond the buffer", "nccl_memory",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         return plain.all_reduce(from, to, count * 1000, t, op, c, s);
       };
     }},
    {"memory of another device", "nccl_memory",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.broadcast = [](const void* from, void* to, std::size_t count, nccl_type t,
                        int root, nccl_communicator c, stream_handle s) {
         static void* first = nullptr;
         first = first == nullptr ? to : first;
         return plain.broadcast(from, first, count, t, root, c, s);
       };
     }},
    {"memory of the host", "nccl_memory",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_reduce = [](const void* from, void* /*to*/, std::size_t count, nccl_type t,
                         nccl_operation op, nccl_communicator c, stream_handle s) {
         static std::array<std::int32_t, 64> host;
         return plain.all_reduce(from, host.data(), count, t, op, c, s);
       };
     }},
    {"a shard in the wrong place", "nccl_in_place",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.all_gather = [](const void* /*from*/, void* to, std::size_t count, nccl_type t,
                         nccl_communicator c, stream_handle s) {
         return plain.all_gather(static_cast<std::byte*>(to) + 1, to, count, t, c, s);
       };
     }},
    {"communicator used after its abort", "nccl_live",
     [](cuda::nccl_api& a, cuda::driver_api&) {
       a.reduce = [](const void* from, void* to, std::size_t count, nccl_type t,
                     nccl_operation op, int root, nccl_communicator c, stream_handle s) {
         (void)plain.abort(c);
         return plain.reduce(from, to, count, t, op, root, c, s);
       };
     }},
    {"end of a collective not waited for", "access_order",
     [](cuda::nccl_api&, cuda::driver_api& d) {
       d.event_query = [](cuda::event_handle) {
         settle();
         return cuda::status::success;
       };
     }},
    {"host function calls NCCL", "host_function",
     [](cuda::nccl_api&, cuda::driver_api& d) {
       d.event_record = [](cuda::event_handle e, stream_handle s) {
         (void)plain_driver.launch_host(
             s,
             [](void*) {
               int version = 0;
               (void)plain.get_version(&version);
             },
             nullptr);
         return plain_driver.event_record(e, s);
       };
     }},
    {"context not pushed", "context_current", [](cuda::nccl_api&, cuda::driver_api& d) {
       d.event_record = [](cuda::event_handle e, stream_handle s) {
         cuda::context_handle popped = nullptr;
         (void)plain_driver.context_pop(&popped);
         const cuda::status outcome = plain_driver.event_record(e, s);
         (void)plain_driver.context_push(popped);
         return outcome;
       };
     }}};

/// Runs the workload with a mistake. Returns whether its rule was reported, and what was.
bool nccl_reports(const nccl_mistake& planted, std::string& found) {
  ::alarm(10);  // a run that does not end, ends the process
  machine shown = late_machine(2);
  shown.nccl_polls = 4;
  clique_rig rig(shown);
  plain = rig.library.api;
  plain_driver = rig.driver.api;
  kept_communicator = nullptr;
  kept_nccl_stream = nullptr;
  counted_calls = 0;
  planted.plant(rig.library.api, rig.driver.api);
  (void)run_nccl_workload(rig);
  ::alarm(0);
  bool reported = false;
  found.clear();
  for (const breach& b : take_breaches()) {
    reported = reported || b.rule == planted.rule;
    found += b.rule + " ";
  }
  if (!(objects() == object_counts{})) {
    reported = reported || std::string_view(planted.rule) == "ledger";
    found += "ledger ";
  }
  return reported;
}

TEST(NcclPlanted, EveryMistakeIsReportedByItsRule) {
  std::vector<nccl_mistake> all = mistakes_of_communicators;
  all.insert(all.end(), mistakes_of_calls.begin(), mistakes_of_calls.end());
  std::string found;
  int reported = 0;
  for (const nccl_mistake& m : all) {
    const bool good = nccl_reports(m, found);
    reported += good ? 1 : 0;
    EXPECT_TRUE(good) << m.name << ": expected " << m.rule << ", found " << found;
  }
  const bool without =
      nccl_reports({"none", "ledger", [](cuda::nccl_api&, cuda::driver_api&) {}},
                   found) ||
      !found.empty();
  EXPECT_FALSE(without) << found;
  EXPECT_GE(all.size(), 30U);
  std::printf("planted: %d of %zu found, %d without\n", reported, all.size(),
              without ? 1 : 0);
  set_up(machine{}, nullptr);
}

}  // namespace
}  // namespace weir::tessera::stand_in
