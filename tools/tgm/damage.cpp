// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports bytes that belong to no message, and damaged messages.
///
/// The scan of a file finds the messages and leaves ranges between them. Such a range may
/// be padding, another format, or a message whose first or last bytes are damaged. The
/// verbs go on, but say on standard error what they did not read.
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

/// @source{Tensogram v3, preamble and postamble, frame types and frame flags}
constexpr std::string_view first_magic = "TENSOGRM";
/// Stands at the very end of a message, behind its length.
constexpr std::string_view last_magic = "39277777";
/// Type of the frames that hold an object.
constexpr std::uint16_t object_frame = 9;
/// Flag of a frame whose end has a digest of its content.
constexpr std::uint16_t has_digest = 2;

/// Largest range of a file that is not in memory in which the validation searches for the
/// reason why it is no message. @units{bytes}
constexpr std::uint64_t max_read_gap = std::uint64_t{64} << 20;

/// Returns the first error that the validation finds in a message.
/// Warnings are passed over, because a message with warnings alone is sound.
std::optional<std::string> first_error(bytes_view message,
                                       const formats::validation_options& options) {
  for (const auto& issue : formats::validate_message(message, options).issues) {
    if (issue.severity == formats::issue_severity::error) {
      return issue.description;
    }
  }
  return std::nullopt;
}

/// Returns why there is no message in a range. Damage to the first or last bytes of a
/// message hides it from the scan; the validation then finds the reason.
/// Two reads, the first of them small: a gap may be large, and few begin with a preamble.
/// A large gap of a file that is not in memory is not read.
result<std::string> reason_of(const message_file& file, message_span gap) {
  byte_vector buffer;
  const message_span start{gap.offset,
                           std::min<std::uint64_t>(gap.length, first_magic.size())};
  WEIR_TRY(bytes_view bytes, file.bytes(start, buffer));
  std::optional<std::string> found;
  if (as_text(bytes) == first_magic &&
      (file.source->view() || gap.length <= max_read_gap)) {
    formats::validation_options quick;
    // Damage that hides a message from the scan is damage of its structure, so the
    // fastest level is enough.
    quick.level = formats::validation_level::structure;
    WEIR_TRY(bytes, file.bytes(gap, buffer));
    found = first_error(bytes, quick);
  }
  // This also holds if the validation finds no error, for instance because the range has
  // a whole message that the scan found inside another one.
  return found.value_or("they belong to no message");
}

/// Returns whether a range holds one of the magic numbers of a message.
/// Reads the whole range, since damaged messages may stand anywhere in it, but only a
/// piece at a time: the range may be larger than the memory.
result<bool> shows_a_message(const message_file& file, message_span gap) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  static_assert(first_magic.size() == last_magic.size());
  // Pieces overlap, so that a magic number at their border is whole in one of them.
  constexpr std::uint64_t step = piece - first_magic.size() + 1;
  byte_vector buffer;
  for (std::uint64_t at = 0; at < gap.length; at += step) {
    const message_span part{gap.offset + at, std::min(piece, gap.length - at)};
    WEIR_TRY(const bytes_view bytes, file.bytes(part, buffer));
    const std::string_view text = as_text(bytes);
    if (text.find(first_magic) != text.npos || text.find(last_magic) != text.npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

result<message_file> damage_report::open(const std::string& path) {
  // Opening fails only if the file cannot be read. Everything else is reported.
  WEIR_TRY(message_file file, read_messages(path));
  for (const message_span& gap : file.gaps()) {
    WEIR_CHECK(name_gap(file, gap));
  }
  return file;
}

result<void> damage_report::name_gap(const message_file& file, message_span gap) {
  WEIR_TRY(const std::string reason, reason_of(file, gap));
  // A file without messages is fine if nothing in it looks like one: all verbs treat it
  // as empty. A magic number means that there was a message, and then a result of zero
  // messages would hide the damage.
  if (!skip_ && file.spans.empty()) {
    WEIR_TRY(const bool traces, shows_a_message(file, gap));
    if (traces) {
      return file.without_message().because(error(errc::corrupt, reason));
    }
  }
  // "skipped" counts towards the exit code; "ignored" does not, because the user did not
  // ask for such a check.
  fmt::print(stderr, "weir: {}: {} {} bytes: {}\n", file.place(gap.offset),
             skip_ ? "skipped" : "ignored", gap.length, reason);
  skipped_ += skip_ ? 1 : 0;
  return {};
}

result<void> damage_report::leave_out(const message_file& file, std::size_t message,
                                      const error& why) {
  // All codes of damage have one exit code in common. A file that cannot be read, or an
  // option that is wrong, ends the verb even if damage is skipped.
  const int code = exit_code_of(why.code());
  if (!skip_ || code != exit_code_of(errc::corrupt)) {
    return why;
  }
  const message_span span = file.spans[message];
  // The root of the chain of errors is the most specific: which frame or which digest.
  fmt::print(stderr, "weir: {}: skipped message {} of {} bytes: {}\n",
             file.place(span.offset), message, span.length, why.root().text());
  ++skipped_;
  return {};
}

int damage_report::exit_code() const noexcept {
  return skipped_ == 0 ? 0 : exit_code_of(errc::corrupt);
}

result<void> check_sound(const message_file& file, std::size_t message,
                         const message_reader& reader) {
  byte_vector buffer;
  // The whole message is read again as bytes. For a file in memory this costs nothing.
  WEIR_TRY(const bytes_view bytes, file.bytes(file.spans[message], buffer));
  formats::validation_options options;
  // Accepts the digests of old writers, too, because such a message is sound.
  options.legacy_hashes = true;
  options.trial_decode = false;  // a digest finds more damage than a decoder
  if (const auto found = first_error(bytes, options)) {
    return error(errc::corrupt, *found);
  }
  // Objects without a digest have not been checked yet, so they are decoded as a trial.
  // Frames of other kinds do not count in the numbering of objects.
  std::size_t i = 0;
  for (const frame_info& frame : reader.frames()) {
    if (frame.type != object_frame) {
      continue;
    }
    if ((frame.flags & has_digest) == 0) {
      const auto elements = reader.decode(i);
      // A codec that is not part of this build says nothing about the message.
      if (!elements && elements.error().code() != errc::unsupported) {
        return elements.error();
      }
    }
    ++i;
  }
  return {};
}

}  // namespace weir::tools
