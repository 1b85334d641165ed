// SPDX-License-Identifier: Apache-2.0
/// @file
/// Simple packing of doubles with 0 to 64 bits, and the choice of its parameters.
///
/// A value v becomes the integer round((v - R) * 10^D / 2^E), packed most significant bit
/// first, so v is read as R + q * 2^E / 10^D (tensogram_internals.md, "simple_packing Bit
/// Layout"). Results must equal those of the reference bit for bit. Hence the order of
/// floating-point operations is fixed here and in packing_simd.cpp, and powers are
/// computed by a fixed algorithm instead of the C library's.
#include "tensogram/codec/packing.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "tensogram/codec/parallel.hpp"
#include "tensogram/codec/parameters.hpp"
#include "tensogram/write/finite.hpp"

namespace weir::formats {

namespace {

/// Largest magnitude of the binary scale factor.
constexpr std::int32_t largest_scale = 256;
/// Number of elements that a thread takes at a time: a multiple of 8, so that pieces
/// begin at a byte for any number of bits.
/// The factor 8 is due to widths such as 5 bits: only eight such values end at a byte.
constexpr std::size_t piece = 64 * 1024;

/// Returns a power by repeated squaring; for a negative exponent, one over the positive
/// power. The last bit of a power decides the last bit of every value, so the library
/// function, whose rounding differs between systems, is not used.
double power(double base, std::int64_t exponent) noexcept {
  double out = 1;
  // The magnitude of an exponent of 32 bits fits 64 bits.
  auto n = static_cast<std::uint64_t>(exponent < 0 ? -exponent : exponent);
  for (double square = base; n != 0; n >>= 1) {
    out = (n & 1) != 0 ? out * square : out;
    square *= square;
  }
  return exponent < 0 ? 1 / out : out;
}

/// Returns 2^bits - 1 as a double, rounded to 2^64 for 64 bits.
double largest_integer(unsigned bits) noexcept {
  return bits == 64
             ? 18446744073709551616.0
             : static_cast<double>((bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits)));
}

/// Returns the integer for a value, with halves rounded up and the result limited to `[0,
/// largest]`. NaN gives 0.
/// The subtraction comes first, then the product, then the rounding. The reference does
/// the same in this order; another order would give another last bit.
std::uint64_t quantise(double value, double reference, double scale,
                       std::uint64_t largest) noexcept {
  const double x = (value - reference) * scale;
  if (!(x > 0)) {
    return 0;
  }
  double whole = std::trunc(x);
  if (x - whole >= 0.5) {
    whole += 1;
  }
  const std::uint64_t q = whole >= 18446744073709551616.0
                              ? ~std::uint64_t{0}
                              : static_cast<std::uint64_t>(whole);
  return std::min(q, largest);
}

/// Reads a double; elements need not be aligned.
double value_at(bytes_view values, std::size_t i) noexcept {
  double out;
  std::memcpy(&out, values.data() + 8 * i, 8);
  return out;
}

/// Appends integers of `bits` bits, the most significant first. The last byte is filled
/// with zeros.
class bit_packer {
 public:
  bit_packer(std::byte* to, unsigned bits) : to_(to), bits_(bits) {}

  /// Fills the current byte from its high end.
  void put(std::uint64_t value) noexcept {
    unsigned left = bits_;
    while (left > 0) {
      const unsigned take = std::min(left, 8 - used_);
      // `take` bits go into the current byte: as many as it has room for, or the rest.
      const auto part = (value >> (left - take)) & ((1u << take) - 1);
      current_ |= static_cast<unsigned>(part << (8 - used_ - take));
      used_ += take;
      left -= take;
      if (used_ == 8) {
        flush();
      }
    }
  }
  // Writes the current byte if it has bits.
  void flush() noexcept {
    if (used_ > 0) {
      *to_++ = static_cast<std::byte>(current_);
    }
    current_ = 0;
    used_ = 0;
  }

 private:
  std::byte* to_;         ///< where the next byte is written
  unsigned bits_;         ///< width of an integer
  unsigned used_ = 0;     ///< bits of the current byte that are taken
  unsigned current_ = 0;  ///< the current byte
};

/// Returns the integer of `bits` bits that starts at bit `first_bit` of `from`. One load
/// of eight bytes suffices except near the end and for wide integers that begin inside a
/// byte.
std::uint64_t bits_at(bytes_view from, std::uint64_t first_bit, unsigned bits) noexcept {
  const std::size_t start = first_bit / 8;
  const unsigned skip = first_bit % 8;
  if (skip + bits <= 64 && start + 8 <= from.size()) {
    // The shift to the left drops the bits before the integer, the shift to the right
    // those behind it.
    return load_be<std::uint64_t>(from.data() + start) << skip >> (64 - bits);
  }
  std::uint64_t out = 0;
  for (unsigned done = 0; done < bits;) {
    const std::uint64_t bit = first_bit + done;
    const unsigned inside = bit % 8;
    const unsigned take = std::min(bits - done, 8 - inside);
    const auto byte = std::to_integer<unsigned>(from[bit / 8]);
    out = out << take | (byte >> (8 - inside - take) & ((1u << take) - 1));
    done += take;
  }
  return out;
}

/// Packs one piece: whole-byte widths with SIMD as far as it goes, the rest one by one.
/// Infinite scales are left to the scalar loop, which handles the NaN that they produce.
void pack_piece(bytes_view values, const packing& p, double scale, std::byte* to) {
  const std::size_t count = values.size() / 8;
  std::size_t i = 0;
  if (p.bits % 8 == 0 && p.bits <= 32 && std::isfinite(scale) && simd_at_hand()) {
    i = pack_simd(values.data(), count, p.reference, scale, p.bits, to).done;
  }
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - p.bits);
  // SIMD stops at a multiple of four elements of whole bytes, so the packer begins at a
  // byte.
  bit_packer packer(to + i * p.bits / 8, p.bits);
  for (; i < count; ++i) {
    packer.put(quantise(value_at(values, i), p.reference, scale, largest));
  }
  packer.flush();
}

/// Returns 2^E / 10^D, by which the integers are multiplied.
/// Decoding multiplies by one factor, as the reference does; it does not divide by 10^D.
double factor_of(const packing& p) noexcept {
  return power(2, p.binary) * power(10, -std::int64_t{p.decimal});
}

/// Unpacks elements `first` and the following ones into `to`.
void unpack_piece(bytes_view from, const packing& p, double factor, std::uint64_t first,
                  mutable_bytes to) {
  const std::size_t count = to.size() / 8;
  std::size_t i = 0;
  if (p.bits % 8 == 0 && p.bits <= 32 && p.bits > 0 && simd_at_hand()) {
    const bytes_view used = from.subspan(first * p.bits / 8);
    i = unpack_simd(used.data(), count, p.reference, factor, p.bits, to.data()).done;
  }
  for (; i < count; ++i) {
    const std::uint64_t q = p.bits == 0 ? 0 : bits_at(from, (first + i) * p.bits, p.bits);
    // With 0 bits nothing is stored and every value is the reference.
    const double value =
        p.bits == 0 ? p.reference : p.reference + factor * static_cast<double>(q);
    std::memcpy(to.data() + 8 * i, &value, 8);
  }
}

/// Returns the error for values that are not finite; names the first of them.
error not_finite(bytes_view values) {
  const auto found = find_non_finite(values, dtype::fp64, native_byte_order);
  return error(errc::invalid_argument,
               fmt::format("cannot pack values: expected finite ones, found {} at "
                           "element {}",
                           found && found->nan ? "NaN" : "an infinity",
                           found ? found->index : 0))
      .hint("give sp_reference_value and sp_binary_scale_factor, and allow masks");
}

/// Computes the reference value (the minimum) and the smallest binary scale with which
/// the range of the values fits in `bits` bits. Constant values have scale 0.
result<packing> compute(bytes_view values, unsigned bits, std::int32_t decimal,
                        unsigned threads) {
  packing out{0, 0, decimal, bits};
  const std::size_t count = values.size() / 8;
  const value_span span = span_of_values(values, threads);
  if (!span.finite) {
    // The search for the place of the value is done only for the message.
    return not_finite(values);
  }
  if (count == 0 || bits == 0) {
    // With 0 bits all values become the first one.
    out.reference = count == 0 ? 0 : value_at(values, 0);
    return out;
  }
  out.reference = span.lowest;
  const double range = (span.highest - span.lowest) * power(10, decimal);
  if (range != 0) {
    // The largest integer must reach the range: range / 2^E <= 2^bits - 1.
    const double scale = std::ceil(std::log2(range / largest_integer(bits)));
    if (!(std::abs(scale) <= largest_scale)) {
      return error(errc::invalid_argument,
                   fmt::format("cannot pack values from {} to {}: expected a binary "
                               "scale of at most {} in magnitude, found {}",
                               span.lowest, span.highest, largest_scale, scale));
    }
    out.binary = static_cast<std::int32_t>(scale);
  }
  return out;
}

/// Returns the value of `sp_NAME`, or under legacy rules that of NAME.
const cbor_value* find_key(const cbor_map& parameters, std::string_view name,
                           bool legacy) {
  const cbor_value* value = parameters.find(name);
  return value == nullptr && legacy ? parameters.find(name.substr(3)) : value;
}

/// Reads the four parameters and checks their ranges.
result<packing> parse(const cbor_map& parameters, const packing_rules& rules,
                      bool decimal_needed) {
  // The values are collected under their present names, so that the errors name these.
  cbor_map own;
  for (const std::string_view key :
       {"sp_bits_per_value", "sp_reference_value", "sp_binary_scale_factor",
        "sp_decimal_scale_factor"}) {
    if (const cbor_value* value = find_key(parameters, key, rules.legacy)) {
      own.set(key, *value);
    }
  }
  const errc kind = rules.kind;
  packing out;
  WEIR_TRY(const std::int64_t bits,
           integer_parameter(own, "sp_bits_per_value", 0, 64, kind));
  WEIR_TRY(out.reference, real_parameter(own, "sp_reference_value", kind));
  WEIR_TRY(const std::int64_t binary,
           integer_parameter(own, "sp_binary_scale_factor", -largest_scale, largest_scale,
                             kind));
  WEIR_TRY(const std::int64_t decimal,
           integer_parameter(
               own, "sp_decimal_scale_factor", std::numeric_limits<std::int32_t>::min(),
               std::numeric_limits<std::int32_t>::max(), kind,
               // Writers may leave the decimal scale out; readers need what is in the
               // file.
               decimal_needed ? std::nullopt : std::optional<std::int64_t>(0)));
  if (!std::isfinite(out.reference)) {
    return bad_parameter(kind_of_key(kind), "sp_reference_value", "a finite number",
                         std::isnan(out.reference) ? "NaN" : "an infinity");
  }
  out.bits = static_cast<unsigned>(bits);
  out.binary = static_cast<std::int32_t>(binary);
  out.decimal = static_cast<std::int32_t>(decimal);
  return out;
}

}  // namespace

/// Computes the parameters for public callers, on one thread.
result<packing> compute_packing(std::span<const double> values, unsigned bits,
                                std::int32_t decimal) {
  if (bits > 64) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot pack values: expected at most 64 bits, found {}", bits));
  }
  return compute(std::as_bytes(values), bits, decimal, 1);
}

/// Computes ceil(count * bits / 8) in two parts, so that the product of the bits cannot
/// overflow.
result<std::uint64_t> packed_size(std::uint64_t count, unsigned bits) {
  std::uint64_t total = 0;
  if (!checked_mul(count / 8, std::uint64_t{bits}, total) ||
      !checked_add(total, (count % 8 * bits + 7) / 8, total) ||
      total > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return error(errc::out_of_range,
                 fmt::format("cannot size {} values of {} bits: expected fewer than 2^63 "
                             "bytes, found more",
                             count, bits));
  }
  return total;
}

/// All four parameters are stored, also those that a caller left out.
void store_packing(const packing& p, cbor_map& parameters) {
  parameters.set("sp_bits_per_value", p.bits);
  parameters.set("sp_reference_value", p.reference);
  parameters.set("sp_binary_scale_factor", p.binary);
  parameters.set("sp_decimal_scale_factor", p.decimal);
}

result<packing> read_packing(const cbor_map& parameters, const packing_rules& rules) {
  return parse(parameters, rules, true);
}

/// Reference value and binary scale belong together: one of them without the other cannot
/// be completed. Given parameters are used as they are; values outside of their range are
/// limited to it.
result<packing> settle_packing(cbor_map& parameters, bytes_view values,
                               unsigned threads) {
  constexpr errc kind = errc::invalid_argument;
  const bool reference = parameters.find("sp_reference_value") != nullptr;
  const bool binary = parameters.find("sp_binary_scale_factor") != nullptr;
  if (reference != binary) {
    return error(kind_of_key(kind),
                 fmt::format("cannot pack values: expected sp_reference_value and "
                             "sp_binary_scale_factor, or neither, found only {}",
                             reference ? "the first" : "the second"));
  }
  if (reference) {
    WEIR_TRY(const packing given, parse(parameters, {kind, false}, false));
    if (!span_of_values(values, threads).finite) {
      return not_finite(values);
    }
    // Only the decimal factor is added: a reference value given as an integer must stay
    // one in the file.
    parameters.set("sp_decimal_scale_factor", given.decimal);
    return given;
  }
  WEIR_TRY(const std::int64_t bits,
           integer_parameter(parameters, "sp_bits_per_value", 0, 64, kind));
  WEIR_TRY(const std::int64_t decimal,
           integer_parameter(parameters, "sp_decimal_scale_factor",
                             std::numeric_limits<std::int32_t>::min(),
                             std::numeric_limits<std::int32_t>::max(), kind, 0));
  WEIR_TRY(const packing computed, compute(values, static_cast<unsigned>(bits),
                                           static_cast<std::int32_t>(decimal), threads));
  store_packing(computed, parameters);
  return computed;
}

/// With 0 bits all values become the first one. Taking it here, before masks are taken
/// out, keeps a masked zero from becoming the reference value.
result<void> settle_constant(cbor_map& parameters, bytes_view values, byte_order order) {
  const cbor_value* bits = parameters.find("sp_bits_per_value");
  const bool constant = bits != nullptr && bits->int64() == 0 &&
                        parameters.find("sp_reference_value") == nullptr &&
                        parameters.find("sp_binary_scale_factor") == nullptr;
  if (!constant || values.empty()) {
    return {};
  }
  std::array<std::byte, sizeof(double)> first{};
  std::copy_n(values.begin(), first.size(), first.begin());
  if (order != native_byte_order) {
    std::reverse(first.begin(), first.end());
  }
  const double reference = value_at(first, 0);
  if (!std::isfinite(reference)) {
    return bad_parameter(errc::unknown_key, "sp_reference_value",
                         "a finite first value to pack with 0 bits",
                         std::isnan(reference) ? "NaN" : "an infinity");
  }
  parameters.set("sp_reference_value", reference);
  parameters.set("sp_binary_scale_factor", 0);
  return {};
}

/// Pieces begin at multiples of eight elements, and so at whole bytes for any width.
/// Threads therefore never write to the same byte.
void pack_values(bytes_view values, const packing& p, mutable_bytes to,
                 unsigned threads) {
  if (p.bits == 0) {
    return;
  }
  // The inverse of the factor of decoding, as a product of two powers.
  const double scale = power(10, p.decimal) * power(2, -p.binary);
  const std::size_t count = values.size() / 8;
  for_each_piece(worth_threads(threads, values.size()), (count + piece - 1) / piece,
                 [&](std::size_t k) {
                   const std::size_t from = k * piece;
                   const std::size_t n = std::min(piece, count - from);
                   pack_piece(values.subspan(8 * from, 8 * n), p, scale,
                              // Every eighth element begins at byte from / 8 * bits.
                              to.data() + from / 8 * p.bits);
                 });
}

/// Reading at any element is possible, so pieces need no particular size here.
void unpack_values(bytes_view from, const packing& p, std::uint64_t first,
                   mutable_bytes to, unsigned threads) {
  const double factor = factor_of(p);
  const std::size_t count = to.size() / 8;
  for_each_piece(
      worth_threads(threads, to.size()), (count + piece - 1) / piece, [&](std::size_t k) {
        const std::size_t start = k * piece;
        const std::size_t n = std::min(piece, count - start);
        unpack_piece(from, p, factor, first + start, to.subspan(8 * start, 8 * n));
      });
}

}  // namespace weir::formats
