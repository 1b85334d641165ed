// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ballistic addresses: computes where block n of a shard lies.
///
/// The data region is divided into clusters of 2^scale blocks, `phi` of them. The
/// clusters of a shard begin at its gravity centre and advance by a step modulo phi, so
/// that a large shard is spread over the device. A block has several possible places
/// (orbits), which differ by a small offset theta; orbits from 4 on also use another
/// step. A hint in the directory entry says which orbit the writer took.
#include <algorithm>
#include <bit>

#include "disk.hpp"

namespace weir::storage::hn4 {

namespace {

/// Products of two block numbers need 128 bits.
__extension__ using wide = unsigned __int128;

/// Offsets of the orbits in clusters: triangular numbers.
constexpr std::array<std::uint64_t, 16> jitter{0,  1,  3,  6,  10, 15, 21,  28,
                                               36, 45, 55, 66, 78, 91, 105, 120};

/// Returns a * b mod m; avoids the 128-bit division where it can.
std::uint64_t mul_mod(std::uint64_t a, std::uint64_t b, std::uint64_t m) noexcept {
  if ((a | b) >> 32 == 0) {
    return a * b % m;
  }
  return static_cast<std::uint64_t>(wide{a} * b % m);
}

/// Adjusts a step `t` so that it visits many clusters before it repeats. The
/// specification calls the result coprime to `phi`, but it only avoids the factors 3 to
/// 13, once each. It must be computed exactly like this, because addresses on disk depend
/// on it.
std::uint64_t coprime(std::uint64_t t, std::uint64_t phi) noexcept {
  t |= 1;
  for (const std::uint64_t p : {3U, 5U, 7U, 11U, 13U}) {
    // The step stays odd: it was made odd above, and each correction adds 2.
    if (phi % p == 0 && t % p == 0) {
      t = t > UINT64_MAX - 2 ? 1 : t + 2;
    }
  }
  // Reducing the step modulo phi may make it even or zero, so it is corrected once more.
  if (phi > 1 && t >= phi) {
    t %= phi;
    t = (t == 0 ? 3 : t) | 1;
  }
  return t;
}

/// Returns the offset of orbit `k` in clusters. On a device without moving parts between
/// blocks (`still`), neighbours need no distance. With fewer than 32 clusters the
/// triangular numbers would collide often, so the orbit number itself is used.
std::uint64_t theta(const address_space& space, std::uint64_t phi, unsigned k) noexcept {
  if (space.still) {
    return 0;
  }
  return phi < 32 ? k % phi : jitter[std::min(k, 15U)] % phi;
}

/// The clusters of a volume for one scale.
struct window {
  std::uint64_t base = 0;  ///< first block of the first cluster
  std::uint64_t phi = 0;   ///< number of clusters; 0 if there is none
};

/// Divides the data region into clusters. The data region begins at `flux`, rounded up
/// to a whole cluster, so that every cluster is aligned to its own size. A volume that
/// is too small for one cluster has none, and then no block of this scale has an
/// address.
window window_of(const address_space& space, unsigned scale) noexcept {
  window w;
  if (scale >= 63) {
    return w;
  }
  const std::uint64_t unit = std::uint64_t{1} << scale;
  std::uint64_t up = 0;
  if (!checked_add(space.flux, unit - 1, up)) {
    // The sum has overflowed, so no cluster begins inside the volume.
    return w;
  }
  w.base = up & ~(unit - 1);
  w.phi = w.base < space.total ? (space.total - w.base) >> scale : 0;
  return w;
}

/// Returns the step of a shard on orbit `k`. Orbits from 4 on rotate and mix the vector,
/// which gives them a step that differs from that of the first four.
std::uint64_t step_of(std::uint64_t vector, std::uint64_t phi, unsigned k) noexcept {
  const std::uint64_t v =
      (k >= 4 ? std::rotl(vector, 17) ^ 0xA5A5A5A5A5A5A5A5U : vector) | 1;
  return coprime(v % phi, phi);
}

/// Computes the absolute block. `n` is divided into the number of its cluster and the
/// position inside it. The cluster advances by the step; the position is kept and
/// shifted by the position of the gravity centre inside its own cluster.
std::uint64_t land(const window& w, std::uint64_t gravity, std::uint64_t step,
                   std::uint64_t n, unsigned scale, std::uint64_t theta) noexcept {
  // Divisions take longer than everything else here, and most values are already below
  // phi.
  const auto modulo = [&](std::uint64_t x) { return x < w.phi ? x : x % w.phi; };
  const std::uint64_t unit = std::uint64_t{1} << scale;
  const std::uint64_t cluster = modulo(n >> scale);
  // A step of 1 needs no product.
  const std::uint64_t off = step == 1 ? cluster : mul_mod(cluster, step, w.phi);
  const std::uint64_t f = modulo((gravity >> scale) + off + theta);
  return w.base + (f << scale) + (n & (unit - 1)) + (gravity & (unit - 1));
}

}  // namespace

/// Derives what the address calculation needs from a volume. Units are blocks, except
/// for `scale`, which is a power of two of blocks.
address_space space_of(const superblock& sb, const hn4_geometry& g) noexcept {
  // The flags of hardware on which neighbouring blocks are read fastest.
  constexpr std::uint64_t linear_hardware = 1U << 0 | 1U << 2;
  address_space space;
  space.total = g.blocks;
  space.flux = g.flux / g.block;
  // Device types 1 to 3 and the SYSTEM profile use no offsets between orbits.
  space.still = (sb.device_type >= 1 && sb.device_type <= 3) ||
                (sb.hardware & linear_hardware) != 0 || g.profile == hn4_profile::system;
  return space;
}

/// Serves writers and repairs, which try all orbits of a block. Returns nothing if the
/// scale does not fit into the volume. The result may lie beyond the volume; callers
/// compare it with the number of blocks.
std::optional<std::uint64_t> ballistic(const address_space& space, std::uint64_t gravity,
                                       std::uint64_t vector, std::uint64_t n,
                                       unsigned scale, unsigned k) noexcept {
  const window w = window_of(space, scale);
  if (w.phi == 0) {
    return std::nullopt;
  }
  return land(w, gravity, step_of(vector, w.phi, k), n, scale, theta(space, w.phi, k));
}

// The step is that of the orbits 0 to 3, because a hint has only two bits.
//
// A trajectory keeps what is the same for all blocks of a shard, so that reading a long
// shard divides once per block at most.
trajectory::trajectory(const address_space& space, const anchor& a) noexcept
    : total_(space.total),
      gravity_(a.gravity),
      hints_(a.orbit_hints),
      scale_(a.fractal_scale),
      horizon_(a.has(class_bits::horizon)),
      still_(space.still) {
  const window w = window_of(space, scale_);
  base_ = w.base;
  phi_ = w.phi;
  step_ = phi_ != 0 ? step_of(a.orbit_vector, phi_, 0) : 0;
}

// A shard in the horizon region is linear: its blocks follow each other, 2^scale blocks
// apart.
std::optional<std::uint64_t> trajectory::block(std::uint64_t n) const noexcept {
  std::uint64_t block = 0;
  if (horizon_) {
    // Both operations are checked, since all values come from the medium.
    std::uint64_t far = 0;
    if (!checked_mul(n, std::uint64_t{1} << std::min(scale_, 32U), far) ||
        !checked_add(gravity_, far, block)) {
      return std::nullopt;
    }
  } else {
    if (phi_ == 0) {
      return std::nullopt;
    }
    // The hints are 16 pairs of bits, one for each 16 blocks of the first 256. Blocks
    // behind them are always on orbit 0.
    const unsigned k = n < 256 ? (hints_ >> (2 * (n >> 4))) & 3U : 0U;
    // `theta` needs only the flag of this space.
    const address_space space{total_, 0, still_};
    block = land({base_, phi_}, gravity_, step_, n, scale_, theta(space, phi_, k));
  }
  return block < total_ ? std::optional(block) : std::nullopt;
}

}  // namespace weir::storage::hn4
