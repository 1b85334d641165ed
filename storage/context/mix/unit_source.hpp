// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source that delivers the units of another one, for samples and shuffled sources.
#pragma once

#include <initializer_list>

#include "context/mix/units.hpp"

namespace weir::storage {

/// Base of the sources that choose or rearrange the units of another source.
class unit_source : public token_source {
 public:
  const source_identity& identity() const noexcept final { return identity_; }
  std::uint32_t separator() const noexcept final { return source().separator(); }
  std::uint32_t vocabulary() const noexcept final;
  std::optional<rng_state> rng() const final;
  std::string place_text(std::uint64_t index) const final;
  place place_of(std::uint64_t index) const final;
  result<std::uint64_t> next_document(std::uint64_t index) final;
  /// New ranges must lie behind the units whose extents decide what was read.
  result<void> go_on_at(std::uint64_t index) final;
  std::vector<left_out_range> left_out(std::uint64_t index) const final;

 protected:
  /// @param kind  Kind of the source, as in `composed_rng`.
  unit_source(std::unique_ptr<token_source> source, std::uint64_t run_tokens,
              std::uint64_t kind, std::uint64_t seed)
      : reader_(std::move(source), run_tokens), kind_(kind), seed_(seed) {}
  /// Sets the identity.
  /// @param numbers  Numbers that decide which unit comes when.
  /// @param rule     As in `set_leaves`.
  void identify(std::uint64_t tokens, std::initializer_list<std::uint64_t> numbers,
                std::uint32_t rule);
  /// Returns the offset in the source of a token, or of its end behind the end.
  [[nodiscard]] virtual std::uint64_t offset_of(std::uint64_t index) const = 0;

  /// Returns the offset in the source from which on other text changes no token before
  /// `index`.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] virtual result<std::uint64_t> free_from(std::uint64_t index) const = 0;
  /// Returns the error of a range that the source refuses.
  [[nodiscard]] virtual error refused(error why) const;
  /// Forgets where the last read was, because the source has got other tokens.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] virtual result<void> forget() = 0;

  [[nodiscard]] token_source& source() const noexcept { return reader_.source(); }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

  /// It keeps pages, which change no result.
  mutable unit_reader reader_;

 private:
  std::uint64_t kind_;
  std::uint64_t seed_;
  source_identity identity_;
};

}  // namespace weir::storage
