// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file that is mapped into memory for reading.
///
/// The mapping is shared and read-only. Ranges outside it are passed to the file, whose
/// error messages say what is wrong.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "block/file_based_device.hpp"

namespace weir::storage {

namespace {

/// Reads by copying from the mapping; everything else is left to the file. The mapping
/// lives as long as the device. If another process shortens the file, touching the
/// missing pages ends this process with SIGBUS, so volumes must not be shortened while
/// they are mapped.
class mapped_device final : public file_based_device {
 public:
  mapped_device(std::unique_ptr<block_device> file, bytes_view bytes)
      : file_based_device(std::move(file)), bytes_(bytes) {}
  ~mapped_device() override {
    // The cast removes the `const` of the view. The memory itself was mapped by this
    // device.
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset) {
      return file().read(offset, to);  // reports what is wrong
    }
    if (!to.empty()) {
      std::memcpy(to.data(), bytes_.data() + offset, to.size());
    }
    return {};
  }
  // Returns the bytes without a copy. The view is valid as long as the device.
  [[nodiscard]] bytes_view view(std::uint64_t offset,
                                std::size_t count) const noexcept override {
    if (offset > bytes_.size() || count > bytes_.size() - offset) {
      return {};
    }
    return bytes_.subspan(static_cast<std::size_t>(offset), count);
  }

 private:
  bytes_view bytes_;
};

}  // namespace

// The file is opened as an ordinary device first: it measures the file, and answers
// everything but reads.
result<std::unique_ptr<block_device>> open_mapped_device(const std::string& path) {
  WEIR_TRY(auto file, open_file_device(path, device_mode::read_only));
  if (file->size() == 0) {
    return file;  // an empty file cannot be mapped
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return system_error("open", path, errno);
  }
  const auto size = static_cast<std::size_t>(file->size());
  // MAP_SHARED makes changes of the file visible, as with `read`.
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  // A mapping stays valid after its descriptor is closed.
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    return system_error("map", path, errno);
  }
  return std::unique_ptr<block_device>(std::make_unique<mapped_device>(
      std::move(file), bytes_view(static_cast<const std::byte*>(memory), size)));
}

}  // namespace weir::storage
