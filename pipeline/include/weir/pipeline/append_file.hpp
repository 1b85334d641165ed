// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file to which a sink appends, with the offset that checkpoints need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weir/base/file.hpp"
#include "weir/pipeline/stage.hpp"

namespace weir {

/// A file that grows by whole items. A sink forwards `settle` and `rewind` to it, so that
/// the file ends with the bytes of an uninterrupted run whatever happens.
/// @threads{thread-compatible; belongs to the thread of the sink}
class append_file {
 public:
  /// Durable length of the file.
  struct offset {
    std::uint64_t bytes;  ///< length in bytes
  };
  /// Opens the file. A new run begins with an empty file; a resumed run keeps the content
  /// until `rewind`.
  /// @param path  Relative paths lie beside the pipeline's file.
  /// @error{io, the file cannot be opened} @error{no_space, the device is full}
  [[nodiscard]] result<void> open(const opening& run, const std::string& path,
                                  file_system& fs = posix_file_system());
  /// Appends bytes, which are not durable before `settle`.
  /// @error{io, the file cannot be written} @error{no_space, the device is full}
  [[nodiscard]] result<void> append(bytes_view bytes);
  /// Appends the elements of a one-dimensional view, see `append`.
  template <class T>
  [[nodiscard]] result<void> append(const view<const T, 1>& elements) {
    return append(std::as_bytes(
        std::span(elements.data(), static_cast<std::size_t>(elements.extent(0)))));
  }
  /// Makes everything that was appended durable and returns the length.
  /// @error{io, the device failed} @error{no_space, the device is full}
  [[nodiscard]] result<offset> settle();
  /// Cuts the file to the length of an offset.
  /// @error{torn, the file is shorter, so durable items were lost}
  [[nodiscard]] result<void> rewind(offset durable);
  /// Returns true if the file has at least the bytes of an offset. Changes nothing.
  /// @param path  As of `open`.
  /// @error{torn, the file is missing or shorter}
  [[nodiscard]] static result<bool> verify(const opening& run, const std::string& path,
                                           offset durable,
                                           file_system& fs = posix_file_system());

 private:
  std::unique_ptr<file> file_;
  std::uint64_t end_ = 0;
  bool entry_durable_ = false;  ///< the name of the file is durable in its folder
  file_system* fs_ = nullptr;
};

}  // namespace weir
