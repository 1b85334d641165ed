// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sizes of the memory that a stage outside of the engine's thread needs.
///
/// Layout: records of calls, tensors, attributes and made items; then `in` and `out`, the
/// regions for copied tensors of a message; and from a new page on the slots that the run
/// and the child share. The run computes the layout and sends it to the child.
#include "weir/pipeline/host/shared_layout.hpp"

#include <algorithm>
#include <limits>

#include "graph/memory.hpp"
#include "weir/base/bytes.hpp"
#include "weir/pipeline/host/hosted_stage.hpp"

namespace weir::flow {
namespace {

/// Tensors and records begin at multiples of it. @units{bytes}
constexpr std::uint64_t place_alignment = 64;
constexpr std::uint64_t page_bytes = 4096;

/// Stands for every size that has more than 64 bits. It exceeds what a plan may have, so
/// such a plan is refused and not taken for a small one.
constexpr std::uint64_t too_large = std::numeric_limits<std::uint64_t>::max();

/// Returns a sum, or `too_large`.
std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return checked_add(a, b, sum) ? sum : too_large;
}

/// Returns a product, or `too_large`.
std::uint64_t product_of(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return checked_mul(a, b, product) ? product : too_large;
}

/// Rounds a size up to a whole number of units, or returns `too_large`.
std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return bytes > too_large - unit ? too_large : align_up(bytes, unit);
}

/// Rounds a size up to a whole place.
std::uint64_t to_place(std::uint64_t bytes) {
  return rounded_up(bytes, place_alignment);
}

std::uint64_t to_place(std::int64_t bytes) {
  return to_place(static_cast<std::uint64_t>(bytes));
}

/// Returns the bytes of all items that one edge has alive. One item may exceed the
/// window.
/// Of items of varying size, each loses less than a place by rounding.
std::uint64_t bytes_alive(const plan& p, const graph_edge& edge) {
  // A window in bytes can limit the items further.
  const auto alive = static_cast<std::uint64_t>(max_alive(p, edge));
  if (const auto item = p.stages[edge.from].types[edge.outlet].bytes()) {
    return product_of(to_place(*item), alive);
  }
  // The window may be exceeded by one item, which the sum of windows behind its maker
  // limits.
  return sum_of(
      sum_of(to_place(edge.window_bytes), to_place(window_behind(p.source, edge.from))),
      product_of(alive, place_alignment));
}

/// Returns the number of calls that a stage alone has in work.
/// A stage with numbers of its own gets one call at a time.
std::uint64_t calls_in_work(const plan& p, std::uint32_t stage) {
  const bool one = p.source.stages[stage].info.own_numbering;
  return one ? 1
             : std::clamp<std::uint64_t>(p.stages[stage].slots, 1,
                                         shared_layout::max_calls);
}

/// Sums up the bytes of outlets that have memory of their own.
/// `fixed` gets the bytes of an item of a fixed size; `varying` is called for other
/// outlets.
template <class Fixed, class Varying>
std::uint64_t outlet_sum(const plan& p, std::uint32_t stage, Fixed fixed,
                         Varying varying) {
  const stage_info& info = p.source.stages[stage].info;
  std::uint64_t sum = 0;
  for (std::size_t port = 0; port < info.ports.size(); ++port) {
    // Outlets for failed items have no memory of their own.
    if (info.ports[port].inlet || info.ports[port].dead_letter) {
      continue;
    }
    const auto item = p.stages[stage].types[port].bytes();
    sum = sum_of(sum, item ? fixed(to_place(*item)) : varying());
  }
  return sum;
}

/// Returns the bytes of the slots of all outlets of a stage.
/// Items of varying size have twice the window behind the stage; see `slot_pool`.
std::uint64_t slots_of(const plan& p, std::uint32_t stage) {
  const std::uint64_t slots = p.stages[stage].slots;
  const auto behind = static_cast<std::uint64_t>(window_behind(p.source, stage));
  return outlet_sum(
      p, stage, [&](std::uint64_t item) { return product_of(item, slots); },
      [&] {
        return sum_of(product_of(2, to_place(behind)),
                      product_of(slots, place_alignment));
      });
}

}  // namespace

/// Returns the places in the memory of a child process.
shared_layout layout_of(const plan& p, std::uint32_t stage) {
  const stage_info& info = p.source.stages[stage].info;
  const std::uint64_t calls = shared_layout::max_calls;
  const std::uint64_t behind = to_place(window_behind(p.source, stage));
  shared_layout l;
  // Places follow each other; `bytes` is the end so far.
  const auto place = [&](std::uint64_t bytes) {
    const std::uint64_t at = l.bytes;
    l.bytes = sum_of(l.bytes, to_place(bytes));
    return at;
  };
  // A stage may make several items of a call, but then has one call.
  l.made_records = std::max<std::uint64_t>(calls, info.gives);
  l.calls = place(calls * shared_layout::call_bytes);
  l.inputs = place(calls * info.takes * info.inlets() * shared_layout::tensor_bytes);
  l.attributes = place(calls * shared_layout::attribute_bytes);
  l.made = place(l.made_records * shared_layout::made_bytes);
  l.outputs = place(l.made_records * info.outlets() * shared_layout::tensor_bytes);
  l.made_attributes = place(l.made_records * shared_layout::attribute_bytes);
  // Copies of inputs: all items that the edges have alive may come with one message.
  for (const std::uint32_t e : p.stages[stage].in) {
    l.in_bytes = sum_of(l.in_bytes, bytes_alive(p, p.source.edges[e]));
  }
  // One item at least, so that a source without outlets has a region.
  const std::uint64_t items =
      std::max<std::uint64_t>(calls_in_work(p, stage) * info.gives, 1);
  // Results that are not written to a slot.
  l.out_bytes = outlet_sum(
      p, stage, [&](std::uint64_t item) { return product_of(item, items); },
      [&] { return sum_of(behind, product_of(items, place_alignment)); });
  l.in = place(l.in_bytes);
  l.out = place(l.out_bytes);
  // The slots begin at a page, because they are large.
  l.slots = rounded_up(std::max<std::uint64_t>(l.bytes, 1), page_bytes);
  l.slot_bytes = slots_of(p, stage);
  // The slots of the stages in front lie here as well, so that inputs need no copy.
  for (const std::uint32_t e : p.stages[stage].in) {
    l.slot_bytes = sum_of(l.slot_bytes, slots_of(p, p.source.edges[e].from));
  }
  // The whole region ends at a page.
  l.bytes = sum_of(l.slots, rounded_up(l.slot_bytes, page_bytes));
  return l;
}

/// Returns the memory that a host needs beside the slots of the run.
std::uint64_t host_bytes(const plan& p, std::uint32_t stage) {
  const graph_stage& s = p.source.stages[stage];
  const host_kind host = host_of(s);
  const bool outside = s.info.face == face::source || s.info.face == face::sink ||
                       s.info.face == face::blocking;
  // Stages on the engine's thread need nothing; those that wait have their slots in the
  // run.
  if (host == host_kind::engine || (host == host_kind::own && outside)) {
    return 0;
  }
  // One call more than is in work, which is being delivered.
  const std::uint64_t slots = (calls_in_work(p, stage) + 1) * s.info.gives;
  const auto behind = static_cast<std::uint64_t>(window_behind(p.source, stage));
  const std::uint64_t own = outlet_sum(
      p, stage, [&](std::uint64_t item) { return product_of(item, slots); },
      [&] { return product_of(2, behind); });
  // The run counts the slots as items.
  return sum_of(own, host == host_kind::process ? layout_of(p, stage).slots : 0);
}

}  // namespace weir::flow
