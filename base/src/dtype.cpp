// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of element types, and searches in it.
///
/// One row for each type: id, name of Tessera, name of Tensogram, bytes of an element,
/// and bytes that change places when the byte order does. An empty name means that the
/// format does not have the type. A bitmask has no bytes of an element: eight elements
/// share one.
#include "weir/base/dtype.hpp"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/text.hpp"

namespace weir {

namespace {

/// In the order of the ids, which `info_of` relies on.
constexpr std::array<dtype_info, 18> table{{
    {dtype::fp8_e4m3, "fp8_e4m3", "", 1, 1},
    {dtype::fp8_e5m2, "fp8_e5m2", "", 1, 1},
    {dtype::fp16, "fp16", "float16", 2, 2},
    {dtype::bf16, "bf16", "bfloat16", 2, 2},
    {dtype::fp32, "fp32", "float32", 4, 4},
    {dtype::fp64, "fp64", "float64", 8, 8},
    {dtype::int8, "int8", "int8", 1, 1},
    {dtype::int16, "int16", "int16", 2, 2},
    {dtype::int32, "int32", "int32", 4, 4},
    {dtype::int64, "int64", "int64", 8, 8},
    {dtype::boolean, "bool", "", 1, 1},
    {dtype::complex64, "complex64", "complex64", 8, 4},
    {dtype::complex128, "complex128", "complex128", 16, 8},
    {dtype::uint8, "", "uint8", 1, 1},
    {dtype::uint16, "", "uint16", 2, 2},
    {dtype::uint32, "", "uint32", 4, 4},
    {dtype::uint64, "", "uint64", 8, 8},
    {dtype::bitmask, "", "bitmask", 0, 1},
}};

}  // namespace

const std::array<dtype_info, 18>& all_dtypes() noexcept {
  return table;
}

result<dtype_info> info_of(int id) {
  for (const auto& row : table) {
    // A search, because the number comes from a file and may be none.
    if (static_cast<int>(row.id) == id) {
      return row;
    }
  }
  return error(
      errc::invalid_argument,
      fmt::format("cannot resolve dtype id: expected 1..13 or 32..36, found {}", id));
}

/// The ids are those of existing enumerators, so nothing is checked.
const dtype_info& info_of(dtype type) noexcept {
  // The table has the ids 1 to 13 and 32 to 36 without gaps.
  const auto id = static_cast<std::size_t>(type);
  return table[id < 32 ? id - 1 : id - 32 + 13];
}

/// The names of both formats are accepted, because no name means two types.
result<dtype> dtype_named(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& row : table) {
    // The empty name of a format that does not have a type matches nothing.
    if (!name.empty() && (row.tessera == name || row.tensogram == name)) {
      return row.id;
    }
    // Both names may be suggested.
    names.emplace_back(row.tessera);
    names.emplace_back(row.tensogram);
  }
  return error(errc::unknown_key,
               fmt::format("cannot resolve dtype \"{}\": expected a known name{}", name,
                           did_you_mean(name, names)));
}

/// Bits are counted in whole bytes.
result<std::int64_t> byte_size(dtype type, std::int64_t count) {
  std::int64_t bytes = 0;
  if (type == dtype::bitmask && count >= 0) {
    return count / 8 + (count % 8 != 0 ? 1 : 0);
  }
  // Overflow is found before any memory is taken.
  if (count < 0 || !checked_mul<std::int64_t>(count, info_of(type).size, bytes)) {
    return error(
        errc::out_of_range,
        fmt::format("cannot size a tensor: expected fewer than 2^63 bytes, found {} "
                    "elements of {} bytes",
                    count, info_of(type).size));
  }
  return bytes;
}

}  // namespace weir
