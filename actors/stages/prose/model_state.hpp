// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a prose model in checkpoints: names of its parts, and restoring it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/models/prose.hpp"

namespace weir::actors {

/// Returns the name under which a part of the state is stored.
[[nodiscard]] std::string section_name(const models::state_section& section);

/// Returns whether a name is one that `section_name` returns.
[[nodiscard]] bool is_of_model(std::string_view part) noexcept;

/// Restores every part of a model's state.
/// @param part  Returns the bytes of a part by its name; its errors are passed on.
/// @error{config_mismatch, a part belongs to a model of another shape}
[[nodiscard]] result<void> restore_model(
    models::prose& model,
    const std::function<result<bytes_view>(const std::string&)>& part);

/// Returns the hash of the state of a run: XXH3-64 over the XXH3-64 of the state of its
/// model and the encoded cursor. It covers parameters, moments, error buffers, counters,
/// contexts and cursor. The number of the checkpoint, the build, resumes and times do not
/// count, so that an interrupted run has the hash of one that was not.
[[nodiscard]] std::uint64_t state_hash_of(std::uint64_t model_hash, bytes_view cursor);

}  // namespace weir::actors
