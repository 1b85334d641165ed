// SPDX-License-Identifier: Apache-2.0
/// @file
/// The JSON with which callers of the C interface describe messages. Text that is
/// not UTF-8 is refused with TGM_ERROR_INVALID_ARG, and every other mistake in it with
/// TGM_ERROR_METADATA.
#pragma once

#include <vector>

#include "capi/failure.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::capi {

/// The contents of the JSON that describes a message.
struct json_message {
  std::vector<formats::cbor_map> base;  ///< metadata of the objects
  formats::cbor_map extra;              ///< metadata of the message
  std::vector<formats::object_descriptor>
      descriptors;  ///< one for each object; empty for a stream
};

/// Reads the JSON of a message that is encoded as a whole.
[[nodiscard]] outcome<json_message> parse_message(const char* json);
/// Reads the JSON of a stream, where "descriptors" has no special meaning.
[[nodiscard]] outcome<json_message> parse_stream(const char* json);
/// Reads the JSON of one descriptor. Without the key "strides" the strides of the result
/// are empty, and a writer derives them.
[[nodiscard]] outcome<formats::object_descriptor> parse_descriptor(const char* json);
/// Reads the JSON of a preceder, an object without "_reserved_".
[[nodiscard]] outcome<formats::cbor_map> parse_preceder(const char* json);

}  // namespace weir::capi
