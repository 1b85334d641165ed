// SPDX-License-Identifier: Apache-2.0
/// @file
/// The JSON that callers of the C interface describe messages with.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "capi/handles.hpp"
#include "tensogram/wire/metadata.hpp"

namespace weir::formats {

namespace {

using nlohmann::json;

error bad_json(const std::string& found) {
  return error(errc::unknown_key, "cannot read JSON: expected an object, found " + found);
}

// Bounded: the parser has counted the levels.
cbor_value to_cbor(const json& from) {
  switch (from.type()) {
    case json::value_t::boolean: return from.get<bool>();
    case json::value_t::number_integer: return from.get<std::int64_t>();
    case json::value_t::number_unsigned: return from.get<std::uint64_t>();
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
        out.set(key, to_cbor(value));
      }
      return out;
    }
    default: return nullptr;
  }
}

result<json> parse(const char* text) {
  if (text == nullptr) {
    return bad_json("nothing");
  }
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > static_cast<int>(cbor_depth_limit);
    return !too_deep;
  };
  json out = json::parse(text, watch, false);
  if (too_deep || out.is_discarded()) {
    return bad_json(too_deep ? "too many levels" : "other text");
  }
  if (!out.is_object()) {
    return bad_json(out.type_name());
  }
  return out;
}

/// What a caller may leave out.
result<object_descriptor> descriptor_of(const json& from) {
  if (!from.is_object()) {
    return bad_json(from.type_name());
  }
  const cbor_value value = to_cbor(from);
  cbor_map map = *value.map();
  const auto set_default = [&](const char* key, cbor_value with) {
    if (map.find(key) == nullptr) {
      map.set(key, std::move(with));
    }
  };
  set_default("type", "ntensor");
  for (const char* stage : {"encoding", "filter", "compression"}) {
    set_default(stage, "none");
  }
  const cbor_value* shape = map.find("shape");
  const std::size_t dimensions =
      shape != nullptr && shape->array() != nullptr ? shape->array()->size() : 0;
  set_default("ndim", dimensions);
  const bool strided = map.find("strides") != nullptr;
  set_default("strides", cbor_array(dimensions, cbor_value(0)));
  auto out = parse_descriptor(cbor_value(std::move(map)));
  if (!out) {
    return with_kind(errc::unknown_key, out.error());
  }
  if (!strided) {
    out->strides.clear();  // those of C order
  }
  return out;
}

}  // namespace

result<json_message> parse_message(const char* text) {
  WEIR_TRY(json from, parse(text));
  json_message out;
  if (from.contains("descriptors")) {
    for (const json& one : from["descriptors"]) {
      WEIR_TRY(object_descriptor descriptor, descriptor_of(one));
      out.descriptors.push_back(std::move(descriptor));
    }
    from.erase("descriptors");
  }
  const cbor_value value = to_cbor(from);
  auto metadata = parse_metadata(value);
  if (!metadata) {
    return with_kind(errc::unknown_key, metadata.error());
  }
  const auto has_reserved = [](const cbor_map& entry) {
    return entry.find("_reserved_") != nullptr;
  };
  out.base = std::move(metadata->base);
  out.extra = std::move(metadata->extra);
  if (value.map()->find("_reserved_") != nullptr ||
      std::any_of(out.base.begin(), out.base.end(), has_reserved)) {
    return bad_json("the key _reserved_, which is the library's");
  }
  return out;
}

result<object_descriptor> parse_json_descriptor(const char* text) {
  WEIR_TRY(const json from, parse(text));
  return descriptor_of(from);
}

result<cbor_map> parse_json_map(const char* text) {
  WEIR_TRY(const json from, parse(text));
  const cbor_value value = to_cbor(from);
  return *value.map();
}

}  // namespace weir::formats
