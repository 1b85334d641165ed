// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers that the tests of remote files share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "formats/remote/test_server.hpp"
#include "weir/formats/remote.hpp"

namespace weir::test {

/// Returns options that ignore the environment and repeat requests without a long pause.
inline formats::remote_options quick_options() {
  formats::remote_options out;
  out.environment = false;
  out.first_pause = std::chrono::milliseconds(1);
  return out;
}

/// Returns whether an error message contains a text; a failure shows the message.
inline testing::AssertionResult says(const error& e, const std::string& text) {
  const bool there = e.message().find(text) != std::string::npos;
  return (there ? testing::AssertionSuccess() : testing::AssertionFailure())
         << "\"" << text << "\" in:\n"
         << e.message();
}

}  // namespace weir::test
