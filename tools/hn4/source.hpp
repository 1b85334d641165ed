// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes that a verb stores: a file that is mapped into memory, or all of a pipe.
#pragma once

#include <memory>
#include <string>

#include "cli/output.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::tools {

/// Bytes of a file or of standard input. Views are valid as long as the object lives.
class source {
 public:
  /// Opens a file, or standard input for "-". @error{not_found, there is no such file}
  /// @error{io, a read failed}
  static result<source> open(const std::string& path) {
    source s;
    // A pipe and an empty file cannot be mapped, and are read instead.
    auto mapped = path == "-" ? result<std::unique_ptr<storage::block_device>>(nullptr)
                              : storage::open_mapped_device(path);
    if (mapped && *mapped != nullptr && (*mapped)->size() > 0) {
      s.device_ = std::move(*mapped);
      return s;
    }
    WEIR_TRY(s.content_, read_input(path));
    return s;
  }
  /// Returns all bytes.
  [[nodiscard]] bytes_view bytes() const {
    return device_ ? device_->view(0, static_cast<std::size_t>(device_->size()))
                   : bytes_view(content_);
  }

 private:
  std::unique_ptr<storage::block_device> device_;  ///< the file, if it is mapped
  byte_vector content_;                            ///< all bytes, if there is no mapping
};

}  // namespace weir::tools
