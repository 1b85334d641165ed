// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads one object of a big message without reading the others.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// The metadata of a message and the places of its objects. They are read from the frames
/// before the objects and, in a streamed message, behind them: a few KiB of a message of
/// many GiB. A message without an index is walked from frame to frame.
/// @threads{const; safe to call concurrently}
class message_outline {
 public:
  /// Reads the outline of the message at `span`. `options` also count for the readers
  /// that object() returns. Errors of the source are returned.
  /// @error{corrupt; structure, metadata or index are wrong} @error{torn; it ends early}
  /// @error{hash_mismatch; the digest of a frame that was read differs}
  /// @error{unsupported_version}
  [[nodiscard]] static result<message_outline> open(
      std::shared_ptr<const byte_source> source, message_span span,
      const read_options& options = {});

  /// Returns the metadata of the message, with one entry of `base` for each object. Keys
  /// that stand only in the preceder frame of an object are missing: object() finds
  /// those.
  [[nodiscard]] const message_metadata& metadata() const noexcept;
  /// Returns the number of objects.
  [[nodiscard]] std::size_t object_count() const noexcept;
  /// Returns the number of the object whose entry of `base` has `name` under the key
  /// "name".
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  /// Returns the place of the frame of object `i` in the source, without padding.
  [[nodiscard]] byte_range frame(std::size_t i) const;
  /// Returns the place of the message in the source.
  [[nodiscard]] message_span span() const noexcept;

  /// Opens object `i` alone; it has number 0 in the reader. Only the frame of this object
  /// is read: a small frame as a whole, a large one at its ends, and its payload when the
  /// reader decodes. Errors of the source are returned.
  /// @error{not_found; no such object} @error{corrupt; its frame is wrong}
  /// @error{torn; it ends early}
  [[nodiscard]] result<message_reader> object(std::size_t i) const;
  /// Opens object `i` of another source with equal bytes, for example of the same file
  /// with another time limit.
  /// @error{not_found; no such object} @error{corrupt; its frame is wrong}
  /// @error{torn; it ends early}
  [[nodiscard]] result<message_reader> object(
      std::size_t i, std::shared_ptr<const byte_source> source) const;

 private:
  struct state;
  explicit message_outline(std::shared_ptr<const state> s) : state_(std::move(s)) {}
  std::shared_ptr<const state> state_;
};

}  // namespace weir::formats
