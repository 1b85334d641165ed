// SPDX-License-Identifier: Apache-2.0
/// @file
/// A check of JSON by the parser of nlohmann, which keeps nothing of what it reads.
#include "json_check.hpp"

#include <nlohmann/json.hpp>

namespace weir::tessera {

namespace {

constexpr unsigned max_depth = 64;

/// Accepts every event of the parser until objects and arrays are nested too deeply. The
/// parser itself keeps one bit for each open object or array, so the depth also limits
/// its memory.
class depth_check final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ <= max_depth; }
  bool start_array(std::size_t) override { return ++depth_ <= max_depth; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
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
  // The parser would skip a byte order mark, which RFC 8259 does not allow.
  depth_check check;
  return !text.starts_with("\xEF\xBB\xBF") && nlohmann::json::sax_parse(text, &check);
}

}  // namespace weir::tessera
