// SPDX-License-Identifier: Apache-2.0
/// @file
/// The types behind the handles of messages and metadata.
#pragma once

#include <tensogram/tensogram.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::capi {

/// A decoded object, in the types that the accessors hand out.
struct decoded_object {
  const char* dtype = nullptr;  ///< points to a literal
  const char* order = nullptr;  ///< points to a literal
  std::string type;             ///< type of the object
  std::string encoding;         ///< name of the encoding
  std::string filter;           ///< name of the filter
  std::string compression;      ///< name of the compression
  std::string digest;           ///< 16 hexadecimal digits, empty if the frame has none
  std::vector<std::uint64_t> shape;    ///< in elements
  std::vector<std::uint64_t> strides;  ///< in elements
  byte_vector elements;                ///< decoded, in the byte order that was asked for
};

}  // namespace weir::capi

/// A decoded message. It does not refer to the bytes from which it was decoded.
struct tgm_message_t {
  std::vector<weir::capi::decoded_object> objects;  ///< in the order of the message
  std::shared_ptr<const weir::formats::message_metadata> metadata;  ///< never null
};

/// Decoded metadata. The parts are CBOR values, so that a tgm_value_t can be the address
/// of one; they never move while the handle lives.
struct tgm_metadata_t {
  explicit tgm_metadata_t(weir::formats::message_metadata from);
  tgm_metadata_t(const tgm_metadata_t&) = delete;
  tgm_metadata_t& operator=(const tgm_metadata_t&) = delete;

  /// Keeps a text as long as the handle lives, because C callers get its address. The
  /// first text that is kept under a name stays.
  const char* keep(const std::string& name, std::string text) const;

  std::vector<weir::formats::cbor_value> base;  ///< maps
  weir::formats::cbor_value extra;              ///< a map
  weir::formats::cbor_value reserved;           ///< a map

 private:
  mutable std::mutex mutex_;                         ///< for `kept_`
  mutable std::map<std::string, std::string> kept_;  ///< under `mutex_`
};
