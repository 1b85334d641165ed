// SPDX-License-Identifier: Apache-2.0
/// @file
/// Description of a module as JSON.
///
/// The C interface returns this text for a loaded module, and tools print it for a
/// container.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {

/// Returns the facts of a container's sections, without a selected one.
[[nodiscard]] std::vector<section_facts> facts_of(const fatbin& module);

/// Returns the JSON of a module. `selected_section[i]` is the section of kernel i, or -1.
[[nodiscard]] std::string explain_json(
    const fatbin& module, const std::vector<section_facts>& sections,
    const std::vector<std::ptrdiff_t>& selected_section, signature_state signature);

}  // namespace weir::tessera
