// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verbs that are none, numbers below zero.
#include "refusal.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

std::vector<CLI::App*> verbs_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace

void refuse_negative_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options(
           [](const CLI::Option* o) { return o->get_type_name() == "UINT"; })) {
    option->check([](const std::string& text) {
      return !text.empty() && text.front() == '-'
                 ? "expected a number from 0 on, found " + text
                 : std::string();
    });
  }
  for (CLI::App* verb : verbs_of(app)) {
    refuse_negative_numbers(*verb);
  }
}

int refuse(CLI::App& app, const CLI::ParseError& why) {
  CLI::App* at = &app;
  std::string path = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().back();
    path += " " + at->get_name();
  }
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(*at)) {
    names.push_back(verb->get_name());
  }
  const std::vector<std::string> left = app.remaining(true);
  if (why.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) &&
      !names.empty() && !left.empty()) {
    fmt::print(stderr, "weir: cannot find verb \"{}\": expected one of {}{}\n",
               left.front(), fmt::join(names, ", "), did_you_mean(left.front(), names));
    fmt::print(stderr, "  `{} --help` says what each does\n", path);
    return 2;
  }
  return app.exit(why) == 0 ? 0 : 2;
}

}  // namespace weir::tools
