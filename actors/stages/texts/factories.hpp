// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the stages that process texts with models of volumes. All of them refuse
/// unknown settings with `unknown_key` and values outside of their range with
/// `invalid_argument`.
#pragma once

#include "weir/base/file.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::actors {

/// Makes the source `text.lines`.
[[nodiscard]] result<void> make_text_lines(flow::described_stage& made,
                                           const given_settings& given);
/// Makes the blocking stage `text.tokens`.
[[nodiscard]] result<void> make_text_tokens(flow::described_stage& made,
                                            const given_settings& given);
/// Makes the late stage `bert.layers`.
[[nodiscard]] result<void> make_bert_layers(flow::described_stage& made,
                                            const given_settings& given);
/// Makes the task stage `bert.pool`.
[[nodiscard]] result<void> make_bert_pool(flow::described_stage& made,
                                          const given_settings& given);
/// Makes the sink `tgm.embeddings`. @param fs Must outlive the stage; tests use others.
[[nodiscard]] result<void> make_tgm_embeddings(flow::described_stage& made,
                                               const given_settings& given,
                                               file_system& fs = posix_file_system());
/// Makes the step loop `llama.answers`.
[[nodiscard]] result<void> make_llama_answers(flow::described_stage& made,
                                              const given_settings& given);
/// Adds all of them by their names.
/// @error{already_exists, a stage of one of these names is there already}
[[nodiscard]] result<void> add_text_stages(flow::catalog& to);

/// A pipeline with `text.lines`, `text.tokens`, `bert.layers`, `bert.pool` and
/// `tgm.embeddings`.
extern const std::string_view embedding_example;

}  // namespace weir::actors
