// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `json.read`: lines of JSON as items.
///
/// Bytes are collected in a buffer until it has a whole line. The limit `longest` applies
/// before the end of the line has come, so a file without line ends cannot fill the
/// memory. Blank lines make no item. The position is that behind the last line that made
/// an item.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "stages/files/factories.hpp"
#include "stages/files/json_line.hpp"
#include "stages/source_parts.hpp"
#include "tensogram/byte_pipe.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view json_read_name = "json.read";
/// Bytes that are read at a time. @units{bytes}
constexpr std::size_t read_piece = std::size_t{64} << 10;
/// Time for which a pull waits for bytes of a pipe.
constexpr std::chrono::milliseconds line_wait{50};

/// See the table for the meaning of each.
struct json_read_settings {
  std::string path;
  std::string type;
  std::string field = "x";
  bool attributes = true;
  std::uint64_t longest = std::uint64_t{1} << 20;
};

settings_table<json_read_settings> json_read_table() {
  settings_table<json_read_settings> table("the source json.read");
  table
      .add("path", &json_read_settings::path,
           "a file of lines, a pipe, or - for standard input")
      .required()
      .path(path_use::input);
  table.add("type", &json_read_settings::type, "type of the tensors, such as f32[n,4]")
      .required()
      .rule("that is a type of a port with elements f32, f64, i8 to i64 or u8 to u64",
            [](const std::string& text) {
              const auto type = flow::port_type::parse(text);
              return type && type->element && is_json_number(*type->element);
            });
  table.add("field", &json_read_settings::field,
            "name of the numbers in an object; a line that is an array needs none");
  table.add("attributes", &json_read_settings::attributes,
            "true: other scalars of an object become attributes");
  table
      .add("longest", &json_read_settings::longest,
           "largest length of a line; a longer one is an error before memory is taken")
      .range(1, std::int64_t{1} << 32)
      .unit("bytes");
  return table;
}

/// Position of the source.
struct line_cursor {
  std::uint64_t items = 0;
  std::uint64_t lines = 0;  ///< lines so far, with blank ones
  read_block last;          ///< the last line
};

/// Owns the file or the pipe, and is used by one I/O host.
class json_read final : public flow::stage_object {
 public:
  json_read(json_read_settings settings, flow::port_type type, file_system& fs)
      : settings_(std::move(settings)), type_(std::move(type)), fs_(fs) {}

  /// A pipe is opened without waiting for its writer.
  result<void> open(opening& run) override {
    path_ = path_of(run, settings_.path);
    // A pipe is recognised by its kind and not by its name alone.
    if (is_pipe(path_)) {
      WEIR_TRY(pipe_, open_pipe_to_read(path_, line_wait));
      return {};
    }
    WEIR_TRY(file_, fs_.open(path_, open_mode::read));
    return {};
  }
  /// Makes an item of the next line that is not blank.
  result<bool> next(pull& p) override {
    for (;;) {
      const std::optional<std::size_t> end = line_length();
      // Either a whole line, or the part of it that has come so far.
      if (end.value_or(rest().size()) > settings_.longest) {
        return at_line(too_long());
      }
      // No end of a line yet: more bytes, or nothing for the moment.
      if (!end) {
        WEIR_TRY(const bool came, fill());
        if (!came) {
          p.nothing_yet();
          return true;
        }
        continue;
      }
      // The end of the data, with nothing behind the last line.
      if (*end == 0) {
        return false;
      }
      // A blank line makes no item, and the loop goes on.
      WEIR_TRY(const bool made, take_line(p, *end));
      if (made) {
        return true;
      }
    }
  }
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(at_);
  }
  /// Continues behind the last line of the cursor, which must be the same as before.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto where, record_of<line_cursor>(stored, json_read_name, "cursor"));
    if (where.items == 0) {
      return {};
    }
    // What was read from a pipe cannot be read again.
    if (pipe_) {
      return error(errc::unsupported,
                   fmt::format("cannot continue json.read behind line {} of \"{}\": "
                               "expected a file, found a pipe",
                               where.lines, path_))
          .hint("write what arrives to a file first");
    }
    // The bytes of the last line are compared by their digest.
    WEIR_TRY(const std::uint64_t size, file_->size());
    WEIR_CHECK(verify_block(where.last, size, json_read_name, path_,
                            [&](std::uint64_t offset, mutable_bytes to) {
                              return read_exactly(*file_, offset, to);
                            }));
    at_ = where;
    // Reading goes on behind the last line.
    offset_ = received_ = where.last.end;
    return {};
  }

 private:
  /// Returns the bytes that no item was made of yet.
  [[nodiscard]] std::string_view rest() const {
    return std::string_view(buffer_).substr(begin_);
  }
  /// Returns the number of bytes of the next line with its end: 0 at the end of the data,
  /// and nothing if more must be read first.
  // Bytes that were searched before need not be searched again.
  std::optional<std::size_t> line_length() {
    const std::size_t found = rest().find('\n', searched_);
    if (found != std::string_view::npos) {
      return found + 1;
    }
    searched_ = rest().size();
    // A last line without an end counts as one.
    return ended_ ? std::optional(searched_) : std::nullopt;
  }
  /// Reads on. Returns false if a pipe has no bytes now.
  // The buffer loses the lines that were used first.
  result<bool> fill() {
    buffer_.erase(0, std::exchange(begin_, 0));
    const std::size_t before = buffer_.size();
    buffer_.resize(before + read_piece);
    const mutable_bytes to = std::as_writable_bytes(std::span(buffer_)).subspan(before);
    result<std::optional<std::size_t>> got = std::optional<std::size_t>();
    if (pipe_) {
      got = pipe_->read_some(to);
    } else if (auto count = file_->read_some(received_, to); count) {
      got = std::optional(*count);
    } else {
      got = std::move(count.error());
    }
    // On failure too, the buffer has only bytes that were read.
    buffer_.resize(before + (got ? got->value_or(0) : 0));
    WEIR_CHECK(got);
    if (!*got) {
      return false;
    }
    // A read of 0 bytes is the end of a file, and of a pipe whose writers have gone.
    ended_ = **got == 0;
    received_ += **got;
    return true;
  }
  /// Makes an item of the next line. Returns false if the line is blank.
  result<bool> take_line(pull& p, std::size_t end) {
    const std::string_view line = rest().substr(0, end);
    bool made = false;
    // A line of blanks alone is left out.
    if (line.find_first_not_of(" \t\r\n") != std::string_view::npos) {
      auto item = parse_json_line(line, type_, settings_.field);
      if (!item) {
        return at_line(std::move(item.error()));
      }
      const auto x = p.fill_bytes(0, *type_.element, item->shape);
      if (!x) {
        return at_line(x.error());
      }
      // The type of the outlet has the last word about the shape, in `fill_bytes`.
      std::copy(item->elements.begin(), item->elements.end(), x->data());
      if (settings_.attributes) {
        attribute_collector about(p.emitted());
        for (const auto& [name, value] : item->about) {
          about.add(name, value);
        }
      }
      made = true;
    }
    // The state changes only after everything has succeeded.
    offset_ += end;
    ++at_.lines;
    if (made) {
      ++at_.items;
      at_.last = {offset_, end, xxh3_64(as_view(line))};
    }
    // The bytes stay in the buffer until the next read.
    begin_ += end;
    searched_ = 0;
    return made;
  }
  /// Error of a line that is longer than the limit.
  [[nodiscard]] error too_long() const {
    return error(errc::out_of_range,
                 fmt::format("cannot read a line of JSON: expected at most {} bytes, "
                             "found more",
                             settings_.longest))
        .hint("set longest to a larger number");
  }
  /// Adds the number of the line and its place in the file.
  [[nodiscard]] error at_line(error cause) const {
    const errc code = cause.code();
    return error(code, fmt::format("cannot read line {}", at_.lines + 1))
        .located(fmt::format("{}:{}", path_, offset_))
        .because(std::move(cause));
  }

  json_read_settings settings_;
  flow::port_type type_;
  file_system& fs_;
  std::string path_;
  std::unique_ptr<file> file_;       ///< null for a pipe
  std::unique_ptr<byte_pipe> pipe_;  ///< null for a file
  std::string buffer_;               ///< bytes that were read
  std::size_t begin_ = 0;            ///< of the next line in the buffer
  std::size_t searched_ = 0;         ///< bytes behind it without an end of a line
  std::uint64_t received_ = 0;       ///< bytes read
  std::uint64_t offset_ = 0;         ///< of the next line
  bool ended_ = false;               ///< nothing follows the buffer
  line_cursor at_;
};

/// Further paragraphs of the reference of `json.read`.
constexpr std::string_view json_read_details =
    R"(Outlet `x` has the type of the setting. A line is an array of numbers, or an
object with one under the name `field`; a scalar type takes a single number. Arrays are
nested as deep as the type has dimensions, or flat if all its extents are fixed. Integer
types take integers of their range; `null` is NaN. Blank lines are left out. A damaged
line is an error with its number and offset.

Attributes: the other texts, numbers and booleans of the object, as far as they fit into
256 bytes. The cursor holds the number of lines, and offset, length and XXH3 digest of
the last one. A pipe cannot be continued, so its guarantee is "none".)";

/// A small pipeline with `json.read`.
constexpr std::string_view json_read_example = R"([[stage]]
name = "lines"
use = "json.read"
path = "in.jsonl"
type = "f64[4]"

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// Makes the stage: reads the settings, and describes its outlet and its promise.
result<void> make_json_read(flow::described_stage& made, const given_settings& given,
                            file_system& fs) {
  made.info = source_info(std::string(json_read_name),
                          "reads lines of JSON with numbers, each as an item");
  made.info.details = json_read_details;
  made.info.example = json_read_example;
  WEIR_TRY(json_read_settings settings,
           flow::read_settings(made.info, json_read_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", type, false}};
  // A pipe cannot be continued after a restart.
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::none;
  }
  made.object = std::make_unique<json_read>(std::move(settings), std::move(type), fs);
  return {};
}

}  // namespace weir::actors
