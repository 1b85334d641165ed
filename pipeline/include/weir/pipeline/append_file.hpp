// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file to which a sink appends, with the offset that checkpoints need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/pipeline/figures.hpp"
#include "weir/pipeline/stage.hpp"

namespace weir {

/// Bytes of an output behind the checkpoint, which a resumed run has cut off.
/// @threads{a value}
struct output_cut {
  std::string file;         ///< path as the process finds it
  std::uint64_t bytes = 0;  ///< bytes that were cut off
};

/// Collects the cuts that its thread makes while it is in scope. Scopes may be nested:
/// the outer one gets the cuts of the inner one, too. Hosts use it to tell the user.
/// @threads{belongs to the thread that has made it}
class cut_scope {
 public:
  /// Begins to collect.
  cut_scope();
  cut_scope(const cut_scope&) = delete;
  cut_scope& operator=(const cut_scope&) = delete;
  ~cut_scope();
  /// Returns the cuts so far.
  [[nodiscard]] const std::vector<output_cut>& cuts() const noexcept { return cuts_; }

 private:
  friend void note_cut(output_cut one);
  cut_scope* outer_;
  std::vector<output_cut> cuts_;
};

/// Notes that an output was cut. Sinks that do not use `append_file` call it, or
/// `cut_output`, in `open`, `seek` or `rewind`.
void note_cut(output_cut one);
/// Cuts a file to a length, or lengthens it, and notes what was cut off.
/// @units{length: bytes}
/// @error{io, the file cannot be cut} @error{no_space, the device is full}
[[nodiscard]] result<void> cut_output(file& output, std::uint64_t length);
/// Adds the figures `cut_bytes` and `cut`, a list of texts, if there are any cuts.
void add_cuts(const std::vector<output_cut>& cuts, figures& to);

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
  /// @error{io, the file cannot be written} @error{no_space, the device is full}
  template <class T>
  [[nodiscard]] result<void> append(const view<const T, 1>& elements) {
    return append(std::as_bytes(
        std::span(elements.data(), static_cast<std::size_t>(elements.extent(0)))));
  }
  /// Makes everything that was appended durable and returns the length.
  /// @error{io, the device failed} @error{no_space, the device is full}
  [[nodiscard]] result<offset> settle();
  /// Cuts the file to the length of an offset, and notes what was cut off.
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
