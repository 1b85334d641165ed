// SPDX-License-Identifier: Apache-2.0
/// @file
/// The weights of both architectures with their names in both families of files.
/// @source{llama.cpp, gguf-py tensor names; Hugging Face transformers, modeling_llama and
/// modeling_bert}
#include <fmt/format.h>

#include <array>
#include <map>

#include "weights/limits.hpp"
#include "weir/base/text.hpp"
#include "weir/models/weights.hpp"

namespace weir::models {

namespace {

/// Sizes that the shapes of weights are made of. `none` marks vectors. A vector has only
/// columns.
enum class extent_of : std::uint8_t {
  none,
  width,
  query_width,
  kv_width,
  feed_forward,
  vocabulary,
  context,
  token_types,
};

/// One weight of an architecture. "{}" in a name stands for the number of the layer.
struct role_row {
  weight_role role;
  bool in_layer;
  extent_of rows;
  extent_of columns;
  const char* gguf_name;
  const char* hf_name;
};

/// Short names for the tables.
using ext = extent_of;
using wr = weight_role;

/// The rows stand in the order of the weights: those of layers are neighbours.
constexpr std::array llama_rows{
    role_row{wr::token_embedding, false, ext::vocabulary, ext::width, "token_embd.weight",
             "model.embed_tokens.weight"},
    role_row{wr::attention_norm, true, ext::none, ext::width, "blk.{}.attn_norm.weight",
             "model.layers.{}.input_layernorm.weight"},
    role_row{wr::query, true, ext::query_width, ext::width, "blk.{}.attn_q.weight",
             "model.layers.{}.self_attn.q_proj.weight"},
    role_row{wr::key, true, ext::kv_width, ext::width, "blk.{}.attn_k.weight",
             "model.layers.{}.self_attn.k_proj.weight"},
    role_row{wr::value, true, ext::kv_width, ext::width, "blk.{}.attn_v.weight",
             "model.layers.{}.self_attn.v_proj.weight"},
    role_row{wr::attention_output, true, ext::width, ext::query_width,
             "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"},
    role_row{wr::feed_forward_norm, true, ext::none, ext::width, "blk.{}.ffn_norm.weight",
             "model.layers.{}.post_attention_layernorm.weight"},
    role_row{wr::gate, true, ext::feed_forward, ext::width, "blk.{}.ffn_gate.weight",
             "model.layers.{}.mlp.gate_proj.weight"},
    role_row{wr::up, true, ext::feed_forward, ext::width, "blk.{}.ffn_up.weight",
             "model.layers.{}.mlp.up_proj.weight"},
    role_row{wr::down, true, ext::width, ext::feed_forward, "blk.{}.ffn_down.weight",
             "model.layers.{}.mlp.down_proj.weight"},
    role_row{wr::final_norm, false, ext::none, ext::width, "output_norm.weight",
             "model.norm.weight"},
    role_row{wr::output, false, ext::vocabulary, ext::width, "output.weight",
             "lm_head.weight"}};

/// Encoders have biases, which are vectors.
constexpr std::array bert_rows{
    role_row{wr::token_embedding, false, ext::vocabulary, ext::width, "token_embd.weight",
             "embeddings.word_embeddings.weight"},
    role_row{wr::position_embedding, false, ext::context, ext::width,
             "position_embd.weight", "embeddings.position_embeddings.weight"},
    role_row{wr::type_embedding, false, ext::token_types, ext::width,
             "token_types.weight", "embeddings.token_type_embeddings.weight"},
    role_row{wr::embedding_norm, false, ext::none, ext::width, "token_embd_norm.weight",
             "embeddings.LayerNorm.weight"},
    role_row{wr::embedding_norm_bias, false, ext::none, ext::width,
             "token_embd_norm.bias", "embeddings.LayerNorm.bias"},
    role_row{wr::attention_norm, true, ext::none, ext::width,
             "blk.{}.attn_output_norm.weight",
             "encoder.layer.{}.attention.output.LayerNorm.weight"},
    role_row{wr::attention_norm_bias, true, ext::none, ext::width,
             "blk.{}.attn_output_norm.bias",
             "encoder.layer.{}.attention.output.LayerNorm.bias"},
    role_row{wr::query, true, ext::width, ext::width, "blk.{}.attn_q.weight",
             "encoder.layer.{}.attention.self.query.weight"},
    role_row{wr::query_bias, true, ext::none, ext::width, "blk.{}.attn_q.bias",
             "encoder.layer.{}.attention.self.query.bias"},
    role_row{wr::key, true, ext::width, ext::width, "blk.{}.attn_k.weight",
             "encoder.layer.{}.attention.self.key.weight"},
    role_row{wr::key_bias, true, ext::none, ext::width, "blk.{}.attn_k.bias",
             "encoder.layer.{}.attention.self.key.bias"},
    role_row{wr::value, true, ext::width, ext::width, "blk.{}.attn_v.weight",
             "encoder.layer.{}.attention.self.value.weight"},
    role_row{wr::value_bias, true, ext::none, ext::width, "blk.{}.attn_v.bias",
             "encoder.layer.{}.attention.self.value.bias"},
    role_row{wr::attention_output, true, ext::width, ext::width,
             "blk.{}.attn_output.weight",
             "encoder.layer.{}.attention.output.dense.weight"},
    role_row{wr::attention_output_bias, true, ext::none, ext::width,
             "blk.{}.attn_output.bias", "encoder.layer.{}.attention.output.dense.bias"},
    role_row{wr::feed_forward_norm, true, ext::none, ext::width,
             "blk.{}.layer_output_norm.weight",
             "encoder.layer.{}.output.LayerNorm.weight"},
    role_row{wr::feed_forward_norm_bias, true, ext::none, ext::width,
             "blk.{}.layer_output_norm.bias", "encoder.layer.{}.output.LayerNorm.bias"},
    role_row{wr::up, true, ext::feed_forward, ext::width, "blk.{}.ffn_up.weight",
             "encoder.layer.{}.intermediate.dense.weight"},
    role_row{wr::up_bias, true, ext::none, ext::feed_forward, "blk.{}.ffn_up.bias",
             "encoder.layer.{}.intermediate.dense.bias"},
    role_row{wr::down, true, ext::width, ext::feed_forward, "blk.{}.ffn_down.weight",
             "encoder.layer.{}.output.dense.weight"},
    role_row{wr::down_bias, true, ext::none, ext::width, "blk.{}.ffn_down.bias",
             "encoder.layer.{}.output.dense.bias"}};

/// Both tables have static storage.
std::span<const role_row> role_rows_of(architecture family) {
  if (family == architecture::llama) {
    return llama_rows;
  }
  return bert_rows;
}

/// The products fit, because the facts are checked.
std::uint64_t extent_value(const stored_facts& f, extent_of e) {
  switch (e) {
    case ext::width: return f.width;
    case ext::query_width: return std::uint64_t{f.heads} * f.head_width;
    case ext::kv_width: return std::uint64_t{f.kv_heads} * f.head_width;
    case ext::feed_forward: return f.feed_forward;
    case ext::vocabulary: return f.vocabulary;
    case ext::context: return f.context_limit;
    case ext::token_types: return f.token_types;
    default: return 1;
  }
}

/// The layer is ignored by names without a place for it.
weight_info info_of_row(const stored_facts& f, const role_row& row, std::uint32_t layer) {
  weight_info out;
  out.role = row.role;
  out.layer = layer;
  out.in_layer = row.in_layer;
  out.vector = row.rows == ext::none;
  out.rows = extent_value(f, row.rows);
  out.columns = extent_value(f, row.columns);
  out.gguf_name = fmt::format(fmt::runtime(row.gguf_name), layer);
  out.hf_name = fmt::format(fmt::runtime(row.hf_name), layer);
  // Rotary positions are turned in queries and keys only.
  const bool rotary =
      f.family == architecture::llama && (row.role == wr::query || row.role == wr::key);
  out.rotary_width = rotary ? f.head_width : 0;
  return out;
}

/// In the order of the enumeration.
constexpr std::array role_names{"token_embedding",
                                "position_embedding",
                                "type_embedding",
                                "embedding_norm",
                                "embedding_norm_bias",
                                "attention_norm",
                                "attention_norm_bias",
                                "query",
                                "query_bias",
                                "key",
                                "key_bias",
                                "value",
                                "value_bias",
                                "attention_output",
                                "attention_output_bias",
                                "feed_forward_norm",
                                "feed_forward_norm_bias",
                                "gate",
                                "up",
                                "up_bias",
                                "down",
                                "down_bias",
                                "final_norm",
                                "output"};
static_assert(role_names.size() == static_cast<std::size_t>(wr::output) + 1);

}  // namespace

/// The names are used in JSON and by volumes.
std::string_view name_of(weight_role role) noexcept {
  return role_names[static_cast<std::size_t>(role)];
}

// Weights before the layers come first, then the layers, then those behind them. The
// order does not depend on the file.
std::vector<weight_info> weight_list(const stored_facts& f) {
  std::vector<weight_info> out;
  const auto rows = role_rows_of(f.family);
  std::size_t at = 0;
  for (; !rows[at].in_layer; ++at) {
    out.push_back(info_of_row(f, rows[at], 0));
  }
  std::size_t end = at;
  while (end < rows.size() && rows[end].in_layer) {
    ++end;
  }
  for (std::uint32_t layer = 0; layer < f.layers; ++layer) {
    for (std::size_t i = at; i < end; ++i) {
      out.push_back(info_of_row(f, rows[i], layer));
    }
  }
  for (; end < rows.size(); ++end) {
    // A tied output is the embedding, which is in the list already.
    if (rows[end].role != wr::output || !f.tied_embedding) {
      out.push_back(info_of_row(f, rows[end], 0));
    }
  }
  return out;
}

namespace {

/// Prefix that a model with a head has before the names of its encoder.
constexpr std::string_view encoder_prefix = "bert.";

/// Returns whether a tensor that is no weight may be left out. Known tensors of other
/// programs, which the layers do not need.
bool may_ignore(const stored_facts& f, weight_files files, std::string_view name) {
  if (f.family == architecture::bert) {
    return name == "embeddings.position_ids" || name.starts_with("pooler.") ||
           name.starts_with("cls.") || name.starts_with("classifier.");
  }
  return files == weight_files::safetensors &&
         ((name == "lm_head.weight" && f.tied_embedding) ||
          name.ends_with(".rotary_emb.inv_freq"));
}

/// For messages.
std::string shape_in_words(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Checks type and shape of the tensor of a weight. A block must not cross the end of a
/// row.
result<stored_type> check_tensor(const weight_info& info, const named_tensor& t) {
  auto type = stored_type_named(t.type);
  if (!type) {
    return error(
        errc::unsupported,
        fmt::format("cannot use tensor {}: expected type F32, F16, BF16, Q8_0 or "
                    "Q4_1, found {}",
                    json_quote(t.name), json_quote(t.type)));
  }
  // Vectors have one dimension, matrices have two.
  shape_vector wanted;
  if (!info.vector) {
    wanted.push_back(static_cast<std::int64_t>(info.rows));
  }
  wanted.push_back(static_cast<std::int64_t>(info.columns));
  const auto row = row_bytes(*type, info.columns);
  std::uint64_t bytes = 0;
  // The number of bytes must be exact: a file that has others is damaged.
  if (t.shape != wanted || !row || !checked_mul(*row, info.rows, bytes) ||
      bytes != t.bytes) {
    return error(errc::corrupt,
                 fmt::format("cannot use tensor {}: expected shape {} in whole blocks, "
                             "found {} of type {} in {} bytes",
                             json_quote(t.name), shape_in_words(wanted),
                             shape_in_words(t.shape), t.type, t.bytes));
  }
  return *type;
}

/// Views of the names in the list of tensors.
using tensor_index = std::map<std::string_view, std::size_t>;

/// Returns the tensors by name; encoders may have a prefix, which is left out. Two
/// tensors of one name are refused, since nothing says which of them is the weight,
/// unless neither is one because the name may be ignored.
result<tensor_index> index_of(const stored_facts& f, weight_files files,
                              std::span<const named_tensor> tensors) {
  tensor_index out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::string_view name = tensors[i].name;
    if (f.family == architecture::bert && files == weight_files::safetensors &&
        name.starts_with(encoder_prefix)) {
      name.remove_prefix(encoder_prefix.size());
    }
    const auto [place, fresh] = out.emplace(name, i);
    if (!fresh && !may_ignore(f, files, name)) {
      return error(errc::corrupt,
                   fmt::format("cannot use the weights: expected one tensor {}, found {} "
                               "and {}",
                               json_quote(name), json_quote(tensors[place->second].name),
                               json_quote(tensors[i].name)));
    }
  }
  return out;
}

}  // namespace

/// Every weight must be found, and every other tensor must be known.
result<std::vector<bound_weight>> bind_weights(const stored_facts& facts,
                                               weight_files files,
                                               std::span<const named_tensor> tensors) {
  WEIR_CHECK(check_facts(facts));
  // A file with fewer tensors than layers cannot be whole; the list of its weights would
  // take more memory than the file has shown a need for.
  if (tensors.size() < facts.layers) {
    return error(errc::corrupt,
                 fmt::format("cannot use the weights: expected tensors of {} layers, "
                             "found {} tensors",
                             facts.layers, tensors.size()));
  }
  // What is left in the index in the end is no weight.
  WEIR_TRY(tensor_index index, index_of(facts, files, tensors));
  std::vector<bound_weight> out;
  for (weight_info& info : weight_list(facts)) {
    const std::string& name = files == weight_files::gguf ? info.gguf_name : info.hf_name;
    const auto found = index.find(name);
    if (found == index.end()) {
      return error(errc::corrupt,
                   fmt::format("cannot use the weights: expected a tensor {}, found none "
                               "among {}",
                               json_quote(name), tensors.size()));
    }
    WEIR_TRY(const stored_type type, check_tensor(info, tensors[found->second]));
    // A tensor can be one weight only.
    out.push_back({std::move(info), type, found->second});
    index.erase(found);
  }
  // A tensor that nobody reads would hide a model that is computed otherwise.
  for (const auto& [name, number] : index) {
    if (!may_ignore(facts, files, name)) {
      return error(errc::unsupported,
                   fmt::format("cannot use the weights: expected only tensors of {}, "
                               "found {}",
                               name_of(facts.family), json_quote(tensors[number].name)));
    }
  }
  return out;
}

}  // namespace weir::models
