// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the collectives of every axis of every mesh of 1 to 16 devices through the C
/// interface, against a scalar oracle. With WEIR_TEST_SWEEP=all each mesh runs every
/// type, operation and count; otherwise the combinations take turns.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/collective/meshes.hpp"
#include "runtime/collective/plans.hpp"
#include "support.hpp"
#include "support/case_count.hpp"
#include "weir/collective/choice.hpp"

namespace weir::test {
namespace {

using collective::collective_call;
using collective::collective_kind;
using collective::reduction_op;
using collective::test::bytes;

constexpr std::size_t max_elements = 16 * 7;

/// A mesh with two buffers on every device, which the test reads and writes directly:
/// devices of the processor have memory that it can reach.
class swept_mesh {
 public:
  swept_mesh(tessContext_t context, const collective::mesh_axes& axes)
      : shape(collective::test::shape_of(axes)) {
    std::vector<int> ids(static_cast<std::size_t>(shape.ranks()));
    std::iota(ids.begin(), ids.end(), 0);
    EXPECT_TESS(tessMeshCreate(context, ids.data(), shape.ranks(),
                               {axes.tp, axes.pp, axes.dp, axes.ep}, &mesh));
    EXPECT_TESS(tessStreamCreate(mesh, 0, &stream));
    for (auto* buffer : {&from, &to}) {
      EXPECT_TESS(tessMalloc(mesh, max_elements * 16, buffer));
    }
  }
  ~swept_mesh() { EXPECT_TESS(tessMeshDestroy(mesh)); }
  swept_mesh(const swept_mesh&) = delete;
  swept_mesh& operator=(const swept_mesh&) = delete;

  /// Writes each rank's bytes to its instance of the buffer.
  void put(void* buffer, const std::vector<bytes>& content) const {
    for (std::size_t r = 0; r < content.size(); ++r) {
      std::copy(content[r].begin(), content[r].end(),
                static_cast<std::byte*>(on_rank(buffer, r)));
    }
  }
  /// Returns the first `size` bytes of each rank's instance of the buffer.
  [[nodiscard]] std::vector<bytes> get(void* buffer, std::size_t size) const {
    std::vector<bytes> out(static_cast<std::size_t>(shape.ranks()), bytes(size));
    for (std::size_t r = 0; r < out.size(); ++r) {
      std::copy_n(static_cast<const std::byte*>(on_rank(buffer, r)), size,
                  out[r].begin());
    }
    return out;
  }

  collective::mesh_shape shape;
  tessMesh_t mesh = nullptr;
  tessStream_t stream = nullptr;
  void* from = nullptr;
  void* to = nullptr;

 private:
  /// Returns the address of a rank's instance.
  [[nodiscard]] void* on_rank(void* buffer, std::size_t rank) const {
    void* out = nullptr;
    EXPECT_TESS(tessMemGetRankPtr(mesh, buffer, static_cast<int>(rank), &out));
    return out;
  }
};

/// A collective along one axis.
struct swept_call {
  collective_call call;
  const char* axis;
  collective::axis_set axes;
  bool in_place;
  const char* algorithm;
  std::uint64_t seed;
};

/// Makes the call through the specific function of the interface if it has one for these
/// parameters, otherwise through tessCollective.
tessStatus_t post(const swept_mesh& m, const swept_call& swept) {
  const collective_call& c = swept.call;
  const int type = static_cast<int>(c.type);
  const bool of_the_specification =
      c.op == reduction_op::sum || c.op == reduction_op::max || c.op == reduction_op::min;
  if (of_the_specification && swept.in_place && swept.algorithm == nullptr &&
      !c.packed_shards) {
    const auto op = static_cast<tessCollOp>(c.op);
    switch (c.kind) {
      case collective_kind::all_reduce:
        return tessAllReduce(m.mesh, m.to, c.count, type, op, swept.axis, m.stream);
      case collective_kind::reduce_scatter:
        return tessReduceScatter(m.mesh, m.to, c.count, type, op, swept.axis, m.stream);
      case collective_kind::all_gather:
        return tessAllGather(m.mesh, m.to, c.count, type, swept.axis, m.stream);
      default: break;
    }
  }
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.kind = static_cast<int32_t>(c.kind);
  d.sendbuf = swept.in_place ? m.to : m.from;
  d.recvbuf = m.to;
  d.count = c.count;
  d.dtype = type;
  d.op = static_cast<int32_t>(c.op);
  d.axis = swept.axis;
  d.root = c.root;
  d.peer = c.peer;
  d.algorithm = swept.algorithm;
  d.packedShards = c.packed_shards ? 1 : 0;
  return tessCollective(m.mesh, &d, m.stream);
}

/// Returns whether a type supports the operation. Stated here independently of the
/// library's own check.
bool has_operation(const collective_call& c) {
  const bool complex = c.type == dtype::complex64 || c.type == dtype::complex128;
  const bool integer = c.type >= dtype::int8 && c.type <= dtype::boolean;
  switch (c.op) {
    case reduction_op::max:
    case reduction_op::min: return !complex;
    case reduction_op::product: return c.level < 2 || integer;
    case reduction_op::average: return c.type != dtype::boolean;
    case reduction_op::sum: break;
  }
  return true;
}

/// Returns what the buffer of results must hold on each rank.
std::vector<bytes> expected_of(const swept_mesh& m, const swept_call& swept,
                               const std::vector<bytes>& from, std::vector<bytes> to) {
  for (const std::vector<int>& group : m.shape.groups(swept.axes)) {
    std::vector<bytes> inputs;
    std::vector<bytes> outputs;
    for (const int rank : group) {
      const auto r = static_cast<std::size_t>(rank);
      inputs.push_back(swept.in_place ? to[r] : from[r]);
      outputs.push_back(to[r]);
    }
    outputs = collective::test::expected_outputs(swept.call, inputs, std::move(outputs));
    for (std::size_t i = 0; i < group.size(); ++i) {
      to[static_cast<std::size_t>(group[i])] = std::move(outputs[i]);
    }
  }
  return to;
}

/// Makes the call and compares its results with the oracle.
void expect_swept(const swept_mesh& m, const swept_call& swept) {
  const int ranks = m.shape.group_size(swept.axes);
  const std::size_t size = swept.call.count * info_of(swept.call.type).size;
  std::mt19937_64 dice(swept.seed);
  const auto flavour = static_cast<collective::test::flavour>(dice() % 4);
  const auto from = collective::test::random_buffers(dice, swept.call.type,
                                                     m.shape.ranks(), size, flavour);
  const auto to = collective::test::random_buffers(dice, swept.call.type, m.shape.ranks(),
                                                   size, flavour);
  m.put(m.from, from);
  m.put(m.to, to);
  const auto text = [&] {
    return collective::test::text_of(swept.call, ranks) + " along " + swept.axis +
           " of " + std::to_string(m.shape.ranks()) +
           (swept.in_place ? " in place " : " ") +
           (swept.algorithm == nullptr ? "" : swept.algorithm) + " seed " +
           std::to_string(swept.seed);
  };
  const bool reduces = collective::reduces(swept.call.kind);
  const bool there = !reduces || has_operation(swept.call);
  ASSERT_EQ(post(m, swept), there ? TESS_OK : TESS_ERR_UNSUPPORTED) << text();
  ASSERT_TESS(tessStreamSynchronize(m.stream));
  const auto expected = there ? expected_of(m, swept, from, to) : to;
  ASSERT_EQ(collective::test::first_difference(m.get(m.to, size), expected), -1)
      << text();
  if (!swept.in_place) {
    ASSERT_EQ(m.get(m.from, size), from) << "input of " << text();
  }
}

constexpr std::array<std::pair<const char*, collective::axis_set>, 7> swept_axes = {
    {{"tp", 1},
     {"pp", 2},
     {"dp", 4},
     {"ep", 8},
     {"world", 15},
     {"tp+dp", 5},
     {"ep+pp", 10}}};

/// Returns the calls of a kind on one axis. The counts are 0, 1 and a prime number, in
/// total or per shard.
std::vector<collective_call> calls_of(collective_kind kind, std::size_t ranks) {
  std::vector<collective_call> out;
  const bool shards =
      kind == collective_kind::reduce_scatter || kind == collective_kind::all_gather ||
      kind == collective_kind::gather || kind == collective_kind::scatter ||
      kind == collective_kind::all_to_all;
  for (const dtype type : collective::test::all_types) {
    for (const reduction_op op : collective::test::all_ops) {
      for (const int level : {1, 2}) {
        for (const std::size_t count : {0U, 1U, 7U}) {
          if (!collective::reduces(kind) && (op != reduction_op::sum || level != 1)) {
            continue;
          }
          collective_call c;
          c.kind = kind;
          c.type = type;
          c.op = op;
          c.level = level;
          c.count = shards ? count * ranks : count;
          out.push_back(c);
        }
      }
    }
  }
  return out;
}

/// One test for each kind of collective.
class Sweep : public testing::TestWithParam<collective_kind> {};

TEST_P(Sweep, EveryAxisOfEveryMeshEqualsTheOracle) {
  const char* const asked = std::getenv("WEIR_TEST_SWEEP");
  const bool all = asked != nullptr && std::string_view(asked) == "all";
  const environment many({{"TESS_CPU_DEVICES", "16"}, {"TESS_NUM_THREADS", "2"}});
  constexpr std::array<const char*, 5> algorithms = {nullptr, "direct", "ring", "tree",
                                                     nullptr};
  const collective_kind kind = GetParam();
  tessContext_t context = nullptr;
  ASSERT_TESS(tessInit(&context));
  std::uint64_t seed = 1000 * (1 + static_cast<std::uint64_t>(kind));
  int level = 2;
  std::size_t done = 0;
  weir::test::case_picker tried;
  for (const collective::mesh_axes& axes : collective::test::all_meshes(16)) {
    const swept_mesh m(context, axes);
    for (const auto& [axis, set] : swept_axes) {
      const auto ranks = static_cast<std::size_t>(m.shape.group_size(set));
      const auto calls = calls_of(kind, ranks);
      const std::size_t turns = all ? calls.size() : 2;
      for (std::size_t i = 0; i < turns; ++i, ++seed) {
        swept_call swept{
            calls[all ? i : seed * 31 % calls.size()], axis, set, seed % 2 == 0,
            algorithms[seed / 2 % algorithms.size()],  seed};
        if (swept.algorithm != nullptr &&
            !is_legal(or_throw(collective::algorithm_named(swept.algorithm)), swept.call,
                      static_cast<int>(ranks), {1, 2, true})) {
          swept.algorithm = nullptr;
        }
        swept.call.root = static_cast<int>(seed % ranks);
        swept.call.peer = static_cast<int>((seed / 3 + 1) % ranks);
        if (swept.call.level != level) {
          level = swept.call.level;
          const tessNumericsPolicy policy{level - 1, 1, 1, 0};
          ASSERT_TESS(tessSetNumericsPolicy(context, &policy));
        }
        if (tried.next()) {
          ASSERT_NO_FATAL_FAILURE(expect_swept(m, swept));
        }
        ++done;
      }
    }
  }
  EXPECT_GE(done, 204U * 7 * 2);
  EXPECT_TESS(tessShutdown(context));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Sweep, testing::ValuesIn(collective::test::all_kinds),
                         [](const auto& kind) {
                           return std::string(collective::name_of(kind.param));
                         });

}  // namespace
}  // namespace weir::test
