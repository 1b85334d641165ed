// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file and a file system that hand every call on to the real ones. Tests derive from
/// them and replace the calls that are to fail.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/file.hpp"

namespace weir::test {

/// A file that hands every call on to another one.
class real_file : public file {
 public:
  explicit real_file(std::unique_ptr<file> whole) : whole_(std::move(whole)) {}
  result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
    return whole_->read_some(offset, to);
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
};

/// The files of the system.
class real_files : public file_system {
 public:
  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    return posix_file_system().open(path, mode);
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
