// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is to be stored: a file mapped into memory, or all of a pipe.
#pragma once

#include <memory>
#include <string>

#include "cli/output.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::tools {

/// Bytes of a file or of standard input, for as long as it lives.
class source {
 public:
  /// @error{not_found; io}
  static result<source> open(const std::string& path) {
    source s;
    auto mapped = path == "-" ? result<std::unique_ptr<storage::block_device>>(nullptr)
                              : storage::open_mapped_device(path);
    if (mapped && *mapped != nullptr && (*mapped)->size() > 0) {
      s.device_ = std::move(*mapped);
      return s;
    }
    WEIR_TRY(s.content_, read_input(path));
    return s;
  }
  [[nodiscard]] bytes_view bytes() const {
    return device_ ? device_->view(0, static_cast<std::size_t>(device_->size()))
                   : bytes_view(content_);
  }

 private:
  std::unique_ptr<storage::block_device> device_;
  byte_vector content_;
};

}  // namespace weir::tools
