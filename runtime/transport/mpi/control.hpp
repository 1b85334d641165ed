// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages of the transport over MPI that belong to no channel of a user.
#pragma once

#include <cstdint>

namespace weir::mpi {

/// Channel of operations that belong to no user.
constexpr std::uint32_t control_channel = 0xFFFFFFFF;
/// Tag of signs of life, which have no bytes.
constexpr int life_tag = 1;
/// Tag of the news that a rank has left a channel: the number of the channel, or
/// `control_channel` for all of them, the code and the text of the cause.
constexpr int farewell_tag = 2;

}  // namespace weir::mpi
