// SPDX-License-Identifier: Apache-2.0
/// @file
/// The image of a model's state: all regions one after another, with copies and digests.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "prose/state.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

/// The regions of a model's state, in a fixed order, and their places in the image.
///
/// The image is the run of bytes that a snapshot writes. It exists only in copies: the
/// regions themselves lie in the memory of the model.
/// @threads{thread-compatible: belongs to the engine's submitter}
class state_regions {
 public:
  /// Makes an image without regions.
  state_regions() = default;
  /// Lists the regions of `state`, which must outlive this object.
  state_regions(const prose_config& config, const parameter_layout& layout,
                model_state<float>& state);

  /// Returns all regions in the order of the image.
  [[nodiscard]] const std::vector<named_region>& regions() const noexcept {
    return regions_;
  }
  /// Returns the sections of the image: runs of regions of one kind and lane.
  [[nodiscard]] const std::vector<state_section>& sections() const noexcept {
    return sections_;
  }
  /// Returns the size of the image in bytes.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns a digest of names, kinds and shapes of all regions.
  [[nodiscard]] std::uint64_t layout_hash() const noexcept;

  /// Submits tasks that read the regions and write each section to its destination. A
  /// task copies whole regions of a section, at most about 1 MiB unless one region is
  /// larger.
  /// @error{invalid_argument, there are more or fewer destinations than sections, or one
  /// has another length}
  [[nodiscard]] result<std::vector<runtime::task_id>> submit_copies(
      task_runner& runner, std::span<const mutable_bytes> to) const;
  /// Overwrites the regions of one section. No task may be running.
  /// @error{config_mismatch, there is no such section, or it has another size}
  [[nodiscard]] result<void> restore(region_kind kind, std::uint32_t lane,
                                     bytes_view bytes);
  /// Returns a parameter by its name.
  /// @error{unknown_key, no such name; the message names the nearest}
  [[nodiscard]] result<runtime::tensor> parameter(std::string_view name) const;
  /// Returns a digest of all parameters. No task may be running.
  [[nodiscard]] std::uint64_t parameter_hash() const;
  /// Returns a digest of the image. No task may be running.
  [[nodiscard]] std::uint64_t state_hash() const;

 private:
  void put(std::string name, region_kind kind, std::uint32_t lane,
           const runtime::storage& store, dtype type, std::int64_t offset_bytes,
           shape_vector shape);
  void put_lane(const lane_context<float>& lane, std::uint32_t index);
  void make_sections();
  [[nodiscard]] bool fits(std::span<const mutable_bytes> to) const;

  std::vector<named_region> regions_;
  std::vector<std::uint64_t> offsets_;  ///< of each region in the image, in bytes
  std::vector<state_section> sections_;
  std::uint64_t bytes_ = 0;
};

/// Returns the digest of all contexts that `prose::context_hash` describes.
[[nodiscard]] std::uint64_t context_digest(const prose_config& config,
                                           const model_state<float>& state);

}  // namespace weir::models
