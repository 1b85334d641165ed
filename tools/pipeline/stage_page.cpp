// SPDX-License-Identifier: Apache-2.0
/// @file
/// Formats the descriptions of stages as the page docs/stages.md.
///
/// The page has three chapters by face, a section for each stage, and in each section its
/// sentence, details, ports, settings, guarantee and example. It is made by the program
/// and compared with the file by a test, so nothing is added by hand.
#include "stage_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/values.hpp"
#include "facts.hpp"
#include "file.hpp"

namespace weir::tools {

namespace {

/// The introduction of the page.
constexpr std::string_view stages_head = R"(# Stages

The stages that every pipeline may use by name. This page is what `weir stages --markdown`
prints: it is made from the descriptions of the stages alone, and a test runs every
example. `weir inspect STAGE` prints the section of one stage.
[pipelines.md](pipelines.md#faces-your-own-stages) explains sources, sinks and the other
faces.

A *type* is an element type with extents, such as `f32[n,4]`, `u8[?]` or `any`: a number
is a fixed extent, a letter one that is equal wherever the stage uses the letter, `?` one
that may differ from item to item. Settings marked with a star must be given. All settings
belong to the identity of the pipeline: a resumed run must have the same values, except
where a setting says that it may change. Unknown settings are refused with the nearest
name, values outside of their range with the range.

Relative paths lie beside the file that describes the pipeline. All sources but those of
pipes verify at a resume that the last message, file or block before the cursor is the one
that the run has read: other data is `history_mismatch`, less data is
`position_out_of_bounds`. Data behind the cursor may have been added.
)";

/// A chapter of the page: the stages of some faces.
struct chapter {
  std::string_view title;
  bool (*holds)(flow::face);
};
/// In the order of the page. Each function says which faces belong to the chapter.
constexpr std::array<chapter, 3> chapters{
    {{"Sources", [](flow::face f) { return f == flow::face::source; }},
     {"Stages between sources and sinks",
      [](flow::face f) { return f != flow::face::source && f != flow::face::sink; }},
     {"Sinks", [](flow::face f) { return f == flow::face::sink; }}}};

/// Returns a sentence that begins with a capital letter and ends with a full stop.
std::string sentence(std::string text) {
  // Only letters of ASCII change. A sentence that begins with anything else stays as it
  // is.
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') {
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  }
  return text + ".";
}

/// Returns text that a cell of a table can hold.
/// A bar would end the cell.
std::string table_cell(const std::string& text) {
  std::string out;
  // A backslash in front keeps the bar as text.
  for (const char c : text) {
    out += c == '|' ? "\\|" : std::string(1, c);
  }
  return out;
}

/// Returns the row of a setting: name, range and unit, default, meaning.
std::string setting_row(const flow::stage_info& info, std::size_t index) {
  const setting_info& one = info.settings[index];
  // The default of a setting that must be given would mislead.
  const bool known = index < info.defaults.size() && !one.required;
  return fmt::format(
      "| `{}`{} | {}{} | {} | {}{} |\n", one.name, one.required ? " *" : "",
      table_cell(one.expected()), one.unit.empty() ? "" : fmt::format(" ({})", one.unit),
      known ? fmt::format("`{}`", table_cell(toml_text(info.defaults[index])))
            : std::string(),
      table_cell(one.documentation), one.may_change ? "; may change at a resume" : "");
}

/// Returns the table of settings, or a sentence if there are none.
std::string settings_part(const flow::stage_info& info) {
  if (info.settings.empty()) {
    return "There are no settings.\n\n";
  }
  std::string out =
      "| setting | takes | default | meaning |\n| --- | --- | --- | --- |\n";
  for (std::size_t i = 0; i < info.settings.size(); ++i) {
    out += setting_row(info, i);
  }
  return out + "\n";
}

/// Returns a sentence with the ports, inlets first; empty without ports.
std::string ports_part(std::span<const flow::port_info> ports) {
  std::string out;
  for (const bool inlet : {true, false}) {
    for (const flow::port_info& one : ports) {
      if (one.inlet == inlet) {
        out += fmt::format("{}{} `{}` of type `{}`", out.empty() ? "" : ", ",
                           inlet ? "inlet" : "outlet", one.name, one.type.text());
      }
    }
  }
  // "in the example", because other settings may give other ports.
  return out.empty() ? out : fmt::format("Ports in the example: {}.\n\n", out);
}

/// Returns a sentence about what checkpoints hold for a stage, or that it has no state.
std::string state_part(const flow::stage_info& info) {
  std::vector<std::string> held;
  for (const flow::state_info& one : info.state) {
    held.push_back(fmt::format("`{}` ({})", one.name, one.tensor ? "tensor" : "value"));
  }
  // The flow keeps the first items of a call until the last one has come.
  if (info.takes > 1) {
    held.emplace_back("the items of a group that is not complete");
  }
  // Each source has a cursor and each sink an offset. They are worth a sentence where
  // there is nothing else.
  if (held.empty() && info.face == flow::face::source) {
    held.emplace_back("the cursor");
  }
  if (held.empty() && info.face == flow::face::sink) {
    held.emplace_back("the offset");
  }
  if (!held.empty()) {
    return fmt::format("State in checkpoints: {}.\n\n", fmt::join(held, ", "));
  }
  return info.stateless ? "The stage has no state, so failed items may be skipped.\n\n"
                        : "The stage has no state, but failed items stop the run.\n\n";
}

/// Makes the section of a stage. The ports are those of its example, since many depend on
/// settings.
result<std::string> section(const flow::stage_info& described) {
  // Describes the stage once more, as it is in its example.
  WEIR_TRY(const flow::stage_info info, as_in_example(described));
  std::string out =
      fmt::format("## {}\n\n{} {}\n\n", info.name, sentence(face_word(info.face)),
                  sentence(info.documentation));
  if (!info.details.empty()) {
    out += info.details + "\n\n";
  }
  out += ports_part(info.ports) + settings_part(info);
  // Other stages repeat exactly what they did, so they have no guarantee of their own.
  if (info.face == flow::face::source || info.face == flow::face::sink) {
    out += fmt::format("Guarantee: {}.\n\n", guarantee_words(info.promise));
  }
  out += state_part(info);
  // An example ends with a line feed of its own.
  return info.example.empty() ? out : out + fmt::format("```toml\n{}```\n", info.example);
}

}  // namespace

result<flow::stage_info> as_in_example(flow::stage_info info) {
  // Nothing to learn beyond the general description.
  if (info.example.empty()) {
    return info;
  }
  // The example is a whole file, read as if it were in the folder "/".
  WEIR_TRY(const written_pipeline written,
           // Without assignments and plug-ins.
           read_pipeline(info.example, "example of " + info.name, "/", {}));
  // The first stage of this kind, if the example has several.
  const auto stage = std::ranges::find(written.stages, info.name, &written_stage::use);
  if (stage == written.stages.end()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use the example of {0}: expected a stage with use = "
                             "\"{0}\", found none",
                             info.name));
  }
  // Only the settings of this stage count; the other stages of the example serve it.
  given_settings settings;
  for (const config_entry& one : stage->settings) {
    settings.emplace(one.key, one.value);
  }
  // The stage is made but not opened, so no file is touched.
  WEIR_TRY(flow::described_stage made, flow::stages().make(stage->use, settings));
  info.ports = std::move(made.info.ports);
  info.state = std::move(made.info.state);
  info.takes = made.info.takes;
  info.gives = made.info.gives;
  info.holds = made.info.holds;
  info.own_numbering = made.info.own_numbering;
  info.stateless = made.info.stateless;
  return info;
}

result<std::string> stages_page(std::span<const flow::stage_info> stages) {
  std::string out(stages_head);
  // Stages come in the order in which they are given, by name.
  for (const chapter& part : chapters) {
    out += fmt::format("\n# {}\n", part.title);
    for (const flow::stage_info& info : stages) {
      // A stage whose face is only known with settings has that of its description.
      if (part.holds(info.face)) {
        WEIR_TRY(const std::string text, section(info));
        out += "\n" + text;
      }
    }
  }
  return out;
}

}  // namespace weir::tools
