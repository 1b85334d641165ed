// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the JSON that describes messages, descriptors and preceders.
///
/// The JSON of a message is one object: "descriptors" has one entry for each object,
/// "base" their metadata, and all other keys belong to the message. JSON is converted to
/// CBOR values and read by the parsers of the format, so that a descriptor in JSON obeys
/// the same rules as one in a file.
#include "capi/json.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "capi/arguments.hpp"
#include "tensogram/wire/metadata.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

namespace {

using nlohmann::json;

/// Returns the error for a part of the JSON.
failure bad_json(std::string_view subject, std::string_view expected,
                 std::string_view found) {
  return invalid_metadata(
      fmt::format("cannot read {}: expected {}, found {}", subject, expected, found));
}

/// Converts a JSON value. The recursion is bounded, because the parser has limited the
/// depth of nesting.
cbor_value to_cbor(const json& from) {
  switch (from.type()) {
    // Each kind of JSON value becomes one kind of CBOR value.
    case json::value_t::boolean: return from.get<bool>();
    case json::value_t::number_integer: return from.get<std::int64_t>();
    case json::value_t::number_unsigned: return from.get<std::uint64_t>();
    // Numbers keep their kind: 1 stays an integer, 1.0 a float.
    case json::value_t::number_float: return from.get<double>();
    case json::value_t::string: return from.get<std::string>();
    case json::value_t::array: {
      cbor_array out;
      for (const json& item : from) {
        out.push_back(to_cbor(item));
      }
      return out;
    }
    case json::value_t::object: {
      cbor_map out;
      for (const auto& [key, value] : from.items()) {
        // A key that occurs twice has been replaced by the parser already.
        out.set(key, to_cbor(value));
      }
      return out;
    }
    // Only null is left.
    default: return nullptr;
  }
}

/// Parses a JSON object; `subject` names it in errors. A callback of the parser counts
/// the levels and stops it at the limit, so that hostile nesting cannot exhaust the
/// stack.
outcome<json> parse_object(const char* text, const char* subject) {
  WEIR_TRY(const std::string checked, text_argument(text, subject));
  bool too_deep = false;
  // The callback returns false to make the parser discard what it has read.
  const auto watch = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > static_cast<int>(cbor_depth_limit);
    return !too_deep;
  };
  try {
    // The text has been checked to be UTF-8.
    json out = json::parse(checked, watch);
    if (too_deep) {
      return bad_json(
          subject, fmt::format("at most {} nested containers", cbor_depth_limit), "more");
    }
    if (!out.is_object()) {
      return bad_json(subject, "a JSON object", out.type_name());
    }
    return out;
  } catch (const json::exception& e) {
    // The message of the parser says where the text is wrong.
    return bad_json(subject, "JSON", fmt::format("\"{}\"", e.what()));
  }
}

/// Converts a JSON object to a map.
outcome<cbor_map> map_of(const json& from, const std::string& subject) {
  if (!from.is_object()) {
    return bad_json(subject, "a JSON object", from.type_name());
  }
  // `to_cbor` makes a map of an object, so map() is not null.
  cbor_value value = to_cbor(from);
  return std::move(*value.map());
}

/// Converts an object in which the key "_reserved_" is forbidden, because the library
/// writes it.
outcome<cbor_map> map_without_reserved(const json& from, const std::string& subject) {
  WEIR_TRY(cbor_map out, map_of(from, subject));
  // On the first level only. Deeper keys of this name are ordinary ones.
  if (out.find("_reserved_") != nullptr) {
    return bad_json(subject, "keys other than _reserved_, which is the library's", "it");
  }
  return out;
}

/// Reads a descriptor. Absent stages are "none". An absent "ndim" follows from the shape,
/// and absent strides stay empty, so that the writer derives them.
outcome<object_descriptor> descriptor_of(const json& from, const std::string& subject) {
  // The C interface fills in keys that a file must contain and a caller may leave out.
  WEIR_TRY(cbor_map map, map_of(from, subject));
  // Sets a key that the caller has left out.
  const auto set_default = [&](const char* key, cbor_value with) {
    if (map.find(key) == nullptr) {
      map.set(key, std::move(with));
    }
  };
  set_default("type", "ntensor");
  for (const char* stage : {"encoding", "filter", "compression"}) {
    set_default(stage, "none");
  }
  // A shape that is wrong is found by the parser below.
  const cbor_value* shape = map.find("shape");
  const std::size_t dimensions =
      shape != nullptr && shape->array() != nullptr ? shape->array()->size() : 0;
  const bool derive_strides = map.find("strides") == nullptr;
  set_default("ndim", dimensions);
  // The zeros only have the right number; they are removed again below.
  set_default("strides", cbor_array(dimensions, cbor_value(0)));
  // The parser is that of the format, so all of its rules hold.
  auto out = formats::parse_descriptor(cbor_value(std::move(map)));
  if (!out) {
    return invalid_metadata(out.error().message());
  }
  // Without strides, the writer makes those of rows without gaps.
  if (derive_strides) {
    out->strides.clear();
  }
  return std::move(*out);
}

/// Reads the base entries of a message; an absent key gives an empty list.
outcome<std::vector<cbor_map>> base_of(const json& message) {
  std::vector<cbor_map> out;
  const auto found = message.find("base");
  // An absent key is no error, as objects need no metadata.
  if (found == message.end()) {
    return out;
  }
  if (!found->is_array()) {
    return bad_json("\"base\"", "an array", found->type_name());
  }
  // Base entries are numbered in errors.
  for (const json& entry : *found) {
    WEIR_TRY(cbor_map map,
             map_without_reserved(entry, fmt::format("\"base\"[{}]", out.size())));
    out.push_back(std::move(map));
  }
  return out;
}

/// Returns "_extra_", or "extra", together with the keys at the top of the message that
/// it does not contain. `taken` are the keys that have a meaning of their own.
/// Keys at the top do not replace those under "_extra_".
outcome<cbor_map> extra_of(const json& message, std::span<const char* const> taken) {
  const auto underlined = message.find("_extra_");
  const auto plain = message.find("extra");
  // Both names mean the same, so both at once would be unclear.
  if (underlined != message.end() && plain != message.end()) {
    return bad_json("the message", "either \"_extra_\" or \"extra\"", "both");
  }
  const auto own = underlined != message.end() ? underlined : plain;
  cbor_map out;
  if (own != message.end()) {
    WEIR_TRY(out, map_of(*own, fmt::format("\"{}\"", own.key())));
  }
  // All other keys at the top belong to the message.
  for (const auto& [key, value] : message.items()) {
    const bool meant = key == "_extra_" || key == "extra" ||
                       std::find(taken.begin(), taken.end(), key) != taken.end();
    if (!meant && out.find(key) == nullptr) {
      out.set(key, to_cbor(value));
    }
  }
  if (out.find("_reserved_") != nullptr) {
    return bad_json("the message", "keys other than _reserved_, which is the library's",
                    "it");
  }
  return out;
}

}  // namespace

/// Reads "descriptors", "base" and the remaining keys, which belong to the message.
outcome<json_message> parse_message(const char* text) {
  WEIR_TRY(const json from, parse_object(text, "the JSON of the message"));
  json_message out;
  // A message may have no objects.
  if (const auto found = from.find("descriptors"); found != from.end()) {
    if (!found->is_array()) {
      return bad_json("\"descriptors\"", "an array", found->type_name());
    }
    // Descriptors are numbered in errors, in the order of the objects.
    for (const json& one : *found) {
      WEIR_TRY(
          object_descriptor descriptor,
          descriptor_of(one, fmt::format("\"descriptors\"[{}]", out.descriptors.size())));
      out.descriptors.push_back(std::move(descriptor));
    }
  }
  // Keys with a meaning of their own; all others are metadata of the message.
  constexpr std::array<const char*, 2> taken{"descriptors", "base"};
  WEIR_TRY(out.base, base_of(from));
  WEIR_TRY(out.extra, extra_of(from, taken));
  return out;
}

/// Reads "base" and the remaining keys.
outcome<json_message> parse_stream(const char* text) {
  WEIR_TRY(const json from, parse_object(text, "the JSON of the stream"));
  json_message out;
  // "descriptors" has no meaning in a stream, so it is metadata like any other key.
  constexpr std::array<const char*, 1> taken{"base"};
  WEIR_TRY(out.base, base_of(from));
  WEIR_TRY(out.extra, extra_of(from, taken));
  return out;
}

outcome<object_descriptor> parse_descriptor(const char* text) {
  WEIR_TRY(const json from, parse_object(text, "the JSON of the descriptor"));
  // A single descriptor has no number in errors.
  return descriptor_of(from, "the JSON of the descriptor");
}

outcome<cbor_map> parse_preceder(const char* text) {
  WEIR_TRY(const json from, parse_object(text, "the JSON of the preceder"));
  return map_without_reserved(from, "the JSON of the preceder");
}

}  // namespace weir::capi
