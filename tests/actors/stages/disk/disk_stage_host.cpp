// SPDX-License-Identifier: Apache-2.0
/// @file
/// The child process of a stage whose files lie on the disk of a test, which the test
/// serves to all processes of a run.
#include <cstdlib>

#include "actors/stages/disk/disk_stages.hpp"
#include "actors/stages/disk/served_disk.hpp"
#include "pipeline/support/number_stages.hpp"
#include "process/stage_server.hpp"
#include "weir/actors/pipelines.hpp"

int main() {
  weir::test::remote_files disk(std::getenv(weir::test::disk_variable));  // NOLINT
  weir::flow::catalog known;
  weir::test::add_disk_stages(known, disk);
  weir::or_throw(known.add<weir::test::scaled>());
  weir::or_throw(known.add<weir::test::outside_sum>());
  return weir::actors::serve_stage(
      known,
      [](weir::flow::catalog&, const std::string&) -> weir::result<void> { return {}; });
}
