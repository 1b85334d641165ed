// SPDX-License-Identifier: Apache-2.0
/// @file
/// The layout of a pulse's item: a head, then for each lane a head and its tokens.
///
/// The item is an array of u32, because tokens are. Each lane has space for a full chunk,
/// so every pulse has the same size and the memory of the edge can be planned. Layout:
/// head
///
/// lane 0: head, tokens, unused words
///
/// lane 1: ... The reader compares the first word and every count.
#include "stages/prose/pulse_item.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace weir::actors {
namespace {

/// The head of an item, as it lies in memory.
/// Numbers of 64 bits take two words.
struct item_head {
  std::uint64_t layout = 0;  ///< `item_layout`
  std::uint64_t id = 0;
  std::uint64_t update = 0;
  std::uint64_t total_updates = 0;
  std::uint64_t tokens = 0;
  std::uint64_t ends_of_text = 0;
  std::uint64_t build_budget = 0;
  std::uint64_t phase = 0;
  std::uint64_t phase_pulse = 0;
};
/// The head of a lane, as it lies in memory.
struct lane_head {
  std::uint64_t position = 0;
  std::uint64_t lookahead = no_lookahead;
  std::uint64_t count = 0;
  std::uint64_t reset = 0;  ///< 1 if the context is emptied before the pulse
  /// Stands for a lookahead that is not there.
  static constexpr std::uint64_t no_lookahead = ~std::uint64_t{0};
};

/// First word of every item; it changes with the layout.
constexpr std::uint64_t item_layout = 0x32'6573'6c75'70;  // "pulse2"
constexpr std::uint64_t head_words = sizeof(item_head) / 4;
constexpr std::uint64_t lane_words = sizeof(lane_head) / 4;
/// Largest number of a phase.
constexpr std::uint64_t max_phase =
    static_cast<std::uint64_t>(models::pulse_phase::stream);

/// Copies a head to its place; words need not be aligned for 64 bits.
template <class Head>
void put_head(std::span<std::uint32_t> to, std::uint64_t word, const Head& head) {
  std::memcpy(to.data() + word, &head, sizeof(Head));
}
/// Copies a head from its place.
template <class Head>
Head get_head(std::span<const std::uint32_t> from, std::uint64_t word) {
  Head head;
  std::memcpy(static_cast<void*>(&head), from.data() + word, sizeof(Head));
  return head;
}

/// The hint is for users who connect another stage.
error bad_item(std::string_view expected, std::uint64_t found) {
  return error(errc::corrupt,
               fmt::format("cannot read a pulse: expected {}, found {}", expected, found))
      .hint("connect the inlet to a text.pulses with as many lanes and tokens");
}

}  // namespace

/// Words of an item of this shape.
std::uint64_t pulse_shape::words() const noexcept {
  return head_words + lanes * (lane_words + chunk);
}

/// Type of the inlet and outlet.
std::string pulse_shape::type() const {
  return fmt::format("u32[{}]", words());
}

/// @pre `to` has `shape.words()` words, and each chunk fits into its space.
void write_pulse(std::span<std::uint32_t> to, const pulse_shape& shape,
                 const pulse_facts& facts,
                 const std::vector<std::optional<storage::token_chunk>>& lanes,
                 const std::vector<std::uint32_t>& resets) {
  std::fill(to.begin(), to.end(), 0);
  const models::pulse& p = facts.pulse;
  put_head(to, 0,
           item_head{item_layout, p.id, p.update, p.total_updates, facts.tokens,
                     facts.ends_of_text, facts.build_budget,
                     static_cast<std::uint64_t>(p.phase), facts.phase_pulse});
  std::uint64_t at = head_words;
  for (std::uint32_t lane = 0; lane < shape.lanes; ++lane) {
    lane_head head;
    head.reset = std::find(resets.begin(), resets.end(), lane) != resets.end() ? 1 : 0;
    // A lane without a chunk has the count 0.
    if (lanes[lane]) {
      const storage::token_chunk& chunk = *lanes[lane];
      head.position = chunk.lane_position;
      head.lookahead = chunk.lookahead ? *chunk.lookahead : lane_head::no_lookahead;
      head.count = chunk.tokens.size();
      std::copy(chunk.tokens.begin(), chunk.tokens.end(),
                to.begin() + static_cast<std::ptrdiff_t>(at + lane_words));
    }
    put_head(to, at, head);
    at += lane_words + shape.chunk;
  }
}

/// Reads an item of the shape of the stage. The tokens of the result point into `from`.
result<read_pulse> read_item(std::span<const std::uint32_t> from,
                             const pulse_shape& shape) {
  if (from.size() != shape.words()) {
    return bad_item(fmt::format("{} words", shape.words()), from.size());
  }
  const auto head = get_head<item_head>(from, 0);
  // The first word names the layout, and the phase is used as an index later.
  if (head.layout != item_layout || head.phase > max_phase) {
    return bad_item("the head of a pulse", head.layout);
  }
  read_pulse out;
  out.facts = {{head.id, static_cast<models::pulse_phase>(head.phase), 0, head.update,
                head.total_updates},
               head.tokens,
               head.ends_of_text,
               head.build_budget,
               head.phase_pulse};
  std::uint64_t at = head_words;
  for (std::uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto part = get_head<lane_head>(from, at);
    // The count limits what is read of the lane.
    if (part.count > shape.chunk) {
      return bad_item(fmt::format("at most {} tokens of a lane", shape.chunk),
                      part.count);
    }
    models::prose::lane_input& input = out.inputs.emplace_back();
    input.tokens = from.subspan(at + lane_words, part.count);
    input.position = part.position;
    if (part.lookahead != lane_head::no_lookahead) {
      input.lookahead = static_cast<std::uint32_t>(part.lookahead);
    }
    if (part.reset != 0) {
      out.resets.push_back(lane);
    }
    at += lane_words + shape.chunk;
  }
  return out;
}

}  // namespace weir::actors
