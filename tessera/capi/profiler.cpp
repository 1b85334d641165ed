// SPDX-License-Identifier: Apache-2.0
/// @file
/// Profilers: starting one, and stopping it with a trace.
///
/// A profiler is an observer of its context. While no profiler is open in the process,
/// calls do not even read the clock (`call_watch::nobody_listens`).
#include "capi/profiler.hpp"

namespace weir::tessera::capi {
namespace {

/// Stops a profiler once. The policy in effect is noted at this moment, because the
/// context may be gone when the trace is written.
void stop_listening(profiler_object& p) {
  if (!p.listens.exchange(false)) {
    return;
  }
  --call_watch::listeners;
  if (const auto c = p.context.lock()) {
    p.recorder->note_policy(c->policy());
    c->unobserve(p.recorder.get());
  }
}

}  // namespace

void close_profilers(const context& ended) {
  all().profilers.for_each([&](profiler_object& one) {
    if (const auto c = one.context.lock(); c.get() == &ended) {
      stop_listening(one);
    }
  });
}

namespace {

/// Starts a profiler with at most `max_records` records; 0 means the number of the
/// settings.
result<void> start(tessContext_t ctx, std::uint64_t max_records, tessProfiler_t* profiler,
                   std::string_view call) {
  WEIR_TRY(const auto c, find(ctx, call));
  if (profiler == nullptr) {
    return null_argument(call, "a place for the profiler");
  }
  auto made = std::make_shared<profiler_object>();
  made->context = c;
  made->recorder = std::make_shared<tessera::recorder>(
      *c, max_records == 0 ? c->settings().profiler_records : max_records);
  c->observe(made->recorder);
  // Set after the observer is in place: `stop_listening` undoes both.
  made->listens = true;
  ++call_watch::listeners;
  *profiler = handle_of<tessProfiler_t>(all().profilers.add(std::move(made)));
  return {};
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// Several profilers of one context may run at the same time.
tessStatus_t tessProfilerStart(tessContext_t ctx, tessProfiler_t* profiler) {
  return run([&] { return start(ctx, 0, profiler, "tessProfilerStart"); });
}

// A description may end before `maxRecords`; the number of the settings counts then.
tessStatus_t tessProfilerStartEx(tessContext_t ctx, const tessProfilerDesc* desc,
                                 tessProfiler_t* profiler) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessProfilerStartEx";
    WEIR_TRY(const tessProfilerDesc d,
             read_struct(call, desc, offsetof(tessProfilerDesc, maxRecords)));
    WEIR_CHECK(check_reserved(call, d.reserved));
    return start(ctx, d.maxRecords, profiler, call);
  });
}

// The profiler may be stopped after its context has ended: its records are still there.
// Without a path no trace is written.
tessStatus_t tessProfilerStop(tessProfiler_t profiler, const char* outJsonPath) {
  return run([&]() -> result<void> {
    const auto p = all().profilers.remove(number_of(profiler));
    if (p == nullptr) {
      return no_object("tessProfilerStop", "profiler");
    }
    stop_listening(*p);
    return outJsonPath == nullptr ? result<void>() : p->recorder->write(outJsonPath);
  });
}

}  // extern "C"
