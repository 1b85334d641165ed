// SPDX-License-Identifier: Apache-2.0
/// @file
/// The instruction sets with kernels, and the choice of one of them.
///
/// Every kind of kernel (those of the layers, those of the prose model) is compiled for
/// the same instruction sets, so that one name chooses all kernels of a run.
#include "kernel_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "weir/base/settings.hpp"
#include "weir/models/instruction_sets.hpp"

namespace weir::models {

namespace {

/// Stands for the best instruction set of the processor.
constexpr const char* automatic = "auto";

/// In the order of `kernel_level`.
constexpr std::array<std::string_view, 3> names{"x86-64", "x86-64-v3", "x86-64-v4"};

/// Returns the instruction sets of a processor, from the slowest to the fastest.
std::span<const std::string_view> sets_of(int level) {
  // Levels 1 and 2 have the baseline alone.
  const std::size_t count = level >= 4 ? 3 : level == 3 ? 2 : 1;
  return std::span(names).first(count);
}

}  // namespace

result<kernel_level> choose_instruction_set(std::string_view name, int level) {
  const std::span<const std::string_view> here = sets_of(level);
  if (name == automatic) {
    return static_cast<kernel_level>(here.size() - 1);
  }
  const auto found = std::ranges::find(here, name);
  if (found != here.end()) {
    return static_cast<kernel_level>(found - here.begin());
  }
  return error(errc::invalid_argument,
               fmt::format("cannot choose kernels: expected {} or an instruction set of "
                           "this processor ({}), found {}",
                           automatic, fmt::join(here, ", "), name))
      .hint("auto takes the best instruction set; the results are equal for all");
}

std::span<const std::string_view> instruction_sets() noexcept {
  return names;
}

std::span<const std::string_view> instruction_sets_here() noexcept {
  return sets_of(processor_level());
}

result<void> check_instruction_set(std::string_view name) {
  WEIR_TRY([[maybe_unused]] const kernel_level chosen, choose_instruction_set(name));
  return {};
}

/// Made by the first call. The words are those of `names`.
const settings_table<kernel_settings>& kernel_settings_table() {
  static const settings_table<kernel_settings> table = [] {
    settings_table<kernel_settings> t("the choice of kernels");
    std::vector<std::pair<const char*, std::string>> words{{automatic, automatic}};
    for (const std::string_view name : names) {
      // Each of them is a literal, which ends with NUL.
      words.emplace_back(name.data(), name);
    }
    t.add("kernels", &kernel_settings::instruction_set, words,
          "Instruction set of the kernels of models: the best one of the processor, or "
          "this one, which it must have; never changes a result")
        .may_change();
    return t;
  }();
  return table;
}

}  // namespace weir::models
