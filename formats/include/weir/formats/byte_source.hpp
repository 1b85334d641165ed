// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where a message lies: random access to bytes, in memory, in a file, or behind an
/// adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/file.hpp"

namespace weir::formats {

/// A part of a source, in bytes.
struct byte_range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const byte_range&, const byte_range&) = default;
};

/// Bytes that can be read at any offset and do not change while they are used.
/// @threads{safe to read concurrently}
class byte_source {
 public:
  virtual ~byte_source() = default;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Fills `to` exactly. @error{torn, the range exceeds size(); io}
  [[nodiscard]] virtual result<void> read(std::uint64_t offset,
                                          mutable_bytes to) const = 0;
  /// The whole content where it lies in memory, so that nothing needs to be copied.
  [[nodiscard]] virtual std::optional<bytes_view> view() const noexcept {
    return std::nullopt;
  }
  /// Name in messages: a path, a tag, or "memory".
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;

  /// Whether a read takes a round trip over a network, so that a caller who knows what he
  /// will read should say so with prefetch().
  [[nodiscard]] virtual bool distant() const noexcept { return false; }
  /// Fetches these ranges together and keeps them for the reads that follow. A source
  /// that is not distant does nothing. @error{torn, a range exceeds size(); what read()
  /// returns}
  [[nodiscard]] virtual result<void> prefetch(
      std::span<const byte_range> /*ranges*/) const {
    return {};
  }
};

/// Whether reading failed for a reason that lies in the source and not in what it holds:
/// a disk or network, a time limit, or a call that was cancelled.
[[nodiscard]] bool source_failed(const error& e) noexcept;

/// Bytes that somebody else keeps alive, or that this object owns.
class memory_source final : public byte_source {
 public:
  explicit memory_source(bytes_view content, std::string name = "memory")
      : content_(content), name_(std::move(name)) {}
  explicit memory_source(byte_vector content, std::string name = "memory")
      : owned_(std::move(content)), content_(owned_), name_(std::move(name)) {}
  memory_source(const memory_source&) = delete;
  memory_source& operator=(const memory_source&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept override { return content_.size(); }
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  [[nodiscard]] std::optional<bytes_view> view() const noexcept override {
    return content_;
  }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  byte_vector owned_;
  bytes_view content_;
  std::string name_;
};

/// An open file. Its size is taken once.
class file_source final : public byte_source {
 public:
  /// @error{io, the size cannot be had}
  [[nodiscard]] static result<std::shared_ptr<file_source>> open(std::unique_ptr<file> f);

  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  [[nodiscard]] const std::string& name() const noexcept override {
    return file_->path();
  }

 private:
  file_source(std::unique_ptr<file> f, std::uint64_t size)
      : file_(std::move(f)), size_(size) {}
  std::unique_ptr<file> file_;
  std::uint64_t size_;
};

/// A file mapped into memory: nothing is read before it is used. The file must not become
/// shorter while it is open.
class mapped_source final : public byte_source {
 public:
  /// @error{not_found; io}
  [[nodiscard]] static result<std::shared_ptr<mapped_source>> open(
      const std::string& path);
  mapped_source(const mapped_source&) = delete;
  mapped_source& operator=(const mapped_source&) = delete;
  ~mapped_source() override;

  [[nodiscard]] std::uint64_t size() const noexcept override { return content_.size(); }
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  [[nodiscard]] std::optional<bytes_view> view() const noexcept override {
    return content_;
  }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  mapped_source(bytes_view content, std::string name)
      : content_(content), name_(std::move(name)) {}
  bytes_view content_;
  std::string name_;
};

}  // namespace weir::formats
