// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computes logits for models_reference.py: models_peer VOLUME TAG < PROMPTS.
///
/// The input has for each prompt a line of ids and a line of the ids that follow it. The
/// output has for each prompt a line of 256 logits behind it, a line of the likeliest
/// id behind the prompt and behind each id but the last one, and a line of as many ids
/// that the model writes on its own: each is the likeliest behind the prompt and those
/// before it.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "weir/actors/model_weights.hpp"
#include "weir/actors/models.hpp"
#include "weir/models/configs.hpp"
#include "weir/models/llama.hpp"
#include "weir/runtime/engine.hpp"

namespace {

using weir::or_throw;

/// Prompts that are computed together.
constexpr std::size_t batch = 8;
/// Logits that are printed of each prompt.
constexpr std::size_t printed_logits = 256;

/// Ids that are fed behind a prompt, and the likeliest id behind the prompt and each.
struct continuation {
  weir::models::context_id context{};
  std::vector<std::uint32_t> fed;
  std::vector<std::uint32_t> best;
};

struct prompt {
  std::vector<std::uint32_t> ids;
  continuation forced;  ///< by the ids of the input
  continuation own;     ///< by the likeliest ids
  std::vector<float> logits;
};

std::vector<std::uint32_t> ids_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; in >> id;) {
    ids.push_back(id);
  }
  return ids;
}

std::uint32_t best_of(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) -
                                    logits.begin());
}

/// Opens a context for all ids, feeds the prompt, and returns the logits behind it.
std::vector<float> begin(weir::models::step_model& model,
                         const std::vector<std::uint32_t>& ids, std::size_t steps,
                         continuation& to) {
  to.context = or_throw(model.open_context(ids.size() + steps));
  const weir::models::row_group group{to.context, ids};
  const auto ticket = or_throw(model.submit({&group, 1}));
  const auto logits = or_throw(model.logits(ticket, 0));
  const std::vector<float> out(logits.begin(), logits.end());
  to.best.push_back(best_of(out));
  or_throw(model.finish(ticket));
  return out;
}

/// Feeds a prompt to both of its contexts.
void begin_both(weir::models::step_model& model, prompt& p) {
  const std::size_t steps = p.forced.fed.size();
  begin(model, p.ids, steps, p.own);
  const auto logits = begin(model, p.ids, steps, p.forced);
  for (std::size_t i = 0; i < printed_logits; ++i) {
    p.logits.push_back(logits[i * (logits.size() / printed_logits)]);
  }
}

/// Feeds the next id to both contexts of each prompt, all in one step.
void go_on(weir::models::step_model& model, std::span<prompt> prompts, std::size_t at) {
  std::vector<continuation*> all;
  for (prompt& p : prompts) {
    p.own.fed.push_back(p.own.best.back());
    all.insert(all.end(), {&p.forced, &p.own});
  }
  std::vector<weir::models::row_group> groups;
  for (const continuation* c : all) {
    groups.push_back({c->context, std::span(c->fed).subspan(at, 1)});
  }
  const auto ticket = or_throw(model.submit(groups));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->best.push_back(best_of(or_throw(model.logits(ticket, i))));
  }
  or_throw(model.finish(ticket));
}

void print_ids(const std::vector<std::uint32_t>& ids) {
  for (const std::uint32_t id : ids) {
    std::printf("%u ", id);
  }
  std::printf("\n");
}

void print(const prompt& p) {
  for (const float logit : p.logits) {
    std::printf("%.9g ", static_cast<double>(logit));
  }
  std::printf("\n");
  print_ids(p.forced.best);
  print_ids(p.own.best);
}

void run(const std::string& path, const std::string& tag) {
  const auto volume = or_throw(
      weir::storage::hn4_volume::open(or_throw(weir::storage::open_mapped_device(path)),
                                      weir::storage::device_mode::read_only));
  const auto stored = or_throw(weir::actors::model_in_volume::open(volume, tag));
  const auto weights = or_throw(weir::actors::model_weights::load(volume, stored));
  const auto engine = or_throw(weir::runtime::engine::create({}));
  const auto config = or_throw(weir::models::llama_config_of(stored.record().facts));
  const auto model = or_throw(weir::models::make_llama(*engine, config, *weights, {}));
  std::vector<prompt> prompts;
  for (std::string ids, forced; std::getline(std::cin, ids);) {
    std::getline(std::cin, forced);
    prompts.push_back({ids_of(ids), {{}, ids_of(forced), {}}, {}, {}});
  }
  for (std::size_t first = 0; first < prompts.size(); first += batch) {
    const std::span<prompt> some =
        std::span(prompts).subspan(first, std::min(batch, prompts.size() - first));
    for (prompt& p : some) {
      begin_both(*model, p);
    }
    for (std::size_t at = 0; at + 1 < some[0].forced.fed.size(); ++at) {
      go_on(*model, some, at);
    }
    for (prompt& p : some) {
      or_throw(model->close_context(p.forced.context));
      or_throw(model->close_context(p.own.context));
      print(p);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: models_peer VOLUME TAG < PROMPTS\n");
    return 2;
  }
  try {
    run(words[1], words[2]);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "models_peer: %s\n", failure.what());
    return 1;
  }
  return 0;
}
