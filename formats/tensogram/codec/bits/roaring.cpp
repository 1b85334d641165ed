// SPDX-License-Identifier: Apache-2.0
/// @file
/// Roaring bitmaps in the portable serialisation (RoaringFormatSpec): sorted positions in
/// containers of 65,536, each a sorted array, a bitmap or a list of runs.
///
/// All integers are little-endian. The head is a cookie, flags of the containers that
/// hold runs, then key and cardinality of each container. Offsets of the containers
/// follow, except in files with runs and fewer than four containers. Bits in a Roaring
/// bitmap count from the least significant one, those of a bit list from the most
/// significant one.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tensogram/codec/bits/bits.hpp"
#include "weir/base/record.hpp"

namespace weir::formats {

namespace {

/// Cookies: with run containers, the number of containers - 1 stands in its upper half;
/// without, it follows as a word of its own.
constexpr std::uint32_t cookie_runs = 12347;
constexpr std::uint32_t cookie_plain = 12346;
constexpr std::uint64_t container_bits =
    65536;  ///< positions of one container: those with the same upper 16 bits
/// Largest cardinality of an array container; larger ones are bitmaps.
constexpr std::uint32_t max_in_array = 4096;
constexpr std::size_t bitmap_bytes = 8192;  ///< size of a bitmap container
/// Files that have run containers store offsets from this number of containers on.
constexpr std::size_t offsets_from = 4;

/// A container to be written.
struct container {
  std::uint16_t key = 0;          ///< upper 16 bits of its positions
  std::uint32_t cardinality = 0;  ///< ones in it, 1 to 65,536
  bool runs = false;              ///< the body is a list of runs
  byte_vector body;               ///< as it is stored
};

/// Returns the position within its container.
std::uint16_t low(std::uint64_t position) noexcept {
  return static_cast<std::uint16_t>(position % container_bits);
}

/// Calls `use(first, last)` for every run of ones in `[from, to)`.
template <class Use>
void for_each_run(bytes_view bits, std::uint64_t from, std::uint64_t to, const Use& use) {
  for (std::uint64_t first = from; first < to;) {
    const std::uint64_t end = run_end(bits, first, to);
    if (bit_at(bits, first)) {
      use(first, end);
    }
    first = end;
  }
}

/// Returns the body of a run container: the number of runs, then start and length - 1 of
/// each.
byte_vector run_body(bytes_view bits, std::uint64_t from, std::uint64_t to,
                     std::uint32_t runs) {
  record_writer out;
  out.put(static_cast<std::uint16_t>(runs));
  for_each_run(bits, from, to, [&](std::uint64_t first, std::uint64_t last) {
    out.put(low(first));
    out.put(static_cast<std::uint16_t>(last - first - 1));
  });
  return std::move(out).take();
}

/// Returns the body of a bitmap container.
byte_vector bitmap_body(bytes_view bits, std::uint64_t from, std::uint64_t to) {
  // The memory is cleared, so bits only need to be set.
  byte_vector out(bitmap_bytes);
  for_each_run(bits, from, to, [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t at = first; at < last; ++at) {
      out[low(at) / 8u] |= static_cast<std::byte>(1u << (at % 8));
    }
  });
  return out;
}

/// Returns the body of an array container: the positions of the ones.
byte_vector array_body(bytes_view bits, std::uint64_t from, std::uint64_t to) {
  record_writer out;
  for_each_run(bits, from, to, [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t position = first; position < last; ++position) {
      out.put(low(position));
    }
  });
  return std::move(out).take();
}

/// Makes the container of bits `[from, to)` in the smallest of the three forms. A
/// container without bits has no body and is not written.
container make_container(bytes_view bits, std::uint64_t from, std::uint64_t to) {
  container out;
  out.key = static_cast<std::uint16_t>(from / container_bits);
  std::uint32_t runs = 0;
  for_each_run(bits, from, to, [&](std::uint64_t first, std::uint64_t last) {
    out.cardinality += static_cast<std::uint32_t>(last - first);
    ++runs;
  });
  // A list of runs takes 2 bytes and 4 for each run.
  const std::size_t plain =
      out.cardinality > max_in_array ? bitmap_bytes : 2 * std::size_t{out.cardinality};
  out.runs = 2 + 4 * std::size_t{runs} < plain;
  if (out.cardinality > 0) {
    out.body = out.runs                         ? run_body(bits, from, to, runs)
               : out.cardinality > max_in_array ? bitmap_body(bits, from, to)
                                                : array_body(bits, from, to);
  }
  return out;
}

/// Decodes a bitmap and checks it: increasing keys, positions below the number of bits,
/// cardinalities that agree with the contents, and no bytes behind the last container.
/// Containers are read in order from one reader of records, which checks each length. The
/// results say only whether the bitmap is sound; the caller makes the error.
class roaring_reader {
 public:
  roaring_reader(bytes_view from, std::uint64_t count, const decode_target& to)
      : from_(from), count_(count), to_(to.bytes()), stores_(to.has_memory()) {}

  /// Reads the head and then all containers. There are at most 65,536 containers, so the
  /// head is bounded before it is taken.
  bool run() {
    const auto cookie = from_.get<std::uint32_t>();
    std::size_t containers = 0;
    if ((cookie & 0xFFFF) == cookie_runs) {
      containers = (cookie >> 16) + 1;
      run_flags_ = from_.get_bytes((containers + 7) / 8);
    } else if (cookie == cookie_plain) {
      containers = from_.get<std::uint32_t>();
    } else {
      return false;
    }
    const bytes_view heads =
        containers > container_bits ? bytes_view() : from_.get_bytes(4 * containers);
    if (from_.failed() || heads.size() != 4 * containers) {
      return false;
    }
    if (run_flags_.empty() || containers >= offsets_from) {
      // The offsets are redundant, because the containers lie one after the other.
      (void)from_.get_bytes(4 * containers);
    }
    for (std::size_t c = 0; c < containers; ++c) {
      if (!read_container(heads, c)) {
        return false;
      }
    }
    return !from_.failed() && from_.rest().empty();
  }

 private:
  /// Decodes container `c`, whose key and cardinality are in `heads`.
  /// Cardinalities are stored less one, so that 65,536 fits 16 bits.
  bool read_container(bytes_view heads, std::size_t c) {
    const auto key = load_le<std::uint16_t>(heads.data() + 4 * c);
    const auto cardinality =
        std::uint32_t{load_le<std::uint16_t>(heads.data() + 4 * c + 2)} + 1;
    if (c > 0 && key <= load_le<std::uint16_t>(heads.data() + 4 * (c - 1))) {
      return false;
    }
    const std::uint64_t base = std::uint64_t{key} * container_bits;
    const bool runs = !run_flags_.empty() &&
                      // The flag of container c is bit c % 8 of byte c / 8, the least
                      // significant first.
                      (std::to_integer<unsigned>(run_flags_[c / 8]) >> (c % 8) & 1u) != 0;
    if (runs) {
      return read_runs(base, cardinality);
    }
    return cardinality > max_in_array ? read_bitmap(base, cardinality)
                                      : read_array(base, cardinality);
  }

  /// Runs must be sorted and must not overlap; neighbours may touch.
  /// `base` is the position at which the container begins; `next` the end of the last
  /// run.
  bool read_runs(std::uint64_t base, std::uint32_t cardinality) {
    const unsigned runs = from_.get<std::uint16_t>();
    std::uint64_t next = 0;
    std::uint64_t total = 0;
    for (unsigned r = 0; r < runs && !from_.failed(); ++r) {
      const std::uint64_t start = from_.get<std::uint16_t>();
      const std::uint64_t length = std::uint64_t{from_.get<std::uint16_t>()} + 1;
      if ((r > 0 && start < next) || start + length > container_bits ||
          base + start + length > count_) {
        return false;
      }
      if (stores_) {
        set_bits(to_, base + start, base + start + length);
      }
      next = start + length;
      total += length;
    }
    return !from_.failed() && total == cardinality;
  }

  // Reads an array container. Without memory for the result, the bits of one container
  // are marked in `own`.
  bool read_array(std::uint64_t base, std::uint32_t cardinality) {
    const bytes_view body = from_.get_bytes(2 * std::size_t{cardinality});
    byte_vector own(stores_ ? 0 : bitmap_bytes);  // finds positions that occur twice
    const mutable_bytes bits = stores_ ? to_ : mutable_bytes(own);
    for (std::size_t i = 0; 2 * i < body.size(); ++i) {
      const std::uint64_t inside = load_le<std::uint16_t>(body.data() + 2 * i);
      const std::uint64_t bit = stores_ ? base + inside : inside;
      if (base + inside >= count_ || bit_at(bits, bit)) {
        return false;
      }
      set_bit(bits, bit);
    }
    return !from_.failed();
  }

  /// Copies a bitmap bit by bit, because the order of bits in a byte is reversed.
  bool read_bitmap(std::uint64_t base, std::uint32_t cardinality) {
    const bytes_view body = from_.get_bytes(bitmap_bytes);
    // `total` counts the ones, which must be as many as the head says.
    std::uint32_t total = 0;
    for (std::size_t k = 0; k < body.size(); ++k) {
      for (unsigned i = 0; body[k] != std::byte{} && i < 8; ++i) {
        if ((std::to_integer<unsigned>(body[k]) >> i & 1u) != 0) {
          const std::uint64_t position = base + 8 * k + i;
          if (position >= count_) {
            return false;
          }
          if (stores_) {
            set_bit(to_, position);
          }
          ++total;
        }
      }
    }
    return !from_.failed() && total == cardinality;
  }

  record_reader from_;    ///< bytes that are not read yet
  std::uint64_t count_;   ///< bits of the list
  mutable_bytes to_;      ///< target; empty if nothing is kept
  bool stores_;           ///< whether the target has memory
  bytes_view run_flags_;  ///< one bit for each container; empty without run containers
};

/// Appends flags that tell which containers hold runs, one bit for each.
void put_run_flags(record_writer& to, const std::vector<container>& all) {
  byte_vector flags((all.size() + 7) / 8);
  for (std::size_t c = 0; c < all.size(); ++c) {
    flags[c / 8] |= static_cast<std::byte>((all[c].runs ? 1u : 0u) << (c % 8));
  }
  to.put_bytes(flags);
}

/// Appends key and cardinality - 1 of each container.
void put_heads(record_writer& to, const std::vector<container>& all) {
  for (const container& c : all) {
    to.put(c.key);
    to.put(static_cast<std::uint16_t>(c.cardinality - 1));
  }
}

}  // namespace

/// Containers are made first, because the cookie depends on whether one of them holds
/// runs, and the offsets depend on their sizes.
result<byte_vector> roaring_encode(bytes_view bits, std::uint64_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot write bits as roaring: expected at most 2^32 - 1, "
                             "found {}",
                             count));
  }
  std::vector<container> all;
  // Containers without ones are left out.
  bool runs = false;
  for (std::uint64_t offset = 0; offset < count; offset += container_bits) {
    container c = make_container(bits, offset, std::min(offset + container_bits, count));
    if (c.cardinality > 0) {
      runs = runs || c.runs;
      all.push_back(std::move(c));
    }
  }
  record_writer out;
  if (runs) {
    out.put(static_cast<std::uint32_t>(cookie_runs | (all.size() - 1) << 16));
    put_run_flags(out, all);
  } else {
    out.put(cookie_plain);
    out.put(static_cast<std::uint32_t>(all.size()));
  }
  put_heads(out, all);
  if (!runs || all.size() >= offsets_from) {
    // An offset counts from the start of the code, and bodies follow the offsets.
    std::size_t offset = out.size() + 4 * all.size();
    for (const container& c : all) {
      out.put(static_cast<std::uint32_t>(offset));
      offset += c.body.size();
    }
  }
  for (const container& c : all) {
    out.put_bytes(c.body);
  }
  return std::move(out).take();
}

/// The reader only sets bits, so the target is cleared first.
result<void> roaring_decode(bytes_view from, std::uint64_t count,
                            const decode_target& to) {
  const mutable_bytes bits = to.bytes();
  std::fill(bits.begin(), bits.end(), std::byte{});
  if (!roaring_reader(from, count, to).run()) {
    return error(errc::corrupt,
                 fmt::format("cannot decode roaring bits: expected containers of "
                             "increasing positions below {}, found damage",
                             count));
  }
  return {};
}

}  // namespace weir::formats
