// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs `weir chat`.
///
/// The program has one thread that reads a line, has the conversation answer it, and
/// prints the pieces as they come. SIGINT does not end the program: the handler adds one
/// to an event counter (eventfd), which the thread asks for after each piece of an
/// answer, and waits for together with the input. Errors of a single line are printed and
/// the conversation goes on; other errors end the program.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <random>
#include <utility>

#include "texts/conversation.hpp"
#include "texts/load.hpp"
#include "texts/verbs.hpp"
#include "weir/base/utf8.hpp"

namespace weir::tools {

namespace {

/// Longest line of the input. @units{bytes}
constexpr std::size_t max_turn_bytes = std::size_t{1} << 20;

/// Counts the signals that came. A descriptor, so that a thread that waits for input sees
/// a signal that came just before it began to wait, on whatever thread.
int interrupts = -1;

/// Runs as a signal handler, on any thread, so it calls only `write`, which is safe
/// there, and restores `errno`. A counter that is full already says that a signal came.
void note_interrupt(int /*signal*/) {
  const int before = errno;
  const std::uint64_t one = 1;
  (void)!::write(interrupts, &one, sizeof one);
  errno = before;
}

/// Makes SIGINT stop an answer, or a line that is being read, as long as it lives.
class interrupt_scope {
 public:
  /// Must be called once. The descriptor does not block, so that `take` can ask without
  /// waiting.
  /// @error{io, no descriptor is left}
  [[nodiscard]] result<void> open() {
    interrupts = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (interrupts < 0) {
      return system_error("open", "a counter of signals", errno);
    }
    struct sigaction handler {};
    handler.sa_handler = &note_interrupt;
    // Calls of other code are restarted after the signal. `poll` is never restarted, so a
    // wait for input ends.
    handler.sa_flags = SA_RESTART;
    ::sigemptyset(&handler.sa_mask);
    ::sigaction(SIGINT, &handler, &before_);
    return {};
  }
  interrupt_scope() = default;
  ~interrupt_scope() {
    if (interrupts >= 0) {
      ::sigaction(SIGINT, &before_, nullptr);
      ::close(std::exchange(interrupts, -1));
    }
  }
  interrupt_scope(const interrupt_scope&) = delete;
  interrupt_scope& operator=(const interrupt_scope&) = delete;

  /// Returns whether the signal came since the last call.
  static bool take() {
    std::uint64_t count = 0;
    return ::read(interrupts, &count, sizeof count) > 0;
  }
  /// Waits until standard input can be read or the signal has come.
  static void wait_for_input() {
    std::array<struct pollfd, 2> both{
        {{STDIN_FILENO, POLLIN, 0}, {interrupts, POLLIN, 0}}};
    while (::poll(both.data(), both.size(), -1) < 0 && errno == EINTR) {
    }
  }

 private:
  struct sigaction before_ {};
};

/// A line of the input, or the reason why there is none.
struct input_line {
  enum class kind : std::uint8_t { text, too_long, interrupted, end };
  kind is = kind::text;
  std::string text;
};

/// Reads lines of standard input, so that a signal is seen while it waits.
class line_input {
 public:
  // Returns the next line without its end. A line whose end is missing at the end of the
  // input is returned too. A signal drops what was typed so far of a line. Bytes beyond
  // the end of a line stay for the next call. Of a line that is too long, the bytes are
  // dropped as they come.
  result<input_line> next() {
    for (;;) {
      if (const std::size_t end = bytes_.find('\n'); end != std::string::npos) {
        input_line line = take_line(bytes_.substr(0, end));
        bytes_.erase(0, end + 1);
        return line;
      }
      if (bytes_.size() > max_turn_bytes) {
        too_long_ = true;
        bytes_.clear();
      }
      interrupt_scope::wait_for_input();
      if (interrupt_scope::take()) {
        // The terminal has dropped the rest of the line, too.
        bytes_.clear();
        too_long_ = false;
        return input_line{input_line::kind::interrupted, {}};
      }
      // Input or the end of the input is there, so this call does not wait.
      char block[4096];
      const ::ssize_t got = ::read(STDIN_FILENO, block, sizeof block);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return system_error("read", "standard input", errno);
      }
      if (got == 0) {
        if (bytes_.empty() && !too_long_) {
          return input_line{input_line::kind::end, {}};
        }
        return take_line(std::exchange(bytes_, {}));
      }
      bytes_.append(block, static_cast<std::size_t>(got));
    }
  }

 private:
  // Returns a line whose end has been read.
  input_line take_line(std::string text) {
    if (std::exchange(too_long_, false) || text.size() > max_turn_bytes) {
      return {input_line::kind::too_long, {}};
    }
    return {input_line::kind::text, std::move(text)};
  }

  std::string bytes_;      ///< that were read and not returned
  bool too_long_ = false;  ///< bytes of the line that is read were dropped
};

/// Prints a note to the user, who may not be at a terminal.
void print_note(const std::string& text) {
  fmt::print(stderr, "{}\n", text);
}

/// Answers a line. An error of the text is printed, and the conversation goes on.
/// If the conversation has no space left for it, the conversation begins again and the
/// line is asked once more; a line that does not even fit then is refused.
result<void> answer_line(conversation& talk, const std::string& text, output& out) {
  if (!is_utf8(text) || text.find('\0') != std::string::npos) {
    print_note("cannot use the line: expected UTF-8 without NUL, found other bytes");
    return {};
  }
  (void)interrupt_scope::take();  // of an earlier line
  const auto on_text = [&](std::string_view piece) {
    out.write(piece);
    out.flush();
    return !interrupt_scope::take();
  };
  auto end = talk.say(text, on_text);
  if (!end && end.error().code() == errc::out_of_range && !talk.is_new()) {
    print_note("the conversation is full and begins again");
    WEIR_CHECK(talk.forget());
    end = talk.say(text, on_text);
  }
  if (!end && end.error().code() == errc::out_of_range) {
    print_note(end.error().message());
    return {};
  }
  if (!end) {
    return std::move(end).error();
  }
  out.write("\n");
  out.flush();
  if (*end != answer_end::stop) {
    print_note(*end == answer_end::stopped ? "[stopped]" : "[cut]");
  }
  return {};
}

/// Reads lines up to the end of the input. The prompt is shown only to a user at a
/// terminal, so that the output of a script has answers alone.
result<void> converse(conversation& talk, output& out) {
  const bool shows_prompt = ::isatty(STDIN_FILENO) != 0;
  interrupt_scope signals;
  WEIR_CHECK(signals.open());
  line_input input;
  for (;;) {
    if (shows_prompt) {
      out.write("> ");
      out.flush();
    }
    WEIR_TRY(const input_line line, input.next());
    if (line.is == input_line::kind::end) {
      out.write(shows_prompt ? "\n" : "");
      return {};
    }
    if (line.is == input_line::kind::interrupted) {
      out.write("\n");
      print_note("Ctrl-D ends the program");
    } else if (line.is == input_line::kind::too_long) {
      print_note(fmt::format("cannot use the line: expected at most {} bytes, found more",
                             max_turn_bytes));
    } else if (line.text == "/new") {
      WEIR_CHECK(talk.forget());
    } else if (!line.text.empty()) {
      WEIR_CHECK(answer_line(talk, line.text, out));
    }
  }
}

/// Returns the options of a model for one conversation. It cannot be longer than the
/// longest text that the model takes.
models::llama_options memory_for(const chat_options& options,
                                 const actors::model_record& record) {
  models::llama_options memory;
  memory.context_tokens =
      std::min<std::uint64_t>(options.context_tokens, record.facts.context_limit);
  memory.kv_memory = options.kv_memory;
  memory.max_contexts = 1;
  // The options of the command live longer than the model.
  memory.kernels = options.kernels;
  return memory;
}

}  // namespace

command_result chat_command(const chat_options& options, output& out) {
  // The model is opened before anything is asked, so that all errors of options come
  // first.
  WEIR_TRY(const auto loaded, load_decoder(options.volume, options.tag, options.workers));
  const actors::model_record& record = loaded->stored.record();
  WEIR_TRY(chat_form form,
           chat_form::of_template(record.chat_template, options.chat_template,
                                  record.facts.begin_token, loaded->tokens));
  WEIR_TRY(const auto model, decoder_of(*loaded, memory_for(options, record)));
  const models::model_facts& facts = model->facts();
  conversation::rules rules;
  rules.system = options.system.value_or(form.default_system());
  rules.max_tokens = options.max_tokens;
  rules.capacity = std::min(
      {options.context_tokens != 0 ? options.context_tokens : facts.context_tokens,
       facts.context_tokens, facts.max_context});
  rules.end_token = record.facts.end_token;
  rules.sampling.temperature = static_cast<float>(options.temperature);
  rules.sampling.top_p = static_cast<float>(options.top_p);
  rules.sampling.top_k = options.top_k;
  // A drawn seed has 31 bits, so that it is short to type again; it is printed below.
  rules.sampling.seed = options.seed.value_or(std::random_device()() & 0x7FFFFFFFU);
  WEIR_CHECK(models::check_options(rules.sampling, facts.vocab));
  print_note(fmt::format(
      "{}, seed {}, memory for {} tokens, kernels {}; Ctrl-C stops an "
      "answer, Ctrl-D ends",
      record.tag, rules.sampling.seed, facts.context_tokens, facts.instruction_set));
  conversation talk(*model, loaded->tokens, std::move(form), rules);
  WEIR_CHECK(converse(talk, out));
  return 0;
}

}  // namespace weir::tools
