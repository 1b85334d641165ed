// SPDX-License-Identifier: Apache-2.0
/// @file
/// Buffers of a collective: their sizes and their memory.
///
/// The checks are made when the program calls, before a plan is made or any rank waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "weir/tessera/stream/collective.hpp"

namespace weir::tessera {

/// Plans expect scratch at a multiple of this.
inline constexpr std::size_t scratch_alignment = 64;
/// Returns the next address that is such a multiple.
[[nodiscard]] inline std::byte* aligned_address(std::byte* address) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return address + (scratch_alignment - number % scratch_alignment) % scratch_alignment;
}

/// Returns the size of one rank's input or output. `packed` means that the buffer holds a
/// single shard. @units{bytes}
[[nodiscard]] std::size_t extent(const collective::collective_call& call, int ranks,
                                 bool packed);
/// Returns true if the input holds a single shard.
[[nodiscard]] bool input_is_packed(const collective::collective_call& call) noexcept;
/// Returns true if the output holds a single shard.
[[nodiscard]] bool output_is_packed(const collective::collective_call& call) noexcept;

/// Lets the backend of the mesh copy the buffers of a group, whose ranks are set, unless
/// the host may use them as they are.
void copy_by_backend(collective_group& g, const mesh& m);

/// Places of a collective's buffers.
struct buffer_places {
  std::optional<memory_place> input;  ///< nothing: the call has no buffers
  std::optional<memory_place> output;
};

/// Finds and checks the buffers of a request.
/// @error{invalid_argument; a buffer that is not memory of the mesh or, on a stream of
/// one rank, of that rank; that is too short or not aligned to its elements; or an output
/// that overlaps its input without being in place}
[[nodiscard]] result<buffer_places> places_of(const stream& target,
                                              const collective_request& request,
                                              int ranks);

}  // namespace weir::tessera
