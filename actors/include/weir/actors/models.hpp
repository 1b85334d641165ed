// SPDX-License-Identifier: Apache-2.0
/// @file
/// Models in HN4 volumes: import of GGUF and safetensors files, look-up, verification and
/// export.
///
/// A model of tag T takes up to three tags. T holds the file of the weights byte for
/// byte, `T/panels` the weights as the layers read them, if a panel fits into a block of
/// the volume, and `T/model` the record: facts, digest, tokenizer and chat template. The
/// record is stored last and removed first, so that a model without a record does not
/// exist.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/formats/tokens.hpp"
#include "weir/models/facts.hpp"
#include "weir/models/weights.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {

/// Consecutive panels of a matrix, or a whole vector, in the stream of tag `TAG/panels`.
struct panel_place {
  std::uint64_t first = 0;   ///< number of the first panel
  std::uint64_t offset = 0;  ///< byte of the stream
  std::uint64_t bytes = 0;   ///< length in bytes
};
/// A weight in panels. Its type is that of `models::panel_shape`.
struct panel_entry {
  std::string name;               ///< name of Hugging Face
  bool vector = false;            ///< fp32 elements instead of panels
  std::string type;               ///< type of the panels
  std::uint64_t outputs = 0;      ///< rows of the matrix
  std::uint64_t inputs = 0;       ///< columns of the matrix, elements of the vector
  std::vector<panel_place> runs;  ///< all panels, in their order
};

/// Record of a model.
struct model_record {
  std::string tag;             ///< tag of the weights
  models::stored_facts facts;  ///< architecture, sizes and constants
  /// Family of the stored file.
  models::weight_files files = models::weight_files::gguf;
  std::uint64_t bytes = 0;   ///< length of the stored file
  std::uint64_t digest = 0;  ///< `models::weights_digest` of all weights
  /// Text of `tokenizer.json`; empty if the header of the stored GGUF file describes the
  /// tokenizer.
  std::string tokenizer;
  std::string chat_template;  ///< template of a conversation; empty if there is none
  /// Places of the weights in `TAG/panels`; empty if the volume has no such tag, because
  /// its blocks are smaller than a panel.
  std::vector<panel_entry> panels;
};

/// How `import_model` stores a model.
struct model_import_options {
  bool replace = false;                   ///< replaces what the tag holds
  std::optional<std::int64_t> time_ns{};  ///< creation time; unset for the system clock
};
/// Stores a model in a volume.
///
/// Nothing is stored of a file that the layers cannot compute with: facts, names, shapes,
/// types and the tokenizer are checked first.
/// @param source  A GGUF file, a safetensors file with `config.json` and `tokenizer.json`
/// beside it, or a folder with one such file.
/// @error{not_found, there is no such file, or no file of weights or no tokenizer}
/// @error{unsupported, the architecture, a property of it, a tensor, an element type or
/// the tokenizer is not known; named}
/// @error{corrupt, the file is cut or contradicts itself}
/// @error{already_exists, the tag exists and the options do not replace it}
/// @error{no_space, the volume has too little free space}
/// @error{io, a file or the volume cannot be read or written}
/// @threads{as `hn4_volume::put`}
[[nodiscard]] result<model_record> import_model(storage::hn4_volume& volume,
                                                const std::string& source,
                                                const std::string& tag,
                                                const model_import_options& options = {});

/// Models of a volume.
struct model_listing {
  std::vector<model_record> models;               ///< sorted by tag
  std::vector<storage::hn4_damaged_tag> damaged;  ///< models that cannot be read
};
/// Lists the models of a volume by their records. Weights are not read.
/// @error{io, the device reports an error}
/// @threads{safe to call concurrently}
[[nodiscard]] result<model_listing> list_models(const storage::hn4_volume& volume);
/// Returns the tag to use: `tag` if it is not empty, else that of the only model.
/// @error{not_found, the volume has no model, or none of this tag; the message lists its
/// models}
/// @error{invalid_argument, there are several models; the message lists them}
/// @error{io, the device reports an error}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::string> choose_model(const storage::hn4_volume& volume,
                                               const std::string& tag);

/// A weight and the memory that holds its bytes.
struct stored_weight {
  models::bound_weight weight;  ///< role, shape and element type
  models::weight_view view;     ///< rows in the order of the model
  storage::hn4_tensor tensor;   ///< keeps the bytes of `view` valid
};

/// A model of a volume, open for reading. Copies share the map of the blocks.
/// @threads{const members are safe to call concurrently}
class model_in_volume {
 public:
  /// Opens a model and compares its record with the header of its weights.
  /// @error{not_found, there is no such model}
  /// @error{corrupt, the record or the header is damaged, or they do not belong together}
  /// @error{io, the device reports an error}
  [[nodiscard]] static result<model_in_volume> open(const storage::hn4_volume& volume,
                                                    const std::string& tag);

  /// Returns the record.
  [[nodiscard]] const model_record& record() const noexcept { return record_; }
  /// Returns all weights in the order of `models::weight_list`.
  [[nodiscard]] std::span<const models::bound_weight> weights() const noexcept {
    return weights_;
  }
  /// Reads a weight: in place if it lies in one block of mapped memory and is aligned for
  /// its elements, else as a copy. Every byte is verified.
  /// @pre `index` is below `weights().size()`
  /// @error{corrupt, a block of the weight is damaged; the message names tag and byte}
  /// @error{out_of_memory, a copy does not fit into memory}
  /// @error{io, the device reports an error}
  [[nodiscard]] result<stored_weight> weight(std::size_t index) const;
  /// Returns the bytes that `weight` has copied so far; 0 if all weights were in place.
  [[nodiscard]] std::uint64_t copied_bytes() const noexcept { return copied_->load(); }
  /// Returns the tokenizer.
  /// @error{corrupt, unsupported, as of `formats::tokenizer`}
  [[nodiscard]] result<formats::tokenizer> tokenizer() const;
  /// Returns the tokenizer as keys of GGUF.
  /// @error{corrupt, unsupported, as of `formats::tokenizer_keys_of_json`}
  [[nodiscard]] result<formats::gguf_tokenizer> tokenizer_keys() const;
  /// Reads all weights and compares their digest with the record.
  /// @error{hash_mismatch, the digest differs}
  /// @error{corrupt, a block is damaged; the message names tag and byte}
  /// @error{io, the device reports an error}
  [[nodiscard]] result<void> verify() const;

 private:
  explicit model_in_volume(storage::hn4_stream stream) : stream_(std::move(stream)) {}

  storage::hn4_stream stream_;
  model_record record_;
  std::vector<storage::stored_tensor> tensors_;
  std::vector<models::bound_weight> weights_;
  byte_vector head_;  ///< bytes of a GGUF file before its data
  std::shared_ptr<std::atomic<std::uint64_t>> copied_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

/// Element types of an exported file.
enum class model_export_type : std::uint8_t {
  stored,  ///< as stored, where the format has the type, else fp32
  f32,     ///< fp32
  q8_0,    ///< Q8_0 for matrices of whole blocks, else fp32; GGUF alone
};
/// How `export_model` writes a model.
struct model_export_options {
  /// Family of the new file.
  models::weight_files to = models::weight_files::safetensors;
  model_export_type type = model_export_type::stored;  ///< element types
  bool replace = false;                                ///< replaces existing files
};
/// Result of `export_model`.
struct model_export {
  std::vector<std::string> files;  ///< paths of the files
  std::uint64_t bytes = 0;         ///< length of the file of the weights
  std::uint64_t digest = 0;        ///< `models::weights_digest` of the new file
};
/// Writes a model as a GGUF file, or as a folder with `model.safetensors`, `config.json`,
/// `tokenizer.json` and `tokenizer_config.json`. The weights get their name last. A call
/// that fails removes the files and folders that it has made.
/// @param path  The GGUF file, or the folder, which is made if its parent exists.
/// @error{already_exists, a file exists and the options do not replace it}
/// @error{unsupported, the format has no such type, or no form for the tokenizer}
/// @error{corrupt, a block of the model is damaged}
/// @error{no_space, the file system is full} @error{io, a read or a write failed}
/// @threads{safe to call concurrently for different paths}
[[nodiscard]] result<model_export> export_model(const model_in_volume& model,
                                                const std::string& path,
                                                const model_export_options& options = {});

}  // namespace weir::actors
