// SPDX-License-Identifier: Apache-2.0
/// @file
/// The prefetch of frames for the reader of a whole message.
#pragma once

#include <memory>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Fetches the bytes of a message that message_reader::open() will read: its frames
/// without the payloads. They are found by the index of the message. Faults of the
/// message are left for the reader to find. @error{those of the source}
[[nodiscard]] result<void> prefetch_frames(
    const std::shared_ptr<const byte_source>& source, message_span span);

}  // namespace weir::formats
