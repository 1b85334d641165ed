// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state as one run of bytes: which region lies where, copies, digests.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "prose/state.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

class state_regions {
 public:
  state_regions() = default;
  state_regions(const prose_config& config, const parameter_layout& layout,
                model_state<float>& state);

  [[nodiscard]] const std::vector<named_region>& regions() const noexcept {
    return regions_;
  }
  [[nodiscard]] const std::vector<state_section>& sections() const noexcept {
    return sections_;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t layout_hash() const noexcept;

  /// Submits reader tasks that copy all regions to `to`, at most about 1 MiB each.
  /// @error{invalid_argument, `to` is not `bytes()` long}
  [[nodiscard]] result<std::vector<runtime::task_id>> submit_copies(
      task_runner& runner, std::span<std::byte> to) const;
  /// Overwrites one section's regions. No task may be running.
  [[nodiscard]] result<void> restore(region_kind kind, std::uint32_t lane,
                                     bytes_view bytes);
  [[nodiscard]] result<runtime::tensor> parameter(std::string_view name) const;
  [[nodiscard]] std::uint64_t parameter_hash() const;
  [[nodiscard]] std::uint64_t state_hash() const;

 private:
  void put(std::string name, region_kind kind, std::uint32_t lane,
           const runtime::storage& store, dtype type, std::int64_t offset_bytes,
           shape_vector shape);
  void put_lane(const lane_context<float>& lane, std::uint32_t index);
  void make_sections();

  std::vector<named_region> regions_;
  std::vector<std::uint64_t> offsets_;  ///< of each region, in the image
  std::vector<state_section> sections_;
  std::uint64_t bytes_ = 0;
};

/// What `prose::context_hash` returns.
[[nodiscard]] std::uint64_t context_digest(const prose_config& config,
                                           const model_state<float>& state);

}  // namespace weir::models
