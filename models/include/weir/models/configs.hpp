// SPDX-License-Identifier: Apache-2.0
/// @file
/// Configurations of models from the facts of their files.
#pragma once

#include "weir/base/error.hpp"
#include "weir/models/bert.hpp"
#include "weir/models/facts.hpp"
#include "weir/models/llama.hpp"

namespace weir::models {

/// Returns the configuration with which `make_llama` makes the model of a file.
/// @error{invalid_argument, the facts are those of another architecture}
/// @error{unsupported, the heads together are not as wide as a row; or a size that
/// `check_config` refuses}
/// @threads{safe to call concurrently}
[[nodiscard]] result<llama_config> llama_config_of(const stored_facts& facts);

/// Returns the configuration with which `make_bert` makes the model of a file.
/// @error{invalid_argument, the facts are those of another architecture}
/// @error{unsupported, a size that `check_config` refuses}
/// @threads{safe to call concurrently}
[[nodiscard]] result<bert_config> bert_config_of(const stored_facts& facts);

}  // namespace weir::models
