// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens the files of a model: finds the file of the weights, and reads facts, tokenizer
/// and chat template from its header or from the files beside it.
///
/// A path may name the file of the weights or a folder with one such file. A GGUF file
/// has everything in its header. Beside a safetensors file there must be `config.json`
/// and `tokenizer.json`; the pooling and the chat template have files that may be
/// missing.
#include "model/source.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/record.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tokenizer_forms.hpp"

namespace weir::actors {

namespace {

using nlohmann::json;

/// Largest description that is read beside weights, in bytes.
constexpr std::uint64_t max_description = std::uint64_t{1} << 30;

/// A path that cannot be listed is treated as a file, whose error is better.
bool is_model_folder(const std::string& path) {
  return posix_file_system().list(path).has_value();
}

/// Returns the file of weights of a folder.
// Models in several pieces have an index file; they are refused by name.
result<std::string> file_of_folder(const std::string& folder) {
  WEIR_TRY(const auto names, posix_file_system().list(folder));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors.index.json")) {
      return error(errc::unsupported,
                   fmt::format("cannot import {}: expected one file of weights, found "
                               "weights in pieces, which {} lists",
                               json_quote(folder), json_quote(name)))
          .hint("save the model as one safetensors file");
    }
    if (name.ends_with(".safetensors") || name.ends_with(".gguf")) {
      found.push_back(name);
    }
  }
  if (found.size() != 1) {
    return error(found.empty() ? errc::not_found : errc::invalid_argument,
                 fmt::format(
                     "cannot import {}: expected one file of weights "
                     "(.safetensors or .gguf), found {}",
                     json_quote(folder),
                     found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", "))))
        .hint("name the file");
  }
  return join_path(folder, found[0]);
}

/// Reads a file beside the weights; empty if there is none.
result<std::optional<byte_vector>> beside(const model_source& source, const char* name) {
  file_system& files = posix_file_system();
  const std::string path = join_path(folder_of(source.path), name);
  if (!files.exists(path)) {
    return std::optional<byte_vector>();
  }
  // The size is checked before the file is read into memory.
  WEIR_TRY(const auto in, files.open(path, open_mode::read));
  WEIR_TRY(const std::uint64_t size, in->size());
  if (size > max_description) {
    return error(errc::out_of_range,
                 fmt::format("cannot read {}: expected at most {} bytes, found {}",
                             json_quote(path), max_description, size));
  }
  WEIR_TRY(byte_vector content, read_file(files, path));
  return std::optional(std::move(content));
}

/// Reads a file beside the weights that must exist.
result<byte_vector> needed_beside(const model_source& source, const char* name) {
  WEIR_TRY(auto content, beside(source, name));
  if (!content) {
    return error(errc::not_found,
                 fmt::format("cannot import {}: expected a file {} beside it, found none",
                             json_quote(source.path), json_quote(name)));
  }
  return std::move(*content);
}

/// Checks that the ids of the tokenizer have rows in the token embedding.
/// A larger embedding is usual: some models round the number of rows up.
result<void> check_vocabulary(const model_source& source, const formats::tokenizer& t) {
  if (t.vocabulary_size() > source.record.facts.vocabulary) {
    return error(errc::corrupt,
                 fmt::format("cannot import {}: expected a tokenizer of at most {} ids, "
                             "found {}",
                             json_quote(source.path), source.record.facts.vocabulary,
                             t.vocabulary_size()));
  }
  return {};
}

/// Reads facts, weights and tokenizer from the header of a GGUF file. The order matters:
/// weights can only be found by names that follow from the facts.
result<void> read_gguf_source(model_source& source) {
  WEIR_TRY(const std::uint64_t before, bytes_before_data(source.tensors, source.path));
  const bytes_view head = source.bytes.first(static_cast<std::size_t>(before));
  WEIR_TRY(const auto keys, gguf_metadata::read(head, source.path));
  const auto named = named_tensors(source.tensors);
  WEIR_TRY(source.record.facts, models::facts_of_gguf(keys, named));
  WEIR_TRY(source.weights,
           models::bind_weights(source.record.facts, models::weight_files::gguf, named));
  WEIR_TRY(const auto found, formats::tokenizer_keys_of_gguf(head, source.path));
  WEIR_TRY(const auto tokenizer, formats::tokenizer::from_gguf(found));
  WEIR_TRY(const auto chat, keys.text("tokenizer.chat_template"));
  source.record.chat_template = chat.value_or("");
  return check_vocabulary(source, tokenizer);
}

/// Reads the pooling that a model of sentence-transformers has.
/// @source{sentence-transformers 5, models.Pooling}
/// The file is optional; without it the model gives one vector per token.
result<void> read_pooling(model_source& source) {
  constexpr const char* name = "1_Pooling/config.json";
  WEIR_TRY(const auto text, beside(source, name));
  if (!text || source.record.facts.family != models::architecture::bert) {
    return {};
  }
  const json config = json::parse(as_text(*text), nullptr, false);
  const auto has = [&](const char* key) {
    return config.is_object() && config.contains(key) && config[key] == true;
  };
  const bool mean = has("pooling_mode_mean_tokens");
  const bool first = has("pooling_mode_cls_token");
  // Other ways of pooling have no counterpart here.
  if (mean == first) {
    return error(errc::unsupported,
                 fmt::format("cannot import {}: expected the pooling of {} to be either "
                             "the mean or the first token, found {}",
                             json_quote(source.path), name, mean ? "both" : "neither"));
  }
  source.record.facts.pool = mean ? models::pooling::mean : models::pooling::first;
  return {};
}

/// Reads the chat template from the file that holds it alone, or else from the
/// configuration of the tokenizer.
/// A damaged configuration of the tokenizer counts as one without a template.
result<void> read_chat_template(model_source& source) {
  WEIR_TRY(const auto alone, beside(source, "chat_template.jinja"));
  if (alone) {
    source.record.chat_template = as_text(*alone);
    return {};
  }
  WEIR_TRY(const auto text, beside(source, "tokenizer_config.json"));
  const json config = text ? json::parse(as_text(*text), nullptr, false) : json::object();
  if (config.is_object() && config.contains("chat_template") &&
      config["chat_template"].is_string()) {
    source.record.chat_template = config["chat_template"].get<std::string>();
  }
  return {};
}

/// Checks that the tensors take all bytes behind the header, as the format demands. A
/// header with a wrong length would otherwise shift all weights by some bytes.
result<void> check_data(const model_source& source) {
  // The header of safetensors begins with its own length, 8 bytes.
  std::uint64_t end = sizeof(std::uint64_t) + load_le<std::uint64_t>(source.bytes.data());
  for (const storage::stored_tensor& t : source.tensors) {
    end += t.bytes;
  }
  if (end != source.bytes.size()) {
    return error(
        errc::corrupt,
        fmt::format("cannot import {}: expected the {} bytes of header and tensors, "
                    "found a file of {} bytes",
                    json_quote(source.path), end, source.bytes.size()));
  }
  return {};
}

/// Reads facts, weights and tokenizer from the files beside the weights.
result<void> read_safetensors_source(model_source& source) {
  WEIR_CHECK(check_data(source));
  WEIR_TRY(const byte_vector config, needed_beside(source, "config.json"));
  WEIR_TRY(
      source.record.facts,
      models::facts_of_config(config, join_path(folder_of(source.path), "config.json")));
  WEIR_CHECK(read_pooling(source));
  WEIR_TRY(source.weights,
           models::bind_weights(source.record.facts, models::weight_files::safetensors,
                                named_tensors(source.tensors)));
  // The text of the tokenizer is kept whole in the record, so that an export can write it
  // back.
  WEIR_TRY(const byte_vector text, needed_beside(source, "tokenizer.json"));
  WEIR_TRY(const auto tokenizer,
           formats::tokenizer::from_json(
               text, join_path(folder_of(source.path), "tokenizer.json")));
  source.record.tokenizer = as_text(text);
  WEIR_CHECK(read_chat_template(source));
  return check_vocabulary(source, tokenizer);
}

}  // namespace

/// The view stays valid as long as the mapping of the file.
models::weight_view model_source::view(const models::bound_weight& w) const {
  const storage::stored_tensor& t = tensors[w.tensor];
  return {w.info, w.type, record.files,
          bytes.subspan(static_cast<std::size_t>(t.offset),
                        static_cast<std::size_t>(t.bytes))};
}

/// Everything but the digest and the tag of the record is filled in.
result<model_source> open_model_source(const std::string& path) {
  model_source source;
  source.path = path;
  if (is_model_folder(path)) {
    WEIR_TRY(source.path, file_of_folder(path));
  }
  // The file is mapped and not read: only pages of weights that are used come into
  // memory.
  WEIR_TRY(source.device, storage::open_mapped_device(source.path));
  source.bytes = source.device->view(0, static_cast<std::size_t>(source.device->size()));
  auto directory = storage::tensor_directory::from_bytes(source.bytes);
  if (!directory) {
    return std::move(directory.error()).located(source.path);
  }
  // "raw" means that neither format was recognised.
  if (directory->format() == storage::container_format::raw) {
    return error(
               errc::unsupported,
               fmt::format("cannot import {}: expected a GGUF or safetensors file, "
                           "found another one of {}",
                           json_quote(source.path), counted(source.bytes.size(), "byte")))
        .hint("the file may have been cut");
  }
  source.tensors.assign(directory->tensors().begin(), directory->tensors().end());
  source.record.bytes = source.bytes.size();
  const bool gguf = directory->format() == storage::container_format::gguf;
  source.record.files =
      gguf ? models::weight_files::gguf : models::weight_files::safetensors;
  auto read = gguf ? read_gguf_source(source) : read_safetensors_source(source);
  if (!read) {
    // Errors that do not name a file get the name of the weights.
    error e = std::move(read).error();
    return e.location().empty() ? std::move(e).located(source.path) : std::move(e);
  }
  return source;
}

}  // namespace weir::actors
