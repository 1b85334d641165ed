// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages by name.
#include "weir/pipeline/catalog.hpp"

#include <fmt/format.h>

#include "weir/base/text.hpp"

namespace weir::flow {

result<void> catalog::add(std::string name, factory make) {
  const auto [place, added] = factories_.try_emplace(std::move(name), std::move(make));
  if (!added) {
    return error(errc::already_exists,
                 fmt::format("cannot add the stage \"{}\": expected a new name, found a "
                             "stage of that name",
                             place->first));
  }
  return {};
}

result<described_stage> catalog::make(std::string_view name,
                                      const given_settings& settings) const {
  const auto found = factories_.find(name);
  if (found == factories_.end()) {
    const std::vector<std::string> known = names();
    return error(errc::unknown_key,
                 fmt::format("cannot make the stage \"{}\": expected one of {} known "
                             "stages, found none of that name{}",
                             name, known.size(), did_you_mean(name, known)));
  }
  return found->second(settings);
}

std::vector<std::string> catalog::names() const {
  std::vector<std::string> all;
  for (const auto& [name, make] : factories_) {
    all.push_back(name);
  }
  return all;
}

catalog& stages() {
  static catalog& all = *new catalog();  // threads may use it at the end of the process
  return all;
}

}  // namespace weir::flow
