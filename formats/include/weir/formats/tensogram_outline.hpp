// SPDX-License-Identifier: Apache-2.0
/// @file
/// One object out of a big message, without a look at the others.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// The metadata of a message and the places of its objects. They are read from the frames
/// in front of the objects and, in a streamed message, behind them, so that of a message
/// of many GiB a few KiB are read. A message without an index is walked from frame to
/// frame.
/// @threads{const; safe to call concurrently}
class message_outline {
 public:
  /// Reads the outline of the message at `span`. `options` hold for the readers that
  /// object() returns as well.
  /// @error{corrupt, structure, metadata or index; torn; hash_mismatch, of a frame that
  /// was read; unsupported_version; what the source returns}
  [[nodiscard]] static result<message_outline> open(
      std::shared_ptr<const byte_source> source, message_span span,
      const read_options& options = {});

  /// Metadata of the message, with one entry of `base` for each object. Keys that stand
  /// in the preceder frame of an object and nowhere else are not among them: object()
  /// finds those.
  [[nodiscard]] const message_metadata& metadata() const noexcept;
  [[nodiscard]] std::size_t object_count() const noexcept;
  /// Number of the object whose entry of `base` has `name` under the key "name".
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  /// Where the frame of object `i` lies in the source, without padding.
  [[nodiscard]] byte_range frame(std::size_t i) const;
  [[nodiscard]] message_span span() const noexcept;

  /// A reader of object `i` alone, in which it has the number 0. Of the message only the
  /// frame of this object is read: all of it where it is small, else its ends, and its
  /// payload when the reader decodes.
  /// @error{not_found, no such object; corrupt; torn; what the source returns}
  [[nodiscard]] result<message_reader> object(std::size_t i) const;
  /// The same over `source`, which must hold the same bytes: a view of the same file with
  /// another time limit, for example.
  [[nodiscard]] result<message_reader> object(
      std::size_t i, std::shared_ptr<const byte_source> source) const;

 private:
  struct state;
  explicit message_outline(std::shared_ptr<const state> s) : state_(std::move(s)) {}
  std::shared_ptr<const state> state_;
};

}  // namespace weir::formats
