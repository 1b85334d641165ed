// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws of a mixture: which part comes next, and how far each part has been read.
#pragma once

#include <optional>
#include <vector>

#include "context/mix/units.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

/// Numbers of tokens and draws in states are below this, so that sums cannot overflow.
inline constexpr std::uint64_t position_bound = std::uint64_t{1} << 62;

/// Progress of one part.
struct part_place {
  std::uint64_t draws = 0;   ///< units that were drawn
  std::uint64_t tokens = 0;  ///< tokens that it gave, added separators included
  std::uint64_t offset = 0;  ///< tokens of its source that were read in this round
  std::uint64_t rounds = 0;  ///< times that it was begun again
  std::int64_t deficit = 0;  ///< units that it should have had more, times all weights
  bool ended = false;        ///< it has no further unit and does not begin again
  friend bool operator==(const part_place&, const part_place&) = default;
};
/// Place of a mixture: the start of a draw.
struct mix_place {
  std::uint64_t draw = 0;   ///< number of the draw
  std::uint64_t index = 0;  ///< tokens of the mixture before it
  std::vector<part_place> parts;
  friend bool operator==(const mix_place&, const mix_place&) = default;
};
/// Effect of a part that has no further unit.
enum class end_effect : std::uint8_t {
  again,   ///< it was begun again; its first unit is to be taken
  redraw,  ///< it was left out; the draw is to be repeated
  stop,    ///< the mixture ends
};

/// The weights and rules by which a mixture draws.
/// @threads{const; safe to call concurrently}
class mix_plan {
 public:
  /// Keeps what a mixture needs of its parts and options.
  /// @pre `check` has accepted them.
  mix_plan(std::span<const mix_part> parts, mix_options options);
  /// Checks parts and options. Errors are those of `mix_sources`.
  [[nodiscard]] static result<void> check(std::span<const mix_part> parts,
                                          const mix_options& options);

  /// Returns the place before the first draw.
  [[nodiscard]] mix_place begin() const;
  /// Chooses the part of the draw at a place, and brings the deficits there up to date.
  /// @returns nothing if no part with a weight is left
  [[nodiscard]] std::optional<std::size_t> choose(mix_place& place) const;
  /// Goes to the next draw behind a unit of a part.
  /// @param added  Number of separators behind the unit: 0 or 1.
  void advance(mix_place& place, std::size_t part, std::uint64_t length,
               std::uint64_t added) const;
  /// Applies the policy of a part that has been drawn and has no further unit.
  [[nodiscard]] end_effect end_of(mix_place& place, std::size_t part) const;
  /// Returns the number of separators behind a unit of a part that can seek: 1 or 0.
  [[nodiscard]] std::uint64_t separators(std::size_t part, const unit& u) const noexcept;

  /// Returns the weight of a part at a draw; 0 if it has ended.
  [[nodiscard]] std::uint64_t weight(const mix_place& place, std::size_t part) const;
  /// Returns the options.
  [[nodiscard]] const mix_options& options() const noexcept { return options_; }
  /// Returns a hash of all weights, policies and options.
  [[nodiscard]] std::uint64_t digest() const;

 private:
  [[nodiscard]] const std::vector<std::uint64_t>& weights_at(std::uint64_t draw) const;
  [[nodiscard]] std::size_t choose_smooth(mix_place& place, std::uint64_t total) const;
  [[nodiscard]] std::size_t choose_random(const mix_place& place,
                                          std::uint64_t total) const;

  std::vector<std::uint64_t> weights_;  ///< before the first row of the curriculum
  std::vector<exhaustion> exhausted_;
  mix_options options_;
};

/// Encodes a place: little-endian, without a version.
void put_place(record_writer& to, const mix_place& place);
/// Decodes a place of `count` parts and checks that its numbers fit together.
/// @returns nothing if bytes are missing or the numbers contradict each other
[[nodiscard]] std::optional<mix_place> get_place(record_reader& from, std::size_t count);

}  // namespace weir::storage
