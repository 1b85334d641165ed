// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies, fills, host functions, and operations that only report an error.
///
/// An address has one of three owners. The address of a symmetric allocation on rank 0
/// stands for the instance of each rank. Memory of a device in the mesh belongs to the
/// device chain of this device. All other memory (of the host, or of other meshes)
/// belongs to no device chain. The owner decides which device chain carries a copy out
/// and which tokens its task must hold.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "stream/graphs/native_graph.hpp"
#include "weir/tessera/stream/device_step.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {
namespace {

/// One side of a copy: the source or the target. A side is found once, when the copy is
/// called, and does not change afterwards.
struct end_of_copy {
  std::optional<memory_place> place;  ///< set if the address table knows the address
  std::byte* address = nullptr;
  /// The device chain whose memory it is, or no device chain. Without a value, each
  /// device chain uses an instance of its own.
  std::optional<touched_memory> owner;

  [[nodiscard]] bool on_device() const noexcept {
    return place && place->device() != allocation::host_device;
  }
  [[nodiscard]] std::byte* on_rank(int rank) const noexcept {
    return place ? place->on_rank(rank) : address;
  }
  /// Returns true if each device chain uses an instance of its own.
  [[nodiscard]] bool everywhere() const noexcept { return !owner; }
  /// Returns the device chain that owns the memory, or `no_chain` if no device chain or
  /// each device chain does.
  [[nodiscard]] int chain() const noexcept {
    return owner ? owner->owner : touched_memory::no_chain;
  }
  /// Returns the device that the backend is given for this side when the device chain of
  /// rank `rank` copies.
  [[nodiscard]] std::int32_t device(const mesh& m, int rank) const noexcept {
    return on_device() && !everywhere() ? place->device()
                                        : m.devices[static_cast<std::size_t>(rank)];
  }
  /// Adds the memory to `all` unless the device chain's own token already protects it.
  void touch(unsigned chain, std::vector<touched_memory>& all) const {
    if (owner && owner->owner != static_cast<int>(chain)) {
      all.push_back(*owner);
    }
  }
};

/// Returns the error for a request that is refused. `operation` names the side of the
/// operation.
error refused_copy(std::string_view operation, std::string_view expected,
                   std::string_view found) {
  return {errc::invalid_argument,
          fmt::format("{}: expected {}, found {}", operation, expected, found)};
}

/// Looks an address up and checks that it may be one side of an operation of this stream.
/// `device` says whether memory of a device is expected. `operation` names the side in
/// messages.
/// @error{invalid_argument; null, too few bytes in the allocation, memory of another
/// mesh, or host instead of device memory and the reverse}
result<end_of_copy> find_end(const stream& target, const void* address, std::size_t bytes,
                             bool device, bool writes, std::string_view operation) {
  end_of_copy out;
  if (address == nullptr) {
    return refused_copy(operation, "an address", "null");
  }
  out.address = static_cast<std::byte*>(const_cast<void*>(address));
  // Memory of the host need not be known to the table. Memory that the table does not
  // know is taken for memory of the host.
  out.place = target.context().memory().find(address);
  if (out.place && bytes > out.place->bytes_left()) {
    return refused_copy(operation,
                        fmt::format("at most {} bytes to the end of the allocation",
                                    out.place->bytes_left()),
                        fmt::format("{}", bytes));
  }
  // Symmetric memory must have an instance for each rank of the stream.
  if (out.place && out.place->memory->symmetric() && !target.fits(*out.place)) {
    return refused_copy(operation, "memory of the stream's mesh", "another mesh's");
  }
  out.owner = target.owner_of(out.place, address, bytes, writes);
  if (device && !out.on_device()) {
    return refused_copy(operation, "memory of a device", "memory of the host");
  }
  if (!device && out.on_device()) {
    return refused_copy(operation, "memory of the host", "memory of a device");
  }
  return out;
}

/// The rows of a copy and the distances between them on both sides.
struct copy_shape {
  std::size_t bytes = 0;  ///< bytes of one row
  std::size_t rows = 1;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;

  /// Bytes from the beginning of the first row to the end of the last.
  [[nodiscard]] std::size_t span(std::size_t pitch) const noexcept {
    return (rows - 1) * pitch + bytes;
  }
};

/// A copy on each device chain or on a single one.
class copy_operation final : public chain_operation {
 public:
  /// `only` is the device chain that copies, or -1 for all device chains. `bound` is the
  /// rank of a stream that has a single rank, or -1.
  copy_operation(std::shared_ptr<mesh> mesh, int bound, copy_kind direction,
                 end_of_copy to, end_of_copy from, const copy_shape& shape, int only)
      : chain_operation(operation_kind::copy),
        mesh_(std::move(mesh)),
        bound_(bound),
        direction_(direction),
        to_(std::move(to)),
        from_(std::move(from)),
        shape_(shape) {
    only_chain = only;
    touches_more = !to_.everywhere() || !from_.everywhere();
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    switch (direction_) {
      case copy_kind::host_to_device: return "copy host to device";
      // An operation's name is shown by profiles and in errors.
      case copy_kind::device_to_host: return "copy device to host";
      case copy_kind::device_to_device: return "copy device to device";
      case copy_kind::host_to_host: break;
    }
    return "copy host to host";
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept override {
    return std::uint64_t{shape_.bytes} * shape_.rows;
  }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<copy_operation>(mesh_, bound_, direction_, to_, from_, shape_,
                                    only_chain);
  }
  // The tokens of the device chains themselves are held anyway.
  void touched(unsigned chain, std::vector<touched_memory>& all) const override {
    to_.touch(chain, all);
    from_.touch(chain, all);
  }
  // Memory of the host is copied through buffers, or may be unpinned between two runs. A
  // copy of very many rows would be as many nodes.
  [[nodiscard]] bool add_native_work(native_pieces& to) const override {
    constexpr std::size_t max_rows = 256;
    return direction_ == copy_kind::device_to_device && shape_.rows <= max_rows &&
           for_each_row(0, [&](const copy_work& row) -> result<void> {
             to.work.emplace_back(row);
             return {};
           }).has_value();
  }
  // A copy within the host needs no device.
  void step(device_chains& chains, unsigned chain,
            std::uint32_t index) noexcept override {
    if (mesh_->context->backend().inline_work() ||
        direction_ == copy_kind::host_to_host) {
      // The calling worker does the work.
      chain_operation::step(chains, chain, index);
      return;
    }
    // The task ends when the device has copied all rows.
    run_later(chains, chain, [&](device_step& to) {
      return for_each_row(chain, [&](const copy_work& row) -> result<void> {
        to.give(mesh_->context->backend(), row);
        return {};
      });
    });
  }

 protected:
  result<void> run(unsigned chain) override {
    device_backend& backend = mesh_->context->backend();
    return for_each_row(chain, [&](const copy_work& row) -> result<void> {
      if (backend.inline_work()) {
        return backend.copy(row);
      }
      std::memcpy(row.to, row.from, row.bytes);
      return {};
    });
  }

 private:
  /// Calls `copy` for each row of a device chain, until the first error. Bound streams
  /// have one device chain, whose rank is that of the stream.
  template <class Copy>
  result<void> for_each_row(unsigned chain, Copy&& copy) const {
    const int rank = bound_ >= 0 ? bound_ : static_cast<int>(chain);
    copy_work work{direction_,   to_.on_rank(rank),        from_.on_rank(rank),
                   shape_.bytes, to_.device(*mesh_, rank), from_.device(*mesh_, rank)};
    // Copies of an instance onto itself have nothing to do. `check_copies_apart` lets
    // them pass.
    if (work.to == work.from) {
      return {};
    }
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      WEIR_CHECK(copy(work));
      work.to += shape_.to_pitch;
      work.from += shape_.from_pitch;
    }
    return {};
  }

  std::shared_ptr<mesh> mesh_;
  int bound_;
  copy_kind direction_;
  end_of_copy to_;
  end_of_copy from_;
  copy_shape shape_;
};

/// A fill on each device chain, or on the device chain that owns the target.
class fill_operation final : public chain_operation {
 public:
  fill_operation(std::shared_ptr<mesh> mesh, int bound, end_of_copy to,
                 const fill_request& request)
      : chain_operation(operation_kind::fill),
        mesh_(std::move(mesh)),
        bound_(bound),
        to_(std::move(to)),
        request_(request) {
    touches_more = !to_.everywhere();
    // A target that belongs to no device chain is filled by device chain 0.
    only_chain = to_.everywhere() ? -1 : std::max(to_.chain(), 0);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "fill"; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return request_.bytes; }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<fill_operation>(mesh_, bound_, to_, request_);
  }
  void touched(unsigned chain, std::vector<touched_memory>& all) const override {
    to_.touch(chain, all);
  }
  [[nodiscard]] bool add_native_work(native_pieces& to) const override {
    to.work.emplace_back(work_of(0));
    return true;
  }
  void step(device_chains& chains, unsigned chain,
            std::uint32_t index) noexcept override {
    if (mesh_->context->backend().inline_work()) {
      chain_operation::step(chains, chain, index);
      return;
    }
    run_later(chains, chain, [&](device_step& to) -> result<void> {
      to.give(mesh_->context->backend(), work_of(chain));
      return {};
    });
  }

 protected:
  result<void> run(unsigned chain) override {
    return mesh_->context->backend().fill(work_of(chain));
  }

 private:
  [[nodiscard]] fill_work work_of(unsigned chain) const noexcept {
    const int rank = bound_ >= 0 ? bound_ : static_cast<int>(chain);
    return {to_.on_rank(rank), request_.bytes, to_.device(*mesh_, rank),
            request_.pattern_bytes, request_.pattern};
  }

  std::shared_ptr<mesh> mesh_;
  int bound_;
  end_of_copy to_;
  fill_request request_;
};

/// A call of a function of the program, when all device chains have reached it. It is not
/// called if a device chain has a failure. An exception from it becomes a failure of
/// device chain 0. It runs on a worker, so it must not wait for streams.
class host_function final : public joining_operation {
 public:
  explicit host_function(std::function<void()> call)
      : joining_operation(operation_kind::host_function), call_(std::move(call)) {}
  [[nodiscard]] std::string_view name() const noexcept override {
    return "host function";
  }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<host_function>(call_);
  }

 protected:
  void run(device_chains& chains) override {
    // A failure of the stream keeps the function from being called.
    if (chains.first_failure()) {
      return;
    }
    auto outcome = guarded([&]() -> result<void> {
      call_();
      return {};
    });
    if (!outcome) {
      fail(chains.chain_of(0), std::move(outcome).error());
    }
  }

 private:
  std::function<void()> call_;
};

/// An operation that fails when the stream reaches it. Errors that a later
/// synchronization should return, in the order of the stream, are enqueued as such
/// operations.
class failing final : public chain_operation {
 public:
  explicit failing(error why)
      : chain_operation(operation_kind::other), why_(std::move(why)) {}
  [[nodiscard]] ref<operation> clone() const override { return make_ref<failing>(why_); }

 protected:
  result<void> run(unsigned) override { return why_; }

 private:
  error why_;
};

/// Returns the device chain of a mesh stream that carries the copy out, or -1 if each
/// device chain copies its own instance.
int chain_that_copies(const copy_request& request, const end_of_copy& to,
                      const end_of_copy& from) noexcept {
  // A request may name the rank.
  if (request.rank >= 0) {
    return request.rank;
  }
  if (to.everywhere()) {
    return -1;
  }
  // The device chain that owns the target copies; if none does, the device chain that
  // owns the source. A symmetric source means its instance 0, unless the target names a
  // rank.
  return std::max(to.chain() >= 0 ? to.chain() : from.chain(), 0);
}

/// Returns the bytes that one side of a copy covers, as offsets from `base`.
result<runtime::footprint> bytes_of(const copy_shape& shape, std::size_t pitch,
                                    const std::byte* address, const std::byte* base) {
  const std::array<std::int64_t, 2> counts = {static_cast<std::int64_t>(shape.rows),
                                              static_cast<std::int64_t>(shape.bytes)};
  // The second dimension is a single byte, so rows of any length have one form.
  const std::array<std::int64_t, 2> strides = {static_cast<std::int64_t>(pitch), 1};
  return runtime::footprint::of_view({1, 1}, address - base, counts, strides, 1);
}

/// Checks for each rank that the copy writes no bytes that it reads. A quick test of the
/// enclosing ranges comes first. Only if they overlap are the rows compared exactly,
/// because interleaved rows of one matrix need not overlap.
/// @error{invalid_argument; a rank would read bytes that it writes}
result<void> check_copies_apart(const stream& target, const copy_shape& shape,
                                const end_of_copy& to, const end_of_copy& from,
                                int only) {
  // All ranks that copy, or one of them.
  const int first = only >= 0 ? only : target.rank_of(0);
  const int end = only >= 0 ? only + 1 : first + static_cast<int>(target.chain_count());
  for (int rank = first; rank < end; ++rank) {
    const std::byte* const a = to.on_rank(rank);
    const std::byte* const b = from.on_rank(rank);
    const bool same = a == b && (shape.rows == 1 || shape.to_pitch == shape.from_pitch);
    // The quick test: the ranges lie apart, or both sides are the same.
    if (same || a >= b + shape.span(shape.from_pitch) ||
        b >= a + shape.span(shape.to_pitch)) {
      continue;
    }
    const std::byte* const base = std::min(a, b);
    WEIR_TRY(const runtime::footprint written, bytes_of(shape, shape.to_pitch, a, base));
    WEIR_TRY(const runtime::footprint read, bytes_of(shape, shape.from_pitch, b, base));
    if (runtime::decide_overlap(written, read) != runtime::overlap::no) {
      return refused_copy("copy within an allocation", "ranges that do not overlap",
                          fmt::format("{} rows of {} bytes at a distance of {}",
                                      shape.rows, shape.bytes, a - b));
    }
  }
  return {};
}

/// Returns the rows of a request. The span of all rows fits into a signed 64-bit integer.
/// @error{invalid_argument; rows that overlap, or more bytes than can be addressed}
result<copy_shape> shape_of(const copy_request& request) {
  if (request.rows == 1) {
    return copy_shape{request.bytes, 1, 0, 0};
  }
  // Both sides have rows of the same length.
  for (const std::size_t pitch : {request.to_pitch, request.from_pitch}) {
    if (pitch < request.bytes) {
      return refused_copy(
          "copy of rows",
          fmt::format("rows of {} bytes to begin at least as far apart", request.bytes),
          fmt::format("{}", pitch));
    }
    constexpr std::size_t max_bytes = std::numeric_limits<std::int64_t>::max();
    // The limit of a signed number, since footprints use those.
    if (request.bytes > max_bytes ||
        pitch > (max_bytes - request.bytes) / (request.rows - 1)) {
      return refused_copy(
          "copy of rows", "rows that fit into memory",
          fmt::format("{} at a distance of {} bytes", request.rows, pitch));
    }
  }
  return copy_shape{request.bytes, request.rows, request.to_pitch, request.from_pitch};
}

/// Return true if the target, or the source, must be memory of a device.
bool has_device_target(copy_kind kind) noexcept {
  return kind == copy_kind::host_to_device || kind == copy_kind::device_to_device;
}
bool has_device_source(copy_kind kind) noexcept {
  return kind == copy_kind::device_to_host || kind == copy_kind::device_to_device;
}

}  // namespace

// Checks a copy and makes its operation. Returns null for a copy of no bytes or onto
// itself. All addresses are resolved here, so later changes of the allocations do not
// matter.
result<ref<operation>> make_copy(stream& target, const copy_request& request) {
  if (request.bytes == 0 || request.rows == 0) {
    return ref<operation>();
  }
  // The rank is checked before the addresses.
  if (request.rank < -1 || request.rank >= static_cast<int>(target.mesh()->ranks())) {
    return refused_copy("copy to a rank",
                        fmt::format("one in [0, {})", target.mesh()->ranks()),
                        fmt::format("{}", request.rank));
  }
  if (request.rank >= 0 && target.options().rank >= 0 &&
      request.rank != target.options().rank) {
    return refused_copy("copy to a rank",
                        fmt::format("{}, whose stream this is", target.options().rank),
                        fmt::format("{}", request.rank));
  }
  WEIR_TRY(const copy_shape shape, shape_of(request));
  WEIR_TRY(end_of_copy to,
           find_end(target, request.to, shape.span(shape.to_pitch),
                    has_device_target(request.kind), true, "copy to its target"));
  WEIR_TRY(end_of_copy from,
           find_end(target, request.from, shape.span(shape.from_pitch),
                    has_device_source(request.kind), false, "copy from its source"));
  // Source and target are equal on every rank.
  if (to.address == from.address &&
      (shape.rows == 1 || shape.to_pitch == shape.from_pitch)) {
    return ref<operation>();
  }
  const bool bound = target.options().rank >= 0;
  // A stream of one rank has a single device chain, which carries out everything.
  const int only = bound ? -1 : chain_that_copies(request, to, from);
  WEIR_CHECK(check_copies_apart(target, shape, to, from, only));
  return ref<operation>(make_ref<copy_operation>(target.mesh(), target.options().rank,
                                                 request.kind, std::move(to),
                                                 std::move(from), shape, only));
}

// Checks a fill and makes its operation. Returns null for a fill of no bytes.
result<ref<operation>> make_fill(stream& target, const fill_request& request) {
  if (request.bytes == 0) {
    return ref<operation>();
  }
  // The pattern must fit a whole number of times.
  if (request.pattern_bytes == 0 || request.bytes % request.pattern_bytes != 0) {
    return refused_copy(
        "fill", "a multiple of the pattern's size",
        fmt::format("{} bytes of patterns of {}", request.bytes, request.pattern_bytes));
  }
  WEIR_TRY(end_of_copy to,
           find_end(target, request.to, request.bytes, true, true, "fill"));
  return ref<operation>(make_ref<fill_operation>(target.mesh(), target.options().rank,
                                                 std::move(to), request));
}

/// The function is called once per run, also for several devices.
ref<operation> make_host_function(std::function<void()> function) {
  return make_ref<host_function>(std::move(function));
}

/// The error is found by the next synchronization.
ref<operation> make_failing(error why) {
  return make_ref<failing>(std::move(why));
}

}  // namespace weir::tessera
