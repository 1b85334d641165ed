// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads the weights of a stored model: panels of the volume in place, or packed copies.
///
/// A volume with panels is used in place: runs that are mapped at an aligned address cost
/// no memory. Runs that are not (for example because the volume was opened without a
/// mapping) are copied. A volume without panels, whose blocks are too small for them, has
/// its weights packed on loading. `holders_` keeps mappings and copies alive as long as
/// the object.
#include "weir/actors/model_weights.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <new>

#include "model/panels.hpp"
#include "model/record.hpp"
#include "weir/base/text.hpp"

namespace weir::actors {

namespace {

/// `kind` is "matrix" or "vector".
/// Error of a name that the model does not have.
error no_weight(std::string_view kind, std::string_view name) {
  return error(errc::not_found,
               fmt::format("cannot find {} {} of the model: expected its "
                           "name, found none of that name",
                           kind, json_quote(name)));
}

/// An empty view means that the bytes cannot be had without a copy.
bool in_place(bytes_view bytes) {
  return !bytes.empty() &&
         reinterpret_cast<std::uintptr_t>(bytes.data()) % panel_alignment == 0;
}

/// Returns the shape of the panels of an entry of a record.
/// The entry comes from a volume: its type is looked up and its shape is checked.
result<models::panel_shape> shape_of_entry(const panel_entry& entry) {
  // The names of types are those of the record.
  for (const auto type :
       {models::weight_type::f32, models::weight_type::q8_0, models::weight_type::q4_1}) {
    if (name_of(type) == entry.type) {
      const models::panel_shape shape{type, entry.outputs, entry.inputs};
      WEIR_CHECK(models::check_shape(entry.name, shape));
      return shape;
    }
  }
  return error(errc::corrupt,
               fmt::format("cannot use panels {}: expected type f32, q8_0 "
                           "or q4_1, found {}",
                           json_quote(entry.name), json_quote(entry.type)));
}

}  // namespace

/// Allocates memory for a copy, which lives as long as the object.
// Kernels read whole panels, so the memory has their alignment.
mutable_bytes model_weights::own(std::uint64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  constexpr std::align_val_t aligned{panel_alignment};
  const std::shared_ptr<void> memory(::operator new(size, aligned), [](void* p) {
    ::operator delete (p, std::align_val_t{panel_alignment});
  });
  holders_.push_back(memory);
  copied_ += bytes;
  return {static_cast<std::byte*>(memory.get()), size};
}

/// @pre The runs of the entry were checked.
void model_weights::add(const panel_entry& entry, std::vector<models::panel_run> runs) {
  // Vectors are floats and have one run.
  if (entry.vector) {
    const bytes_view bytes = runs[0].bytes;
    vectors_.emplace(entry.name, std::span(reinterpret_cast<const float*>(bytes.data()),
                                           bytes.size() / sizeof(float)));
    return;
  }
  // The shape was checked before.
  const auto shape = shape_of_entry(entry);
  if (shape) {
    matrices_.emplace(entry.name, models::panel_matrix{*shape, std::move(runs)});
  }
}

// A view that cannot be had because its block is damaged is read, too, so that the error
// of the read names the block.
// Runs are checked against the stream, and then against each other by `check_matrix`,
// before a kernel can reach them.
result<void> model_weights::map_entry(const storage::hn4_stream& stream,
                                      const panel_entry& entry) {
  std::vector<models::panel_run> runs;
  // A matrix is stored in runs of rows, one after another.
  for (const panel_place& place : entry.runs) {
    std::uint64_t end = 0;
    // The offset comes from the volume and may be any number.
    if (!checked_add(place.offset, place.bytes, end) || end > stream.size()) {
      return error(errc::torn,
                   fmt::format("cannot use panels {}: expected {} bytes at {}, found the "
                               "end of tag {} at {}",
                               json_quote(entry.name), place.bytes, place.offset,
                               json_quote(stream.tag()), stream.size()));
    }
    const auto size = static_cast<std::size_t>(place.bytes);
    WEIR_TRY(const storage::hn4_view view, stream.view(place.offset, size));
    if (in_place(view.bytes)) {
      holders_.push_back(view.holder);
      runs.push_back({place.first, view.bytes});
      continue;
    }
    // Reading also verifies the checksums of the blocks.
    const mutable_bytes copy = own(place.bytes);
    WEIR_CHECK(stream.read(place.offset, copy));
    runs.push_back({place.first, copy});
  }
  // A vector must lie in one piece, because its users take one span.
  if (entry.vector && (runs.size() != 1 || runs[0].bytes.size() != 4 * entry.inputs)) {
    return error(errc::corrupt,
                 fmt::format("cannot use vector {}: expected one run of {} elements, "
                             "found {} runs",
                             json_quote(entry.name), entry.inputs, runs.size()));
  }
  if (!entry.vector) {
    WEIR_TRY(const models::panel_shape shape, shape_of_entry(entry));
    WEIR_CHECK(models::check_matrix(entry.name, {shape, runs}));
  }
  add(entry, std::move(runs));
  return {};
}

/// Maps the panels of the record. An empty selection wants all entries.
result<void> model_weights::map_panels(const storage::hn4_stream& stream,
                                       const model_record& record,
                                       const selection& wanted) {
  for (const panel_entry& entry : record.panels) {
    if (!wanted || wanted(entry.name)) {
      WEIR_CHECK(map_entry(stream, entry));
    }
  }
  return {};
}

/// Packs the weights in the form of panels.
result<void> model_weights::pack_weights(const model_in_volume& model,
                                         const selection& wanted) {
  // One block that is large enough for every weight gives one run for each.
  const auto plan = plan_panels(model.weights(), std::uint64_t{1} << 62);
  // A stage with some of the layers packs only those.
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (wanted && !wanted(plan[i].name)) {
      continue;
    }
    WEIR_TRY(const stored_weight w, model.weight(i));
    const mutable_bytes to = own(plan[i].runs[0].bytes);
    // The tensor is read where it lies, in its own type.
    const raw_weight raw{&w.weight, w.view, w.tensor.bytes(), model.record().files};
    WEIR_CHECK(pack_run(raw, 0, to));
    add(plan[i], {{0, to}});
  }
  return {};
}

/// Loads the chosen weights of a model.
result<std::unique_ptr<model_weights>> model_weights::load(
    const storage::hn4_volume& volume, const model_in_volume& model,
    const selection& wanted) {
  std::unique_ptr<model_weights> out(new model_weights());
  // Older volumes and small blocks have no panels.
  if (model.record().panels.empty()) {
    WEIR_CHECK(out->pack_weights(model, wanted));
    return out;
  }
  // The panels have a tag of their own.
  WEIR_TRY(const auto stream,
           volume.stream(model.record().tag + std::string(panels_ending)));
  WEIR_CHECK(out->map_panels(stream, model.record(), wanted));
  return out;
}

/// Looked up by kernels when they are made, not for each call.
result<models::panel_matrix> model_weights::matrix(std::string_view name) const {
  const auto found = matrices_.find(name);
  return found == matrices_.end()
             ? result<models::panel_matrix>(no_weight("matrix", name))
             : found->second;
}

/// As `matrix`.
result<std::span<const float>> model_weights::vector(std::string_view name) const {
  const auto found = vectors_.find(name);
  return found == vectors_.end()
             ? result<std::span<const float>>(no_weight("vector", name))
             : found->second;
}

}  // namespace weir::actors
