// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches of persistent kernels.
///
/// The class itself is private to the source file; everything else sees an operation.
#pragma once

#include "stream/launch_operation.hpp"

namespace weir::tessera {

/// Makes a launch whose blocks run on threads of their own. It ends when these threads
/// end, and holds its stream until then.
[[nodiscard]] ref<operation> make_persistent_launch(ref<launch_shape> shape,
                                                    ref<launch_arguments> args,
                                                    std::uint64_t ordinal,
                                                    stream& target);

}  // namespace weir::tessera
