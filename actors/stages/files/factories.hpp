// SPDX-License-Identifier: Apache-2.0
/// @file
/// Factories of the stages that read and write images, arrays and lines of numbers. All
/// of them refuse unknown settings with `unknown_key` and values outside of their range
/// with `invalid_argument`. The file system must outlive the stage; tests use others.
#pragma once

#include "weir/base/file.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::actors {

/// Makes the source `png.read`.
[[nodiscard]] result<void> make_png_read(flow::described_stage& made,
                                         const given_settings& given,
                                         file_system& fs = posix_file_system());
/// Makes the sink `png.write`.
[[nodiscard]] result<void> make_png_write(flow::described_stage& made,
                                          const given_settings& given,
                                          file_system& fs = posix_file_system());
/// Makes the source `raw.read`.
[[nodiscard]] result<void> make_raw_read(flow::described_stage& made,
                                         const given_settings& given,
                                         file_system& fs = posix_file_system());
/// Makes the sink `raw.write`.
[[nodiscard]] result<void> make_raw_write(flow::described_stage& made,
                                          const given_settings& given,
                                          file_system& fs = posix_file_system());
/// Makes the source `npy.read`.
[[nodiscard]] result<void> make_npy_read(flow::described_stage& made,
                                         const given_settings& given,
                                         file_system& fs = posix_file_system());
/// Makes the sink `npy.write`.
[[nodiscard]] result<void> make_npy_write(flow::described_stage& made,
                                          const given_settings& given,
                                          file_system& fs = posix_file_system());
/// Makes the source `json.read`.
[[nodiscard]] result<void> make_json_read(flow::described_stage& made,
                                          const given_settings& given,
                                          file_system& fs = posix_file_system());
/// Makes the sink `json.write`.
[[nodiscard]] result<void> make_json_write(flow::described_stage& made,
                                           const given_settings& given,
                                           file_system& fs = posix_file_system());
/// Adds all of them by their names.
/// @error{already_exists, a stage of one of these names is there already}
[[nodiscard]] result<void> add_file_stages(flow::catalog& to);

}  // namespace weir::actors
