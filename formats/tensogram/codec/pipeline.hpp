// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages between the elements of an object and its stored payload: encoding (simple
/// packing), filter (shuffle) and compression. A pipeline is planned from a descriptor
/// first, where all names, parameters and sizes are checked, and then run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tensogram/codec/blosc2/blosc2.hpp"
#include "tensogram/codec/buffer.hpp"
#include "tensogram/codec/packing.hpp"
#include "tensogram/codec/szip.hpp"
#include "tensogram/codec/zfp.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Whether this build runs a stage.
enum class pipeline_support : std::uint8_t {
  built,    ///< this build runs it
  known,    ///< the format has it, this build has not
  unknown,  ///< the format has no such name
};

/// Returns the lowest support of encoding, filter and compression.
[[nodiscard]] pipeline_support support_of(const object_descriptor& descriptor) noexcept;
/// Checks that this build has all stages of a descriptor.
/// @error{unsupported, known but not built; corrupt, a name the format does not have;
/// both name the stage}
[[nodiscard]] result<void> check_readable(const object_descriptor& descriptor);

/// Compressions that this build has; `none` stores the bytes as they are.
enum class codec : std::uint8_t { none, lz4, zstd, szip, zfp, blosc2, rle, roaring };

/// The stages of an object with their parameters, checked against each other.
struct pipeline {
  std::uint64_t count = 0;             ///< elements
  std::uint64_t decoded = 0;           ///< bytes of the elements
  std::uint64_t encoded = 0;           ///< bytes after encoding and filter
  std::optional<packing> packed;       ///< parameters of simple_packing, if it is used
  std::size_t shuffle = 0;             ///< bytes of an item of the filter, 0: none
  codec compression = codec::none;     ///< last stage
  unsigned item = 1;                   ///< bytes of an item for blosc2, 0: none fits
  int zstd_level = 0;                  ///< for zstd
  aec_parameters aec;                  ///< for szip
  std::vector<std::uint64_t> offsets;  ///< of szip
  bool offsets_marked = false;         ///< their writer vouches for them (see szip.hpp)
  zfp_parameters zfp;                  ///< for zfp
  blosc2_parameters blosc2;            ///< for blosc2

  /// Returns whether the stored bytes are the elements themselves.
  [[nodiscard]] bool raw() const noexcept {
    return !packed && shuffle == 0 && compression == codec::none;
  }
  /// Returns whether the stages produce native doubles. The byte order of the descriptor
  /// then does not matter.
  [[nodiscard]] bool doubles() const noexcept {
    return packed.has_value() || compression == codec::zfp;
  }
};

/// Plans the decoding of `stored` bytes. Called before memory for elements is allocated.
/// @error{unsupported; corrupt, parameters or sizes that cannot be; out_of_range, more
/// than `options.max_object_bytes`}
[[nodiscard]] result<pipeline> plan_reading(const object_descriptor& descriptor,
                                            std::uint64_t stored,
                                            const read_options& options);
/// Plans the encoding of `elements`, which are in the byte order of the machine if they
/// are packed. Writes the parameters that were chosen into the descriptor.
/// @error{invalid_argument, names, parameters, and pairs of stages that no reader
/// decodes; unsupported}
[[nodiscard]] result<pipeline> plan_writing(object_descriptor& descriptor,
                                            bytes_view elements, unsigned threads);
/// Checks that a payload of `stored` bytes that was encoded elsewhere may be written with
/// this descriptor: its names, parameters and sizes. Parameters of stages that this build
/// lacks are not checked.
/// @error{invalid_argument; unknown_key; unsupported; out_of_range}
[[nodiscard]] result<void> check_stored(const object_descriptor& descriptor,
                                        std::uint64_t stored);

/// Runs the stages, and writes the parameters that they produce into the descriptor.
/// @error{internal; out_of_memory; invalid_argument}
[[nodiscard]] result<code_buffer> encode_payload(const pipeline& plan,
                                                 object_descriptor& descriptor,
                                                 bytes_view elements, unsigned threads);

/// Provides memory of exactly the given size for elements. It is called after the stored
/// bytes have shown that they decode to that size. @error{out_of_memory}
using element_memory = std::function<result<mutable_bytes>(std::uint64_t bytes)>;
/// Returns a provider for memory that the caller already has, of the requested size.
[[nodiscard]] inline element_memory memory_at(mutable_bytes to) {
  return [to](std::uint64_t) -> result<mutable_bytes> { return to; };
}

/// Decodes a whole payload into memory of plan.decoded bytes.
/// @error{corrupt, the payload is damaged or decodes to another size; out_of_memory}
[[nodiscard]] result<void> decode_payload(const pipeline& plan, bytes_view stored,
                                          const element_memory& memory, unsigned threads);

/// Checks that a payload decodes to the size in its plan, and discards the result. Codecs
/// that need their whole output get memory for `plan.encoded` bytes.
/// @error{those of decode_payload}
[[nodiscard]] result<void> check_payload(const pipeline& plan, bytes_view stored);

/// Elements of an object, and the stored bytes that hold them: all stored bytes if the
/// codec has no way to locate a part.
struct payload_range {
  std::uint64_t first = 0;   ///< number of the first element
  std::uint64_t count = 0;   ///< elements
  std::uint64_t offset = 0;  ///< stored bytes before those that hold the range
  std::uint64_t length = 0;  ///< stored bytes that hold it
};
/// Finds the stored bytes that hold a range.
/// @pre the range lies within the object and has an element
[[nodiscard]] payload_range range_of(const pipeline& plan, std::uint64_t stored,
                                     std::uint64_t first, std::uint64_t count);
/// Decodes a range out of its stored bytes.
/// @error{unsupported, a pipeline that cannot decode parts; and those of
/// decode_payload}
[[nodiscard]] result<void> decode_payload_range(const pipeline& plan,
                                                const payload_range& range,
                                                bytes_view stored,
                                                const element_memory& memory);

}  // namespace weir::formats
