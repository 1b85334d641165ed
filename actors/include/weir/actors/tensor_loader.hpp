// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads tensors of an HN4 volume as tasks of an engine: each task fills a part of a
/// tensor, and tasks that read the tensor wait for it as for any other task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {

/// Fills `memory` with bytes of a stream from `offset` on, and returns the number of
/// bytes read, which is less than asked for only at the end of the stream. Several
/// threads may call it at a time. `memory` is valid until it returns.
using stream_source =
    std::function<result<std::size_t>(std::uint64_t offset, mutable_bytes memory)>;

/// Options of a loader.
struct loader_options {
  /// Bytes that one task reads. Tasks begin at blocks of the volume, so that no block is
  /// read twice.
  std::uint64_t piece = std::uint64_t{4} << 20;
  bool urgent = false;  ///< workers prefer these tasks to others
  /// Function that reads the bytes. Empty: each task reads from the stream itself. With a
  /// source that asks a volume reader, tasks have the deadlines of the reader.
  stream_source source;
};

/// A tensor that tasks fill.
struct loaded_tensor {
  std::string name;  ///< in the stored file
  /// Tensor that the tasks fill.
  runtime::tensor tensor;
  std::vector<runtime::task_id> tasks;  ///< tasks that fill it
};

/// Loads tensors of one stream straight into the memory of an engine.
///
/// The bytes go from the device into the tensor. Only a block that two tensors share is
/// copied. If a read fails, its task fails: tasks that read the tensor do not run, and
/// `engine::wait` returns the cause.
/// @threads{thread-compatible: belongs to the engine's submitter; `cancel` and
/// `bytes_done` may be called from any thread}
/// @invariant outlives its tasks: the destructor waits for them
class tensor_loader {
 public:
  /// Makes a loader for one stream. The engine must outlive it.
  tensor_loader(runtime::engine& engine, storage::hn4_stream stream,
                loader_options options = {});
  /// Waits for all tasks of this loader.
  ~tensor_loader();
  tensor_loader(const tensor_loader&) = delete;
  tensor_loader& operator=(const tensor_loader&) = delete;

  /// Submits tasks that fill a tensor with the bytes of the stream from `offset` on.
  /// @param tensor  Row-major, of any type and shape; the number of its bytes is read.
  /// @returns the tasks. Also returns the errors of `runtime::engine::submit`.
  /// @error{invalid_argument, the tensor is not row-major}
  /// @error{out_of_range, the stream ends before the tensor is full}
  [[nodiscard]] result<std::vector<runtime::task_id>> load(std::uint64_t offset,
                                                           const runtime::tensor& tensor);
  /// Submits tasks that fill a tensor with a tensor of the stored file.
  /// @param tensor  Row-major, with the type and the shape of the stored tensor.
  /// @returns the tasks. Also returns the errors of the overload above.
  /// @error{invalid_argument, the type or the shape is not that of the stored tensor}
  [[nodiscard]] result<std::vector<runtime::task_id>> load(
      const storage::stored_tensor& stored, const runtime::tensor& tensor);
  /// Allocates memory for a tensor of the stored file and submits tasks that fill it.
  /// @param owner  Name under which the engine accounts for the memory.
  /// @returns the tensor. Also returns the errors of the overloads above.
  /// @error{out_of_memory, the engine has no memory for it}
  /// @error{unsupported, the stored tensor has more dimensions than `runtime::max_dims`}
  [[nodiscard]] result<loaded_tensor> load(const storage::stored_tensor& stored,
                                           std::string_view owner);
  /// Loads all tensors of the stored file, in the order in which they lie in the stream.
  /// @param owner  Name under which the engine accounts for the memory.
  /// @returns the tensors.
  ///
  /// Also returns the errors of `load` above and of
  /// `storage::tensor_directory::of_stream`.
  [[nodiscard]] result<std::vector<loaded_tensor>> load_all(std::string_view owner);

  /// Makes all tasks that have not started fail with `interrupted`.
  /// @threads{any thread}
  void cancel() noexcept;
  /// Returns the number of bytes that tasks have filled so far.
  /// @threads{any thread}
  [[nodiscard]] std::uint64_t bytes_done() const noexcept;

 private:
  struct shared;
  runtime::engine& engine_;
  loader_options options_;
  std::unique_ptr<shared> shared_;  ///< state that tasks use; at a fixed address
  std::vector<runtime::task_id> tasks_;
};

}  // namespace weir::actors
