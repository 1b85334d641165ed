// SPDX-License-Identifier: Apache-2.0
/// @file
/// The directives with which the text of a PTX module begins.
#pragma once

#include <string_view>

namespace weir::tessera {

/// Returns the word behind the first `directive` of a PTX text, such as "9.0" behind
/// ".version" or "sm_75" behind ".target"; empty if there is none. Comments and strings
/// are skipped, because text in them is no directive. The result is a part of `ptx`.
/// @source{PTX ISA, 4.1 and 11.1: comments as in C++, and the directives of a module}
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view ptx_directive(std::string_view ptx,
                                             std::string_view directive) noexcept;

}  // namespace weir::tessera
