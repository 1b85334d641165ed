// SPDX-License-Identifier: Apache-2.0
/// @file
/// Facts about models from the `config.json` of Hugging Face, and back.
/// @source{Hugging Face transformers 5, LlamaConfig and BertConfig}
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weir/base/text.hpp"
#include "weir/models/facts.hpp"

namespace weir::models {

namespace {

using nlohmann::json;

/// Reads members of a configuration.
class config_reader {
 public:
  // Both references must outlive the reader.
  config_reader(const json& config, const std::string& name)
      : config_(config), name_(name) {}

  /// Returns a member, or null if it is absent or has the value null.
  [[nodiscard]] const json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  // Only the beginning of a long value is shown.
  [[nodiscard]] error wrong(errc code, const char* key, std::string_view expected) const {
    const json* value = find(key);
    std::string found = value == nullptr
                            ? "none"
                            : value->dump(-1, ' ', true, json::error_handler_t::replace);
    if (found.size() > 60) {
      found = found.substr(0, 57) + "...";
    }
    return error(code, fmt::format("cannot use \"{}\" of the configuration: expected {}, "
                                   "found {}",
                                   key, expected, found))
        .located(name_);
  }
  /// Reads a size; `otherwise` stands for one that is absent. Checks the range only as
  /// far as the type needs it.
  result<void> size(const char* key, std::uint32_t& to,
                    std::optional<std::uint32_t> otherwise = std::nullopt) const {
    const json* value = find(key);
    if (value == nullptr && otherwise) {
      to = *otherwise;
      return {};
    }
    if (value == nullptr || !value->is_number_unsigned() ||
        value->get<std::uint64_t>() > UINT32_MAX) {
      return wrong(errc::corrupt, key, "a whole number of at most 32 bits");
    }
    to = value->get<std::uint32_t>();
    return {};
  }
  // A number must be there; a whole one is taken too.
  result<void> real(const char* key, float& to) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_number()) {
      return wrong(errc::corrupt, key, "a number");
    }
    to = static_cast<float>(value->get<double>());
    return {};
  }
  /// Reads a boolean; `otherwise` stands for one that is absent. Files leave members out
  /// whose value is the usual one.
  result<void> flag(const char* key, bool& to, bool otherwise) const {
    const json* value = find(key);
    if (value != nullptr && !value->is_boolean()) {
      return wrong(errc::corrupt, key, "true or false");
    }
    to = value == nullptr ? otherwise : value->get<bool>();
    return {};
  }
  /// Refuses a member that has another value than the layers compute with. An absent
  /// member stands for the expected value.
  result<void> only(const char* key, const json& expected) const {
    const json* value = find(key);
    if (value != nullptr && *value != expected) {
      return wrong(errc::unsupported, key, expected.dump());
    }
    return {};
  }
  /// Reads an id. A list of ids, which some models have, gives its first one. Null and
  /// absence are the same.
  result<void> id(const char* key, std::optional<std::uint32_t>& to) const {
    const json* value = find(key);
    if (value == nullptr) {
      return {};
    }
    const json& first = value->is_array() && !value->empty() ? (*value)[0] : *value;
    if (!first.is_number_unsigned() || first.get<std::uint64_t>() > UINT32_MAX) {
      return wrong(errc::corrupt, key, "an id");
    }
    to = first.get<std::uint32_t>();
    return {};
  }

 private:
  const json& config_;
  const std::string& name_;
};

/// Reads the rotary positions: one number in older configurations, an object in newer
/// ones. Scaled positions are refused. The base has a usual value, but only in older
/// configurations.
result<void> read_rope(const config_reader& in, const std::string& name,
                       stored_facts& f) {
  if (in.find("rope_scaling") != nullptr) {
    return in.wrong(errc::unsupported, "rope_scaling", "none");
  }
  const json* parameters = in.find("rope_parameters");
  if (parameters == nullptr) {
    f.rope_base = 10000;
    return in.find("rope_theta") == nullptr ? result<void>()
                                            : in.real("rope_theta", f.rope_base);
  }
  // In newer configurations the object names the type.
  if (!parameters->is_object()) {
    return in.wrong(errc::corrupt, "rope_parameters", "an object");
  }
  const config_reader rope(*parameters, name);
  WEIR_CHECK(rope.only("rope_type", "default"));
  return rope.real("rope_theta", f.rope_base);
}

/// Members that only decoders have.
result<void> read_llama_config(const config_reader& in, const std::string& name,
                               stored_facts& f) {
  // Without the member, each query head has keys of its own.
  WEIR_CHECK(in.size("num_key_value_heads", f.kv_heads, f.heads));
  WEIR_CHECK(in.size("head_dim", f.head_width, f.heads == 0 ? 0 : f.width / f.heads));
  WEIR_CHECK(in.real("rms_norm_eps", f.norm_epsilon));
  WEIR_CHECK(in.only("hidden_act", "silu"));
  // The layers have no biases.
  WEIR_CHECK(in.only("attention_bias", false));
  WEIR_CHECK(in.only("mlp_bias", false));
  WEIR_CHECK(read_rope(in, name, f));
  WEIR_CHECK(in.flag("tie_word_embeddings", f.tied_embedding, false));
  WEIR_CHECK(in.id("bos_token_id", f.begin_token));
  return in.id("eos_token_id", f.end_token);
}

/// Encoders have no pooling in this file.
result<void> read_bert_config(const config_reader& in, stored_facts& f) {
  f.kv_heads = f.heads;
  f.head_width = f.heads == 0 ? 0 : f.width / f.heads;
  WEIR_CHECK(in.size("type_vocab_size", f.token_types, 2));
  WEIR_CHECK(in.real("layer_norm_eps", f.norm_epsilon));
  WEIR_CHECK(in.only("hidden_act", "gelu"));
  WEIR_CHECK(in.only("position_embedding_type", "absolute"));
  return in.only("is_decoder", false);
}

/// The type decides which members are read.
result<stored_facts> read_config(const json& config, const std::string& name) {
  const config_reader in(config, name);
  const json* type = in.find("model_type");
  if (type == nullptr || (*type != "llama" && *type != "bert")) {
    return in.wrong(type == nullptr ? errc::corrupt : errc::unsupported, "model_type",
                    "\"llama\" or \"bert\"");
  }
  stored_facts f;
  f.family = *type == "llama" ? architecture::llama : architecture::bert;
  // The name is only a description.
  const json* path = in.find("_name_or_path");
  f.name = path != nullptr && path->is_string() ? path->get<std::string>() : "";
  WEIR_CHECK(in.size("num_hidden_layers", f.layers));
  WEIR_CHECK(in.size("hidden_size", f.width));
  WEIR_CHECK(in.size("intermediate_size", f.feed_forward));
  WEIR_CHECK(in.size("num_attention_heads", f.heads));
  WEIR_CHECK(in.size("vocab_size", f.vocabulary));
  WEIR_CHECK(in.size("max_position_embeddings", f.context_limit));
  WEIR_CHECK(f.family == architecture::llama ? read_llama_config(in, name, f)
                                             : read_bert_config(in, f));
  WEIR_CHECK(check_facts(f));
  return f;
}

}  // namespace

/// The text is not trusted.
result<stored_facts> facts_of_config(bytes_view text, const std::string& name) {
  const json config = json::parse(as_text(text), nullptr, false);
  if (!config.is_object()) {
    return error(
               errc::corrupt,
               "cannot read the configuration of a model: expected a JSON object, found "
               "something else")
        .located(name);
  }
  return read_config(config, name);
}

/// Writes only members that the reading function takes.
std::string config_of(const stored_facts& f, std::string_view type) {
  const bool llama = f.family == architecture::llama;
  nlohmann::ordered_json out;
  out["architectures"] = {llama ? "LlamaForCausalLM" : "BertModel"};
  out["model_type"] = name_of(f.family);
  if (!f.name.empty()) {
    out["_name_or_path"] = f.name;
  }
  out["num_hidden_layers"] = f.layers;
  out["hidden_size"] = f.width;
  out["intermediate_size"] = f.feed_forward;
  out["num_attention_heads"] = f.heads;
  out["vocab_size"] = f.vocabulary;
  out["max_position_embeddings"] = f.context_limit;
  out["torch_dtype"] = type;
  if (llama) {
    out["num_key_value_heads"] = f.kv_heads;
    out["head_dim"] = f.head_width;
    out["hidden_act"] = "silu";
    out["rms_norm_eps"] = f.norm_epsilon;
    out["rope_theta"] = f.rope_base;
    out["tie_word_embeddings"] = f.tied_embedding;
    out["attention_bias"] = false;
    out["mlp_bias"] = false;
    if (f.begin_token) {
      out["bos_token_id"] = *f.begin_token;
    }
    if (f.end_token) {
      out["eos_token_id"] = *f.end_token;
    }
  } else {
    out["type_vocab_size"] = f.token_types;
    out["hidden_act"] = "gelu";
    out["layer_norm_eps"] = f.norm_epsilon;
    out["position_embedding_type"] = "absolute";
  }
  // A name that is no UTF-8 must not throw.
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace weir::models
