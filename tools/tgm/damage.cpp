// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes that belong to no message, and messages that are damaged.
#include "tgm/damage.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "weir/formats/tensogram_validate.hpp"

namespace weir::tools {

using formats::frame_info;
using formats::message_reader;
using formats::message_span;

namespace {

/// @source{Tensogram v3, frame types and frame flags}
constexpr std::uint16_t object_frame = 9;
constexpr std::uint16_t has_digest = 2;

/// Why nothing in a range is a message. Damage to the preamble or to the end of a message
/// hides it from the scan; then the validation says what is wrong with it.
std::string reason_of(const message_file& file, message_span gap) {
  formats::validation_options quick;
  quick.level = formats::validation_level::structure;
  const auto memory = file.source->view();
  const auto copy = memory ? byte_vector() : file.read(gap).value_or(byte_vector());
  const bytes_view bytes = memory ? memory->subspan(gap.offset, gap.length) : copy;
  if (as_text(bytes).substr(0, 8) == "TENSOGRM") {
    for (const auto& issue : formats::validate_message(bytes, quick).issues) {
      if (issue.severity == formats::issue_severity::error) {
        return issue.description;
      }
    }
  }
  return "they belong to no message";
}

}  // namespace

result<message_file> damage_report::open(const std::string& path) {
  WEIR_TRY(message_file file, read_messages(path));
  for (const message_span& gap : file.gaps()) {
    name_gap(file, gap);
  }
  return file;
}

void damage_report::name_gap(const message_file& file, message_span gap) {
  const std::string reason = reason_of(file, gap);
  fmt::print(stderr, "weir: {}: {} {} bytes: {}\n", file.place(gap.offset),
             skip_ ? "skipped" : "ignored", gap.length, reason);
  skipped_ += skip_ ? 1 : 0;
}

result<void> damage_report::leave_out(const message_file& file, std::size_t message,
                                      const error& why) {
  const int code = exit_code_of(why.code());
  if (!skip_ || code != exit_code_of(errc::corrupt)) {
    return why;
  }
  const message_span span = file.spans[message];
  fmt::print(stderr, "weir: {}: skipped message {} of {} bytes: {}\n",
             file.place(span.offset), message, span.length, why.root().text());
  ++skipped_;
  return {};
}

int damage_report::exit_code() const noexcept {
  return skipped_ == 0 ? 0 : exit_code_of(errc::corrupt);
}

result<void> check_sound(const message_reader& reader) {
  WEIR_CHECK(reader.verify());
  std::size_t i = 0;
  for (const frame_info& frame : reader.frames()) {
    if (frame.type != object_frame) {
      continue;
    }
    if ((frame.flags & has_digest) == 0) {
      const auto elements = reader.decode(i);
      if (!elements && elements.error().code() != errc::unsupported) {
        return elements.error();
      }
    }
    ++i;
  }
  return {};
}

}  // namespace weir::tools
