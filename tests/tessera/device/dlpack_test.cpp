// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the exchange of tensors with other libraries by DLPack: exported tensors keep
/// their memory alive, and imported tensors are checked before they are used.
#include "weir/tessera/device/dlpack.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "device/cpu.hpp"

namespace weir::tessera::dlpack {
namespace {

using shape_of = std::vector<std::int64_t>;

/// A backend with two devices and symmetric memory on both.
class Dlpack : public testing::Test {
 protected:
  std::shared_ptr<device_backend> backend_ = [] {
    cpu_options options;
    options.devices = 2;
    options.memory = 1 << 20;
    return std::shared_ptr<device_backend>(or_throw(make_cpu_backend(options)));
  }();
  symmetric_memory memory_{backend_};

  allocation_ptr allocate(std::size_t bytes) {
    const std::vector<std::int32_t> devices{0, 1};
    return or_throw(memory_.allocate(devices, bytes));
  }
  template <class T>
  static errc failure(const result<T>& r) {
    return r ? errc{} : r.error().code();
  }
};

/// A tensor of another library. Counts the calls of its deleter in `dropped`.
template <class Managed>
struct foreign_tensor {
  Managed managed;
  shape_of shape;
  shape_of strides;
  int dropped = 0;

  foreign_tensor(void* data, data_type type, shape_of extents, shape_of steps = {})
      : shape(std::move(extents)), strides(std::move(steps)) {
    managed.context = this;
    managed.deleter = [](Managed* self) {
      ++static_cast<foreign_tensor*>(self->context)->dropped;
    };
    managed.tensor.data = data;
    managed.tensor.ndim = static_cast<std::int32_t>(shape.size());
    managed.tensor.type = type;
    managed.tensor.shape = shape.data();
    managed.tensor.strides = strides.empty() ? nullptr : strides.data();
  }
};
using versioned = foreign_tensor<managed_tensor_versioned>;
constexpr data_type f32{type_float, 32, 1};

// The allocation is removed from the table before the exported tensor is used. The memory
// must stay until the other library calls the deleter.
TEST_F(Dlpack, AnExportKeepsItsMemory) {
  auto made = allocate(24 * 4);
  const shape_of shape{2, 3, 4};
  export_options options;
  options.shape = shape;
  options.rank = 1;
  options.read_only = true;
  managed_tensor_versioned* out = or_throw(make_versioned(made, options));
  std::byte* const address = made->data();
  std::byte* const second = made->instances()[1];
  made.reset();
  (void)or_throw(memory_.remove(address, memory_kind::device));
  EXPECT_GT(backend_->memory(0).in_use, 0U);
  EXPECT_EQ(out->major, 1U);
  EXPECT_EQ(out->flags, flag_read_only);
  EXPECT_EQ(out->tensor.data, second);
  EXPECT_EQ(out->tensor.byte_offset, 0U);
  EXPECT_EQ(out->tensor.device.type, device_cpu);
  ASSERT_EQ(out->tensor.ndim, 3);
  EXPECT_TRUE(std::equal(shape.begin(), shape.end(), out->tensor.shape));
  const shape_of strides{12, 4, 1};
  EXPECT_TRUE(std::equal(strides.begin(), strides.end(), out->tensor.strides));
  EXPECT_EQ(out->tensor.type.code, type_float);
  EXPECT_EQ(out->tensor.type.bits, 32);
  static_cast<float*>(out->tensor.data)[23] = 1.0F;
  out->deleter(out);
  EXPECT_EQ(backend_->memory(0).in_use, 0U);
}

TEST_F(Dlpack, TheOlderFormSaysTheSame) {
  auto made = allocate(100);
  export_options options;
  const shape_of shape{5};
  const shape_of strides{-2};
  options.type = dtype::int16;
  options.shape = shape;
  options.strides = strides;
  options.offset = 20;
  managed_tensor* out = or_throw(make_managed(made, options));
  EXPECT_EQ(out->tensor.data, made->data() + 20);
  EXPECT_EQ(out->tensor.strides[0], -2);
  auto seen = or_throw(describe(out));
  EXPECT_EQ(seen.type, dtype::int16);
  EXPECT_EQ(seen.begin, made->data() + 4);
  EXPECT_EQ(seen.bytes, 18U);
  out->deleter(out);
  options.read_only = true;
  EXPECT_EQ(failure(make_managed(made, options)), errc::unsupported);
}

// Shapes, strides and offsets at the bounds of an allocation of 100 bytes, and values
// whose products overflow.
TEST_F(Dlpack, ElementsOutsideTheAllocationAreNotExported) {
  auto made = allocate(100);
  const auto code = [&](shape_of shape, shape_of strides, std::size_t offset,
                        std::int32_t rank = 0) {
    export_options options;
    options.shape = shape;
    options.strides = strides;
    options.offset = offset;
    options.rank = rank;
    auto out = make_versioned(made, options);
    if (out) {
      (*out)->deleter(*out);
    }
    return failure(out);
  };
  EXPECT_EQ(code({25}, {}, 0), errc{});
  EXPECT_EQ(code({26}, {}, 0), errc::out_of_range);
  EXPECT_EQ(code({24}, {}, 4), errc{});
  EXPECT_EQ(code({25}, {}, 1), errc::out_of_range);
  EXPECT_EQ(code({13}, {2}, 0), errc{});
  EXPECT_EQ(code({14}, {2}, 0), errc::out_of_range);
  EXPECT_EQ(code({3}, {-1}, 8), errc{});
  EXPECT_EQ(code({3}, {-1}, 7), errc::out_of_range);
  EXPECT_EQ(code({1000}, {0}, 96), errc{});
  EXPECT_EQ(code({}, {}, 96), errc{});
  EXPECT_EQ(code({}, {}, 97), errc::out_of_range);
  EXPECT_EQ(code({0, 1LL << 62}, {}, 100), errc{});
  EXPECT_EQ(code({0}, {}, 101), errc::out_of_range);
  EXPECT_EQ(code({1LL << 40, 1LL << 40}, {}, 0), errc::out_of_range);
  EXPECT_EQ(code({2}, {std::numeric_limits<std::int64_t>::min()}, 0), errc::out_of_range);
  EXPECT_EQ(code({1}, {}, std::numeric_limits<std::size_t>::max()), errc::out_of_range);
  EXPECT_EQ(code({-1}, {}, 0), errc::invalid_argument);
  EXPECT_EQ(code({2, 2}, {1}, 0), errc::invalid_argument);
  EXPECT_EQ(code({1}, {}, 0, 2), errc::out_of_range);
  EXPECT_EQ(code({1}, {}, 0, -1), errc::out_of_range);
  // An empty tensor whose row-major strides are no numbers.
  export_options empty;
  const std::int64_t large = (1LL << 40) + 1;
  const std::array<std::int64_t, 3> extents{0, large, large};
  empty.shape = extents;
  auto exported = or_throw(make_versioned(made, empty));
  EXPECT_EQ(exported->tensor.strides[0], 0);
  EXPECT_EQ(exported->tensor.strides[1], large);
  exported->deleter(exported);
  export_options bits;
  bits.type = dtype::bitmask;
  EXPECT_EQ(failure(make_versioned(made, bits)), errc::unsupported);
  EXPECT_EQ(failure(make_versioned(nullptr, {})), errc::invalid_argument);
}

TEST_F(Dlpack, EveryTypeComesBackAsItself) {
  auto made = allocate(64);
  for (const auto& row : all_dtypes()) {
    if (row.id == dtype::bitmask) {
      continue;
    }
    export_options options;
    options.type = row.id;
    auto* out = or_throw(make_versioned(made, options));
    EXPECT_EQ(out->tensor.type.bits, row.size * 8);
    EXPECT_EQ(or_throw(describe(out)).type, row.id) << row.tensogram;
    out->deleter(out);
  }
}

TEST_F(Dlpack, ForeignTensorsAreKeptUntilTheyWereRemoved) {
  std::vector<float> data(60);
  versioned foreign(data.data(), f32, {3, 4}, {-20, 2});
  foreign.managed.tensor.byte_offset = 40 * 4;
  auto in = or_throw(adopt(memory_, &foreign.managed, allocation::host_device));
  EXPECT_EQ(static_cast<void*>(in->data()), data.data());
  EXPECT_EQ(in->bytes(), (40 + 6 + 1) * sizeof(float));
  EXPECT_TRUE(memory_.find(&data[46]).has_value());
  EXPECT_FALSE(memory_.find(&data[47]).has_value());
  (void)or_throw(memory_.remove(in->data(), memory_kind::imported));
  EXPECT_EQ(foreign.dropped, 0);
  in.reset();
  EXPECT_EQ(foreign.dropped, 1);

  foreign_tensor<managed_tensor> older(data.data(), f32, {60});
  (void)or_throw(adopt(memory_, &older.managed, 1));
  EXPECT_EQ(memory_.find(&data[0])->device(), 1);
  (void)or_throw(memory_.remove(data.data(), memory_kind::imported));
  EXPECT_EQ(older.dropped, 1);
}

// A tensor that was exported here and comes back refers to the same memory. It must be
// found as the original allocation, and both must be released in the end.
TEST_F(Dlpack, OurOwnTensorsMayComeBack) {
  auto made = allocate(400);
  const auto holders = made.use_count();
  const shape_of shape{50};
  export_options options;
  options.shape = shape;
  options.offset = 40;
  auto* out = or_throw(make_versioned(made, options));
  auto in = or_throw(adopt(memory_, out, 0));
  EXPECT_EQ(memory_.find(made->data() + 40)->memory, made);
  EXPECT_EQ(made.use_count(), holders + 1) << "the export holds one more reference";
  (void)or_throw(memory_.remove(in->data(), memory_kind::imported));
  in.reset();
  EXPECT_EQ(made.use_count(), holders);
}

// Each row makes one field of a valid tensor wrong. A refused tensor must not be
// released, because its caller still owns it.
TEST_F(Dlpack, WhatIsRefusedStaysTheCallers) {
  std::vector<float> data(16);
  const auto refused = [&](auto change, errc expected) {
    versioned foreign(data.data(), f32, {4, 4});
    change(foreign);
    EXPECT_EQ(failure(adopt(memory_, &foreign.managed, 0)), expected);
    EXPECT_EQ(foreign.dropped, 0);
  };
  refused([](auto& f) { f.managed.major = 2; }, errc::unsupported_version);
  refused([](auto& f) { f.managed.major = 0; }, errc::unsupported_version);
  refused([](auto& f) { f.managed.tensor.type.lanes = 4; }, errc::unsupported);
  refused([](auto& f) { f.managed.tensor.type.bits = 24; }, errc::unsupported);
  refused([](auto& f) { f.managed.tensor.type.code = 3; }, errc::unsupported);
  refused([](auto& f) { f.managed.tensor.ndim = -1; }, errc::invalid_argument);
  refused([](auto& f) { f.managed.tensor.ndim = 1 << 30; }, errc::invalid_argument);
  refused([](auto& f) { f.managed.tensor.shape = nullptr; }, errc::invalid_argument);
  refused([](auto& f) { f.managed.tensor.data = nullptr; }, errc::invalid_argument);
  refused([](auto& f) { f.shape[1] = -4; }, errc::invalid_argument);
  refused([](auto& f) { f.shape[0] = 0; }, errc::invalid_argument);
  refused(
      [](auto& f) {
        f.shape = {1LL << 33, 1LL << 33}, f.managed.tensor.shape = f.shape.data();
      },
      errc::out_of_range);
  refused([](auto& f) { f.managed.tensor.byte_offset = ~0ULL; }, errc::out_of_range);
  EXPECT_EQ(memory_.size(), 0U);
  EXPECT_EQ(failure(describe(static_cast<managed_tensor_versioned*>(nullptr))),
            errc::invalid_argument);
  EXPECT_EQ(failure(describe(static_cast<managed_tensor*>(nullptr))),
            errc::invalid_argument);
}

TEST_F(Dlpack, OfAnotherMajorVersionOnlyTheNumberIsRead) {
  // Only the eight bytes of the version exist. AddressSanitizer reports any read of the
  // fields behind it.
  alignas(managed_tensor_versioned) std::byte head[8] = {};
  const std::uint32_t version[2] = {7, 0};
  std::memcpy(head, version, sizeof version);
  EXPECT_EQ(failure(describe(reinterpret_cast<const managed_tensor_versioned*>(head))),
            errc::unsupported_version);
}

}  // namespace
}  // namespace weir::tessera::dlpack
