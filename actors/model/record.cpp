// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes and reads records of models.
///
/// A record is a JSON text beside the weights of a model, under the tag of the model with
/// the ending `record_ending`. It has what cannot be computed from the weights alone:
/// facts of the configuration, tokenizer, chat template, the digest, and the places of
/// the panels. docs/formats describes no such file for other programs: only Weir reads
/// it.
#include "model/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "weir/base/container/json_depth.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"

namespace weir::actors {

namespace {

/// Records of other versions are refused.
constexpr int model_record_version = 1;

/// Word of the kind of files in a record.
std::string_view name_of_files(models::weight_files files) {
  return files == models::weight_files::gguf ? "gguf" : "safetensors";
}

/// The hint is always the same, because a record cannot be repaired.
error bad_record(const std::string& tag, const std::string& found) {
  return error(errc::corrupt, fmt::format("cannot read the record of model {}: expected "
                                          "an object of version {}, found {}",
                                          json_quote(tag), model_record_version, found))
      .hint("import the model again");
}

/// Returns an entry of the panels as JSON; `panels_of_json` reads it.
nlohmann::ordered_json json_of_panels(const panel_entry& entry) {
  nlohmann::ordered_json out;
  out["name"] = entry.name;
  out["vector"] = entry.vector;
  out["type"] = entry.type;
  out["outputs"] = entry.outputs;
  out["inputs"] = entry.inputs;
  out["runs"] = nlohmann::ordered_json::array();
  for (const panel_place& run : entry.runs) {
    out["runs"].push_back({run.first, run.offset, run.bytes});
  }
  return out;
}

/// Reads an entry; throws where a member is missing or has a wrong type.
// The runs are arrays of three numbers, to keep records of large models short.
panel_entry panels_of_json(const nlohmann::json& in) {
  panel_entry out;
  // Members that are missing are exceptions, which the caller turns into errors.
  out.name = in.at("name").get<std::string>();
  out.vector = in.at("vector").get<bool>();
  out.type = in.at("type").get<std::string>();
  out.outputs = in.at("outputs").get<std::uint64_t>();
  out.inputs = in.at("inputs").get<std::uint64_t>();
  for (const nlohmann::json& run : in.at("runs")) {
    out.runs.push_back({run.at(0).get<std::uint64_t>(), run.at(1).get<std::uint64_t>(),
                        run.at(2).get<std::uint64_t>()});
  }
  return out;
}

}  // namespace

/// Invalid UTF-8 in texts of a model is replaced, because JSON cannot hold it.
std::string text_of_record(const model_record& record) {
  nlohmann::ordered_json out;
  // The version comes first, for people who look into a volume.
  out["weir_model"] = model_record_version;
  out["facts"] = nlohmann::ordered_json::parse(models::json_of(record.facts));
  out["files"] = name_of_files(record.files);
  out["bytes"] = record.bytes;
  // A text, because numbers of JSON have 53 bits.
  out["digest"] = hex64(record.digest);
  out["tokenizer"] = record.tokenizer;
  out["chat_template"] = record.chat_template;
  out["panels"] = nlohmann::ordered_json::array();
  for (const panel_entry& entry : record.panels) {
    out["panels"].push_back(json_of_panels(entry));
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// JSON exceptions of all members are caught here and become one kind of error.
result<model_record> record_of_text(std::string_view text, const std::string& tag) {
  // The functions that write a value as text call themselves once for each level.
  if (const std::size_t depth = json_depth(text); depth > max_json_depth) {
    return bad_record(tag, fmt::format("{} nested values, of which at most {} are read",
                                       depth, max_json_depth));
  }
  try {
    const auto in = nlohmann::json::parse(text);
    // Another version may have other members.
    if (in.at("weir_model") != model_record_version) {
      return bad_record(tag, fmt::format("version {}", in.at("weir_model").dump()));
    }
    model_record record;
    record.tag = tag;
    // Facts have a reader of their own.
    WEIR_TRY(record.facts, models::facts_of_json(in.at("facts").dump()));
    record.files = in.at("files") == "gguf" ? models::weight_files::gguf
                                            : models::weight_files::safetensors;
    record.bytes = in.at("bytes").get<std::uint64_t>();
    const auto digest = in.at("digest").get<std::string>();
    const char* end = digest.data() + digest.size();
    // The number must take the whole text.
    const auto read = std::from_chars(digest.data(), end, record.digest, 16);
    if (read.ec != std::errc() || read.ptr != end) {
      return bad_record(tag, "a digest that is no hexadecimal number");
    }
    record.tokenizer = in.at("tokenizer").get<std::string>();
    record.chat_template = in.at("chat_template").get<std::string>();
    for (const nlohmann::json& entry : in.at("panels")) {
      record.panels.push_back(panels_of_json(entry));
    }
    return record;
  } catch (const nlohmann::json::exception& e) {
    return bad_record(tag, e.what());
  }
}

/// Converts the tensors of a directory into the form in which `models` looks for weights.
std::vector<models::named_tensor> named_tensors(
    std::span<const storage::stored_tensor> tensors) {
  std::vector<models::named_tensor> out;
  out.reserve(tensors.size());
  for (const storage::stored_tensor& t : tensors) {
    // Names and types as in the file.
    models::named_tensor named{t.name, t.type_name, t.shape, t.bytes};
    const auto type = models::stored_type_named(t.type_name);
    const auto block =
        type ? models::row_bytes(*type, models::block_elements) : std::nullopt;
    // Types of blocks have no size for one element, only for a row of whole blocks.
    const bool blocks = type && !models::row_bytes(*type, 1);
    if (blocks && !named.shape.empty()) {
      // The directory gives the last extent of such a type in bytes, the models in
      // elements.
      named.shape.back() =
          named.shape.back() / static_cast<std::int64_t>(*block) * models::block_elements;
    }
    out.push_back(std::move(named));
  }
  return out;
}

/// Returns the offset of the first tensor, in front of which the header stands.
result<std::uint64_t> bytes_before_data(std::span<const storage::stored_tensor> tensors,
                                        const std::string& name) {
  // A file without tensors is no model.
  if (tensors.empty()) {
    return error(errc::corrupt, "cannot use the weights: expected tensors, found none")
        .located(name);
  }
  const auto first =
      std::min_element(tensors.begin(), tensors.end(),
                       [](const auto& x, const auto& y) { return x.offset < y.offset; });
  return first->offset;
}

}  // namespace weir::actors
