// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mistakes in the use of the driver, one switch each. Each changes one function between
/// the backend and the stand-in, which has to report the rule that is broken.
#include <unistd.h>

#include <cstdio>

#include "tessera/cuda/workload.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::status;
using Api = cuda::driver_api;

/// The unchanged functions, and handles that mistakes keep.
Api real;
cuda::stream_handle kept_stream = nullptr;
cuda::event_handle kept_event = nullptr;
cuda::function_handle kept_function = nullptr;
cuda::library_handle kept_library = nullptr;
cuda::context_handle kept_context = nullptr;
cuda::device_address kept_address = 0;

/// A mistake: its name, the rule that it breaks, and the change of the functions.
struct mistake {
  const char* name;
  const char* rule;
  void (*plant)(Api& api);
};

constexpr std::size_t far_away = std::size_t{1} << 30;

const std::vector<mistake> context_mistakes{
    {"cuInit left out", "initialised",
     [](Api& a) { a.init = [](unsigned) { return status::success; }; }},
    {"context not pushed", "context_current",
     [](Api& a) {
       a.context_push = [](cuda::context_handle) { return status::success; };
     }},
    {"context not popped", "context_popped",
     [](Api& a) {
       a.context_pop = [](cuda::context_handle*) { return status::success; };
     }},
    {"context released twice", "context_balance",
     [](Api& a) {
       a.primary_release = [](cuda::device_number d) {
         (void)real.primary_release(d);
         return real.primary_release(d);
       };
     }},
    {"context not released", "ledger",
     [](Api& a) {
       a.primary_release = [](cuda::device_number) { return status::success; };
     }},
    {"context released before its streams", "context_live",
     [](Api& a) {
       a.stream_destroy = [](cuda::stream_handle s) {
         (void)real.primary_release(0);
         return real.stream_destroy(s);
       };
     }},
    {"stream destroyed twice", "handle_live",
     [](Api& a) {
       a.stream_destroy = [](cuda::stream_handle s) {
         (void)real.stream_destroy(s);
         return real.stream_destroy(s);
       };
     }},
    {"stream not destroyed", "no_leak",
     [](Api& a) {
       a.stream_destroy = [](cuda::stream_handle) { return status::success; };
     }},
    {"event destroyed twice", "handle_live",
     [](Api& a) {
       a.event_destroy = [](cuda::event_handle e) {
         (void)real.event_destroy(e);
         return real.event_destroy(e);
       };
     }},
    {"event not destroyed", "no_leak",
     [](Api& a) {
       a.event_destroy = [](cuda::event_handle) { return status::success; };
     }},
    {"event destroyed while it is asked", "handle_live",
     [](Api& a) {
       a.event_record = [](cuda::event_handle e, cuda::stream_handle s) {
         const status made = real.event_record(e, s);
         (void)real.event_destroy(e);
         return made;
       };
     }},
    {"event of another device recorded", "stream_context",
     [](Api& a) {
       a.event_record = [](cuda::event_handle e, cuda::stream_handle s) {
         kept_event = kept_event == nullptr ? e : kept_event;
         return real.event_record(kept_event, s);
       };
     }},
    {"pool not destroyed", "ledger",
     [](Api& a) { a.pool_destroy = [](cuda::pool_handle) { return status::success; }; }},
    {"host function calls the driver", "host_function",
     [](Api& a) {
       a.event_record = [](cuda::event_handle e, cuda::stream_handle s) {
         (void)real.launch_host(
             s,
             [](void* event) {
               (void)real.event_query(static_cast<cuda::event_handle>(event));
             },
             e);
         return real.event_record(e, s);
       };
     }},
    {"end of work not waited for", "access_order", [](Api& a) {
       a.event_query = [](cuda::event_handle) {
         settle();
         return status::success;
       };
     }}};

using address = cuda::device_address;
using stream = cuda::stream_handle;
const std::vector<mistake> memory_mistakes{
    {"memory not freed", "no_leak",
     [](Api& a) { a.free = [](address, stream) { return status::success; }; }},
    {"memory freed twice", "freed_once",
     [](Api& a) {
       a.free = [](address p, stream s) {
         (void)real.free(p, s);
         return real.free(p, s);
       };
     }},
    {"inner address freed", "freed_once",
     [](Api& a) { a.free = [](address p, stream s) { return real.free(p + 256, s); }; }},
    {"memory freed before a copy", "range_in_allocation",
     [](Api& a) {
       a.copy_on_device = [](address to, address from, std::size_t n, stream s) {
         (void)real.free(to, s);
         return real.copy_on_device(to, from, n, s);
       };
     }},
    {"copy to the device too long", "range_in_allocation",
     [](Api& a) {
       a.copy_to_device = [](address to, const void* from, std::size_t n, stream s) {
         return real.copy_to_device(to, from, n + far_away, s);
       };
     }},
    {"copy to the host from another place", "range_in_allocation",
     [](Api& a) {
       a.copy_to_host = [](void* to, address from, std::size_t n, stream s) {
         return real.copy_to_host(to, from + far_away, n, s);
       };
     }},
    {"copy to a peer too long", "range_in_allocation",
     [](Api& a) {
       a.copy_to_peer = [](address to, cuda::context_handle tc, address from,
                           cuda::context_handle fc, std::size_t n, stream s) {
         return real.copy_to_peer(to, tc, from, fc, n + far_away, s);
       };
     }},
    {"contexts of a copy swapped", "peer_context",
     [](Api& a) {
       a.copy_to_peer = [](address to, cuda::context_handle tc, address from,
                           cuda::context_handle fc, std::size_t n, stream s) {
         return real.copy_to_peer(to, fc, from, tc, n, s);
       };
     }},
    {"fill of 4 bytes not aligned", "fill_alignment",
     [](Api& a) {
       a.fill32 = [](address to, unsigned v, std::size_t n, stream s) {
         return real.fill32(to + 2, v, n, s);
       };
     }},
    {"fill of 2 bytes not aligned", "fill_alignment",
     [](Api& a) {
       a.fill16 = [](address to, unsigned short v, std::size_t n, stream s) {
         return real.fill16(to + 1, v, n, s);
       };
     }},
    {"pitch of a fill not aligned", "fill_alignment",
     [](Api& a) {
       a.fill_strided32 = [](address to, std::size_t pitch, unsigned v, std::size_t w,
                             std::size_t h, stream s) {
         return real.fill_strided32(to, pitch + 2, v, w, h, s);
       };
     }},
    {"pitch of a fill less than a row", "fill_pitch",
     [](Api& a) {
       a.fill_strided16 = [](address to, std::size_t, unsigned short v, std::size_t w,
                             std::size_t h,
                             stream s) { return real.fill_strided16(to, 0, v, w, h, s); };
     }},
    {"fill too long", "range_in_allocation",
     [](Api& a) {
       a.fill8 = [](address to, unsigned char v, std::size_t n, stream s) {
         return real.fill8(to, v, n + far_away, s);
       };
     }},
    {"pageable memory taken for registered", "host_registered",
     [](Api& a) {
       a.host_register = [](void* p, std::size_t n, unsigned flags) {
         const bool of_user = n % 4096 != 0;  // the backend registers whole pages
         return of_user ? status::success : real.host_register(p, n, flags);
       };
     }},
    {"memory of the host registered twice", "host_registered_once",
     [](Api& a) {
       a.host_register = [](void* p, std::size_t n, unsigned flags) {
         (void)real.host_register(p, n, flags);
         return real.host_register(p, n, flags);
       };
     }},
    {"memory of the host unregistered twice", "host_registered_once",
     [](Api& a) {
       a.host_unregister = [](void* p) {
         (void)real.host_unregister(p);
         return real.host_unregister(p);
       };
     }},
    {"memory of the host unregistered during a copy", "host_in_use",
     [](Api& a) {
       a.copy_to_device = [](address to, const void* from, std::size_t n, stream s) {
         const status made = real.copy_to_device(to, from, n, s);
         (void)real.host_unregister(const_cast<void*>(from));
         return made;
       };
     }},
    {"memory of the host not unregistered", "ledger",
     [](Api& a) { a.host_unregister = [](void*) { return status::success; }; }},
    {"memory used before its allocation", "access_order", [](Api& a) {
       a.allocate = [](address* p, std::size_t n, cuda::pool_handle pool, stream s) {
         kept_stream = nullptr;
         const status made = real.allocate(p, n, pool, s);
         (void)real.stream_create(&kept_stream, cuda::stream_non_blocking, 0);
         (void)real.fill8(*p, 0, 1, kept_stream);
         settle();
         (void)real.stream_destroy(kept_stream);
         return made;
       };
     }}};

using config = const cuda::launch_config*;
using function = cuda::function_handle;
const std::vector<mistake> kernel_mistakes{
    {"launch in a stream of another device", "stream_context",
     [](Api& a) {
       a.launch = [](config c, function f, void** p, void** e) {
         kept_stream = kept_stream == nullptr ? c->stream : kept_stream;
         cuda::launch_config changed = *c;
         changed.stream = kept_stream;
         return real.launch(&changed, f, p, e);
       };
     }},
    {"launch of a function of another device", "launch_context",
     [](Api& a) {
       a.launch = [](config c, function f, void** p, void** e) {
         kept_function = kept_function == nullptr ? f : kept_function;
         return real.launch(c, kept_function, p, e);
       };
     }},
    {"argument left out", "launch_arguments",
     [](Api& a) {
       a.launch = [](config c, function f, void** p, void** e) {
         p[0] = nullptr;
         return real.launch(c, f, p, e);
       };
     }},
    {"block without threads", "launch_extents",
     [](Api& a) {
       a.launch = [](config c, function f, void** p, void** e) {
         cuda::launch_config changed = *c;
         changed.block[1] = 0;
         return real.launch(&changed, f, p, e);
       };
     }},
    {"grid beyond its limit", "launch_extents",
     [](Api& a) {
       a.launch = [](config c, function f, void** p, void** e) {
         cuda::launch_config changed = *c;
         changed.grid[2] = 70'000;
         return real.launch(&changed, f, p, e);
       };
     }},
    {"shared memory not asked for", "launch_shared",
     [](Api& a) {
       a.kernel_set = [](cuda::function_attribute, int, cuda::kernel_handle,
                         cuda::device_number) { return status::success; };
     }},
    {"cooperative grid that does not fit", "cooperative_size",
     [](Api& a) {
       a.launch = [](config c, function f, void** p, void** e) {
         cuda::launch_config changed = *c;
         changed.grid[0] = c->attribute_count > 0 ? 100'000 : c->grid[0];
         return real.launch(&changed, f, p, e);
       };
     }},
    {"library unloaded while a kernel runs", "library_in_use",
     [](Api& a) {
       a.library_load = [](cuda::library_handle* made, const void* code,
                           cuda::jit_option* o, void** v, unsigned n,
                           cuda::library_option* lo, void** lv, unsigned ln) {
         const status s = real.library_load(made, code, o, v, n, lo, lv, ln);
         kept_library = *made;
         return s;
       };
       a.launch = [](config c, function f, void** p, void** e) {
         const status s = real.launch(c, f, p, e);
         if (c->attribute_count == 0) {
           (void)real.library_unload(kept_library);
         }
         return s;
       };
     }},
    {"library unloaded twice", "handle_live",
     [](Api& a) {
       a.library_unload = [](cuda::library_handle l) {
         (void)real.library_unload(l);
         return real.library_unload(l);
       };
     }},
    {"library not unloaded", "ledger", [](Api& a) {
       a.library_unload = [](cuda::library_handle) { return status::success; };
     }}};

using driver_graph = cuda::graph_handle;
using driver_node = cuda::graph_node_handle;
using driver_exec = cuda::graph_exec_handle;
const std::vector<mistake> graph_mistakes{
    {"graph not destroyed", "ledger",
     [](Api& a) { a.graph_destroy = [](driver_graph) { return status::success; }; }},
    {"graph that can be launched not destroyed", "ledger",
     [](Api& a) { a.graph_exec_destroy = [](driver_exec) { return status::success; }; }},
    {"graph destroyed twice", "handle_live",
     [](Api& a) {
       a.graph_destroy = [](driver_graph g) {
         (void)real.graph_destroy(g);
         return real.graph_destroy(g);
       };
     }},
    {"graph that can be launched destroyed twice", "handle_live",
     [](Api& a) {
       a.graph_exec_destroy = [](driver_exec e) {
         (void)real.graph_exec_destroy(e);
         return real.graph_exec_destroy(e);
       };
     }},
    {"graph launched after its end", "handle_live",
     [](Api& a) {
       a.graph_launch = [](driver_exec e, stream s) {
         (void)real.graph_exec_destroy(e);
         return real.graph_launch(e, s);
       };
     }},
    {"graph launched twice at once", "graph_once",
     [](Api& a) {
       a.graph_launch = [](driver_exec e, stream s) {
         (void)real.graph_launch(e, s);
         return real.graph_launch(e, s);
       };
     }},
    {"graph launched in a stream of another device", "stream_context",
     [](Api& a) {
       a.graph_launch = [](driver_exec e, stream s) {
         kept_stream = kept_stream == nullptr ? s : kept_stream;
         return real.graph_launch(e, kept_stream);
       };
     }},
    {"graph made with flags", "graph_flags",
     [](Api& a) {
       a.graph_create = [](driver_graph* g, unsigned) { return real.graph_create(g, 1); };
     }},
    {"memory freed before a graph runs", "range_in_allocation",
     [](Api& a) {
       a.graph_add_copy = [](driver_node* made, driver_graph g, const driver_node* d,
                             std::size_t n, const cuda::copy_node* node,
                             cuda::context_handle c) {
         kept_address = node->from.device;
         return real.graph_add_copy(made, g, d, n, node, c);
       };
       a.graph_launch = [](driver_exec e, stream s) {
         (void)real.free(kept_address, s);
         return real.graph_launch(e, s);
       };
     }},
    {"library unloaded while a graph runs", "library_in_use", [](Api& a) {
       a.library_load = [](cuda::library_handle* made, const void* code,
                           cuda::jit_option* o, void** v, unsigned n,
                           cuda::library_option* lo, void** lv, unsigned ln) {
         const status s = real.library_load(made, code, o, v, n, lo, lv, ln);
         kept_library = *made;
         return s;
       };
       a.graph_launch = [](driver_exec e, stream s) {
         const status made = real.graph_launch(e, s);
         (void)real.library_unload(kept_library);
         return made;
       };
     }}};

const std::vector<mistake> node_mistakes{
    {"dependencies of a node left out", "access_order",
     [](Api& a) {
       a.graph_add_kernel = [](driver_node* made, driver_graph g, const driver_node*,
                               std::size_t, const cuda::kernel_node* k) {
         return real.graph_add_kernel(made, g, nullptr, 0, k);
       };
     }},
    {"dependency of a node given twice", "graph_dependencies",
     [](Api& a) {
       a.graph_add_kernel = [](driver_node* made, driver_graph g, const driver_node* d,
                               std::size_t n, const cuda::kernel_node* k) {
         std::vector<driver_node> twice(d, d + n);
         twice.insert(twice.end(), d, d + n);
         return real.graph_add_kernel(made, g, twice.data(), twice.size(), k);
       };
     }},
    {"argument of a node left out", "graph_arguments",
     [](Api& a) {
       a.graph_add_kernel = [](driver_node* made, driver_graph g, const driver_node* d,
                               std::size_t n, const cuda::kernel_node* k) {
         k->arguments[0] = nullptr;
         return real.graph_add_kernel(made, g, d, n, k);
       };
     }},
    {"node with a function of another device", "launch_context",
     [](Api& a) {
       a.graph_add_kernel = [](driver_node* made, driver_graph g, const driver_node* d,
                               std::size_t n, const cuda::kernel_node* k) {
         kept_function = kept_function == nullptr ? k->function : kept_function;
         cuda::kernel_node changed = *k;
         changed.function = kept_function;
         return real.graph_add_kernel(made, g, d, n, &changed);
       };
     }},
    {"node with a block without threads", "launch_extents",
     [](Api& a) {
       a.graph_add_kernel = [](driver_node* made, driver_graph g, const driver_node* d,
                               std::size_t n, const cuda::kernel_node* k) {
         cuda::kernel_node changed = *k;
         changed.block[2] = 0;
         return real.graph_add_kernel(made, g, d, n, &changed);
       };
     }},
    {"fill of a graph not aligned", "fill_alignment",
     [](Api& a) {
       a.graph_add_fill = [](driver_node* made, driver_graph g, const driver_node* d,
                             std::size_t n, const cuda::fill_node* f,
                             cuda::context_handle c) {
         cuda::fill_node changed = *f;
         changed.to += 2;
         return real.graph_add_fill(made, g, d, n, &changed, c);
       };
     }},
    {"fill of a graph with elements of 3 bytes", "graph_fill",
     [](Api& a) {
       a.graph_add_fill = [](driver_node* made, driver_graph g, const driver_node* d,
                             std::size_t n, const cuda::fill_node* f,
                             cuda::context_handle c) {
         cuda::fill_node changed = *f;
         changed.element_bytes = 3;
         return real.graph_add_fill(made, g, d, n, &changed, c);
       };
     }},
    {"copy of a graph too long", "range_in_allocation",
     [](Api& a) {
       a.graph_add_copy = [](driver_node* made, driver_graph g, const driver_node* d,
                             std::size_t n, const cuda::copy_node* copy,
                             cuda::context_handle c) {
         cuda::copy_node changed = *copy;
         changed.width += far_away;
         return real.graph_add_copy(made, g, d, n, &changed, c);
       };
     }},
    {"copy of a graph in another context", "graph_context", [](Api& a) {
       a.graph_add_copy = [](driver_node* made, driver_graph g, const driver_node* d,
                             std::size_t n, const cuda::copy_node* copy,
                             cuda::context_handle c) {
         kept_context = kept_context == nullptr ? c : kept_context;
         return real.graph_add_copy(made, g, d, n, copy, kept_context);
       };
     }}};

/// Runs the workload with a mistake. Returns true if its rule was reported, and the rules
/// that were, in `found`.
bool reports(const mistake& planted, const std::shared_ptr<listed_executor>& executor,
             std::string& found) {
  kept_stream = nullptr;
  kept_event = nullptr;
  kept_function = nullptr;
  kept_library = nullptr;
  kept_context = nullptr;
  kept_address = 0;
  machine shown = workload_machine();
  // An operation has to be under way when the mistake is made.
  shown.max_delay_us =
      std::string_view(planted.name).find("while") != std::string::npos ||
              std::string_view(planted.name).find("during") != std::string::npos
          ? 2000
          : 0;
  set_up(shown, executor);
  cuda::driver changed = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
  real = changed.api;
  planted.plant(changed.api);
  cuda_options options = stand_in_options();
  options.driver = &changed;
  ::alarm(10);  // a run that does not end, ends the process
  (void)run_workload(options, *executor);
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

TEST(CudaPlanted, EveryMistakeIsReportedByItsRule) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  std::vector<mistake> all = context_mistakes;
  all.insert(all.end(), memory_mistakes.begin(), memory_mistakes.end());
  all.insert(all.end(), kernel_mistakes.begin(), kernel_mistakes.end());
  all.insert(all.end(), graph_mistakes.begin(), graph_mistakes.end());
  all.insert(all.end(), node_mistakes.begin(), node_mistakes.end());
  std::string found;
  int reported = 0;
  for (const mistake& m : all) {
    const bool good = reports(m, executor, found);
    reported += good ? 1 : 0;
    EXPECT_TRUE(good) << m.name << ": expected " << m.rule << ", found " << found;
  }
  const bool without =
      reports({"none", "ledger", [](Api&) {}}, executor, found) || !found.empty();
  EXPECT_FALSE(without) << found;
  EXPECT_GE(all.size(), 60U);
  std::printf("planted: %d of %zu found, %d without\n", reported, all.size(),
              without ? 1 : 0);
  set_up(machine{}, nullptr);
}

}  // namespace
}  // namespace weir::tessera::stand_in
