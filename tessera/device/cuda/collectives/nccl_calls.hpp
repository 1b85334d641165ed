// SPDX-License-Identifier: Apache-2.0
/// @file
/// Translation of collectives into calls of NCCL: which types and operations NCCL has,
/// and which calls one rank makes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "device/cuda/collectives/nccl_api.hpp"
#include "weir/collective/call.hpp"

namespace weir::tessera::cuda {

/// Elements and operation of a collective as NCCL knows them.
struct nccl_elements {
  nccl_type type = nccl_type::uint8;               ///< type of NCCL's elements
  std::size_t per_element = 1;                     ///< elements of NCCL for one of ours
  nccl_operation operation = nccl_operation::sum;  ///< operation of kinds that reduce
};

/// Returns how NCCL sees the elements of a call, or nothing if it cannot reduce them as
/// level 0 asks. Kinds that only move elements move them as bytes. `version` is that of
/// the library, and `capability` the lowest of the devices, such as 90.
[[nodiscard]] std::optional<nccl_elements> nccl_elements_of(
    const collective::collective_call& call, int version, int capability) noexcept;

/// The buffers of one rank.
struct rank_buffers {
  const std::byte* input = nullptr;  ///< address on the device of the rank
  std::byte* output = nullptr;       ///< equal to `input`: in place
};

/// Returns true if NCCL can run a call with these buffers: every kind that it has, except
/// an all_to_all in place.
[[nodiscard]] bool nccl_runs(const collective::collective_call& call,
                             const std::vector<rank_buffers>& buffers) noexcept;

/// The communicator of one rank and the stream in which it works.
struct nccl_place {
  nccl_communicator communicator = nullptr;
  stream_handle stream = nullptr;
  int rank = 0;
  int ranks = 1;
};

/// Makes the calls of one rank for a collective. The caller has begun a group, and the
/// context of the rank is current. Returns the first outcome that is neither success nor
/// in_progress, else in_progress if there was one.
[[nodiscard]] nccl_status call_nccl(const nccl_api& api,
                                    const collective::collective_call& call,
                                    const nccl_elements& as, const rank_buffers& buffers,
                                    const nccl_place& at);

}  // namespace weir::tessera::cuda
