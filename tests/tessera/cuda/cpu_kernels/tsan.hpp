// SPDX-License-Identifier: Apache-2.0
/// @file
/// What ThreadSanitizer is told about the threads of kernels. All of it does nothing in
/// builds without ThreadSanitizer.
///
/// One thread of the host runs all threads of a launch in turn, so that nothing they do
/// is concurrent. For ThreadSanitizer each of them is a fiber nevertheless, and switches
/// between these fibers order nothing (`fiber_context::unordered`). These places order:
///
/// * the start of a thread comes behind what the caller of the launch did before;
/// * a barrier: threads call `arrive` before it and `depart` behind it;
/// * atomic operations, as far as the order in their call says;
/// * the end of a launch comes behind all of its threads (`end_thread`, `depart`).
///
/// The machine's own data have no order, since all fibers share them. What the machine
/// writes while it runs is left out (`unrecorded_accesses`).
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "device/cpu/fiber.hpp"

#if defined(WEIR_TSAN)
// The runtime of ThreadSanitizer defines these functions; no header declares them. The
// first pair leaves out writes, too.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace weir::tessera::kernel_machine::tsan {

/// Leaves out the accesses of the calling fiber while the object exists. No switch to
/// another fiber may happen meanwhile.
class unrecorded_accesses {
 public:
#if defined(WEIR_TSAN)
  unrecorded_accesses() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~unrecorded_accesses() {
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  // User-provided, so that no build warns of an unused variable.
  unrecorded_accesses() {}
  ~unrecorded_accesses() {}
#endif
  unrecorded_accesses(const unrecorded_accesses&) = delete;
  unrecorded_accesses& operator=(const unrecorded_accesses&) = delete;
};

/// Lets locks that the calling fiber takes order nothing while the object exists. The
/// locks of the stand-in driver would hide races between threads of a kernel.
class unordered_locks {
 public:
#if defined(WEIR_TSAN)
  unordered_locks() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~unordered_locks() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
#else
  unordered_locks() {}
  ~unordered_locks() {}
#endif
  unordered_locks(const unordered_locks&) = delete;
  unordered_locks& operator=(const unordered_locks&) = delete;
};

/// Puts what the calling fiber has done so far before each later `depart` at this place.
inline void arrive([[maybe_unused]] void* place) {
#if defined(WEIR_TSAN)
  __tsan_release(place);
#endif
}
/// Puts what the calling fiber does from now on behind each earlier `arrive`.
inline void depart([[maybe_unused]] void* place) {
#if defined(WEIR_TSAN)
  __tsan_acquire(place);
#endif
}

/// Names the fiber of a thread in reports.
inline void name_thread([[maybe_unused]] fiber_context& of,
                        [[maybe_unused]] const std::string& name) {
#if defined(WEIR_TSAN)
  __tsan_set_fiber_name(of.shadow, name.c_str());
#endif
}

/// Arrives at a place on behalf of a thread that has ended or never runs again.
inline void end_thread([[maybe_unused]] fiber_context& of, [[maybe_unused]] void* place) {
#if defined(WEIR_TSAN)
  void* const self = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(of.shadow, __tsan_switch_to_fiber_no_sync);
  __tsan_release(place);
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
#endif
}

/// The undefined content of shared memory, as writes of a thread that nothing orders: a
/// thread that reads such a byte is in a race with it.
class undefined_content {
 public:
#if defined(WEIR_TSAN)
  undefined_content() : fiber_(__tsan_create_fiber(0)) {
    __tsan_set_fiber_name(fiber_, "undefined content of shared memory");
  }
  ~undefined_content() {
    __tsan_destroy_fiber(fiber_);
  }
#else
  undefined_content() = default;
#endif
  undefined_content(const undefined_content&) = delete;
  undefined_content& operator=(const undefined_content&) = delete;

  /// Writes the pattern of undefined content again.
  void appear([[maybe_unused]] std::byte* at, [[maybe_unused]] std::size_t bytes) const {
#if defined(WEIR_TSAN)
    void* const self = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
    std::memset(at, 0xFF, bytes);
    __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
#endif
  }

 private:
  [[maybe_unused]] void* fiber_ = nullptr;
};

}  // namespace weir::tessera::kernel_machine::tsan
