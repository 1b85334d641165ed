// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages by name.
///
/// A catalog maps names to factories. Stages of the program, of plug-ins and of Python
/// files stand in one catalog; each entry knows its home, so that a child process can
/// load the same file.
#include "weir/pipeline/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "weir/base/text.hpp"

namespace weir::flow {

/// Adds a stage. @param about  Its description, if it is known without making it. @param
/// home  Where it comes from.
result<void> catalog::add(std::string name, factory make, stage_info about,
                          stage_home home) {
  if (home.file.empty() && home.command.empty()) {
    // The file that is being loaded at the moment.
    home.file = adding_from_;
  }
  // Keys of a stage's table in a file that are not settings would hide such a setting.
  for (const setting_info& one : about.settings) {
    if (std::ranges::count(reserved_keys(), one.name) > 0) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot add the stage \"{}\": expected settings with names "
                      "that are not reserved, found the setting \"{}\"",
                      name, one.name));
    }
  }
  const auto [place, added] = entries_.try_emplace(
      std::move(name), entry{std::move(make), std::move(about), std::move(home)});
  if (!added) {
    return error(errc::already_exists,
                 fmt::format("cannot add the stage \"{}\": expected a new name, found a "
                             "stage of that name",
                             place->first));
  }
  return {};
}

/// Adds all stages of a plug-in or none of them.
result<void> catalog::add_plugin(catalog&& stages, const std::string& file) {
  // For the message: whose stage has the name.
  const auto owner = [](const entry& one) {
    return one.home.file.empty() ? std::string("one of the program")
                                 : fmt::format("one of \"{}\"", one.home.file);
  };
  // All names are compared before the first one is added.
  for (const auto& [name, one] : stages.entries_) {
    if (const auto known = entries_.find(name); known != entries_.end()) {
      return error(errc::already_exists,
                   fmt::format("cannot add the stages of the plug-in \"{}\": expected "
                               "new names, found the stage \"{}\" and {} of that name",
                               file, name, owner(known->second)));
    }
  }
  // Entries without a home are those of this file.
  for (auto& [name, one] : stages.entries_) {
    one.home.file = one.home.file.empty() ? file : one.home.file;
  }
  entries_.merge(stages.entries_);
  return {};
}

bool catalog::has_plugin(std::string_view file) const noexcept {
  return !file.empty() && std::ranges::any_of(entries_, [&](const auto& one) {
    return one.second.home.file == file;
  });
}

/// @error{unknown_key; with the most similar name}
result<const catalog::entry*> catalog::find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    const std::vector<std::string> known = names();
    return error(errc::unknown_key,
                 fmt::format("cannot make the stage \"{}\": expected one of {} known "
                             "stages, found none of that name{}",
                             name, known.size(), did_you_mean(name, known)));
  }
  return &found->second;
}

/// Makes a stage by its name, and notes how it was made, so that it can be made again.
result<described_stage> catalog::make(std::string_view name,
                                      const given_settings& settings) const {
  WEIR_TRY(const entry* found, find(name));
  described_stage made;
  WEIR_CHECK(found->make(made, settings));
  made.origin.use = std::string(name);
  // The settings as they were given, so that a child process can be told the same.
  for (const auto& [key, one] : settings) {
    made.origin.settings.emplace_back(key, one.value);
  }
  made.origin.home = found->home;
  return made;
}

result<stage_home> catalog::home_of(std::string_view name) const {
  WEIR_TRY(const entry* found, find(name));
  return found->home;
}

/// Files of plug-ins, each once, in the order of the names of their stages.
std::vector<std::string> catalog::files() const {
  std::vector<std::string> all;
  for (const auto& [name, one] : entries_) {
    if (!one.home.file.empty() && std::ranges::count(all, one.home.file) == 0) {
      all.push_back(one.home.file);
    }
  }
  return all;
}

/// Returns the description without settings. Where it is not known, the stage is made in
/// order to get it; missing settings do not matter.
result<stage_info> catalog::describe(std::string_view name) const {
  WEIR_TRY(const entry* found, find(name));
  if (!found->about.name.empty()) {
    return found->about;
  }
  described_stage made;
  static_cast<void>(found->make(made, {}));  // fills the description even if it fails
  made.info.name = std::string(name);
  return std::move(made.info);
}

std::vector<std::string> catalog::names() const {
  std::vector<std::string> all;
  for (const auto& [name, one] : entries_) {
    all.push_back(name);
  }
  return all;
}

/// Keys that a table [[stage]] has for all stages.
std::span<const std::string_view> reserved_keys() noexcept {
  // Adding a name here can break stages that have a setting of this name.
  static constexpr std::array<std::string_view, 10> keys{
      "name",     "use",  "from",    "inlets", "window",
      "on_error", "host", "initial", "loop",   "max_failures"};
  return keys;
}

// It is never destroyed, because its order against other static objects is unknown.
catalog& stages() {
  static auto* const all = new catalog;  // threads may use it at the end of the process
  return *all;
}

}  // namespace weir::flow
