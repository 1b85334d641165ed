// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file read past the page cache.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "weir/storage/block_device.hpp"

namespace weir::storage {

namespace {

constexpr std::size_t unit = 4096;  // what direct transfers are aligned to
constexpr std::size_t chunk = std::size_t{1} << 20;

/// Memory that direct transfers may fill; one per thread, kept.
mutable_bytes bounce() {
  struct deleter {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{unit}); }
  };
  thread_local const std::unique_ptr<std::byte, deleter> memory(
      static_cast<std::byte*>(::operator new (chunk, std::align_val_t{unit})));
  return {memory.get(), chunk};
}

class direct_device final : public block_device {
 public:
  direct_device(std::unique_ptr<block_device> file, int descriptor)
      : file_(std::move(file)), descriptor_(descriptor) {}
  direct_device(const direct_device&) = delete;
  direct_device& operator=(const direct_device&) = delete;
  ~direct_device() override { ::close(descriptor_); }

  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    const mutable_bytes whole[] = {to};
    return read_scattered(offset, whole);
  }
  result<void> read_scattered(std::uint64_t offset,
                              std::span<const mutable_bytes> pieces) override {
    std::uint64_t bytes = 0;
    for (const mutable_bytes piece : pieces) {
      bytes += piece.size();
    }
    if (offset > size() || bytes > size() - offset) {
      return file_->read_scattered(offset, pieces);  // says what is wrong
    }
    std::size_t filled = 0;  // of the first piece
    while (bytes > 0) {
      WEIR_TRY(bytes_view there, fetch(offset, bytes));
      offset += there.size();
      bytes -= there.size();
      while (!there.empty()) {
        const mutable_bytes rest = pieces.front().subspan(filled);
        const std::size_t n = std::min(rest.size(), there.size());
        std::copy_n(there.begin(), n, rest.begin());
        there = there.subspan(n);
        filled += n;
        if (filled == pieces.front().size()) {
          pieces = pieces.subspan(1);
          filled = 0;
        }
      }
    }
    return {};
  }
  result<void> write(std::uint64_t offset, bytes_view from) override {
    return file_->write(offset, from);  // opened for reading: says so
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

 private:
  // Bytes from `offset` on, at least one and at most `most`, in the bounce buffer.
  result<bytes_view> fetch(std::uint64_t offset, std::uint64_t most) {
    const std::uint64_t begin = align_down<std::uint64_t>(offset, unit);
    const std::uint64_t end = std::min<std::uint64_t>(
        align_up<std::uint64_t>(offset + most, unit), begin + chunk);
    const mutable_bytes to = bounce().first(static_cast<std::size_t>(end - begin));
    ssize_t n = -1;
    do {
      n = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(begin));
    } while (n < 0 && errno == EINTR);
    const std::uint64_t got = n < 0 ? 0 : static_cast<std::uint64_t>(n);
    if (begin + got <= offset) {
      return error(n < 0 ? errc::io : errc::torn,
                   fmt::format("cannot read \"{}\" directly: expected {} bytes, found {}",
                               name(), most,
                               n < 0 ? std::strerror(errno) : "the end of the file"))
          .at(fmt::format("{}:{}", name(), offset));
    }
    const std::uint64_t there = std::min(begin + got - offset, most);
    return bytes_view(to).subspan(static_cast<std::size_t>(offset - begin),
                                  static_cast<std::size_t>(there));
  }

  std::unique_ptr<block_device> file_;
  int descriptor_;
};

}  // namespace

result<std::unique_ptr<block_device>> open_direct_device(const std::string& path) {
  WEIR_TRY(auto file, open_file_device(path, device_mode::read_only));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (descriptor < 0) {
    if (errno == EINVAL) {
      return file;  // this file system has no direct transfers
    }
    return error(errc::io, fmt::format("cannot open \"{}\" for direct reading: {}", path,
                                       std::strerror(errno)));
  }
  return std::unique_ptr<block_device>(
      std::make_unique<direct_device>(std::move(file), descriptor));
}

}  // namespace weir::storage
