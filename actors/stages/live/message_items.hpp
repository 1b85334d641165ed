// SPDX-License-Identifier: Apache-2.0
/// @file
/// Items made of Tensogram messages: one object of each, with metadata as attributes.
#pragma once

#include <cstdint>
#include <string>

#include "weir/formats/tensogram.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::actors {

/// The object of a message that becomes an item.
struct object_choice {
  std::string object;       ///< its name; empty: by index
  std::uint64_t index = 0;  ///< its number, if it has no name
};

/// Returns the number of the chosen object. @error{not_found, the message has none}
[[nodiscard]] result<std::size_t> find_object(const object_choice& choice,
                                              const formats::message_reader& message);

/// Returns an error if no item can be made of an object.
/// @error{unsupported, elements are no whole bytes, or there are too many dimensions}
[[nodiscard]] result<void> check_item(const formats::object_descriptor& object);

/// Decodes an object straight into the memory of outlet 0. Returns its number.
/// @error{not_found, see `find_object`}
/// @error{unsupported, elements are no whole bytes, or there are too many dimensions}
/// Also returns the errors of `pull::fill_bytes` and of decoding.
[[nodiscard]] result<std::size_t> fill_from(pull& p, const object_choice& choice,
                                            const formats::message_reader& message);

/// Adds the number of a message and the scalars of its metadata to an item.
void add_about(attributes& to, std::uint64_t number,
               const formats::message_reader& message, std::size_t object);

/// Returns whether the metadata of a message have a key. An empty key is in no message.
[[nodiscard]] bool has_metadata(const formats::message_reader& message,
                                const std::string& key);

}  // namespace weir::actors
