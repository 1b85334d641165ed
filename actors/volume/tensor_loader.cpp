// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads of tensors as tasks.
#include "weir/actors/tensor_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace weir::actors {

struct tensor_loader::shared {
  storage::hn4_stream stream;
  stream_source source;
  std::atomic<bool> cancelled{false};
  std::atomic<std::uint64_t> done{0};

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

// Where a task that begins at `at` ends: at a block of its shard, about a piece further.
std::uint64_t piece_end(const storage::hn4_stream& stream, std::uint64_t at,
                        std::uint64_t piece, std::uint64_t end) {
  const auto shards = stream.shards();
  const auto after = std::upper_bound(
      shards.begin(), shards.end(), at,
      [](std::uint64_t x, const storage::hn4_shard& s) { return x < s.offset; });
  const storage::hn4_shard& shard = *(after - 1);
  const std::uint64_t payload = stream.payload();
  const std::uint64_t local = at - shard.offset;
  const std::uint64_t whole = std::max(piece, payload);
  const std::uint64_t cut = (local + whole) / payload * payload;
  return std::min({end, shard.offset + std::min(cut, shard.bytes)});
}

}  // namespace

tensor_loader::tensor_loader(runtime::engine& engine, storage::hn4_stream stream,
                             loader_options options)
    : engine_(engine),
      options_(std::move(options)),
      shared_(new shared{std::move(stream), options_.source}) {}

tensor_loader::~tensor_loader() {
  for (const runtime::task_id id : tasks_) {
    // Whoever wanted to know how it ended has asked the engine.
    static_cast<void>(engine_.wait(id));
  }
}

void tensor_loader::cancel() noexcept {
  shared_->cancelled.store(true);
}

std::uint64_t tensor_loader::bytes_done() const noexcept {
  return shared_->done.load();
}

result<std::vector<runtime::task_id>> tensor_loader::load(std::uint64_t offset,
                                                          const runtime::tensor& to) {
  const storage::hn4_stream& stream = shared_->stream;
  if (!to.row_major()) {
    return error(errc::invalid_argument,
                 fmt::format("loading from tag \"{}\" failed: expected a row-major "
                             "tensor, found a view with other strides",
                             stream.tag()));
  }
  WEIR_TRY(const std::int64_t bytes, byte_size(to.type(), to.count()));
  const auto size = static_cast<std::uint64_t>(bytes);
  if (offset > stream.size() || size > stream.size() - offset) {
    return error(errc::out_of_range,
                 fmt::format("loading from tag \"{}\" failed: expected {} bytes at {} "
                             "inside {}",
                             stream.tag(), size, offset, stream.size()));
  }
  std::vector<runtime::task_id> ids;
  for (std::uint64_t at = offset; at < offset + size;) {
    const std::uint64_t end = piece_end(stream, at, options_.piece, offset + size);
    const std::int64_t shape[] = {static_cast<std::int64_t>(end - at)};
    WEIR_TRY(const auto part,
             runtime::tensor::over(to.store(), dtype::uint8, shape,
                                   to.offset() + static_cast<std::int64_t>(at - offset)));
    const runtime::access filled[] = {runtime::writes(part)};
    const auto kernel = [from = shared_.get(), at, memory = part.data(),
                         count = end - at](const runtime::task_context&) {
      return from->fill(at, {memory, static_cast<std::size_t>(count)});
    };
    runtime::submit_options how;
    how.urgent = options_.urgent;
    WEIR_TRY(const runtime::task_id id, engine_.submit("load", filled, kernel, how));
    tasks_.push_back(id);
    ids.push_back(id);
    at = end;
  }
  return ids;
}

result<std::vector<runtime::task_id>> tensor_loader::load(
    const storage::stored_tensor& what, const runtime::tensor& to) {
  const auto shape = to.shape();
  if (to.type() != what.type ||
      !std::equal(shape.begin(), shape.end(), what.shape.begin(), what.shape.end())) {
    return error(
        errc::invalid_argument,
        fmt::format("loading tensor \"{}\" failed: expected {} [{}], found {} "
                    "[{}] to load it into",
                    what.name, info_of(what.type).tensogram, fmt::join(what.shape, ", "),
                    info_of(to.type()).tensogram, fmt::join(shape, ", ")));
  }
  return load(what.offset, to);
}

result<loaded_tensor> tensor_loader::load(const storage::stored_tensor& what,
                                          std::string_view owner) {
  if (what.shape.size() > runtime::max_dims) {
    return error(errc::unsupported,
                 fmt::format("loading tensor \"{}\" failed: expected at most {} "
                             "dimensions, found {}",
                             what.name, runtime::max_dims, what.shape.size()));
  }
  if (what.offset > shared_->stream.size() ||
      what.bytes > shared_->stream.size() - what.offset) {
    return error(errc::out_of_range,
                 fmt::format("loading tensor \"{}\" failed: expected it inside {} bytes, "
                             "found {} bytes at {}",
                             what.name, shared_->stream.size(), what.bytes, what.offset));
  }
  WEIR_TRY(const auto memory,
           engine_.allocate(static_cast<std::int64_t>(what.bytes), owner));
  loaded_tensor out;
  out.name = what.name;
  WEIR_TRY(out.tensor, runtime::tensor::over(memory, what.type,
                                             {what.shape.data(), what.shape.size()}));
  WEIR_TRY(out.tasks, load(what, out.tensor));
  return out;
}

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
