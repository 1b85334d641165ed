// SPDX-License-Identifier: Apache-2.0
/// @file
/// The types behind the handles that tasks produce.
#pragma once

#include <tensogram/tensogram.h>
#include <memory>
#include <string>

namespace weir::capi {
class message_store;
class ordered_stream;
}  // namespace weir::capi

/// A file. Tasks share it, so the handle may be closed before they end.
struct tgm_async_file_t {
  std::shared_ptr<weir::capi::message_store> file;  ///< never null
};

/// A stream. Tasks share it, so the handle may be freed before they end.
struct tgm_async_streaming_encoder_t {
  std::string path;                                    ///< as the caller gave it
  std::shared_ptr<weir::capi::ordered_stream> stream;  ///< never null
};
