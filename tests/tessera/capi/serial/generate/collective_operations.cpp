// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kinds, elements and buffers of collectives.
#include "serial/generate/collective_operations.hpp"

#include <algorithm>
#include <array>

namespace weir::test::serial {

void collective_operations::collective() {
  if (!with_.collectives) {
    return;
  }
  const std::vector<int> streams = open_streams();
  const int stream = any_of(streams);
  if (stream == none) {
    return;
  }
  if (at(p_.streams, stream).rank == none) {
    collective_on(stream);
  } else {
    // Calls several collectives in a row, so that a rank can be far ahead of the
    // others.
    for (std::int64_t i = d_.in(1, 4); i > 0; --i) {
      collective_of_ranks(at(p_.streams, stream).mesh, streams);
    }
  }
}

std::optional<operation> collective_operations::random_collective(int stream) {
  operation o = on(verb::collective, stream);
  return describe(o, stream) ? std::optional(o) : std::nullopt;
}

void collective_operations::collective_of_ranks(int mesh,
                                                const std::vector<int>& streams) {
  const int ranks = at(p_.meshes, mesh).ranks();
  operation o = on(verb::collective, none);
  const int set = pick(d_, 2);  // most ranks use their stream of this number
  int any = none;
  for (int r = 0; r < ranks; ++r) {
    std::vector<int> own;
    for (const int s : streams) {
      if (at(p_.streams, s).mesh == mesh && at(p_.streams, s).rank == r) {
        own.push_back(s);
      }
    }
    const bool same = set < count_of(own) && !d_.one_in(6);
    any = same ? at(own, set) : any_of(own);
    if (any == none) {
      return;
    }
    o.shares.push_back(any);
  }
  // Repeats the last collective often. Ranks that are out of step then pair different
  // calls without an error, which only the values in memory show.
  const bool again = last_mesh_ == mesh && d_.one_in(2);
  if (again) {
    o.collective = last_;
  }
  if (again ? !place_again(o, any) : !describe(o, any)) {
    return;
  }
  // Mostly uses memory that no other operation touches yet. Then only the order of the
  // calls orders the collective.
  const bool apart = !d_.one_in(4);
  for (int tries = 0; apart && tries < 8 && !rules_.races_of(o).empty(); ++tries) {
    if (!place_again(o, any)) {
      return;
    }
  }
  last_ = o.collective;
  last_mesh_ = mesh;
  if (o.collective.way == collective_way::send) {
    for (int r = 0; r < ranks; ++r) {  // the other ranks do not call
      at(o.shares, r) =
          r == o.collective.root || r == o.collective.peer ? at(o.shares, r) : none;
    }
  }
  emit(o);
}

bool collective_operations::describe(operation& o, int stream) {
  collective_spec& c = o.collective;
  const mesh_spec& mesh = p_.mesh_of(stream);
  c.way = static_cast<collective_way>(d_.in(0, 9));
  const bool whole = c.way == collective_way::send || d_.one_in(2);
  c.axis = whole ? "world" : d_.one_in(2) ? "tp" : "dp";
  const int ranks = count_of(mesh.groups(c.axis).front());
  c.op = pick(d_, 4);
  c.bytes = 1 << pick(d_, 4);
  c.root = pick(d_, ranks);
  c.peer = pick(d_, ranks);
  if (c.way == collective_way::send && c.peer == c.root) {
    return false;
  }
  c.packed = d_.one_in(4) && ranks > 1;
  c.own_address = d_.one_in(4);
  constexpr std::array<const char*, 6> algorithms = {nullptr,  nullptr, nullptr,
                                                     "direct", "ring",  "tree"};
  // A requested algorithm must support the kind of the collective. All-reduce is the
  // kind that supports all of them.
  c.algorithm =
      c.way == collective_way::all_reduce ? at(algorithms, pick(d_, 6)) : nullptr;
  c.chunk_bytes = d_.one_in(4) ? 32 : 0;
  const int step = ranks * (c.bytes == 8 ? 2 : 1);  // a shard has whole words
  const int words = step * (1 + pick(d_, d_.one_in(2) ? 1 : std::max(24 / step, 1)));
  c.count = words * static_cast<int>(sizeof(word)) / c.bytes;
  return c.way == collective_way::barrier || place_buffers(o, stream, ranks);
}

bool collective_operations::place_again(operation& o, int stream) {
  const auto groups = p_.mesh_of(stream).groups(o.collective.axis);
  return o.collective.way == collective_way::barrier ||
         place_buffers(o, stream, count_of(groups.front()));
}

bool collective_operations::place_buffers(operation& o, int stream, int ranks) {
  collective_spec& c = o.collective;
  const int words = c.count * c.bytes / static_cast<int>(sizeof(word));
  const auto room = [&](bool packed) { return packed ? words / ranks : words; };
  const auto to = collective_place(stream, room(c.packs_output()));
  const auto from = collective_place(stream, room(c.packs_input()));
  if (!to || !from) {
    return false;
  }
  o.to = *to;
  o.from = *from;
  const bool packs = c.packs_input() || c.packs_output();
  const bool near = o.to.buffer == o.from.buffer &&
                    o.to.first < o.from.first + o.from.words &&
                    o.from.first < o.to.first + o.to.words;
  if (near && packs) {
    return false;
  }
  if (near || (!packs && d_.one_in(2))) {
    o.from = o.to;
  }
  return true;
}

std::optional<place> collective_operations::collective_place(int stream, int words) {
  std::vector<int> all;
  for (int b = 0; b < count_of(p_.buffers); ++b) {
    if (p_.fits(b, stream) && usable(b, stream) && at(p_.buffers, b).words >= words) {
      all.push_back(b);
    }
  }
  return all.empty() ? std::nullopt : std::optional(any_range(any_of(all), none, words));
}

}  // namespace weir::test::serial
