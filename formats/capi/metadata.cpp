// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that look up metadata by paths of keys with dots between them.
///
/// "extra.KEY" names a key of the message. Any other path is searched in the base entries
/// in order, and then among the keys of the message. "_reserved_" is hidden from
/// searches, because it belongs to the library; tgm_metadata_reserved() gives access to
/// it.
///
/// Texts that a function returns must live as long as the metadata, so they are kept in
/// the handle, one for each path and kind of text. Values are returned as addresses
/// inside the handle and need no memory.
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "capi/failure.hpp"
#include "capi/handles.hpp"
#include "capi/values.hpp"

using namespace weir::capi;  // NOLINT: the functions below are C
using weir::formats::cbor_map;
using weir::formats::cbor_value;
using weir::formats::find_path;

/// The parts are moved; a reader that made them is not needed any more.
tgm_metadata_t::tgm_metadata_t(weir::formats::message_metadata from)
    : extra(std::move(from.extra)), reserved(std::move(from.reserved)) {
  // Entries become values, as handles refer to values.
  base.reserve(from.base.size());
  for (cbor_map& entry : from.base) {
    base.emplace_back(std::move(entry));
  }
}

/// The map never moves its texts, so their addresses stay valid.
const char* tgm_metadata_t::keep(const std::string& name, std::string text) const {
  const std::lock_guard lock(mutex_);
  // A text that is kept already stays, so that earlier addresses stay valid.
  return kept_.try_emplace(name, std::move(text)).first->second.c_str();
}

namespace {

/// Returns the text as a C string can hold it: a text that contains a zero byte becomes
/// an empty text.
std::string as_c_text(std::string text) {
  // C code would take the part before the zero for the whole.
  return text.find('\0') == std::string::npos ? std::move(text) : std::string();
}

/// Returns the first key of a path.
std::string first_key(std::string_view path) {
  return std::string(path.substr(0, path.find('.')));
}

/// Looks a path up in one map. Paths that begin with "_reserved_" or with an empty key
/// are not found.
/// `map` holds a map.
const cbor_value* look_up(const cbor_value& map, std::string_view path) {
  const std::string first = first_key(path);
  // The rest of the path may contain the word; only its first key is hidden.
  return first.empty() || first == "_reserved_" ? nullptr : find_path(*map.map(), path);
}

/// Looks a path up in the whole message.
/// "extra." leads to the keys of the message alone.
const cbor_value* look_up(const tgm_metadata_t& meta, std::string_view path) {
  const std::string first = first_key(path);
  if (first == "extra" || first == "_extra_") {
    // The prefix alone names no key.
    return path.size() > first.size() ? look_up(meta.extra, path.substr(first.size() + 1))
                                      : nullptr;
  }
  // The first object that has the key answers.
  for (const cbor_value& entry : meta.base) {
    if (const cbor_value* found = look_up(entry, path)) {
      return found;
    }
  }
  // Last, the keys of the message, without the prefix.
  return look_up(meta.extra, path);
}

/// Looks a path up in one base entry.
const cbor_value* look_up(const tgm_metadata_t& meta, std::size_t index,
                          std::string_view path) {
  return index < meta.base.size() ? look_up(meta.base[index], path) : nullptr;
}

/// Returns the shortest decimal text without an exponent that reads back as the same
/// number.
std::string decimal_of(double value) {
  // to_chars() writes infinities by itself, but a sign before NaN depends on its bits.
  if (std::isnan(value)) {
    return "NaN";
  }
  std::array<char, 400> digits{};  // the smallest numbers have the longest texts
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed);
  return {digits.data(), end.ptr};
}

/// Returns a text, number or boolean as text; nothing for other values.
std::optional<std::string> text_of(const cbor_value* found) {
  if (found == nullptr) {
    return std::nullopt;
  }
  // Tags say how to interpret a value; the C interface returns the value.
  const cbor_value& value = without_tags(*found);
  if (value.text() != nullptr) {
    return *value.text();
  }
  if (value.integer() != nullptr) {
    return digits_of(*value.integer());
  }
  if (value.real()) {
    return decimal_of(*value.real());
  }
  if (value.boolean()) {
    return *value.boolean() ? "true" : "false";
  }
  // Arrays, maps, bytes and null have no text here.
  return std::nullopt;
}

/// Returns an integer, or `otherwise` if the value is none or does not fit.
std::int64_t integer_of(const cbor_value* found, std::int64_t otherwise) {
  // Reals are no integers, even if they have no fraction.
  return found != nullptr ? without_tags(*found).int64().value_or(otherwise) : otherwise;
}

/// Returns a number as a float, or `otherwise` if the value is none.
double number_of(const cbor_value* found, double otherwise) {
  return found != nullptr ? widened(without_tags(*found)).value_or(otherwise) : otherwise;
}

/// Returns whether a key is "version", which the functions for single keys answer with
/// the version of the format, although no such key is stored.
/// The word has no dots.
bool asks_version(std::string_view key) {
  return key == "version";
}

}  // namespace

extern "C" {

uint64_t tgm_metadata_version(const tgm_metadata_t* meta) {
  // There is one version only.
  return meta != nullptr ? TGM_WIRE_VERSION : 0;
}

size_t tgm_metadata_num_objects(const tgm_metadata_t* meta) {
  // One entry for each object.
  return meta != nullptr ? meta->base.size() : 0;
}

void tgm_metadata_free(tgm_metadata_t* meta) {
  // Frees all texts and values that functions have returned.
  delete meta;
}

/// NULL for "not found" and for a NULL argument alike.
const tgm_value_t* tgm_metadata_get(const tgm_metadata_t* meta, const char* path) {
  return accessed<const tgm_value_t*>(nullptr, [&] {
    // Exceptions, such as lack of memory, give the default.
    return given(meta, path) ? handle_of(look_up(*meta, path)) : nullptr;
  });
}

const tgm_value_t* tgm_metadata_get_at(const tgm_metadata_t* meta, size_t obj_index,
                                       const char* path) {
  return accessed<const tgm_value_t*>(nullptr, [&] {
    return given(meta, path) ? handle_of(look_up(*meta, obj_index, path)) : nullptr;
  });
}

bool tgm_metadata_has(const tgm_metadata_t* meta, const char* path) {
  // The version is no stored key, so it is not found here.
  return tgm_metadata_get(meta, path) != nullptr;
}

bool tgm_metadata_has_at(const tgm_metadata_t* meta, size_t obj_index, const char* path) {
  return tgm_metadata_get_at(meta, obj_index, path) != nullptr;
}

/// The handle refers to the entry within the metadata.
const tgm_value_t* tgm_metadata_object(const tgm_metadata_t* meta, size_t obj_index) {
  return meta != nullptr && obj_index < meta->base.size()
             ? handle_of(&meta->base[obj_index])
             : nullptr;
}

const tgm_value_t* tgm_metadata_extra(const tgm_metadata_t* meta) {
  return meta != nullptr ? handle_of(&meta->extra) : nullptr;
}

const tgm_value_t* tgm_metadata_reserved(const tgm_metadata_t* meta) {
  return meta != nullptr ? handle_of(&meta->reserved) : nullptr;
}

const char* tgm_metadata_get_string(const tgm_metadata_t* meta, const char* key) {
  return accessed<const char*>(nullptr, [&]() -> const char* {
    if (!given(meta, key)) {
      return nullptr;
    }
    // The version comes first, so a key of this name is never looked up.
    const auto text = asks_version(key) ? std::optional(std::to_string(TGM_WIRE_VERSION))
                                        : text_of(look_up(*meta, key));
    // The prefix keeps texts of different functions apart.
    return text ? meta->keep(std::string("path ") + key, as_c_text(*text)) : nullptr;
  });
}

int64_t tgm_metadata_get_int(const tgm_metadata_t* meta, const char* key,
                             int64_t default_val) {
  return accessed(default_val, [&] {
    if (!given(meta, key)) {
      return default_val;
    }
    return asks_version(key) ? TGM_WIRE_VERSION
                             : integer_of(look_up(*meta, key), default_val);
  });
}

double tgm_metadata_get_float(const tgm_metadata_t* meta, const char* key,
                              double default_val) {
  return accessed(default_val, [&] {
    // The version is not given as a float.
    return given(meta, key) && !asks_version(key)
               ? number_of(look_up(*meta, key), default_val)
               : default_val;
  });
}

const char* tgm_metadata_get_string_at(const tgm_metadata_t* meta, size_t obj_index,
                                       const char* key) {
  return accessed<const char*>(nullptr, [&]() -> const char* {
    const auto text =
        // The version belongs to the message, so it is not answered here.
        given(meta, key) ? text_of(look_up(*meta, obj_index, key)) : std::nullopt;
    return text ? meta->keep("at " + std::to_string(obj_index) + " " + key,
                             as_c_text(*text))
                : nullptr;
  });
}

int64_t tgm_metadata_get_int_at(const tgm_metadata_t* meta, size_t obj_index,
                                const char* key, int64_t default_val) {
  return accessed(default_val, [&] {
    return given(meta, key) ? integer_of(look_up(*meta, obj_index, key), default_val)
                            : default_val;
  });
}

double tgm_metadata_get_float_at(const tgm_metadata_t* meta, size_t obj_index,
                                 const char* key, double default_val) {
  return accessed(default_val, [&] {
    return given(meta, key) ? number_of(look_up(*meta, obj_index, key), default_val)
                            : default_val;
  });
}

const char* tgm_metadata_object_to_json(const tgm_metadata_t* meta, size_t obj_index) {
  return accessed<const char*>(nullptr, [&]() -> const char* {
    return meta != nullptr && obj_index < meta->base.size()
               // The JSON is made once for each object.
               ? meta->keep("json " + std::to_string(obj_index),
                            to_json(meta->base[obj_index]))
               : nullptr;
  });
}

const char* tgm_metadata_to_json(const tgm_metadata_t* meta) {
  return accessed<const char*>(nullptr, [&]() -> const char* {
    if (meta == nullptr) {
      return nullptr;
    }
    // Empty parts are left out.
    cbor_map all;
    if (!meta->base.empty()) {
      all.set("base", meta->base);
    }
    if (!meta->reserved.map()->empty()) {
      all.set("_reserved_", meta->reserved);
    }
    if (!meta->extra.map()->empty()) {
      all.set("_extra_", meta->extra);
    }
    return meta->keep("json", to_json(cbor_value(std::move(all))));
  });
}

}  // extern "C"
