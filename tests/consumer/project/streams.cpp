// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that copies a number to a device and back on a stream
/// of Tessera. It prints 42.
#include <array>
#include <cstdint>
#include <cstdio>
#include <weir/tessera/stream/stream.hpp>
#include <weir/tessera/stream/work.hpp>

int main() {
  using weir::or_throw;
  namespace ts = weir::tessera;
  const auto runtime = or_throw(ts::context::make({.devices = 1, .threads = 2}));
  const std::array<std::int32_t, 1> devices = {0};
  const auto mesh = or_throw(runtime->make_mesh(devices, {1, 1, 1, 1}));
  const auto queue = or_throw(ts::stream::make(mesh, {}));
  const double number = 42;
  double back = 0;
  ts::copy_request there;
  there.to = or_throw(runtime->allocate(mesh, sizeof number));
  there.from = &number;
  there.bytes = sizeof number;
  ts::copy_request again;
  again.to = &back;
  again.from = there.to;
  again.bytes = sizeof number;
  again.kind = ts::copy_kind::device_to_host;
  or_throw(queue->post(or_throw(ts::make_copy(*queue, there))));
  or_throw(queue->post(or_throw(ts::make_copy(*queue, again))));
  or_throw(queue->synchronize());
  std::printf("%g\n", back);
  or_throw(runtime->shut_down());
}
