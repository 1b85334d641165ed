// SPDX-License-Identifier: Apache-2.0
/// @file
/// Prints programs as text and computes the groups of ranks of a mesh.
#include "serial/program.hpp"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weir::test::serial {

std::vector<std::vector<int>> mesh_spec::groups(std::string_view axis) const {
  std::vector<std::vector<int>> out;
  if (axis == "tp") {
    out.resize(static_cast<std::size_t>(dp));
  } else if (axis == "dp") {
    out.resize(static_cast<std::size_t>(tp));
  } else {
    out.resize(1);
  }
  for (int r = 0; r < ranks(); ++r) {  // tp varies fastest
    at(out, axis == "tp" ? r / tp : axis == "dp" ? r % tp : 0).push_back(r);
  }
  return out;
}

/// Returns the name of a verb in the printed program.
std::string_view name_of(verb what) {
  constexpr std::array<std::string_view, verbs> names = {
      "launch",        "copy",          "fill",        "host function", "host write",
      "record",        "wait",          "query event", "await event",   "query stream",
      "synchronize",   "collective",    "take memory", "give memory",   "open stream",
      "close stream",  "begin capture", "end capture", "take graph",    "launch graph",
      "discard graph", "update node"};
  return names[static_cast<std::size_t>(what)];
}

namespace {

std::string text_of(const place& p) {
  if (!p.there()) {
    return "nothing";
  }
  const std::string rank = p.rank == none ? "" : fmt::format("@rank{}", p.rank);
  return fmt::format("b{}{}[{}..{})", p.buffer, rank, p.first, p.first + p.words);
}

std::string_view text_of(arithmetic how) {
  constexpr std::array<std::string_view, 4> names = {"add", "xor", "rotate", "mix"};
  return names[static_cast<std::size_t>(how)];
}

std::string text_of(const collective_spec& c) {
  constexpr std::array<std::string_view, 10> ways = {
      "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce",
      "gather",     "scatter",        "all-to-all", "send",      "barrier"};
  constexpr std::array<std::string_view, 4> ops = {"sum", "max", "min", "product"};
  return fmt::format("{} of {} int{} {} along {} root {} peer {} by {}{}{}",
                     ways[static_cast<std::size_t>(c.way)], c.count, 8 * c.bytes,
                     at(ops, c.op), c.axis, c.root, c.peer,
                     c.algorithm == nullptr ? "any algorithm" : c.algorithm,
                     c.packed ? ", packed" : "", c.own_address ? ", own addresses" : "");
}

std::string text_of_effort(const operation& o) {
  std::string out = fmt::format("{} salt {}", text_of(o.how), o.salt);
  if (o.spin > 0) {
    out += fmt::format(", {} rounds", o.spin);
    out += o.slow_rank == none ? "" : fmt::format(" on rank {}", o.slow_rank);
  }
  out += o.blocks == 1 ? "" : fmt::format(", {} blocks", o.blocks);
  return out;
}

std::string text_of_work(const operation& o, verb what) {
  switch (what) {
    case verb::launch:
      return fmt::format("{} from {}, {}{}", text_of(o.to), text_of(o.from),
                         text_of_effort(o) + (o.urgent ? ", urgent" : ""),
                         o.captures ? ", capturing" : "");
    case verb::host_function:
    case verb::host_write:
      return fmt::format("{} from {}, {}", text_of(o.to), text_of(o.from),
                         text_of_effort(o));
    case verb::copy: {
      constexpr std::array<std::string_view, 4> ways = {"H2D", "D2H", "D2D", "H2H"};
      return fmt::format("{} {} from {}{}", ways[static_cast<std::size_t>(o.way)],
                         text_of(o.to), text_of(o.from),
                         o.rank == none ? "" : fmt::format(", rank {}", o.rank));
    }
    case verb::fill: return fmt::format("{} with {}", text_of(o.to), o.salt & 0xFFU);
    case verb::collective: {
      std::string out = fmt::format("{} to {} from {}", text_of(o.collective),
                                    text_of(o.to), text_of(o.from));
      for (int r = 0; r < count_of(o.shares); ++r) {
        out += at(o.shares, r) == none
                   ? ""
                   : fmt::format(", rank {} on s{}", r, at(o.shares, r));
      }
      return out;
    }
    case verb::take_memory:
    case verb::give_memory: return fmt::format("b{}", o.to.buffer);
    case verb::update_node:
      return fmt::format("#{} to {} {}", o.node, name_of(o.becomes),
                         text_of_work(o, o.becomes));
    default: return "";
  }
}

}  // namespace

std::string text_of(const program&, const operation& o) {
  std::string out = fmt::format("#{:<3} {:<14}", o.id, name_of(o.what));
  out += o.stream == none ? "" : fmt::format(" s{}", o.stream);
  out += o.event == none ? "" : fmt::format(" e{}", o.event);
  out += o.graph == none ? "" : fmt::format(" g{}", o.graph);
  const std::string work = text_of_work(o, o.what);
  out += work.empty() ? "" : " " + work;
  out += o.recorded_in == none ? "" : fmt::format("  (recorded in g{})", o.recorded_in);
  return out;
}

std::string text_of(const program& p) {
  std::string out = fmt::format("{} devices\n", p.devices);
  for (int m = 0; m < count_of(p.meshes); ++m) {
    const mesh_spec& mesh = at(p.meshes, m);
    out += fmt::format("mesh m{}: devices {}, tp={} dp={}\n", m,
                       fmt::join(mesh.devices, ","), mesh.tp, mesh.dp);
  }
  constexpr std::array<std::string_view, 4> kinds = {"device", "pinned", "registered",
                                                     "plain"};
  for (int b = 0; b < count_of(p.buffers); ++b) {
    const buffer_spec& buffer = at(p.buffers, b);
    out += fmt::format("buffer b{}: {} words, {}{}{}\n", b, buffer.words,
                       kinds[static_cast<std::size_t>(buffer.kind)],
                       buffer.on_device() ? fmt::format(" of m{}", buffer.mesh) : "",
                       buffer.pooled     ? ", pooled"
                       : buffer.of_graph ? ", of a graph"
                                         : "");
  }
  for (int s = 0; s < count_of(p.streams); ++s) {
    const stream_spec& stream = at(p.streams, s);
    out += fmt::format("stream s{}: m{}{}{}\n", s, stream.mesh,
                       stream.rank == none ? "" : fmt::format(" rank {}", stream.rank),
                       stream.urgent ? ", urgent" : "");
  }
  for (const operation& o : p.operations) {
    out += text_of(p, o) + "\n";
  }
  std::vector<std::string> calls;
  bool in_order = true;
  int last = 0;
  for (const call& c : p.calls) {
    const int id = at(p.operations, c.operation).id;
    calls.push_back(c.rank == none ? fmt::format("{}", id)
                                   : fmt::format("{}/rank{}", id, c.rank));
    in_order = in_order && c.operation >= last;
    last = c.operation;
  }
  return in_order
             ? out
             : out + fmt::format("called in this order: {}\n", fmt::join(calls, " "));
}

}  // namespace weir::test::serial
