// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding and encoding every object again with the pipeline it had.
#pragma once

#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// A message with the same elements. Stages that are not written, or that readers fail
/// on, become safe ones; each change is said on standard error. `number` is the
/// message's, for that text.
/// @error{what decoding returns: nothing that can be read is refused}
[[nodiscard]] result<byte_vector> recode_message(const formats::message_reader& reader,
                                                 std::size_t number, unsigned threads);

}  // namespace weir::tools
