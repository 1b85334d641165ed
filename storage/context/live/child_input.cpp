// SPDX-License-Identifier: Apache-2.0
/// @file
/// Documents of a child process as tokens, by the protocol of
/// docs/formats/child-source.md.
///
/// The child sends documents and, between them, states of its own. A checkpoint keeps
/// the last state before its position and how many tokens follow it; after a resume the
/// child goes on at that state, and the tokens that are known are compared and left out.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "context/live/child.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

namespace {

using json = nlohmann::json;

constexpr std::uint32_t child_state_version = 1;
/// Bytes that the child may send ahead of what was read.
constexpr std::int64_t full_credit = std::int64_t{256} << 10;
/// Largest state of a child, so that the state of the source stays below 1 MiB. Several
/// children in a mixture stay below `max_source_state`.
constexpr std::size_t max_state = (std::size_t{1} << 20) - 1024;
/// Number of documents among which an identifier must not occur twice. Older identifiers
/// are forgotten, so memory stays bounded.
constexpr std::size_t recent_documents = 1024;
/// Largest depth of objects and arrays of a line.
constexpr std::size_t max_json_depth = 64;
/// Smallest number of tokens between two states that are kept. A child may send a state
/// with every token, and each one may be large.
constexpr std::uint64_t state_distance = 4096;

/// A place at which the child can go on.
struct restart {
  std::uint64_t index = 0;  ///< first token behind it, with the separator
  std::string state;        ///< JSON text; empty: the beginning
  /// Hash of the identifier of the first document behind it; 0: it has none.
  std::uint64_t first_id = 0;
  bool followed = false;  ///< a document has come behind it
};

/// Returns whether objects and arrays of a JSON text are nested at most `max_json_depth`
/// deep. The functions that write a value again call themselves for each level.
bool is_shallow(std::string_view text) {
  std::size_t depth = 0;
  bool inside = false;  // of a string
  for (std::size_t i = 0; i < text.size() && depth <= max_json_depth; ++i) {
    const char c = text[i];
    // A quote, unless a backslash stands in front of it.
    if (c == '"') {
      inside = !inside;
    } else if (inside) {
      // Passes over the escaped character.
      i += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return depth <= max_json_depth;
}

/// One child process. All methods are called by the thread that reads the source.
class child_input final : public live_input {
 public:
  child_input(std::unique_ptr<line_child> child, const live_options& options)
      : child_(std::move(child)), options_(options), begin_ns_(now_ns()) {}

  // Turns and documents need the separator as a further id.
  std::uint32_t vocabulary() const noexcept override {
    return options_.turns || options_.separate_documents ? separator() + 1
                                                         : options_.vocabulary;
  }
  std::uint32_t separator() const noexcept override {
    return child_separator(options_.vocabulary);
  }
  // Takes one line per call. The credit limits what the child may send ahead; half of it
  // must be used before more is granted, so that few lines go back.
  result<bool> receive(live_window& to, std::size_t, int wait_ms) override {
    WEIR_TRY(const auto line,
             child_->next_line(greeted_ ? wait_ms : hello_wait(wait_ms)));
    if (!line) {
      // A child that is silent after its greeting may take any time.
      return greeted_ || now_ns() - begin_ns_ < hello_ns()
                 ? result<bool>(true)
                 : error(errc::timeout,
                         fmt::format("cannot use {}: expected {{\"hello\": 1}} within {} "
                                     "ms, found no line",
                                     child_->name(), options_.hello_ms));
    }
    ++lines_;
    if (!is_shallow(*line)) {
      return bad(fmt::format("values nested at most {} deep", max_json_depth), *line);
    }
    // Invalid JSON gives a value that is no object.
    const json message = json::parse(*line, nullptr, false);
    if (!message.is_object()) {
      return bad("a JSON object in UTF-8", *line);
    }
    credit_ -= static_cast<std::int64_t>(line->size() + 1);
    WEIR_TRY(const bool more,
             greeted_ ? take(to, message, *line) : greet(message, *line));
    if (greeted_ && more && credit_ < full_credit / 2) {
      child_->send(fmt::format("{{\"more\": {}}}", full_credit - credit_));
      credit_ = full_credit;
    }
    return more;
  }

  /// Takes the last place before `index`. A place at `index` itself may not have arrived
  /// yet, and a state must not depend on that.
  result<byte_vector> state(std::uint64_t index) const override {
    const auto behind = std::lower_bound(
        // The places are sorted by index.
        restarts_.begin(), restarts_.end(), index,
        [](const restart& one, std::uint64_t i) { return one.index < i; });
    const restart& from = behind == restarts_.begin() ? *behind : *std::prev(behind);
    record_writer out;
    out.put(child_state_version);
    // Tokens to leave out behind the state.
    out.put(index - from.index);
    out.put(index > from.index ? from.first_id : 0);
    out.put(dataset_);
    out.put_text(from.state);
    return std::move(out).take();
  }
  /// Without a state the child begins at its beginning, and everything before `index` is
  /// left out.
  result<void> restore(std::uint64_t index, bytes_view state) override {
    restart from;
    if (!state.empty()) {
      record_reader in(state);
      const auto version = in.get<std::uint32_t>();
      const auto skip = in.get<std::uint64_t>();
      expected_id_ = in.get<std::uint64_t>();
      expected_dataset_ = in.get<std::uint64_t>();
      from.state = in.get_text();
      if (in.failed() || !in.rest().empty() || version != child_state_version ||
          // More tokens than there are cannot be left out.
          skip > index) {
        return error(
            errc::corrupt,
            fmt::format("cannot use the stored state of {}: expected version {} "
                        "and at most {} tokens to leave out, found version {} "
                        "and {}",
                        child_->name(), child_state_version, index, version, skip));
      }
      from.index = index - skip;
    }
    // The first token that the child will send.
    at_ = from.index;
    restarts_ = {std::move(from)};
    return {};
  }
  /// The last place before `index` stays.
  void forget(std::uint64_t index) override {
    while (restarts_.size() > 1 && restarts_[1].index < index) {
      restarts_.pop_front();
    }
  }

 private:
  [[nodiscard]] std::int64_t hello_ns() const {
    return std::int64_t{options_.hello_ms} * 1'000'000;
  }
  /// Waits no longer than for the announcement.
  [[nodiscard]] int hello_wait(int wait_ms) const {
    const std::int64_t left = (hello_ns() - (now_ns() - begin_ns_)) / 1'000'000 + 1;
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, wait_ms));
  }
  // Shows the begin of the line, with unprintable characters escaped.
  [[nodiscard]] error bad(std::string_view expected, std::string_view line) const {
    constexpr std::size_t shown = 80;
    const std::string text =
        json(line.substr(0, shown)).dump(-1, ' ', true, json::error_handler_t::replace);
    return error(
        errc::corrupt,
        fmt::format("cannot use line {} of {}: expected {}, found {}{}", lines_,
                    child_->name(), expected, text, line.size() > shown ? "..." : ""));
  }
  /// Takes the first line, and tells the child where to begin.
  ///
  /// The first line names the protocol and may name the data. The answer is the place to
  /// begin and the first credit.
  result<bool> greet(const json& message, const std::string& line) {
    const auto version = message.find("hello");
    if (version == message.end()) {
      return bad("{\"hello\": 1}", line);
    }
    if (*version != 1) {
      return error(errc::unsupported_version,
                   fmt::format("cannot use {}: expected protocol 1, found {}",
                               child_->name(), version->dump()));
    }
    const auto dataset = message.find("dataset");
    dataset_ = dataset == message.end() ? 0 : xxh3_64(as_view(dataset->dump()));
    // A run cannot go on with other data.
    if (expected_dataset_ != 0 && dataset_ != expected_dataset_) {
      return error(errc::history_mismatch,
                   fmt::format("cannot go on with {}: expected the data set that the run "
                               "began with, found {}",
                               child_->name(),
                               dataset == message.end() ? "none" : dataset->dump()));
    }
    greeted_ = true;
    const std::string& state = restarts_.front().state;
    // Null means the beginning.
    child_->send(fmt::format("{{\"seek\": {}}}", state.empty() ? "null" : state));
    child_->send(fmt::format("{{\"more\": {}}}", full_credit));
    credit_ = full_credit;
    return true;
  }
  /// Takes any other line. Returns false at the end.
  ///
  /// A line has one meaning; the first key that is found decides.
  result<bool> take(live_window& to, const json& message, const std::string& line) {
    if (message.contains("text") || message.contains("ids")) {
      WEIR_CHECK(take_document(to, message, line));
      return true;
    }
    if (const auto state = message.find("state"); state != message.end()) {
      WEIR_CHECK(keep_state(*state));
      return true;
    }
    if (message.contains("reset")) {
      // A reset before the tokens that are known already was taken before.
      if (at_ >= to.end()) {
        to.add_reset(at_);
      }
      return true;
    }
    if (message.contains("end")) {
      return false;
    }
    return bad("one of text, ids, state, reset and end", line);
  }
  /// Keeps a state, unless it is near the last one. That depends on the states that the
  /// child sends alone, so a resumed run keeps the same ones. The text of the state is
  /// kept as it is and sent back to the child.
  result<void> keep_state(const json& state) {
    restart here{at_, state.dump(), 0, false};
    if (here.state.size() > max_state) {
      return error(errc::out_of_range,
                   fmt::format("cannot keep the state of {}: expected at most {} bytes "
                               "as JSON, found {}",
                               child_->name(), max_state, here.state.size()));
    }
    const restart& last = restarts_.back();
    const bool first = last.state.empty();
    // The first state is kept in any case.
    if (!first && at_ - last.index < state_distance) {
      return {};
    }
    // Of two states at one place the newer counts.
    if (last.index == at_) {
      restarts_.pop_back();
    }
    restarts_.push_back(std::move(here));
    return {};
  }
  // A separator stands before each document but the first, or behind each turn.
  result<void> take_document(live_window& to, const json& message,
                             const std::string& line) {
    std::vector<std::uint32_t> tokens;
    if (at_ != 0 && !options_.turns && options_.separate_documents) {
      tokens.push_back(separator());
    }
    WEIR_CHECK(add_tokens(tokens, message, line));
    if (options_.turns) {
      tokens.push_back(separator());
    }
    WEIR_CHECK(note_document(message));
    WEIR_CHECK(to.put(at_, tokens));
    at_ += tokens.size();
    return {};
  }
  // A document is a text, whose bytes become tokens, or a list of ids.
  result<void> add_tokens(std::vector<std::uint32_t>& tokens, const json& message,
                          const std::string& line) const {
    if (const auto text = message.find("text"); text != message.end()) {
      if (!text->is_string()) {
        return bad("a text", line);
      }
      for (const char c : text->get_ref<const std::string&>()) {
        tokens.push_back(static_cast<unsigned char>(c));
        if (tokens.back() >= options_.vocabulary) {
          return bad(fmt::format("a text of bytes below {}", options_.vocabulary), line);
        }
      }
      return {};
    }
    const json& ids = message.at("ids");
    if (!ids.is_array()) {
      return bad("an array of ids", line);
    }
    for (const json& id : ids) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= options_.vocabulary) {
        return bad(fmt::format("ids below {}", options_.vocabulary), line);
      }
      tokens.push_back(id.get<std::uint32_t>());
    }
    return {};
  }
  /// Refuses a document that has come before, and after a resume another document than
  /// the one that was consumed in part.
  result<void> note_document(const json& message) {
    // Identifiers may be any JSON value; their text is hashed.
    const auto found = message.find("doc");
    const std::string text = found == message.end() ? "none" : found->dump();
    const std::uint64_t id = found == message.end() ? 0 : xxh3_64(as_view(text));
    if (const std::uint64_t expected = std::exchange(expected_id_, 0);
        expected != 0 && expected != id) {
      return error(errc::history_mismatch,
                   fmt::format("cannot go on with {}: expected the document at which the "
                               "run had stopped, found {}",
                               child_->name(), text));
    }
    // The first document behind the newest state is kept with it.
    if (restart& last = restarts_.back(); !std::exchange(last.followed, true)) {
      last.first_id = id;
    }
    // Documents without an identifier are not compared.
    if (id == 0) {
      return {};
    }
    if (std::find(recent_.begin(), recent_.end(), id) != recent_.end()) {
      return error(errc::corrupt,
                   fmt::format("cannot use line {} of {}: expected a new document, found "
                               "{} again",
                               lines_, child_->name(), text))
          .hint("leave \"doc\" out if documents have no identifiers");
    }
    recent_.push_back(id);
    if (recent_.size() > recent_documents) {
      recent_.pop_front();
    }
    return {};
  }

  std::unique_ptr<line_child> child_;
  live_options options_;
  std::int64_t begin_ns_;
  bool greeted_ = false;
  std::uint64_t lines_ = 0;
  std::int64_t credit_ = 0;    ///< bytes that the child may still send
  std::uint64_t at_ = 0;       ///< index of the next token that the child sends
  std::uint64_t dataset_ = 0;  ///< hash of what it says about its data; 0: nothing
  std::deque<restart> restarts_ = std::deque<restart>(1);  ///< ascending, never empty
  std::deque<std::uint64_t> recent_;                       ///< hashes of identifiers
  std::uint64_t expected_id_ = 0;       ///< of the first document; 0: any
  std::uint64_t expected_dataset_ = 0;  ///< 0: any
};

}  // namespace

/// Starts the process at once. Its first line is read by the first read of the source.
result<std::unique_ptr<token_source>> open_child_source(std::vector<std::string> command,
                                                        const live_options& options) {
  if (command.empty()) {
    return error(errc::invalid_argument,
                 "cannot start a child process: expected a program, found none");
  }
  // The separator is an id behind the others, and the number above it needs 32 bits, too.
  constexpr std::uint32_t max_vocabulary = 0xffff'fffe;
  if (options.vocabulary > max_vocabulary) {
    return error(errc::invalid_argument,
                 fmt::format("cannot start the child process \"{}\": expected at most {} "
                             "distinct ids, found vocabulary = {}",
                             command.front(), max_vocabulary, options.vocabulary));
  }
  WEIR_TRY(auto child, line_child::start(std::move(command)));
  return make_live_source(std::make_unique<child_input>(std::move(child), options),
                          "child", "child", options.turns);
}

}  // namespace weir::storage
