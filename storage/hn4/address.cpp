// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ballistic addresses: where block n of a shard lies.
#include <algorithm>
#include <bit>

#include "disk.hpp"

namespace weir::storage::hn4 {

namespace {

__extension__ using wide = unsigned __int128;

constexpr std::array<std::uint64_t, 16> jitter{0,  1,  3,  6,  10, 15, 21,  28,
                                               36, 45, 55, 66, 78, 91, 105, 120};

std::uint64_t mul_mod(std::uint64_t a, std::uint64_t b, std::uint64_t m) noexcept {
  if ((a | b) >> 32 == 0) {
    return a * b % m;
  }
  return static_cast<std::uint64_t>(wide{a} * b % m);
}

// Called coprime, though it only avoids five small common factors, once each.
std::uint64_t coprime(std::uint64_t t, std::uint64_t phi) noexcept {
  t |= 1;
  for (const std::uint64_t p : {3U, 5U, 7U, 11U, 13U}) {
    if (phi % p == 0 && t % p == 0) {
      t = t > UINT64_MAX - 2 ? 1 : t + 2;
    }
  }
  if (phi > 1 && t >= phi) {
    t %= phi;
    t = (t == 0 ? 3 : t) | 1;
  }
  return t;
}

std::uint64_t theta(const address_space& space, std::uint64_t phi, unsigned k) noexcept {
  if (space.still) {
    return 0;
  }
  return phi < 32 ? k % phi : jitter[std::min(k, 15U)] % phi;
}

struct window {
  std::uint64_t base = 0;
  std::uint64_t phi = 0;  ///< 0: none
};

window window_of(const address_space& space, unsigned scale) noexcept {
  window w;
  if (scale >= 63) {
    return w;
  }
  const std::uint64_t unit = std::uint64_t{1} << scale;
  std::uint64_t up = 0;
  if (!checked_add(space.flux, unit - 1, up)) {
    return w;
  }
  w.base = up & ~(unit - 1);
  w.phi = w.base < space.total ? (space.total - w.base) >> scale : 0;
  return w;
}

std::uint64_t step_of(std::uint64_t vector, std::uint64_t phi, unsigned k) noexcept {
  const std::uint64_t v =
      (k >= 4 ? std::rotl(vector, 17) ^ 0xA5A5A5A5A5A5A5A5U : vector) | 1;
  return coprime(v % phi, phi);
}

std::uint64_t land(const window& w, std::uint64_t gravity, std::uint64_t step,
                   std::uint64_t n, unsigned scale, std::uint64_t theta) noexcept {
  // Divisions take longer than all the rest, and most addresses need none.
  const auto modulo = [&](std::uint64_t x) { return x < w.phi ? x : x % w.phi; };
  const std::uint64_t unit = std::uint64_t{1} << scale;
  const std::uint64_t cluster = modulo(n >> scale);
  const std::uint64_t off = step == 1 ? cluster : mul_mod(cluster, step, w.phi);
  const std::uint64_t f = modulo((gravity >> scale) + off + theta);
  return w.base + (f << scale) + (n & (unit - 1)) + (gravity & (unit - 1));
}

}  // namespace

address_space space_of(const superblock& sb, const hn4_geometry& g) noexcept {
  constexpr std::uint64_t linear_hardware = 1U << 0 | 1U << 2;
  address_space space;
  space.total = g.blocks;
  space.flux = g.flux / g.block;
  space.still = (sb.device_type >= 1 && sb.device_type <= 3) ||
                (sb.hardware & linear_hardware) != 0 || g.profile == hn4_profile::system;
  return space;
}

std::optional<std::uint64_t> ballistic(const address_space& space, std::uint64_t gravity,
                                       std::uint64_t vector, std::uint64_t n,
                                       unsigned scale, unsigned k) noexcept {
  const window w = window_of(space, scale);
  if (w.phi == 0) {
    return std::nullopt;
  }
  return land(w, gravity, step_of(vector, w.phi, k), n, scale, theta(space, w.phi, k));
}

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

std::optional<std::uint64_t> trajectory::block(std::uint64_t n) const noexcept {
  std::uint64_t at = 0;
  if (horizon_) {
    std::uint64_t far = 0;
    if (!checked_mul(n, std::uint64_t{1} << std::min(scale_, 32U), far) ||
        !checked_add(gravity_, far, at)) {
      return std::nullopt;
    }
  } else {
    if (phi_ == 0) {
      return std::nullopt;
    }
    const unsigned k = n < 256 ? (hints_ >> (2 * (n >> 4))) & 3U : 0U;
    const address_space space{total_, 0, still_};
    at = land({base_, phi_}, gravity_, step_, n, scale_, theta(space, phi_, k));
  }
  return at < total_ ? std::optional(at) : std::nullopt;
}

}  // namespace weir::storage::hn4
