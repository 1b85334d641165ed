// SPDX-License-Identifier: Apache-2.0
/// @file
/// State of a message reader. The outline of a message uses it too, for a reader of one
/// object.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>

#include "tensogram/read/contents.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

struct message_reader::state {
  std::shared_ptr<const byte_source> source;  ///< shared by readers of one file
  read_options options;                       ///< of every call
  message_layout layout;                      ///< where the frames are
  message_contents contents;                  ///< what the frames say
  /// Number in the message of the first object in `contents`.
  std::size_t first_object = 0;

  /// Returns the place of an object for errors: name:offset (object 1 "t2m").
  std::string place_of(std::size_t i) const {
    const cbor_value* name = contents.metadata.base[i].find("name");
    const bool named = name != nullptr && name->text() != nullptr;
    return fmt::format(
        "{} (object {}{})",
        place(*source, layout.span.offset + contents.objects[i].frame.offset),
        first_object + i, named ? fmt::format(" \"{}\"", *name->text()) : "");
  }
  /// Returns an error if there is no object `i`.
  result<void> check_index(std::size_t i) const {
    if (i >= contents.objects.size()) {
      return error(errc::not_found,
                   fmt::format(
                       "cannot decode object {}: expected an index below {}, found it "
                       "beyond",
                       i, contents.objects.size()))
          .located(place(*source, layout.span.offset));
    }
    return {};
  }
  /// Returns the error with the place of object `i`, unless it already has a place.
  error located(error e, std::size_t i) const {
    return e.location().empty() ? std::move(e).located(place_of(i)) : std::move(e);
  }
  /// Reads the first `bytes` bytes of the payload of object `i` and its masks.
  result<byte_vector> stored(std::size_t i, std::uint64_t bytes) const;
};

}  // namespace weir::formats
