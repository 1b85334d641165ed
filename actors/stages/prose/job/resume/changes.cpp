// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules for changes of a run, by the keys of its settings.
///
/// Three rules exist: a free setting may change and is not recorded; a recorded one may
/// change, and the history of the run names the change with its pulse; all others are
/// fixed, because the run would not be the same one.
#include "stages/prose/job/resume/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

/// Settings that may have another value from the next pulse on. A key that ends with a
/// point stands for all that begin with it.
constexpr std::array<std::string_view, 17> recorded_keys = {
    "stream.path",       "stream.eot",       "stream.chunk", "stream.lanes",
    "stream.lane_block", "stream.boundary",  "phase.",       "model.rate",
    "model.warm_up",     "model.final_rate", "model.beta1",  "model.beta2",
    "model.epsilon",     "model.decay",      "model.clip",   "stream.chain",
    "stream.skip"};

/// Compares a key with an entry of the list above.
bool stands_for(std::string_view entry, std::string_view key) {
  return entry == key || (entry.ends_with('.') && key.starts_with(entry));
}

/// Returns the items of a stored list of texts.
/// The separator is that of `stored_config.cpp`.
std::vector<std::string> split(std::string_view text) {
  constexpr std::string_view separator = " | ";
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    items.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return items;
}

/// Returns whether one of the changes concerns a key, or a group of keys.
bool has_key(const std::vector<storage::run_change>& changes, std::string_view key) {
  return std::any_of(changes.begin(), changes.end(), [&](const storage::run_change& c) {
    return stands_for(key, c.key);
  });
}

}  // namespace

/// Returns the rule for a key. Unknown keys are fixed.
change_rule rule_of_change(std::string_view key) {
  if (key.starts_with(source_prefix)) {
    // A named source has the rules of the stream's own source: a format or a tokenizer
    // says what the ids mean, so it is fixed.
    const auto named = parse_source_key(key);
    return named ? rule_of_change("stream." + named->info->name) : change_rule::fixed;
  }
  if (const auto* s = run_settings().find(key); s != nullptr && s->may_change) {
    return change_rule::free;
  }
  const bool recorded =
      std::any_of(recorded_keys.begin(), recorded_keys.end(),
                  [&](std::string_view entry) { return stands_for(entry, key); });
  return recorded ? change_rule::recorded : change_rule::fixed;
}

/// Error of a change of a fixed setting.
error refused_change(std::string_view key, const std::string& expected,
                     const std::string& found) {
  return error(errc::config_mismatch,
               fmt::format("resuming the run failed for {}: expected {}, found {}", key,
                           expected, found))
      .hint(
          "no setting allows this change: begin another run; `weir settings` tells the "
          "settings that a resumed run may change");
}

/// Other lanes need a policy for the contexts of the lanes; `keep` is none.
result<void> check_contexts(const std::vector<storage::run_change>& changes,
                            const run_config& config) {
  for (const storage::run_change& one : changes) {
    if (one.key == "stream.lanes" && config.resume_contexts == context_policy::keep) {
      return error(errc::config_mismatch,
                   fmt::format("resuming the run failed for {}: expected {}, found {}",
                               one.key, one.from, one.to))
          .hint(
              "resume.contexts allows it: \"fresh\" empties the contexts of all lanes, "
              "\"clone\" copies those of the lanes before in turn, and \"drop\" keeps "
              "them and empties further ones");
    }
  }
  return {};
}

/// Phases that have begun stay where they are in the order; later ones may change.
result<void> check_order(const std::vector<storage::run_change>& changes,
                         const std::vector<phase_use>& steps) {
  for (const storage::run_change& one : changes) {
    if (one.key != "phase.order") {
      continue;
    }
    const auto before = split(one.from);
    const auto now = split(one.to);
    for (std::size_t i = 0; i < steps.size() && i < before.size(); ++i) {
      if (steps[i].tokens != 0 && (i >= now.size() || now[i] != before[i])) {
        return error(errc::config_mismatch,
                     fmt::format("resuming the run failed for {}: expected {} as phase "
                                 "{}, because it was begun, found {}",
                                 one.key, before[i], i + 1,
                                 i < now.size() ? now[i] : "none"))
            .hint("phase.order may change behind the phases that the run has begun");
      }
    }
  }
  return {};
}

/// Returns whether the contexts have to be dealt anew.
bool needs_contexts(const std::vector<storage::run_change>& changes,
                    const run_config& config) {
  return has_key(changes, "stream.lanes") ||
         (config.resume_contexts == context_policy::fresh &&
          (has_key(changes, "stream.chunk") || has_key(changes, "stream.lane_block")));
}

/// Returns whether budgets, chunks or texts have changed, so that the stage must plan its
/// phases anew.
bool replans(const std::vector<storage::run_change>& changes) {
  constexpr std::array<std::string_view, 5> keys = {
      "phase.build.", "phase.order", "stream.chunk", "stream.lanes", grown_text_key};
  const auto is_of_text = [](const storage::run_change& one) {
    return one.key == "stream.skip" ||
           (one.key.starts_with(source_prefix) &&
            (one.key.ends_with(".skip") || one.key.ends_with(".tokens")));
  };
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return has_key(changes, key); }) ||
         std::any_of(changes.begin(), changes.end(), is_of_text);
}

}  // namespace weir::actors
