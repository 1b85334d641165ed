// SPDX-License-Identifier: Apache-2.0
/// @file
/// The prefetch of frames for the reader of a whole message.
#pragma once

#include <memory>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Fetches what message_reader::open() will read of a message: its frames without the
/// payloads. The index of the message says where they are; without one nothing is
/// fetched. Faults of the message are left for the reader to find.
/// @error{what the source returns}
[[nodiscard]] result<void> prefetch_frames(
    const std::shared_ptr<const byte_source>& source, message_span span);

}  // namespace weir::formats
