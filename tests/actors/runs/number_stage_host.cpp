// SPDX-License-Identifier: Apache-2.0
/// @file
/// The child process of a stage of random pipelines.
#include "pipeline/support/random_pipeline.hpp"
#include "process/stage_server.hpp"

int main() {
  weir::flow::catalog known;
  weir::test::add_number_stages(known);
  return weir::actors::serve_stage(
      known,
      [](weir::flow::catalog&, const std::string&) -> weir::result<void> { return {}; });
}
