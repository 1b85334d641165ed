// SPDX-License-Identifier: Apache-2.0
/// @file
/// The buffers of a collective: how long they are and in which memory they lie.
#pragma once

#include <cstddef>
#include <optional>

#include "weir/tessera/stream/collective.hpp"

namespace weir::tessera {

/// Bytes of one rank's input or output; `packed`: of a buffer that holds one shard.
[[nodiscard]] std::size_t extent(const collective::collective_call& call, int ranks,
                                 bool packed);
[[nodiscard]] bool input_is_packed(const collective::collective_call& call) noexcept;
[[nodiscard]] bool output_is_packed(const collective::collective_call& call) noexcept;

struct buffer_places {
  std::optional<memory_place> input;  ///< nothing: the call has no buffers
  std::optional<memory_place> output;
};

/// @error{invalid_argument, a buffer that is no memory of the mesh or, on a stream of one
/// rank, of that rank; that is too short or stands at no multiple of its element's size;
/// or an output that overlaps its input elsewhere than in its place}
[[nodiscard]] result<buffer_places> places_of(const stream& on,
                                              const collective_request& what, int ranks);

}  // namespace weir::tessera
