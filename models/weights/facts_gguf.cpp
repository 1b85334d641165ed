// SPDX-License-Identifier: Apache-2.0
/// @file
/// Facts about models from the keys of GGUF files, and back.
/// @source{GGUF specification; llama.cpp b4000 and later, names of keys}
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "weir/base/text.hpp"
#include "weir/models/facts.hpp"

namespace weir::models {

namespace {

/// Reads the keys of one architecture, whose names begin with the name of it.
class gguf_facts_reader {
 public:
  // The keys must outlive the reader.
  gguf_facts_reader(const gguf_metadata& keys, std::string_view family)
      : keys_(keys), prefix_(family) {
    prefix_ += '.';
  }

  /// Reads a size that must be there. The error names the whole key.
  result<void> need(const char* key, std::uint32_t& to) const {
    WEIR_TRY(const auto found, size(key));
    if (!found) {
      return keys_.wrong(errc::corrupt, prefix_ + key, "a whole number", "no such key");
    }
    to = *found;
    return {};
  }
  /// Reads a size that may be absent.
  [[nodiscard]] result<std::optional<std::uint32_t>> size(const char* key) const {
    WEIR_TRY(const auto found, keys_.whole(prefix_ + key));
    if (found && *found > std::numeric_limits<std::uint32_t>::max()) {
      return keys_.wrong(errc::corrupt, prefix_ + key, "a number of at most 32 bits",
                         fmt::format("{}", *found));
    }
    return found ? std::optional(static_cast<std::uint32_t>(*found)) : std::nullopt;
  }
  // Real numbers have one type in GGUF.
  [[nodiscard]] result<std::optional<float>> real(const char* key) const {
    return keys_.real(prefix_ + key);
  }
  /// Refuses a property that the layers do not compute.
  [[nodiscard]] error refused(const char* key, std::string_view expected,
                              const std::string& found) const {
    return keys_.wrong(errc::unsupported, prefix_ + key, expected, found);
  }
  /// Refuses a size that has another value than the layers compute with.
  result<void> only(const char* key, std::uint32_t expected) const {
    WEIR_TRY(const auto found, size(key));
    if (found && *found != expected) {
      return refused(key, fmt::format("{}", expected), fmt::format("{}", *found));
    }
    return {};
  }
  // The text lives as long as the keys.
  [[nodiscard]] result<std::optional<std::string_view>> text(const char* key) const {
    return keys_.text(prefix_ + key);
  }

 private:
  const gguf_metadata& keys_;
  std::string prefix_;
};

/// Reads the keys that only decoders have. Values that files leave out are those that
/// llama.cpp takes.
result<void> read_llama_keys(const gguf_facts_reader& in, stored_facts& f) {
  WEIR_TRY(const auto kv_heads, in.size("attention.head_count_kv"));
  f.kv_heads = kv_heads.value_or(f.heads);
  WEIR_TRY(const auto head_width, in.size("attention.key_length"));
  f.head_width = head_width.value_or(f.heads == 0 ? 0 : f.width / f.heads);
  // The layers compute values as wide as keys, and turn whole heads.
  WEIR_CHECK(in.only("attention.value_length", f.head_width));
  WEIR_CHECK(in.only("rope.dimension_count", f.head_width));
  // Mixtures of experts are refused.
  WEIR_CHECK(in.only("expert_count", 0));
  WEIR_TRY(const auto scaling, in.text("rope.scaling.type"));
  if (scaling && *scaling != "none") {
    return in.refused("rope.scaling.type", "\"none\"", json_quote(*scaling));
  }
  WEIR_TRY(const auto base, in.real("rope.freq_base"));
  f.rope_base = base.value_or(10000.0F);
  // Without it no result would be right.
  WEIR_TRY(const auto epsilon, in.real("attention.layer_norm_rms_epsilon"));
  if (!epsilon) {
    return error(errc::corrupt,
                 "cannot use the GGUF header: expected the key "
                 "llama.attention.layer_norm_rms_epsilon, found none");
  }
  f.norm_epsilon = *epsilon;
  return {};
}

/// Reads the keys that only encoders have. The number of types of tokens belongs to the
/// tokenizer in this format.
result<void> read_bert_keys(const gguf_metadata& keys, const gguf_facts_reader& in,
                            stored_facts& f) {
  f.kv_heads = f.heads;
  f.head_width = f.heads == 0 ? 0 : f.width / f.heads;
  WEIR_TRY(const auto epsilon, in.real("attention.layer_norm_epsilon"));
  if (!epsilon) {
    return error(errc::corrupt,
                 "cannot use the GGUF header: expected the key "
                 "bert.attention.layer_norm_epsilon, found none");
  }
  f.norm_epsilon = *epsilon;
  WEIR_TRY(const auto types, keys.whole("tokenizer.ggml.token_type_count"));
  // A number without 32 bits is refused by the check of the facts.
  f.token_types = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      types.value_or(2), std::numeric_limits<std::uint32_t>::max()));
  WEIR_TRY(const auto pool, in.size("pooling_type"));
  // Later kinds of pooling are not computed.
  if (pool.value_or(0) > 2) {
    return in.refused("pooling_type", "0 (none), 1 (mean) or 2 (first token)",
                      fmt::format("{}", *pool));
  }
  f.pool = static_cast<pooling>(pool.value_or(0));
  return {};
}

/// Reads an id of a token. An id that is no token could not be looked up.
result<std::optional<std::uint32_t>> token_id(const gguf_metadata& keys, const char* key,
                                              std::uint32_t vocabulary) {
  WEIR_TRY(const auto id, keys.whole(key));
  if (id && *id >= vocabulary) {
    return keys.wrong(errc::corrupt, key, fmt::format("an id below {}", vocabulary),
                      fmt::format("{}", *id));
  }
  return id ? std::optional(static_cast<std::uint32_t>(*id)) : std::nullopt;
}

/// Reads the architecture. The name also is the prefix of the other keys.
result<architecture> family_of(const gguf_metadata& keys) {
  constexpr const char* key = "general.architecture";
  WEIR_TRY(const auto found, keys.text(key));
  if (found == "llama") {
    return architecture::llama;
  }
  if (found == "bert") {
    return architecture::bert;
  }
  return keys.wrong(found ? errc::unsupported : errc::corrupt, key,
                    "\"llama\" or \"bert\"",
                    found ? json_quote(found->substr(0, 60)) : "no such key");
}

/// Returns whether a file has a tensor. The list is short, and is searched once.
bool has_tensor(std::span<const named_tensor> tensors, std::string_view name) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const named_tensor& t) { return t.name == name; });
}

}  // namespace

// The vocabulary is the number of rows of the token embedding: the key for it is optional
// and the list of tokens belongs to the tokenizer.
result<stored_facts> facts_of_gguf(const gguf_metadata& keys,
                                   std::span<const named_tensor> tensors) {
  stored_facts f;
  WEIR_TRY(f.family, family_of(keys));
  WEIR_TRY(const auto name, keys.text("general.name"));
  f.name = name.value_or("");
  // All other names begin with that of the architecture.
  const gguf_facts_reader in(keys, name_of(f.family));
  WEIR_CHECK(in.need("block_count", f.layers));
  WEIR_CHECK(in.need("embedding_length", f.width));
  WEIR_CHECK(in.need("feed_forward_length", f.feed_forward));
  WEIR_CHECK(in.need("attention.head_count", f.heads));
  WEIR_CHECK(in.need("context_length", f.context_limit));
  // The dimensions are in the order of this project: rows first.
  const auto embedding =
      std::find_if(tensors.begin(), tensors.end(),
                   [](const named_tensor& t) { return t.name == "token_embd.weight"; });
  if (embedding == tensors.end() || embedding->shape.size() != 2) {
    return error(errc::corrupt,
                 fmt::format("cannot use the weights: expected a tensor "
                             "\"token_embd.weight\" of 2 dimensions, found {}",
                             embedding == tensors.end() ? "none" : "another shape"));
  }
  f.vocabulary = static_cast<std::uint32_t>(std::min<std::int64_t>(
      embedding->shape[0], std::numeric_limits<std::uint32_t>::max()));
  if (f.family == architecture::llama) {
    WEIR_CHECK(read_llama_keys(in, f));
    // A decoder without an output takes its embedding for it.
    f.tied_embedding = !has_tensor(tensors, "output.weight");
    WEIR_TRY(f.begin_token, token_id(keys, "tokenizer.ggml.bos_token_id", f.vocabulary));
    WEIR_TRY(f.end_token, token_id(keys, "tokenizer.ggml.eos_token_id", f.vocabulary));
  } else {
    WEIR_CHECK(read_bert_keys(keys, in, f));
  }
  WEIR_CHECK(check_facts(f));
  return f;
}

/// The keys are those that llama.cpp reads.
void add_gguf_keys(const stored_facts& f, gguf_maker& to) {
  const std::string prefix = fmt::format("{}.", name_of(f.family));
  to.text("general.architecture", name_of(f.family));
  if (!f.name.empty()) {
    to.text("general.name", f.name);
  }
  // Keys that both architectures have.
  to.whole(prefix + "block_count", f.layers);
  to.whole(prefix + "context_length", f.context_limit);
  to.whole(prefix + "embedding_length", f.width);
  to.whole(prefix + "feed_forward_length", f.feed_forward);
  to.whole(prefix + "attention.head_count", f.heads);
  // The rest belongs to encoders only.
  if (f.family == architecture::bert) {
    to.real(prefix + "attention.layer_norm_epsilon", f.norm_epsilon);
    to.boolean(prefix + "attention.causal", false);
    to.whole(prefix + "pooling_type", static_cast<std::uint32_t>(f.pool));
    to.whole("tokenizer.ggml.token_type_count", f.token_types);
    return;
  }
  // Decoders get every key whose usual value could be another one.
  to.whole(prefix + "attention.head_count_kv", f.kv_heads);
  to.whole(prefix + "attention.key_length", f.head_width);
  to.whole(prefix + "attention.value_length", f.head_width);
  to.whole(prefix + "rope.dimension_count", f.head_width);
  to.real(prefix + "rope.freq_base", f.rope_base);
  to.real(prefix + "attention.layer_norm_rms_epsilon", f.norm_epsilon);
  to.whole(prefix + "vocab_size", f.vocabulary);
}

}  // namespace weir::models
