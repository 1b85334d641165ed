// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of the position and the state of a source.
///
/// A joined source hands items on only when all sources of its group have read as many.
/// Its host may therefore be ahead of a barrier, and each item carries the position and
/// state behind it.
#include "epoch/source_mark.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {

/// Called on the thread of the source, behind an item. State that needs tasks to be
/// copied is refused, because this thread must not submit any.
result<source_mark> mark_of(stage_object& source, const std::string& name) {
  source_mark made;
  made.cursor = source.position();
  // A small image of its own collects the parts.
  image own;
  for (const state_part& part : source.state()) {
    image_section& s = own.sections.emplace_back();
    s.name = "STATE/" + name + "/" + part.name;
    bytes_view from = part.value;
    s.shape = {static_cast<std::int64_t>(from.size())};
    if (part.is_tensor) {
      // As in `stage_run::copy_tensor`.
      if (!part.tensor.row_major()) {
        return error(errc::invalid_argument,
                     fmt::format("cannot store \"{}\": expected a row-major tensor, "
                                 "found one with gaps",
                                 s.name));
      }
      WEIR_TRY(const std::int64_t bytes,
               byte_size(part.tensor.type(), part.tensor.count()));
      s.type = part.tensor.type();
      s.shape.assign(part.tensor.shape().begin(), part.tensor.shape().end());
      from = {part.tensor.data(), static_cast<std::size_t>(bytes)};
    }
    s.data.assign(from.begin(), from.end());
  }
  std::vector<task_id> copies;
  std::vector<image_section> spare;
  state_writer writer(own, copies, spare, name);
  WEIR_CHECK(guarded([&] { return source.copy_state(writer); }));
  if (!copies.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot store the state of source \"{}\": expected a copy "
                             "without tasks, found one with {}",
                             name, copies.size()));
  }
  made.state = std::move(own.sections);
  return made;
}

}  // namespace weir::flow
