// SPDX-License-Identifier: Apache-2.0
/// @file
/// Communicators and groups of the stand-in for NCCL. The mutex of the world guards all
/// of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/cuda/stand_in/world.hpp"

namespace weir::tessera::stand_in {

struct communicator_state;

/// Ranks that make communicators together.
struct clique_of_ranks {
  int ranks = 0;
  std::vector<communicator_state*> members;  ///< by rank; null: has not come
};

/// A call for one rank. Collectives and pairs of sends and receives.
struct group_call {
  std::string name;  ///< function
  communicator_state* from = nullptr;
  std::shared_ptr<stream_state> stream;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t count = 0;  ///< the argument
  cuda::nccl_type type = cuda::nccl_type::uint8;
  cuda::nccl_operation operation = cuda::nccl_operation::sum;
  int peer = 0;  ///< root or peer
};

/// The calls of a group, which run together. It waits to be posted to the streams.
struct fused_group {
  std::vector<group_call> calls;
  unsigned polls = 0;  ///< how often a communicator has to be asked before it is posted
  std::vector<std::shared_ptr<communicator_state>> communicators;  ///< those of the calls
};

/// A communicator; its address is its handle.
struct communicator_state : std::enable_shared_from_this<communicator_state> {
  std::shared_ptr<clique_of_ranks> clique;
  int rank = 0;
  device_state* device = nullptr;
  bool initialised = false;
  unsigned polls = 0;  ///< how often it has to be asked before it is ready
  bool finalizing = false;
  bool finalized = false;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<fused_group> posting;  ///< a group that is not posted yet
  /// Ends of its work: streams, and numbers of operations in them.
  std::vector<std::pair<std::shared_ptr<stream_state>, std::uint64_t>> work;
};

/// The group of the calling thread.
struct open_group {
  unsigned depth = 0;
  std::vector<communicator_state*> inits;
  std::vector<group_call> calls;
  /// First error of a call in the group. The group then ends with it and does nothing.
  cuda::nccl_status failed = cuda::nccl_status::success;
};
[[nodiscard]] open_group& group_of_thread();

/// Returns the size of an element.
[[nodiscard]] std::size_t size_of(cuda::nccl_type type) noexcept;
/// Returns the bytes that a call reads and writes on its rank.
[[nodiscard]] std::vector<touched_range> ranges_of(const group_call& call);
/// Checks the calls of a group against each other. Reports what breaks rules.
[[nodiscard]] bool check_group(const std::vector<group_call>& calls);
/// Puts a group into its streams.
void post_group(const std::shared_ptr<fused_group>& group);

}  // namespace weir::tessera::stand_in
