// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors of stored files by name: the header inside a safetensors or GGUF file is the
/// directory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::storage {

enum class container_format : std::uint8_t { raw, safetensors, gguf };
/// "raw", "safetensors", "gguf"
[[nodiscard]] std::string_view name_of(container_format format) noexcept;

/// One tensor of a stored file.
struct stored_tensor {
  std::string name;
  dtype type = dtype::uint8;  ///< quantised and unknown types: uint8
  std::string type_name;      ///< as the file calls it: F32, BF16, Q4_K
  shape_vector shape;         ///< outermost first; quantised: the last one in bytes
  std::uint64_t offset = 0;   ///< in the stream
  std::uint64_t bytes = 0;
};

/// The tensors of one stored file, in the order of its header; none for raw files.
/// @threads{const}
class tensor_directory {
 public:
  /// Reads the header of a whole file. @error{corrupt, a header that contradicts itself
  /// or the file's size; unsupported_version}
  /// @source{safetensors format; GGUF specification, versions 2 and 3}
  [[nodiscard]] static result<tensor_directory> of_bytes(bytes_view file);
  /// The same of a stored file; reads the header only. @error{and as hn4_stream::read}
  [[nodiscard]] static result<tensor_directory> of_stream(const hn4_stream& stream);

  [[nodiscard]] container_format format() const noexcept { return format_; }
  [[nodiscard]] std::span<const stored_tensor> tensors() const noexcept {
    return tensors_;
  }
  /// Nothing if there is none of this name.
  [[nodiscard]] const stored_tensor* find(std::string_view name) const noexcept;

 private:
  container_format format_ = container_format::raw;
  std::vector<stored_tensor> tensors_;
};

/// A tensor out of a volume: its bytes lie in the volume's mapped memory, or in memory of
/// its own, aligned to 64 bytes.
/// @threads{const}
class hn4_tensor {
 public:
  [[nodiscard]] const stored_tensor& info() const noexcept { return info_; }
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// True if nothing was copied.
  [[nodiscard]] bool is_view() const noexcept { return is_view_; }

 private:
  friend result<hn4_tensor> read_tensor(const hn4_stream& stream,
                                        const stored_tensor& info);
  stored_tensor info_;
  std::shared_ptr<const void> holder_;
  bytes_view bytes_;
  bool is_view_ = false;
};

/// Reads one tensor of a stream. @error{as hn4_stream::read; out_of_range, it leaves the
/// stream; out_of_memory}
[[nodiscard]] result<hn4_tensor> read_tensor(const hn4_stream& stream,
                                             const stored_tensor& info);
/// Finds a tensor by name in a tag, or in all tags where `tag` is empty.
/// @error{not_found, the message names the nearest; invalid_argument, several tags have
/// one; as read_tensor}
[[nodiscard]] result<hn4_tensor> find_tensor(const hn4_volume& volume,
                                             std::string_view name,
                                             std::string_view tag = {});

}  // namespace weir::storage
