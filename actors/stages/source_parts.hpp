// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parts that the sources and sinks of files have in common: records without pointers,
/// attributes of limited size, and blocks of bytes.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "weir/formats/cbor.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::actors {

/// Largest encoded size of the attributes of an item. @units{bytes}
inline constexpr std::size_t max_attribute_bytes = flow::max_attribute_bytes;
/// A path that stands for standard input or standard output.
inline constexpr std::string_view standard_stream = "-";

/// Returns the path of a setting as the process finds it.
[[nodiscard]] std::string path_of(const opening& run, const std::string& setting);

/// Returns the error of a file that a stage must not replace.
/// @param content  What the stage writes, for the message.
[[nodiscard]] error something_else(const std::string& path, std::string_view content,
                                   std::uint64_t size);
/// First bytes of every Tensogram message.
inline constexpr std::string_view message_magic = "TENSOGRM";
/// Refuses a file that a stage must not empty or repair, because it holds something else
/// than the stage writes. A crash can leave a part of the first bytes, or zeros in their
/// place.
/// @param content  What the stage writes, for the message.
/// @param begins  First bytes of such files, of which one is there.
/// @error{already_exists, the file holds something else}
[[nodiscard]] result<void> check_ours(file& f, const std::string& path,
                                      std::string_view content,
                                      std::span<const std::string_view> begins);
/// The same for a file of Tensogram messages, which may be missing.
[[nodiscard]] result<void> check_messages(file_system& fs, const std::string& path);

/// Returns the error of a file to which a sink appends, if it is shorter than its offset.
[[nodiscard]] error shorter_than_offset(const std::string& path, std::uint64_t end,
                                        std::uint64_t found);
/// Returns a stored record as a value. @param kind "cursor" or "offset", for messages.
/// @error{corrupt, the record has another size}
template <class T>
[[nodiscard]] result<T> record_of(bytes_view stored, std::string_view stage,
                                  std::string_view kind) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (stored.size() != sizeof(T)) {
    return error(
        errc::corrupt,
        fmt::format("cannot use the stored {} of {}: expected {} bytes, found {}", kind,
                    stage, sizeof(T), stored.size()));
  }
  T value;
  std::memcpy(&value, stored.data(), sizeof(T));
  return value;
}

/// Collects attributes as long as their encoded size is at most `max_attribute_bytes`.
/// Attributes that do not fit are left out.
class attribute_collector {
 public:
  explicit attribute_collector(attributes& to) : to_(to) {}
  /// Adds an attribute. One that exists stays.
  void add(const std::string& name, const attribute& value);
  /// Adds all entries of a map that have a text as key and a scalar as value. Booleans
  /// become 0 or 1, integers from 0 on have no sign.
  void add_scalars(const formats::cbor_map& from);
  /// Adds the metadata of an object: scalars as `add_scalars` does, and those of maps in
  /// it under names with dots, such as `mars.param`. Its name and keys that begin with an
  /// underscore are left out.
  void add_object(const formats::cbor_map& from);

 private:
  void add_nested(const formats::cbor_map& from, const std::string& prefix,
                  std::size_t depth);

  attributes& to_;
  std::size_t bytes_ = 0;
};
/// Returns attributes as metadata of a message.
[[nodiscard]] formats::cbor_map metadata_of(const attributes& from);

/// Returns the description of a source with the outlet `x`.
[[nodiscard]] flow::stage_info source_info(std::string name, std::string documentation);
/// Returns whether a setting is the text of a port type.
[[nodiscard]] bool is_port_type(const std::string& text);

/// Returns the error of a source whose data before the cursor have changed.
[[nodiscard]] error other_data(std::string_view stage, std::string_view thing,
                               std::string_view expected, std::string_view found);
/// Returns the error of a source that ends before its cursor.
[[nodiscard]] error too_short(std::string_view stage, std::string_view thing,
                              std::uint64_t expected, std::uint64_t found,
                              std::string_view unit = "bytes");

/// Bytes that a cursor remembers: the last block that was read.
struct read_block {
  std::uint64_t end = 0;     ///< offset behind the block
  std::uint64_t length = 0;  ///< length of the block; 0 before the first one
  std::uint64_t digest = 0;  ///< XXH3-64 of the block
};

/// Compares the last block with the bytes that are there now.
/// @param read Reads bytes at an offset: `result<void>(std::uint64_t, mutable_bytes)`.
/// @error{position_out_of_bounds, `size` is less than the end of the block}
/// @error{history_mismatch, the bytes differ}
[[nodiscard]] result<void> verify_block(
    const read_block& last, std::uint64_t size, std::string_view stage,
    std::string_view thing,
    const std::function<result<void>(std::uint64_t, mutable_bytes)>& read);

/// Takes memory of `count` bytes for the outlet `x`.
/// @error{out_of_range, see `pull::fill`} @error{out_of_memory, see `pull::fill`}
[[nodiscard]] result<mutable_bytes> fill_block(pull& p, std::uint64_t count);

/// Compares the last block before the offset of a sink with the file to which it appends.
/// @param stage  Name of the stage. @param kind  What a block is, such as "line".
/// @error{torn, the file is shorter} @error{hash_mismatch, it has other bytes there}
[[nodiscard]] result<void> check_appended(file& f, const std::string& path,
                                          const read_block& last, std::string_view stage,
                                          std::string_view kind);

}  // namespace weir::actors
