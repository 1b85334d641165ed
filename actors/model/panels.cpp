// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans and packs the panels of a model.
///
/// A panel is a group of rows of a matrix in the order in which the kernels read it.
/// Panels are stored in a stream of the volume so that a kernel can use them where the
/// volume is mapped: a run of panels lies inside the payload of one block, because the
/// header of the next block would interrupt it, and begins at an address that is aligned
/// for vector loads. `plan_panels` computes the places from shapes alone, `pack_run`
/// fills one of them.
#include "model/panels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir::actors {

namespace {

/// Bytes before the payload of a block of HN4.
/// @source{HN4 on-disk format, section 3}
constexpr std::uint64_t block_header = 48;

/// Places parts one after another.
/// A volume is mapped from an aligned address, so the alignment of a byte follows from
/// its offset in the volume: offset in the block, plus the header of the block.
class panel_planner {
 public:
  explicit panel_planner(std::uint64_t payload) : payload_(payload) {}

  /// Places `count` parts of `bytes` bytes, as many side by side as fit into a block, and
  /// adds a run for each group. Returns false if not even one part fits into a block.
  bool place(std::uint64_t bytes, std::uint64_t count, std::vector<panel_place>& runs) {
    for (std::uint64_t first = 0; first < count;) {
      // First the rest of the block in which the last run has ended, then a new block.
      std::uint64_t offset = next_aligned(end_);
      std::uint64_t fit = (payload_ - offset % payload_) / bytes;
      if (fit == 0) {
        offset = next_aligned(align_up(offset, payload_));
        fit = (payload_ - offset % payload_) / bytes;
      }
      if (fit == 0) {
        return false;
      }
      const std::uint64_t parts = std::min(fit, count - first);
      runs.push_back({first, offset, parts * bytes});
      end_ = offset + parts * bytes;
      first += parts;
    }
    return true;
  }

 private:
  /// Returns the first offset from `offset` on whose byte is aligned in memory.
  /// Blocks begin at aligned places of the volume, so only the place inside the block
  /// counts.
  [[nodiscard]] std::uint64_t next_aligned(std::uint64_t offset) const {
    const std::uint64_t block = offset / payload_ * payload_;
    const std::uint64_t inside =
        align_up(offset - block + block_header, panel_alignment) - block_header;
    if (inside < payload_) {
      return block + inside;
    }
    // The rest of the block is too small; the first aligned byte of the next one is
    // taken.
    return block + payload_ + panel_alignment - block_header;
  }

  /// Bytes of content in a block.
  std::uint64_t payload_;
  /// End of the last run, as an offset in the content of the stream.
  std::uint64_t end_ = 0;
};

/// Returns the type of panels that hold weights of a type of a file.
/// 16-bit types have no kernel and become fp32.
models::weight_type type_of_panels(models::stored_type type) {
  switch (type) {
    case models::stored_type::q8_0: return models::weight_type::q8_0;
    case models::stored_type::q4_1: return models::weight_type::q4_1;
    default: return models::weight_type::f32;
  }
}

/// Decodes rows of a weight to fp32, in the order of the model and little-endian as in a
/// file.
byte_vector decode_rows(const models::weight_view& view, std::uint64_t first,
                        std::uint64_t rows) {
  const auto columns = static_cast<std::size_t>(view.columns());
  byte_vector out(static_cast<std::size_t>(rows) * columns * sizeof(float));
  const std::size_t row_bytes = columns * sizeof(float);
  std::vector<float> row(columns);
  for (std::uint64_t r = 0; r < rows; ++r) {
    view.read(first + r, row);
    std::memcpy(out.data() + static_cast<std::size_t>(r) * row_bytes, row.data(),
                row_bytes);
  }
  if constexpr (std::endian::native == std::endian::big) {
    swap_units(out, sizeof(float));
  }
  return out;
}

}  // namespace

models::panel_shape shape_of_panels(const models::bound_weight& w) {
  return {type_of_panels(w.type), w.info.rows, w.info.columns};
}

/// Returns the places of all weights, or nothing if a panel does not fit into a block.
std::vector<panel_entry> plan_panels(std::span<const models::bound_weight> weights,
                                     std::uint64_t payload) {
  panel_planner planner(payload);
  std::vector<panel_entry> plan;
  for (const models::bound_weight& w : weights) {
    panel_entry entry;
    entry.name = w.info.hf_name;
    entry.vector = w.info.vector;
    const models::panel_shape shape = shape_of_panels(w);
    entry.type = name_of(shape.type);
    entry.outputs = shape.outputs;
    entry.inputs = shape.inputs;
    // A vector is one part; a matrix has one part per panel.
    const bool fits =
        entry.vector ? planner.place(entry.inputs * sizeof(float), 1, entry.runs)
                     : planner.place(shape.panel_bytes(), shape.panels(), entry.runs);
    if (!fits) {
      return {};
    }
    plan.push_back(std::move(entry));
  }
  return plan;
}

/// Returns the bytes of the stream that holds the planned runs.
std::uint64_t stream_bytes(std::span<const panel_entry> plan) {
  std::uint64_t end = 0;
  for (const panel_entry& entry : plan) {
    for (const panel_place& run : entry.runs) {
      end = std::max(end, run.offset + run.bytes);
    }
  }
  return end;
}

// Rows of 16-bit matrices are decoded first, those of the run alone, because a large
// matrix has many runs. A vector is one row of fp32.
result<void> pack_run(const raw_weight& w, std::uint64_t first_panel, mutable_bytes to) {
  const models::weight_info& info = w.weight->info;
  // The packing itself decodes blocks and fp32 from their stored form.
  const models::stored_type type = w.weight->type;
  const bool wide = type != models::stored_type::f16 && type != models::stored_type::bf16;
  if (!info.vector && wide) {
    // GGUF has the rows of rotary matrices in pairs, and packing puts them back in
    // halves.
    const std::uint64_t pairs =
        w.files == models::weight_files::gguf ? info.rotary_width : 0;
    return models::pack_panels(info.hf_name, shape_of_panels(*w.weight), w.bytes, pairs,
                               first_panel, to);
  }
  if (info.vector) {
    const byte_vector values = decode_rows(w.view, 0, w.view.rows());
    std::memcpy(to.data(), values.data(), values.size());
    return {};
  }
  // The rows of the run are packed as a matrix of their own.
  models::panel_shape shape = shape_of_panels(*w.weight);
  const std::uint64_t first = first_panel * models::panel_outputs;
  shape.outputs = std::min(to.size() / shape.panel_bytes() * models::panel_outputs,
                           shape.outputs - first);
  return models::pack_panels(info.hf_name, shape,
                             decode_rows(w.view, first, shape.outputs), 0, 0, to);
}

}  // namespace weir::actors
