// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the table of element types: ids and names of both interfaces, suggestions for
/// unknown names, and sizes in bytes.
#include "weir/base/dtype.hpp"

#include <gtest/gtest.h>

using namespace weir;

TEST(Dtype, TesseraIdsAndNamesAreThoseOfTheAbi) {
  const char* names[] = {"fp8_e4m3", "fp8_e5m2",  "fp16",      "bf16",  "fp32",
                         "fp64",     "int8",      "int16",     "int32", "int64",
                         "bool",     "complex64", "complex128"};
  for (int id = 1; id <= 13; ++id) {
    EXPECT_EQ(or_throw(info_of(id)).tessera, names[id - 1]);
  }
}

TEST(Dtype, TableIsReachedByIdNameAndValueAlike) {
  for (const auto& row : all_dtypes()) {
    EXPECT_EQ(info_of(row.id).id, row.id);
    EXPECT_EQ(or_throw(info_of(static_cast<int>(row.id))).id, row.id);
    for (auto name : {row.tessera, row.tensogram}) {
      if (!name.empty()) {
        EXPECT_EQ(or_throw(dtype_named(name)), row.id) << name;
      }
    }
  }
}

TEST(Dtype, UnknownNameSuggestsTheNearest) {
  const auto r = dtype_named("flaot32");
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().text().find("\"float32\""), std::string::npos) << r.error().text();
}

TEST(Dtype, UnknownIdsAndOversizedTensorsAreRefused) {
  EXPECT_FALSE(info_of(0));
  EXPECT_FALSE(info_of(14));
  EXPECT_FALSE(info_of(99));
  EXPECT_FALSE(byte_size(dtype::fp64, std::int64_t{1} << 61));
  EXPECT_EQ(or_throw(byte_size(dtype::bitmask, 9)), 2);
  for (const dtype type : {dtype::fp64, dtype::bitmask}) {
    const auto size = byte_size(type, -1);
    ASSERT_FALSE(size) << info_of(type).tensogram;
    EXPECT_EQ(size.error().code(), errc::out_of_range);
  }
}
