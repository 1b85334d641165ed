// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rebuilds bits of the bitmap as the reference implementation does when it opens an
/// unclean volume.
///
/// For each block of each live entry the reference implementation looks at the orbits in
/// turn, until a block names itself as the wanted one. Its bit is set if the payload is
/// right, too. Strict reads need exactly these bits, because they treat a cleared bit as
/// a hole.
#include <algorithm>

#include "hn4/core.hpp"
#include "weir/base/hash.hpp"

/// The search writes nothing: the rebuilt bits exist in memory only.
namespace weir::storage::hn4 {

namespace {

/// Sets the bits of blocks that prove to belong to a live entry.
///
/// The order of places matters, because the reference stops at the first block that
/// names itself.
class scanner {
 public:
  scanner(const core& c, block_bits& bits)
      : c_(c), bits_(bits), buffer_(c.geometry.block) {}

  /// Searches for all blocks of a shard.
  void visit(const anchor& a) {
    const std::uint64_t blocks = blocks_for(c_.geometry, a.mass);
    // An impossible length is skipped.
    if (blocks > c_.geometry.blocks) {
      return;
    }
    for (std::uint64_t n = 0; n < blocks; ++n) {
      for (unsigned k = 0; k < orbits && !settled(a, n, k); ++k) {
      }
    }
  }

 private:
  /// Examines one place; returns whether the search goes on with the next block. A set
  /// bit on orbit 0 is taken as proof without reading, as the reference does.
  bool settled(const anchor& a, std::uint64_t n, unsigned k) {
    const auto block =
        ballistic(c_.space, a.gravity, a.orbit_vector, n, a.fractal_scale, k);
    if (!block || *block >= c_.geometry.blocks) {
      return false;
    }
    // The bit is asked for before the block is read.
    const bool set = bits_.test(*block);
    if (set && k == 0) {
      return true;
    }
    std::array<std::byte, header_bytes> head{};
    const std::uint64_t byte = *block * c_.geometry.block;
    if (!c_.device->read(byte, head) || !names_itself(head, a.seed, n)) {
      return false;
    }
    if (set) {
      return true;
    }
    const block_header h = load_header(head);
    // The generation must be exact here.
    if (h.generation != a.write_gen || !c_.device->read(byte, buffer_) ||
        h.data_crc != crc32(0, bytes_view(buffer_).subspan(header_bytes))) {
      return false;
    }
    bits_.set(*block);
    return true;
  }

  const core& c_;
  block_bits& bits_;
  byte_vector buffer_;
};

}  // namespace

// A volume that was closed cleanly has the right bits already.
//
// PICO bitmaps are never rebuilt, as their bits are not trusted.
std::shared_ptr<const block_bits> rebuilt_bits(const core& c) {
  if (!c.unclean || c.bits->blind) {
    return c.bits;
  }
  auto bits = std::make_shared<block_bits>(*c.bits);
  // Checksums of entries do not matter here, but the order of the slots does.
  std::vector<entry> all = c.entries;
  all.insert(all.end(), c.damaged.begin(), c.damaged.end());
  std::sort(all.begin(), all.end(),
            [](const entry& x, const entry& y) { return x.slot < y.slot; });
  scanner scan(c, *bits);
  for (const entry& e : all) {
    if (e.a.live()) {
      scan.visit(e.a);
    }
  }
  return bits;
}

/// Computed at most once, by the first stream that needs it. The mutex of the flag lets
/// other threads wait.
std::shared_ptr<const block_bits> core::strict_bits() const {
  std::call_once(rebuilt_once, [&] { rebuilt = rebuilt_bits(*this); });
  return rebuilt;
}

}  // namespace weir::storage::hn4
