// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the stages that read and write files and volumes. All of them refuse
/// unknown settings with `unknown_key` and values outside of their range with
/// `invalid_argument`.
#pragma once

#include "volume/device_opener.hpp"
#include "weir/base/file.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::actors {

/// Makes the source `tgm.read`. @param fs Must outlive the stage; tests use others.
[[nodiscard]] result<void> make_tgm_read(flow::described_stage& made,
                                         const given_settings& given,
                                         file_system& fs = posix_file_system());
/// Makes the sink `tgm.write`. @param fs Must outlive the stage; tests use others, whose
/// files cannot be locked.
[[nodiscard]] result<void> make_tgm_write(flow::described_stage& made,
                                          const given_settings& given,
                                          file_system& fs = posix_file_system());
/// Makes the source `log`. @param fs Must outlive the stage; tests use others.
[[nodiscard]] result<void> make_log(flow::described_stage& made,
                                    const given_settings& given,
                                    file_system& fs = posix_file_system());
/// Makes the source `hn4.tensors`.
[[nodiscard]] result<void> make_hn4_tensors(flow::described_stage& made,
                                            const given_settings& given);
/// Makes the source `hn4.rows`.
[[nodiscard]] result<void> make_hn4_rows(flow::described_stage& made,
                                         const given_settings& given);
/// Makes the source `hn4.read`.
[[nodiscard]] result<void> make_hn4_read(flow::described_stage& made,
                                         const given_settings& given);
/// Makes the sink `hn4.put`. @param open_device Opens the volume for writing; empty: as a
/// file. Tests open devices that can fail.
[[nodiscard]] result<void> make_hn4_put(flow::described_stage& made,
                                        const given_settings& given,
                                        device_opener open_device = {});
/// Makes the source `text.chunks`. @param fs Must outlive the stage; tests use others.
[[nodiscard]] result<void> make_text_chunks(flow::described_stage& made,
                                            const given_settings& given,
                                            file_system& fs = posix_file_system());
/// Makes the sink `tgm.replace`. @param fs Must outlive the stage; tests use others.
[[nodiscard]] result<void> make_tgm_replace(flow::described_stage& made,
                                            const given_settings& given,
                                            file_system& fs = posix_file_system());
/// Adds the stages of models by their names.
/// @error{already_exists, a stage of one of these names is there already}
[[nodiscard]] result<void> add_model_stages(flow::catalog& to);

}  // namespace weir::actors
