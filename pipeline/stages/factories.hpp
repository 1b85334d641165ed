// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the basic stages, one for each name. All of them refuse unknown settings
/// with `unknown_key` and values outside of their range with `invalid_argument`.
#pragma once

#include "weir/pipeline/catalog.hpp"

namespace weir::flow {

/// Makes the source `generator`.
[[nodiscard]] result<described_stage> make_generator(const given_settings& given);
/// Makes the stage `select`.
[[nodiscard]] result<described_stage> make_select(const given_settings& given);
/// Makes the stage `merge`.
[[nodiscard]] result<described_stage> make_merge(const given_settings& given);
/// Makes the stage `zip`.
[[nodiscard]] result<described_stage> make_zip(const given_settings& given);
/// Makes the stage `batch`.
[[nodiscard]] result<described_stage> make_batch(const given_settings& given);
/// Makes the stage `unbatch`.
[[nodiscard]] result<described_stage> make_unbatch(const given_settings& given);
/// Makes the stage `elementwise`.
[[nodiscard]] result<described_stage> make_elementwise(const given_settings& given);
/// Makes the source `concat` of sources that `known` makes.
[[nodiscard]] result<described_stage> make_concat(const catalog& known,
                                                  const given_settings& given);

}  // namespace weir::flow
