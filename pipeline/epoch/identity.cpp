// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text that identifies a pipeline.
///
/// Two runs are of the same pipeline if their identities are the same text: names of
/// stages and ports, settings that may not change, and delays of edges. Windows, hosts
/// and workers are left out, because they change no bit of an output.
#include "weir/pipeline/host/identity.hpp"

#include <fmt/format.h>

namespace weir::flow {
namespace {

/// Takes the first line of a text away.
std::string_view first_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

}  // namespace

/// Returns the text. Its order is that of the graph, so equal graphs give equal texts.
std::string identity_of(const graph& g) {
  std::string text = fmt::format("pipeline {}\n", g.name);
  for (const graph_stage& s : g.stages) {
    // Stage and description are named: a stage of another class is another pipeline.
    text += fmt::format("stage {} {}\n", s.name, s.info.name);
    // Frozen settings are those that a resumed run must not change.
    for (const auto& [key, value] : s.info.frozen) {
      text += fmt::format("stage {} {} = {}\n", s.name, key, value);
    }
  }
  for (const graph_edge& e : g.edges) {
    text += fmt::format("edge {}.{} {}.{} delay {}\n", g.stages[e.from].name,
                        g.stages[e.from].info.ports[e.outlet].name, g.stages[e.to].name,
                        g.stages[e.to].info.ports[e.inlet].name, e.delay);
  }
  return text;
}

/// Compares the stored identity with that of this run line by line, so that the error
/// shows the first difference.
result<void> same_pipeline(const image& from, std::string_view identity) {
  const image_section* s = from.find(identity_section);
  // An image without the section is of no pipeline, and every line differs.
  std::string_view stored = s == nullptr ? std::string_view() : as_text(s->data);
  while (!stored.empty() || !identity.empty()) {
    const std::string_view found = first_line(stored);
    const std::string_view expected = first_line(identity);
    if (found != expected) {
      return error(errc::config_mismatch,
                   fmt::format("cannot continue from a checkpoint of another pipeline: "
                               "expected \"{}\", found \"{}\"",
                               expected, found));
    }
  }
  return {};
}

}  // namespace weir::flow
