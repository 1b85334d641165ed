// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads lines, and takes texts out of them.
///
/// Lines are read through the C library, because a path may be a pipe or standard input
/// as well as a file. A line ends with LF or CR LF. Its text is the line itself, or a
/// string in a JSON object.
#include "stages/texts/lines.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "weir/base/bytes.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"

namespace weir::actors {

namespace {

/// Bytes of a read. @units{bytes}
constexpr std::size_t bytes_of_read = std::size_t{256} << 10;

/// Errors of a line; the caller adds file and number.
error no_document(std::string_view expected, std::string_view found) {
  return error(errc::corrupt, fmt::format("cannot read a document: expected {}, found {}",
                                          expected, found));
}

/// Returns the error of a text that has NUL or is not UTF-8.
/// `where` names the text in the error: the line, or the string in it.
result<void> check_document_text(std::string_view text, std::string_view where) {
  // A NUL would end the text in many programs.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return no_document("text without NUL",
                       fmt::format("NUL at byte {} of the {}", nul, where));
  }
  if (is_utf8(text)) {
    return {};
  }
  // Finds the first byte that is wrong, for the message.
  std::size_t at = 0;
  while (const std::size_t length = utf8_sequence_length(text.substr(at))) {
    at += length;
  }
  // Bytes count from 0 here.
  return no_document("UTF-8",
                     fmt::format("byte 0x{:02x} at byte {} of the {}",
                                 static_cast<unsigned char>(text[at]), at, where));
}

/// Takes the events of the parser of JSON and keeps one string of the outermost object.
/// Values of other members are passed over; the parser needs no memory for them.
class field_events {
 public:
  /// @param field  Must live as long as the object.
  explicit field_events(const std::string& field) : field_(field) {}

  /// Values that are no string and no container.
  bool null() { return value("null"); }
  bool boolean(bool /*v*/) { return value("a boolean"); }
  bool number_integer(std::int64_t /*v*/) { return value("a number"); }
  bool number_unsigned(std::uint64_t /*v*/) { return value("a number"); }
  bool number_float(double /*v*/, const std::string& /*text*/) {
    return value("a number");
  }
  bool binary(nlohmann::json::binary_t& /*v*/) { return value("binary data"); }
  /// Takes the string of the field.
  // The parser gives its own string, which can be moved.
  bool string(std::string& v) {
    if (!wanted()) {
      return value("a string");
    }
    text_ = std::move(v);
    return true;
  }
  /// Only the outermost value may be an object in the place of the document.
  bool start_object(std::size_t /*size*/) {
    // The outermost value is the document itself.
    if (depth_ > 0 && !value("an object")) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool start_array(std::size_t /*size*/) {
    // A document that is an array is refused.
    if (!value("an array")) {
      return false;
    }
    ++depth_;
    return true;
  }
  /// The parser has checked that each end has a begin.
  bool end_object() { return --depth_, true; }
  bool end_array() { return --depth_, true; }
  /// A field that occurs twice is refused, because readers would differ in what they
  /// take.
  bool key(std::string& name) {
    // Fields of inner objects have the same name by chance.
    in_field_ = depth_ == 1 && name == field_;
    if (in_field_ && text_) {
      return fail(fmt::format("{} once", json_quote(field_)), "it twice");
    }
    return true;
  }
  /// The position of the parser counts from 1.
  bool parse_error(std::size_t position, const std::string& /*last*/,
                   const nlohmann::detail::exception& /*cause*/) {
    return fail("a JSON object", fmt::format("no JSON at byte {} of the line",
                                             position > 0 ? position - 1 : 0));
  }

  /// Returns the string.
  result<std::string> take() {
    // The first failure is the reason why the parser has stopped.
    if (failure_) {
      return std::move(*failure_);
    }
    if (!text_) {
      return no_document(fmt::format("a string under {}", json_quote(field_)),
                         "an object without it");
    }
    return std::move(*text_);
  }

 private:
  /// True at the value of the field.
  [[nodiscard]] bool wanted() const { return depth_ == 1 && in_field_; }
  /// Passes over a value that is no string, unless it stands for the document.
  bool value(const char* kind) {
    if (depth_ == 0) {
      return fail("a JSON object", kind);
    }
    return !wanted() || fail(fmt::format("a string under {}", json_quote(field_)), kind);
  }
  /// Keeps the first error and stops the parser.
  bool fail(std::string_view expected, std::string_view found) {
    if (!failure_) {
      failure_ = no_document(expected, found);
    }
    return false;
  }

  // The field that is looked for.
  const std::string& field_;
  /// Containers around the current value.
  std::size_t depth_ = 0;
  /// The next value is that of the field.
  bool in_field_ = false;
  std::optional<std::string> text_;
  std::optional<error> failure_;
};

}  // namespace

/// Standard input stays open for the rest of the program.
void text_line_reader::closer::operator()(std::FILE* stream) const noexcept {
  // It belongs to the program and may be read by others.
  if (stream != stdin) {
    (void)std::fclose(stream);
  }
}

/// Opens a file, a pipe or standard input. A folder is found at the first read.
result<text_line_reader> text_line_reader::open(const std::string& path) {
  std::FILE* stream = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (stream == nullptr) {
    // Read before another call can change it.
    const int reason = errno;
    return error(errc_of_errno(reason),
                 fmt::format("cannot open {}: expected a file of texts, found: {}",
                             json_quote(path), std::generic_category().message(reason)));
  }
  return text_line_reader(path, stream);
}

/// Continues at a line that begins at `offset`. Pipes cannot do this.
result<void> text_line_reader::go_to(std::uint64_t number, std::uint64_t offset) {
  if (::fseeko(stream_.get(), static_cast<off_t>(offset), SEEK_SET) != 0) {
    const int reason = errno;
    return error(
        reason == ESPIPE ? errc::unsupported : errc::io,
        fmt::format("cannot read {} from byte {}: expected a file, found: {}",
                    json_quote(path_), offset, std::generic_category().message(reason)));
  }
  // What was read ahead is of another place.
  buffer_.clear();
  at_ = 0;
  number_ = number - 1;
  offset_ = offset;
  return {};
}

/// Reads the next bytes. Returns false at the end of the file.
result<bool> text_line_reader::refill() {
  // The buffer keeps its memory.
  buffer_.resize(bytes_of_read);
  at_ = 0;
  // A folder is found here.
  const std::size_t got = std::fread(buffer_.data(), 1, buffer_.size(), stream_.get());
  if (std::ferror(stream_.get()) != 0) {
    return error(errc::io,
                 fmt::format("cannot read {}: expected a file of texts, "
                             "found: {}",
                             json_quote(path_), std::generic_category().message(errno)));
  }
  buffer_.resize(got);
  return got > 0;
}

/// Returns the next line, or nothing at the end. A line that is too long is read to its
/// end and loses its bytes.
result<std::optional<text_line>> text_line_reader::next() {
  text_line line{number_ + 1, offset_, {}, false};
  for (bool begun = false;;) {
    if (at_ == buffer_.size()) {
      WEIR_TRY(const bool more, refill());
      if (!more) {
        // The last line need not have an end.
        number_ += begun ? 1 : 0;
        return begun ? std::optional(std::move(line)) : std::nullopt;
      }
    }
    begun = true;
    // The rest of what was read ahead.
    const std::string_view rest(buffer_.data() + at_, buffer_.size() - at_);
    const std::size_t end = rest.find('\n');
    const std::string_view piece = rest.substr(0, end);
    // Counted before the bytes are kept.
    line.too_long = line.too_long || piece.size() > max_text_line - line.bytes.size();
    if (line.too_long) {
      // Gives the memory back.
      line.bytes = std::string();
    } else {
      line.bytes.append(piece);
    }
    const std::size_t taken = piece.size() + (end == std::string_view::npos ? 0 : 1);
    at_ += taken;
    offset_ += taken;
    if (end != std::string_view::npos) {
      // Only in front of LF; other CRs belong to the text.
      if (line.bytes.ends_with('\r')) {
        line.bytes.pop_back();
      }
      ++number_;
      return std::optional(std::move(line));
    }
  }
}

/// Returns the text of a line. The string of a JSON object is checked again, because an
/// escape can hold what the line cannot.
result<std::string> text_of_line(text_line line, const std::string& field) {
  if (line.too_long) {
    return no_document("a line of at most 16 MiB", "a longer one");
  }
  WEIR_CHECK(check_document_text(line.bytes, "line"));
  if (field.empty()) {
    return std::move(line.bytes);
  }
  field_events events(field);
  // Without a tree of values, so a long line takes no more memory than its text.
  (void)nlohmann::json::sax_parse(line.bytes, &events);
  WEIR_TRY(std::string text, events.take());
  WEIR_CHECK(check_document_text(text, "string"));
  return text;
}

}  // namespace weir::actors
