// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers of the tests of the C interface: checks of a status, a context with a mesh and
/// a stream, a host function that blocks a stream, and modules whose kernels are
/// functions of the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera_ext.h"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::test {

/// Expects that a call of the C interface returns TESS_OK; a failure prints the name of
/// the status and the runtime's message. ASSERT_TESS also ends the test.
#define EXPECT_TESS(call)                                      \
  do {                                                         \
    const tessStatus_t got_ = (call);                          \
    EXPECT_EQ(got_, TESS_OK) << tessGetErrorName(got_) << ": " \
                             << tessGetLastErrorMessage();     \
  } while (false)
#define ASSERT_TESS(call)                                      \
  do {                                                         \
    const tessStatus_t got_ = (call);                          \
    ASSERT_EQ(got_, TESS_OK) << tessGetErrorName(got_) << ": " \
                             << tessGetLastErrorMessage();     \
  } while (false)

/// Sets environment variables and restores their former values at the end of the scope.
class environment {
 public:
  environment(std::initializer_list<std::pair<const char*, const char*>> set) {
    for (const auto& [name, value] : set) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before == nullptr ? "" : before);
      setenv(name, value, 1);
    }
  }
  ~environment() {
    for (const auto& [name, value] : before_) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

/// A context with a mesh of `n` devices and one stream on it. If the product of the axes
/// is not `n`, all devices are placed along dp.
class session {
 public:
  explicit session(int n = 1, tessMeshAxes axes = {1, 1, 1, 1}) {
    EXPECT_TESS(tessInit(&context));
    std::vector<int> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    if (axes.tp * axes.pp * axes.dp * axes.ep != n) {
      axes.dp = n;
    }
    EXPECT_TESS(tessMeshCreate(context, ids.data(), n, axes, &mesh));
    EXPECT_TESS(tessStreamCreate(mesh, 0, &stream));
  }
  ~session() {
    if (context != nullptr) {
      EXPECT_TESS(tessShutdown(context));
    }
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Allocates `count` elements on every device of the mesh and fills them with zeros.
  template <class T>
  T* memory(std::size_t count) {
    void* out = nullptr;
    EXPECT_TESS(tessMalloc(mesh, count * sizeof(T), &out));
    EXPECT_TESS(tessMemsetAsync(out, 0, count * sizeof(T), stream));
    return static_cast<T*>(out);
  }
  /// Returns the values of one rank's instance. Waits for the stream first, so all
  /// operations submitted to it before have ended.
  template <class T>
  std::vector<T> read(T* address, std::size_t count, int rank = 0) {
    std::vector<T> out(count);
    EXPECT_TESS(tessMemcpyRankAsync(out.data(), address, count * sizeof(T), TESS_COPY_D2H,
                                    rank, stream));
    EXPECT_TESS(tessStreamSynchronize(stream));
    return out;
  }

  tessContext_t context = nullptr;
  tessMesh_t mesh = nullptr;
  tessStream_t stream = nullptr;
};

/// Blocks a stream with a host function that waits until `open` is called. Create it
/// before the session: the session's destructor waits for the stream, and the gate must
/// still exist then.
class gate {
 public:
  gate() = default;
  ~gate() { open(); }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  /// Submits the waiting host function to `stream`.
  void put_into(tessStream_t stream) {
    EXPECT_TESS(tessLaunchHostFunc(
        stream, [](void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); },
        &open_));
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

/// Waits until `thread` sleeps in the kernel, which means that the call it made is
/// blocked. Also returns when the thread has ended, because its call then did not block.
/// `thread` holds 0 until the thread has stored its id.
inline void until_asleep(const std::atomic<pid_t>& thread) {
  for (bool asleep = false; !asleep; std::this_thread::yield()) {
    const pid_t id = thread;
    std::ifstream file("/proc/self/task/" + std::to_string(id) + "/stat");
    if (id != 0 && !file) {
      return;
    }
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name_ends = text.rfind(')');
    asleep = name_ends != std::string::npos && text.compare(name_ends, 3, ") S") == 0;
  }
}

/// Returns the description of a pointer parameter (device memory, read and written).
inline tessParamInfo pointer_to(const char* name, uint32_t dtype) {
  tessParamInfo out{};
  out.structSize = sizeof out;
  out.kind = 1;
  out.dtype = dtype;
  out.size = 8;
  out.space = 1;
  out.direction = 2;
  out.name = name;
  return out;
}
/// Returns the description of a scalar parameter of `size` bytes.
inline tessParamInfo value(const char* name, uint32_t dtype, uint32_t size) {
  tessParamInfo out{};
  out.structSize = sizeof out;
  out.dtype = dtype;
  out.size = size;
  out.name = name;
  return out;
}

/// Registers functions of the test as host kernels and loads a module that refers to
/// them. The destructor unloads the module and removes the registrations.
class registered_module {
 public:
  /// Name, function and parameters of one kernel.
  struct entry {
    const char* name;
    tessBlockEntry code;
    std::vector<tessParamInfo> parameters;
    uint32_t flags = TESS_KERNEL_DETERMINISTIC;
  };

  registered_module(tessContext_t context, const std::vector<entry>& entries,
                    const std::optional<tessera::policy_record>& policy = {}) {
    tessera::fatbin_builder builder;
    if (policy) {
      builder.set_policy(*policy);
    }
    for (const entry& e : entries) {
      EXPECT_TESS(tessRegisterHostKernel(e.name, reinterpret_cast<void (*)()>(e.code),
                                         e.parameters.data(),
                                         static_cast<int>(e.parameters.size()), e.flags));
      names_.emplace_back(e.name);
      tessera::kernel_record record;
      record.name = e.name;
      record.flags = e.flags;
      for (const tessParamInfo& p : e.parameters) {
        record.parameters.push_back(
            p.kind == 1 ? tessera::pointer_parameter(p.name, p.dtype,
                                                     tessera::parameter_direction::inout)
                        : tessera::scalar_parameter(p.name, p.dtype));
      }
      or_throw(builder.add_kernel(std::move(record)));
    }
    builder.add_code(tessera::section_kind::cpu_registered, "host");
    const byte_vector image = or_throw(builder.build());
    EXPECT_TESS(tessModuleLoad(context, image.data(), image.size(), &module));
  }
  ~registered_module() {
    tessModuleUnload(module);
    for (const std::string& name : names_) {
      EXPECT_TESS(tessUnregisterHostKernel(name.c_str()));
    }
  }
  registered_module(const registered_module&) = delete;
  registered_module& operator=(const registered_module&) = delete;

  [[nodiscard]] tessKernel_t operator[](const char* name) const {
    tessKernel_t out = nullptr;
    EXPECT_TESS(tessKernelGet(module, name, &out));
    return out;
  }

  tessModule_t module = nullptr;

 private:
  std::vector<std::string> names_;
};

}  // namespace weir::test
