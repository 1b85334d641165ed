// SPDX-License-Identifier: Apache-2.0
/// @file
/// One rank's share of a collective.
///
/// A share exists only for streams that are bound to one rank. A stream of the whole mesh
/// enqueues a collective of all ranks directly.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stream/collectives/meeting_point.hpp"
#include "weir/tessera/stream/collective.hpp"

namespace weir::tessera {

/// Base of operations in which ranks meet, each on its own stream. Graphs with such
/// operations are enqueued node by node.
class meeting_operation : public chain_operation {
 public:
  using chain_operation::chain_operation;
  [[nodiscard]] bool waits_for_ranks() const noexcept final { return true; }
  /// Checks that its ranks meet if it is called on this stream. The caller holds the
  /// submission lock.
  /// @error{timeout; they do not meet any more}
  [[nodiscard]] virtual result<void> check(const stream& target) const = 0;
};

/// A share of a collective. It joins the meeting in its turn and holds its stream until
/// the meeting has ended.
class rank_share final : public meeting_operation {
 public:
  rank_share(std::shared_ptr<const collective::collective_plan> plan,
             collective::collective_choice how, const collective_request& request,
             std::vector<int> ranks, std::uint64_t descriptor);

  [[nodiscard]] std::string_view name() const noexcept override { return "join"; }
  /// Returns the name of the collective.
  [[nodiscard]] std::string_view call_name() const noexcept {
    return collective::name_of(request.call.kind);
  }
  void taken(submission_lock::guard& in, stream& target) override;
  void admitted(submission_lock::guard& in, stream& target) override;
  [[nodiscard]] ref<operation> clone() const override;
  [[nodiscard]] result<void> check(const stream& target) const override;
  [[nodiscard]] memory_need needs() const noexcept override {
    return {plan->scratch_bytes(), 0};
  }
  [[nodiscard]] std::string details() const override;

  /// Returns the position in the group of a rank of the mesh.
  [[nodiscard]] int place_in_group(int rank) const noexcept {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }
  /// Returns the request of the rank in words, for errors.
  [[nodiscard]] std::string description() const;
  /// Ends the share with an error, which its stream gets. `proceed` then lets the stream
  /// go on.
  void end(submission_lock::guard& in, const error& why);
  /// Lets its stream go on.
  void proceed(submission_lock::guard& in);

  std::shared_ptr<const collective::collective_plan> plan;
  std::shared_ptr<const collective::collective_plan> verify;  ///< may be null
  collective::collective_choice how;
  collective_request request;
  /// Places of its buffers when it was posted; nothing if it has none.
  std::optional<memory_place> source;
  std::optional<memory_place> target;
  std::vector<int> ranks;             ///< ranks of the group, as positions in the mesh
  std::shared_ptr<rank_group> group;  ///< the group, once its stream has taken the share
  std::uint64_t sequence = 0;         ///< number of the meeting in the group
  std::uint64_t descriptor;
  std::size_t scratch_limit = static_cast<std::size_t>(-1);
  std::shared_ptr<class stream> waiting_stream;  ///< its stream, while it waits

 protected:
  result<void> run(unsigned) override { return {}; }
};

/// Several shares of one rank that join their meetings together, so that ranks need not
/// agree on their order.
class share_group final : public meeting_operation {
 public:
  explicit share_group(std::vector<ref<rank_share>> shares)
      : meeting_operation(operation_kind::other), shares_(std::move(shares)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "join"; }
  [[nodiscard]] std::uint32_t numbers() const noexcept override {
    return static_cast<std::uint32_t>(shares_.size());
  }
  void taken(submission_lock::guard& in, stream& target) override;
  void admitted(submission_lock::guard& in, stream& target) override;
  [[nodiscard]] ref<operation> clone() const override;
  [[nodiscard]] result<void> check(const stream& target) const override;
  [[nodiscard]] memory_need needs() const noexcept override;

 protected:
  result<void> run(unsigned) override { return {}; }

 private:
  std::vector<ref<rank_share>> shares_;
};

}  // namespace weir::tessera
