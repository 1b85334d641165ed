// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loading of tensors by tasks: each reads a part of a tensor from a stream.
///
/// A tensor is cut into pieces, and each piece is a task that writes its own bytes of the
/// storage. The task engine therefore lets a consumer of some rows begin when their
/// pieces are there. The tasks use `shared`, whose owner is the loader; its destructor
/// waits for them.
#include "weir/actors/tensor_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace weir::actors {

/// The part of a loader that its tasks use.
// @threads{`fill`: workers of the engine; the rest any thread}
struct tensor_loader::shared {
  /// Where the bytes come from if `source` is empty.
  storage::hn4_stream stream;
  /// Reads through a volume reader, for example, instead of from the stream.
  stream_source source;
  /// Tasks that have not begun fail from then on.
  std::atomic<bool> cancelled{false};
  std::atomic<std::uint64_t> done{0};  ///< bytes that were read

  /// Reads bytes of the stream; fails if there are fewer.
  /// A cancelled load is an error of each task, so consumers of the tensor fail too.
  result<void> fill(std::uint64_t offset, mutable_bytes to) {
    if (cancelled.load(std::memory_order_relaxed)) {
      return error(errc::interrupted,
                   fmt::format("loading {} bytes of tag \"{}\" at {} was cancelled",
                               to.size(), stream.tag(), offset));
    }
    WEIR_TRY(const std::size_t count,
             source ? source(offset, to) : stream.read(offset, to));
    if (count != to.size()) {
      return error(errc::torn, fmt::format("loading tag \"{}\" failed: expected {} bytes "
                                           "at {}, found {}",
                                           stream.tag(), to.size(), offset, count));
    }
    done.fetch_add(count, std::memory_order_relaxed);
    return {};
  }
};

namespace {

/// Returns the end of the part that begins at `begin`. It is a boundary of blocks, about
/// a piece behind `begin`, in the same shard: a part that ended inside a block would have
/// the block read and verified twice.
// @pre `begin` lies inside a shard of the stream.
std::uint64_t piece_end(const storage::hn4_stream& stream, std::uint64_t begin,
                        std::uint64_t piece, std::uint64_t end) {
  const auto shards = stream.shards();
  const auto after = std::upper_bound(
      shards.begin(), shards.end(), begin,
      [](std::uint64_t x, const storage::hn4_shard& s) { return x < s.offset; });
  const storage::hn4_shard& shard = *(after - 1);
  const std::uint64_t payload = stream.payload();
  const std::uint64_t local = begin - shard.offset;
  // A piece is one block at least.
  const std::uint64_t whole = std::max(piece, payload);
  const std::uint64_t cut = (local + whole) / payload * payload;
  return std::min({end, shard.offset + std::min(cut, shard.bytes)});
}

}  // namespace

/// `engine` must outlive the loader.
tensor_loader::tensor_loader(runtime::engine& engine, storage::hn4_stream stream,
                             loader_options options)
    : engine_(engine),
      options_(std::move(options)),
      shared_(new shared{std::move(stream), options_.source}) {}

tensor_loader::~tensor_loader() {
  for (const runtime::task_id id : tasks_) {
    // Clients that want to know the result of a task ask the engine.
    static_cast<void>(engine_.wait(id));
  }
}

/// Tasks that are reading go on to their end.
void tensor_loader::cancel() noexcept {
  shared_->cancelled.store(true);
}

std::uint64_t tensor_loader::bytes_done() const noexcept {
  return shared_->done.load();
}

/// Submits tasks that fill a tensor, one per piece. Each writes its own part of the
/// storage, so a task that reads a part of the tensor waits only for the pieces that it
/// needs. The tensor must be row-major, because then a range of bytes in the tag is one
/// range of bytes in memory.
result<std::vector<runtime::task_id>> tensor_loader::load(std::uint64_t offset,
                                                          const runtime::tensor& tensor) {
  const storage::hn4_stream& stream = shared_->stream;
  if (!tensor.row_major()) {
    return error(errc::invalid_argument,
                 fmt::format("loading from tag \"{}\" failed: expected a row-major "
                             "tensor, found a view with other strides",
                             stream.tag()));
  }
  WEIR_TRY(const std::int64_t bytes, byte_size(tensor.type(), tensor.count()));
  const auto size = static_cast<std::uint64_t>(bytes);
  if (offset > stream.size() || size > stream.size() - offset) {
    return error(errc::out_of_range,
                 fmt::format("loading from tag \"{}\" failed: expected {} bytes at {} "
                             "inside {}",
                             stream.tag(), size, offset, stream.size()));
  }
  std::vector<runtime::task_id> ids;
  // Each round submits a task for the bytes up to `end`.
  for (std::uint64_t begin = offset; begin < offset + size;) {
    const std::uint64_t end = piece_end(stream, begin, options_.piece, offset + size);
    const std::int64_t shape[] = {static_cast<std::int64_t>(end - begin)};
    WEIR_TRY(const auto part,
             runtime::tensor::over(
                 tensor.store(), dtype::uint8, shape,
                 tensor.offset() + static_cast<std::int64_t>(begin - offset)));
    const runtime::access filled[] = {runtime::writes(part)};
    // The kernel has a plain pointer: `shared_` lives until the destructor has waited.
    const auto kernel = [source = shared_.get(), begin, memory = part.data(),
                         count = end - begin](const runtime::task_context&) {
      return source->fill(begin, {memory, static_cast<std::size_t>(count)});
    };
    runtime::submit_options options;
    options.urgent = options_.urgent;
    WEIR_TRY(const runtime::task_id id, engine_.submit("load", filled, kernel, options));
    tasks_.push_back(id);
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

/// Loads a stored tensor into one of the same type and shape.
result<std::vector<runtime::task_id>> tensor_loader::load(
    const storage::stored_tensor& stored, const runtime::tensor& tensor) {
  const auto shape = tensor.shape();
  if (tensor.type() != stored.type ||
      !std::equal(shape.begin(), shape.end(), stored.shape.begin(), stored.shape.end())) {
    return error(errc::invalid_argument,
                 fmt::format("loading tensor \"{}\" failed: expected {} [{}], found {} "
                             "[{}] to load it into",
                             stored.name, info_of(stored.type).tensogram,
                             fmt::join(stored.shape, ", "),
                             info_of(tensor.type()).tensogram, fmt::join(shape, ", ")));
  }
  return load(stored.offset, tensor);
}

/// Loads a stored tensor into new memory. What the directory of the tag says is checked
/// before memory is allocated.
result<loaded_tensor> tensor_loader::load(const storage::stored_tensor& stored,
                                          std::string_view owner) {
  if (stored.shape.size() > runtime::max_dims) {
    return error(errc::unsupported,
                 fmt::format("loading tensor \"{}\" failed: expected at most {} "
                             "dimensions, found {}",
                             stored.name, runtime::max_dims, stored.shape.size()));
  }
  if (stored.offset > shared_->stream.size() ||
      stored.bytes > shared_->stream.size() - stored.offset) {
    return error(
        errc::out_of_range,
        fmt::format("loading tensor \"{}\" failed: expected it inside {} bytes, "
                    "found {} bytes at {}",
                    stored.name, shared_->stream.size(), stored.bytes, stored.offset));
  }
  // The size was checked against the stream, so it cannot be made up.
  WEIR_TRY(const auto memory,
           engine_.allocate(static_cast<std::int64_t>(stored.bytes), owner));
  loaded_tensor out;
  out.name = stored.name;
  WEIR_TRY(out.tensor, runtime::tensor::over(memory, stored.type,
                                             {stored.shape.data(), stored.shape.size()}));
  WEIR_TRY(out.tasks, load(stored, out.tensor));
  return out;
}

/// Loads all tensors of the tag, in the order of their offsets, so that the device is
/// read forward.
result<std::vector<loaded_tensor>> tensor_loader::load_all(std::string_view owner) {
  WEIR_TRY(const auto directory, storage::tensor_directory::from_stream(shared_->stream));
  std::vector<storage::stored_tensor> order(directory.tensors().begin(),
                                            directory.tensors().end());
  std::sort(order.begin(), order.end(),
            [](const auto& x, const auto& y) { return x.offset < y.offset; });
  std::vector<loaded_tensor> out;
  for (const storage::stored_tensor& each : order) {
    WEIR_TRY(auto loaded, load(each, owner));
    out.push_back(std::move(loaded));
  }
  return out;
}

}  // namespace weir::actors
