// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernel and the host function of programs. Both compute, and both can be slowed
/// down.
#include "serial/run/kernel.hpp"

#include "serial/arithmetic.hpp"

namespace weir::test::serial {
namespace {

/// Spends time with arithmetic.
void spend(int rounds) {
  word h = 1;
  for (int i = 0; i < rounds; ++i) {
    h = mixed(h, static_cast<word>(i));
  }
  volatile word sink = h;
  static_cast<void>(sink);
}

int serial_kernel(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const launch_args*>(args);
  if (a->slow_rank == none || a->slow_rank == block->rank) {
    spend(a->spin);
  }
  compute(static_cast<arithmetic>(a->how), a->to, a->from, a->words,
          salt_of(a->salt, block->rank), block->blockIndex[0], block->grid[0]);
  return 0;
}

}  // namespace

std::vector<registered_module::entry> serial_kernels() {
  return {{"serial_kernel",
           serial_kernel,
           {pointer_to("to", TESS_INT32), pointer_to("from", TESS_INT32),
            value("words", TESS_INT32, 4), value("salt", TESS_INT32, 4),
            value("how", TESS_INT32, 4), value("spin", TESS_INT32, 4),
            value("slow_rank", TESS_INT32, 4)}}};
}

void do_host_work(void* user) {
  const auto* w = static_cast<const host_work*>(user);
  spend(w->source->spin);
  compute(w->source->how, w->to, w->from, w->source->to.words, w->source->salt);
}

}  // namespace weir::test::serial
