// SPDX-License-Identifier: Apache-2.0
/// @file
/// The checks of a rank, and the handler of its only message.
#include "source/rank.hpp"

#include <fmt/core.h>

namespace weir::actors {

/// Checks that all orders are for lanes of this rank.
result<void> rank_state::check_orders(const chunk_orders& orders) const {
  for (const chunk_order& order : orders) {
    if (order.lane % ranks_ != rank_) {
      return error(
          errc::internal,
          fmt::format(
              "ordering a chunk of rank {} failed: expected one of its lanes, found "
              "lane {} of {} ranks",
              rank_, order.lane, ranks_));
    }
  }
  return {};
}

/// Checks that each chunk continues its lane without gap or repetition. The first chunk
/// of a lane may begin anywhere, because a resumed run begins in the middle.
result<void> rank_state::check_replies(const chunk_replies& replies) {
  for (const chunk_reply& reply : replies) {
    if (!reply.chunk) {
      continue;
    }
    const storage::token_chunk& c = *reply.chunk;
    const auto known = next_position_.find(reply.order.lane);
    const bool continues =
        known == next_position_.end() || known->second == c.lane_position;
    if (c.lane != reply.order.lane || !continues) {
      return error(
          errc::internal,
          fmt::format("taking a chunk of lane {} failed: expected position {}, found "
                      "position {} of lane {}",
                      reply.order.lane,
                      known == next_position_.end() ? c.lane_position : known->second,
                      c.lane_position, c.lane));
    }
    next_position_[c.lane] = c.lane_position + c.tokens.size();
  }
  return {};
}

rank_actor::behavior_type rank_io(rank_actor::stateful_pointer<rank_shell> self,
                                  rank_config config) {
  install_defaults(self);
  self->state.core = std::make_unique<rank_state>(config.rank, config.ranks);
  return {
      answers("rank, pull", [self, config](pull_atom, const local<chunk_orders>& orders) {
        auto promise = self->make_response_promise<local<chunk_replies>>();
        auto later = std::make_shared<pending_reply<local<chunk_replies>>>(
            promise, "a chunk order");
        if (auto ours = self->state.core->check_orders(*orders); !ours) {
          later->deliver(ours.error());
          return promise;
        }
        self->request(config.hub, config.deadline, pull_atom_v, orders)
            .then(
                [self, later](const local<chunk_replies>& replies) {
                  auto checked = self->state.core->check_replies(*replies);
                  later->deliver(checked ? result<local<chunk_replies>>(replies)
                                         : result<local<chunk_replies>>(checked.error()));
                },
                [later](const caf::error& e) {
                  later->deliver(from_caf(e, "pulling chunks"));
                });
        return promise;
      })};
}

}  // namespace weir::actors
