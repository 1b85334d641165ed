// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs of the stand-in. A launch runs the nodes on the thread of its stream, in a
/// random order that their dependencies permit. Nodes that nothing orders are compared
/// like operations of different streams.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "tessera/cuda/stand_in/kernels.hpp"

namespace weir::tessera::stand_in {

/// A node: one of three kinds of work.
struct graph_node_state {
  std::shared_ptr<described_launch> launch;  ///< null: a copy or a fill
  bool copies = false;
  cuda::fill_node fill;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::vector<std::size_t> after;  ///< numbers of the nodes that it depends on

  [[nodiscard]] const char* name() const noexcept {
    return launch != nullptr ? "kernel of a graph"
           : copies          ? "copy of a graph"
                             : "fill of a graph";
  }
};

struct graph_state {
  std::vector<graph_node_state> nodes;
  /// Handles of the nodes: addresses that no other node has.
  std::vector<std::unique_ptr<char>> handles;
};

/// What the launches of a graph share.
struct graph_exec_state {
  device_state* device = nullptr;
  std::vector<graph_node_state> nodes;
  std::shared_ptr<const graph_order> order;
  std::shared_ptr<stream_state> last_stream;  ///< stream of the last launch; null: none
  std::uint64_t last_number = 0;
  vector_clock last_clock;
};

namespace {

using cuda::status;

status graph_create(cuda::graph_handle* made, unsigned flags) {
  entered call("cuGraphCreate", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (flags != 0) {
    report("graph_flags", fmt::format("cuGraphCreate got the flags {:#x}", flags));
    return status::invalid_value;
  }
  auto graph = std::make_shared<graph_state>();
  *made = reinterpret_cast<cuda::graph_handle>(graph.get());
  the_world().graphs.emplace(graph.get(), std::move(graph));
  return status::success;
}

/// Finds the graph of a call and the numbers of the dependencies. Returns null with a
/// breach if a handle is wrong or is there twice.
graph_state* graph_of(const char* call, void* handle,
                      const cuda::graph_node_handle* dependencies, std::size_t count,
                      std::vector<std::size_t>& after) {
  graph_state* const graph = live(the_world().graphs, handle, call);
  if (graph == nullptr) {
    return nullptr;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto found =
        std::find_if(graph->handles.begin(), graph->handles.end(), [&](const auto& h) {
          return static_cast<const void*>(h.get()) == dependencies[i];
        });
    if (found == graph->handles.end()) {
      report("handle_live", fmt::format("{} got a node that is not in the graph", call));
      return nullptr;
    }
    const auto number = static_cast<std::size_t>(found - graph->handles.begin());
    if (std::find(after.begin(), after.end(), number) != after.end()) {
      report("graph_dependencies",
             fmt::format("{} got node {} twice as a dependency", call, number));
      return nullptr;
    }
    after.push_back(number);
  }
  return graph;
}

void add_node(graph_state& to, graph_node_state node, cuda::graph_node_handle* made) {
  to.nodes.push_back(std::move(node));
  to.handles.push_back(std::make_unique<char>());
  *made = reinterpret_cast<cuda::graph_node_handle>(to.handles.back().get());
}

/// Returns true if a node may run in a context, which has to be the current one here.
bool is_current(const entered& call, const char* name, cuda::context_handle context) {
  const bool current = reinterpret_cast<device_state*>(context) == &call.device();
  if (!current) {
    report("graph_context", fmt::format("{} got another context than that of the graph's "
                                        "other nodes",
                                        name));
  }
  return current;
}

status add_kernel(cuda::graph_node_handle* made, cuda::graph_handle handle,
                  const cuda::graph_node_handle* dependencies, std::size_t count,
                  const cuda::kernel_node* wanted) {
  constexpr const char* name = "cuGraphAddKernelNode";
  entered call(name, need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  graph_node_state node;
  graph_state* const graph = graph_of(name, handle, dependencies, count, node.after);
  if (graph == nullptr || wanted->extra != nullptr) {
    return status::invalid_value;
  }
  cuda::launch_config config;
  config.grid = wanted->grid;
  config.block = wanted->block;
  config.shared_bytes = wanted->shared_bytes;
  const status s = describe_launch(name, "graph_arguments", config, wanted->function,
                                   call.device(), wanted->arguments, node.launch);
  if (s == status::success) {
    add_node(*graph, std::move(node), made);
  }
  return s;
}

status add_copy(cuda::graph_node_handle* made, cuda::graph_handle handle,
                const cuda::graph_node_handle* dependencies, std::size_t count,
                const cuda::copy_node* wanted, cuda::context_handle context) {
  constexpr const char* name = "cuGraphAddMemcpyNode";
  entered call(name, need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  graph_node_state node;
  graph_state* const graph = graph_of(name, handle, dependencies, count, node.after);
  const auto plain = [](const cuda::copy_side& side) {
    return side.type == cuda::memory_type::device && side.x == 0 && side.y == 0 &&
           side.z == 0 && side.level == 0 && side.array == nullptr &&
           side.reserved == nullptr;
  };
  if (graph == nullptr || !is_current(call, name, context) || wanted->height != 1 ||
      wanted->depth != 1 || !plain(wanted->from) || !plain(wanted->to) ||
      !on_device(name, wanted->from.device, wanted->width) ||
      !on_device(name, wanted->to.device, wanted->width)) {
    return status::invalid_value;
  }
  node.copies = true;
  node.to = reinterpret_cast<std::byte*>(wanted->to.device);
  node.from = reinterpret_cast<const std::byte*>(wanted->from.device);
  node.bytes = wanted->width;
  add_node(*graph, std::move(node), made);
  return status::success;
}

status add_fill(cuda::graph_node_handle* made, cuda::graph_handle handle,
                const cuda::graph_node_handle* dependencies, std::size_t count,
                const cuda::fill_node* wanted, cuda::context_handle context) {
  constexpr const char* name = "cuGraphAddMemsetNode";
  entered call(name, need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  graph_node_state node;
  graph_state* const graph = graph_of(name, handle, dependencies, count, node.after);
  if (graph == nullptr || !is_current(call, name, context)) {
    return status::invalid_value;
  }
  const unsigned size = wanted->element_bytes;
  if (size != 1 && size != 2 && size != 4) {
    report("graph_fill", fmt::format("{} got elements of {} bytes", name, size));
    return status::invalid_value;
  }
  const status s = check_fill(name, *wanted);
  if (s == status::success) {
    node.fill = *wanted;
    add_node(*graph, std::move(node), made);
  }
  return s;
}

/// Returns for each node which others come before it, directly or not. Dependencies have
/// smaller numbers, so one pass is enough.
std::shared_ptr<const graph_order> order_of(const std::vector<graph_node_state>& nodes) {
  auto out = std::make_shared<graph_order>(nodes.size(), std::vector<bool>(nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::size_t before : nodes[i].after) {
      (*out)[i][before] = true;
      for (std::size_t j = 0; j < before; ++j) {
        (*out)[i][j] = (*out)[i][j] || (*out)[before][j];
      }
    }
  }
  return out;
}

status instantiate(cuda::graph_exec_handle* made, cuda::graph_handle handle,
                   unsigned long long flags) {
  entered call("cuGraphInstantiateWithFlags", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const graph_state* const graph =
      live(the_world().graphs, handle, "cuGraphInstantiateWithFlags");
  if (graph == nullptr || flags != 0) {
    return status::invalid_value;
  }
  auto exec = std::make_shared<graph_exec_state>();
  exec->device = &call.device();
  exec->nodes = graph->nodes;
  exec->order = order_of(graph->nodes);
  *made = reinterpret_cast<cuda::graph_exec_handle>(exec.get());
  the_world().graph_execs.emplace(exec.get(), std::move(exec));
  return status::success;
}

status graph_destroy(cuda::graph_handle handle) {
  entered call("cuGraphDestroy", need::initialised);
  if (live(the_world().graphs, handle, "cuGraphDestroy") == nullptr) {
    return status::invalid_value;
  }
  the_world().graphs.erase(handle);
  return call.refused();
}

// A launch in flight keeps the nodes.
status exec_destroy(cuda::graph_exec_handle handle) {
  entered call("cuGraphExecDestroy", need::initialised);
  if (live(the_world().graph_execs, handle, "cuGraphExecDestroy") == nullptr) {
    return status::invalid_value;
  }
  the_world().graph_execs.erase(handle);
  return call.refused();
}

/// A launch of a graph.
struct graph_launch {
  std::shared_ptr<graph_exec_state> exec;
  std::shared_ptr<stream_state> stream;
  std::uint64_t number = 0;
  vector_clock before;
  std::vector<bool> begun;  ///< launches of kernels that have begun, by node
};

/// Ends the launches of kernels that have not begun.
void end_others(const graph_launch& run) {
  for (std::size_t i = 0; i < run.exec->nodes.size(); ++i) {
    if (run.exec->nodes[i].launch != nullptr && !run.begun[i]) {
      end_launch(*run.exec->nodes[i].launch);
    }
  }
}

/// Runs a node, on the thread of the stream.
status run_node(graph_launch& run, std::size_t number) {
  const graph_node_state& node = run.exec->nodes[number];
  if (node.launch != nullptr) {
    run.begun[number] = true;
    return run_launch(*node.launch, *run.stream, run.number, run.before,
                      {run.exec->order, number});
  }
  if (node.copies) {
    std::memcpy(node.to, node.from, node.bytes);
  } else {
    fill_now(node.fill);
  }
  return status::success;
}

/// Runs the nodes in a random order that their dependencies permit, with pauses.
status run_nodes(graph_launch& run) {
  world& w = the_world();
  const std::vector<graph_node_state>& nodes = run.exec->nodes;
  std::vector<bool> ended(nodes.size());
  std::minstd_rand random(w.shown.seed + static_cast<unsigned>(run.number));
  for (std::size_t left = nodes.size(); left > 0; --left) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool may =
          !ended[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(),
                                   [&](std::size_t a) { return ended[a]; });
      if (may) {
        ready.push_back(i);
      }
    }
    const std::size_t next = ready[random() % ready.size()];
    unsigned limit_us = 0;
    {
      const std::lock_guard lock(w.mutex);
      if (run.stream->device->broken != status::success) {
        return run.stream->device->broken;
      }
      limit_us = w.shown.max_delay_us;
    }
    if (limit_us > 0) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(random() % (limit_us / nodes.size() + 1)));
    }
    if (const status s = run_node(run, next); s != status::success) {
      return s;
    }
    ended[next] = true;
  }
  return status::success;
}

/// Checks memory and kernels of the nodes again, since they may have gone since the graph
/// was made.
status check_nodes(const graph_exec_state& exec) {
  constexpr const char* name = "cuGraphLaunch";
  for (const graph_node_state& node : exec.nodes) {
    if (node.launch != nullptr) {
      if (function_at(node.launch->handle, name) == nullptr) {
        return status::invalid_value;
      }
    } else if (node.copies) {
      if (!on_device(name, reinterpret_cast<std::uintptr_t>(node.to), node.bytes) ||
          !on_device(name, reinterpret_cast<std::uintptr_t>(node.from), node.bytes)) {
        return status::invalid_value;
      }
    } else if (const status s = check_fill(name, node.fill); s != status::success) {
      return s;
    }
  }
  return status::success;
}

/// Notes what copies and fills access; kernels tell it when they have run.
void note_nodes(const graph_launch& run) {
  for (std::size_t i = 0; i < run.exec->nodes.size(); ++i) {
    const graph_node_state& node = run.exec->nodes[i];
    if (node.launch != nullptr) {
      continue;
    }
    std::vector<touched_range> ranges;
    if (node.copies) {
      ranges = {{reinterpret_cast<std::uintptr_t>(node.to), node.bytes, true},
                {reinterpret_cast<std::uintptr_t>(node.from), node.bytes, false}};
    } else {
      ranges = {range_of(node.fill)};
    }
    note_accesses(*run.stream, run.number, run.before, node.name(), ranges,
                  {run.exec->order, i});
  }
}

/// Gives a launch that was checked to its stream, behind the last launch of the graph.
void enqueue_graph(const std::shared_ptr<graph_exec_state>& exec,
                   const std::shared_ptr<stream_state>& stream) {
  queued op;
  op.name = "graph";
  if (exec->last_stream != nullptr) {
    join(stream->clock, exec->last_clock);
    op.ready = [last = exec->last_stream, number = exec->last_number] {
      return last->ended >= number;
    };
  }
  join(stream->clock, the_world().host_clock);
  const auto run = std::make_shared<graph_launch>();
  run->exec = exec;
  run->stream = stream;
  run->number = stream->given + 1;
  run->before = stream->clock;
  run->begun.resize(exec->nodes.size());
  for (const graph_node_state& node : exec->nodes) {
    if (node.launch != nullptr) {
      begin_launch(*node.launch);
    }
  }
  note_nodes(*run);
  op.run = [run] {
    const status s = run_nodes(*run);
    const std::lock_guard lock(the_world().mutex);
    end_others(*run);
    return s;
  };
  op.dropped = [run] { end_others(*run); };
  enqueue(stream, std::move(op));
  exec->last_stream = stream;
  exec->last_number = stream->given;
  exec->last_clock = stream->clock;
}

status launch_graph(cuda::graph_exec_handle handle, cuda::stream_handle on) {
  constexpr const char* name = "cuGraphLaunch";
  entered call(name, need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  world& w = the_world();
  const auto stream = stream_of(on, name);
  if (stream == nullptr || live(w.graph_execs, handle, name) == nullptr) {
    return status::invalid_value;
  }
  const std::shared_ptr<graph_exec_state> exec = w.graph_execs.at(handle);
  if (exec->device != stream->device) {
    report("stream_context", "cuGraphLaunch got a graph and a stream of two contexts");
    return status::invalid_value;
  }
  if (exec->last_stream != nullptr &&
      !comes_before(exec->last_stream->id, exec->last_number, w.host_clock)) {
    report("graph_once", "cuGraphLaunch got a graph whose last launch may still run");
  }
  if (const status s = check_nodes(*exec); s != status::success) {
    return s;
  }
  enqueue_graph(exec, stream);
  return status::success;
}

}  // namespace

std::vector<named_function> graph_functions() {
  return {{"cuGraphCreate", 10000, reinterpret_cast<void*>(&graph_create)},
          {"cuGraphAddKernelNode", 12000, reinterpret_cast<void*>(&add_kernel)},
          {"cuGraphAddMemcpyNode", 10000, reinterpret_cast<void*>(&add_copy)},
          {"cuGraphAddMemsetNode", 10000, reinterpret_cast<void*>(&add_fill)},
          {"cuGraphInstantiateWithFlags", 11040, reinterpret_cast<void*>(&instantiate)},
          {"cuGraphDestroy", 10000, reinterpret_cast<void*>(&graph_destroy)},
          {"cuGraphLaunch", 10000, reinterpret_cast<void*>(&launch_graph)},
          {"cuGraphExecDestroy", 10000, reinterpret_cast<void*>(&exec_destroy)}};
}

}  // namespace weir::tessera::stand_in
