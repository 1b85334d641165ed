// SPDX-License-Identifier: Apache-2.0
/// @file
/// The wait for a stream of another library, and mistakes in it between the backend and
/// the stand-in, which has to report the rule that is broken.
#include <cstdio>
#include <future>

#include "tessera/cuda/other_library.hpp"
#include "tessera/cuda/support.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::status;
using Api = cuda::driver_api;

/// The unchanged functions, and the objects that mistakes concern.
Api unchanged;
cuda::stream_handle native = nullptr;
cuda::event_handle native_event = nullptr;

struct native_mistake {
  const char* name;
  const char* rule;  ///< empty: none is broken
  void (*plant)(Api& api);
};

/// Fills memory by a native stream, waits for that stream, and copies the memory. Returns
/// true if the rule of the mistake was reported, and it alone.
bool is_reported(const native_mistake& planted) {
  machine shown;
  shown.max_delay_us = 500;
  set_up(shown, std::make_shared<listed_executor>(conformance_list()));
  cuda::driver changed = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
  unchanged = changed.api;
  cuda_options options = stand_in_options();
  options.driver = &changed;
  planted.plant(changed.api);
  {
    const auto backend = or_throw(make_cuda_backend(options));
    other_library other(0);
    native = static_cast<cuda::stream_handle>(other.stream());
    native_event = nullptr;
    constexpr std::size_t bytes = 64;
    std::byte* const x = or_throw(backend->allocate(0, bytes));
    std::byte* const y = or_throw(backend->allocate(0, bytes));
    other.fill(x, 1, bytes);
    std::promise<result<void>> reached;
    std::promise<result<void>> copied;
    or_throw(backend->follow_native(
        0, reinterpret_cast<std::uintptr_t>(other.stream()),
        [&](result<void> outcome) { reached.set_value(std::move(outcome)); }));
    EXPECT_TRUE(reached.get_future().get());
    settle();  // a mistake does no harm
    backend->submit(copy_work{copy_kind::device_to_device, y, x, bytes, 0, 0},
                    [&](result<void> outcome) { copied.set_value(std::move(outcome)); });
    EXPECT_TRUE(copied.get_future().get());
    settle();
  }
  bool found = false;
  bool others = false;
  for (const breach& b : take_breaches()) {
    (b.rule == planted.rule ? found : others) = true;
  }
  return !others && found != std::string_view(planted.rule).empty();
}

TEST(CudaNative, AMissingWaitForANativeStreamIsReported) {
  const std::vector<native_mistake> all{
      {"no mistake", "", [](Api&) {}},
      {"event not recorded", "access_order",
       [](Api& a) {
         a.event_record = [](cuda::event_handle e, cuda::stream_handle s) {
           return s == native ? status::success : unchanged.event_record(e, s);
         };
       }},
      {"event taken for one that has occurred", "access_order", [](Api& a) {
         a.event_record = [](cuda::event_handle e, cuda::stream_handle s) {
           native_event = s == native ? e : native_event;
           return unchanged.event_record(e, s);
         };
         a.event_query = [](cuda::event_handle e) {
           return e == native_event ? status::success : unchanged.event_query(e);
         };
       }}};
  int reported = 0;
  for (const native_mistake& m : all) {
    const bool good = is_reported(m);
    EXPECT_TRUE(good) << m.name;
    reported += good && m.rule[0] != '\0' ? 1 : 0;
  }
  std::printf("planted: %d of %zu found\n", reported, all.size() - 1);
}

// The other library may have begun a capture behind the question whether its stream
// captures: the event is then one of the capture. 907 is CUDA_ERROR_CAPTURED_EVENT.
TEST(CudaNative, AnEventThatCannotBeAskedFailsTheWaitAndNotTheDevice) {
  set_up(machine{}, std::make_shared<listed_executor>(conformance_list()));
  cuda::driver changed = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
  unchanged = changed.api;
  native_event = nullptr;
  changed.api.event_record = [](cuda::event_handle e, cuda::stream_handle s) {
    native_event = s == native ? e : native_event;
    return unchanged.event_record(e, s);
  };
  changed.api.event_query = [](cuda::event_handle e) {
    return e == native_event ? static_cast<status>(907) : unchanged.event_query(e);
  };
  // A later event may have the same address.
  changed.api.event_destroy = [](cuda::event_handle e) {
    native_event = e == native_event ? nullptr : native_event;
    return unchanged.event_destroy(e);
  };
  cuda_options options = stand_in_options();
  options.driver = &changed;
  const auto backend = or_throw(make_cuda_backend(options));
  other_library other(0);
  native = static_cast<cuda::stream_handle>(other.stream());
  std::promise<result<void>> reached;
  or_throw(backend->follow_native(
      0, reinterpret_cast<std::uintptr_t>(other.stream()),
      [&](result<void> outcome) { reached.set_value(std::move(outcome)); }));
  const result<void> outcome = reached.get_future().get();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message().find("wait for native stream"), std::string::npos)
      << outcome.error().message();
  constexpr std::size_t bytes = 64;
  std::byte* const x = or_throw(backend->allocate(0, bytes));
  std::promise<result<void>> filled;
  backend->submit(copy_work{copy_kind::device_to_device, x, x, 0, 0, 0},
                  [&](result<void> ended) { filled.set_value(std::move(ended)); });
  EXPECT_TRUE(filled.get_future().get());
  EXPECT_TRUE(backend->free(0, x));
}

}  // namespace
}  // namespace weir::tessera::stand_in
