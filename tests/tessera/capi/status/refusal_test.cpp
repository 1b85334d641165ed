// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls every function with each argument in turn null, stale or of another kind. All
/// must return a status and none may crash. The list of calls is compared with the
/// headers, so none is missing.
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>
#include <type_traits>

#include "support.hpp"

namespace weir::test {
namespace {

int nothing_kernel(const tessBlockContext*, const void*) {
  return 0;
}

/// True for the handle types of the interface.
template <class T>
constexpr bool is_handle =
    std::is_same_v<T, tessContext_t> || std::is_same_v<T, tessMesh_t> ||
    std::is_same_v<T, tessStream_t> || std::is_same_v<T, tessEvent_t> ||
    std::is_same_v<T, tessModule_t> || std::is_same_v<T, tessKernel_t> ||
    std::is_same_v<T, tessProfiler_t> || std::is_same_v<T, tessGraph_t> ||
    std::is_same_v<T, tessGraphExec_t> || std::is_same_v<T, tessFatbin_t>;
template <class T>
constexpr bool is_frame =
    std::is_same_v<T, tessContext_t> || std::is_same_v<T, tessMesh_t>;

/// Owns one object of each kind, and handles of objects of each kind that are destroyed.
class zoo {
 public:
  zoo()
      : s(2), m(s.context, {{"nothing", nothing_kernel, {pointer_to("x", TESS_FP32)}}}) {
    EXPECT_TESS(tessEventCreate(&event));
    kernel = m["nothing"];
    EXPECT_TESS(tessFatbinCreate(&fatbin));
    graph = captured();
    EXPECT_TESS(tessGraphInstantiate(graph, &exec));
    EXPECT_TESS(tessProfilerStart(s.context, &profiler));
    memory = s.memory<char>(256);
    EXPECT_TESS(tessHostAlloc(256, &pinned, TESS_MEM_PINNED_HOST));
    make_stale();
  }
  ~zoo() {
    EXPECT_TESS(tessProfilerStop(profiler, nullptr));
    EXPECT_TESS(tessHostFree(pinned));
  }

  template <class T>
  [[nodiscard]] T stale() const {
    return std::get<T>(stale_);
  }
  [[nodiscard]] tessGraph_t captured() const {
    tessGraph_t out = nullptr;
    EXPECT_TESS(tessStreamBeginCapture(s.stream));
    EXPECT_TESS(tessBarrier(s.mesh, nullptr, s.stream));
    EXPECT_TESS(tessStreamEndCapture(s.stream, &out));
    return out;
  }

  session s;
  registered_module m;
  tessEvent_t event = nullptr;
  tessKernel_t kernel = nullptr;
  tessFatbin_t fatbin = nullptr;
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  tessProfiler_t profiler = nullptr;
  char* memory = nullptr;
  void* pinned = nullptr;

 private:
  void make_stale() {
    auto& [context, mesh, stream, old_event, module, old_kernel, old_profiler, old_graph,
           old_exec, old_fatbin] = stale_;
    const int id = 0;
    ASSERT_TESS(tessInit(&context));
    ASSERT_TESS(tessProfilerStart(context, &old_profiler));
    ASSERT_TESS(tessShutdown(context));
    ASSERT_TESS(tessMeshCreate(s.context, &id, 1, {1, 1, 1, 1}, &mesh));
    ASSERT_TESS(tessStreamCreate(mesh, 0, &stream));
    ASSERT_TESS(tessMeshDestroy(mesh));
    ASSERT_TESS(tessEventCreate(&old_event));
    ASSERT_TESS(tessEventDestroy(old_event));
    old_graph = captured();
    ASSERT_TESS(tessGraphInstantiate(old_graph, &old_exec));
    ASSERT_TESS(tessGraphDestroy(old_graph));
    ASSERT_TESS(tessGraphExecDestroy(old_exec));
    ASSERT_TESS(tessFatbinCreate(&old_fatbin));
    ASSERT_TESS(tessFatbinDestroy(old_fatbin));
    const registered_module gone(s.context, {{"gone", nothing_kernel, {}}});
    module = gone.module;
    old_kernel = gone["gone"];
  }

  std::tuple<tessContext_t, tessMesh_t, tessStream_t, tessEvent_t, tessModule_t,
             tessKernel_t, tessProfiler_t, tessGraph_t, tessGraphExec_t, tessFatbin_t>
      stale_;
};

/// Calls a function once for each way to spoil one of its arguments.
class sweeper {
 public:
  explicit sweeper(const zoo& objects) : zoo_(objects) {}

  /// `may_be_null` lists the arguments for which null has a meaning.
  template <class... A>
  void operator()(const char* name, tessStatus_t (*call)(A...),
                  std::initializer_list<std::size_t> may_be_null,
                  std::type_identity_t<A>... good) {
    EXPECT_TRUE(seen_.insert(name).second) << name << " twice";
    const std::tuple<A...> all(good...);
    sweep(name, call, std::set<std::size_t>(may_be_null), all,
          std::index_sequence_for<A...>());
  }
  [[nodiscard]] std::set<std::string>& seen() { return seen_; }

 private:
  template <class... A, std::size_t... I>
  void sweep(const char* name, tessStatus_t (*call)(A...),
             const std::set<std::size_t>& may_be_null, const std::tuple<A...>& good,
             std::index_sequence<I...>) {
    (spoil<I>(name, call, may_be_null.contains(I), good), ...);
  }

  template <std::size_t I, class... A>
  void spoil(const char* name, tessStatus_t (*call)(A...), bool null_is_good,
             std::tuple<A...> arguments) {
    using type = std::tuple_element_t<I, std::tuple<A...>>;
    const auto check = [&](type bad, tessStatus_t expected, const char* text) {
      std::get<I>(arguments) = bad;
      EXPECT_EQ(std::apply(call, arguments), expected)
          << name << ", argument " << I << " " << text << ": "
          << tessGetLastErrorMessage();
      EXPECT_STRNE(tessGetLastErrorMessage(), "") << name;
    };
    if constexpr (is_handle<type>) {
      const tessStatus_t expected =
          is_frame<type> ? TESS_ERR_NOT_INITIALIZED : TESS_ERR_INVALID_VALUE;
      check(nullptr, expected, "null");
      check(zoo_.template stale<type>(), expected, "stale");
      check(reinterpret_cast<type>(std::uintptr_t{0x1234567}), expected, "bogus");
      check(reinterpret_cast<type>(~std::uintptr_t{0}), expected, "all ones");
      if constexpr (std::is_same_v<type, tessStream_t>) {
        check(reinterpret_cast<type>(zoo_.event), expected, "of another kind");
      } else {
        check(reinterpret_cast<type>(zoo_.s.stream), expected, "of another kind");
      }
    } else if constexpr (std::is_pointer_v<type>) {
      if (!null_is_good) {
        check(nullptr, TESS_ERR_INVALID_VALUE, "null");
      }
    }
  }

  const zoo& zoo_;
  std::set<std::string> seen_;
};

// Calls of one area of the interface each, with every argument spoilt in turn.
void sweep_frames(sweeper& sweep, const zoo& z) {
  static tessContext_t context;
  static tessMesh_t mesh;
  static tessNumericsPolicy policy{1, 1, 1, 0};
  static tessDeviceProps props{};
  static tessMeshInfo info{};
  static int numbers[8];
  static int ids[1];
  static tessProfiler_t profiler;
  static tessCacheStats cache{};
  props.structSize = sizeof props;
  info.structSize = sizeof info;
  cache.structSize = sizeof cache;
  const auto& s = z.s;
  sweep("tessInit", &tessInit, {}, &context);
  sweep("tessShutdown", &tessShutdown, {}, s.context);
  sweep("tessDeviceGetCount", &tessDeviceGetCount, {}, s.context, numbers);
  sweep("tessDeviceGetProps", &tessDeviceGetProps, {}, s.context, 0, &props);
  sweep("tessMeshCreate", &tessMeshCreate, {}, s.context, ids, 1,
        tessMeshAxes{1, 1, 1, 1}, &mesh);
  sweep("tessMeshDestroy", &tessMeshDestroy, {}, s.mesh);
  sweep("tessMeshGetInfo", &tessMeshGetInfo, {}, s.mesh, &info);
  sweep("tessMeshRankCoords", &tessMeshRankCoords, {}, s.mesh, 0, numbers);
  sweep("tessMeshAxisGroup", &tessMeshAxisGroup, {1, 3}, s.mesh, "dp", 0, numbers,
        numbers + 4);
  sweep("tessSetNumericsPolicy", &tessSetNumericsPolicy, {}, s.context, &policy);
  sweep("tessGetNumericsPolicy", &tessGetNumericsPolicy, {}, s.context, &policy);
  sweep("tessProfilerStart", &tessProfilerStart, {}, s.context, &profiler);
  static tessProfilerDesc desc{sizeof desc, 0, 0};
  sweep("tessProfilerStartEx", &tessProfilerStartEx, {}, s.context, &desc, &profiler);
  sweep("tessProfilerStop", &tessProfilerStop, {1}, z.profiler, "/nowhere/trace.json");
  sweep("tessSetDeterminism", &tessSetDeterminism, {}, s.context, 1, 7);
  sweep("tessCacheVerify", &tessCacheVerify, {}, s.context);
  sweep("tessCacheClear", &tessCacheClear, {}, s.context);
  sweep("tessCacheGetStats", &tessCacheGetStats, {}, s.context, &cache);
}

void sweep_streams(sweeper& sweep, const zoo& z) {
  static tessStream_t stream;
  static tessEvent_t event;
  static int done;
  static float time;
  static std::size_t size;
  static tessDeterminism determinism{};
  static tessStreamDesc desc{sizeof desc, 0, -1, 0, 0, -1};
  determinism.structSize = sizeof determinism;
  const auto& s = z.s;
  sweep("tessStreamCreate", &tessStreamCreate, {}, s.mesh, 0, &stream);
  sweep("tessStreamCreateEx", &tessStreamCreateEx, {}, s.mesh, &desc, &stream);
  sweep("tessStreamDestroy", &tessStreamDestroy, {}, s.stream);
  sweep("tessStreamSynchronize", &tessStreamSynchronize, {}, s.stream);
  sweep("tessStreamQuery", &tessStreamQuery, {}, s.stream, &done);
  sweep("tessStreamIsCapturing", &tessStreamIsCapturing, {}, s.stream, &done);
  static tessStreamInfo info{};
  info.structSize = sizeof info;
  sweep("tessStreamGetInfo", &tessStreamGetInfo, {}, s.stream, &info);
  sweep("tessStreamSetTimeout", &tessStreamSetTimeout, {}, s.stream, 0);
  sweep("tessStreamSetMemoryLimit", &tessStreamSetMemoryLimit, {}, s.stream, 0);
  sweep("tessStreamGetMemoryUse", &tessStreamGetMemoryUse, {1, 2}, s.stream, &size,
        &size);
  sweep("tessStreamRequestStop", &tessStreamRequestStop, {}, s.stream);
  sweep("tessStreamGetLastMessage", &tessStreamGetLastMessage, {1}, s.stream, nullptr,
        &size);
  sweep("tessStreamGetDeterminism", &tessStreamGetDeterminism, {}, s.stream,
        &determinism);
  sweep(
      "tessLaunchHostFunc", &tessLaunchHostFunc, {2}, s.stream, [](void*) {}, nullptr);
  sweep("tessEventCreate", &tessEventCreate, {}, &event);
  sweep("tessEventDestroy", &tessEventDestroy, {}, z.event);
  sweep("tessEventRecord", &tessEventRecord, {}, z.event, s.stream);
  sweep("tessStreamWaitEvent", &tessStreamWaitEvent, {}, s.stream, z.event);
  sweep("tessStreamWaitNative", &tessStreamWaitNative, {}, s.stream, 0,
        TESS_NATIVE_LEGACY);
  sweep("tessNativeWaitStream", &tessNativeWaitStream, {}, TESS_NATIVE_LEGACY, 0,
        s.stream);
  static void* native = nullptr;
  sweep("tessStreamFromNative", &tessStreamFromNative, {}, s.mesh, 0, TESS_NATIVE_LEGACY,
        &stream);
  sweep("tessStreamGetNative", &tessStreamGetNative, {}, s.stream, &native);
  sweep("tessEventQuery", &tessEventQuery, {}, z.event, &done);
  sweep("tessEventSynchronize", &tessEventSynchronize, {}, z.event);
  sweep("tessEventElapsedTime", &tessEventElapsedTime, {}, &time, z.event, z.event);
}

/// Returns the description of a copy of one row from the host.
const tessCopyDesc& rows_of(void* to, const void* from) {
  static tessCopyDesc out{};
  out.structSize = sizeof out;
  out.kind = TESS_COPY_H2D;
  out.dst = to;
  out.src = from;
  out.width = 8;
  out.rank = -1;
  return out;
}

void sweep_memory(sweeper& sweep, const zoo& z) {
  static void* out;
  static char host[256];
  static std::size_t size;
  static tessPointerAttributes attributes{};
  static tessMemPoolStats pool{};
  static tessTensorInfo info{};
  static const int64_t extent = 4;
  static tessTensorDesc desc{sizeof desc, TESS_FP32, 1, 0, &extent, nullptr, 0, 0};
  attributes.structSize = sizeof attributes;
  pool.structSize = sizeof pool;
  info.structSize = sizeof info;
  const auto& s = z.s;
  sweep(
      "tessSetAllocator", &tessSetAllocator, {2},
      [](std::size_t, std::size_t, void*) -> void* { return nullptr; },
      [](void*, std::size_t, void*) {}, nullptr);
  sweep("tessMalloc", &tessMalloc, {}, s.mesh, 8, &out);
  sweep("tessFree", &tessFree, {1}, s.mesh, z.memory);
  sweep("tessMallocAsync", &tessMallocAsync, {}, &out, 8, s.stream);
  sweep("tessFreeAsync", &tessFreeAsync, {0}, z.memory, s.stream);
  sweep("tessMemPoolGetStats", &tessMemPoolGetStats, {}, s.mesh, &pool);
  sweep("tessMemPoolSetKeep", &tessMemPoolSetKeep, {}, s.mesh, 0);
  sweep("tessMemPoolTrim", &tessMemPoolTrim, {}, s.mesh, 0);
  sweep("tessHostAlloc", &tessHostAlloc, {}, 8, &out, TESS_MEM_PINNED_HOST);
  sweep("tessHostFree", &tessHostFree, {0}, z.pinned);
  sweep("tessHostRegister", &tessHostRegister, {}, host, sizeof host);
  sweep("tessHostUnregister", &tessHostUnregister, {}, host);
  sweep("tessMemcpyAsync", &tessMemcpyAsync, {}, z.memory, host, 8, TESS_COPY_H2D,
        s.stream);
  sweep("tessMemcpyRankAsync", &tessMemcpyRankAsync, {}, z.memory, host, 8, TESS_COPY_H2D,
        1, s.stream);
  sweep("tessMemcpy2DAsync", &tessMemcpy2DAsync, {}, z.memory, 16, host, 8, 8, 2,
        TESS_COPY_H2D, s.stream);
  sweep("tessCopyAsync", &tessCopyAsync, {}, &rows_of(z.memory, host), s.stream);
  sweep("tessMemsetAsync", &tessMemsetAsync, {}, z.memory, 0, 8, s.stream);
  sweep("tessMemGetRankPtr", &tessMemGetRankPtr, {}, s.mesh, z.memory, 1, &out);
  sweep("tessMemGetInfo", &tessMemGetInfo, {2, 3}, s.mesh, 0, &size, &size);
  sweep("tessPointerGetAttributes", &tessPointerGetAttributes, {1}, s.context, z.memory,
        &attributes);
  sweep("tessMemExportDlpack", &tessMemExportDlpack, {}, s.context, z.memory, &desc,
        &out);
  // The tensor can be imported only once. The call checks its last argument before it
  // takes the tensor.
  void* tensor = nullptr;
  ASSERT_TESS(tessMemExportDlpack(s.context, z.memory, &desc, &tensor));
  sweep("tessMemImportDlpack", &tessMemImportDlpack, {}, s.context, tensor, 0, -1, &info);
  ASSERT_TESS(tessMemImportDlpack(s.context, tensor, 0, -1, &info));
  sweep("tessMemRegisterExternal", &tessMemRegisterExternal, {}, s.context, host, 8, -1);
  sweep("tessMemReleaseImported", &tessMemReleaseImported, {}, s.context, info.begin);
  ASSERT_TESS(tessMemReleaseImported(s.context, info.begin));
}

void sweep_modules(sweeper& sweep, const zoo& z) {
  static tessModule_t module;
  static tessKernel_t kernel;
  static tessFatbin_t fatbin;
  static const char* name;
  static int count;
  static std::size_t size;
  static char buffer[4096];
  static tessKernelInfo info{};
  static tessParamInfo param{};
  static void* pointer;
  static const void* values[] = {&pointer};
  static tessFatbinKernel record{};
  static tessFatbinPlan plan{};
  static const tessNumericsPolicy policy{1, 1, 1, 0};
  info.structSize = sizeof info;
  param.structSize = sizeof param;
  record.structSize = sizeof record;
  record.name = "one";
  plan.structSize = sizeof plan;
  const auto& s = z.s;
  const tessLaunchConfig cfg{{1, 1, 1}, {1, 1, 1}, 0, 0};
  sweep("tessModuleLoad", &tessModuleLoad, {}, s.context, buffer, sizeof buffer, &module);
  sweep("tessModuleUnload", &tessModuleUnload, {}, z.m.module);
  sweep("tessKernelGet", &tessKernelGet, {}, z.m.module, "nothing", &kernel);
  sweep("tessModuleGetKernelCount", &tessModuleGetKernelCount, {}, z.m.module, &count);
  sweep("tessModuleGetKernelName", &tessModuleGetKernelName, {}, z.m.module, 0, &name);
  sweep("tessKernelGetInfo", &tessKernelGetInfo, {}, z.kernel, &info);
  sweep("tessKernelGetParam", &tessKernelGetParam, {}, z.kernel, 0, &param);
  size = sizeof buffer;
  sweep("tessPackArgs", &tessPackArgs, {3}, z.kernel, values, 1, buffer, &size);
  size = sizeof buffer;
  sweep("tessExplain", &tessExplain, {1}, z.m.module, buffer, &size);
  sweep("tessRegisterHostKernel", &tessRegisterHostKernel, {}, "another",
        reinterpret_cast<void (*)()>(&nothing_kernel), &param, 1, 0);
  sweep("tessUnregisterHostKernel", &tessUnregisterHostKernel, {}, "nothing");
  sweep("tessLaunch", &tessLaunch, {}, z.kernel, s.mesh, cfg, &pointer, sizeof pointer,
        s.stream);
  sweep("tessFatbinCreate", &tessFatbinCreate, {}, &fatbin);
  sweep("tessFatbinDestroy", &tessFatbinDestroy, {}, z.fatbin);
  sweep("tessFatbinAddCode", &tessFatbinAddCode, {5}, z.fatbin, "PTX", "sm_90", buffer, 8,
        &count);
  sweep("tessFatbinAddKernel", &tessFatbinAddKernel, {}, z.fatbin, &record);
  sweep("tessFatbinAddPlan", &tessFatbinAddPlan, {}, z.fatbin, &plan);
  sweep("tessFatbinSetPolicy", &tessFatbinSetPolicy, {}, z.fatbin, &policy, 0, 0);
  sweep("tessFatbinSetExplain", &tessFatbinSetExplain, {}, z.fatbin, "{}");
  sweep("tessFatbinSetSourceHash", &tessFatbinSetSourceHash, {}, z.fatbin, buffer);
  sweep("tessFatbinSetAbi", &tessFatbinSetAbi, {}, z.fatbin, 1, 0);
  sweep("tessFatbinBuild", &tessFatbinBuild, {1, 2}, z.fatbin, nullptr, nullptr, &size);
}

void sweep_collectives(sweeper& sweep, const zoo& z) {
  const auto& s = z.s;
  char* const x = z.memory;
  char* const y = z.memory + 128;
  static tessCollectiveDesc desc{};
  desc.structSize = sizeof desc;
  desc.sendbuf = x;
  desc.count = 2;
  desc.dtype = TESS_FP32;
  sweep("tessAllReduce", &tessAllReduce, {5}, s.mesh, x, 2, TESS_FP32, TESS_COLL_SUM,
        nullptr, s.stream);
  sweep("tessReduceScatter", &tessReduceScatter, {5}, s.mesh, x, 2, TESS_FP32,
        TESS_COLL_SUM, nullptr, s.stream);
  sweep("tessAllGather", &tessAllGather, {4}, s.mesh, x, 2, TESS_FP32, nullptr, s.stream);
  sweep("tessBroadcast", &tessBroadcast, {}, s.mesh, x, 2, TESS_FP32, 0, s.stream);
  // A null target means that the result replaces the source.
  sweep("tessReduce", &tessReduce, {2, 7}, s.mesh, x, y, 2, TESS_FP32, TESS_COLL_SUM, 0,
        nullptr, s.stream);
  sweep("tessGather", &tessGather, {2, 6}, s.mesh, x, y, 2, TESS_FP32, 0, nullptr,
        s.stream);
  sweep("tessScatter", &tessScatter, {2, 6}, s.mesh, x, y, 2, TESS_FP32, 0, nullptr,
        s.stream);
  sweep("tessAllToAll", &tessAllToAll, {2, 5}, s.mesh, x, y, 2, TESS_FP32, nullptr,
        s.stream);
  sweep("tessSendRecv", &tessSendRecv, {2}, s.mesh, x, y, 2, TESS_FP32, 0, 1, s.stream);
  sweep("tessMeshRecover", &tessMeshRecover, {}, s.mesh, 0);
  sweep("tessMeshAbort", &tessMeshAbort, {}, s.mesh);
  sweep("tessMeshQuery", &tessMeshQuery, {}, s.mesh, 0);
  sweep("tessBarrier", &tessBarrier, {1}, s.mesh, nullptr, s.stream);
  sweep("tessCollective", &tessCollective, {}, s.mesh, &desc, s.stream);
}

void sweep_graphs(sweeper& sweep, const zoo& z) {
  static tessGraph_t graph;
  static tessGraphExec_t exec;
  static std::size_t size;
  static void* pointer;
  const auto& s = z.s;
  const tessLaunchConfig cfg{{1, 1, 1}, {1, 1, 1}, 0, 0};
  sweep("tessStreamBeginCapture", &tessStreamBeginCapture, {}, s.stream);
  sweep("tessStreamBeginCaptureEx", &tessStreamBeginCaptureEx, {}, s.stream,
        TESS_CAPTURE_RELAXED);
  sweep("tessStreamEndCapture", &tessStreamEndCapture, {}, s.stream, &graph);
  sweep("tessStreamTakeGraph", &tessStreamTakeGraph, {}, s.stream, &graph);
  sweep("tessGraphGetNodeCount", &tessGraphGetNodeCount, {}, z.graph, &size);
  sweep("tessGraphExport", &tessGraphExport, {2}, z.graph, "dot", nullptr, &size);
  sweep("tessGraphDestroy", &tessGraphDestroy, {}, z.graph);
  sweep("tessGraphInstantiate", &tessGraphInstantiate, {}, z.graph, &exec);
  sweep("tessGraphLaunch", &tessGraphLaunch, {}, z.exec, s.stream);
  sweep("tessGraphExecUpdateLaunch", &tessGraphExecUpdateLaunch, {}, z.exec, 0, z.kernel,
        cfg, &pointer, sizeof pointer, s.stream);
  static tessCollectiveDesc collective{};
  collective.structSize = sizeof collective;
  collective.sendbuf = z.memory;
  collective.count = 2;
  collective.dtype = TESS_FP32;
  sweep("tessGraphExecUpdateCopy", &tessGraphExecUpdateCopy, {}, z.exec, 0,
        &rows_of(z.memory, &size), s.stream);
  sweep("tessGraphExecUpdateFill", &tessGraphExecUpdateFill, {}, z.exec, 0, z.memory, 0,
        8, s.stream);
  sweep("tessGraphExecUpdateCollective", &tessGraphExecUpdateCollective, {}, z.exec, 0,
        &collective, s.stream);
  sweep("tessGraphExecDestroy", &tessGraphExecDestroy, {}, z.exec);
}

/// Returns the functions that a header declares.
std::set<std::string> declared(const char* header) {
  std::ifstream file(std::string(TESSERA_HEADERS) + "/" + header);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  static const std::regex pattern("TESS_API[^;]*?[ *(](tess[A-Z][A-Za-z0-9]*)\\(");
  std::set<std::string> out;
  for (std::sregex_iterator i(all.begin(), all.end(), pattern), end; i != end; ++i) {
    out.insert((*i)[1]);
  }
  return out;
}

TEST(TesseraRefusal, EveryCallWithEveryArgumentSpoilt) {
  zoo z;
  sweeper sweep(z);
  sweep_frames(sweep, z);
  sweep_streams(sweep, z);
  sweep_memory(sweep, z);
  sweep_modules(sweep, z);
  sweep_collectives(sweep, z);
  sweep_graphs(sweep, z);
  EXPECT_TESS(tessStreamSynchronize(z.s.stream));  // no call has enqueued anything
  EXPECT_EQ(z.s.read(z.memory, 256, 1), std::vector<char>(256, 0));
  // These functions have no argument to spoil, or return no status.
  std::set<std::string> known = std::move(sweep.seen());
  known.insert({"tessGetVersion", "tessSetLogCallback", "tessGetErrorString",
                "tessGetErrorName", "tessStatusString", "tessGetLastErrorMessage",
                "tessGetProcAddress", "tessGroupStart", "tessGroupEnd",
                "tessStreamGetPriorityRange"});
  std::set<std::string> all = declared("tessera.h");
  EXPECT_EQ(all.size(), 29U)
      << "the number of functions of the specification has changed";
  for (const auto& header : std::filesystem::directory_iterator(TESSERA_HEADERS)) {
    if (header.path().extension() == ".h") {
      all.merge(declared(header.path().filename().c_str()));
    }
  }
  EXPECT_EQ(all, known);
  for (const std::string& name : all) {
    EXPECT_NE(tessGetProcAddress(name.c_str(), 0), nullptr) << name << " is not exported";
  }
}

TEST(TesseraRefusal, StructuresWithoutTheirSize) {
  zoo z;
  const auto& s = z.s;
  const auto zeroed = [](auto* structure) {
    *structure = {};
    return structure;
  };
  tessDeviceProps props;
  tessMeshInfo mesh;
  tessStreamDesc stream;
  tessPointerAttributes attributes;
  tessMemPoolStats pool;
  tessTensorDesc tensor;
  tessTensorInfo tensor_info;
  tessKernelInfo kernel;
  tessParamInfo param;
  tessFatbinKernel record;
  tessFatbinPlan plan;
  tessCollectiveDesc collective;
  tessDeterminism determinism;
  tessCacheStats cache;
  tessCopyDesc copy;
  tessStreamInfo stream_info;
  tessProfilerDesc profiler;
  tessProfiler_t started = nullptr;
  tessStream_t made = nullptr;
  void* out = nullptr;
  void* exported = nullptr;
  const int64_t extent = 4;
  tensor = {sizeof tensor, TESS_FP32, 1, 0, &extent, nullptr, 0, 0};
  ASSERT_TESS(tessMemExportDlpack(s.context, z.memory, &tensor, &exported));
  const tessStatus_t got[] = {
      tessDeviceGetProps(s.context, 0, zeroed(&props)),
      tessMeshGetInfo(s.mesh, zeroed(&mesh)),
      tessStreamCreateEx(s.mesh, zeroed(&stream), &made),
      tessPointerGetAttributes(s.context, z.memory, zeroed(&attributes)),
      tessMemPoolGetStats(s.mesh, zeroed(&pool)),
      tessMemExportDlpack(s.context, z.memory, zeroed(&tensor), &out),
      tessMemImportDlpack(s.context, exported, 0, -1, zeroed(&tensor_info)),
      tessKernelGetInfo(z.kernel, zeroed(&kernel)),
      tessKernelGetParam(z.kernel, 0, zeroed(&param)),
      tessRegisterHostKernel("another", reinterpret_cast<void (*)()>(&nothing_kernel),
                             zeroed(&param), 1, 0),
      tessFatbinAddKernel(z.fatbin, zeroed(&record)),
      tessFatbinAddPlan(z.fatbin, zeroed(&plan)),
      tessCollective(s.mesh, zeroed(&collective), s.stream),
      tessStreamGetDeterminism(s.stream, zeroed(&determinism)),
      tessCacheGetStats(s.context, zeroed(&cache)),
      tessCopyAsync(zeroed(&copy), s.stream),
      tessStreamGetInfo(s.stream, zeroed(&stream_info)),
      tessProfilerStartEx(s.context, zeroed(&profiler), &started)};
  for (const tessStatus_t status : got) {
    EXPECT_EQ(status, TESS_ERR_INVALID_VALUE) << "call " << &status - got;
  }
  tensor_info.structSize = sizeof tensor_info;
  ASSERT_TESS(tessMemImportDlpack(s.context, exported, 0, -1, &tensor_info));
  ASSERT_TESS(tessMemReleaseImported(s.context, tensor_info.begin));
}

TEST(TesseraRefusal, CallsInsideAStreamThatWouldEnqueueOrWait) {
  session s;
  struct seen {
    session* s;
    void* memory;
    std::vector<tessStatus_t> got;
  } saw{&s, s.memory<char>(64), {}};
  ASSERT_TESS(tessLaunchHostFunc(
      s.stream,
      [](void* user) {
        auto& me = *static_cast<seen*>(user);
        const session& own = *me.s;
        void* p = nullptr;
        tessGraph_t graph = nullptr;
        int done = 0;
        me.got = {tessMalloc(own.mesh, 8, &p),
                  tessFree(own.mesh, me.memory),
                  tessMallocAsync(&p, 8, own.stream),
                  tessFreeAsync(me.memory, own.stream),
                  tessMemsetAsync(me.memory, 0, 8, own.stream),
                  tessMemcpyAsync(me.memory, &p, 8, TESS_COPY_H2D, own.stream),
                  tessStreamSynchronize(own.stream),
                  tessStreamQuery(own.stream, &done),
                  tessStreamDestroy(own.stream),
                  tessMeshDestroy(own.mesh),
                  tessShutdown(own.context),
                  tessBarrier(own.mesh, nullptr, own.stream),
                  tessGroupStart(),
                  tessGroupEnd(),
                  tessStreamBeginCapture(own.stream),
                  tessStreamEndCapture(own.stream, &graph)};
      },
      &saw));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(saw.got, std::vector<tessStatus_t>(16, TESS_ERR_INVALID_VALUE));
}

}  // namespace
}  // namespace weir::test
