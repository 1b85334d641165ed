// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors of a volume as tasks of an engine: each task fills a part of a tensor, and
/// what reads the tensor waits for it like for any other task.
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

/// Fills memory from an offset of a stream; any number of threads may call it at a time.
/// The memory is valid until it returns. @return the bytes, all that fit
using stream_source =
    std::function<result<std::size_t>(std::uint64_t offset, mutable_bytes to)>;

struct loader_options {
  /// Bytes of one task; tasks begin at blocks of the volume, so that nothing is read
  /// twice.
  std::uint64_t piece = std::uint64_t{4} << 20;
  bool urgent = false;  ///< before other tasks
  /// Who reads; empty: the task itself, from the stream. A source that asks a volume
  /// reader gives these tasks its deadlines.
  stream_source source;
};

/// A tensor that tasks fill.
struct loaded_tensor {
  std::string name;
  runtime::tensor tensor;
  std::vector<runtime::task_id> tasks;
};

/// Loads tensors of one stream straight into the memory of an engine.
///
/// The bytes go from the device to the tensor; only blocks that it shares with others are
/// copied. A read that fails fails its task, so readers of the tensor do not run and
/// `engine::wait` tells the cause.
/// @threads{those of the engine: one submitter; `cancel` and `bytes_done` from any}
/// @invariant lives longer than its tasks: the destructor waits for them
class tensor_loader {
 public:
  tensor_loader(runtime::engine& engine, storage::hn4_stream stream,
                loader_options options = {});
  ~tensor_loader();
  tensor_loader(const tensor_loader&) = delete;
  tensor_loader& operator=(const tensor_loader&) = delete;

  /// Submits tasks that fill a row-major tensor with as many bytes of the stream from
  /// `offset` on. @error{invalid_argument, it is not row-major; out_of_range, the stream
  /// is shorter; as engine::submit}
  [[nodiscard]] result<std::vector<runtime::task_id>> load(std::uint64_t offset,
                                                           const runtime::tensor& to);
  /// The same for a tensor of a stored file. @error{and invalid_argument, another type or
  /// shape than the stored one}
  [[nodiscard]] result<std::vector<runtime::task_id>> load(
      const storage::stored_tensor& what, const runtime::tensor& to);
  /// Allocates memory for it first. @error{and out_of_memory; unsupported, more
  /// dimensions than a tensor has}
  [[nodiscard]] result<loaded_tensor> load(const storage::stored_tensor& what,
                                           std::string_view owner);
  /// All tensors of the stored file, in the order in which they lie in the stream.
  [[nodiscard]] result<std::vector<loaded_tensor>> load_all(std::string_view owner);

  /// Tasks that have not started fail with `interrupted`.
  void cancel() noexcept;
  /// Bytes that tasks have filled so far.
  [[nodiscard]] std::uint64_t bytes_done() const noexcept;

 private:
  struct shared;
  runtime::engine& engine_;
  loader_options options_;
  std::unique_ptr<shared> shared_;
  std::vector<runtime::task_id> tasks_;
};

}  // namespace weir::actors
