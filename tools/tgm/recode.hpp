// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding and encoding every object again with the pipeline it had.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// Masks as somebody wants them; what is unset stays as an object had it.
struct mask_wishes {
  bool nan = false;  ///< also where there was no mask
  bool infinity = false;
  std::string nan_method;
  std::string positive_method;
  std::string negative_method;
  std::optional<std::uint64_t> small_mask_bytes;
};

/// A message with the same elements. Stages that are not written, or that readers fail
/// on, become safe ones; each change is said on standard error. `number` is the
/// message's, for that text.
/// @error{what decoding returns: nothing that can be read is refused}
[[nodiscard]] result<byte_vector> recode_message(const formats::message_reader& reader,
                                                 std::size_t number, unsigned threads,
                                                 const mask_wishes& wishes);

}  // namespace weir::tools
