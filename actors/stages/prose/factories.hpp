// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the stages of the text model. All of them refuse unknown settings with
/// `unknown_key` and values outside of their range with `invalid_argument`.
#pragma once

#include "weir/base/file.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::actors {

/// Makes the source `text.pulses`. @param fs Must outlive the stage; tests use others.
[[nodiscard]] result<void> make_text_pulses(flow::described_stage& made,
                                            const given_settings& given,
                                            file_system& fs = posix_file_system());
/// Makes the stage `prose.learn`.
[[nodiscard]] result<void> make_prose_learn(flow::described_stage& made,
                                            const given_settings& given);
/// Makes the stage `prose.accounts`.
[[nodiscard]] result<void> make_prose_accounts(flow::described_stage& made,
                                               const given_settings& given);
/// Makes the sink `prose.predictions`. @param fs Must outlive the stage; tests use
/// others.
[[nodiscard]] result<void> make_prose_predictions(flow::described_stage& made,
                                                  const given_settings& given,
                                                  file_system& fs = posix_file_system());

}  // namespace weir::actors
