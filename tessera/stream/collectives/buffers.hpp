// SPDX-License-Identifier: Apache-2.0
/// @file
/// Buffers of a collective: their sizes and their memory.
///
/// The checks are made when the program calls, before a plan is made or any rank waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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

/// How devices may take part in a collective.
struct device_use {
  bool computes = false;  ///< they may run it without the host
  bool level_0 = false;   ///< the order of sums is free
};
/// Returns how devices may take part. Wire formats and verification are steps of plans,
/// which the host runs.
[[nodiscard]] device_use use_of(const collective::collective_plan& plan, bool verified);
/// Prepares the devices of ranks for collectives, which may wait for them.
void open_devices_of(const mesh& m, std::span<const int> ranks, const device_use& use);
/// Lets devices run the collective of a group, whose ranks are set, or copy its buffers
/// to and from the host, unless the host may use the buffers as they are. With
/// `find_only` it waits for no device: `open_devices_of` was called before.
void use_devices(collective_group& g, const mesh& m, const device_use& use,
                 bool find_only = false);

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
