// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks and texts of settings.
#include "run/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weir::actors {

namespace {

using pairs = std::vector<std::pair<std::string, std::string>>;

const char* name_of(storage::end_policy p) {
  return p == storage::end_policy::loop   ? "loop"
         : p == storage::end_policy::stop ? "stop"
                                          : "chain";
}
const char* name_of(storage::boundary_policy p) {
  return p == storage::boundary_policy::never           ? "never"
         : p == storage::boundary_policy::at_next_chunk ? "at_next_chunk"
                                                        : "split";
}

pairs stream_pairs(const run_config& c) {
  return {{"seed", fmt::to_string(c.seed)},
          {"stream.path", fmt::format("{}", fmt::join(c.paths, " | "))},
          {"stream.eot", c.eot ? "true" : "false"},
          {"stream.chunk", fmt::to_string(c.chunk)},
          {"stream.lanes", fmt::to_string(c.lanes)},
          {"stream.lane_block", fmt::to_string(c.lane_block)},
          {"stream.end", name_of(c.end)},
          {"stream.boundary", name_of(c.boundary)},
          {"phase.build.tokens", fmt::to_string(c.build.tokens)},
          {"phase.build.pulses", fmt::to_string(c.build.pulses)},
          {"phase.test.tokens", fmt::to_string(c.test.tokens)},
          {"phase.test.pulses", fmt::to_string(c.test.pulses)},
          {"phase.stream.tokens", fmt::to_string(c.stream.tokens)},
          {"phase.stream.pulses", fmt::to_string(c.stream.pulses)}};
}

constexpr const char* equations_key = "model.equations";

pairs model_pairs(const models::prose_config& m) {
  return {{equations_key, fmt::to_string(models::prose_equations)},
          {"model.width", fmt::to_string(m.width)},
          {"model.blocks", fmt::to_string(m.blocks)},
          {"model.heads", fmt::to_string(m.heads)},
          {"model.hidden", fmt::to_string(m.hidden)},
          {"model.frequencies", fmt::format("{}", fmt::join(m.frequencies, " "))},
          {"model.rate", fmt::format("{}", m.rate)},
          {"model.warm_up", fmt::to_string(m.warm_up)},
          {"model.final_rate", fmt::format("{}", m.final_rate)},
          {"model.beta1", fmt::format("{}", m.beta1)},
          {"model.beta2", fmt::format("{}", m.beta2)},
          {"model.epsilon", fmt::format("{}", m.epsilon)},
          {"model.decay", fmt::format("{}", m.decay)},
          {"model.clip", fmt::format("{}", m.clip)}};
}

std::string lines_of(const pairs& all) {
  std::string text;
  for (const auto& [key, value] : all) {
    text += fmt::format("{} = {}\n", key, value);
  }
  return text;
}

template <class T>
result<T> parse(std::string_view key, const std::string& value) {
  T out{};
  const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (ec != std::errc() || end != value.data() + value.size()) {
    return error(errc::corrupt,
                 fmt::format("reading stored key {} failed: expected a number, found "
                             "\"{}\"",
                             key, value));
  }
  return out;
}

template <class T>
result<void> read_into(T& to, std::string_view text, std::string_view key) {
  WEIR_TRY(const auto value, value_in(text, key));
  WEIR_TRY(to, parse<T>(key, value));
  return {};
}

error refuse(std::string_view key, std::string_view expected, const std::string& found) {
  return {errc::invalid_argument,
          fmt::format("checking the settings failed for {}: expected {}, found {}", key,
                      expected, found)};
}

/// What was stored under other equations would go on with other numbers, and nobody would
/// be told.
result<void> check_equations(std::string_view text) {
  const auto stored = value_in(text, equations_key);
  const std::string found = stored ? *stored : "1";  // the first had no such line
  if (found != fmt::to_string(models::prose_equations)) {
    return error(
               errc::config_mismatch,
               fmt::format("using the stored model failed for {}: expected {}, found {}",
                           equations_key, models::prose_equations, found))
        .hint(
            "the equations of the model have changed since it was stored: learn it "
            "anew, or use the version of weir that has stored it");
  }
  return {};
}

struct bound {
  const char* key;
  std::uint64_t value, least, most;
};

}  // namespace

std::uint32_t vocabulary_of(const run_config& config, std::size_t files) {
  const bool wraps = config.end != storage::end_policy::stop;
  const bool separates = config.eot && files > 1;
  return wraps || separates ? storage::byte_vocabulary : storage::byte_vocabulary - 1;
}

models::prose_config model_of(const run_config& c, std::uint32_t vocab) {
  models::prose_config m;
  m.vocab = vocab;
  m.width = c.width;
  m.blocks = c.blocks;
  m.frequencies = c.frequencies;
  m.heads = c.heads;
  m.hidden = c.hidden;
  m.lanes = c.lanes;
  m.max_chunk = static_cast<std::uint32_t>(c.chunk);
  m.seed = c.seed;
  m.rate = c.rate;
  m.warm_up = c.warm_up;
  m.final_rate = c.final_rate;
  m.beta1 = c.beta1;
  m.beta2 = c.beta2;
  m.epsilon = c.epsilon;
  m.decay = c.decay;
  m.clip = c.clip;
  return m;
}

std::string model_text(const models::prose_config& m) {
  return lines_of(model_pairs(m)) +
         fmt::format(
             "model.vocab = {}\nseed = {}\nstream.lanes = {}\nstream.chunk = {}\n",
             m.vocab, m.seed, m.lanes, m.max_chunk);
}

std::string config_text(const run_config& config, std::uint32_t vocab) {
  return lines_of(stream_pairs(config)) + lines_of(model_pairs(model_of(config, vocab))) +
         fmt::format("model.vocab = {}\n", vocab);
}

result<std::string> value_in(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto split = line.find(" = ");
    if (split != std::string_view::npos && line.substr(0, split) == key) {
      return std::string(line.substr(split + 3));
    }
  }
  return error(
      errc::corrupt,
      fmt::format("reading stored key {} failed: expected a line, found none", key));
}

result<std::uint64_t> number_in(std::string_view text, std::string_view key) {
  WEIR_TRY(const auto value, value_in(text, key));
  return parse<std::uint64_t>(key, value);
}

result<void> compare_config(std::string_view stored, const run_config& config) {
  WEIR_CHECK(check_equations(stored));
  pairs now = stream_pairs(config);
  const pairs model = model_pairs(model_of(config, 0));
  now.insert(now.end(), model.begin(), model.end());
  for (const auto& [key, value] : now) {
    WEIR_TRY(const auto before, value_in(stored, key));
    if (before != value) {
      return error(errc::config_mismatch,
                   fmt::format("resuming the run failed for {}: expected {}, found {}",
                               key, before, value))
          .hint(
              "a resumed run may change run.workers, run.replicas, run.trace, "
              "stream.prefetch, stream.ranks and checkpoint.every_tokens only");
    }
  }
  return {};
}

result<models::prose_config> model_in(std::string_view text) {
  WEIR_CHECK(check_equations(text));
  models::prose_config m;
  WEIR_CHECK(read_into(m.vocab, text, "model.vocab"));
  WEIR_CHECK(read_into(m.width, text, "model.width"));
  WEIR_CHECK(read_into(m.blocks, text, "model.blocks"));
  WEIR_CHECK(read_into(m.heads, text, "model.heads"));
  WEIR_CHECK(read_into(m.hidden, text, "model.hidden"));
  WEIR_CHECK(read_into(m.lanes, text, "stream.lanes"));
  WEIR_CHECK(read_into(m.max_chunk, text, "stream.chunk"));
  WEIR_CHECK(read_into(m.seed, text, "seed"));
  WEIR_CHECK(read_into(m.rate, text, "model.rate"));
  WEIR_CHECK(read_into(m.warm_up, text, "model.warm_up"));
  WEIR_CHECK(read_into(m.final_rate, text, "model.final_rate"));
  WEIR_CHECK(read_into(m.beta1, text, "model.beta1"));
  WEIR_CHECK(read_into(m.beta2, text, "model.beta2"));
  WEIR_CHECK(read_into(m.epsilon, text, "model.epsilon"));
  WEIR_CHECK(read_into(m.decay, text, "model.decay"));
  WEIR_CHECK(read_into(m.clip, text, "model.clip"));
  WEIR_TRY(std::string levels, value_in(text, "model.frequencies"));
  m.frequencies.clear();
  while (!levels.empty()) {
    const auto end = std::min(levels.find(' '), levels.size());
    WEIR_TRY(const auto level,
             parse<std::uint64_t>("model.frequencies", levels.substr(0, end)));
    m.frequencies.push_back(level);
    levels.erase(0, std::min(end + 1, levels.size()));
  }
  return m;
}

storage::stream_config stream_of(const run_config& c) {
  storage::stream_config s;
  s.chunk = c.chunk;
  s.lanes = c.lanes;
  s.lane_block = c.lane_block;
  s.ranks = c.ranks;
  s.end = c.end;
  s.boundary = c.boundary;
  s.frequencies = c.frequencies;
  return s;
}

conductor_state::settings conductor_of(const run_config& c) {
  constexpr std::uint64_t curve_points = 256;
  conductor_state::settings s;
  s.frequencies = c.frequencies;
  s.lanes = c.lanes;
  s.chunk = c.chunk;
  s.prefetch = c.prefetch;
  // Pulses of a millisecond are sent sixteen at a time, longer ones alone.
  constexpr std::uint64_t tokens_together = 1024, most_together = 16;
  constexpr std::size_t batches_in_flight = 3;
  s.batch =
      std::clamp<std::uint64_t>(tokens_together / (c.chunk * c.lanes), 1, most_together);
  s.window = std::max(s.window, batches_in_flight * s.batch);
  s.boundary = c.boundary;
  s.budgets = {c.build, c.test, c.stream};
  s.every_tokens = c.every_tokens;
  s.curve_window = std::max(c.chunk * c.lanes, c.build.tokens / curve_points);
  return s;
}

std::uint64_t total_updates_of(const run_config& c) {
  const std::uint64_t per_pulse = c.chunk * c.lanes;
  const std::uint64_t updates =
      c.build.tokens / per_pulse + (c.build.tokens % per_pulse != 0);
  return c.build.pulses != 0 ? std::min(c.build.pulses, updates) : updates;
}

result<std::vector<std::string>> check_config(const run_config& c) {
  const bound bounds[] = {
      {"run.workers", c.workers, 1, 256},
      {"run.deadline", static_cast<std::uint64_t>(c.deadline_s), 1, 86'400},
      {"stream.chunk", c.chunk, 1, 65'536},
      {"stream.prefetch", c.prefetch, 0, 65'536},
      {"stream.lanes", c.lanes, 1, 1024},
      {"stream.lane_block", c.lane_block, 1, 1U << 30},
      {"stream.ranks", c.ranks, 1, c.lanes},
      {"model.blocks", c.blocks, 1, 64},
      {"model.heads", c.heads, 1, 64},
      {"model.width", c.width, 16, 4096},
      {"model.hidden", c.hidden, 16, 16'384},
      {"model.frequencies", c.frequencies.size(), 1, 32}};
  for (const bound& b : bounds) {
    if (b.value < b.least || b.value > b.most) {
      return refuse(b.key, fmt::format("{} to {}", b.least, b.most),
                    fmt::to_string(b.value));
    }
  }
  if (c.replicas == replica_policy::per_rank) {
    if (auto run = models::lanes_per_device(c.lanes, c.ranks); !run) {
      return refuse("stream.ranks", "a number of devices that can share the lanes",
                    fmt::to_string(c.ranks))
          .because(std::move(run).error());
    }
  }
  for (const auto& [key, value] : {std::pair{"model.rate", c.rate},
                                   {"model.clip", c.clip},
                                   {"model.epsilon", c.epsilon},
                                   {"model.decay", c.decay},
                                   {"model.beta1", c.beta1},
                                   {"model.beta2", c.beta2},
                                   {"model.final_rate", c.final_rate}}) {
    if (!std::isfinite(value) || value < 0) {
      return refuse(key, "a number of at least 0", fmt::to_string(value));
    }
  }
  if (c.paths.empty()) {
    return refuse("stream.path", "a file, folder or pattern", "nothing");
  }
  if (c.out.empty()) {
    return refuse("the run folder", "a path", "nothing");
  }
  std::vector<std::string> warnings;
  WEIR_TRY(const auto warning, storage::check_chunk_size(c.chunk, c.frequencies));
  if (!warning.empty()) {
    warnings.push_back(warning);
  }
  return warnings;
}

}  // namespace weir::actors
