// SPDX-License-Identifier: Apache-2.0
/// @file
/// Base class of devices that read a file in their own way.
#pragma once

#include <memory>

#include "weir/storage/block_device.hpp"

namespace weir::storage {

/// A device over a file that was opened for reading: leaves everything except reading to
/// it.
class file_based_device : public block_device {
 public:
  explicit file_based_device(std::unique_ptr<block_device> file)
      : file_(std::move(file)) {}
  file_based_device(const file_based_device&) = delete;
  file_based_device& operator=(const file_based_device&) = delete;

  result<void> write(std::uint64_t offset, bytes_view from) override {
    return file_->write(offset, from);  // fails, and says why
  }
  result<void> sync() override { return {}; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return file_->size(); }
  result<extent> next_data(std::uint64_t offset, std::uint64_t end) override {
    return file_->next_data(offset, end);
  }
  [[nodiscard]] std::int64_t modified_ns() const noexcept override {
    return file_->modified_ns();
  }
  [[nodiscard]] const std::string& name() const noexcept override {
    return file_->name();
  }

 protected:
  /// Returns the file.
  [[nodiscard]] block_device& file() const noexcept { return *file_; }

 private:
  std::unique_ptr<block_device> file_;
};

}  // namespace weir::storage
