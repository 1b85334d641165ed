// SPDX-License-Identifier: Apache-2.0
/// @file
/// Items made of Tensogram messages.
///
/// Both `log` and `tgm.read` make items of messages by these functions, so that
/// attributes and messages of errors are the same.
#include "stages/live/message_items.hpp"

#include "stages/source_parts.hpp"

namespace weir::actors {

/// Returns the number of the chosen object. A name has priority over an index.
result<std::size_t> find_object(const object_choice& choice,
                                const formats::message_reader& message) {
  if (choice.object.empty()) {
    // The index is one of objects in a message.
    if (choice.index < message.object_count()) {
      return static_cast<std::size_t>(choice.index);
    }
    return error(errc::not_found,
                 fmt::format("cannot find object {}: expected more than that, found {} "
                             "objects",
                             choice.index, message.object_count()));
  }
  const auto found = message.find(choice.object);
  if (!found) {
    return error(errc::not_found,
                 fmt::format("cannot find the object \"{}\": expected it among {} "
                             "objects, found none of that name",
                             choice.object, message.object_count()));
  }
  return *found;
}

/// Types that are smaller than a byte have no tensor.
result<void> check_item(const formats::object_descriptor& object) {
  // Items hold elements of whole bytes.
  if (info_of(object.type).size == 0 || object.shape.size() > runtime::max_dims) {
    return error(errc::unsupported,
                 fmt::format("cannot make an item of an object: expected whole bytes "
                             "and at most {} dimensions, found {} with {}",
                             runtime::max_dims, info_of(object.type).tensogram,
                             object.shape.size()));
  }
  return {};
}

/// Decodes the chosen object into the item and returns its number.
result<std::size_t> fill_from(pull& p, const object_choice& choice,
                              const formats::message_reader& message) {
  WEIR_TRY(const std::size_t object, find_object(choice, message));
  const formats::object_descriptor& descriptor = message.descriptor(object);
  WEIR_CHECK(check_item(descriptor));
  WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, descriptor.type, descriptor.shape));
  WEIR_CHECK(message.decode_into(
      object, {x.data(), static_cast<std::size_t>(message.object_bytes(object))}));
  return object;
}

/// Scalars of the message become attributes, then those of the object.
void add_about(attributes& to, std::uint64_t number,
               const formats::message_reader& message, std::size_t object) {
  attribute_collector about(to);
  // The number comes first, so it is never left out for lack of space.
  about.add("message", number);
  about.add_scalars(message.metadata().extra);
  about.add_object(message.metadata(object));
}

/// Returns whether a message has the key that marks the last one; an empty key marks
/// none.
bool has_metadata(const formats::message_reader& message, const std::string& key) {
  return !key.empty() && message.metadata().extra.find(key) != nullptr;
}

}  // namespace weir::actors
