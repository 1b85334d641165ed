// SPDX-License-Identifier: Apache-2.0
/// @file
/// The volume reader actor: one tag of an HN4 volume as a stream of bytes, on a thread of
/// its own.
#pragma once

#include <optional>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::actors {

/// Most bytes of one answer.
inline constexpr std::uint64_t volume_piece = std::uint64_t{1} << 20;

struct volume_reader_config {
  std::uint64_t piece = volume_piece;
};
struct volume_reader_shell {
  static constexpr const char* name = "weir.volume_reader_io";
  std::optional<storage::hn4_stream> stream;
};
volume_reader_actor::behavior_type volume_reader_io(
    volume_reader_actor::stateful_pointer<volume_reader_shell> self,
    volume_reader_config config);

}  // namespace weir::actors
