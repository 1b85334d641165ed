// SPDX-License-Identifier: Apache-2.0
/// @file
/// Executes operations on plain vectors in the order of the program.
#include "serial/interpreter.hpp"

#include <algorithm>
#include <cstring>

#include "serial/arithmetic.hpp"
#include "serial/graph_book.hpp"
#include "serial/touches.hpp"

namespace weir::test::serial {
namespace {

/// Reduces `count` integers of `from` into `to`. Sums and products wrap around, so the
/// order of the operands does not change the result.
template <class Unsigned>
void reduce_into(std::byte* to, const std::byte* from, int count, int op) {
  using integer = std::make_signed_t<Unsigned>;
  for (int i = 0; i < count; ++i) {
    const std::size_t offset = static_cast<std::size_t>(i) * sizeof(Unsigned);
    Unsigned a{};
    Unsigned b{};
    std::memcpy(&a, to + offset, sizeof a);
    std::memcpy(&b, from + offset, sizeof b);
    const bool less = static_cast<integer>(a) < static_cast<integer>(b);
    const std::uint64_t product = std::uint64_t{a} * std::uint64_t{b};
    a = op == 0   ? static_cast<Unsigned>(a + b)
        : op == 1 ? (less ? b : a)
        : op == 2 ? (less ? a : b)
                  : static_cast<Unsigned>(product);
    std::memcpy(to + offset, &a, sizeof a);
  }
}

/// Memory of a program, and the execution of one operation after another on it.
class reference {
 public:
  explicit reference(const program& p) : p_(p), memory_(first_memory(p)) {}

  void execute(const operation& o) {
    switch (o.what) {
      case verb::launch:
        for (const int rank : carriers_of(p_, o)) {
          compute_on(o, rank, salt_of(o.salt, rank));
        }
        break;
      case verb::host_function:
      case verb::host_write: compute_on(o, 0, o.salt); break;
      case verb::copy:
        for (const int rank : carriers_of(p_, o)) {
          std::memmove(words(o.to, rank), words(o.from, rank),
                       static_cast<std::size_t>(o.to.words) * sizeof(word));
        }
        break;
      case verb::fill:
        for (const int rank : carriers_of(p_, o)) {
          fill(o.to, rank, o.salt);
        }
        break;
      case verb::take_memory:
        for (int i = 0; i < p_.instances(o.to.buffer); ++i) {
          fill(o.to, i, o.salt);
        }
        break;
      case verb::collective: collective(o); break;
      case verb::launch_graph: execute_all(graphs_.of(o.graph)); break;
      default: break;
    }
  }
  /// Records the effect that the operation has on graphs, after it was executed.
  void note(const operation& o) { graphs_.take(o); }
  [[nodiscard]] std::vector<int> left_by(int graph) const {
    return graphs_.left_by(graph);
  }
  [[nodiscard]] memory& all() { return memory_; }

 private:
  void execute_all(const std::vector<graph_step>& steps) {
    for (const graph_step& step : steps) {
      if (step.what.what == verb::launch_graph) {
        execute_all(step.inside);
      } else {
        execute(step.what);
      }
    }
  }
  [[nodiscard]] word* words(const place& where, int rank) {
    return at(at(memory_, where.buffer), instance_of(p_, where, rank)).data() +
           where.first;
  }
  void fill(const place& where, int rank, word value) {
    std::memset(words(where, rank), static_cast<int>(value & 0xFFU),
                static_cast<std::size_t>(where.words) * sizeof(word));
  }
  void compute_on(const operation& o, int rank, word salt) {
    if (!o.to.there()) {
      return;  // it only takes its time
    }
    compute(o.how, words(o.to, rank), o.from.there() ? words(o.from, rank) : nullptr,
            o.to.words, salt);
  }

  void collective(const operation& o) {
    const collective_spec& c = o.collective;
    if (c.way == collective_way::barrier) {
      return;
    }
    const int stream = o.stream != none ? o.stream
                                        : *std::find_if(o.shares.begin(), o.shares.end(),
                                                        [](int s) { return s != none; });
    for (const std::vector<int>& group : p_.mesh_of(stream).groups(c.axis)) {
      collective_of(o, group);
    }
  }
  void collective_of(const operation& o, const std::vector<int>& group) {
    const int ranks = count_of(group);
    // Reads the inputs of all ranks before any rank's output is written.
    std::vector<std::vector<word>> given;
    for (int i = 0; i < ranks; ++i) {
      const place reads = words_of_share(o, i, ranks).reads;
      given.emplace_back();
      if (reads.there()) {
        const word* const from = words(reads, at(group, i));
        given.back().assign(from, from + reads.words);
      }
    }
    for (int i = 0; i < ranks; ++i) {
      const place writes = words_of_share(o, i, ranks).writes;
      if (writes.there() && writes.words > 0) {
        const std::vector<word> got = outcome(o.collective, given, i);
        std::copy_n(got.begin(), writes.words, words(writes, at(group, i)));
      }
    }
  }
  /// Returns the result of the collective for the rank with this index in the group.
  static std::vector<word> outcome(const collective_spec& c,
                                   const std::vector<std::vector<word>>& given,
                                   int index) {
    const int ranks = count_of(given);
    const auto shard_of = [&](const std::vector<word>& all, int i) {
      const std::ptrdiff_t size = count_of(all) / ranks;
      return std::vector<word>(all.begin() + i * size, all.begin() + (i + 1) * size);
    };
    std::vector<word> out;
    switch (c.way) {
      case collective_way::all_reduce:
      case collective_way::reduce: return reduced(c, given);
      case collective_way::reduce_scatter: return shard_of(reduced(c, given), index);
      case collective_way::broadcast:
      case collective_way::send: return at(given, c.root);
      case collective_way::scatter: return shard_of(at(given, c.root), index);
      case collective_way::all_gather:
      case collective_way::gather:
        for (const auto& one : given) {
          out.insert(out.end(), one.begin(), one.end());
        }
        return out;
      default:
        for (const auto& one : given) {
          const std::vector<word> shard = shard_of(one, index);
          out.insert(out.end(), shard.begin(), shard.end());
        }
        return out;
    }
  }
  static std::vector<word> reduced(const collective_spec& c,
                                   const std::vector<std::vector<word>>& given) {
    std::vector<word> out = given.front();
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    for (std::size_t i = 1; i < given.size(); ++i) {
      const auto* const from = reinterpret_cast<const std::byte*>(given[i].data());
      switch (c.bytes) {
        case 1: reduce_into<std::uint8_t>(to, from, c.count, c.op); break;
        case 2: reduce_into<std::uint16_t>(to, from, c.count, c.op); break;
        case 4: reduce_into<std::uint32_t>(to, from, c.count, c.op); break;
        default: reduce_into<std::uint64_t>(to, from, c.count, c.op); break;
      }
    }
    return out;
  }

  const program& p_;
  memory memory_;
  graph_book graphs_;
};

}  // namespace

memory first_memory(const program& p) {
  memory out;
  for (int b = 0; b < count_of(p.buffers); ++b) {
    out.emplace_back();
    for (int i = 0; i < p.instances(b); ++i) {
      out.back().emplace_back();
      for (int w = 0; w < at(p.buffers, b).words; ++w) {
        out.back().back().push_back(
            mixed(mixed(static_cast<word>(b + 1), static_cast<word>(i + 1)),
                  static_cast<word>(w)));
      }
    }
  }
  return out;
}

memory interpret(const program& p) {
  reference m(p);
  std::vector<char> there;
  for (const buffer_spec& b : p.buffers) {
    there.push_back(b.comes() ? 0 : 1);
  }
  for (const operation& o : p.operations) {
    if (o.runs) {
      m.execute(o);
    }
    m.note(o);
    const bool changes = o.what == verb::take_memory || o.what == verb::give_memory;
    if (o.runs && changes) {
      at(there, o.to.buffer) = o.what == verb::take_memory ? 1 : 0;
    } else if (o.runs && o.what == verb::launch_graph) {
      for (const int b : m.left_by(o.graph)) {
        at(there, b) = 1;
      }
    }
  }
  for (int b = 0; b < count_of(p.buffers); ++b) {
    if (at(there, b) == 0) {
      at(m.all(), b).clear();
    }
  }
  return std::move(m.all());
}

}  // namespace weir::test::serial
