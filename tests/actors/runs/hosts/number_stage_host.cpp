// SPDX-License-Identifier: Apache-2.0
/// @file
/// The child process of a stage of random pipelines, and of tests of every kind of host.
#include "actors/runs/hosts/host_stages.hpp"
#include "actors/runs/hosts/weighted_stage.hpp"
#include "pipeline/support/random_pipeline.hpp"
#include "process/stage_server.hpp"
#include "weir/actors/pipelines.hpp"

int main() {
  weir::add_standard_stages();
  weir::flow::catalog& known = weir::flow::stages();
  weir::test::add_number_stages(known);
  weir::test::add_host_stages(known);
  weir::or_throw(known.add<weir::test::weighted>());
  return weir::actors::serve_stage(
      known,
      [](weir::flow::catalog&, const std::string&) -> weir::result<void> { return {}; });
}
