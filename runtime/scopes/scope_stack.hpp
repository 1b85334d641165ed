// SPDX-License-Identifier: Apache-2.0
/// @file
/// Open scopes and the fresh memory that they hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// The outermost scope is the engine's own and never closes.
/// @threads{thread-compatible}
class scope_stack {
 public:
  struct open_scope {
    /// Number of the scope, never used again.
    std::uint64_t serial = 0;
    std::string name;
    scope_kind kind = scope_kind::automatic;
    std::vector<storage_id> made;  ///< fresh memory, some of it given up
    /// Entries of `made` that were given up since the list was cleaned.
    std::size_t given_up = 0;
  };

  scope_stack() { open("engine", scope_kind::automatic); }

  [[nodiscard]] open_scope& innermost() noexcept { return open_.back(); }
  [[nodiscard]] const open_scope& last() const noexcept { return open_.back(); }
  [[nodiscard]] bool manual() const noexcept {
    return open_.back().kind == scope_kind::manual;
  }
  std::uint64_t open(std::string_view name, scope_kind kind) {
    open_.push_back({++last_, std::string(name), kind, {}, 0});
    return last_;
  }
  /// Finds an open scope by its serial number; null if it has been closed.
  [[nodiscard]] open_scope* find(std::uint64_t serial) noexcept {
    const auto found = std::lower_bound(
        open_.begin(), open_.end(), serial,
        [](const open_scope& s, std::uint64_t wanted) { return s.serial < wanted; });
    return found == open_.end() || found->serial != serial ? nullptr : &*found;
  }
  void close_innermost() noexcept { open_.pop_back(); }
  /// Returns the names of the scopes from the outermost to this one:
  /// "engine/step/layer".
  [[nodiscard]] std::string path(std::uint64_t serial) const {
    std::string out;
    for (const open_scope& s : open_) {
      if (s.serial <= serial) {
        out += out.empty() ? s.name : "/" + s.name;
      }
    }
    return out;
  }

 private:
  std::uint64_t last_ = 0;
  std::vector<open_scope> open_;  ///< outermost first; serials rise
};

}  // namespace weir::runtime
