// SPDX-License-Identifier: Apache-2.0
/// @file
/// The builder of plans: steps, their predecessors, scratch, and partial results on the
/// way.
///
/// A step waits for each earlier step of its piece that touches the same bytes, if one of
/// the two writes. Pieces share no bytes of buffers, so only scratch, which is used again
/// after `window_` pieces, connects different pieces. Predecessors that are implied by
/// others are left out.
#include "collective/plan_builder.hpp"

#include <algorithm>
#include <array>

#include "collective/wire_codec.hpp"

namespace weir::collective {
namespace {

using place = plan_operand::place;
using form = plan_operand::form;

/// Scratch is aligned to cache lines, so that steps on different workers share none.
constexpr std::size_t alignment = 64;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Returns true if input and output of a rank may be one buffer: then shards have the
/// same offsets in both.
bool may_be_in_place(const collective_call& call) noexcept {
  return !call.packed_shards;
}

/// Returns true if two operands may be in the same buffer. With operations in place,
/// input and output of a rank count as one.
bool same_buffer(const plan_operand& a, const plan_operand& b, bool in_place) noexcept {
  const bool a_scratch = a.buffer == place::scratch;
  if (a_scratch != (b.buffer == place::scratch)) {
    return false;
  }
  if (a_scratch) {
    return a.slot == b.slot;
  }
  return (in_place || a.buffer == b.buffer) && a.rank < b.rank + b.ranks &&
         b.rank < a.rank + a.ranks;
}

}  // namespace

plan_builder::plan_builder(const collective_call& call, int ranks, const topology& shape,
                           const plan_options& options, std::optional<reducer> arithmetic)
    : shape_(shape), element_bytes_(info_of(call.type).size) {
  plan_.call_ = call;
  plan_.options_ = options;
  plan_.ranks_ = ranks;
  plan_.arithmetic_ = arithmetic;
  partials_.resize(static_cast<std::size_t>(ranks));
}

// The list of accesses covers one piece; see the file comment.
void plan_builder::begin(const plan_piece& piece) {
  piece_ = piece;
  const std::size_t node_bytes =
      plan_.arithmetic_ ? plan_.arithmetic_->node_bytes() : element_bytes_;
  unit_ = aligned(piece.count * std::max(node_bytes, element_bytes_));
  used_ = 0;
  free_.clear();
  accesses_.clear();
  ancestors_.clear();
  first_step_ = static_cast<std::uint32_t>(plan_.steps_.size());
}

// Remembers the accesses to this slot of scratch for the piece that gets it next.
void plan_builder::end() {
  if (used_ > 0) {
    const std::size_t slot = piece_number_ % window_;
    slot_accesses_.resize(std::max(slot_accesses_.size(), slot + 1));
    std::erase_if(accesses_,
                  [](const access& a) { return a.location.buffer != place::scratch; });
    // Earlier accesses to bytes that this piece did not overwrite still matter.
    const std::size_t own = accesses_.size();
    for (const access& old : slot_accesses_[slot]) {
      const auto last = accesses_.begin() + static_cast<std::ptrdiff_t>(own);
      if (std::none_of(accesses_.begin(), last, [&](const access& a) {
            return a.writes && a.location.offset <= old.location.offset &&
                   old.location.offset + old.bytes <= a.location.offset + a.bytes;
          })) {
        accesses_.push_back(old);
      }
    }
    slot_accesses_[slot] = std::move(accesses_);
    plan_.slots_ = std::max(plan_.slots_, slot + 1);
    plan_.slot_bytes_ = std::max(plan_.slot_bytes_, used_);
    ++piece_number_;
  }
  accesses_.clear();
}

plan_operand plan_builder::input(int rank) const noexcept {
  return {place::input, form::element, rank, 1, 0, piece_.first * element_bytes_};
}
plan_operand plan_builder::output(int rank) const noexcept {
  return {place::output, form::element, rank, 1, 0, piece_.out_first * element_bytes_};
}
plan_operand plan_builder::outputs() const noexcept {
  plan_operand all = output(0);
  all.ranks = ranks();
  return all;
}

plan_operand plan_builder::scratch(int rank, form as) {
  return scratch(rank, as, piece_.count);
}

// Returned scratch of the piece is used first. It may still be read by earlier steps; the
// accesses make the next step wait for these. Codes of the wire have sizes of their own
// and always get new scratch unless the size agrees.
plan_operand plan_builder::scratch(int rank, form as, std::size_t count) {
  const std::size_t bytes =
      as == form::wire ? aligned(wire_bytes(plan_.options_.wire, count)) : unit_;
  std::size_t offset = used_;
  if (bytes == unit_ && !free_.empty()) {
    offset = free_.front();  // the one that has not been used for longest
    free_.erase(free_.begin());
  } else {
    used_ += bytes;
  }
  const auto slot = static_cast<std::uint32_t>(piece_number_ % window_);
  return {place::scratch, as, rank, 1, slot, offset};
}

// Inputs and outputs are not scratch and cannot be returned.
void plan_builder::give_back(const plan_operand& location) {
  if (location.buffer == place::scratch) {
    free_.push_back(location.offset);
  }
}

// Adds the steps that the operands of a new step must wait for, and notes the operands.
void plan_builder::note_accesses(const plan_step& s, operand_list list, bool writes,
                                 std::vector<std::uint32_t>& waits) {
  const auto index = static_cast<std::uint32_t>(plan_.steps_.size());
  const bool in_place = may_be_in_place(plan_.call_);
  const auto wait_for = [&](const std::vector<access>& earlier,
                            const plan_operand& location, std::size_t bytes) {
    for (const access& a : earlier) {
      if ((a.writes || writes) && a.step != index &&
          same_buffer(a.location, location, in_place) &&
          a.location.offset < location.offset + bytes &&
          location.offset < a.location.offset + a.bytes) {
        waits.push_back(a.step);
      }
    }
  };
  for (const plan_operand& location : list) {
    const std::size_t bytes = plan_.bytes(s, location);
    wait_for(accesses_, location, bytes);
    if (location.buffer == place::scratch && location.slot < slot_accesses_.size()) {
      wait_for(slot_accesses_[location.slot], location, bytes);
    }
    accesses_.push_back({location, bytes, index, writes});
  }
}

/// Removes predecessors for which another predecessor already waits, directly or through
/// others. Ancestors are kept as one bit for each step of the piece.
void plan_builder::keep_direct(std::vector<std::uint32_t>& waits) {
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  const std::size_t number = ancestors_.size();
  ancestry all(number / 64 + 1);
  // `implied` are the ancestors of the predecessors; `all` will be those of the new step.
  // Predecessors in earlier pieces have no ancestors here and are always kept.
  ancestry implied(number / 64 + 1);
  for (const std::uint32_t w : waits) {
    if (w >= first_step_) {
      const std::size_t local = w - first_step_;
      for (std::size_t i = 0; i < ancestors_[local].size(); ++i) {
        implied[i] |= ancestors_[local][i];
      }
    }
  }
  std::erase_if(waits, [&](std::uint32_t w) {
    if (w < first_step_) {
      return false;
    }
    const std::size_t local = w - first_step_;
    all[local / 64] |= std::uint64_t{1} << (local % 64);
    return ((implied[local / 64] >> (local % 64)) & 1U) != 0;
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] |= implied[i];
  }
  ancestors_.push_back(std::move(all));
}

// Operands and predecessors of all steps lie in two lists of the plan; a step has ranges
// in them.
void plan_builder::step(step_kind kind, int lane, operand_list sources,
                        operand_list targets, std::size_t count, bool finishes) {
  plan_step s{kind, lane, finishes, 0, 0, 0, 0, 0, count};
  s.first_operand = static_cast<std::uint32_t>(plan_.operands_.size());
  s.source_count = static_cast<std::uint32_t>(sources.size());
  s.target_count = static_cast<std::uint32_t>(targets.size());
  plan_.operands_.insert(plan_.operands_.end(), sources.begin(), sources.end());
  plan_.operands_.insert(plan_.operands_.end(), targets.begin(), targets.end());
  std::vector<std::uint32_t> waits;
  note_accesses(s, sources, false, waits);
  note_accesses(s, targets, true, waits);
  keep_direct(waits);
  s.first_after = static_cast<std::uint32_t>(plan_.after_.size());
  s.after_count = static_cast<std::uint32_t>(waits.size());
  plan_.after_.insert(plan_.after_.end(), waits.begin(), waits.end());
  plan_.steps_.push_back(s);
}

// The step belongs to the lane of the rank that gets the data.
void plan_builder::pass_on(int from, int to) {
  const std::array source = {output(from)};
  const std::array target = {output(to)};
  step(step_kind::copy, to, source, target, piece_.count);
}

void plan_builder::hold_inputs() {
  for (int r = 0; r < ranks(); ++r) {
    partials_[static_cast<std::size_t>(r)] = {{r, r + 1, 1, input(r)}};
  }
}

// Two partial results may be added if the rule allows any order, or if they are the two
// halves of a node of the canonical tree.
bool plan_builder::may_join(const partial_result& a, const partial_result& b) const {
  switch (plan_.arithmetic_->rule()) {
    case partial_rule::none: return false;
    case partial_rule::any: return true;
    case partial_rule::siblings: break;
  }
  if (a.last != b.first) {
    return false;
  }
  // Goes down the canonical tree to the node that would hold both.
  int first = 0;
  int last = ranks();
  while (first != a.first || last != b.last) {
    const int middle = canonical_split(first, last);
    if (a.first >= middle) {
      first = middle;
    } else if (b.last <= middle) {
      last = middle;
    } else {
      return false;
    }
  }
  return canonical_split(first, last) == a.last;
}

/// Copies a partial result of another rank to scratch that `rank` may read.
partial_result plan_builder::copied_to(int rank, const partial_result& from) {
  partial_result here = from;
  here.location = scratch(rank, from.location.as);
  const std::array source = {from.location};
  const std::array target = {here.location};
  step(step_kind::copy, rank, source, target, piece_.count);
  give_back(from.location);
  return here;
}

/// Adds two partial results to one, a node in scratch.
partial_result plan_builder::join(int rank, const partial_result& a,
                                  const partial_result& b) {
  partial_result whole{std::min(a.first, b.first), std::max(a.last, b.last),
                       a.ranks + b.ranks, scratch(rank, form::node)};
  const std::array sources = {a.location, b.location};
  const std::array target = {whole.location};
  step(step_kind::fold, rank, sources, target, piece_.count, false);
  give_back(a.location);
  give_back(b.location);
  return whole;
}

// Adds the first pair that may be added. Returns false if there is none.
bool plan_builder::join_one_pair(int rank, std::vector<partial_result>& partials) {
  for (std::size_t i = 0; i < partials.size(); ++i) {
    for (std::size_t j = 0; j < partials.size(); ++j) {
      if (i != j && partials[i].first < partials[j].first &&
          may_join(partials[i], partials[j])) {
        for (const std::size_t k : {i, j}) {
          if (!shares_memory() && partials[k].location.rank != rank) {
            partials[k] = copied_to(rank, partials[k]);
          }
        }
        partials[i] = join(rank, partials[i], partials[j]);
        partials.erase(partials.begin() + static_cast<std::ptrdiff_t>(j));
        return true;
      }
    }
  }
  return false;
}

void plan_builder::move_partials(int from, int to) {
  auto& source = partials_[static_cast<std::size_t>(from)];
  auto& partials = partials_[static_cast<std::size_t>(to)];
  partials.insert(partials.end(), source.begin(), source.end());
  source.clear();
  // If only two partial results are left and they make up the whole, `deliver` adds them,
  // directly into the output. So the last two are not added here.
  while (partials.size() > 2 && join_one_pair(to, partials)) {
  }
  const bool all =
      partials.size() == 2 && partials[0].ranks + partials[1].ranks == ranks();
  while (!all && join_one_pair(to, partials)) {
  }
  if (all && shares_memory()) {
    return;
  }
  for (partial_result& p : partials) {
    if (p.location.rank != to) {
      p = copied_to(to, p);
    }
  }
}

// The last addition, which also finishes: it divides and rounds. If rank and target do
// not share memory, the result goes through scratch.
void plan_builder::deliver(int rank, int target) {
  auto& partials = partials_[static_cast<std::size_t>(rank)];
  std::sort(partials.begin(), partials.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<plan_operand> sources;
  for (const partial_result& p : partials) {
    sources.push_back(p.location);
  }
  const bool at_once = rank == target || shares_memory();
  const std::array to = {at_once ? output(target) : scratch(rank, form::element)};
  step(step_kind::fold, rank, sources, to, piece_.count);
  if (!at_once) {
    const std::array there = {output(target)};
    step(step_kind::copy, target, to, there, piece_.count);
  }
  partials.clear();
}

collective_plan plan_builder::take() noexcept {
  return std::move(plan_);
}

}  // namespace weir::collective
