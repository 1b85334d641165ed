// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of which the system cannot read a part, as on a failing disk.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "support/real_files.hpp"

namespace weir::test {

/// A file whose bytes from `begin` to `end - 1` cannot be read. A read that begins before
/// them returns the bytes in front of them, as it does for a damaged disk.
class failing_file final : public real_file {
 public:
  failing_file(std::unique_ptr<file> whole, std::uint64_t begin, std::uint64_t end)
      : real_file(std::move(whole)), begin_(begin), end_(end) {}
  result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
    if (offset >= begin_ && offset < end_) {
      return error(errc::io, "cannot read: Input/output error");
    }
    const std::uint64_t most = offset < begin_ ? begin_ - offset : to.size();
    return real_file::read_some(
        offset,
        to.first(static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), most))));
  }

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
};

/// The files of the system, with an unreadable range in each.
class failing_disk final : public real_files {
 public:
  std::uint64_t begin = 0;  ///< first byte that cannot be read
  std::uint64_t end = 0;    ///< behind the last one

  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    WEIR_TRY(auto whole, real_files::open(path, mode));
    return std::unique_ptr<file>(
        std::make_unique<failing_file>(std::move(whole), begin, end));
  }
};

}  // namespace weir::test
