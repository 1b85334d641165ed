// SPDX-License-Identifier: Apache-2.0
/// @file
/// Code that the functions that encode whole messages share.
#pragma once

#include "capi/arguments.hpp"
#include "capi/failure.hpp"

namespace weir::capi {

/// The objects of a message as a C caller describes them.
struct object_arguments {
  const char* json;                 ///< text that describes the objects
  const std::uint8_t* const* data;  ///< addresses of their data
  const std::size_t* lengths;       ///< sizes of their data in bytes
  std::size_t count;                ///< number of objects
  bool stored = false;              ///< the data went through their pipeline before
};

/// Encodes a message. `options` are those that the caller's arguments gave.
[[nodiscard]] outcome<byte_vector> encode(const object_arguments& objects,
                                          outcome<formats::message_options> options);

}  // namespace weir::capi
