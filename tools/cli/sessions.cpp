// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir sessions`: turns of several sessions as lines of JSON.
///
/// Lines that have arrived together are answered together and share a checkpoint. An
/// answer is printed when its checkpoint is durable. A process may therefore be killed at
/// any time: each turn whose answer was seen is in the checkpoint, and a client asks any
/// other turn again by its number.
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.hpp"
#include "weir/actors/sessions.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::tools {

namespace {

using turn_json = nlohmann::json;

/// Largest line, in bytes. A longer one is answered with an error and not kept.
constexpr std::size_t max_turn_line = std::size_t{8} << 20;
/// Ids of a model that reads bytes, with the end of a text.
constexpr std::uint32_t max_byte_vocabulary = storage::end_of_text + 1;

/// A line of the input: a turn, or why it is none.
struct turn_line {
  std::uint64_t number = 0;  ///< of the line, from 1 on
  bool with_ids = false;     ///< the turn is given as ids, and so is its answer
  std::optional<result<actors::session_turn>> turn;
};

error line_error(std::uint64_t number, const std::string& text) {
  return error(errc::invalid_argument,
               fmt::format("cannot use line {}: {}", number, text));
}

/// Reads lines from a descriptor as they arrive.
class turn_input {
 public:
  explicit turn_input(int descriptor) : descriptor_(descriptor) {}

  /// Waits for a line and returns it, and all other lines that have come. The result is
  /// empty at the end of the input. A line without its end counts there.
  /// @error{io, a read failed}
  result<std::vector<std::string>> next() {
    while (lines_.empty() && !ended_) {
      WEIR_CHECK(read_more());
    }
    pollfd waiting{descriptor_, POLLIN, 0};
    while (!ended_ && lines_.size() < max_together && ::poll(&waiting, 1, 0) > 0) {
      WEIR_CHECK(read_more());
    }
    return std::exchange(lines_, {});
  }

 private:
  static constexpr std::size_t max_together = 1024;

  result<void> read_more() {
    std::string piece(std::size_t{64} << 10, '\0');
    const ssize_t got = ::read(descriptor_, piece.data(), piece.size());
    if (got < 0) {
      return errno == EINTR ? result<void>()
                            : error(errc::io, "cannot read standard input");
    }
    ended_ = got == 0;
    if (ended_ && !rest_.empty()) {
      lines_.push_back(std::exchange(rest_, {}));
    }
    for (const char c :
         std::string_view(piece).substr(0, static_cast<std::size_t>(got))) {
      if (c == '\n') {
        lines_.push_back(std::exchange(rest_, {}));
      } else if (rest_.size() <= max_turn_line) {
        rest_ += c;  // the first byte too many says that the line is too long
      }
    }
    return {};
  }

  int descriptor_;
  bool ended_ = false;
  std::string rest_;  ///< the line that has not ended
  std::vector<std::string> lines_;
};

/// Returns a value for an error message. Values with values in them are only named,
/// because they may be deep.
std::string shown_json(const turn_json& value) {
  return value.is_structured() ? std::string("an ") + value.type_name()
                               : value.dump(-1, ' ', true).substr(0, 60);
}

/// Takes an unsigned number of a turn.
result<std::uint64_t> number_of(const turn_json& value, const char* key) {
  if (!value.is_number_unsigned()) {
    return error(
        errc::invalid_argument,
        fmt::format("expected a whole number of at least 0 under \"{}\", found {}", key,
                    shown_json(value)));
  }
  return value.get<std::uint64_t>();
}

result<bool> flag_of(const turn_json& value, const char* key) {
  if (!value.is_boolean()) {
    return error(errc::invalid_argument,
                 fmt::format("expected true or false under \"{}\", found {}", key,
                             shown_json(value)));
  }
  return value.get<bool>();
}

/// Takes the ids of a turn. Ids of 32 bits are compared with those of the model later.
result<std::vector<std::uint32_t>> ids_of(const turn_json& value,
                                          std::uint32_t vocabulary) {
  std::vector<std::uint32_t> out;
  if (!value.is_array()) {
    return error(errc::invalid_argument, "expected an array of ids under \"ids\"");
  }
  for (const turn_json& id : value) {
    WEIR_TRY(const std::uint64_t number, number_of(id, "ids"));
    if (number > std::numeric_limits<std::uint32_t>::max()) {
      return error(errc::invalid_argument,
                   fmt::format("expected ids below {}, found {} as token {}", vocabulary,
                               number, out.size()));
    }
    out.push_back(static_cast<std::uint32_t>(number));
  }
  return out;
}

/// Takes one member of a turn.
result<void> take_member(const std::string& key, const turn_json& value,
                         std::uint32_t vocabulary, turn_line& to,
                         actors::session_turn& turn) {
  if (key == "session" || key == "text") {
    if (!value.is_string()) {
      return error(errc::invalid_argument,
                   fmt::format("expected a string under \"{}\"", key));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (key == "session") {
      turn.session = text;
      return {};
    }
    if (vocabulary > max_byte_vocabulary) {
      return error(errc::invalid_argument,
                   "expected \"ids\", because the model reads ids of a tokenizer, found "
                   "\"text\"; `weir tokens encode` makes ids");
    }
    turn.tokens.assign(reinterpret_cast<const unsigned char*>(text.data()),
                       reinterpret_cast<const unsigned char*>(text.data()) + text.size());
    return {};
  }
  if (key == "ids") {
    to.with_ids = true;
    WEIR_TRY(turn.tokens, ids_of(value, vocabulary));
  } else if (key == "tokens") {
    WEIR_TRY(turn.answer_tokens, number_of(value, "tokens"));
  } else if (key == "seed") {
    WEIR_TRY(turn.seed, number_of(value, "seed"));
  } else if (key == "turn") {
    WEIR_TRY(turn.number, number_of(value, "turn"));
  } else if (key == "temperature" && value.is_number()) {
    turn.temperature = value.get<double>();
  } else if (key == "reset" || key == "close") {
    WEIR_TRY(const bool on, flag_of(value, key.c_str()));
    if (on) {
      turn.kind = key == "reset" ? actors::turn_kind::reset : actors::turn_kind::close;
    }
  } else {
    return error(errc::unknown_key,
                 fmt::format("expected the keys session, text, ids, tokens, temperature, "
                             "seed, turn, reset and close, found {} with {}",
                             json_quote(key), shown_json(value)));
  }
  return {};
}

result<actors::session_turn> parse_turn(const std::string& line, std::uint32_t vocabulary,
                                        turn_line& to) {
  if (line.size() > max_turn_line) {
    return line_error(
        to.number, fmt::format("expected at most {} bytes, found more", max_turn_line));
  }
  const turn_json value = turn_json::parse(line, nullptr, false);
  if (!value.is_object()) {
    return line_error(to.number, "expected a JSON object in UTF-8, found another text");
  }
  actors::session_turn turn;
  for (const auto& [key, member] : value.items()) {
    if (auto taken = take_member(key, member, vocabulary, to, turn); !taken) {
      return line_error(to.number, taken.error().text());
    }
  }
  if (value.contains("text") && to.with_ids) {
    return line_error(to.number, "expected \"text\" or \"ids\", found both");
  }
  if (turn.kind != actors::turn_kind::text &&
      (!turn.tokens.empty() || turn.answer_tokens != 0)) {
    return line_error(to.number,
                      "expected no text and no tokens beside \"reset\" and "
                      "\"close\", found some");
  }
  return turn;
}

/// Returns an answer as a line of JSON. Bytes that are no UTF-8 are given as ids too.
std::string answer_text(const actors::session_answer& answer, bool with_ids) {
  std::string out = fmt::format("{{\"session\": {}, \"turn\": {}",
                                json_quote(answer.session), answer.turn);
  if (answer.kind == actors::turn_kind::text) {
    std::string text;
    for (const std::uint32_t id : answer.tokens) {
      text += id == storage::end_of_text ? '\n' : static_cast<char>(id);
    }
    if (!with_ids) {
      out += fmt::format(", \"text\": {}", json_quote(text));
    }
    if (with_ids || !is_utf8(text)) {
      out += fmt::format(", \"ids\": [{}]", fmt::join(answer.tokens, ", "));
    }
  } else {
    out += answer.kind == actors::turn_kind::reset ? ", \"reset\": true"
                                                   : ", \"close\": true";
  }
  return out +
         fmt::format(", \"position\": {}, \"repeated\": {}, \"seconds\": {:.6f}}}\n",
                     answer.position, answer.repeated, answer.seconds);
}

std::string unanswered_text(const turn_line& line, const error& why) {
  std::string session;
  if (line.turn && *line.turn) {
    session = fmt::format("\"session\": {}, ", json_quote((*line.turn)->session));
  }
  return fmt::format("{{{}\"line\": {}, \"code\": \"{}\", \"error\": {}}}\n", session,
                     line.number, name_of(why.code()), json_quote(why.text()));
}

/// Answers lines and prints the answers when they are durable. Turns of one session are
/// answered one after another.
class session_lines {
 public:
  session_lines(actors::session_group& group, output& out) : group_(group), out_(out) {}

  result<void> take(const std::vector<std::string>& lines) {
    for (const std::string& text : lines) {
      turn_line line;
      line.number = ++number_;
      if (text.empty()) {
        continue;
      }
      line.turn = parse_turn(text, group_.vocabulary(), line);
      if (*line.turn && !names_.insert((*line.turn)->session).second) {
        WEIR_CHECK(answer());
        names_.insert((*line.turn)->session);
      }
      waiting_.push_back(std::move(line));
    }
    return answer();
  }
  /// Prints how long turns took: the median, the slowest of a hundred, and the slowest.
  void print_times() const {
    if (seconds_.empty()) {
      return;
    }
    std::vector<double> sorted(seconds_.begin(), seconds_.end());
    std::sort(sorted.begin(), sorted.end());
    const auto quantile = [&](double share) {
      return 1e3 * sorted[static_cast<std::size_t>(
                       share * static_cast<double>(sorted.size() - 1))];
    };
    print_notes(
        {fmt::format("{} turns, {} sessions; of the last {} turns, {:.1f} ms at "
                     "the median, {:.1f} ms at 99 %, {:.1f} ms at most",
                     turns_, group_.sessions().size(), sorted.size(), quantile(0.5),
                     quantile(0.99), quantile(1))});
  }

 private:
  /// Number of turns whose times are kept.
  static constexpr std::size_t max_times = std::size_t{1} << 16;

  result<void> answer() {
    std::vector<actors::session_turn> turns;
    for (const turn_line& line : waiting_) {
      if (*line.turn) {
        turns.push_back(**line.turn);
      }
    }
    WEIR_TRY(auto answers, group_.answer(turns));
    WEIR_CHECK(group_.save());
    auto next = answers.begin();
    for (const turn_line& line : waiting_) {
      if (!*line.turn) {
        out_.write(unanswered_text(line, line.turn->error()));
        continue;
      }
      const auto& one = *next++;
      if (one && !one->repeated) {
        ++turns_;
        seconds_.push_back(one->seconds);
        if (seconds_.size() > max_times) {
          seconds_.pop_front();
        }
      }
      out_.write(one ? answer_text(*one, line.with_ids ||
                                             group_.vocabulary() > max_byte_vocabulary)
                     : unanswered_text(line, one.error()));
    }
    out_.flush();
    waiting_.clear();
    names_.clear();
    return {};
  }

  actors::session_group& group_;
  output& out_;
  std::uint64_t number_ = 0;        ///< lines so far
  std::vector<turn_line> waiting_;  ///< lines that are answered together
  std::set<std::string> names_;     ///< their sessions
  std::uint64_t turns_ = 0;         ///< turns that were answered
  std::deque<double> seconds_;      ///< times of the newest of them
};

}  // namespace

command_result sessions_command(const sessions_options& options, output& out) {
  // A refused option leaves no folder.
  WEIR_CHECK(models::check_instruction_set(options.kernels));
  actors::session_options group_options;
  group_options.folder = options.folder;
  group_options.from = options.from;
  group_options.tag = options.tag;
  group_options.limit = options.limit;
  group_options.kernels = options.kernels;
  WEIR_TRY(const auto group, actors::session_group::open(group_options));
  if (!group->problem().empty()) {
    print_notes({group->problem()});
  }
  turn_input input(STDIN_FILENO);
  session_lines lines(*group, out);
  for (;;) {
    WEIR_TRY(const auto more, input.next());
    if (more.empty()) {
      break;
    }
    WEIR_CHECK(lines.take(more));
    if (out.lost()) {
      break;  // nobody reads the answers; `close` of the output reports it
    }
  }
  lines.print_times();
  return 0;
}

}  // namespace weir::tools
