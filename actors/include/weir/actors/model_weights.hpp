// SPDX-License-Identifier: Apache-2.0
/// @file
/// The weights of a stored model as the layers read them: matrices in panels, vectors as
/// fp32.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/actors/models.hpp"
#include "weir/base/error.hpp"
#include "weir/models/panels.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::actors {

/// Weights of a model of a volume, by the names of Hugging Face.
///
/// If the volume holds the panels of the model (tag `TAG/panels`), they are used in
/// place; a range that cannot be had in place is copied. Without that tag, the stored
/// weights are packed into memory. Every block is verified once, when the weights are
/// loaded.
/// @threads{const members are safe to call concurrently}
class model_weights final : public models::weight_source {
 public:
  /// Selects weights by their names.
  using selection = std::function<bool(std::string_view name)>;

  /// Loads weights. Blocks without any wanted weight are not read.
  /// @param wanted  Returns true for the weights to load; empty: all of them.
  /// @error{corrupt, a block is damaged; the message names tag and byte}
  /// @error{torn, the panels are cut}
  /// @error{not_found, the record names panels, and the volume has none}
  /// @error{unsupported, a matrix cannot be stored as panels}
  /// @error{io, the device reports an error}
  [[nodiscard]] static result<std::unique_ptr<model_weights>> load(
      const storage::hn4_volume& volume, const model_in_volume& model,
      const selection& wanted = {});

  /// Returns a matrix. Its bytes live as long as this object.
  /// @error{not_found, there is no such matrix}
  [[nodiscard]] result<models::panel_matrix> matrix(std::string_view name) const override;
  /// Returns a vector. It lives as long as this object.
  /// @error{not_found, there is no such vector}
  [[nodiscard]] result<std::span<const float>> vector(
      std::string_view name) const override;
  /// Returns the number of bytes in memory of this object; 0 if all weights are in place.
  [[nodiscard]] std::uint64_t copied_bytes() const noexcept { return copied_; }

 private:
  model_weights() = default;
  result<void> map_panels(const storage::hn4_stream& stream, const model_record& record,
                          const selection& wanted);
  result<void> map_entry(const storage::hn4_stream& stream, const panel_entry& entry);
  result<void> pack_weights(const model_in_volume& model, const selection& wanted);
  /// Returns memory that lives as long as this object.
  mutable_bytes own(std::uint64_t bytes);
  void add(const panel_entry& entry, std::vector<models::panel_run> runs);

  std::map<std::string, models::panel_matrix, std::less<>> matrices_;
  std::map<std::string, std::span<const float>, std::less<>> vectors_;
  std::vector<std::shared_ptr<const void>> holders_;
  std::uint64_t copied_ = 0;
};

}  // namespace weir::actors
