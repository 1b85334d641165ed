// SPDX-License-Identifier: Apache-2.0
/// @file
/// What there is to know of a module, as text for programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {

/// Facts of the sections of a container, none selected.
[[nodiscard]] std::vector<section_facts> facts_of(const fatbin& module);

/// JSON of a module; `selected_section[i]` is that of kernel i, or -1.
[[nodiscard]] std::string explain_json(
    const fatbin& module, const std::vector<section_facts>& sections,
    const std::vector<std::ptrdiff_t>& selected_section, signature_state signature);

}  // namespace weir::tessera
