// SPDX-License-Identifier: Apache-2.0
/// @file
/// One rank's share of a collective.
#pragma once

#include <memory>
#include <vector>

#include "weir/runtime/stream/collective.hpp"

namespace weir::runtime {

/// Comes to the meeting in its turn, and lets its stream go on when that has ended.
class rank_share final : public lane_operation {
 public:
  rank_share(std::shared_ptr<const collective_plan> plan, collective_choice how,
             const collective_request& what, std::vector<int> group,
             std::uint64_t descriptor);

  [[nodiscard]] std::string_view name() const noexcept override { return "join"; }
  void admitted(submission_port::session& in, stream& on) override;

  /// Puts the outcome into its stream and lets that go on.
  void end(submission_port::session& in, const error& why);
  void proceed(submission_port::session& in);

  std::shared_ptr<const collective_plan> plan;
  std::shared_ptr<const collective_plan> verify;  ///< may be null
  collective_choice how;
  collective_request request;
  std::vector<int> ranks;  ///< of the group, in the mesh
  std::uint64_t descriptor;
  std::shared_ptr<class stream> on;  ///< while it waits

 protected:
  result<void> run(unsigned) override { return {}; }
};

}  // namespace weir::runtime
