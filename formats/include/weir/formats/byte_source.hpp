// SPDX-License-Identifier: Apache-2.0
/// @file
/// Byte sources: random access to bytes in memory, in a file, or behind an adapter.
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
  std::uint64_t offset = 0;  ///< first byte
  std::uint64_t length = 0;  ///< number of bytes
  friend bool operator==(const byte_range&, const byte_range&) = default;
};

/// Bytes that can be read at any offset and do not change while they are used.
/// @threads{safe to read concurrently}
class byte_source {
 public:
  virtual ~byte_source() = default;
  /// Returns the number of bytes.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Reads `to.size()` bytes from `offset` on. @units{offset: bytes}
  /// @error{torn; the range exceeds size()} @error{io; the bytes cannot be read}
  [[nodiscard]] virtual result<void> read(std::uint64_t offset,
                                          mutable_bytes to) const = 0;
  /// Returns the whole content if it is in memory, so that nothing needs to be copied.
  [[nodiscard]] virtual std::optional<bytes_view> view() const noexcept {
    return std::nullopt;
  }
  /// Returns the name for messages: a path, a tag, or "memory".
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;

  /// Returns true if a read takes a round trip over a network. A caller that knows which
  /// ranges it will read should then call prefetch().
  [[nodiscard]] virtual bool distant() const noexcept { return false; }
  /// Fetches these ranges together and keeps them for the reads that follow. A source
  /// that is not distant does nothing. @error{torn; a range exceeds size()}
  /// @error{io; the bytes cannot be read}
  [[nodiscard]] virtual result<void> prefetch(
      std::span<const byte_range> /*ranges*/) const {
    return {};
  }
};

/// Returns true if an error comes from the source and not from its content: from a disk
/// or a network, a time limit, or a call that was cancelled.
[[nodiscard]] bool source_failed(const error& e) noexcept;

/// Bytes in memory, owned by the caller or by this object.
class memory_byte_source final : public byte_source {
 public:
  /// Makes a source of bytes of the caller, which outlive it.
  explicit memory_byte_source(bytes_view content, std::string name = "memory")
      : content_(content), name_(std::move(name)) {}
  /// Makes a source that owns its bytes.
  explicit memory_byte_source(byte_vector content, std::string name = "memory")
      : owned_(std::move(content)), content_(owned_), name_(std::move(name)) {}
  memory_byte_source(const memory_byte_source&) = delete;
  memory_byte_source& operator=(const memory_byte_source&) = delete;

  /// Returns the number of bytes.
  [[nodiscard]] std::uint64_t size() const noexcept override { return content_.size(); }
  /// Reads `to.size()` bytes from `offset` on.
  /// @error{torn; the range exceeds size()}
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  /// Returns the whole content.
  [[nodiscard]] std::optional<bytes_view> view() const noexcept override {
    return content_;
  }
  /// Returns the name for messages.
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  byte_vector owned_;
  bytes_view content_;
  std::string name_;
};

/// An open file. Its size is read once.
class file_source final : public byte_source {
 public:
  /// Makes a source of an open file. @error{io; the size cannot be read}
  [[nodiscard]] static result<std::shared_ptr<file_source>> open(std::unique_ptr<file> f);

  /// Returns the number of bytes.
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Reads `to.size()` bytes from `offset` on.
  /// @error{torn; the range exceeds size()} @error{io; the file cannot be read}
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  /// Returns the path.
  [[nodiscard]] const std::string& name() const noexcept override {
    return file_->path();
  }

 private:
  file_source(std::unique_ptr<file> f, std::uint64_t size)
      : file_(std::move(f)), size_(size) {}
  std::unique_ptr<file> file_;
  std::uint64_t size_;
};

/// A file that is mapped into memory: bytes are read when they are used. The file must
/// not become shorter while it is open.
class mapped_source final : public byte_source {
 public:
  /// Maps a file. @error{not_found; there is no such file} @error{io; it cannot be
  /// mapped}
  [[nodiscard]] static result<std::shared_ptr<mapped_source>> open(
      const std::string& path);
  mapped_source(const mapped_source&) = delete;
  mapped_source& operator=(const mapped_source&) = delete;
  ~mapped_source() override;

  /// Returns the number of bytes.
  [[nodiscard]] std::uint64_t size() const noexcept override { return content_.size(); }
  /// Reads `to.size()` bytes from `offset` on.
  /// @error{torn; the range exceeds size()}
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override;
  /// Returns the whole content.
  [[nodiscard]] std::optional<bytes_view> view() const noexcept override {
    return content_;
  }
  /// Returns the path.
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  mapped_source(bytes_view content, std::string name)
      : content_(content), name_(std::move(name)) {}
  bytes_view content_;
  std::string name_;
};

}  // namespace weir::formats
