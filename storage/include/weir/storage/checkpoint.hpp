// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checkpoints: the model, the context memory and the stream cursor of a run in one file,
/// made durable together and verified as a whole.
///
/// The file is called `ck-<generation>.weir` and is little-endian: a preamble of 64
/// bytes, a table of the sections, the sections (each at a multiple of 4096), a footer of
/// 64 bytes. Every byte is covered: preamble, table and sections by hashes; padding and
/// reserved bytes must be zero; the footer repeats generation, pulse and length and holds
/// a hash of preamble and table. storage/checkpoint/README.md has the diagram.
///
/// A file may leave out large sections whose bytes an earlier generation of the folder
/// holds, its *base*. It then refers to them by their digests, and cannot be loaded
/// without the base.
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

/// Names of the sections that every checkpoint must hold.
///
/// In addition at least one section has a name that begins with `param_prefix`. Other
/// sections are allowed and are stored as they are.
namespace section {
/// Configuration of the run as text.
inline constexpr std::string_view config = "CONFIG";
/// State of the Conductor. Its first 8 bytes are the pulse of the model.
inline constexpr std::string_view conductor = "CONDUCTOR";
/// Position of the context stream.
inline constexpr std::string_view cursor = "CURSOR";
/// Place at which each lane reads next, and the identity of the source.
inline constexpr std::string_view source_state = "SOURCE_STATE";
/// State of the random generator of the stream; empty if the stream uses none.
inline constexpr std::string_view rng = "RNG";
/// Position of a pipeline: the epoch and the number of the first item behind it, both
/// u64. A checkpoint of a pipeline has this section and `pipeline`, and none of those
/// above but CONFIG.
inline constexpr std::string_view epoch = "EPOCH";
/// Text that identifies the pipeline.
inline constexpr std::string_view pipeline = "PIPELINE";
/// Cursors of sessions. Its first 8 bytes are the number of turns that were answered. A
/// checkpoint of sessions has this section, CONFIG and parameters, and none of the
/// others.
inline constexpr std::string_view sessions = "SESSIONS";
/// Beginning of the names of sections that hold parameters of the model.
inline constexpr std::string_view param_prefix = "PARAM";
}  // namespace section

/// One named section that is to be written.
struct checkpoint_section {
  std::string name;           ///< 1 to 255 bytes, unique in the checkpoint
  bytes_view data;            ///< not copied: must stay valid until `save` returns
  dtype type = dtype::uint8;  ///< element type of `data`
  /// Outermost dimension first; its size in bytes must be that of `data`. Empty means one
  /// dimension that covers all of `data`.
  shape_vector shape = {};
};

/// The bytes of the three sections that hold the position of the stream.
struct cursor_sections {
  byte_vector cursor;        ///< CURSOR
  byte_vector source_state;  ///< SOURCE_STATE
  byte_vector rng;           ///< RNG
  /// Returns the three sections as views of this object, which must outlive them.
  [[nodiscard]] std::vector<checkpoint_section> sections() const;
};
/// Splits a cursor into its three sections. `checkpoint::cursor()` joins them again.
/// @threads{safe to call concurrently}
[[nodiscard]] cursor_sections sections_of(const stream_cursor& cursor);
/// Returns the bytes of CONDUCTOR: the pulse as u64, then `rest`.
/// @threads{safe to call concurrently}
[[nodiscard]] byte_vector conductor_section(std::uint64_t pulse_id, bytes_view rest);

/// The two numbers that identify a checkpoint.
struct checkpoint_header {
  std::uint64_t generation = 0;  ///< grows with every checkpoint of a folder
  std::uint64_t pulse_id = 0;    ///< completed pulses of the run
  friend bool operator==(const checkpoint_header&, const checkpoint_header&) = default;
};

/// A verified checkpoint in memory.
///
/// Copies share the bytes. Views stay valid as long as any copy exists.
/// @threads{const members are safe to call concurrently}
class checkpoint {
 public:
  /// One section of the file.
  struct loaded_section {
    std::string name;           ///< unique in the checkpoint
    dtype type = dtype::uint8;  ///< element type of `data`
    shape_vector shape;         ///< outermost dimension first
    bytes_view data;            ///< aligned to 64 bytes in memory
    std::uint64_t digest = 0;   ///< XXH3-64 of `data`
    /// Generation of the file that holds the bytes: that of the checkpoint or of its
    /// base.
    std::uint64_t held_by = 0;
  };
  /// Returns generation and pulse.
  [[nodiscard]] const checkpoint_header& header() const noexcept { return header_; }
  /// Returns the path of the file that was read.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Returns the generation of the base; nothing if the file holds all its sections.
  [[nodiscard]] std::optional<std::uint64_t> base() const noexcept { return base_; }
  /// Returns all sections in the order of the file.
  [[nodiscard]] std::span<const loaded_section> sections() const noexcept {
    return sections_;
  }
  /// Returns whether there is a section of this name.
  [[nodiscard]] bool has(std::string_view name) const noexcept;
  /// Finds a section by its name.
  /// @returns a pointer into this object
  /// @error{not_found, there is no such section; the message names the file}
  [[nodiscard]] result<const loaded_section*> find(std::string_view name) const;
  /// Returns the bytes of CONDUCTOR after the pulse.
  [[nodiscard]] bytes_view conductor() const noexcept { return conductor_; }
  /// Returns the position of the stream, joined from its three sections.
  [[nodiscard]] const stream_cursor& cursor() const noexcept { return cursor_; }
  /// Returns why newer files were not used by `load_newest`, the newest file first. Each
  /// error names the file and the section.
  [[nodiscard]] std::span<const error> skipped() const noexcept { return skipped_; }

 private:
  friend class checkpoint_store;
  friend struct checkpoint_reader;
  checkpoint_header header_;
  std::string path_;
  std::optional<std::uint64_t> base_;
  std::shared_ptr<const void> storage_;
  std::vector<loaded_section> sections_;
  bytes_view conductor_;
  stream_cursor cursor_;
  std::vector<error> skipped_;
};

/// Reads one checkpoint file and its base, if it has one, and verifies every byte of
/// both.
///
/// Also checks that the mandatory sections are there and that the stream, the model and
/// the file are at the same pulse.
/// @error{not_found, there is no such file, or its base is not beside it}
/// @error{torn, the file ends early}
/// @error{out_of_memory, the file is larger than the memory of the machine}
/// @error{corrupt, a byte is wrong; the message names the file and the section}
/// @error{missing_cursor, there is no CURSOR section}
/// @error{stream_model_mismatch, the pulses differ; the message names them}
/// @error{unsupported_version, the file was written in another version of the format}
/// @threads{safe to call concurrently}
[[nodiscard]] result<checkpoint> load_checkpoint(file_system& fs,
                                                 const std::string& path);

/// The checkpoints of one folder.
/// @threads{thread-compatible; a reader in another process may work while a writer saves}
class checkpoint_store {
 public:
  /// Rights of the object in the folder.
  enum class role : std::uint8_t {
    reader,  ///< load, list and verify
    writer,  ///< also save; at most one per folder
  };
  /// One file of the folder.
  struct entry {
    std::string path;          ///< path of the file
    std::uint64_t bytes = 0;   ///< size of the file
    checkpoint_header header;  ///< as stated in the file; zero if there is a `problem`
    std::optional<error> problem;  ///< why the file is not valid, with file and section
    /// Generation of the base; nothing without one, and in a result of `list`.
    std::optional<std::uint64_t> base = {};
  };

  /// Opens the checkpoints of a folder.
  ///
  /// A writer creates the folder if necessary, holds the file `lock` in it and removes
  /// temporary files that an earlier writer has left.
  /// @param access reader or writer
  /// @error{locked, there is another writer}
  /// @error{not_found, `access` is reader and there is no such folder}
  /// @error{io, the file system reports an error}
  [[nodiscard]] static result<checkpoint_store> open(file_system& fs, std::string folder,
                                                     role access = role::reader);
  /// Moves the store and its lock.
  checkpoint_store(checkpoint_store&&) noexcept;
  /// Moves the store and its lock.
  checkpoint_store& operator=(checkpoint_store&&) noexcept;
  ~checkpoint_store();

  /// Writes a new generation and returns its number once it is durable.
  ///
  /// A section that an earlier generation holds with the same bytes is not written again,
  /// see `refer_from`, if these sections make at least a quarter of the state. The base
  /// of a generation is neither the one before it nor the base of that, so that one
  /// damaged file never makes both of the newest two useless.
  ///
  /// Afterwards all files but the newest verified ones and their bases are removed, see
  /// `keep`. After a failure the generation does not exist, and the next call writes
  /// another file.
  /// @param pulse_id completed pulses; CURSOR and CONDUCTOR must name the same pulse
  /// @error{invalid_argument, the store is a reader, a mandatory section is missing, or
  /// two sections have one name}
  /// @error{missing_cursor, there is no CURSOR section}
  /// @error{stream_model_mismatch, a section is at another pulse than `pulse_id`}
  /// @error{no_space, the file system is full}
  /// @error{io, the file system reports an error}
  [[nodiscard]] result<std::uint64_t> save(std::span<const checkpoint_section> sections,
                                           std::uint64_t pulse_id);
  /// Sets the size in bytes from which on an unchanged section is not written again;
  /// 65536 at first.
  void refer_from(std::uint64_t bytes) noexcept;
  /// Sets the number of newest verified generations that stay after a save; 2 at first.
  /// The bases to which they refer stay too.
  /// What an earlier writer has left stays until this one has written as many.
  /// @pre `count >= 2`
  void keep(std::size_t count);
  /// Removes all valid generations above a number, for a run that goes back to an older
  /// one. @pre The store is a writer. @error{io, a file cannot be removed}
  [[nodiscard]] result<void> remove_newer(std::uint64_t generation);
  /// Loads the valid checkpoint with the highest generation.
  ///
  /// The generation stated in the file counts, not its name. Invalid files are passed
  /// over; `checkpoint::skipped` says why. If no file is valid, the error is that of
  /// `load_checkpoint` for the newest file.
  /// @error{not_found, the folder holds no checkpoint}
  [[nodiscard]] result<checkpoint> load_newest();
  /// Loads one file. Also returns the errors of `load_checkpoint`.
  [[nodiscard]] result<checkpoint> load(const std::string& path);
  /// Lists all generations, the newest first. Reads only the preambles, so `entry::base`
  /// is not set.
  /// @error{io, the folder cannot be listed}
  [[nodiscard]] result<std::vector<entry>> list();
  /// Lists all generations, the newest first, after reading and verifying every byte.
  /// @error{io, the folder cannot be listed}
  [[nodiscard]] result<std::vector<entry>> verify();
  /// Returns the path of the folder.
  [[nodiscard]] const std::string& folder() const noexcept;

 private:
  struct state;
  explicit checkpoint_store(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::storage
