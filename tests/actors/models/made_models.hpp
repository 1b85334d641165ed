// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tiny models that the tests write themselves, as GGUF files and as folders of Hugging
/// Face, and the values that the files hold.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/tokens/made.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/models.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"
#include "weir/formats/tokenizer_forms.hpp"

namespace weir::actors::made {

namespace tokens_made = formats::made;
using models::architecture;
using nlohmann::json;

/// A tensor of a file.
struct made_tensor {
  std::string name;
  shape_vector shape;  ///< elements, outermost first
  std::uint32_t type = 0;
  byte_vector bytes;
};

/// Values of a matrix or a vector of a model, in the order of Hugging Face.
struct made_weight {
  std::string hf;
  std::string gguf;
  shape_vector shape;
  std::vector<float> values;
  std::int64_t pairs = 0;  ///< features of a head if GGUF has the rows in pairs
};

inline byte_vector bytes_of(const std::vector<float>& values) {
  byte_vector out(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_le(out.data() + 4 * i, std::bit_cast<std::uint32_t>(values[i]));
  }
  return out;
}

/// Returns the rows as GGUF has them: the heads of a model are written as
/// [heads][2][D/2][columns] and read as [heads][D/2][2][columns].
inline std::vector<float> in_pairs(const made_weight& w) {
  if (w.pairs == 0) {
    return w.values;
  }
  const auto columns = w.shape[1], heads = w.shape[0] / w.pairs, half = w.pairs / 2;
  std::vector<float> out;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < half; ++i) {
      for (std::int64_t side = 0; side < 2; ++side) {
        const auto row = h * w.pairs + side * half + i;
        out.insert(out.end(), w.values.begin() + row * columns,
                   w.values.begin() + (row + 1) * columns);
      }
    }
  }
  return out;
}

/// A tiny model: its sizes, its weights and its tokenizer.
class made_model {
 public:
  explicit made_model(architecture family, std::uint64_t seed = 1,
                      std::uint32_t layers = 2)
      : random_(seed, 28) {
    facts.family = family;
    facts.name = "tiny";
    facts.layers = layers;
    facts.context_limit = 16;
    if (family == architecture::llama) {
      tokenizer = tokens_made::byte_level(tokens_made::some_merges());
      tokenizer["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Digits"}, {"individual_digits", true}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}};
      set_sizes(64, 96, 4, 2, 16);
      facts.rope_base = 10000;
      facts.norm_epsilon = 1e-5F;
      facts.tied_embedding = true;
      facts.end_token = tokenizer["added_tokens"][0]["id"].get<std::uint32_t>();
      facts.vocabulary = *facts.end_token + 3;
      make_llama();
    } else {
      tokenizer = tokens_made::wordpiece();
      // GGUF stores no limit, so that only the one of BERT can be converted.
      tokenizer["model"]["max_input_chars_per_word"] = 100;
      set_sizes(32, 64, 2, 2, 16);
      facts.norm_epsilon = 1e-12F;
      facts.token_types = 2;
      facts.pool = models::pooling::mean;
      facts.vocabulary = static_cast<std::uint32_t>(tokenizer["model"]["vocab"].size());
      make_bert();
    }
  }

  models::stored_facts facts;
  json tokenizer;
  std::vector<made_weight> weights;

  /// Returns the tensors of a GGUF file.
  [[nodiscard]] std::vector<made_tensor> gguf_tensors() const {
    std::vector<made_tensor> out;
    for (const made_weight& w : weights) {
      out.push_back({w.gguf, w.shape, 0, bytes_of(in_pairs(w))});
    }
    return out;
  }
  /// Returns the tensors of a safetensors file, with some that are no weights.
  [[nodiscard]] std::vector<made_tensor> hf_tensors() const {
    std::vector<made_tensor> out;
    for (const made_weight& w : weights) {
      out.push_back({w.hf, w.shape, 0, bytes_of(w.values)});
    }
    if (facts.family == architecture::bert) {
      out.push_back({"pooler.dense.bias", {32}, 0, byte_vector(128)});
    }
    return out;
  }
  /// Returns the header of a GGUF file without tensors.
  [[nodiscard]] gguf_maker gguf_keys() const {
    gguf_maker maker;
    models::add_gguf_keys(facts, maker);
    const auto keys = or_throw(
        formats::tokenizer_keys_of_json(as_view(tokenizer.dump()), "tokenizer.json"));
    const std::string prefix = "tokenizer.ggml.";
    maker.text(prefix + "model", keys.model);
    maker.text(prefix + "pre", keys.pre);
    maker.texts(prefix + "tokens", keys.tokens);
    maker.wholes(prefix + "token_type", keys.token_type);
    if (facts.family == architecture::llama) {
      maker.texts(prefix + "merges", keys.merges);
      maker.whole(prefix + "eos_token_id", *facts.end_token);
    } else {
      maker.whole(prefix + "cls_token_id", *keys.bos);
      maker.whole(prefix + "seperator_token_id", *keys.eos);
      maker.whole(prefix + "unknown_token_id", *keys.unknown);
    }
    maker.text("tokenizer.chat_template", "{{ messages }}");
    return maker;
  }

 private:
  void set_sizes(std::uint32_t width, std::uint32_t feed_forward, std::uint32_t heads,
                 std::uint32_t kv_heads, std::uint32_t head_width) {
    facts.width = width;
    facts.feed_forward = feed_forward;
    facts.heads = heads;
    facts.kv_heads = kv_heads;
    facts.head_width = head_width;
  }
  void add(const std::string& hf, const std::string& gguf, shape_vector shape,
           std::int64_t pairs = 0) {
    made_weight w{hf, gguf, std::move(shape), {}, pairs};
    for (std::int64_t i = 0; i < element_count(w.shape); ++i) {
      w.values.push_back(
          static_cast<float>(static_cast<std::int32_t>(random_.bits(next_++) & 0xFFFF)) /
              32768.0F -
          1.0F);
    }
    weights.push_back(std::move(w));
  }
  void make_llama() {
    const std::int64_t d = facts.width, f = facts.feed_forward, v = facts.vocabulary;
    const std::int64_t kv = facts.kv_heads * facts.head_width, h = facts.head_width;
    add("model.embed_tokens.weight", "token_embd.weight", {v, d});
    for (std::uint32_t l = 0; l < facts.layers; ++l) {
      const std::string hf = "model.layers." + std::to_string(l) + ".";
      const std::string gguf = "blk." + std::to_string(l) + ".";
      add(hf + "input_layernorm.weight", gguf + "attn_norm.weight", {d});
      add(hf + "self_attn.q_proj.weight", gguf + "attn_q.weight", {d, d}, h);
      add(hf + "self_attn.k_proj.weight", gguf + "attn_k.weight", {kv, d}, h);
      add(hf + "self_attn.v_proj.weight", gguf + "attn_v.weight", {kv, d});
      add(hf + "self_attn.o_proj.weight", gguf + "attn_output.weight", {d, d});
      add(hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", {d});
      add(hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight", {f, d});
      add(hf + "mlp.up_proj.weight", gguf + "ffn_up.weight", {f, d});
      add(hf + "mlp.down_proj.weight", gguf + "ffn_down.weight", {d, f});
    }
    add("model.norm.weight", "output_norm.weight", {d});
  }
  void add_both(const std::string& hf, const std::string& gguf, std::int64_t rows,
                std::int64_t columns) {
    add(hf + ".weight", gguf + ".weight", {rows, columns});
    add(hf + ".bias", gguf + ".bias", {rows});
  }
  void add_norm(const std::string& hf, const std::string& gguf) {
    add(hf + ".weight", gguf + ".weight", {facts.width});
    add(hf + ".bias", gguf + ".bias", {facts.width});
  }
  void make_bert() {
    const std::int64_t d = facts.width, f = facts.feed_forward;
    add("embeddings.word_embeddings.weight", "token_embd.weight", {facts.vocabulary, d});
    add("embeddings.position_embeddings.weight", "position_embd.weight", {16, d});
    add("embeddings.token_type_embeddings.weight", "token_types.weight", {2, d});
    add_norm("embeddings.LayerNorm", "token_embd_norm");
    for (std::uint32_t l = 0; l < facts.layers; ++l) {
      const std::string hf = "encoder.layer." + std::to_string(l) + ".";
      const std::string gguf = "blk." + std::to_string(l) + ".";
      add_both(hf + "attention.self.query", gguf + "attn_q", d, d);
      add_both(hf + "attention.self.key", gguf + "attn_k", d, d);
      add_both(hf + "attention.self.value", gguf + "attn_v", d, d);
      add_both(hf + "attention.output.dense", gguf + "attn_output", d, d);
      add_norm(hf + "attention.output.LayerNorm", gguf + "attn_output_norm");
      add_both(hf + "intermediate.dense", gguf + "ffn_up", f, d);
      add_both(hf + "output.dense", gguf + "ffn_down", d, f);
      add_norm(hf + "output.LayerNorm", gguf + "layer_output_norm");
    }
  }

  philox random_;
  std::uint64_t next_ = 0;
};

/// Returns the bytes of a GGUF file.
inline byte_vector gguf_file(gguf_maker keys, const std::vector<made_tensor>& tensors) {
  for (const made_tensor& t : tensors) {
    keys.tensor(t.name, t.shape, t.type, t.bytes.size());
  }
  byte_vector file = keys.header();
  for (const made_tensor& t : tensors) {
    append(file, t.bytes);
    file.resize(align_up<std::size_t>(file.size(), 32));
  }
  return file;
}

/// Returns the bytes of a safetensors file.
/// @param type  Name of the type of tensors whose type is 0; others have the type that
/// their number has in GGUF: 1 is fp16, 30 is bf16.
inline byte_vector safetensors_file(const std::vector<made_tensor>& tensors,
                                    const std::string& type = "F32") {
  json header = json::object();
  std::size_t offset = 0;
  for (const made_tensor& t : tensors) {
    header[t.name] = {{"dtype", t.type == 30  ? "BF16"
                                : t.type == 1 ? "F16"
                                              : type},
                      {"shape", t.shape},
                      {"data_offsets", {offset, offset + t.bytes.size()}}};
    offset += t.bytes.size();
  }
  std::string text = header.dump();
  text.resize(align_up<std::size_t>(text.size(), 8), ' ');
  byte_vector file(8);
  store_le(file.data(), std::uint64_t{text.size()});
  append(file, as_view(text));
  for (const made_tensor& t : tensors) {
    append(file, t.bytes);
  }
  return file;
}

inline void write_bytes(const std::string& path, bytes_view bytes) {
  or_throw(write_file_atomically(posix_file_system(), path, bytes));
}

/// Returns the `config.json` of a model, written by hand.
inline json config_json(const models::stored_facts& f) {
  json out = {{"num_hidden_layers", f.layers},
              {"hidden_size", f.width},
              {"intermediate_size", f.feed_forward},
              {"num_attention_heads", f.heads},
              {"vocab_size", f.vocabulary},
              {"max_position_embeddings", f.context_limit},
              {"_name_or_path", f.name}};
  if (f.family == architecture::llama) {
    out["model_type"] = "llama";
    out["num_key_value_heads"] = f.kv_heads;
    out["rms_norm_eps"] = 1e-05;
    out["rope_theta"] = 10000.0;
    out["hidden_act"] = "silu";
    out["tie_word_embeddings"] = f.tied_embedding;
    out["eos_token_id"] = *f.end_token;
  } else {
    out["model_type"] = "bert";
    out["type_vocab_size"] = 2;
    out["layer_norm_eps"] = 1e-12;
    out["hidden_act"] = "gelu";
  }
  return out;
}

/// Writes a folder of Hugging Face.
inline void write_hf_folder(const made_model& m, const std::string& folder) {
  or_throw(posix_file_system().make_folder(folder));
  write_bytes(folder + "/model.safetensors", safetensors_file(m.hf_tensors()));
  write_bytes(folder + "/config.json", as_view(config_json(m.facts).dump()));
  write_bytes(folder + "/tokenizer.json", as_view(m.tokenizer.dump()));
  write_bytes(folder + "/chat_template.jinja", as_view("{{ messages }}"));
  if (m.facts.family == architecture::bert) {
    or_throw(posix_file_system().make_folder(folder + "/1_Pooling"));
    write_bytes(folder + "/1_Pooling/config.json",
                as_view(R"({"pooling_mode_mean_tokens": true})"));
  }
}

/// Makes a volume with blocks of 64 KiB.
inline void make_volume(const std::string& path) {
  storage::hn4_format_options options;
  options.profile = storage::hn4_profile::usb;
  options.uuid_seed = 28;
  or_throw(storage::hn4_format(path, options));
}
inline storage::hn4_volume writable(const std::string& path) {
  return or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
}
/// Opens a volume that is mapped into memory.
inline storage::hn4_volume mapped(const std::string& path) {
  return or_throw(storage::hn4_volume::open(or_throw(storage::open_mapped_device(path)),
                                            storage::device_mode::read_only));
}

/// Returns the bytes of the panels of a model.
inline byte_vector panels_of(const storage::hn4_volume& volume, const std::string& tag) {
  return or_throw(or_throw(volume.stream(tag + "/panels")).read_all());
}

/// Returns the values of a weight in the order of the model.
inline std::vector<float> values_of(const model_in_volume& model, std::size_t index) {
  const stored_weight w = or_throw(model.weight(index));
  std::vector<float> out(static_cast<std::size_t>(w.view.rows() * w.view.columns()));
  for (std::uint64_t r = 0; r < w.view.rows(); ++r) {
    w.view.read(r, std::span(out).subspan(static_cast<std::size_t>(r * w.view.columns()),
                                          static_cast<std::size_t>(w.view.columns())));
  }
  return out;
}

}  // namespace weir::actors::made
