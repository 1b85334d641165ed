// SPDX-License-Identifier: Apache-2.0
/// @file
/// The position of a source behind one of its items, with the state that it has there.
#pragma once

#include <string>
#include <vector>

#include "weir/pipeline/host/image.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

/// Everything that an image needs of a source to continue behind one item.
/// @threads{a value}
struct source_mark {
  small_record cursor;               ///< result of `position`
  std::vector<image_section> state;  ///< declared state, and what `copy_state` has added
};

/// Copies position and state of a source. The caller is the thread of the source, or
/// nothing of the source runs. @param name  Name of the stage.
/// @error{invalid_argument, the state is not row-major, or the source copies it by tasks}
/// Also returns the errors of `copy_state`.
[[nodiscard]] result<source_mark> mark_of(stage_object& source, const std::string& name);

}  // namespace weir::flow
