// SPDX-License-Identifier: Apache-2.0
/// @file
/// The instruction sets for which the kernels of the models are compiled, and the setting
/// that chooses one of them. Results do not depend on the choice, bit for bit.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir {
template <class Owner>
class settings_table;
}  // namespace weir

namespace weir::models {

/// The setting that chooses the kernels of the models of a run.
struct kernel_settings {
  /// "auto", which stands for the best instruction set of the processor, or a name of
  /// `instruction_sets`.
  std::string instruction_set = "auto";
  friend bool operator==(const kernel_settings&, const kernel_settings&) = default;
};

/// Returns the table of `kernel_settings`, whose only setting is `kernels`. It accepts
/// names of instruction sets that this processor does not have: a configuration may be
/// meant for another machine. Include "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<kernel_settings>& kernel_settings_table();

/// Returns the names of all instruction sets with kernels, each of which contains those
/// before it: "x86-64", "x86-64-v3" (AVX2 and FMA) and "x86-64-v4" (AVX-512). Processors
/// of another architecture have the first one, which stands for their own baseline.
/// @source{System V Application Binary Interface, AMD64, microarchitecture levels}
/// @threads{pure}
[[nodiscard]] std::span<const std::string_view> instruction_sets() noexcept;

/// Returns those of `instruction_sets` that this processor has, at least the first one.
/// @threads{pure}
[[nodiscard]] std::span<const std::string_view> instruction_sets_here() noexcept;

/// Checks that this processor has an instruction set. "auto" is always accepted.
/// @error{invalid_argument, no instruction set has the name, or the processor does not
/// have it; the message lists those that it has}
/// @threads{pure}
[[nodiscard]] result<void> check_instruction_set(std::string_view name);

}  // namespace weir::models
