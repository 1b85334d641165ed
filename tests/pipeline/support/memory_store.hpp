// SPDX-License-Identifier: Apache-2.0
/// @file
/// A store of checkpoints in memory, for tests.
#pragma once

#include <vector>

#include "weir/pipeline/host/image.hpp"

namespace weir::test {

/// Keeps all images of a run, as files that were never removed.
class memory_store final : public flow::image_store {
 public:
  result<void> save(const flow::image& one) override {
    images.push_back(one);
    return {};
  }
  result<flow::image> load_newest() override {
    if (images.empty()) {
      return error(errc::not_found, "no image");
    }
    return images.back();
  }
  std::vector<flow::image> images;  ///< in the order in which they were saved
};

}  // namespace weir::test
