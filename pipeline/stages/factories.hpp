// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the basic stages, one for each name. All of them refuse unknown settings
/// with `unknown_key` and values outside of their range with `invalid_argument`.
#pragma once

#include "weir/pipeline/catalog.hpp"

namespace weir::flow {

/// Makes the source `generator`.
[[nodiscard]] result<void> make_generator(described_stage& made,
                                          const given_settings& given);
/// Makes the stage `select`.
[[nodiscard]] result<void> make_select(described_stage& made,
                                       const given_settings& given);
/// Makes the stage `split`.
[[nodiscard]] result<void> make_split(described_stage& made, const given_settings& given);
/// Makes the stage `window`.
[[nodiscard]] result<void> make_window(described_stage& made,
                                       const given_settings& given);
/// Makes the stage `reduce`.
[[nodiscard]] result<void> make_reduce(described_stage& made,
                                       const given_settings& given);
/// Makes the stage `deadline`.
[[nodiscard]] result<void> make_deadline(described_stage& made,
                                         const given_settings& given);
/// Makes the stage `rate`.
[[nodiscard]] result<void> make_rate(described_stage& made, const given_settings& given);
/// Makes the source `mix`. @param known  Stages among which its sources are looked up.
[[nodiscard]] result<void> make_mix(described_stage& made, const catalog& known,
                                    const given_settings& given);
/// Makes the stage `merge`.
[[nodiscard]] result<void> make_merge(described_stage& made, const given_settings& given);
/// Makes the stage `zip`.
[[nodiscard]] result<void> make_zip(described_stage& made, const given_settings& given);
/// Makes the stage `batch`.
[[nodiscard]] result<void> make_batch(described_stage& made, const given_settings& given);
/// Makes the stage `unbatch`.
[[nodiscard]] result<void> make_unbatch(described_stage& made,
                                        const given_settings& given);
/// Makes the stage `elementwise`.
[[nodiscard]] result<void> make_elementwise(described_stage& made,
                                            const given_settings& given);
/// Makes the source `concat` of sources that `known` makes.
[[nodiscard]] result<void> make_concat(described_stage& made, const catalog& known,
                                       const given_settings& given);

}  // namespace weir::flow
