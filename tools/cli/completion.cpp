// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a shell has to know, taken from the command line itself.
#include "completion.hpp"

#include <fmt/format.h>

#include <vector>

namespace weir::tools {

namespace {

/// A command, and what may follow it.
struct command_words {
  std::string path;  ///< "tgm ls"; empty: the program itself
  std::string words;
};

void collect(const CLI::App& app, const std::string& path,
             std::vector<command_words>& out) {
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  std::string words;
  for (const CLI::App* verb : verbs) {
    words += verb->get_name() + " ";
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      words += "--" + name + " ";
    }
    for (const std::string& name : option->get_snames()) {
      words += "-" + name + " ";
    }
  }
  out.push_back({path, std::move(words)});
  for (const CLI::App* verb : verbs) {
    collect(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name(), out);
  }
}

constexpr std::string_view bash_body = R"(
  local path="" word next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    next="${path:+$path }$word"
    [[ -n ${words["/$next"]+x} ]] && path=$next
  done
  mapfile -t COMPREPLY < <(compgen -W "${words["/$path"]}" -- "$2")
  [[ $2 == -* ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2")
}
complete -o filenames -F _weir weir
)";

std::string bash_script(const std::vector<command_words>& commands) {
  std::string out = "# Completion of weir for bash.\n_weir() {\n  local -A words=(\n";
  for (const command_words& c : commands) {
    out += fmt::format("    [\"/{}\"]=\"{}\"\n", c.path, c.words);
  }
  return out + "  )" + std::string(bash_body);
}

}  // namespace

result<std::string> completion_script(const CLI::App& app, const std::string& shell) {
  if (shell != "bash") {
    return error(errc::invalid_argument,
                 fmt::format("cannot write completion: expected the shell bash, found "
                             "\"{}\"",
                             shell));
  }
  std::vector<command_words> commands;
  collect(app, "", commands);
  return bash_script(commands);
}

}  // namespace weir::tools
