// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of all configuration keys.
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "config.hpp"

namespace weir::tools {

namespace {

using actors::run_config;

// An accessor is a lambda from a configuration to the setting; a copy serves where it
// must stay const.
template <class Access>
auto value_of(const run_config& config, Access access) {
  run_config copy = config;
  return access(copy);
}

struct integer_range {
  std::uint64_t low;
  std::uint64_t high;
};
constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();

std::string integer_words(integer_range range) {
  if (range.high == most) {
    return range.low == 0 ? "an integer >= 0"
                          : fmt::format("an integer >= {}", range.low);
  }
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

bool in_range(const config_value& value, integer_range range, std::uint64_t& out) {
  const auto* n = std::get_if<std::int64_t>(&value.data);
  if (n == nullptr || *n < 0) {
    return false;
  }
  out = static_cast<std::uint64_t>(*n);
  return out >= range.low && out <= range.high;
}

template <class Access>
config_key integer(std::string name, integer_range range, Access access,
                   std::string doc) {
  const auto assign = [range, access](run_config& config, const config_value& value) {
    std::uint64_t n = 0;
    const bool fits = in_range(value, range, n);
    if (fits) {
      auto& setting = access(config);
      setting = static_cast<std::remove_reference_t<decltype(setting)>>(n);
    }
    return fits;
  };
  const auto show = [access](const run_config& c) {
    return fmt::format("{}", value_of(c, access));
  };
  return {std::move(name), integer_words(range), std::move(doc), false, assign, show};
}

template <class Access>
config_key real(std::string name, double low, double high, Access access,
                std::string doc) {
  const auto assign = [low, high, access](run_config& config, const config_value& value) {
    double x = 0;
    if (const auto* r = std::get_if<double>(&value.data)) {
      x = *r;
    } else if (const auto* n = std::get_if<std::int64_t>(&value.data)) {
      x = static_cast<double>(*n);
    } else {
      return false;
    }
    const bool fits = std::isfinite(x) && x >= low && x <= high;
    if (fits) {
      access(config) = x;
    }
    return fits;
  };
  const auto show = [access](const run_config& c) {
    const std::string text = fmt::format("{}", value_of(c, access));
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  };
  return {std::move(name), fmt::format("a number from {} to {}", low, high),
          std::move(doc),  false,
          assign,          show};
}

// A setting that is one of a few words.
template <class Enum, std::size_t N, class Access>
config_key choice(std::string name, std::array<std::pair<const char*, Enum>, N> words,
                  Access access, std::string doc) {
  std::string expected = "one of";
  for (const auto& [word, ignored] : words) {
    expected += fmt::format(" \"{}\"", word);
  }
  const auto assign = [words, access](run_config& config, const config_value& value) {
    const auto* text = std::get_if<std::string>(&value.data);
    for (const auto& [word, chosen] : words) {
      if (text != nullptr && *text == word) {
        access(config) = chosen;
        return true;
      }
    }
    return false;
  };
  const auto show = [words, access](const run_config& c) {
    for (const auto& [word, chosen] : words) {
      if (value_of(c, access) == chosen) {
        return toml_quote(word);
      }
    }
    return std::string("\"\"");
  };
  return {std::move(name), std::move(expected), std::move(doc), false, assign, show};
}

template <class Access>
config_key boolean(std::string name, Access access, std::string doc) {
  const auto assign = [access](run_config& config, const config_value& value) {
    const auto* b = std::get_if<bool>(&value.data);
    if (b != nullptr) {
      access(config) = *b;
    }
    return b != nullptr;
  };
  const auto show = [access](const run_config& c) {
    return std::string(value_of(c, access) ? "true" : "false");
  };
  return {std::move(name), "true or false", std::move(doc), false, assign, show};
}

// The name becomes a folder name.
bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
  };
  bool all = !name.empty() && name.size() <= 100 && name.front() != '.';
  for (const char c : name) {
    all = all && plain(c);
  }
  return all;
}

config_key name_key() {
  const auto assign = [](run_config& config, const config_value& value) {
    const auto* text = std::get_if<std::string>(&value.data);
    const bool fits = text != nullptr && is_plain_name(*text);
    if (fits) {
      config.name = *text;
    }
    return fits;
  };
  return {"name",
          "a word of letters, digits, \"-\", \"_\" and \".\"",
          "Name of the run; without --out its folder is runs/NAME-N",
          false,
          assign,
          [](const run_config& c) { return toml_quote(c.name); }};
}

bool assign_paths(run_config& config, const config_value& value) {
  std::vector<std::string> paths;
  const auto add = [&paths](const config_value& item) {
    const auto* text = std::get_if<std::string>(&item.data);
    if (text == nullptr || text->empty() || text->find('\0') != std::string::npos) {
      return false;
    }
    paths.push_back(*text);
    return true;
  };
  if (const auto* list = std::get_if<config_list>(&value.data)) {
    for (const config_value& item : *list) {
      if (!add(item)) {
        return false;
      }
    }
  } else if (!add(value)) {
    return false;
  }
  config.paths = std::move(paths);
  return true;
}

config_key path_key() {
  const auto show = [](const run_config& c) {
    std::string out = "[";
    for (const std::string& path : c.paths) {
      out += fmt::format("{}{}", out.size() == 1 ? "" : ", ", toml_quote(path));
    }
    return out + "]";
  };
  return {"stream.path",
          "a path or an array of paths",
          "Files, folders and patterns; bytes of all files in order of their paths; "
          "\"-\" is standard "
          "input",
          false,
          assign_paths,
          show};
}

config_key frequencies_key() {
  const auto assign = [](run_config& config, const config_value& value) {
    const auto* list = std::get_if<config_list>(&value.data);
    std::vector<std::uint64_t> periods;
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      std::uint64_t n = 0;
      if (!in_range((*list)[i], {1, 1U << 24}, n)) {
        return false;
      }
      periods.push_back(n);
    }
    if (periods.empty() || periods.size() > 16) {
      return false;
    }
    config.frequencies = std::move(periods);
    return true;
  };
  const auto show = [](const run_config& c) {
    std::string out = "[";
    for (const std::uint64_t n : c.frequencies) {
      out += fmt::format("{}{}", out.size() == 1 ? "" : ", ", n);
    }
    return out + "]";
  };
  return {"model.frequencies",
          "an array of 1 to 16 integers from 1 to 16777216",
          "Period of each level of memory in tokens, ascending",
          false,
          assign,
          show};
}

// Tokens of a phase: a number, or "all" for one pass over the source.
template <class Access>
config_key tokens_key(const std::string& phase, Access access, std::string doc) {
  const auto assign = [access](run_config& config, const config_value& value) {
    const auto* text = std::get_if<std::string>(&value.data);
    std::uint64_t n = actors::one_pass;
    const bool fits = text != nullptr ? *text == "all" : in_range(value, {0, most}, n);
    if (fits) {
      access(config).tokens = n;
    }
    return fits;
  };
  const auto show = [access](const run_config& c) {
    const std::uint64_t n = value_of(c, access).tokens;
    return n == actors::one_pass ? std::string("\"all\"") : fmt::format("{}", n);
  };
  return {"phase." + phase + ".tokens",
          "an integer >= 0 or \"all\"",
          std::move(doc),
          false,
          assign,
          show};
}

config_key changeable(config_key key) {
  key.may_change = true;
  return key;
}

#define WEIR_SETTING(member)    \
  [](run_config & c) -> auto& { \
    return c.member;            \
  }

void add_run_and_stream(std::vector<config_key>& keys) {
  using actors::replica_policy;
  using runtime::trace_mode;
  using storage::boundary_policy;
  using storage::end_policy;
  keys.push_back(name_key());
  keys.push_back(integer("seed", {0, most}, WEIR_SETTING(seed),
                         "Of every random number: equal seeds give equal bits"));
  keys.push_back(changeable(integer("run.workers", {1, 256}, WEIR_SETTING(workers),
                                    "Threads that run tasks; never changes a result")));
  keys.push_back(changeable(choice(
      "run.replicas",
      std::array<std::pair<const char*, replica_policy>, 2>{
          {{"one", replica_policy::one}, {"per_rank", replica_policy::per_rank}}},
      WEIR_SETTING(replicas),
      "Sets of parameters: one, or one on each of stream.ranks devices, whose gradients "
      "meet in an all-reduce; never changes a result")));
  keys.push_back(changeable(choice(
      "run.trace",
      std::array<std::pair<const char*, trace_mode>, 3>{{{"off", trace_mode::off},
                                                         {"window", trace_mode::window},
                                                         {"all", trace_mode::all}}},
      WEIR_SETTING(trace),
      "Tasks in trace.json: none, the first and last 2 s and every 100th pulse, or "
      "all")));
  keys.push_back(integer("run.deadline", {1, 86400}, WEIR_SETTING(deadline_s),
                         "Seconds after which a silent part of the run counts as stuck"));
  keys.push_back(path_key());
  keys.push_back(
      boolean("stream.eot", WEIR_SETTING(eot), "Put an end-of-text token between files"));
  keys.push_back(integer("stream.chunk", {1, 1U << 24}, WEIR_SETTING(chunk),
                         "Tokens of a lane in one pulse"));
  keys.push_back(
      changeable(integer("stream.prefetch", {0, 65536}, WEIR_SETTING(prefetch),
                         "Chunks read ahead per lane; never changes a result")));
  keys.push_back(integer("stream.lanes", {1, 4096}, WEIR_SETTING(lanes),
                         "Virtual ranks that share the text; fixed for the whole run"));
  keys.push_back(integer("stream.lane_block", {1, 1U << 24}, WEIR_SETTING(lane_block),
                         "Chunks that a lane reads in a row"));
  keys.push_back(
      changeable(integer("stream.ranks", {1, 4096}, WEIR_SETTING(ranks),
                         "Hosts of the lanes, at most as many; never changes a result")));
  keys.push_back(choice(
      "stream.end",
      std::array<std::pair<const char*, end_policy>, 3>{{{"stop", end_policy::stop},
                                                         {"loop", end_policy::loop},
                                                         {"chain", end_policy::chain}}},
      WEIR_SETTING(end), "After the last token: stop, begin again, or the next source"));
  keys.push_back(choice("stream.boundary",
                        std::array<std::pair<const char*, boundary_policy>, 3>{
                            {{"never", boundary_policy::never},
                             {"at_next_chunk", boundary_policy::at_next_chunk},
                             {"split", boundary_policy::split}}},
                        WEIR_SETTING(boundary),
                        "When the end of a document empties the context"));
}

void add_phases(std::vector<config_key>& keys) {
  const auto pulses = [&keys](const std::string& phase, auto access) {
    keys.push_back(integer("phase." + phase + ".pulses", {0, most}, access,
                           "Most pulses of the phase; 0 is no limit"));
  };
  keys.push_back(tokens_key(
      "build", WEIR_SETTING(build),
      "Tokens to learn from, all lanes; 0 skips the phase, \"all\" is one pass"));
  pulses("build", WEIR_SETTING(build.pulses));
  keys.push_back(tokens_key("test", WEIR_SETTING(test),
                            "Tokens to predict without learning, after Build"));
  pulses("test", WEIR_SETTING(test.pulses));
  keys.push_back(tokens_key("stream", WEIR_SETTING(stream),
                            "Tokens to process without an end in view, after Test"));
  pulses("stream", WEIR_SETTING(stream.pulses));
  keys.push_back(
      changeable(integer("checkpoint.every_tokens", {0, most}, WEIR_SETTING(every_tokens),
                         "Tokens between checkpoints; 0 writes one at the end only")));
}

void add_model(std::vector<config_key>& keys) {
  keys.push_back(integer("model.width", {16, 4096}, WEIR_SETTING(width),
                         "Features of a row, a multiple of 16"));
  keys.push_back(integer("model.blocks", {1, 64}, WEIR_SETTING(blocks),
                         "Blocks, one after another"));
  keys.push_back(integer("model.heads", {1, 64}, WEIR_SETTING(heads),
                         "Memories per level, 32 features each"));
  keys.push_back(integer("model.hidden", {16, 16384}, WEIR_SETTING(hidden),
                         "Features of the two-layer part, a multiple of 16"));
  keys.push_back(frequencies_key());
  keys.push_back(
      real("model.rate", 0, 1, WEIR_SETTING(rate), "Step size after the warm-up"));
  keys.push_back(integer("model.warm_up", {0, 1U << 24}, WEIR_SETTING(warm_up),
                         "Updates over which the step size rises"));
  keys.push_back(real("model.final_rate", 0, 1, WEIR_SETTING(final_rate),
                      "Part of the step size that is left at the end of the budget"));
  keys.push_back(
      real("model.beta1", 0, 1, WEIR_SETTING(beta1), "Memory of the first moment"));
  keys.push_back(
      real("model.beta2", 0, 1, WEIR_SETTING(beta2), "Memory of the second moment"));
  keys.push_back(real("model.epsilon", 0, 1, WEIR_SETTING(epsilon),
                      "Added to the root of the second moment"));
  keys.push_back(
      real("model.decay", 0, 1, WEIR_SETTING(decay), "Pull of matrices towards zero"));
  keys.push_back(real("model.clip", 0, 1e9, WEIR_SETTING(clip),
                      "Largest norm of the gradient of a pulse"));
}

#undef WEIR_SETTING

}  // namespace

std::span<const config_key> config_keys() {
  static const std::vector<config_key> keys = [] {
    std::vector<config_key> all;
    add_run_and_stream(all);
    add_phases(all);
    add_model(all);
    return all;
  }();
  return keys;
}

}  // namespace weir::tools
