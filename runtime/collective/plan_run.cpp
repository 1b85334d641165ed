// SPDX-License-Identifier: Apache-2.0
/// @file
/// The run of one step of a plan.
///
/// A plan contains no addresses, so the same plan serves all calls of the same shape. A
/// run supplies the addresses of inputs, outputs and scratch. Steps never allocate
/// memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "collective/wire_codec.hpp"
#include "weir/collective/plan.hpp"

namespace weir::collective {
namespace {

using place = plan_operand::place;
using form = plan_operand::form;

/// Sizes between which running backwards helps: smaller data stay in the cache as a
/// whole, and of larger data hardly anything is left in it.
constexpr std::size_t least_turned = std::size_t{512} << 10;
constexpr std::size_t max_turned = std::size_t{8} << 20;

/// One step of one run, with its operands as addresses.
class step_runner {
 public:
  step_runner(const collective_plan& plan, const plan_step& step,
              const collective_buffers& buffers) noexcept
      : plan_(plan), step_(step), buffers_(buffers) {}

  result<void> run() const noexcept {
    switch (step_.kind) {
      case step_kind::copy: return copy();
      case step_kind::fold: fold(); break;
      case step_kind::exchange: exchange(); break;
      case step_kind::encode: encode(); break;
      case step_kind::add_wire: add(); break;
      case step_kind::decode: decode(); break;
      case step_kind::join: break;
    }
    return {};
  }

 private:
  /// Returns the address of an operand; `i` counts the ranks of a range.
  [[nodiscard]] const std::byte* source(const plan_operand& o, int i) const noexcept {
    switch (o.buffer) {
      case place::input:
        return buffers_.inputs[static_cast<std::size_t>(o.rank + i)] + o.offset;
      case place::output:
        return buffers_.outputs[static_cast<std::size_t>(o.rank + i)] + o.offset;
      case place::scratch: break;
    }
    return buffers_.scratch + o.slot * plan_.slot_bytes() + o.offset;
  }
  [[nodiscard]] std::byte* target(const plan_operand& o, int i) const noexcept {
    if (o.buffer == place::output) {
      return buffers_.outputs[static_cast<std::size_t>(o.rank + i)] + o.offset;
    }
    return buffers_.scratch + o.slot * plan_.slot_bytes() + o.offset;
  }

  using pointers = std::array<std::byte*, max_ranks>;
  /// Lists the addresses of all targets, with one address for each rank of a range.
  std::span<std::byte* const> targets(pointers& all) const noexcept {
    std::size_t n = 0;
    for (const plan_operand& o : plan_.targets(step_)) {
      for (int i = 0; i < o.ranks; ++i) {
        all[n++] = target(o, i);
      }
    }
    return std::span(all).first(n);
  }
  using const_pointers = std::array<const std::byte*, max_ranks>;
  std::span<const std::byte* const> sources(const_pointers& all) const noexcept {
    std::size_t n = 0;
    for (const plan_operand& o : plan_.sources(step_)) {
      for (int i = 0; i < o.ranks; ++i) {
        all[n++] = source(o, i);
      }
    }
    return std::span(all).first(n);
  }

  /// Copies through the transport, which may fail. Without one, ranks share memory.
  result<void> copy() const noexcept {
    transport& via = buffers_.via != nullptr ? *buffers_.via : in_process_transport();
    const plan_operand& from = plan_.sources(step_)[0];
    const std::byte* const bytes = source(from, 0);
    for (const plan_operand& to : plan_.targets(step_)) {
      for (int i = 0; i < to.ranks; ++i) {
        WEIR_CHECK(via.move(from.rank, bytes, to.rank + i, target(to, i),
                            plan_.bytes(step_, from)));
      }
    }
    return {};
  }

  /// Reduces. A fold of whole inputs to elements uses the fast loops; others add two
  /// partial results, of which each may be a node.
  void fold() const noexcept {
    const reducer& arithmetic = *plan_.arithmetic();
    pointers to;
    const auto outputs = targets(to);
    const auto list = plan_.sources(step_);
    const bool whole = step_.finishes &&
                       std::all_of(list.begin(), list.end(),
                                   [](const auto& o) { return o.as == form::element; });
    if (whole) {
      const_pointers from;
      const std::size_t traffic = plan_.traffic(step_);
      if (buffers_.backwards && traffic >= least_turned && traffic < max_turned) {
        arithmetic.reduce_backwards(sources(from), outputs, step_.count);
      } else {
        arithmetic.reduce(sources(from), outputs, step_.count);
      }
      return;
    }
    // The builder adds at most two partial results in one step.
    std::array<reducer::part, 2> parts;
    for (std::size_t i = 0; i < list.size(); ++i) {
      parts[i] = {source(list[i], 0), list[i].as == form::node};
    }
    arithmetic.fold(std::span(parts).first(list.size()), outputs, step_.count,
                    step_.finishes, plan_.ranks());
  }

  /// Exchanges two blocks tile by tile. Both are read before either is written, because
  /// the ranks may work in place.
  void exchange() const noexcept {
    const auto from = plan_.sources(step_);
    const auto to = plan_.targets(step_);
    const std::array in = {source(from[0], 0), source(from[1], 0)};
    const std::array out = {target(to[0], 0), target(to[1], 0)};
    constexpr std::size_t tile = 4096;
    std::array<std::byte, tile> saved;
    const std::size_t bytes = plan_.bytes(step_, from[0]);
    for (std::size_t offset = 0; offset < bytes; offset += tile) {
      const std::size_t here = std::min(tile, bytes - offset);
      std::memcpy(saved.data(), in[0] + offset, here);
      std::memmove(out[0] + offset, in[1] + offset, here);
      std::memcpy(out[1] + offset, saved.data(), here);
    }
  }

  void encode() const noexcept {
    encode_wire(plan_.call().type, plan_.options().wire,
                source(plan_.sources(step_)[0], 0), step_.count,
                target(plan_.targets(step_)[0], 0));
  }
  void decode() const noexcept {
    pointers to;
    decode_wire(plan_.call().type, plan_.options().wire,
                source(plan_.sources(step_)[0], 0), step_.count, targets(to));
  }
  void add() const noexcept {
    const_pointers from;
    const plan_operand& to = plan_.targets(step_)[0];
    const bool averages = plan_.call().op == reduction_op::average;
    collective::add_wire(plan_.call().type, plan_.options().wire, sources(from),
                         step_.count,
                         averages ? static_cast<std::uint32_t>(plan_.ranks()) : 0,
                         to.as == form::element, target(to, 0));
  }

  const collective_plan& plan_;
  const plan_step& step_;
  const collective_buffers& buffers_;
};

}  // namespace

result<void> run_step(const collective_plan& plan, std::size_t index,
                      const collective_buffers& buffers) noexcept {
  return step_runner(plan, plan.steps()[index], buffers).run();
}

}  // namespace weir::collective
