// SPDX-License-Identifier: Apache-2.0
/// @file
/// Headers of NumPy's files of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/file.hpp"

namespace weir::storage {

/// First bytes of every file of an array.
inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// Description of the array of a file.
struct npy_header {
  dtype type = dtype::fp32;         ///< type of an element
  std::vector<std::int64_t> shape;  ///< the slowest dimension first
  std::uint64_t size = 0;           ///< offset of the elements in the file
  std::uint64_t bytes = 0;          ///< size of the elements
};

/// Reads the header of a file of the versions 1.0, 2.0 and 3.0. Elements are
/// little-endian, in C order.
/// @param size  Size of the file. It must be exactly that of header and elements.
/// @error{corrupt, the header is damaged, or bytes follow the elements}
/// @error{torn, the file ends before its elements}
/// @error{unsupported, another version, byte order, order or element type}
/// @source{NumPy Enhancement Proposal 1} @threads{as `file`}
[[nodiscard]] result<npy_header> read_npy_header(file& f, std::uint64_t size);

/// Reads the header of a file without looking at its size, see `read_npy_header`.
/// Also returns the errors of `read_npy_header`, except those about the size.
/// @threads{as `file`}
[[nodiscard]] result<npy_header> read_npy_head(file& f);

/// Returns the header of an array, of version 1.0.
/// @param growing  True to leave space for any first extent, so that the header can be
/// written again with a larger one.
/// @error{unsupported, NumPy has no such element type}
[[nodiscard]] result<byte_vector> make_npy_header(dtype type,
                                                  std::span<const std::int64_t> shape,
                                                  bool growing);

}  // namespace weir::storage
