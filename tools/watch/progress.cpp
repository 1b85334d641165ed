// SPDX-License-Identifier: Apache-2.0
/// @file
/// Formats the line of progress and draws it on a terminal.
///
/// The line is drawn with a carriage return and the escape sequence that clears the line,
/// so that each one replaces the one before. Nothing is drawn into a file or a pipe.
#include "progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"

namespace weir::tools {

namespace {

// Returns the width of the terminal. A line that wraps could not be overwritten.
std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : 80;
}

/// Follows the conventions of the variables NO_COLOR (set and not empty: no colours) and
/// TERM ("dumb": no escape sequences for colours).
bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_colour == nullptr || *no_colour == '\0') &&
         (term == nullptr || std::string(term) != "dumb");
}

}  // namespace

// Inserts a comma in front of every third digit from the end.
std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) {
    digits.insert(i - 3, 1, ',');
  }
  return digits;
}

// A figure that is not known yet is 0 and is left out, so that the line grows while the
// run gets going. A phase without a budget has no share that is done.
std::string progress_text(const actors::run_progress& p, bool colour) {
  const char* strong = colour ? "\x1b[1m" : "";
  const char* plain = colour ? "\x1b[0m" : "";
  std::string out = p.phase;
  // A phase with a budget of tokens has a share that is done; others show their tokens.
  if (p.phase_budget > 0) {
    out += fmt::format(" {:.1f} %", 100.0 * static_cast<double>(p.phase_tokens) /
                                        static_cast<double>(p.phase_budget));
  } else {
    out += fmt::format(" {} tokens", p.phase_tokens);
  }
  if (p.tokens_per_second > 0) {
    out += fmt::format("  {}{}{} tokens/s", strong, grouped(p.tokens_per_second), plain);
  }
  if (p.bits_per_byte > 0) {
    out += fmt::format("  {}{:.3f}{} bits/byte", strong, p.bits_per_byte, plain);
  }
  if (p.seconds_left > 0) {
    out += fmt::format("  ETA {}", human_seconds(p.seconds_left));
  }
  if (p.pulse_p99_seconds > 0) {
    out += fmt::format("  p99 {:.1f} ms  queue {}", 1000 * p.pulse_p99_seconds,
                       p.queue_depth);
  }
  // Short stalls are usual and would make the line restless.
  if (p.stall_seconds >= 0.1) {
    out += fmt::format("  stall {:.1f} s", p.stall_seconds);
  }
  if (!p.mix.empty()) {
    out += fmt::format("  {}", fmt::join(p.mix, ", "));
  }
  out += p.durable_generation > 0 ? fmt::format("  checkpoint {}", p.durable_generation)
                                  : std::string("  no checkpoint yet");
  return out;
}

std::string cut_line(const std::string& line, std::size_t bytes) {
  if (line.size() <= bytes) {
    return line;
  }
  // A character that does not fit as a whole is left out.
  return line.substr(0, utf8_boundary(line, bytes));
}

// Both answers are asked once: a terminal does not change during a run.
progress_line::progress_line()
    : terminal_(isatty(STDERR_FILENO) == 1), colour_(wants_colour()) {}

progress_line::~progress_line() {
  clear();
}

void progress_line::show(const actors::run_progress& p) {
  if (!terminal_) {
    return;
  }
  const std::string text = progress_text(p, false);
  // A line that is too long is cut, and has no colour, because cutting could split an
  // escape sequence.
  draw(text.size() < columns() ? progress_text(p, colour_)
                               : cut_line(text, columns() - 1));
}

void progress_line::show(const std::string& text) {
  if (terminal_) {
    draw(cut_line(text, columns() - 1));
  }
}

// Standard error is flushed, because the line has no end at which a terminal would show
// it.
void progress_line::draw(const std::string& line) {
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  shown_ = true;
}

// Does nothing if no line is shown, so callers need not know whether there is one.
void progress_line::clear() {
  if (shown_) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    shown_ = false;
  }
}

}  // namespace weir::tools
