// SPDX-License-Identifier: Apache-2.0
/// @file
/// A value of JSON that knows its path, for readers whose errors name the value.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tokens/build.hpp"
#include "weir/base/error.hpp"

namespace weir::formats::tokens {

/// A value of the file and its path for messages.
/// A node refers to the parsed document, which `from_json` keeps until it has read all
/// parts.
class node {
 public:
  using json = nlohmann::json;

  node(const json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const json& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }

  /// Returns an error about this value.
  [[nodiscard]] error wrong(std::string_view expected) const {
    std::string found = value_->dump(-1, ' ', true, json::error_handler_t::replace);
    if (found.size() > 60) {
      found = fmt::format("{}...", found.substr(0, 57));
    }
    return error(errc::corrupt, fmt::format("cannot read {}: expected {}, found {}",
                                            path_, expected, found));
  }
  /// Returns an error about a value that is well-formed but that Weir does not know.
  [[nodiscard]] error unsupported(std::string_view expected) const {
    error e = wrong(expected);
    return error(errc::unsupported, e.text());
  }

  [[nodiscard]] result<node> member(const char* key) const {
    if (!value_->is_object()) {
      return wrong("an object");
    }
    const auto found = value_->find(key);
    if (found == value_->end()) {
      return error(errc::corrupt, fmt::format("cannot read {}: expected a member \"{}\", "
                                              "found none",
                                              path_, key));
    }
    return node(*found, fmt::format("{}.{}", path_, key));
  }
  /// Returns a member, or a null value if there is none.
  [[nodiscard]] result<node> member_or_null(const char* key) const {
    static const json null;
    if (!value_->is_object()) {
      return wrong("an object");
    }
    const auto found = value_->find(key);
    return node(found == value_->end() ? null : *found, fmt::format("{}.{}", path_, key));
  }
  /// Returns an element of an array. The caller has checked `i` against `size`.
  [[nodiscard]] node element(std::size_t i) const {
    return node((*value_)[i], fmt::format("{}[{}]", path_, i));
  }
  [[nodiscard]] result<std::size_t> size() const {
    if (!value_->is_array()) {
      return wrong("an array");
    }
    return value_->size();
  }
  [[nodiscard]] result<std::string> text() const {
    if (!value_->is_string()) {
      return wrong("a string");
    }
    return value_->get<std::string>();
  }
  [[nodiscard]] result<std::uint64_t> number(std::uint64_t limit) const {
    if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > limit) {
      return wrong(fmt::format("a whole number up to {}", limit));
    }
    return value_->get<std::uint64_t>();
  }
  /// Returns a boolean member. If it is absent or null, returns `otherwise`, or an error
  /// if `otherwise` has no value.
  [[nodiscard]] result<bool> flag(const char* key, std::optional<bool> otherwise) const {
    WEIR_TRY(const node at, otherwise ? member_or_null(key) : member(key));
    if (at.is_null() && otherwise) {
      return *otherwise;
    }
    if (!at.value().is_boolean()) {
      return at.wrong("true or false");
    }
    return at.value().get<bool>();
  }
  [[nodiscard]] result<std::string> text_of(const char* key) const {
    WEIR_TRY(const node at, member(key));
    return at.text();
  }
  /// Returns the id of a member; its value is a token id.
  [[nodiscard]] result<std::uint32_t> id() const {
    WEIR_TRY(const std::uint64_t id, number(max_vocabulary - 1));
    return static_cast<std::uint32_t>(id);
  }

 private:
  const json* value_;
  std::string path_;
};

}  // namespace weir::formats::tokens
