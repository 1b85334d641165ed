// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages of Python files in a catalog.
///
/// A file is described once, by a child process, when it is loaded. A stage is later made
/// from this description alone; its object here is empty, and the run starts a child
/// process with the command of the stage.
#include "weir/actors/python_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "python/description.hpp"
#include "python/interpreter.hpp"
#include "weir/actors/child_output.hpp"

namespace weir {
namespace {

/// Returns the last lines of a text that are not empty, at most `count`.
/// Blank lines at the end do not count.
std::string last_lines(std::string_view text, int count) {
  // An empty text has no lines.
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string_view::npos) {
    return {};
  }
  text = text.substr(0, end + 1);
  std::size_t begin = text.size();
  // Each step moves `begin` to the line break before the line that begins there.
  while (count-- > 0 && begin != std::string_view::npos && begin > 0) {
    begin = text.rfind('\n', begin - 1);
  }
  return std::string(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

/// Describes a child that has printed no description.
error no_description(const std::string& file, const actors::child_output& from) {
  error e(errc::invalid_argument,
          fmt::format("cannot load \"{}\": expected the description of its stages, found "
                      "that the interpreter {} {}",
                      file, from.exited ? "ended with exit code" : "was ended by signal",
                      from.status));
  // The end of a traceback says what failed.
  const std::string words = last_lines(from.error, 20);
  return words.empty() ? e : std::move(e).because(error(errc::invalid_argument, words));
}

/// Runs `weir.describe` on the file. Output means that the program has reported either
/// stages or a mistake, whatever its exit code is.
result<std::vector<flow::stage_info>> described_stages(const std::string& file) {
  // The interpreter and the package that describes files.
  WEIR_TRY(std::vector<std::string> command, actors::python_command("describe"));
  command.push_back(file);
  auto described = actors::run_child(command);
  if (!described) {
    const errc code = described.error().code();
    return error(code, fmt::format("cannot load \"{}\"", file))
        .because(std::move(described.error()));
  }
  // The program has not come to its end.
  if (described->out.empty()) {
    return no_description(file, *described);
  }
  return actors::read_description(described->out, file);
}

/// Makes a stage of a description. The child process of the stage does its work.
/// Settings are checked as for stages of C++: unknown names, then values, then missing
/// ones.
result<void> make_python_stage(const flow::stage_info& about, flow::described_stage& made,
                               const given_settings& given) {
  // A copy: the values of the settings are added to it.
  made.info = about;
  // For the suggestion of a similar name.
  std::vector<std::string> names;
  for (const setting_info& one : about.settings) {
    names.push_back(one.name);
  }
  for (const auto& [name, one] : given) {
    const auto known = std::ranges::find(about.settings, name, &setting_info::name);
    if (known == about.settings.end()) {
      return unknown_setting(name, names);
    }
    if (!known->accepts(one.value)) {
      return refused_value(*known, one.value);
    }
  }
  for (std::size_t i = 0; i < about.settings.size(); ++i) {
    const setting_info& one = about.settings[i];
    const auto found = given.find(one.name);
    // A setting without a default must be given.
    if (one.required && found == given.end()) {
      return refused_setting(fmt::format("the stage {}", about.name), one,
                             about.defaults[i]);
    }
    // Values count for the identity of the run.
    flow::add_value(made.info, one,
                    found == given.end() ? about.defaults[i] : found->second.value);
  }
  // The object does nothing; see the top of the file.
  made.object = std::make_unique<flow::stage_object>();
  return {};
}

}  // namespace

// The path of the file becomes absolute: the child may run in another folder later.
result<void> add_python_stages(flow::catalog& to, const std::string& file) {
  // A folder is no Python file either.
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return error(
        errc::not_found,
        fmt::format("cannot load \"{}\": expected a Python file, found none", file));
  }
  WEIR_TRY(const std::vector<flow::stage_info> all, described_stages(file));
  // The command that later runs a stage.
  WEIR_TRY(const std::vector<std::string> command, actors::python_command("host"));
  for (const flow::stage_info& about : all) {
    auto added =
        to.add(about.name,
               [about](flow::described_stage& made, const given_settings& given) {
                 return make_python_stage(about, made, given);
               },
               about, {std::filesystem::absolute(file).string(), command});
    // A name that exists already, for example.
    if (!added) {
      return std::move(added.error()).located(file);
    }
  }
  return {};
}

}  // namespace weir
