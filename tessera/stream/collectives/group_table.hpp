// SPDX-License-Identifier: Apache-2.0
/// @file
/// The collectives that run on devices, for each group of devices that has been used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/gpus.hpp"

namespace weir::tessera {

/// Keeps the collectives of groups of devices. @threads{safe from any thread}
class group_table {
 public:
  /// Makes an empty table.
  explicit group_table(collective_opener open) : open_(std::move(open)) {}

  /// Returns the collectives of a group, or null if they cannot be made. They are made at
  /// the first call unless `find_only`. The first call sets `why` to its error, or to the
  /// reason why the collectives are made without NCCL.
  [[nodiscard]] group_collectives* get(std::span<const std::int32_t> devices,
                                       bool level_0, bool find_only,
                                       std::optional<error>& why) {
    const key k{{devices.begin(), devices.end()}, level_0};
    if (find_only) {
      return find(k).value_or(nullptr);
    }
    // NCCL takes up to its limit of time to open. Callers that only look, who may hold
    // locks of streams, do not wait for that.
    const std::lock_guard one_at_a_time(opening_);
    if (const auto known = find(k)) {
      return *known;
    }
    auto made = open_(devices, level_0);
    why = made ? (*made)->nccl_failure() : std::optional(made.error());
    const std::lock_guard lock(mutex_);
    return groups_.emplace(k, made ? *std::move(made) : nullptr).first->second.get();
  }

 private:
  using key = std::pair<std::vector<std::int32_t>, bool>;
  /// Returns the entry of a key: null collectives if they could not be made.
  [[nodiscard]] std::optional<group_collectives*> find(const key& k) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(k);
    return found == groups_.end() ? std::nullopt : std::optional(found->second.get());
  }

  collective_opener open_;
  std::mutex opening_;  ///< held while a group opens; locked before `mutex_`
  std::mutex mutex_;    ///< guards `groups_`
  std::map<key, std::unique_ptr<group_collectives>> groups_;
};

}  // namespace weir::tessera
