// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests collectives of every axis of every mesh of 1 to 16 devices against the oracle;
/// all groups of an axis run together. With WEIR_TEST_COLLECTIVES=all each mesh runs
/// every type and operation; otherwise they take turns.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "meshes.hpp"
#include "plans.hpp"
#include "support/case_count.hpp"

namespace weir::collective {
namespace {

using test::bytes;

/// Returns the calls of one kind, one for each type and operation.
std::vector<collective_call> turns_of(collective_kind kind) {
  std::vector<collective_call> calls;
  for (const dtype type : test::all_types) {
    const auto of_type = test::calls_of(kind, type, {1, 2});
    calls.insert(calls.end(), of_type.begin(), of_type.end());
  }
  return calls;
}

/// Makes the plan for each call and group size once and keeps it.
class planner {
 public:
  const collective_plan& plan(const collective_call& call, int ranks) {
    const auto key = std::make_tuple(digest_of(call), call.level, ranks);
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      found =
          plans_.emplace(key, or_throw(plan_collective(call, ranks, {1, 2, true}, {})))
              .first;
    }
    return found->second;
  }

 private:
  std::map<std::tuple<std::uint64_t, int, int>, collective_plan> plans_;
};

/// Runs a call on all groups of the axes and compares all buffers with the oracle.
void expect_on_mesh(planner& plans, const mesh_shape& mesh, axis_set axes,
                    collective_call call, std::uint64_t seed) {
  const int ranks = mesh.group_size(axes);
  const std::array<std::size_t, 3> counts = {0, 1, 3};
  call.count = counts[seed % 3] * static_cast<std::size_t>(ranks);
  call.root = static_cast<int>(seed % static_cast<std::uint64_t>(ranks));
  call.peer = ranks - 1 - call.root;
  std::mt19937_64 dice(seed);
  const std::size_t size = call.count * info_of(call.type).size;
  std::vector<bytes> buffers =
      test::random_buffers(dice, call.type, mesh.ranks(), size, test::flavour::wide);
  std::vector<bytes> expected = buffers;
  for (const std::vector<int>& group : mesh.groups(axes)) {
    std::vector<bytes> inputs;
    for (const int rank : group) {
      inputs.push_back(buffers[static_cast<std::size_t>(rank)]);
    }
    const auto outputs = test::expected_outputs(call, inputs, inputs);
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const auto rank = static_cast<std::size_t>(group[i]);
      expected[rank] = outputs[i];
      from.push_back(buffers[rank].data());
      to.push_back(buffers[rank].data());
    }
    bytes memory;
    const collective_plan& plan = plans.plan(call, ranks);
    std::byte* const scratch = test::aligned_scratch(memory, plan.scratch_bytes());
    test::run_in_random_order(plan, {from, to, scratch, nullptr}, dice);
  }
  ASSERT_EQ(test::first_difference(buffers, expected), -1)
      << test::text_of(call, ranks) << " axes " << int{axes} << " seed " << seed;
}

TEST(MeshCollectives, EveryAxisOfEveryMeshEqualsTheOracle) {
  const char* asked = std::getenv("WEIR_TEST_COLLECTIVES");
  const bool all = asked != nullptr && std::string_view(asked) == "all";
  const std::array<axis_set, 7> sets = {1, 2, 4, 8, whole_mesh, 1 + 4, 2 + 8};
  weir::test::case_picker tried;
  std::uint64_t seed = 1;
  for (const collective_kind kind : test::all_kinds) {
    planner plans;
    const std::vector<collective_call> calls = turns_of(kind);
    for (const mesh_axes& axes : test::all_meshes(16)) {
      const mesh_shape mesh = test::shape_of(axes);
      for (const axis_set set : sets) {
        for (std::size_t i = 0; i < (all ? 3 * calls.size() : 6); ++i, ++seed) {
          const collective_call& call = calls[all ? i / 3 : seed % calls.size()];
          if (tried.next()) {
            ASSERT_NO_FATAL_FAILURE(expect_on_mesh(plans, mesh, set, call, seed));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::collective
