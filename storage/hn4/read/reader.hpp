// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verified reads of one stream.
#pragma once

#include <memory>

#include "hn4/core.hpp"

namespace weir::storage::hn4 {

/// Place of a block.
struct place {
  std::uint64_t byte = 0;
  bool allocated = false;
};

/// Reads verified bytes of one stream.
/// @threads{thread-compatible; each call of the public interface makes one}
class reader {
 public:
  explicit reader(const stream_map& map) : map_(map), cap_(map.geometry.payload) {}

  /// Reads bytes from `offset` on. The range must lie within the stream. Errors are those
  /// of `hn4_stream::read`.
  result<void> read(std::uint64_t offset, mutable_bytes to);
  /// Returns a verified range in place if it lies in one raw block in memory, else
  /// nothing.
  [[nodiscard]] bytes_view view(std::uint64_t offset, std::size_t count);
  /// Returns how many bytes the last `read` delivered from the front.
  [[nodiscard]] std::size_t done() const noexcept { return done_; }
  /// Returns how many holes were read as zeros.
  [[nodiscard]] std::uint64_t holes() const noexcept { return holes_; }
  /// Returns whether the last block read was a hole.
  [[nodiscard]] bool ended_in_hole() const noexcept { return last_hole_; }

 private:
  struct probe_state;

  void find_shard(std::uint64_t offset);
  [[nodiscard]] std::optional<place> locate(std::uint64_t n) const;
  result<void> read_whole(std::uint64_t n, mutable_bytes to);
  std::size_t read_plain(std::uint64_t n, const place& first, mutable_bytes to);
  std::size_t read_mapped(std::uint64_t n, place location, mutable_bytes to);
  result<std::size_t> read_batch(std::uint64_t n, std::uint64_t byte, std::size_t count,
                                 mutable_bytes to);
  result<void> read_block(std::uint64_t n, std::size_t skip, mutable_bytes to);
  result<void> read_strictly(std::uint64_t n, std::size_t skip, mutable_bytes to);
  result<void> check_pico_horizon(std::uint64_t n, const place& location,
                                  bool& hole) const;
  result<void> try_place(std::uint64_t n, const place& location, std::size_t skip,
                         mutable_bytes to);
  /// Searches for block n on all orbits. Its error is that of the most likely place.
  result<void> probe(std::uint64_t n, std::size_t skip, mutable_bytes to,
                     std::optional<error> first, std::optional<place> hinted);
  void look_at(std::uint64_t n, std::uint64_t block, bool at_hint, probe_state& state);
  result<void> check_payload_at(std::uint64_t byte, const block_header& header);
  result<void> deliver(std::uint64_t n, const block_header& h, bytes_view payload,
                       std::size_t skip, mutable_bytes to);
  result<void> take(std::uint64_t n, bytes_view header, bytes_view payload,
                    std::size_t skip, mutable_bytes to);
  result<bytes_view> fetch(std::uint64_t byte);

  /// Returns what the header of block n must say.
  [[nodiscard]] block_claim claim(std::uint64_t n) const {
    const anchor& a = map_.sources[shard_].a;
    return {a.seed, n, a.write_gen, map_.geometry.payload, a.has(class_bits::encrypted),
            false};
  }
  void fill_hole(mutable_bytes to);
  [[nodiscard]] error named(error cause, std::uint64_t n,
                            std::optional<std::uint64_t> byte) const;

  const stream_map& map_;
  std::size_t cap_;        ///< bytes of data per block
  std::size_t shard_ = 0;  ///< shard that is being read
  std::size_t done_ = 0;   ///< bytes delivered
  std::uint64_t holes_ = 0;
  bool last_hole_ = false;
  std::unique_ptr<std::byte[]> scratch_;  ///< memory for one block
};

}  // namespace weir::storage::hn4
