// SPDX-License-Identifier: Apache-2.0
/// @file
/// The JSON with which callers of the C interface describe messages. Whatever is wrong
/// with it is TGM_ERROR_METADATA, except text that is not UTF-8, which is
/// TGM_ERROR_INVALID_ARG.
#pragma once

#include <vector>

#include "capi/failure.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::capi {

/// Content of the JSON that describes a message.
struct json_message {
  std::vector<formats::cbor_map> base;
  formats::cbor_map extra;
  std::vector<formats::object_descriptor> descriptors;
};

/// The JSON of a message that is encoded whole.
[[nodiscard]] outcome<json_message> parse_message(const char* json);
/// The JSON of a stream, where "descriptors" is a key like others.
[[nodiscard]] outcome<json_message> parse_stream(const char* json);
/// The JSON of one descriptor. Without "strides" those of the descriptor are empty, and a
/// writer derives them.
[[nodiscard]] outcome<formats::object_descriptor> parse_descriptor(const char* json);
/// The JSON of a preceder: an object without "_reserved_".
[[nodiscard]] outcome<formats::cbor_map> parse_preceder(const char* json);

}  // namespace weir::capi
