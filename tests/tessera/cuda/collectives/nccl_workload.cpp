// SPDX-License-Identifier: Apache-2.0
/// @file
/// The program of the tests of errors and of planted mistakes.
#include "collectives/nccl_workload.hpp"

#include <cstring>

namespace weir::tessera::stand_in {
namespace {

constexpr std::size_t elements = 4;

/// Returns work of a kind over int32, with outputs of their own.
cuda::clique_work work_of(collective_kind kind,
                          const std::vector<std::unique_ptr<device_buffers>>& memory) {
  cuda::clique_work work;
  work.call.kind = kind;
  work.call.type = dtype::int32;
  work.call.level = 0;
  work.call.count = elements;
  work.call.peer = static_cast<int>(memory.size()) - 1;
  work.as = *cuda::nccl_elements_of(work.call, 22809, 90);
  for (const auto& m : memory) {
    work.buffers.push_back({m->input, m->output});
  }
  return work;
}

}  // namespace

cuda::clique_work nccl_sum(const std::vector<std::unique_ptr<device_buffers>>& memory) {
  return work_of(collective_kind::all_reduce, memory);
}

nccl_outcome run_nccl_workload(const clique_rig& rig) {
  nccl_outcome out;
  auto clique = rig.open(4'000'000'000);
  if (!clique) {
    out.failures.push_back(std::move(clique.error()));
    return out;
  }
  const auto memory = rig.buffers(elements * sizeof(std::int32_t));
  for (const collective_kind kind :
       {collective_kind::all_reduce, collective_kind::reduce_scatter,
        collective_kind::all_gather, collective_kind::broadcast, collective_kind::reduce,
        collective_kind::all_to_all, collective_kind::send}) {
    const cuda::clique_work work = work_of(kind, memory);
    std::vector<oracle_bytes> inputs;
    std::vector<oracle_bytes> before;
    for (std::size_t r = 0; r < memory.size(); ++r) {
      oracle_bytes& input = inputs.emplace_back(elements * sizeof(std::int32_t));
      for (std::size_t i = 0; i < elements; ++i) {
        const auto number = static_cast<std::int32_t>(10 * r + i + 1);
        std::memcpy(input.data() + i * sizeof number, &number, sizeof number);
      }
      std::memcpy(memory[r]->input, input.data(), input.size());
      std::memset(memory[r]->output, 0, input.size());
      before.emplace_back(input.size());
    }
    auto ended = rig.run(**clique, work);
    if (!ended) {
      out.failures.push_back(std::move(ended.error()));
      continue;
    }
    const auto expected = collective::test::expected_outputs(work.call, inputs, before);
    for (std::size_t r = 0; r < memory.size(); ++r) {
      const bool good =
          std::memcmp(memory[r]->output, expected[r].data(), expected[r].size()) == 0;
      out.wrong += good ? 0 : 1;
    }
  }
  clique->reset();
  return out;
}

}  // namespace weir::tessera::stand_in
