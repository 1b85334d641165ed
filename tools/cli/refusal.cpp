// SPDX-License-Identifier: Apache-2.0
/// @file
/// Refuses negative numbers and suggests verbs for misspelt ones.
///
/// The parser of the command line converts "-1" to a huge unsigned number, and reports an
/// unknown verb as an option that is missing. Both are corrected here.
#include "refusal.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

// Returns all verbs of a command, whether they were used or not.
std::vector<CLI::App*> verbs_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace

/// Makes every option that takes a natural number refuse a minus sign, in this command
/// and all below.
void refuse_negative_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options(
           // CLI11 gives this name to options of unsigned types.
           [](const CLI::Option* o) { return o->get_type_name() == "UINT"; })) {
    // The check sees the text before the conversion. An empty text means success.
    option->check([](const std::string& text) {
      return !text.empty() && text.front() == '-'
                 ? "expected a number from 0 on, found " + text
                 : std::string();
    });
  }
  // Verbs have options of their own, and so do verbs below them.
  for (CLI::App* verb : verbs_of(app)) {
    refuse_negative_numbers(*verb);
  }
}

/// Prints why the command line was refused, and returns the exit status. A misspelt verb
/// gets the names that were possible, which the parser itself does not print.
int refuse(CLI::App& app, const CLI::ParseError& why) {
  // The innermost command that the parser recognised. If it has verbs and none followed,
  // the first word that is left over was meant to be one.
  CLI::App* innermost = &app;
  std::string path = app.get_name();
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().back();
    path += " " + innermost->get_name();
  }
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(*innermost)) {
    names.push_back(verb->get_name());
  }
  // All words that no command took, from all levels.
  const std::vector<std::string> left = app.remaining(true);
  // "Required" is what the parser reports if a verb was needed and none was recognised. A
  // required option that is missing gives the same code, but then no word is left over.
  if (why.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) &&
      !names.empty() && !left.empty()) {
    fmt::print(stderr, "weir: cannot find verb \"{}\": expected one of {}{}\n",
               left.front(), fmt::join(names, ", "), did_you_mean(left.front(), names));
    fmt::print(stderr, "  `{} --help` says what each does\n", path);
    return 2;
  }
  if (why.get_exit_code() == 0) {
    return app.exit(why);  // prints the help or the version that was asked for
  }
  // The text of the parser completes the sentence.
  fmt::print(stderr, "weir: cannot read the command line of `{}`: {}\n", path,
             why.what());
  fmt::print(stderr, "  `{} --help` says what it takes\n", path);
  // Two is the exit status for a wrong command line, see `weir --help`.
  return 2;
}

}  // namespace weir::tools
