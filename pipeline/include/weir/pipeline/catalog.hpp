// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages by name, with settings as values: what files and command lines use.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/pipeline/faces.hpp"

namespace weir {

/// A value of a setting as programs write it in a list: a text, a number or a boolean.
/// @threads{a value}
struct given_value {
  /// Takes a text.
  given_value(const char* text) : value{std::string(text)} {}  // NOLINT
  /// Takes a text.
  given_value(std::string text) : value{std::move(text)} {}  // NOLINT
  /// Takes a value that was read from a file.
  given_value(setting_value read) : value(std::move(read)) {}  // NOLINT
  /// Takes an integer, a number or a boolean.
  template <class T>
  requires std::is_arithmetic_v<T> given_value(T number) {  // NOLINT
    if constexpr (std::is_same_v<T, bool>) {
      value = {number};
    } else if constexpr (std::is_integral_v<T>) {
      value = {static_cast<std::int64_t>(number)};
    } else {
      value = {static_cast<double>(number)};
    }
  }
  setting_value value;  ///< value with its kind
};
/// Settings of a stage by name.
using given_settings = std::map<std::string, given_value, std::less<>>;

namespace flow {

/// Returns the keys of a stage in a pipeline's file that no setting may be named after,
/// such as `name`, `use` and `from`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::span<const std::string_view> reserved_keys() noexcept;

/// The stages that a program knows by name.
/// @threads{thread-compatible}
class catalog {
 public:
  /// Makes a stage from settings.
  /// It fills the description before it reads the settings, so that the description is
  /// there even if a required setting is missing.
  using factory = std::function<result<void>(described_stage&, const given_settings&)>;

  /// Adds a stage class under the name of its description.
  /// @error{already_exists, another stage has the name}
  /// @error{invalid_argument, a setting has the name of a reserved key}
  template <class S>
  [[nodiscard]] result<void> add() {
    require_face<S>();
    stage_spec<S> spec;
    S::describe(spec);
    const auto make = [](described_stage& made,
                         const given_settings& given) -> result<void> {
      stage_spec<S> described_again;
      S::describe(described_again);
      settings_of<S> settings{};
      for (const auto& [name, one] : given) {
        WEIR_CHECK(described_again.table().assign(settings, name, one.value));
      }
      WEIR_TRY(made, make_stage<S>(std::move(settings)));
      return {};
    };
    return add(spec.info().name, make, describe_class<S>(spec));
  }
  /// Adds a stage whose ports depend on its settings.
  /// @param about  Description for users, with the ports that the stage has by default.
  /// Without it, `describe` makes the stage with default settings, and returns what the
  /// factory has filled in if that fails.
  /// @error{already_exists, another stage has the name}
  /// @error{invalid_argument, a setting has the name of a reserved key}
  [[nodiscard]] result<void> add(std::string name, factory make, stage_info about = {}) {
    return add(std::move(name), std::move(make), std::move(about), {});
  }
  /// Adds a stage that comes from a file, see `add` above. If its home has a command, the
  /// stage runs in a child process that the command starts, and the object that the
  /// factory makes is not called: it may be a plain `stage_object`.
  /// @error{already_exists, another stage has the name}
  /// @error{invalid_argument, a setting has the name of a reserved key}
  [[nodiscard]] result<void> add(std::string name, factory make, stage_info about,
                                 stage_home home);
  /// Sets the file from which the stages come that are added without a home from now on,
  /// such as a plug-in that is being loaded. An empty path: the program itself.
  void adding_from(std::string file) { adding_from_ = std::move(file); }
  /// Returns where a stage comes from. @error{unknown_key, no stage has the name}
  [[nodiscard]] result<stage_home> home_of(std::string_view name) const;
  /// Returns the files of all stages, each once, in the order of their names.
  [[nodiscard]] std::vector<std::string> files() const;
  /// Adds all stages of a catalog that a plug-in has filled, or none of them.
  /// @param file  File of the plug-in, absolute: the home of stages that name no other.
  /// @error{already_exists, a stage has one of the names; the message names both files}
  [[nodiscard]] result<void> add_plugin(catalog&& stages, const std::string& file);
  /// Returns whether a stage comes from a file.
  [[nodiscard]] bool has_plugin(std::string_view file) const noexcept;
  /// Makes a stage.
  /// @error{unknown_key, no stage has the name, or no setting has one of the names; the
  /// message suggests the nearest} @error{invalid_argument, a value is refused}
  [[nodiscard]] result<described_stage> make(std::string_view name,
                                             const given_settings& settings) const;
  /// Returns the description of a stage before it has settings. It may lack ports that
  /// depend on required settings.
  /// @error{unknown_key, no stage has the name; the message suggests the nearest}
  [[nodiscard]] result<stage_info> describe(std::string_view name) const;
  /// Returns all names, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  struct entry {
    factory make;
    stage_info about;
    stage_home home;
  };
  [[nodiscard]] result<const entry*> find(std::string_view name) const;

  std::map<std::string, entry, std::less<>> entries_;
  std::string adding_from_;
};

/// Returns the stages that every pipeline may use by name: what programs have added, such
/// as those of `add_basic_stages`.
/// @threads{thread-compatible: add stages before the first pipeline is made}
[[nodiscard]] catalog& stages();

/// Adds the stages that need no files, such as `generator`, `select` and `batch`. The
/// sources of `concat` and `mix` are looked up in `to`, which must outlive the pipelines
/// that use it.
/// @error{already_exists, a stage of one of these names is there already}
/// @threads{thread-compatible} @source{docs/stages.md}
[[nodiscard]] result<void> add_basic_stages(catalog& to);

/// Reads the settings of a stage by name and adds their description to the stage. For
/// stages whose ports depend on their settings: their factories read the settings before
/// they know the ports.
/// @param info   Receives the settings, and the values that a resumed run must have too.
/// @param table  Settings of the stage.
/// @error{unknown_key, no setting has one of the names; the message suggests the nearest}
/// @error{invalid_argument, a value is refused or a required setting is missing}
/// @threads{thread-compatible}
template <class Settings>
[[nodiscard]] result<Settings> read_settings(stage_info& info,
                                             const settings_table<Settings>& table,
                                             const given_settings& given) {
  add_settings(info, table);
  Settings settings{};
  for (const auto& [name, one] : given) {
    WEIR_CHECK(table.assign(settings, name, one.value));
  }
  WEIR_CHECK(table.check(settings));
  for (const auto& one : table.entries()) {
    add_value(info, one, one.get(settings));
  }
  return settings;
}

}  // namespace flow
}  // namespace weir
