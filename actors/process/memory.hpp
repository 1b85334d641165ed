// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a run shares with the child process of a stage, and the records in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "process/wire.hpp"
#include "weir/base/error.hpp"
#include "weir/pipeline/host/shared_layout.hpp"
#include "weir/pipeline/item.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::actors {

/// A mapping of shared memory.
/// @threads{thread-compatible}
class shared_memory {
 public:
  /// Makes memory of a size that cannot change. @error{no_space, out_of_memory, io}
  [[nodiscard]] static result<shared_memory> create(const std::string& stage,
                                                    std::uint64_t bytes);
  /// Maps memory that another process has made. @error{io, its size differs}
  [[nodiscard]] static result<shared_memory> map(int fd, std::uint64_t bytes);
  shared_memory(shared_memory&& other) noexcept;
  shared_memory& operator=(shared_memory&& other) noexcept;
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;
  ~shared_memory();

  /// Returns the descriptor.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// Returns the address of an offset.
  /// The offset must be checked before; this function cannot tell a wrong one.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept {
    return base_ + offset;
  }
  /// Copies a record, so that the other process cannot change it any more.
  template <class T>
  [[nodiscard]] T read(std::uint64_t begin, std::uint64_t nth) const noexcept {
    T one;
    std::memcpy(&one, base_ + begin + nth * sizeof(T), sizeof(T));
    return one;
  }
  /// Stores a record.
  template <class T>
  void write(std::uint64_t begin, std::uint64_t nth, const T& one) const noexcept {
    std::memcpy(base_ + begin + nth * sizeof(T), &one, sizeof(T));
  }

 private:
  shared_memory(int fd, std::byte* base, std::uint64_t bytes)
      : fd_(fd), base_(base), bytes_(bytes) {}
  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Hands out parts of a region one behind another.
/// @threads{thread-compatible}
class region {
 public:
  /// Begins with an empty region. @units{begin, bytes: bytes}
  region(std::uint64_t begin, std::uint64_t bytes) : at_(begin), end_(begin + bytes) {}
  /// Returns the offset of a part, or nothing without space for it.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes) noexcept;
  /// Returns the bytes that are left. @units{bytes}
  [[nodiscard]] std::uint64_t left() const noexcept { return end_ - at_; }

 private:
  /// Position of the next part; a multiple of the alignment only after rounding up.
  std::uint64_t at_;
  std::uint64_t end_;
};

/// Stores attributes in a place of `wire::attribute_bytes` and returns the bytes.
[[nodiscard]] std::uint32_t put_attributes(std::byte* to, const attributes& all);
/// Reads attributes. @error{corrupt, the bytes are no attributes}
[[nodiscard]] result<attributes> get_attributes(const std::byte* from,
                                                std::uint32_t bytes);

/// Returns the record of a row-major tensor whose bytes lie at an offset.
[[nodiscard]] wire::tensor_record record_of(const runtime::tensor& t,
                                            std::uint64_t offset);
/// Copies a row-major tensor into a region and returns its record, or nothing without
/// space for it.
[[nodiscard]] std::optional<wire::tensor_record> put_tensor(const shared_memory& memory,
                                                            region& space,
                                                            const runtime::tensor& t);
/// A tensor in shared memory whose record was checked.
struct shared_tensor {
  dtype type{};                         ///< type of its elements
  std::span<const std::int64_t> shape;  ///< extents of the record
  const std::byte* data = nullptr;      ///< its bytes
  std::size_t bytes = 0;                ///< their number
};
/// Checks the record of a tensor that is there.
/// @param one  Must outlive the result. @param begin, bytes  Region of the tensor.
/// @error{corrupt, a field has no possible value}
[[nodiscard]] result<shared_tensor> check_tensor(const shared_memory& memory,
                                                 const wire::tensor_record& one,
                                                 std::uint64_t begin,
                                                 std::uint64_t bytes);

static_assert(sizeof(wire::call_record) == flow::shared_layout::call_bytes);
static_assert(sizeof(wire::tensor_record) == flow::shared_layout::tensor_bytes);
static_assert(sizeof(wire::made_record) == flow::shared_layout::made_bytes);
static_assert(wire::attribute_bytes == flow::shared_layout::attribute_bytes);
static_assert(wire::max_calls == flow::shared_layout::max_calls);

}  // namespace weir::actors
