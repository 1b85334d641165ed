// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checkpoints: model, context and stream cursor in one file, durable together, verified
/// as a whole.
///
/// `ck-<generation>.weir`, little-endian: preamble (64 bytes) | table | sections, each at
/// a multiple of 4096 | footer (64 bytes). Every byte is covered: preamble and table by
/// hashes, sections by theirs, padding and reserved bytes are zero, the footer repeats
/// generation, pulse and length and holds the root hash. docs:
/// storage/checkpoint/README.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context.hpp"

namespace weir::storage {

/// Names of the sections that a checkpoint must hold; besides, at least one begins with
/// `param_prefix`. CONDUCTOR begins with the model's pulse as u64; the rest of it belongs
/// to the Conductor.
namespace section {
inline constexpr std::string_view config = "CONFIG";
inline constexpr std::string_view conductor = "CONDUCTOR";
inline constexpr std::string_view cursor = "CURSOR";
inline constexpr std::string_view source_state = "SOURCE_STATE";
inline constexpr std::string_view rng = "RNG";  ///< empty: none
inline constexpr std::string_view param_prefix = "PARAM";
}  // namespace section

/// One named part to be written. The bytes are not copied and must live until `save`
/// returns.
struct checkpoint_section {
  std::string name;  ///< 1..255 bytes, unique
  bytes_view data;
  dtype type = dtype::uint8;
  shape_vector shape = {};  ///< empty: one dimension that holds all of `data`
};

/// Owns the bytes of the sections that say where the stream stands.
struct cursor_sections {
  byte_vector cursor;
  byte_vector source_state;
  byte_vector rng;
  /// CURSOR, SOURCE_STATE and RNG, as views of this object.
  [[nodiscard]] std::vector<checkpoint_section> sections() const;
};
/// Splits a cursor into its sections. `checkpoint::cursor()` joins them.
[[nodiscard]] cursor_sections sections_of(const stream_cursor& cursor);
/// Bytes of CONDUCTOR: the pulse, then `rest`.
[[nodiscard]] byte_vector conductor_section(std::uint64_t pulse_id, bytes_view rest);

struct checkpoint_header {
  std::uint64_t generation = 0;
  std::uint64_t pulse_id = 0;
  friend bool operator==(const checkpoint_header&, const checkpoint_header&) = default;
};

/// A verified checkpoint in memory. Views live as long as any copy of it.
/// @threads{const; safe to call concurrently}
class checkpoint {
 public:
  struct loaded_section {
    std::string name;
    dtype type = dtype::uint8;
    shape_vector shape;
    bytes_view data;  ///< begins at a multiple of 64 bytes in memory
  };
  [[nodiscard]] const checkpoint_header& header() const noexcept { return header_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// In the order of the file.
  [[nodiscard]] std::span<const loaded_section> sections() const noexcept {
    return sections_;
  }
  [[nodiscard]] bool has(std::string_view name) const noexcept;
  /// @error{not_found, no such section; names the file}
  [[nodiscard]] result<const loaded_section*> find(std::string_view name) const;
  /// Bytes of CONDUCTOR behind the pulse.
  [[nodiscard]] bytes_view conductor() const noexcept { return conductor_; }
  [[nodiscard]] const stream_cursor& cursor() const noexcept { return cursor_; }
  /// Newer files that `load_newest` had to pass over, newest first, each error with file
  /// and section.
  [[nodiscard]] std::span<const error> skipped() const noexcept { return skipped_; }

 private:
  friend class checkpoint_store;
  friend struct checkpoint_reader;
  checkpoint_header header_;
  std::string path_;
  std::shared_ptr<const void> storage_;
  std::vector<loaded_section> sections_;
  bytes_view conductor_;
  stream_cursor cursor_;
  std::vector<error> skipped_;
};

/// Reads one file and verifies every byte of it, the mandatory sections and the pulses.
/// @error{torn, the file ends early} @error{corrupt, names file and section}
/// @error{missing_cursor, no CURSOR section} @error{stream_model_mismatch, the pulses
/// differ; names them}
/// @error{unsupported_version, another version} @error{not_found, no such file}
[[nodiscard]] result<checkpoint> load_checkpoint(file_system& fs,
                                                 const std::string& path);

/// The checkpoints of one folder.
/// @threads{thread-compatible}
class checkpoint_store {
 public:
  enum class role : std::uint8_t { reader, writer };
  struct entry {
    std::string path;
    std::uint64_t bytes = 0;
    checkpoint_header header;      ///< as the file says; zero if `problem`
    std::optional<error> problem;  ///< why it does not count, with file and section
  };

  /// A writer creates the folder, holds `lock` in it and removes left-over temporary
  /// files.
  /// @error{locked, another writer} @error{not_found, a reader and no folder}
  [[nodiscard]] static result<checkpoint_store> open(file_system& fs, std::string folder,
                                                     role as = role::reader);
  checkpoint_store(checkpoint_store&&) noexcept;
  checkpoint_store& operator=(checkpoint_store&&) noexcept;
  ~checkpoint_store();

  /// Writes a generation and returns its number once it is durable; then removes all but
  /// the two newest valid ones. After a failure the generation does not count, and the
  /// next save writes another file.
  /// @error{invalid_argument, a mandatory section is missing, a name twice, or a pulse
  /// that is not `pulse_id`}
  /// @error{no_space, io, from the file system}
  [[nodiscard]] result<std::uint64_t> save(std::span<const checkpoint_section> sections,
                                           std::uint64_t pulse_id);
  /// The valid checkpoint with the highest generation in its preamble. @error{not_found,
  /// there is no file}
  /// @error{as `load_checkpoint` for the newest, when no file is valid}
  [[nodiscard]] result<checkpoint> load_newest();
  [[nodiscard]] result<checkpoint> load(const std::string& path);
  /// All generations, newest first, by their preambles alone.
  [[nodiscard]] result<std::vector<entry>> list();
  /// All generations, newest first, read and verified whole.
  [[nodiscard]] result<std::vector<entry>> verify();
  [[nodiscard]] const std::string& folder() const noexcept;

 private:
  struct state;
  explicit checkpoint_store(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::storage
