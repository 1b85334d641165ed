// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns facts of files into configurations of models.
#include "weir/models/configs.hpp"

#include <fmt/format.h>

namespace weir::models {

namespace {

/// A caller has picked the wrong model.
error other_family(architecture expected, const stored_facts& facts) {
  return error(
      errc::invalid_argument,
      fmt::format("cannot configure a model: expected the architecture {}, found "
                  "{}",
                  name_of(expected), name_of(facts.family)));
}

/// Returns the error for a sound file whose sizes the layers do not compute.
error refused_sizes(const stored_facts& facts, error cause) {
  return error(errc::unsupported,
               fmt::format("cannot compute a model of {} layers of {} features: expected "
                           "sizes of the layers of this project, found others",
                           facts.layers, facts.width))
      .because(std::move(cause));
}

}  // namespace

/// The facts are checked, but the layers know fewer sizes than files can have.
result<llama_config> llama_config_of(const stored_facts& f) {
  if (f.family != architecture::llama) {
    return other_family(architecture::llama, f);
  }
  // Layers take the query as wide as the residual stream.
  if (std::uint64_t{f.heads} * f.head_width != f.width) {
    return error(errc::unsupported,
                 fmt::format("cannot compute the model: expected heads of {} features "
                             "together, found {} of {}",
                             f.width, f.heads, f.head_width));
  }
  llama_config c;
  c.vocab = f.vocabulary;
  c.width = f.width;
  c.hidden = f.feed_forward;
  c.layers = f.layers;
  c.heads = f.heads;
  c.kv_heads = f.kv_heads;
  c.max_context = f.context_limit;
  c.rope_base = f.rope_base;
  c.epsilon = f.norm_epsilon;
  c.tied = f.tied_embedding;
  // The check of the configuration knows the limits of the kernels.
  if (auto good = check_config(c); !good) {
    return refused_sizes(f, std::move(good).error());
  }
  return c;
}

/// Encoders have as many heads of keys as of queries, which the facts say already.
result<bert_config> bert_config_of(const stored_facts& f) {
  if (f.family != architecture::bert) {
    return other_family(architecture::bert, f);
  }
  bert_config c;
  c.vocab = f.vocabulary;
  c.width = f.width;
  c.hidden = f.feed_forward;
  c.layers = f.layers;
  c.heads = f.heads;
  c.max_tokens = f.context_limit;
  c.epsilon = f.norm_epsilon;
  c.token_types = f.token_types;
  if (auto good = check_config(c); !good) {
    return refused_sizes(f, std::move(good).error());
  }
  return c;
}

}  // namespace weir::models
