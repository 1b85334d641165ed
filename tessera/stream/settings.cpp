// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the settings of a context from environment variables.
///
/// A variable with an unusable value is ignored with a warning, because a program that
/// runs elsewhere should not stop for a misspelt tuning option. Only a backend that does
/// not exist is an error. Unknown variables that begin with TESS_ get a warning with the
/// nearest known name.
#include "weir/tessera/stream/settings.hpp"

#include <charconv>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/core.h>

#include "weir/base/text.hpp"
#include "weir/collective/call.hpp"

namespace weir::tessera {
namespace {

/// Reads variables one by one and remembers which were asked for.
///
/// The lists must outlive it.
class reader {
 public:
  reader(const std::function<const char*(const char*)>& variable,
         std::vector<std::string>& warnings)
      : variable_(variable), warnings_(warnings) {}

  /// Returns the value of a variable, or nothing if it is not set.
  ///
  /// The text is that of the environment.
  [[nodiscard]] std::optional<std::string_view> text(const char* name) const {
    asked_.insert(name);
    const char* value = variable_(name);
    return value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
  }
  /// Sets `into` to the value if the variable is set.
  ///
  /// An empty value counts as well.
  void take(const char* name, std::string& into) const {
    if (const auto value = text(name)) {
      into = *value;
    }
  }
  /// Sets `into` to the value and returns true, if the value is a number in [min, max].
  /// Sizes may end in k, m, g or t for powers of 1024. Warns of other values.
  template <class T>
  bool take(const char* name, T& into, std::uint64_t min, std::uint64_t max) const {
    const auto value = text(name);
    // An empty variable is one that is not set.
    if (!value || value->empty()) {
      return false;
    }
    std::uint64_t number = 0;
    const char* const end = value->data() + value->size();
    // The number must be at the beginning.
    auto [next, problem] = std::from_chars(value->data(), end, number);
    unsigned shift = 0;
    if (next + 1 == end) {
      // One character may follow.
      const char* const units = "kmgt";
      const char* const unit =
          static_cast<const char*>(std::memchr(units, *next | 0x20, 4));
      if (unit != nullptr) {
        shift = 10 * static_cast<unsigned>(unit - units + 1);
        ++next;
      }
    }
    // Comparing with `max >> shift` avoids the overflow of the shifted number.
    if (problem != std::errc() || next != end || number > (max >> shift) ||
        (number << shift) < min) {
      warn(name, fmt::format("a number in [{}, {}]", min, max), *value);
      return false;
    }
    into = static_cast<T>(number << shift);
    return true;
  }
  /// Returns true for 1, false for 0, and `otherwise` if the variable is not set, is
  /// empty or has another value, which gets a warning.
  ///
  /// No other words are known.
  [[nodiscard]] bool flag(const char* name, bool otherwise) const {
    return choice(name).value_or(otherwise);
  }
  /// Returns true for 1, false for 0, and nothing if the variable is not set, is empty or
  /// has another value, which gets a warning.
  [[nodiscard]] std::optional<bool> choice(const char* name) const {
    const auto value = text(name);
    if (!value || value->empty()) {
      return std::nullopt;
    }
    if (*value != "0" && *value != "1") {
      warn(name, "0 or 1", *value);
      return std::nullopt;
    }
    return *value == "1";
  }
  /// Warns of variables in `set` that begin with TESS_ and belong to no setting. Must
  /// come after all settings have been read.
  ///
  /// Names are compared exactly.
  void warn_of_unknown(std::span<const std::string> set) const {
    const std::vector<std::string> known(asked_.begin(), asked_.end());
    for (const std::string& name : set) {
      if (name.starts_with("TESS_") && asked_.count(name) == 0) {
        warnings_.push_back(fmt::format(
            "environment variable {} ignored: expected one that the runtime knows{}",
            name, did_you_mean(name, known)));
      }
    }
  }
  /// Adds a warning that the value of a variable is ignored.
  ///
  /// All warnings have one form.
  void warn(const char* name, std::string_view expected, std::string_view found) const {
    warnings_.push_back(
        fmt::format("environment variable {} ignored: expected {}, found \"{}\"", name,
                    expected, found));
  }

 private:
  const std::function<const char*(const char*)>& variable_;
  // Asking is no change for the caller.
  mutable std::set<std::string> asked_;
  std::vector<std::string>& warnings_;
};

/// Sets `into` to the value that belongs to the variable's text. Warns of other texts.
///
/// Names are written in small letters.
template <class T, std::size_t N>
void take_name(const reader& from, const char* name,
               const std::pair<std::string_view, T> (&names)[N], T& into) {
  const auto value = from.text(name);
  if (!value || value->empty()) {
    return;
  }
  std::string expected;
  for (const auto& [text, id] : names) {
    if (*value == text) {
      into = id;
      return;
    }
    // The list of names is the expectation.
    expected += expected.empty() ? "" : ", ";
    expected += text;
  }
  from.warn(name, expected, *value);
}

/// Reads the list of locked policies, which is separated by commas.
///
/// Unknown words do not keep the others from counting.
void take_lock(const reader& from, runtime_settings& s) {
  std::string_view rest = from.text("TESS_POLICY_LOCK").value_or("");
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    // The part in front of the comma.
    const std::string_view word = rest.substr(0, comma);
    // The comma itself goes as well.
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (word == "nofastmath") {
      s.lock_fast_math = true;
    } else if (word == "deterministic") {
      s.lock_deterministic = true;
    } else if (word == "stable") {
      s.lock_stable = true;
    } else if (!word.empty()) {
      from.warn("TESS_POLICY_LOCK", "nofastmath, deterministic, stable", word);
    }
  }
}

/// Reads topology and algorithm of collectives. The texts are checked here and parsed
/// again where they are used.
///
/// A text that is wrong is forgotten.
void take_collectives(const reader& from, runtime_settings& s) {
  from.take("TESS_TOPOLOGY", s.topology);
  if (!s.topology.empty() && !collective::parse_topology(s.topology)) {
    from.warn("TESS_TOPOLOGY", "domains by ranks, e.g. 2x4", s.topology);
    s.topology.clear();
  }
  from.take("TESS_COLL_ALGO", s.algorithm);
  if (!s.algorithm.empty() && !collective::algorithm_named(s.algorithm)) {
    from.warn("TESS_COLL_ALGO", "direct, ring, tree or hierarchical", s.algorithm);
    s.algorithm.clear();
  }
}

/// Reads where the cache is. Without TESS_CACHE_DIR it is `tessera` in XDG_CACHE_HOME;
/// without either there is no cache.
///
/// An empty folder means no cache.
void take_cache(const reader& from, runtime_settings& s) {
  if (const auto folder = from.text("TESS_CACHE_DIR")) {
    s.cache_folder = *folder;
  } else if (const auto home = from.text("XDG_CACHE_HOME"); home && !home->empty()) {
    s.cache_folder = fmt::format("{}/tessera", *home);
  }
  s.cache_strict = from.flag("TESS_CACHE_STRICT", false);
  s.code_from_cache = from.flag("TESS_CODE_FROM_CACHE", false);
}

/// Returns the locked settings in the form of the environment variable.
///
/// Empty if nothing is locked.
std::string locks_of(const runtime_settings& s) {
  std::string out;
  for (const auto& [locked, word] :
       {std::pair<bool, std::string_view>{s.lock_fast_math, "nofastmath"},
        {s.lock_deterministic, "deterministic"},
        {s.lock_stable, "stable"}}) {
    // The order is fixed.
    if (locked) {
      out += out.empty() ? "" : ",";
      out += word;
    }
  }
  return out;
}

/// Returns the name of a mode, as the variable has it.
///
/// For the list of settings.
std::string_view name_of(numerics_mode mode) {
  switch (mode) {
    case numerics_mode::strict: return "strict";
    case numerics_mode::promote: return "promote";
    case numerics_mode::downcast: return "downcast";
    case numerics_mode::standard: break;
  }
  return "standard";
}

}  // namespace

result<runtime_settings> read_settings(
    const std::function<const char*(const char*)>& variable,
    std::vector<std::string>& warnings, std::span<const std::string> set) {
  // Names are noted in the order of the calls below.
  const reader from(variable, warnings);
  runtime_settings s;
  constexpr auto any = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  from.take("TESS_BACKEND", s.backend);
  // "auto" is for programs that do not care.
  if (s.backend == "auto" || s.backend.empty()) {
    s.backend = "cpu";
  }
  if (s.backend != "cpu" && s.backend != "cuda") {
    return error(errc::unsupported,
                 fmt::format("backend not available \"{}\": expected cpu, cuda or auto",
                             s.backend))
        .hint("TESS_BACKEND names it");
  }
  // The limits keep mistakes from taking all memory.
  from.take("TESS_CPU_DEVICES", s.devices, 1, 4096);
  from.take("TESS_CPU_DEVICE_MEMORY", s.device_memory, 1, any);
  from.take("TESS_NUM_THREADS", s.threads, 1, 512);
  take_collectives(from, s);
  // Without a usable value, both limits are the usual ones.
  if (from.take("TESS_TIMEOUT_MS", s.wait_limit_ms, 0, any / 1'000'000)) {
    // A rank gives up before the thread that waits for its stream, so that the status
    // says which rank is missing.
    s.rendezvous_limit_ms = s.wait_limit_ms - s.wait_limit_ms / 10;
  }
  from.take("TESS_COLL_TIMEOUT_MS", s.rendezvous_limit_ms, 0, any / 1'000'000);
  from.take("TESS_STREAM_MEM_LIMIT", s.stream_memory, 0, any);
  if (std::uint64_t seed = 0;
      from.take("TESS_SEED", seed, 0, std::numeric_limits<std::uint64_t>::max())) {
    s.seed = seed;
  }
  take_name(from, "TESS_NUMERICS",
            {std::pair<std::string_view, numerics_mode>{"strict", numerics_mode::strict},
             {"promote", numerics_mode::promote},
             {"downcast", numerics_mode::downcast}},
            s.numerics);
  take_name(from, "TESS_LOG_LEVEL",
            {std::pair<std::string_view, log_level>{"info", log_level::info},
             {"debug", log_level::debug},
             {"trace", log_level::trace}},
            s.log);
  s.autotune = from.choice("TESS_AUTOTUNE");
  s.deterministic_floor = from.flag("TESS_DETERMINISTIC", false);
  take_lock(from, s);
  s.verify_determinism = from.flag("TESS_VERIFY_DETERMINISM", false);
  s.require_signed = from.flag("TESS_REQUIRE_SIGNED", false);
  from.take("TESS_TRUSTED_KEYS", s.trusted_keys);
  take_cache(from, s);
  from.take("TESS_PROFILER_RECORDS", s.profiler_records, 1, any);
  // All names have been asked for.
  from.warn_of_unknown(set);
  return s;
}

// Returns the settings in effect, in the form in which they could be set.
//
// Empty texts stand for settings that are not set.
std::vector<std::pair<std::string, std::string>> runtime_settings::listed() const {
  const auto yes = [](bool b) { return std::string(b ? "1" : "0"); };
  return {
      {"TESS_BACKEND", backend},
      {"TESS_CPU_DEVICES", std::to_string(devices)},
      {"TESS_CPU_DEVICE_MEMORY", std::to_string(device_memory)},
      {"TESS_NUM_THREADS", std::to_string(threads)},
      {"TESS_TOPOLOGY", topology},
      {"TESS_COLL_ALGO", algorithm},
      {"TESS_TIMEOUT_MS", std::to_string(wait_limit_ms)},
      {"TESS_COLL_TIMEOUT_MS", std::to_string(rendezvous_limit_ms)},
      {"TESS_STREAM_MEM_LIMIT", std::to_string(stream_memory)},
      {"TESS_SEED", seed ? std::to_string(*seed) : ""},
      {"TESS_NUMERICS", std::string(name_of(numerics))},
      {"TESS_AUTOTUNE", yes(autotune.value_or(!policy.deterministic))},
      {"TESS_DETERMINISTIC", yes(deterministic_floor)},
      {"TESS_VERIFY_DETERMINISM", yes(verify_determinism)},
      {"TESS_REQUIRE_SIGNED", yes(require_signed)},
      {"TESS_CACHE_DIR", cache_folder},
      {"TESS_CACHE_STRICT", yes(cache_strict)},
      {"TESS_CODE_FROM_CACHE", yes(code_from_cache)},
      {"TESS_POLICY_LOCK", locks_of(*this)},
      {"TESS_PROFILER_RECORDS", std::to_string(profiler_records)},
  };
}

}  // namespace weir::tessera
