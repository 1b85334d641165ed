// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parser of Chrome traces: a handler of nlohmann's SAX interface.
///
/// The parser keeps one event at a time. It understands both forms of the format: a list
/// of events, or an object with the list under the key "traceEvents". Unknown keys and
/// events are passed over.
#include "drawing/trace_events.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

namespace weir::tools {

namespace {

using event_json = nlohmann::json;

/// Events of the engine have three levels below the list; other programs' have few more.
constexpr int max_depth = 8;

class event_parser {
 public:
  explicit event_parser(const std::function<void(const trace_event&)>& visit)
      : visit_(visit) {}

  [[nodiscard]] bool found_list() const { return found_list_; }
  /// Returns why parsing stopped, in words that continue "found".
  [[nodiscard]] const std::string& problem() const { return problem_; }

  // The members of the SAX interface. Each returns whether parsing should go on.
  // Values of these kinds have no meaning in an event.
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool binary(event_json::binary_t&) { return true; }
  bool number_integer(std::int64_t v) { return number(static_cast<double>(v), 0); }
  bool number_unsigned(std::uint64_t v) { return number(static_cast<double>(v), v); }
  bool number_float(double v, const std::string&) { return number(v, 0); }
  bool string(const std::string& text);
  bool key(const std::string& text) {
    key_ = text;
    return true;
  }
  // A brace in the list begins an event. A brace with the key "args" within an event
  // begins its arguments.
  bool start_object(std::size_t) {
    if (in_list()) {
      event_ = {};
    }
    in_arguments_ = in_event() && key_ == "args";
    return open();
  }
  // Arguments are at most one level deep here, so any closing brace ends them.
  bool end_object() {
    in_arguments_ = false;
    --depth_;
    // The closing brace of an event brings the parser back to the list.
    if (in_list()) {
      visit_(event_);
    }
    return true;
  }
  // Only the first list counts. The key is the last one that was read, so it names the
  // list.
  bool start_array(std::size_t) {
    const bool is_list = depth_ == 0 || (depth_ == 1 && key_ == "traceEvents");
    if (is_list && !found_list_) {
      found_list_ = true;
      list_depth_ = depth_ + 1;
    }
    return open();
  }
  // Closing the list itself means that no more events come.
  bool end_array() {
    list_depth_ = in_list() ? none : list_depth_;
    --depth_;
    return true;
  }
  // Called in place of throwing.
  bool parse_error(std::size_t position, const std::string&,
                   const event_json::exception&) {
    problem_ = fmt::format("no JSON from byte {} on", position);
    return false;
  }

 private:
  static constexpr int none = -1;

  /// Returns whether the innermost open bracket is that of the list of events.
  [[nodiscard]] bool in_list() const { return depth_ == list_depth_; }
  /// Returns whether the innermost open brace is that of an event.
  [[nodiscard]] bool in_event() const {
    return list_depth_ != none && depth_ == list_depth_ + 1;
  }
  // Deep nesting is refused, whatever the value, to bound the time and memory of the
  // library.
  bool open() {
    if (++depth_ > max_depth) {
      problem_ = "values within values too deeply";
    }
    return depth_ <= max_depth;
  }
  bool number(double value, std::uint64_t whole);

  const std::function<void(const trace_event&)>& visit_;
  trace_event event_;
  std::string key_;  ///< the last key that was read
  std::string problem_;
  int depth_ = 0;          ///< number of open brackets and braces
  int list_depth_ = none;  ///< depth inside the list of events, while that is open
  bool found_list_ = false;
  bool in_arguments_ = false;  ///< the innermost open brace is that of "args"
};

/// Stores a text in the member of the event that its key names.
bool event_parser::string(const std::string& text) {
  if (in_arguments_) {
    if (key_ == "name") {
      event_.argument_name = text;
    } else if (key_ == "waited_for_name") {
      event_.waited_for_name = text;
    }
  } else if (in_event()) {
    if (key_ == "name") {
      event_.name = text;
    } else if (key_ == "ph") {
      event_.phase = text;
    } else if (key_ == "cat") {
      event_.category = text;
    }
  }
  return true;
}

/// Stores a number. Identities need all 64 bits, which a double does not have.
/// @param whole  The number itself if it is natural, else 0.
bool event_parser::number(double value, std::uint64_t whole) {
  if (in_arguments_) {
    if (key_ == "id") {
      event_.id = whole;
    } else if (key_ == "waited_for") {
      event_.waited_for = whole;
    } else if (key_ == "pulse") {
      event_.pulse = whole;
    } else if (key_ == "submit") {
      event_.submitted = value;
    } else if (key_ == "ready") {
      event_.ready = value;
    }
  } else if (in_event()) {
    if (key_ == "ts") {
      event_.start = value;
    } else if (key_ == "dur") {
      event_.duration = value;
    } else if (key_ == "tid") {
      event_.thread = value;
    }
  }
  return true;
}

}  // namespace

/// Reads a trace event by event, so the JSON text is never in memory as a whole.
result<void> read_trace_events(const std::string& path,
                               const std::function<void(const trace_event&)>& visit) {
  std::ifstream file;
  // For standard input the file object stays unused.
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) {
      return system_error("open", path, errno);
    }
  }
  event_parser parser(visit);
  const bool parsed = event_json::sax_parse(path == "-" ? std::cin : file, &parser);
  // JSON without a list is no trace, even if it is sound.
  if (!parsed || !parser.found_list()) {
    return error(errc::corrupt,
                 fmt::format("cannot read trace \"{}\": expected a list of events in "
                             "JSON, found {}",
                             path, parsed ? "JSON without one" : parser.problem()))
        .hint("a run with run.trace = \"all\" or \"window\" writes trace.json");
  }
  return {};
}

}  // namespace weir::tools
