// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the stages of the text model. All of them refuse unknown settings with
/// `unknown_key` and values outside of their range with `invalid_argument`.
#pragma once

#include "weir/base/file.hpp"
#include "weir/pipeline/catalog.hpp"
#include "weir/pipeline/host/image.hpp"

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

/// Returns the hash of the state of a run of these stages, as `state_hash_of` computes
/// it.
/// @param from    Image of the run.
/// @param source  Name of the stage `text.pulses`.
/// @param model   Name of the stage `prose.learn`.
/// @error{not_found, the image has no state of these stages}
[[nodiscard]] result<std::uint64_t> state_hash_in(const flow::image& from,
                                                  const std::string& source,
                                                  const std::string& model);

}  // namespace weir::actors
