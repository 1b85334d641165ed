// SPDX-License-Identifier: Apache-2.0
/// @file
/// Communicators over the stand-ins, with memory on every device.
#include "collectives/clique_rig.hpp"

#include <future>

#include <gtest/gtest.h>

namespace weir::tessera::stand_in {

machine late_machine(int devices) {
  machine shown;
  shown.devices = devices;
  shown.max_delay_us = 50;
  shown.nccl_polls = 3;
  return shown;
}

std::string broken_rules() {
  std::string text;
  for (const breach& b : take_breaches()) {
    text += b.rule + ": " + b.text + "\n";
  }
  return text;
}

device_buffers::device_buffers(const cuda::driver_api& api, int device, std::size_t bytes)
    : api_(api), device_(device) {
  (void)api_.init(0);
  (void)api_.primary_retain(&context_, device);
  (void)api_.context_push(context_);
  (void)api_.stream_create(&stream_, cuda::stream_non_blocking, 0);
  cuda::pool_properties wanted;
  wanted.location.id = device;
  (void)api_.pool_create(&pool_, &wanted);
  for (std::byte** const to : {&input, &output}) {
    cuda::device_address made = 0;
    EXPECT_EQ(api_.allocate(&made, bytes, pool_, stream_), cuda::status::success);
    *to = reinterpret_cast<std::byte*>(made);
  }
  while (api_.stream_query(stream_) == cuda::status::not_ready) {
  }
  cuda::context_handle popped = nullptr;
  (void)api_.context_pop(&popped);
}

device_buffers::~device_buffers() {
  (void)api_.context_push(context_);
  for (std::byte* const p : {input, output}) {
    (void)api_.free(reinterpret_cast<cuda::device_address>(p), stream_);
  }
  while (api_.stream_query(stream_) == cuda::status::not_ready) {
  }
  (void)api_.stream_destroy(stream_);
  (void)api_.pool_destroy(pool_);
  cuda::context_handle popped = nullptr;
  (void)api_.context_pop(&popped);
  (void)api_.primary_release(device_);
}

clique_rig::clique_rig(const machine& shown) : shown_(shown) {
  set_up(shown, nullptr);
  library = or_throw(cuda::load_nccl(WEIR_STAND_IN_NCCL));
  driver = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
  (void)driver.api.init(0);
}

result<std::unique_ptr<cuda::nccl_clique>> clique_rig::open(std::int64_t limit_ns) const {
  std::vector<cuda::device_number> numbers;
  for (int i = 0; i < shown_.devices; ++i) {
    numbers.push_back(i);
  }
  cuda::clique_options options;
  options.limit_ns = limit_ns;
  return cuda::nccl_clique::open(library, driver.api, numbers, options);
}

result<void> clique_rig::run(cuda::nccl_clique& clique, const cuda::clique_work& work) {
  std::promise<result<void>> ended;
  clique.submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
  return ended.get_future().get();
}

std::vector<std::unique_ptr<device_buffers>> clique_rig::buffers(
    std::size_t bytes) const {
  std::vector<std::unique_ptr<device_buffers>> made;
  for (int i = 0; i < shown_.devices; ++i) {
    made.push_back(std::make_unique<device_buffers>(driver.api, i, bytes));
  }
  return made;
}

}  // namespace weir::tessera::stand_in
