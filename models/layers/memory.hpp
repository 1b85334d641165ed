// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of a model in storages of an engine.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "buffers.hpp"
#include "weir/base/error.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models::layers {

/// Allocates buffers and releases them in the end, when their tasks have ended.
class owned_buffers {
 public:
  /// @param owner  Names the memory in the engine's report.
  owned_buffers(runtime::engine& engine, std::string_view owner)
      : engine_(engine), owner_(owner) {}
  ~owned_buffers() {
    for (const runtime::storage& s : storages_) {
      // The only failure is a storage that does not exist.
      (void)engine_.release(s.id);
    }
  }
  owned_buffers(const owned_buffers&) = delete;
  owned_buffers& operator=(const owned_buffers&) = delete;

  /// Allocates `count` zeros.
  /// @error{out_of_memory}
  [[nodiscard]] result<buffer<float>> allocate(std::int64_t count) {
    WEIR_TRY(const runtime::storage s,
             engine_.allocate(count * static_cast<std::int64_t>(sizeof(float)), owner_));
    storages_.push_back(s);
    return buffer<float>{reinterpret_cast<float*>(s.base), s, 0, count};
  }

 private:
  runtime::engine& engine_;
  std::string_view owner_;
  std::vector<runtime::storage> storages_;
};

}  // namespace weir::models::layers
