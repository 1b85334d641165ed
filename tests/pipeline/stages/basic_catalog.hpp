// SPDX-License-Identifier: Apache-2.0
/// @file
/// The basic stages for tests, and expectations about refused settings.
#pragma once

#include "support/tape.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::test {

/// Returns a catalog of the basic stages.
inline flow::catalog& basic_stages() {
  static flow::catalog& all = *[] {
    auto* made = new flow::catalog();
    or_throw(flow::add_basic_stages(*made));
    return made;
  }();
  return all;
}
/// Adds a basic stage to a pipeline.
inline node add_basic(pipeline& p, const std::string& name, const std::string& stage,
                      const given_settings& settings = {}) {
  return p.add_made(name, basic_stages().make(stage, settings));
}
/// Returns a setting that is a list.
template <class T>
given_value list_of(const std::vector<T>& items) {
  setting_value::list all;
  for (const T& one : items) {
    all.push_back(given_value(one).value);
  }
  return given_value(setting_value{std::move(all)});
}
/// Expects that settings are refused with a message that contains a text.
inline void expect_refused(const std::string& stage, const given_settings& settings,
                           errc code, const std::string& text) {
  const auto made = basic_stages().make(stage, settings);
  ASSERT_FALSE(made) << stage;
  EXPECT_EQ(made.error().code(), code) << made.error().message();
  EXPECT_NE(made.error().message().find(text), std::string::npos)
      << made.error().message();
}

}  // namespace weir::test
