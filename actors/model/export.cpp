// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes models as files that other programs load.
///
/// Weights pass through a buffer of a few rows, so that the memory of an export does not
/// depend on the size of the model, but for one tensor that is read from the volume.
///
/// The order of the steps: choose a type and a place for every weight (`plan_export`),
/// make the header, compute the digest of what will be written, write the weights under a
/// temporary name, write the small files, and then give the weights their final name, so
/// that a file of this name is always complete.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/hf_names.hpp"
#include "model/record.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tokenizer_forms.hpp"
#include "weir/models/rotary_rows.hpp"

namespace weir::actors {

namespace {

using models::stored_type;
using models::weight_files;

/// Bytes that are written at a time.
/// @units{bytes}
constexpr std::size_t write_piece = std::size_t{1} << 20;

/// A weight of the new file.
struct exported_weight {
  std::size_t index = 0;                ///< number in `model_in_volume::weights`
  stored_type type = stored_type::f32;  ///< element type in the new file
  std::uint64_t bytes = 0;              ///< length in the new file
};

/// Returns whether a weight is a matrix that is multiplied or looked up row by row, which
/// alone may be quantised; llama.cpp wants the others in fp32.
bool is_large_matrix(const models::weight_info& info) {
  return !info.vector && info.role != models::weight_role::position_embedding &&
         info.role != models::weight_role::type_embedding;
}

/// Chooses the type of a weight in the new file.
/// safetensors has no types of blocks, so weights of blocks become fp32 there. Q8_0 needs
/// rows of whole blocks.
stored_type type_of_export(const models::bound_weight& w,
                           const model_export_options& options) {
  // Everything becomes fp32.
  if (options.type == model_export_type::f32) {
    return stored_type::f32;
  }
  const bool gguf = options.to == weight_files::gguf;
  const bool blocks = !models::row_bytes(w.type, 1);
  // As it is stored, as far as the new file has the type.
  if (options.type == model_export_type::stored) {
    return gguf ? (is_large_matrix(w.info) ? w.type : stored_type::f32)
                : (blocks ? stored_type::f32 : w.type);
  }
  // Q8_0 was asked for.
  return is_large_matrix(w.info) && w.info.columns % models::block_elements == 0
             ? stored_type::q8_0
             : stored_type::f32;
}

/// Returns the weights in the order of the new file. Hugging Face writes wide types first
/// and sorts by name.
/// The order of GGUF is that of the model.
std::vector<exported_weight> plan_export(const model_in_volume& model,
                                         const model_export_options& options) {
  std::vector<exported_weight> out;
  // Every weight is written exactly once.
  const auto weights = model.weights();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const stored_type type = type_of_export(weights[i], options);
    // Every chosen type has rows of whole blocks; see `type_of_export`.
    const std::uint64_t row = models::row_bytes(type, weights[i].info.columns).value();
    out.push_back({i, type, row * weights[i].info.rows});
  }
  if (options.to == weight_files::safetensors) {
    // fp32 is the first enumerator; of the 16-bit types, the format orders bf16 before
    // fp16.
    const auto rank = [](stored_type t) {
      return t == stored_type::f32 ? 0 : t == stored_type::bf16 ? 1 : 2;
    };
    std::sort(out.begin(), out.end(), [&](const auto& x, const auto& y) {
      return std::pair(rank(x.type), std::string_view(weights[x.index].info.hf_name)) <
             std::pair(rank(y.type), std::string_view(weights[y.index].info.hf_name));
    });
  }
  return out;
}

/// The slowest dimension first, as in safetensors.
shape_vector shape_of_weight(const models::weight_info& info) {
  // A vector has one dimension in both formats.
  return info.vector ? shape_vector{static_cast<std::int64_t>(info.columns)}
                     : shape_vector{static_cast<std::int64_t>(info.rows),
                                    static_cast<std::int64_t>(info.columns)};
}

/// Encodes a row of the model in the type of the new file.
/// `values` is memory for one decoded row, which the caller reuses. A type that is not
/// the one of the model is Q8_0 or fp32.
void encode_row(const models::weight_view& view, std::uint64_t row, stored_type type,
                std::vector<float>& values, mutable_bytes to) {
  // Rows of the same type are copied bit for bit.
  if (type == view.type()) {
    const bytes_view bytes = view.row(row);
    std::copy(bytes.begin(), bytes.end(), to.begin());
    return;
  }
  view.read(row, values);
  if (type == stored_type::q8_0) {
    models::encode_q8_0(values, to);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_le(to.data() + 4 * i, std::bit_cast<std::uint32_t>(values[i]));
  }
}

/// Takes the next bytes of a file.
using byte_sink = std::function<result<void>(bytes_view)>;

/// Writes the data of a weight in the row order of the new file and adds it to the
/// digest.
class weight_writer {
 public:
  weight_writer(const model_in_volume& model, weight_files to, byte_sink sink)
      : model_(model), to_(to), sink_(std::move(sink)) {}

  /// Reads the weight from the volume, then writes it row by row in pieces of whole rows.
  result<void> write(const exported_weight& e) {
    WEIR_TRY(const stored_weight stored, model_.weight(e.index));
    const models::weight_info& info = stored.weight.info;
    // Rows of a weight have equal sizes.
    const auto row = static_cast<std::size_t>(e.bytes / info.rows);
    std::vector<float> values(static_cast<std::size_t>(info.columns));
    byte_vector piece(std::max(write_piece / row, std::size_t{1}) * row);
    std::size_t filled = 0;
    for (std::uint64_t r = 0; r < info.rows; ++r) {
      // GGUF stores the rows of rotary matrices in pairs; the model has them in halves.
      const bool pairs = to_ == weight_files::gguf && info.rotary_width != 0;
      const std::uint64_t from = pairs ? models::row_of_halves(r, info.rotary_width) : r;
      encode_row(stored.view, from, e.type, values,
                 mutable_bytes(piece).subspan(filled, row));
      filled += row;
      // Whole pieces, and what is left at the end.
      if (filled == piece.size() || r + 1 == info.rows) {
        WEIR_CHECK(sink_(bytes_view(piece).first(filled)));
        filled = 0;
      }
    }
    return {};
  }

 private:
  const model_in_volume& model_;
  weight_files to_;
  byte_sink sink_;
};

/// Adds the keys of the tokenizer to the header of a GGUF file. Rows of the token
/// embedding without a token get one that no text has: llama.cpp wants a token for each.
void add_tokenizer_keys(const model_record& record, formats::gguf_tokenizer keys,
                        gguf_maker& to) {
  // Type of a token that no text has.
  constexpr std::int32_t unused = 5;
  const std::string prefix = "tokenizer.ggml.";
  const bool bert = record.facts.family == models::architecture::bert;
  // Tokens without a type are normal ones (1).
  keys.token_type.resize(keys.tokens.size(), 1);
  while (keys.tokens.size() < record.facts.vocabulary) {
    keys.tokens.push_back(fmt::format("[PAD{}]", keys.tokens.size()));
    keys.token_type.push_back(unused);
  }
  to.text(prefix + "model", keys.model);
  if (!keys.pre.empty()) {
    to.text(prefix + "pre", keys.pre);
  }
  to.texts(prefix + "tokens", keys.tokens);
  to.wholes(prefix + "token_type", keys.token_type);
  // A tokenizer of BERT has no merges.
  if (!bert) {
    to.texts(prefix + "merges", keys.merges);
  }
  // Ids that the tokenizer does not have are left out.
  const auto id = [&](const char* key, std::optional<std::uint32_t> value) {
    if (value) {
      to.whole(prefix + key, *value);
    }
  };
  id("bos_token_id", bert ? keys.bos : record.facts.begin_token);
  id("eos_token_id", bert ? keys.eos : record.facts.end_token);
  id("unknown_token_id", keys.unknown);
  if (bert) {
    // The key is misspelt in the format, and programs look for this name.
    id("cls_token_id", keys.bos);
    id("seperator_token_id", keys.eos);
  }
  // Both say whether the tokenizer adds the ids around a text.
  to.boolean(prefix + "add_bos_token", keys.bos.has_value());
  to.boolean(prefix + "add_eos_token", keys.eos.has_value());
  // GGUF has no other place for it.
  if (!record.chat_template.empty()) {
    to.text("tokenizer.chat_template", record.chat_template);
  }
}

/// Number of `general.file_type` for the type that most matrices have.
/// @source{GGUF specification, general.file_type}
/// @pre `plan` is not empty.
std::uint32_t file_type_of(const std::vector<exported_weight>& plan) {
  const auto largest =
      std::max_element(plan.begin(), plan.end(),
                       [](const auto& x, const auto& y) { return x.bytes < y.bytes; });
  switch (largest->type) {
    // Numbers of the specification.
    case stored_type::f16: return 1;
    case stored_type::q4_1: return 3;
    case stored_type::q8_0: return 7;
    case stored_type::bf16: return 32;
    default: return 0;
  }
}

/// Returns the header of a GGUF file: keys of the model and of the tokenizer, and a table
/// of tensors with their places.
result<byte_vector> gguf_header(const model_in_volume& model,
                                const std::vector<exported_weight>& plan) {
  const model_record& record = model.record();
  // Ids that stand before or behind every text have no keys of their own but for BERT.
  // The check comes before anything is written.
  WEIR_TRY(formats::gguf_tokenizer keys, model.tokenizer_keys());
  if (record.facts.family == models::architecture::llama &&
      ((keys.bos && keys.bos != record.facts.begin_token) ||
       (keys.eos && keys.eos != record.facts.end_token))) {
    return error(errc::unsupported,
                 fmt::format("cannot export model {} to GGUF: expected its tokenizer to "
                             "add the ids that its configuration names, found others",
                             json_quote(record.tag)));
  }
  // Keys first, because their size decides where the tensors begin.
  gguf_maker maker;
  models::add_gguf_keys(record.facts, maker);
  maker.whole("general.file_type", file_type_of(plan));
  maker.whole("general.quantization_version", 2);
  add_tokenizer_keys(record, std::move(keys), maker);
  // Places follow from the order of the calls.
  for (const exported_weight& e : plan) {
    const models::weight_info& info = model.weights()[e.index].info;
    maker.tensor(info.gguf_name, shape_of_weight(info), models::gguf_number(e.type),
                 e.bytes);
  }
  return maker.header();
}

/// Returns the header of a safetensors file, a JSON object with the place of each tensor.
result<byte_vector> hf_header(const model_in_volume& model,
                              const std::vector<exported_weight>& plan) {
  std::vector<storage::stored_tensor> tensors;
  for (const exported_weight& e : plan) {
    const models::weight_info& info = model.weights()[e.index].info;
    storage::stored_tensor t;
    t.name = info.hf_name;
    t.type_name = name_of(e.type);
    t.shape = shape_of_weight(info);
    t.bytes = e.bytes;
    tensors.push_back(std::move(t));
  }
  return storage::safetensors_header(tensors);
}

/// Writes header and data of the new file; returns its length.
/// Data of GGUF are padded to its alignment behind every tensor; safetensors has none.
result<std::uint64_t> write_weights(const model_in_volume& model, weight_files to,
                                    const std::vector<exported_weight>& plan,
                                    bytes_view header, file& out) {
  // Everything is written in order, without going back.
  std::uint64_t offset = 0;
  const byte_sink sink = [&](bytes_view bytes) -> result<void> {
    WEIR_CHECK(write_all(out, offset, bytes));
    offset += bytes.size();
    return {};
  };
  WEIR_CHECK(sink(header));
  weight_writer writer(model, to, sink);
  for (const exported_weight& e : plan) {
    // A failure removes the file, because it has another name until it is complete.
    WEIR_CHECK(writer.write(e));
    const std::uint64_t wanted =
        to == weight_files::gguf ? align_up(offset, gguf_maker::alignment) : offset;
    const byte_vector padding(static_cast<std::size_t>(wanted - offset));
    WEIR_CHECK(sink(padding));
  }
  return offset;
}

/// Computes the digest of the new file from the rows that were written. It differs from
/// that of the model only where Q8_0 has rounded.
/// Costs a second pass over the model, which is necessary only for such files.
result<std::uint64_t> digest_of_export(const model_in_volume& model,
                                       const std::vector<exported_weight>& plan) {
  // Without new rounding, the weights and therefore the digest are those of the model.
  if (std::none_of(plan.begin(), plan.end(), [&](const exported_weight& e) {
        return e.type == stored_type::q8_0 &&
               model.weights()[e.index].type != stored_type::q8_0;
      })) {
    return model.record().digest;
  }
  models::weights_digest digest;
  for (const exported_weight& e : plan) {
    WEIR_TRY(const stored_weight w, model.weight(e.index));
    const auto row = static_cast<std::size_t>(e.bytes / w.weight.info.rows);
    std::vector<float> values(static_cast<std::size_t>(w.weight.info.columns));
    byte_vector bytes(static_cast<std::size_t>(e.bytes));
    for (std::uint64_t r = 0; r < w.weight.info.rows; ++r) {
      encode_row(w.view, r, e.type, values,
                 mutable_bytes(bytes).subspan(static_cast<std::size_t>(r) * row, row));
    }
    // The rows are in the order of the model here, which is that of safetensors.
    digest.add(w.weight.info, models::weight_view(w.weight.info, e.type,
                                                  weight_files::safetensors, bytes));
  }
  return digest.value();
}

/// A small file beside the weights.
struct description_file {
  std::string path;
  std::string text;
};

/// Returns the files that Hugging Face transformers need beside the weights.
result<std::vector<description_file>> descriptions(const model_in_volume& model,
                                                   const std::string& folder,
                                                   std::string_view type) {
  // A model from GGUF has no tokenizer.json; it is made from the keys.
  const model_record& record = model.record();
  std::string tokenizer = record.tokenizer;
  if (tokenizer.empty()) {
    WEIR_TRY(const auto keys, model.tokenizer_keys());
    WEIR_TRY(tokenizer, formats::tokenizer_json_of(keys));
  }
  WEIR_TRY(const auto made, model.tokenizer());
  nlohmann::ordered_json config;
  config["tokenizer_class"] = hf_tokenizer_class;
  config["model_max_length"] = record.facts.context_limit;
  // Names the token of an id, if the tokenizer has one of that id.
  const auto token = [&](const char* key, std::optional<std::uint32_t> id) {
    const auto content = id ? made.token(*id) : std::nullopt;
    if (content) {
      config[key] = *content;
    }
  };
  token("bos_token", record.facts.begin_token);
  token("eos_token", record.facts.end_token);
  if (!record.chat_template.empty()) {
    config["chat_template"] = record.chat_template;
  }
  std::vector<description_file> out{
      {join_path(folder, "config.json"), models::config_of(record.facts, type)},
      {join_path(folder, "tokenizer.json"), std::move(tokenizer)},
      {join_path(folder, "tokenizer_config.json"),
       config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"}};
  // Sentence models say in a file of their own how token vectors become one vector.
  if (record.facts.pool != models::pooling::none) {
    nlohmann::ordered_json pool;
    pool["word_embedding_dimension"] = record.facts.width;
    pool["pooling_mode_mean_tokens"] = record.facts.pool == models::pooling::mean;
    pool["pooling_mode_cls_token"] = record.facts.pool == models::pooling::first;
    out.push_back({join_path(folder, "1_Pooling/config.json"), pool.dump(2) + "\n"});
  }
  return out;
}

/// Refuses to replace files unless that was asked for.
/// All files are checked before the first one is written.
result<void> check_free(const std::vector<std::string>& paths, bool replace) {
  for (const std::string& path : paths) {
    if (!replace && posix_file_system().exists(path)) {
      return error(errc::already_exists,
                   fmt::format("cannot export to {}: expected no file of that name, "
                               "found one",
                               json_quote(path)))
          .hint("choose another place, or use --force");
    }
  }
  return {};
}

/// Returns the name of the type of the largest weights for `config.json`.
std::string_view config_type(const std::vector<exported_weight>& plan) {
  // Other types have no name there and are written as fp32.
  const std::uint32_t type = file_type_of(plan);
  return type == 1 ? "float16" : type == 32 ? "bfloat16" : "float32";
}

/// The new files and folders of an export. They are removed again unless they are kept;
/// files and folders that existed before stay.
class new_files {
 public:
  new_files() = default;
  new_files(const new_files&) = delete;
  new_files& operator=(const new_files&) = delete;
  ~new_files() {
    for (const std::string& path : files_) {
      (void)posix_file_system().remove(path);
    }
    // The folder that was made last lies inside the others. One with other files stays.
    for (auto path = folders_.rbegin(); path != folders_.rend(); ++path) {
      std::error_code failed;
      std::filesystem::remove(*path, failed);
    }
  }

  result<void> make_folder(const std::string& path) {
    const bool is_new = !posix_file_system().exists(path);
    WEIR_CHECK(posix_file_system().make_folder(path));
    if (is_new) {
      folders_.push_back(path);
    }
    return {};
  }
  result<void> write(const std::string& path, bytes_view content) {
    const bool is_new = !posix_file_system().exists(path);
    WEIR_CHECK(write_file_atomically(posix_file_system(), path, content));
    if (is_new) {
      files_.push_back(path);
    }
    return {};
  }
  /// Keeps all of them.
  void keep() noexcept {
    files_.clear();
    folders_.clear();
  }

 private:
  std::vector<std::string> files_;
  std::vector<std::string> folders_;
};

}  // namespace

// The weights are written first, because most failures come from reading them: until all
// were read, no file has been replaced. They get their name last: if the weights exist,
// the folder is complete.
result<model_export> export_model(const model_in_volume& model, const std::string& path,
                                  const model_export_options& options) {
  const bool gguf = options.to == weight_files::gguf;
  if (!gguf && options.type == model_export_type::q8_0) {
    return error(errc::unsupported,
                 "cannot export to safetensors: expected the type f32, found q8_0, which "
                 "that format does not have");
  }
  // Types and places are fixed before the first byte is written.
  const std::vector<exported_weight> plan = plan_export(model, options);
  model_export out;
  std::vector<description_file> beside;
  if (!gguf) {
    WEIR_TRY(beside, descriptions(model, path, config_type(plan)));
  }
  for (const description_file& f : beside) {
    out.files.push_back(f.path);
  }
  out.files.push_back(gguf ? path : join_path(path, "model.safetensors"));
  // Nothing is replaced by accident.
  WEIR_CHECK(check_free(out.files, options.replace));
  WEIR_TRY(const byte_vector header,
           gguf ? gguf_header(model, plan) : hf_header(model, plan));
  // May take as long as the writing itself.
  WEIR_TRY(out.digest, digest_of_export(model, plan));
  new_files made;
  if (!gguf) {
    WEIR_CHECK(made.make_folder(path));
  }
  const auto write_all_files = [&](file& weights) -> result<void> {
    WEIR_TRY(out.bytes, write_weights(model, options.to, plan, header, weights));
    for (const description_file& f : beside) {
      WEIR_CHECK(made.make_folder(folder_of(f.path)));
      WEIR_CHECK(made.write(f.path, as_view(f.text)));
    }
    return {};
  };
  WEIR_CHECK(
      write_file_atomically(posix_file_system(), out.files.back(), write_all_files));
  made.keep();
  return out;
}

}  // namespace weir::actors
