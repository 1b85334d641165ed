// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding objects and encoding them again with the pipeline that they had.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tgm/stored.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// How objects are to be encoded, as the command line says; an object keeps what is not
/// set here.
struct encoding_wishes {
  unsigned threads = 0;
  bool allow_nan = false;  ///< NaN becomes zero and a mask
  bool allow_inf = false;  ///< infinities become zeros and a mask for each sign
  std::string nan_method;
  std::string positive_method;
  std::string negative_method;
  std::optional<std::uint64_t> small_mask_bytes;
};

/// A message with the same elements, every object encoded again. Stages that are not
/// written, or that readers fail on, become safe ones, and an object that this build
/// cannot decode stays as it is stored; standard error names each such change. `number`
/// is the number of the message, for that text.
/// @error{what decoding returns: nothing that can be read is refused}
[[nodiscard]] result<byte_vector> recode_message(const formats::message_reader& reader,
                                                 std::size_t number,
                                                 const encoding_wishes& wishes);

/// Appends object `i`, whose digest the caller has verified, to a message: as it is
/// stored, or encoded again if `wishes` allow values that it holds outside of masks, or
/// masks of another method than it has.
/// @error{what reading and encoding return}
[[nodiscard]] result<void> take_with_masks(stored_message& to,
                                           const formats::message_reader& reader,
                                           std::size_t number, std::size_t i,
                                           const encoding_wishes& wishes);

}  // namespace weir::tools
