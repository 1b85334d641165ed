// SPDX-License-Identifier: Apache-2.0
/// @file
/// Profilers: start, and stop with a trace.
#include "capi/profiler.hpp"

namespace weir::capi {

void close_profilers(const context& of) {
  static_cast<void>(
      all().profilers.remove_if([](const auto& one) { return one.of.expired(); }));
  all().profilers.for_each([&](const profiler_object& one) {
    if (const auto whose = one.of.lock(); whose.get() == &of) {
      whose->unobserve(one.what.get());
    }
  });
}

}  // namespace weir::capi

using namespace weir;        // NOLINT: the functions of the interface are global
using namespace weir::capi;  // NOLINT

extern "C" {

tessStatus_t tessProfilerStart(tessContext_t ctx, tessProfiler_t* profiler) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto of, find(ctx, "tessProfilerStart"));
    if (profiler == nullptr) {
      return null_argument("tessProfilerStart", "a place for the profiler");
    }
    auto made = std::make_shared<profiler_object>();
    made->of = of;
    made->what = std::make_shared<runtime::recorder>(*of);
    of->observe(made->what);
    *profiler = handle_of<tessProfiler_t>(all().profilers.add(std::move(made)));
    return {};
  });
}

tessStatus_t tessProfilerStop(tessProfiler_t profiler, const char* outJsonPath) {
  return run([&]() -> result<void> {
    const auto p = all().profilers.remove(number_of(profiler));
    if (p == nullptr) {
      return stale("tessProfilerStop", "profiler");
    }
    if (const auto of = p->of.lock()) {
      of->unobserve(p->what.get());
    }
    return outJsonPath == nullptr ? result<void>() : p->what->write(outJsonPath);
  });
}

}  // extern "C"
