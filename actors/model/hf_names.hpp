// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names of classes of Hugging Face transformers that stand in exported files.
#pragma once

namespace weir::actors {

/// Class that reads `tokenizer.json` as it is.
inline constexpr const char* hf_tokenizer_class = "PreTrainedTokenizerFast";

}  // namespace weir::actors
