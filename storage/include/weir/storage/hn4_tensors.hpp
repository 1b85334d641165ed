// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors of stored files by name. The header inside a safetensors or GGUF file is the
/// directory of its tensors.
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

/// Format of a stored file.
enum class container_format : std::uint8_t { raw, safetensors, gguf };
/// Returns the name of a format: "raw", "safetensors" or "gguf".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(container_format format) noexcept;

/// One tensor of a stored file.
struct stored_tensor {
  std::string name;           ///< name in the header of the file
  dtype type = dtype::uint8;  ///< uint8 for quantised and unknown types
  std::string type_name;      ///< name of the type in the file, such as F32 or Q4_K
  /// Outermost dimension first. The last dimension of a quantised type counts bytes.
  shape_vector shape;
  std::uint64_t offset = 0;  ///< byte of the stream at which it begins
  std::uint64_t bytes = 0;   ///< length in bytes
};

/// The tensors of one stored file, in the order of its header. A raw file has none.
/// @threads{const members are safe to call concurrently}
class tensor_directory {
 public:
  /// Reads the header of a file in memory.
  /// @error{corrupt, the header contradicts itself or the size of the file}
  /// @error{unsupported_version, a GGUF file has another version than 2 or 3}
  /// @source{safetensors format; GGUF specification, versions 2 and 3}
  [[nodiscard]] static result<tensor_directory> from_bytes(bytes_view file);
  /// Reads the header of a stored file, and nothing else of it.
  ///
  /// Other errors are those of `hn4_stream::read`.
  /// @error{corrupt, the header contradicts itself or the size of the file}
  /// @error{unsupported_version, a GGUF file has another version than 2 or 3}
  [[nodiscard]] static result<tensor_directory> from_stream(const hn4_stream& stream);

  /// Returns the format of the file.
  [[nodiscard]] container_format format() const noexcept { return format_; }
  /// Returns all tensors.
  [[nodiscard]] std::span<const stored_tensor> tensors() const noexcept {
    return tensors_;
  }
  /// Finds a tensor by name; returns null if there is none.
  [[nodiscard]] const stored_tensor* find(std::string_view name) const noexcept;

 private:
  container_format format_ = container_format::raw;
  std::vector<stored_tensor> tensors_;
};

/// Makes a safetensors file of one tensor, for a tag of its own.
/// @param data row-major elements, as many bytes as type and shape ask for
/// @error{unsupported, the format has no such type}
/// @error{invalid_argument, the name is that of the metadata, or the bytes do not fit}
/// @threads{safe to call concurrently}
/// @source{safetensors format}
[[nodiscard]] result<byte_vector> make_safetensors(const std::string& name, dtype type,
                                                   std::span<const std::int64_t> shape,
                                                   bytes_view data);

/// A tensor that was read from a volume.
///
/// Its bytes lie in the mapped memory of the volume, or in memory of its own that is
/// aligned to 64 bytes. Copies share them.
/// @threads{const members are safe to call concurrently}
class hn4_tensor {
 public:
  /// Returns name, type, shape and place.
  [[nodiscard]] const stored_tensor& info() const noexcept { return info_; }
  /// Returns the bytes, valid as long as a copy of this object exists.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// Returns whether the bytes lie in the mapped memory of the volume.
  [[nodiscard]] bool is_view() const noexcept { return is_view_; }

 private:
  friend result<hn4_tensor> read_tensor(const hn4_stream& stream,
                                        const stored_tensor& info);
  stored_tensor info_;
  std::shared_ptr<const void> holder_;
  bytes_view bytes_;
  bool is_view_ = false;
};

/// Reads one tensor of a stream. Other errors are those of `hn4_stream::read`.
/// @error{out_of_range, the tensor leaves the stream}
/// @error{out_of_memory, the tensor does not fit into memory}
/// @threads{safe to call concurrently}
[[nodiscard]] result<hn4_tensor> read_tensor(const hn4_stream& stream,
                                             const stored_tensor& info);
/// A tensor and the stream that holds it.
struct located_tensor {
  hn4_stream stream;   ///< stream of its tag
  stored_tensor info;  ///< place in the stream
};
/// Finds a tensor by name and reads nothing of it.
/// @param tag the tag to search; empty for all tags
/// @error{not_found, there is no such tensor; the message names the nearest}
/// @error{invalid_argument, several tags have a tensor of this name}
/// @error{corrupt, a tag that may have the tensor cannot be read}
/// @threads{safe to call concurrently}
[[nodiscard]] result<located_tensor> locate_tensor(const hn4_volume& volume,
                                                   std::string_view name,
                                                   std::string_view tag = {});
/// Finds a tensor by name and reads it. Also returns the errors of `locate_tensor` and
/// `read_tensor`.
/// @param tag the tag to search; empty for all tags
/// @threads{safe to call concurrently}
[[nodiscard]] result<hn4_tensor> find_tensor(const hn4_volume& volume,
                                             std::string_view name,
                                             std::string_view tag = {});

/// Makes the header of a safetensors file, for tensors whose data follows it in the order
/// of the list. Name, type name, shape and length of each tensor are used.
/// @returns The bytes before the data, padded to a multiple of 8.
/// @error{invalid_argument, a name is that of the metadata, occurs twice or is no UTF-8,
/// or the lengths overflow}
/// @threads{safe to call concurrently}
/// @source{safetensors format}
[[nodiscard]] result<byte_vector> safetensors_header(
    std::span<const stored_tensor> tensors);

}  // namespace weir::storage
