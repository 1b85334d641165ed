// SPDX-License-Identifier: Apache-2.0
/// @file
/// Executes programs as calls of the C interface, and imitates the planted fault.
#include "serial/run/runner.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "serial/arithmetic.hpp"
#include "serial/graph_book.hpp"
#include "serial/run/kernel.hpp"
#include "serial/run/objects.hpp"

namespace weir::test::serial {
namespace {

/// Copies marks to the host in the order of device chain 0 of a stream. The program's
/// thread can then wait until that chain alone has reached an event, which is weaker than
/// the event.
class chain_marks {
 public:
  void put(tessMesh_t mesh, tessStream_t stream, int event) {
    constexpr std::size_t size = sizeof(std::uint32_t);
    static const std::uint32_t one = 1;
    void* mark = nullptr;
    seen_.push_back(0);
    EXPECT_TESS(tessMalloc(mesh, size, &mark));
    std::memcpy(mark, &one, size);  // writes the instance of rank 0
    EXPECT_TESS(tessMemcpyRankAsync(&seen_.back(), mark, size, TESS_COPY_D2H, 0, stream));
    latest_.resize(std::max(latest_.size(), static_cast<std::size_t>(event) + 1));
    at(latest_, event) = &seen_.back();
  }
  /// Waits for the latest mark of the event. Returns false if there is none.
  bool await(int event) {
    if (event >= count_of(latest_) || at(latest_, event) == nullptr) {
      return false;
    }
    while (__atomic_load_n(at(latest_, event), __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::yield();
    }
    return true;
  }
  void forget(int event) {
    if (event < count_of(latest_)) {
      at(latest_, event) = nullptr;
    }
  }

 private:
  std::deque<std::uint32_t> seen_;
  std::vector<std::uint32_t*> latest_;
};

/// One run of a program in a context.
class run_of_program : private program_objects {
 public:
  run_of_program(tessContext_t context, tessKernel_t kernel, const program& p,
                 const fault& with)
      : program_objects(context, p), fault_(with), kernel_(kernel) {}
  ~run_of_program() { close(); }
  run_of_program(const run_of_program&) = delete;
  run_of_program& operator=(const run_of_program&) = delete;

  /// Runs the program and returns what is wrong, or an empty string.
  std::string run() {
    open();
    // With this fault the program's thread waits for a device chain instead of the
    // stream. The calls must be in order then, or the thread could wait for a call not
    // made yet.
    const std::vector<call> calls =
        fault_.kind == fault_kind::event_of_one_chain ? calls_in_order(p_) : p_.calls;
    for (const call& c : calls) {
      if (!wrong_.empty()) {
        return wrong_;
      }
      make(c);
    }
    for (int s = 0; s < count_of(streams_); ++s) {
      if (at(streams_, s) != nullptr) {
        check(tessStreamSynchronize(at(streams_, s)), fmt::format("the end of s{}", s));
      }
    }
    for (const tessEvent_t end : ends_) {
      check(tessEventSynchronize(end), "the end of a stream that was destroyed");
    }
    if (wrong_.empty()) {
      compare();
    }
    return wrong_;
  }

 private:
  void make(const call& c) {
    const operation& o = at(p_.operations, c.operation);
    if (noted_.insert(o.id).second) {
      book_.take(o);
    }
    if (o.what == verb::collective) {
      post(o, c.rank);
    } else {
      check(status_of(o), text_of(p_, o));
    }
  }

  tessStatus_t status_of(const operation& o) {
    int done = 0;
    switch (o.what) {
      case verb::launch: return launch(o);
      case verb::copy: return copy(o);
      case verb::fill:
        return tessMemsetAsync(address(o.to), static_cast<int>(o.salt & 0xFFU),
                               bytes_of(o.to), stream(o));
      case verb::host_function:
        work_.push_back({address(o.to), address(o.from), &o});
        return tessLaunchHostFunc(stream(o), do_host_work, &work_.back());
      case verb::host_write:
        compute(o.how, address(o.to), address(o.from), o.to.words, o.salt);
        return TESS_OK;
      case verb::query_stream: return tessStreamQuery(stream(o), &done);
      case verb::synchronize: return tessStreamSynchronize(stream(o));
      case verb::take_memory: return take_memory(o);
      case verb::give_memory: return tessFreeAsync(at(bases_, o.to.buffer), stream(o));
      case verb::open_stream: create_stream(o.stream); return TESS_OK;
      case verb::close_stream: return close_stream(o);
      case verb::record:
      case verb::wait:
      case verb::query_event:
      case verb::await_event: return about_event(o);
      default: return about_graph(o);
    }
  }

  /// Destroys a stream while its operations still run. An event recorded at its end is
  /// awaited before memory is compared.
  tessStatus_t close_stream(const operation& o) {
    ends_.emplace_back();
    check(tessEventCreate(&ends_.back()), "the creation of an event");
    check(tessEventRecord(ends_.back(), stream(o)), "the end of a stream");
    return tessStreamDestroy(std::exchange(at(streams_, o.stream), nullptr));
  }

  launch_args arguments_of(const operation& o) {
    return {address(o.to),
            address(o.from),
            o.to.words,
            o.salt,
            static_cast<std::int32_t>(o.how),
            o.spin,
            o.slow_rank};
  }
  static tessLaunchConfig shape_of(const operation& o) {
    const unsigned flags = (o.captures ? TESS_LAUNCH_CAPTURE : 0U) |
                           (o.urgent ? TESS_LAUNCH_LOW_LATENCY : 0U);
    return {{o.blocks, 1, 1}, {1, 1, 1}, 0, flags};
  }
  tessStatus_t launch(const operation& o) {
    const launch_args args = arguments_of(o);
    return tessLaunch(kernel_, mesh_of(o.stream), shape_of(o), &args, sizeof args,
                      stream(o));
  }
  tessStatus_t copy(const operation& o) {
    const auto kind = static_cast<tessCopyKind>(o.way);
    if (o.rank == none) {
      return tessMemcpyAsync(address(o.to), address(o.from), bytes_of(o.to), kind,
                             stream(o));
    }
    return tessMemcpyRankAsync(address(o.to), address(o.from), bytes_of(o.to), kind,
                               o.rank, stream(o));
  }
  tessStatus_t take_memory(const operation& o) {
    void* base = nullptr;
    const tessStatus_t status = tessMallocAsync(&base, bytes_of(o.to), stream(o));
    at(bases_, o.to.buffer) = static_cast<word*>(base);
    return status != TESS_OK ? status
                             : tessMemsetAsync(base, static_cast<int>(o.salt & 0xFFU),
                                               bytes_of(o.to), stream(o));
  }

  tessStatus_t about_event(const operation& o) {
    const tessEvent_t event = at(events_, o.event);
    const bool by_chain =
        fault_.kind == fault_kind::event_of_one_chain && o.recorded_in == none;
    int done = 0;
    switch (o.what) {
      case verb::record: {
        marks_.forget(o.event);
        const stream_spec& s = at(p_.streams, o.stream);
        if (by_chain && s.rank == none && at(p_.meshes, s.mesh).ranks() > 1) {
          marks_.put(mesh_of(o.stream), stream(o), o.event);
        }
        return tessEventRecord(event, stream(o));
      }
      case verb::wait:
        if (std::find(fault_.lost.begin(), fault_.lost.end(), o.id) !=
                fault_.lost.end() ||
            (by_chain && marks_.await(o.event))) {
          return TESS_OK;
        }
        return tessStreamWaitEvent(stream(o), event);
      case verb::query_event: return tessEventQuery(event, &done);
      default:
        return by_chain && marks_.await(o.event) ? TESS_OK : tessEventSynchronize(event);
    }
  }

  /// Stores the kinds of a graph's nodes, in the order of the graph's export.
  void note_nodes(int number, tessGraph_t graph) {
    std::size_t size = 0;
    check(tessGraphExport(graph, "json", nullptr, &size), "an export");
    std::string text(size, '\0');
    check(tessGraphExport(graph, "json", text.data(), &size), "an export");
    constexpr std::string_view before = "\"kind\":\"";
    std::vector<std::string>& kinds = kinds_[number];
    kinds.clear();
    for (std::size_t i = text.find(before); i != std::string::npos;
         i = text.find(before, i)) {
      i += before.size();
      kinds.push_back(text.substr(i, text.find('"', i) - i));
    }
  }
  /// Returns the number of the node of a recorded operation. An allocation has two nodes,
  /// one for the memory and one for its fill. Nodes of events and of the order of chains
  /// have kinds that no operation has, so nodes are counted by kind.
  std::size_t node_of(int graph, int id) {
    std::map<std::string, int> before;
    std::string kind;
    for (const graph_step& step : book_.of(graph)) {
      kind = step.what.what == verb::launch       ? "kernel"
             : step.what.what == verb::copy       ? "copy"
             : step.what.what == verb::fill       ? "fill"
             : step.what.what == verb::collective ? "collective"
                                                  : "";
      if (step.what.id == id) {
        break;
      }
      ++before[step.what.what == verb::take_memory ? "fill" : kind];
    }
    const auto& kinds = kinds_[graph];
    for (std::size_t i = 0, seen = 0; i < kinds.size(); ++i) {
      if (kinds[i] == kind && seen++ == static_cast<std::size_t>(before[kind])) {
        return i;
      }
    }
    return kinds.size();
  }
  tessStatus_t update(const operation& o) {
    const tessGraphExec_t exec = at(graphs_, o.graph);
    const std::size_t node = node_of(o.graph, o.node);
    switch (o.becomes) {
      case verb::launch: {
        const launch_args args = arguments_of(o);
        return tessGraphExecUpdateLaunch(exec, node, kernel_, shape_of(o), &args,
                                         sizeof args, stream(o));
      }
      case verb::copy: {
        tessCopyDesc d{};
        d.structSize = sizeof d;
        d.kind = static_cast<std::int32_t>(o.way);
        d.dst = address(o.to);
        d.src = address(o.from);
        d.width = bytes_of(o.to);
        d.rank = o.rank;
        return tessGraphExecUpdateCopy(exec, node, &d, stream(o));
      }
      case verb::fill:
        return tessGraphExecUpdateFill(exec, node, address(o.to),
                                       static_cast<int>(o.salt & 0xFFU), bytes_of(o.to),
                                       stream(o));
      default: {
        const tessCollectiveDesc d = description_of(o, none);
        return tessGraphExecUpdateCollective(exec, node, &d, stream(o));
      }
    }
  }

  tessStatus_t about_graph(const operation& o) {
    tessGraph_t graph = nullptr;
    tessStatus_t status = TESS_OK;
    switch (o.what) {
      case verb::begin_capture: return tessStreamBeginCapture(stream(o));
      case verb::launch_graph: return tessGraphLaunch(at(graphs_, o.graph), stream(o));
      case verb::discard_graph:
        return tessGraphExecDestroy(std::exchange(at(graphs_, o.graph), nullptr));
      case verb::update_node: return update(o);
      default:
        status = o.what == verb::end_capture ? tessStreamEndCapture(stream(o), &graph)
                                             : tessStreamTakeGraph(stream(o), &graph);
        if (status == TESS_OK) {
          note_nodes(o.graph, graph);
          status = tessGraphInstantiate(graph, &at(graphs_, o.graph));
        }
        if (status == TESS_OK) {
          status = tessGraphDestroy(graph);
        }
        return status;
    }
  }

  /// Calls one rank's share, or the whole operation. With the fault pairing_by_admission,
  /// the share that is to be overtaken and the one that overtakes it are exchanged.
  void post(const operation& o, int rank) {
    const operation* what = &o;
    if (fault_.kind == fault_kind::pairing_by_admission && rank == fault_.rank &&
        (o.id == fault_.operation || o.id == fault_.by)) {
      const int other = o.id == fault_.operation ? fault_.by : fault_.operation;
      what = &*std::find_if(p_.operations.begin(), p_.operations.end(),
                            [&](const operation& one) { return one.id == other; });
    }
    const int on = rank == none ? what->stream : at(what->shares, rank);
    const int own = what->collective.own_address ? rank : none;
    check(post_on(*what, own, mesh_of(on), at(streams_, on)), text_of(p_, *what));
  }
  /// Makes the call. `own` is the rank by whose own address memory is named, or none.
  tessStatus_t post_on(const operation& o, int own, tessMesh_t mesh, tessStream_t on) {
    if (o.collective.way == collective_way::barrier) {
      return tessBarrier(mesh, o.collective.axis, on);
    }
    const tessCollectiveDesc d = description_of(o, own);
    return tessCollective(mesh, &d, on);
  }
  tessCollectiveDesc description_of(const operation& o, int own) {
    const collective_spec& c = o.collective;
    const auto address_of = [&](place where) {
      where.rank = own;
      return address(where);
    };
    constexpr std::array<int, 9> types = {0, TESS_INT8, TESS_INT16, 0,         TESS_INT32,
                                          0, 0,         0,          TESS_INT64};
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.kind = static_cast<std::int32_t>(c.way);
    d.sendbuf = address_of(o.from);
    d.recvbuf = address_of(o.to);
    d.count = static_cast<std::size_t>(c.count);
    d.dtype = at(types, c.bytes);
    d.op = c.op;
    d.axis = c.axis;
    d.root = c.root;
    d.peer = c.peer;
    if (c.way != collective_way::send) {
      d.algorithm = c.algorithm;
      d.chunkBytes = static_cast<std::size_t>(c.chunk_bytes);
      d.packedShards = c.packed ? 1 : 0;
    }
    return d;
  }

  const fault& fault_;
  tessKernel_t kernel_;
  std::deque<host_work> work_;
  chain_marks marks_;
  graph_book book_;
  std::set<int> noted_;  ///< operations that the graph book has seen
  std::map<int, std::vector<std::string>> kinds_;  ///< kinds of nodes, by graph
};

}  // namespace

machine::machine(int workers) {
  const std::string threads = std::to_string(workers);
  const environment set({{"TESS_CPU_DEVICES", "8"},
                         {"TESS_NUM_THREADS", threads.c_str()},
                         {"TESS_TIMEOUT_MS", "20000"}});
  EXPECT_TESS(tessInit(&context_));
  kernels_ = std::make_unique<registered_module>(context_, serial_kernels());
}

machine::~machine() {
  kernels_.reset();
  EXPECT_TESS(tessShutdown(context_));
}

std::string machine::run(const program& p, const fault& with) {
  return run_in(context_, (*kernels_)["serial_kernel"], p, with);
}

std::string run_in(tessContext_t context, tessKernel_t kernel, const program& p,
                   const fault& with) {
  return run_of_program(context, kernel, p, with).run();
}

}  // namespace weir::test::serial
