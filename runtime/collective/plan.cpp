// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans: how buffers are divided into pieces, and the route of each piece under each
/// algorithm.
///
/// Each piece has an owner. In a reduction, inputs travel to the owner (`collect`) and
/// the result travels from it to all ranks that need it (`spread`). The builder finds the
/// dependencies between steps and adds partial results on the way as far as the order of
/// the sum allows. With shared memory, the direct algorithm needs one step for each
/// piece.
#include "weir/collective/plan.hpp"

#include <algorithm>
#include <array>
#include <new>

#include <fmt/core.h>

#include "collective/plan_builder.hpp"
#include "collective/wire_codec.hpp"
#include "weir/collective/choice.hpp"

namespace weir::collective {
namespace {

using form = plan_operand::form;

/// Pieces are not smaller than this, since each step has a fixed cost.
constexpr std::size_t least_slice = std::size_t{64} << 10;
/// Pieces of ring and tree are not larger than this, so that several are under way at
/// once.
constexpr std::size_t max_chunk = std::size_t{1} << 20;
/// Ring and tree divide a buffer into at most this many pieces, if those are not too
/// large.
constexpr int max_pieces = 16;
/// Buffers of this size or more are divided into more pieces: the extra steps cost less
/// than waiting for a slow worker.
constexpr std::size_t least_bytes_of_many_pieces = std::size_t{16} << 20;
/// Pieces are multiples of whole wire blocks, which are also whole cache lines.
constexpr std::size_t cut_elements = wire_block;

constexpr std::size_t divided_up(std::size_t a, std::size_t b) noexcept {
  return (a + b - 1) / b;
}

/// Returns true if input or output has a shard for each rank.
bool is_sharded(collective_kind kind) noexcept {
  return kind == collective_kind::reduce_scatter || kind == collective_kind::all_gather ||
         kind == collective_kind::gather || kind == collective_kind::scatter;
}

/// Returns the number of elements of a piece, if each of `owners` ranks has `span`
/// elements. Without a chunk size from the caller, the direct algorithm makes about one
/// piece for each worker, or four if the buffers are large.
std::size_t piece_elements(const plan_builder& b, std::size_t span,
                           std::size_t owners) noexcept {
  const std::size_t size = info_of(b.call().type).size;
  const std::size_t bytes = span * size;
  std::size_t chunk = b.options().chunk_bytes;
  if (chunk == 0 && b.options().how == algorithm::direct) {
    const auto workers = static_cast<std::size_t>(std::max(b.shape().workers, 1));
    const std::size_t steps =
        bytes * owners >= least_bytes_of_many_pieces ? 4 * workers : workers;
    chunk = std::max(divided_up(bytes, divided_up(steps, owners)), least_slice);
  } else if (chunk == 0) {
    const auto pieces = static_cast<std::size_t>(std::min(b.ranks(), max_pieces));
    chunk = std::clamp(divided_up(bytes * owners, pieces), least_slice, max_chunk);
  }
  const std::size_t elements = divided_up(divided_up(chunk, size), cut_elements);
  return std::max<std::size_t>(elements, 1) * cut_elements;
}

/// Returns the pieces of the call in the order of their elements. Without shards and
/// root, owners alternate, which divides the work among the ranks.
std::vector<plan_piece> pieces_of(const plan_builder& b) {
  const collective_call& call = b.call();
  const auto ranks = static_cast<std::size_t>(b.ranks());
  const bool sharded = is_sharded(call.kind);
  const bool rooted = call.kind == collective_kind::broadcast ||
                      call.kind == collective_kind::reduce ||
                      call.kind == collective_kind::send;
  // A span is a shard, or the whole buffer; pieces do not cross spans.
  const std::size_t spans = sharded ? ranks : 1;
  const std::size_t span = call.count / spans;
  const std::size_t step = piece_elements(b, span, spans);
  std::vector<plan_piece> pieces;
  for (std::size_t s = 0; s < spans; ++s) {
    for (std::size_t offset = 0; offset < span; offset += step) {
      plan_piece piece{s * span + offset, std::min(step, span - offset),
                       static_cast<int>(s), s * span + offset};
      if (!sharded) {
        piece.owner = rooted ? call.root : static_cast<int>(pieces.size() % ranks);
      }
      if (call.packed_shards) {
        const bool packs_input = call.kind == collective_kind::all_gather ||
                                 call.kind == collective_kind::gather;
        // A packed buffer holds the rank's own shard only, so the offset counts from its
        // beginning.
        (packs_input ? piece.first : piece.out_first) = offset;
      }
      pieces.push_back(piece);
    }
  }
  return pieces;
}

/// Adds the steps that bring a piece to its owner and back.
class router {
 public:
  explicit router(plan_builder& b) : b_(b), ranks_(b.ranks()) {}

  /// Returns the rank at which all partial results arrive. A tree always ends at rank 0.
  [[nodiscard]] int meeting_place(int owner) const noexcept {
    return b_.options().how == algorithm::tree ? 0 : owner;
  }

  void collect(int owner) {
    switch (b_.options().how) {
      case algorithm::direct: return collect_direct(owner);
      case algorithm::ring: return collect_ring(owner);
      case algorithm::tree: return collect_tree();
      case algorithm::hierarchical: return collect_domains(owner);
    }
  }
  /// Copies the result from `owner`'s output to all others.
  void spread(int owner) {
    switch (b_.options().how) {
      case algorithm::direct: return spread_direct(owner);
      case algorithm::ring: return spread_ring(owner);
      case algorithm::tree: return spread_tree(owner);
      case algorithm::hierarchical: return spread_domains(owner);
    }
  }

 private:
  [[nodiscard]] int rank(int from, int steps) const noexcept {
    return (from + steps) % ranks_;
  }

  void collect_direct(int owner) {
    for (int i = 1; i < ranks_; ++i) {
      b_.move_partials(rank(owner, i), owner);
    }
  }
  void spread_direct(int owner) {
    for (int i = 1; i < ranks_; ++i) {
      b_.pass_on(owner, rank(owner, i));
    }
  }
  void collect_ring(int owner) {
    for (int i = 1; i < ranks_; ++i) {
      b_.move_partials(rank(owner, i), rank(owner, i + 1));
    }
  }
  void spread_ring(int owner) {
    for (int i = 0; i + 1 < ranks_; ++i) {
      b_.pass_on(rank(owner, i), rank(owner, i + 1));
    }
  }
  /// Halves the number of ranks that hold partial results in each round, so that sums are
  /// those of the canonical tree.
  void collect_tree() {
    for (int span = 1; span < ranks_; span *= 2) {
      for (int r = 0; r + span < ranks_; r += 2 * span) {
        b_.move_partials(r + span, r);
      }
    }
  }
  /// Spreads from the root in a binary tree: in each round, every rank that has the piece
  /// passes it on to one that does not, the farthest first.
  void spread_tree(int root) {
    int span = 1;
    while (span < ranks_) {
      span *= 2;
    }
    for (span /= 2; span >= 1; span /= 2) {
      for (int r = 0; r + span < ranks_; r += 2 * span) {
        b_.pass_on(rank(root, r), rank(root, r + span));
      }
    }
  }

  [[nodiscard]] int domain_ranks() const noexcept { return ranks_ / b_.shape().domains; }
  /// Returns the rank of domain `d` that has the same position there as `owner` in its
  /// own.
  [[nodiscard]] int counterpart(int d, int owner) const noexcept {
    const int in = domain_ranks();
    return d % b_.shape().domains * in + owner % in;
  }
  /// Collects within each domain, then in a ring over the counterparts of the domains, so
  /// that a piece crosses each link between domains once.
  void collect_domains(int owner) {
    const int in = domain_ranks();
    for (int d = 0; d < b_.shape().domains; ++d) {
      const int local = counterpart(d, owner);
      for (int i = 1; i < in; ++i) {
        b_.move_partials(d * in + (local + i) % in, local);
      }
    }
    const int home = owner / in;
    for (int i = 1; i < b_.shape().domains; ++i) {
      b_.move_partials(counterpart(home + i, owner), counterpart(home + i + 1, owner));
    }
  }
  /// Passes the piece along the counterparts of the domains, then to all ranks in each
  /// domain.
  void spread_domains(int owner) {
    const int in = domain_ranks();
    const int home = owner / in;
    for (int i = 0; i + 1 < b_.shape().domains; ++i) {
      b_.pass_on(counterpart(home + i, owner), counterpart(home + i + 1, owner));
    }
    for (int d = 0; d < b_.shape().domains; ++d) {
      const int local = counterpart(d, owner);
      for (int i = 1; i < in; ++i) {
        b_.pass_on(local, d * in + (local + i) % in);
      }
    }
  }

  plan_builder& b_;
  int ranks_;
};

/// Reads all inputs where they are and writes the result wherever it is needed, in one
/// step. This is the schedule of shared memory.
void fold_at_once(plan_builder& b, int lane, const plan_operand& target) {
  plan_operand all = b.input(0);
  all.ranks = b.ranks();
  const std::array source = {all};
  const std::array to = {target};
  b.step(step_kind::fold, lane, source, to, b.piece_count());
}

/// Adds the steps that reduce one piece.
void reduce_piece(plan_builder& b, const plan_piece& piece) {
  const bool everywhere = b.call().kind == collective_kind::all_reduce;
  if (b.options().how == algorithm::direct && b.shares_memory()) {
    fold_at_once(b, piece.owner, everywhere ? b.outputs() : b.output(piece.owner));
    return;
  }
  router way(b);
  b.hold_inputs();
  way.collect(piece.owner);
  const int meeting = way.meeting_place(piece.owner);
  const int target = everywhere ? meeting : piece.owner;
  b.deliver(meeting, target);
  if (everywhere) {
    way.spread(meeting);
  }
}

/// Adds a step that copies the piece.
void copy_piece(plan_builder& b, int lane, const plan_operand& from,
                const plan_operand& to) {
  const std::array source = {from};
  const std::array target = {to};
  b.step(step_kind::copy, lane, source, target, b.piece_count());
}

/// Adds the steps that move one piece.
void move_piece(plan_builder& b, const plan_piece& piece) {
  const int root = b.call().root;
  switch (b.call().kind) {
    case collective_kind::gather:
      return copy_piece(b, root, b.input(piece.owner), b.output(root));
    case collective_kind::scatter:
      return copy_piece(b, piece.owner, b.input(root), b.output(piece.owner));
    case collective_kind::send:
      return copy_piece(b, b.call().peer, b.input(root), b.output(b.call().peer));
    default: break;  // all_gather and broadcast go from the owner to all ranks
  }
  if (b.options().how == algorithm::direct && b.shares_memory()) {
    return copy_piece(b, piece.owner, b.input(piece.owner), b.outputs());
  }
  copy_piece(b, piece.owner, b.input(piece.owner), b.output(piece.owner));
  router(b).spread(piece.owner);
}

/// Adds the steps of a reduction with a wire format: every input is rounded once and read
/// by the owner, and the sum is rounded once and read by all ranks.
void reduce_piece_on_wire(plan_builder& b, const plan_piece& piece) {
  const bool everywhere = b.call().kind == collective_kind::all_reduce;
  std::vector<plan_operand> codes;
  for (int r = 0; r < b.ranks(); ++r) {
    const std::array source = {b.input(r)};
    const std::array target = {b.scratch(r, form::wire)};
    b.step(step_kind::encode, r, source, target, b.piece_count());
    codes.push_back(target[0]);
  }
  const std::array sum = {everywhere ? b.scratch(piece.owner, form::wire)
                                     : b.output(piece.owner)};
  b.step(step_kind::add_wire, piece.owner, codes, sum, b.piece_count());
  if (everywhere) {
    const std::array all = {b.outputs()};
    b.step(step_kind::decode, piece.owner, sum, all, b.piece_count());
  }
}

/// Adds the steps of a move with a wire format. Every rank gets the decoded numbers, also
/// the owner, so that all have the same.
void move_piece_on_wire(plan_builder& b, const plan_piece& piece) {
  const std::array source = {b.input(piece.owner)};
  const std::array codes = {b.scratch(piece.owner, form::wire)};
  const std::array all = {b.outputs()};
  b.step(step_kind::encode, piece.owner, source, codes, b.piece_count());
  b.step(step_kind::decode, piece.owner, codes, all, b.piece_count());
}

/// Returns block `column` of rank `row`, in an input or output.
plan_operand block_of(plan_operand buffer, int row, int column, std::size_t bytes) {
  buffer.rank = row;
  buffer.offset += static_cast<std::size_t>(column) * bytes;
  return buffer;
}

/// Adds the exchange of the blocks that two ranks have for each other, or the copy of a
/// rank's own block. Both directions form one step in shared memory, because ranks may
/// work in place: a block must be read before it is overwritten. Otherwise both blocks go
/// through scratch. `offset` is the offset within a block.
void exchange_blocks(plan_builder& b, int one, int other, std::size_t offset,
                     std::size_t count) {
  const auto ranks = static_cast<std::size_t>(b.ranks());
  const std::size_t block = b.call().count / ranks * info_of(b.call().type).size;
  b.begin({offset, count, one, offset});
  const std::array from = {block_of(b.input(one), one, other, block),
                           block_of(b.input(other), other, one, block)};
  const std::array to = {block_of(b.output(one), one, other, block),
                         block_of(b.output(other), other, one, block)};
  const auto source = std::span(from).first(one == other ? 1 : 2);
  const auto target = std::span(to).first(one == other ? 1 : 2);
  if (one == other) {
    b.step(step_kind::copy, one, source, target, count);
  } else if (b.shares_memory()) {
    b.step(step_kind::exchange, one, source, target, count);
  } else {
    // Both blocks are copied to the other rank's scratch before either output is written.
    const std::array saved = {b.scratch(other, form::element),
                              b.scratch(one, form::element)};
    for (std::size_t i = 0; i < 2; ++i) {
      b.step(step_kind::copy, saved[i].rank, source.subspan(i, 1),
             std::span(saved).subspan(i, 1), count);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      b.step(step_kind::copy, saved[i].rank, std::span(saved).subspan(i, 1),
             target.subspan(1 - i, 1), count);
    }
  }
  b.end();
}

/// Adds the exchanges of all pairs of ranks, piece by piece.
void exchange_all(plan_builder& b) {
  const auto ranks = static_cast<std::size_t>(b.ranks());
  const std::size_t block = b.call().count / ranks;
  const std::size_t step = piece_elements(b, block, ranks * (ranks + 1) / 2);
  for (std::size_t offset = 0; offset < block; offset += step) {
    for (int one = 0; one < b.ranks(); ++one) {
      for (int other = one; other < b.ranks(); ++other) {
        exchange_blocks(b, one, other, offset, std::min(step, block - offset));
      }
    }
  }
}

/// Adds the steps of a single rank: it copies its input to its output as it is, without
/// arithmetic.
void copy_alone(plan_builder& b) {
  for (const plan_piece& piece : pieces_of(b)) {
    b.begin(piece);
    copy_piece(b, 0, b.input(0), b.output(0));
    b.end();
  }
}

/// Adds all steps of the plan.
void add_steps(plan_builder& b) {
  const collective_kind kind = b.call().kind;
  if (kind == collective_kind::barrier) {
    b.begin({});
    // A barrier moves nothing. Its single step stands for the meeting of all ranks.
    b.step(step_kind::join, 0, {}, {}, 0);
    b.end();
    return;
  }
  if (b.ranks() == 1) {
    return copy_alone(b);
  }
  if (kind == collective_kind::all_to_all) {
    return exchange_all(b);
  }
  const bool rounds = b.options().wire != wire_format::plain;
  for (const plan_piece& piece : pieces_of(b)) {
    b.begin(piece);
    if (reduces(kind)) {
      rounds ? reduce_piece_on_wire(b, piece) : reduce_piece(b, piece);
    } else {
      rounds ? move_piece_on_wire(b, piece) : move_piece(b, piece);
    }
    b.end();
  }
}

}  // namespace

std::string_view name_of(step_kind kind) noexcept {
  constexpr std::array<std::string_view, 7> names = {
      "copy", "fold", "exchange", "encode", "add_wire", "decode", "join"};
  return names[static_cast<std::size_t>(kind)];
}

std::size_t collective_plan::bytes(const plan_step& s,
                                   const plan_operand& o) const noexcept {
  switch (o.as) {
    case form::element: break;
    case form::node: return s.count * arithmetic_->node_bytes();
    case form::wire: return wire_bytes(options_.wire, s.count);
  }
  return s.count * info_of(call_.type).size;
}

// Counts each rank of a range, since each reads or writes its own copy.
std::size_t collective_plan::traffic(const plan_step& s) const noexcept {
  std::size_t total = 0;
  for (const auto list : {sources(s), targets(s)}) {
    for (const plan_operand& o : list) {
      total += bytes(s, o) * static_cast<std::size_t>(o.ranks);
    }
  }
  return total;
}

// Scratch for a few pieces at a time suffices, since later pieces wait for its slots. The
// window is large enough to keep all workers and ranks busy.
result<collective_plan> plan_collective(const collective_call& call, int ranks,
                                        const topology& shape,
                                        const plan_options& options) {
  WEIR_CHECK(check_call(call, ranks));
  WEIR_CHECK(check_wire(call, options.wire));
  const bool rounds = options.wire != wire_format::plain;
  if (ranks > 1 && (!is_legal(options.how, call, ranks, shape) ||
                    (rounds && options.how != algorithm::direct))) {
    return error(errc::unsupported,
                 fmt::format("cannot plan {} over {} ranks in {} domains by {} with {} "
                             "numbers",
                             name_of(call.kind), ranks, shape.domains,
                             name_of(options.how), name_of(options.wire)));
  }
  std::optional<reducer> arithmetic;
  if (reduces(call.kind)) {
    WEIR_TRY(arithmetic, reducer::make({call.type, call.op, call.level, call.wide}));
  }
  try {
    collective_call usual = call;
    // Without shards the flag has no meaning, and equal calls should have equal plans.
    usual.packed_shards = call.packed_shards && is_sharded(call.kind);
    plan_builder b(usual, ranks, shape, options, arithmetic);
    b.set_window(
        static_cast<std::size_t>(std::max({std::min(ranks, 8), 2 * shape.workers, 4})));
    add_steps(b);
    return b.take();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 fmt::format("no memory for the steps of {} over {} ranks",
                             name_of(call.kind), ranks));
  }
}

}  // namespace weir::collective
