// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sizes of the buffers of collectives, and the checks of the memory that they may use. A
/// buffer is symmetric memory, so the address on one rank gives the addresses on all
/// ranks.
#include "stream/collectives/buffers.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/core.h>

namespace weir::tessera {

// The count of a call covers the shards of all ranks.
std::size_t extent(const collective::collective_call& call, int ranks, bool packed) {
  const auto size = static_cast<std::size_t>(info_of(call.type).size);
  return call.count * size / (packed ? static_cast<std::size_t>(ranks) : 1);
}

/// Only these kinds have a shard as input.
bool input_is_packed(const collective::collective_call& call) noexcept {
  return call.packed_shards && (call.kind == collective::collective_kind::all_gather ||
                                call.kind == collective::collective_kind::gather);
}
/// And only these have one as output.
bool output_is_packed(const collective::collective_call& call) noexcept {
  return call.packed_shards &&
         (call.kind == collective::collective_kind::reduce_scatter ||
          call.kind == collective::collective_kind::scatter);
}

namespace {

/// Looks a buffer up and checks it. `role` names it in messages.
result<memory_place> place_of(const stream& target, const void* address,
                              std::size_t bytes, std::size_t element_bytes,
                              std::string_view role) {
  const auto refuse = [&](std::string_view expected, std::string_view found) {
    return error(
        errc::invalid_argument,
        fmt::format("collective not posted: expected {}, found {}", expected, found));
  };
  const auto place =
      address == nullptr ? std::nullopt : target.context().memory().find(address);
  // On a stream of one rank, the address of that rank's own instance is accepted too.
  const bool own = place && place->memory->symmetric() && target.options().rank >= 0 &&
                   place->device() == target.device_of(0);
  if (!place || !place->memory->symmetric() || (place->rank != 0 && !own)) {
    return refuse(fmt::format("memory of the mesh as {}", role),
                  address == nullptr ? "null" : "another address");
  }
  // Every rank of the mesh must have an instance.
  if (!target.fits(*place)) {
    return refuse(fmt::format("an instance of the {} on each of {} devices", role,
                              target.mesh()->ranks()),
                  fmt::format("{}", place->memory->devices().size()));
  }
  if (place->offset % element_bytes != 0) {
    return refuse(
        fmt::format("{} at a multiple of its element's {} bytes", role, element_bytes),
        fmt::format("it at byte {} of its allocation", place->offset));
  }
  // The buffer must end inside of the allocation.
  if (bytes > place->bytes_left()) {
    return refuse(fmt::format("{} bytes of {}", bytes, role),
                  fmt::format("{} to the end of the allocation", place->bytes_left()));
  }
  return *place;
}

/// Checks that input and output are the same buffer or do not overlap. If they overlapped
/// otherwise, a rank would write bytes that other ranks still read. Packed shards cannot
/// be in place, because input and output have different sizes.
result<void> check_apart(const collective_request& request, const std::byte* from,
                         const std::byte* to, int ranks) {
  const bool packs = input_is_packed(request.call) || output_is_packed(request.call);
  if (from == to && (!packs || ranks == 1)) {
    return {};
  }
  const auto input = reinterpret_cast<std::uintptr_t>(from);
  const auto output = reinterpret_cast<std::uintptr_t>(to);
  const std::size_t in_bytes = extent(request.call, ranks, input_is_packed(request.call));
  const std::size_t out_bytes =
      extent(request.call, ranks, output_is_packed(request.call));
  // The ranges overlap.
  if (input < output + out_bytes && output < input + in_bytes) {
    return error(errc::invalid_argument,
                 fmt::format("collective not posted: expected an output {}beside the "
                             "input, found one that overlaps it",
                             packs ? "" : "in its place or "))
        .hint(packs ? "packed shards stand in a buffer of their own" : "");
  }
  return {};
}

}  // namespace

/// Requires a call with elements.
result<buffer_places> places_of(const stream& target, const collective_request& request,
                                int ranks) {
  buffer_places out;
  const auto element = static_cast<std::size_t>(info_of(request.call.type).size);
  WEIR_TRY(out.input, place_of(target, request.input,
                               extent(request.call, ranks, input_is_packed(request.call)),
                               element, "input"));
  WEIR_TRY(out.output,
           place_of(target, request.output,
                    extent(request.call, ranks, output_is_packed(request.call)), element,
                    "output"));
  // Compares both addresses on one rank. The result is the same on all ranks.
  const int rank = std::max(target.options().rank, 0);
  WEIR_CHECK(
      check_apart(request, out.input->on_rank(rank), out.output->on_rank(rank), ranks));
  return out;
}

}  // namespace weir::tessera
