// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parts and identity of a mixture, for mixtures that can seek and those that cannot.
#pragma once

#include "context/mix/plan.hpp"

namespace weir::storage {

/// Base of the mixtures.
class mixture : public token_source {
 public:
  std::uint64_t size() const noexcept final { return unknown_size; }
  const source_identity& identity() const noexcept final { return identity_; }
  std::uint32_t separator() const noexcept final;
  std::uint32_t vocabulary() const noexcept final;
  std::optional<rng_state> rng() const final;
  std::string place_text(std::uint64_t index) const final;
  place place_of(std::uint64_t index) const final;
  result<std::uint64_t> next_document(std::uint64_t index) final;
  /// New ranges must lie behind what was read of their part. A part that was begun again
  /// was read as a whole.
  result<void> go_on_at(std::uint64_t index) final;

 protected:
  /// A token of a part.
  struct part_token {
    std::size_t part = 0;
    std::uint64_t offset = 0;  ///< its index in the source of the part
  };

  /// @pre `mix_plan::check` has accepted parts and options.
  mixture(std::vector<mix_part> parts, const mix_options& options);
  /// Returns the token of a part that is a token of the mixture. A separator that the
  /// mixture adds is the last token before it. Nothing behind the end.
  [[nodiscard]] virtual std::optional<part_token> token_of_part(
      std::uint64_t index) const = 0;
  /// Returns the draw that holds a token, with what was read of the parts before it.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] virtual result<mix_place> read_before(std::uint64_t index) const = 0;
  /// Forgets the draw of the last read, because parts have got other tokens.
  virtual void forget_draw() = 0;
  /// Returns the shares of the parts at the start of a draw.
  [[nodiscard]] std::vector<part_share> shares_at(const mix_place& begin) const;

  /// Returns the ranges that the parts leave out before their offsets at a place.
  [[nodiscard]] std::vector<left_out_range> left_out_at(const mix_place& at) const;

  mix_plan plan_;
  std::vector<token_source*> sources_;  ///< of the parts; `readers_` owns them
  /// They keep pages, which change no result.
  mutable std::vector<unit_reader> readers_;

 private:
  std::vector<std::string> names_;
  std::vector<std::size_t> first_leaf_;  ///< number of the first leaf of each part
  source_identity identity_;
};

}  // namespace weir::storage
