// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of which the system cannot read a part, as on a failing disk.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/file.hpp"

namespace weir::test {

/// A file whose bytes from `begin` to `end - 1` cannot be read. As of a disk, a read that
/// begins before them ends there.
class failing_file final : public file {
 public:
  failing_file(std::unique_ptr<file> whole, std::uint64_t begin, std::uint64_t end)
      : whole_(std::move(whole)), begin_(begin), end_(end) {}
  result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
    if (offset >= begin_ && offset < end_) {
      return error(errc::io, "cannot read: Input/output error");
    }
    const std::uint64_t most = offset < begin_ ? begin_ - offset : to.size();
    return whole_->read_some(
        offset,
        to.first(static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), most))));
  }
  result<std::size_t> write_some(std::uint64_t offset, bytes_view bytes) override {
    return whole_->write_some(offset, bytes);
  }
  result<std::uint64_t> size() override { return whole_->size(); }
  result<void> resize(std::uint64_t bytes) override { return whole_->resize(bytes); }
  result<void> sync() override { return whole_->sync(); }
  const std::string& path() const noexcept override { return whole_->path(); }

 private:
  std::unique_ptr<file> whole_;
  std::uint64_t begin_;
  std::uint64_t end_;
};

/// The files of the system, with an unreadable range in each.
class failing_disk final : public file_system {
 public:
  std::uint64_t begin = 0;  ///< first byte that cannot be read
  std::uint64_t end = 0;    ///< behind the last one

  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    WEIR_TRY(auto whole, posix_file_system().open(path, mode));
    return std::unique_ptr<file>(
        std::make_unique<failing_file>(std::move(whole), begin, end));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    return posix_file_system().rename(from, to);
  }
  result<void> remove(const std::string& path) override {
    return posix_file_system().remove(path);
  }
  result<std::vector<std::string>> list(const std::string& folder) override {
    return posix_file_system().list(folder);
  }
  result<void> make_folder(const std::string& path) override {
    return posix_file_system().make_folder(path);
  }
  result<void> sync_folder(const std::string& folder) override {
    return posix_file_system().sync_folder(folder);
  }
  bool exists(const std::string& path) override {
    return posix_file_system().exists(path);
  }
};

}  // namespace weir::test
