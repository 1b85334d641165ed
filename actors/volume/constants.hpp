// SPDX-License-Identifier: Apache-2.0
/// @file
/// The loader of constants of pipeline stages.
#pragma once

#include <string>

#include "weir/weir.hpp"

namespace weir::actors {

/// Loads a tensor of an HN4 volume into memory of an engine, by tasks that read it
/// straight from the device. All tags are searched.
/// @error{not_found, the volume has no tensor of this name; the message names the
/// nearest}
/// @error{invalid_argument, several tags have a tensor of this name}
/// @error{unsupported, the tensor has more dimensions than `runtime::max_dims`}
/// @error{out_of_memory, the engine has no memory for it}
/// @error{corrupt, a block of the tensor is damaged} @error{io, reading failed}
/// @threads{belongs to the submitter of the engine}
[[nodiscard]] result<runtime::tensor> load_constant(weir::engine& host,
                                                    const std::string& path,
                                                    const std::string& name);

}  // namespace weir::actors
