// SPDX-License-Identifier: Apache-2.0
/// @file
/// A chain of sources of which one cannot seek.
#pragma once

#include <memory>
#include <vector>

#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Makes a chain that reads forward. @pre All sources have one separator, and none is in
/// random order.
[[nodiscard]] std::unique_ptr<token_source> make_live_chain(
    std::vector<std::unique_ptr<token_source>> parts);

}  // namespace weir::storage
