// SPDX-License-Identifier: Apache-2.0
/// @file
/// Images of pipelines as checkpoint files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// An image that was read from a checkpoint.
struct stored_epoch {
  flow::image state;             ///< the image
  std::string description;       ///< text of the file that described the pipeline
  std::uint64_t generation = 0;  ///< generation of the checkpoint
};
/// Returns the image that a checkpoint holds.
/// @error{config_mismatch, it is not of a pipeline} @error{corrupt, it is damaged}
[[nodiscard]] result<stored_epoch> epoch_in(const storage::checkpoint& file);

/// The checkpoints of a pipeline's run folder.
/// @threads{thread-compatible}
class epoch_store final : public flow::image_store {
 public:
  /// Takes the lock of the folder. @param description Stored in every checkpoint.
  /// @error{locked, another process has a run in the folder} @error{io}
  [[nodiscard]] static result<epoch_store> open(file_system& fs,
                                                const std::string& folder,
                                                std::string description);
  /// Writes a checkpoint, which is durable when the call returns.
  /// @error{no_space; io}
  [[nodiscard]] result<void> save(const flow::image& one) override;
  [[nodiscard]] result<flow::image> load_newest() override;
  /// Reads the checkpoint of a generation, or the newest valid one.
  /// @param generation 0 for the newest. @error{not_found, there is none}
  /// @error{corrupt, it is damaged}
  [[nodiscard]] result<storage::checkpoint> read(std::uint64_t generation);
  /// Sets the description that later checkpoints hold.
  void describe(std::string description) { description_ = std::move(description); }
  /// Sets the encoded history that later checkpoints hold; empty: they hold none.
  void remember(byte_vector history) { history_ = std::move(history); }
  /// Sets the number of newest checkpoints that stay after a save. @pre `count >= 2`
  void keep(std::size_t count) { store_.keep(count); }
  /// Removes all valid checkpoints above a generation. @error{io}
  [[nodiscard]] result<void> remove_newer(std::uint64_t generation) {
    return store_.remove_newer(generation);
  }
  /// Returns whether the folder holds any checkpoint. @error{io}
  [[nodiscard]] result<bool> empty();
  /// Returns the generation of the last checkpoint that was written; 0 if there is none.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  epoch_store(epoch_store&& other) noexcept
      : store_(std::move(other.store_)),
        description_(std::move(other.description_)),
        history_(std::move(other.history_)),
        generation_(other.generation_) {}

 private:
  epoch_store(storage::checkpoint_store store, std::string description)
      : store_(std::move(store)), description_(std::move(description)) {}
  storage::checkpoint_store store_;
  std::string description_;
  byte_vector history_;
  std::uint64_t generation_ = 0;
};

}  // namespace weir::actors
