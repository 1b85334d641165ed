// SPDX-License-Identifier: Apache-2.0
/// @file
/// Byte sources over memory and over files.
#include "weir/formats/byte_source.hpp"

#include <fmt/core.h>

#include <cstring>

namespace weir::formats {

namespace {

result<void> check_range(const byte_source& source, std::uint64_t offset,
                         std::size_t bytes) {
  if (offset > source.size() || bytes > source.size() - offset) {
    return error(errc::torn,
                 fmt::format("cannot read {} bytes: expected at most {} there, found "
                             "the end",
                             bytes, source.size() - std::min(offset, source.size())))
        .at(fmt::format("{}:{}", source.name(), offset));
  }
  return {};
}

}  // namespace

result<void> memory_source::read(std::uint64_t offset, mutable_bytes to) const {
  WEIR_CHECK(check_range(*this, offset, to.size()));
  if (!to.empty()) {
    std::memcpy(to.data(), content_.data() + offset, to.size());
  }
  return {};
}

result<std::shared_ptr<file_source>> file_source::open(std::unique_ptr<file> f) {
  WEIR_TRY(const std::uint64_t size, f->size());
  return std::shared_ptr<file_source>(new file_source(std::move(f), size));
}

result<void> file_source::read(std::uint64_t offset, mutable_bytes to) const {
  WEIR_CHECK(check_range(*this, offset, to.size()));
  return read_exactly(*file_, offset, to);
}

}  // namespace weir::formats
