// SPDX-License-Identifier: Apache-2.0
/// @file
/// A check of JSON by the parser of nlohmann, which keeps nothing of what it reads.
#include "json_check.hpp"

#include <nlohmann/json.hpp>

namespace weir::tessera {

namespace {

/// Limit of nesting.
constexpr unsigned max_depth = 64;

/// Accepts every event of the parser until objects and arrays are nested too deeply. The
/// parser keeps one bit for each open object or array, so the limit of depth also limits
/// its memory.
class depth_check {
  // Each event returns whether the parser goes on.
 public:
  using json = nlohmann::json;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t) { return true; }
  bool number_unsigned(json::number_unsigned_t) { return true; }
  bool number_float(json::number_float_t, const json::string_t&) { return true; }
  bool string(json::string_t&) { return true; }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) { return ++depth_ <= max_depth; }
  bool start_array(std::size_t) { return ++depth_ <= max_depth; }
  bool key(json::string_t&) { return true; }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    return true;
  }

  unsigned depth_ = 0;
};

}  // namespace

bool is_json(std::string_view text) {
  // The parser skips a byte order mark, which RFC 8259 does not allow.
  depth_check check;
  return !text.starts_with("\xEF\xBB\xBF") && nlohmann::json::sax_parse(text, &check);
}

}  // namespace weir::tessera
