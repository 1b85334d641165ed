// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests numbers and layouts that programs have compiled in, so that none of them may
/// change.
#include <type_traits>

#include "conformance/tensogram_c/support.hpp"

namespace weir::test::tgm {
namespace {

TEST(tensogram_c, numbers_and_layouts_are_those_of_the_reference) {
  EXPECT_EQ(TGM_WIRE_VERSION, 3);
  const int errors[] = {
      TGM_ERROR_OK,          TGM_ERROR_FRAMING,       TGM_ERROR_METADATA,
      TGM_ERROR_ENCODING,    TGM_ERROR_COMPRESSION,   TGM_ERROR_OBJECT,
      TGM_ERROR_IO,          TGM_ERROR_HASH_MISMATCH, TGM_ERROR_INVALID_ARG,
      TGM_ERROR_END_OF_ITER, TGM_ERROR_REMOTE,        TGM_ERROR_MISSING_HASH,
      TGM_ERROR_TIMEOUT,     TGM_ERROR_CANCELLED};
  for (int i = 0; i < 14; ++i) {
    EXPECT_EQ(errors[i], i);
  }
  const int types[] = {TGM_VALUE_TYPE_NULL,  TGM_VALUE_TYPE_BOOL,   TGM_VALUE_TYPE_INT,
                       TGM_VALUE_TYPE_FLOAT, TGM_VALUE_TYPE_STRING, TGM_VALUE_TYPE_BYTES,
                       TGM_VALUE_TYPE_ARRAY, TGM_VALUE_TYPE_MAP};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(types[i], i);
  }
  const int statuses[] = {TGM_OBJECT_COUNT_STATUS_OK, TGM_OBJECT_COUNT_STATUS_NULL_HANDLE,
                          TGM_OBJECT_COUNT_STATUS_BUSY, TGM_OBJECT_COUNT_STATUS_FINISHED};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(statuses[i], i);
  }
  constexpr std::size_t word = sizeof(void*);
  EXPECT_EQ(sizeof(tgm_error), sizeof(int));
  EXPECT_EQ(sizeof(tgm_value_type), sizeof(int));
  EXPECT_EQ(sizeof(TgmObjectCountStatus), sizeof(int));
  EXPECT_EQ(sizeof(tgm_bytes_t), 2 * word);
  EXPECT_EQ(offsetof(tgm_bytes_t, len), word);
  EXPECT_EQ(sizeof(tgm_scan_entry_t), 2 * word);
  EXPECT_EQ(offsetof(tgm_scan_entry_t, length), word);
  EXPECT_EQ(sizeof(TgmDecodeMaskOptions), 1u);
  EXPECT_EQ(sizeof(TgmEncodeMaskOptions), 5 * word);
  EXPECT_EQ(offsetof(TgmEncodeMaskOptions, allow_nan), 0u);
  EXPECT_EQ(offsetof(TgmEncodeMaskOptions, allow_inf), 1u);
  EXPECT_EQ(offsetof(TgmEncodeMaskOptions, nan_mask_method), word);
  EXPECT_EQ(offsetof(TgmEncodeMaskOptions, pos_inf_mask_method), 2 * word);
  EXPECT_EQ(offsetof(TgmEncodeMaskOptions, neg_inf_mask_method), 3 * word);
  EXPECT_EQ(offsetof(TgmEncodeMaskOptions, small_mask_threshold_bytes), 4 * word);
  static_assert(std::is_standard_layout_v<TgmEncodeMaskOptions>);
}

}  // namespace
}  // namespace weir::test::tgm
