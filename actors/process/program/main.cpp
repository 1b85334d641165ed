// SPDX-License-Identifier: Apache-2.0
/// @file
/// The program `weir-stage-host`: the child process of a stage of C++.
#include <cstdio>
#include <exception>

#include "process/stage_server.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/actors/plugins.hpp"

int main() {
  try {
    weir::add_standard_stages();
    return weir::actors::serve_stage(weir::flow::stages(), &weir::load_plugin);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
