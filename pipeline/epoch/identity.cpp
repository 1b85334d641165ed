// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text that identifies a pipeline.
#include "weir/pipeline/host/identity.hpp"

#include <fmt/format.h>

namespace weir::flow {
namespace {

std::string_view first_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

}  // namespace

std::string identity_of(const graph& g) {
  std::string text = fmt::format("pipeline {}\n", g.name);
  for (const graph_stage& s : g.stages) {
    text += fmt::format("stage {} {}\n", s.name, s.info.name);
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

result<void> same_pipeline(const image& from, std::string_view identity) {
  const image_section* s = from.find(identity_section);
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
