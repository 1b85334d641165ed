// SPDX-License-Identifier: Apache-2.0
/// @file
/// Generates random meshes, buffers and streams.
#include "serial/generate/scene.hpp"

#include <algorithm>
#include <numeric>

namespace weir::test::serial {
namespace {

/// Returns a mesh of these devices with random sizes of tp and dp.
mesh_spec random_axes(dice& d, std::vector<int> devices) {
  mesh_spec out{std::move(devices), 1, 1};
  std::vector<int> divisors;
  for (int i = 1; i <= out.ranks(); ++i) {
    if (out.ranks() % i == 0) {
      divisors.push_back(i);
    }
  }
  out.tp = at(divisors, pick(d, count_of(divisors)));
  out.dp = out.ranks() / out.tp;
  return out;
}

/// Adds a mesh of all devices and sometimes a second one.
void add_meshes(program& p, dice& d, const features& with) {
  std::vector<int> all(static_cast<std::size_t>(p.devices));
  std::iota(all.begin(), all.end(), 0);
  p.meshes.push_back(random_axes(d, all));
  if (!with.second_mesh || !d.one_in(3)) {
    return;
  }
  if (d.one_in(2)) {  // adds a mesh with other devices or with another order
    for (int i = count_of(all) - 1; i > 0; --i) {
      std::swap(at(all, i), at(all, pick(d, i + 1)));
    }
    all.resize(static_cast<std::size_t>(1 + pick(d, count_of(all))));
  }
  p.meshes.push_back(random_axes(d, all));
}

/// Adds buffers of all kinds.
void add_buffers(program& p, dice& d, const features& with) {
  const auto words = [&] { return d.one_in(3) ? 48 : 24; };
  for (int m = 0; m < count_of(p.meshes); ++m) {
    for (std::int64_t i = d.in(1, m == 0 ? 3 : 2); i > 0; --i) {
      p.buffers.push_back({memory_kind::device, m, words()});
    }
  }
  if (with.pooled_memory && d.one_in(3)) {
    for (std::int64_t i = d.in(1, 2); i > 0; --i) {
      p.buffers.push_back({memory_kind::device, pick(d, count_of(p.meshes)), 24, true});
    }
  }
  if (with.graph_memory && d.one_in(2)) {
    for (std::int64_t i = d.in(1, 2); i > 0; --i) {
      p.buffers.push_back(
          {memory_kind::device, pick(d, count_of(p.meshes)), 24, false, true});
    }
  }
  for (std::int64_t i = d.in(1, 2); i > 0; --i) {
    p.buffers.push_back({static_cast<memory_kind>(d.in(1, 3)), none, words()});
  }
}

/// Adds streams of meshes and, sometimes, of single ranks.
void add_streams(program& p, dice& d, const features& with) {
  const bool own = with.rank_streams && d.one_in(3);
  if (own) {
    const int mesh = pick(d, count_of(p.meshes));
    for (int sets = d.one_in(4) ? 1 : 2; sets > 0; --sets) {
      for (int r = 0; r < at(p.meshes, mesh).ranks(); ++r) {
        p.streams.push_back({mesh, r, false, d.one_in(5)});
      }
    }
  }
  for (std::int64_t i = d.in(own ? 0 : 1, own ? 2 : 6); i > 0; --i) {
    const bool late = with.late_streams && i > 1 && d.one_in(5);
    p.streams.push_back({pick(d, count_of(p.meshes)), none, late, d.one_in(5)});
  }
}

}  // namespace

program random_scene(dice& d, const features& with) {
  program p;
  p.devices = d.one_in(2) ? static_cast<int>(d.in(1, 4)) : static_cast<int>(d.in(2, 8));
  add_meshes(p, d, with);
  add_buffers(p, d, with);
  add_streams(p, d, with);
  return p;
}

}  // namespace weir::test::serial
