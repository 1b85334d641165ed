// SPDX-License-Identifier: Apache-2.0
/// @file
/// Generates scripts that complete the command line in bash, zsh and fish. Verbs and
/// options come from the parser, so the scripts never differ from the program.
///
/// The three shells have different models: bash calls one function that fills an array,
/// zsh calls one that describes groups of words, and fish evaluates a list of rules. All
/// scripts get the same tables of commands and words, made once.
#include "completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "pipeline/stage_keys.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::tools {

namespace {

/// One spelling of a verb or of an option, with its dashes.
struct word {
  std::string text;
  std::string description;
  bool takes_value = false;
};

/// A command and the words that may follow it.
struct command_words {
  std::string path;  ///< such as "tgm ls"; empty for the program itself
  std::vector<word> verbs;
  std::vector<word> options;
};

/// A stage and the keys that it may have in a line of `weir pipe`.
struct stage_words {
  std::string name;
  std::string description;
  std::vector<std::string> keys;  ///< each with "=" at its end
};

/// Returns the stages that every pipeline may use.
std::vector<stage_words> stages_with_keys() {
  // Plug-ins are not loaded: their stages depend on options of the line that is being
  // typed.
  add_standard_stages();
  std::vector<stage_words> all;
  for (const std::string& name : flow::stages().names()) {
    const auto info = flow::stages().describe(name);
    // A stage whose description fails is left out rather than failing the script.
    if (!info) {
      continue;
    }
    stage_words stage{name, info->documentation, {}};
    for (const setting_info& one : info->settings) {
      stage.keys.push_back(one.name + "=");
    }
    // Keys of every stage, besides its own settings. In a line the stage itself stands
    // in place of the key `use`.
    for (const std::string& key : keys_of_every_stage()) {
      if (key != "use") {
        stage.keys.push_back(key + "=");
      }
    }
    all.push_back(std::move(stage));
  }
  return all;
}

/// Lets the names of stages follow `weir inspect` and `weir pipe`.
void add_stages(std::vector<command_words>& commands,
                const std::vector<stage_words>& stages) {
  for (command_words& c : commands) {
    // Stages follow these two verbs only. They are no verbs, but complete in the same
    // way.
    if (c.path != "inspect" && c.path != "pipe") {
      continue;
    }
    for (const stage_words& stage : stages) {
      c.verbs.push_back({stage.name, stage.description});
    }
  }
}

/// Adds the options of a command, and the options of its group that it accepts as well.
void add_options(const CLI::App& app, std::vector<word>& to) {
  const auto add = [&](const std::string& name, const CLI::Option& option) {
    // An option of the command hides one of its group with the same name.
    const auto known = [&](const word& w) { return w.text == name; };
    if (std::none_of(to.begin(), to.end(), known)) {
      to.push_back({name, option.get_description(), option.get_items_expected_max() > 0});
    }
  };
  // CLI11 keeps long and short names without their dashes.
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      add("--" + name, *option);
    }
    for (const std::string& name : option->get_snames()) {
      add("-" + name, *option);
    }
  }
  // Commands that fall through accept the options of their parent behind them.
  if (app.get_fallthrough() && app.get_parent() != nullptr) {
    add_options(*app.get_parent(), to);
  }
}

/// Adds a command and, recursively, its verbs.
void collect(const CLI::App& app, const std::string& path,
             std::vector<command_words>& out) {
  // The filter accepts all. Without one, only the verbs on the line would be returned.
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  command_words found;
  found.path = path;
  for (const CLI::App* verb : verbs) {
    found.verbs.push_back({verb->get_name(), verb->get_description()});
  }
  add_options(app, found.options);
  out.push_back(std::move(found));
  // The parent stands before its verbs. fish needs no order, but the scripts are easier
  // to read.
  for (const CLI::App* verb : verbs) {
    collect(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name(), out);
  }
}

/// Returns a text in single quotes. `quote` is the spelling of a single quote inside
/// them, which differs between shells.
std::string quoted(std::string_view text, std::string_view quote) {
  // Single quotes keep everything but themselves as it is in all three shells.
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote;
    } else {
      out += c;
    }
  }
  return out + "'";
}

constexpr std::string_view bash_body = R"(
  local path="" word next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    next="${path:+$path }$word"
    [[ -n ${words["/$next"]+x} ]] && path=$next
  done
  if [[ $path == pipe && $2 != -* ]]; then
    _weir_line "$2"
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "${words["/$path"]}" -- "$2")
  [[ $2 == -* ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2")
}
# Completes a word in the line of `weir pipe`, also if the line is quoted: the name of a
# stage, and behind it its keys.
_weir_line() {
  local line="${COMP_WORDS[*]:2:COMP_CWORD-2} ${1#[\"\']}" part last list
  part=${line##*"! "}
  last=${part##* }
  part=${part% *}
  part=${part#"${part%%[! ]*}"}
  part=${part#[\"\']}
  if [[ -z $part || $part == "$last" ]]; then
    list="${!weir_keys[*]} -"
  else
    list="${weir_keys[${part%% *}]} !"
  fi
  local before=""
  [[ $1 == *" "* ]] && before="${1% *} "
  mapfile -t COMPREPLY < <(compgen -P "${before#[\"\']}" -W "$list" -- "$last")
  if [[ $last == *=* || ${COMP_WORDS[COMP_CWORD-1]} == "=" || $last == "=" ]]; then
    # Inside quotes the word has the line up to here, which the shell would replace.
    [[ $1 == *=* ]] && before="$before${last%"${last##*=}"}"
    mapfile -t COMPREPLY < <(compgen -P "${before#[\"\']}" -f -- "${last##*=}")
  fi
  compopt -o nospace 2>/dev/null
}
complete -o filenames -F _weir weir
)";

// The bash function keeps a table from command to words. It walks along the line to the
// innermost command and offers its words, and files unless an option is being typed.
// The table is a local of the function, filled anew at each call, since that takes less
// than a millisecond. The keys of stages are global, because a second function uses them.
std::string bash_script(const std::vector<command_words>& commands,
                        const std::vector<stage_words>& stages) {
  std::string out = "# Completion of weir for bash.\ndeclare -gA weir_keys=(\n";
  for (const stage_words& stage : stages) {
    out += fmt::format("  [{}]=\"{}\"\n", stage.name, fmt::join(stage.keys, " "));
  }
  out += ")\n_weir() {\n  local -A words=(\n";
  for (const command_words& c : commands) {
    std::string list;
    // bash makes no difference between verbs and options. Descriptions are not shown
    // there.
    for (const auto* some : {&c.verbs, &c.options}) {
      for (const word& w : *some) {
        list += w.text + " ";
      }
    }
    // A slash begins each key, because bash does not allow empty ones.
    out += fmt::format("    [\"/{}\"]=\"{}\"\n", c.path, list);
  }
  return out + "  )" + std::string(bash_body);
}

// The variables `words` and `path` have a meaning of their own in zsh, so other names are
// used. If a user sources the script, its last lines register the function; if zsh loads
// it from $fpath as the body of `_weir`, they call it.
constexpr std::string_view zsh_body = R"(
  local level="" next
  local -i i
  for ((i = 2; i < CURRENT; i++)); do
    next="${level:+$level }${words[i]}"
    (( ${+verbs[/$next]} )) && level=$next
  done
  local -a entries
  if [[ $level == pipe ]]; then
    local stage=""
    for ((i = 3; i < CURRENT; i++)); do
      if [[ ${words[i]} == "!" ]]; then
        stage=""
      elif [[ -z $stage ]]; then
        stage=${words[i]}
      fi
    done
    if [[ -n $stage ]]; then
      compadd -S "" -- ${=keys[$stage]}
      compadd -- "!"
      return
    fi
  fi
  entries=("${(@f)verbs[/$level]}")
  [[ -n $entries ]] && _describe -t commands command entries
  if [[ $PREFIX == -* ]]; then
    entries=("${(@f)options[/$level]}")
    _describe -t options -o option entries
  elif [[ -z ${verbs[/$level]} ]]; then
    _files
  fi
}
if [[ ${funcstack[1]} == _weir ]]; then
  _weir "$@"
else
  compdef _weir weir
fi
)";

/// Returns a table from command to lines of the form "word:description", as `_describe`
/// takes them.
/// @param list  The words of a command that the table has: verbs or options.
std::string zsh_table(const std::vector<command_words>& commands, const char* name,
                      std::vector<word> command_words::*list) {
  std::string out = fmt::format("  local -A {}=(\n", name);
  for (const command_words& c : commands) {
    std::string lines;
    for (const word& w : c.*list) {
      // Colons in descriptions are no problem, since the first one ends the word. Words
      // have none.
      lines += fmt::format("{}{}:{}", lines.empty() ? "" : "\n", w.text, w.description);
    }
    out += fmt::format("    {} {}\n", quoted("/" + c.path, R"('\'')"),
                       quoted(lines, R"('\'')"));
  }
  return out + "  )\n";
}

/// Returns the table from stage to its keys, with spaces between them.
std::string zsh_keys(const std::vector<stage_words>& stages) {
  std::string out = "  local -A keys=(\n";
  for (const stage_words& stage : stages) {
    out += fmt::format("    '{}' '{}'\n", stage.name, fmt::join(stage.keys, " "));
  }
  return out + "  )\n";
}

/// The first line tells zsh for which command it may load the file.
std::string zsh_script(const std::vector<command_words>& commands,
                       const std::vector<stage_words>& stages) {
  return "#compdef weir\n# Completion of weir for zsh.\n_weir() {\n" +
         zsh_table(commands, "verbs", &command_words::verbs) +
         zsh_table(commands, "options", &command_words::options) + zsh_keys(stages) +
         // The raw string begins with a line feed, which is not needed here.
         std::string(zsh_body.substr(1));
}

constexpr std::string_view fish_head = R"(# Completion of weir for fish.
function __weir_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l level ''
    for word in $words
        set -l next (string trim -- "$level $word")
        contains -- $next $__weir_commands; and set level $next
    end
    test "$level" = "$argv[1]"
end
function __weir_stage
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test "$words[2]" = pipe; or return 1
    set -e words[1..2]
    set -l stage ''
    for word in $words
        if test "$word" = '!'
            set stage ''
        else if test -z "$stage"
            set stage $word
        end
    end
    test "$stage" = "$argv[1]"
end
)";

// fish evaluates one rule for each word. The condition of a rule, __weir_at, walks along
// the words of the line to the innermost command and compares it with the command of the
// rule.
std::string fish_script(const std::vector<command_words>& commands,
                        const std::vector<stage_words>& stages) {
  std::string known = "set -g __weir_commands";
  std::string rules;
  for (const command_words& c : commands) {
    // The program itself is level '' and is not in the list.
    if (!c.path.empty()) {
      known += " " + quoted(c.path, R"(\')");
    }
    const std::string rule =
        fmt::format("complete -c weir -n \"__weir_at '{}'\"", c.path);
    // Where verbs are expected, files are not offered (-f).
    if (!c.verbs.empty()) {
      rules += rule + " -f\n";
    }
    // Names of stages are not offered behind a stage, whose keys follow it.
    const std::string of_verbs =
        c.path == "pipe" ? "complete -c weir -n \"__weir_stage ''\"" : rule;
    for (const word& w : c.verbs) {
      rules += fmt::format("{} -a {} -d {}\n", of_verbs, w.text,
                           quoted(w.description, R"(\')"));
    }
    for (const word& w : c.options) {
      // fish takes long and short options by different flags and without dashes.
      const bool is_long = w.text.substr(0, 2) == "--";
      // "-r" says that a value must follow, so that fish completes that value.
      rules += fmt::format("{} {} {}{} -d {}\n", rule, is_long ? "-l" : "-s",
                           w.text.substr(is_long ? 2 : 1), w.takes_value ? " -r" : "",
                           quoted(w.description, R"(\')"));
    }
  }
  // Behind the name of a stage in `weir pipe`, its keys and the "!" of the next stage.
  for (const stage_words& stage : stages) {
    rules += fmt::format("complete -c weir -n \"__weir_stage '{}'\" -f -a '{} !'\n",
                         stage.name, fmt::join(stage.keys, " "));
  }
  return std::string(fish_head) + known + "\n" + rules;
}

}  // namespace

result<std::string> completion_script(const CLI::App& app, const std::string& shell) {
  using writer =
      std::string (*)(const std::vector<command_words>&, const std::vector<stage_words>&);
  // The order is that of the message below.
  constexpr std::array<std::pair<std::string_view, writer>, 3> shells{
      {{"bash", &bash_script}, {"zsh", &zsh_script}, {"fish", &fish_script}}};
  std::vector<command_words> commands;
  // The tables are made before the shell is known to be right, which costs little and
  // keeps one loop.
  collect(app, "", commands);
  const std::vector<stage_words> stages = stages_with_keys();
  add_stages(commands, stages);
  for (const auto& [name, write] : shells) {
    if (name == shell) {
      return write(commands, stages);
    }
  }
  return error(errc::invalid_argument,
               fmt::format("cannot write completion: expected bash, zsh or fish, found "
                           "\"{}\"",
                           shell));
}

}  // namespace weir::tools
