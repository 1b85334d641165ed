// SPDX-License-Identifier: Apache-2.0
/// @file
/// Normalizers: steps that rewrite a text before it is split.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/unicode.hpp"

namespace weir::formats::tokens {

/// One step of a normalizer. @threads{immutable}
struct normalize_step {
  enum class kind : std::uint8_t { bert, form, lower, prepend, replace };
  kind type = kind::form;               ///< which of the steps it is
  normal_form form = normal_form::nfc;  ///< for `form`
  bool clean = true;                    ///< for `bert`: remove control characters
  bool chinese = true;                  ///< for `bert`: put spaces around characters
  bool strip_accents = true;            ///< for `bert`
  bool lower = true;                    ///< for `bert`
  std::string from;                     ///< for `replace`
  std::string to;                       ///< for `replace` and `prepend`

  /// Rewrites a text. @param spare  Working memory.
  void apply(std::string& text, std::string& spare) const;

 private:
  void apply_bert(std::string& text, std::string& spare) const;
};

/// Steps in their order.
struct normalizer {
  std::vector<normalize_step> steps;  ///< applied one after the other

  /// Rewrites a text. @param spare  Working memory.
  void apply(std::string& text, std::string& spare) const {
    for (const normalize_step& step : steps) {
      step.apply(text, spare);
    }
  }
};

}  // namespace weir::formats::tokens
