// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers that the tests of formats share: bytes from text, files, deterministic data
/// and sample messages.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::test {

/// Returns the bytes of hexadecimal text; blanks are skipped.
inline byte_vector from_hex(std::string_view text) {
  byte_vector out;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') {
      continue;
    }
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (high >= 0) {
      out.push_back(static_cast<std::byte>(high * 16 + digit));
      high = -1;
    } else {
      high = digit;
    }
  }
  return out;
}

/// Returns bytes as hexadecimal text in lower case.
inline std::string to_hex(bytes_view bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    const auto v = std::to_integer<unsigned>(b);
    out += "0123456789abcdef"[v >> 4];
    out += "0123456789abcdef"[v & 15u];
  }
  return out;
}

/// Returns the content of a file.
inline byte_vector load(const std::string& path) {
  return or_throw(read_file(posix_file_system(), path));
}

/// A sequence of random numbers that depends on the seed alone.
class numbers {
 public:
  explicit numbers(std::uint64_t seed) : random_(seed, 3) {}
  std::uint64_t next() { return random_.bits(index_++); }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  philox random_;
  std::uint64_t index_ = 0;
};

/// Returns pseudo-random bytes, a function of the seed.
inline byte_vector random_bytes(std::uint64_t seed, std::size_t size) {
  const philox random(seed, 7);
  byte_vector out(size);
  for (std::size_t i = 0; i < size; ++i) {
    out[i] = static_cast<std::byte>(random.bits(i / 8) >> (8 * (i % 8)) & 0xFF);
  }
  return out;
}

/// Returns random finite elements of any type: the exponent of a float is changed so that
/// it cannot be the largest one.
inline byte_vector random_elements(std::uint64_t seed, dtype type,
                                   formats::byte_order order, std::size_t bytes) {
  byte_vector out = random_bytes(seed, bytes);
  const bool is_float = type == dtype::fp16 || type == dtype::bf16 ||
                        type == dtype::fp32 || type == dtype::fp64 ||
                        type == dtype::complex64 || type == dtype::complex128;
  const std::size_t unit = info_of(type).swap_unit;
  for (std::size_t i = 0; is_float && i + unit <= bytes; i += unit) {
    const std::size_t top = order == formats::byte_order::big ? i : i + unit - 1;
    // The exponent is not all ones.
    out[top] = (out[top] & std::byte{0x8F}) | std::byte{0x30};
  }
  return out;
}

/// A descriptor with the bytes it describes.
struct sample_object {
  formats::object_descriptor descriptor;
  formats::cbor_map metadata;
  byte_vector data;

  formats::object_to_write to_write() const { return {descriptor, metadata, data}; }
};

/// Returns the objects in the form that a writer takes; they refer to the samples.
inline std::vector<formats::object_to_write> to_write(
    const std::vector<sample_object>& objects) {
  std::vector<formats::object_to_write> out;
  for (const sample_object& object : objects) {
    out.push_back(object.to_write());
  }
  return out;
}

/// Returns an object of `shape` with random finite elements.
inline sample_object sample(std::uint64_t seed, dtype type, shape_vector shape,
                            formats::byte_order order = formats::byte_order::little,
                            std::string compression = "none") {
  sample_object out;
  out.descriptor.type = type;
  out.descriptor.shape = std::move(shape);
  out.descriptor.order = order;
  out.descriptor.compression = std::move(compression);
  const std::uint64_t bytes = or_throw(formats::decoded_size(out.descriptor));
  out.data = random_elements(seed, type, order, bytes);
  return out;
}

/// Returns two small objects with metadata, one of them compressed, for tests that damage
/// messages.
inline std::vector<sample_object> small_objects() {
  std::vector<sample_object> out{
      sample(1, dtype::fp32, {2, 3}),
      sample(2, dtype::int16, {8}, formats::byte_order::big, "zstd")};
  out[0].metadata = {{"name", "weights"}, {"step", 12}};
  out[1].metadata = {{"name", "counts"}};
  return out;
}

}  // namespace weir::test
