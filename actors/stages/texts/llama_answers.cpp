// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `llama.answers`: continues prompts with a decoder.
///
/// All prompts of an item are answered at the same time: each step of the model has rows
/// of every open answer, either a part of its prompt or its newest token. A step is
/// submitted as a task; when it has ended, a token is drawn for each answer whose prompt
/// is complete. An answer depends on its prompt and its seed alone, so batching changes
/// no bit.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "stages/texts/bad_lines.hpp"
#include "stages/texts/factories.hpp"
#include "stages/texts/items.hpp"
#include "stages/texts/volume_model.hpp"
#include "weir/actors/model_weights.hpp"
#include "weir/base/text.hpp"
#include "weir/models/configs.hpp"
#include "weir/models/llama.hpp"
#include "weir/models/token_sampling.hpp"

namespace weir::actors {
namespace {

/// Advice for a prompt that is too long for the memory.
constexpr std::string_view memory_advice =
    "kv_memory and context_tokens of llama.answers, which `weir generate` has as "
    "--kv-memory and --context-tokens, set this memory; a run that begins with "
    "--skip-bad "
    "FILE, or with bad = \"list\", lists such prompts and goes on";

/// See the table.
struct answer_settings {
  volume_model_settings model;
  std::uint64_t max_tokens = 256;
  double temperature = 0;
  std::uint64_t seed = 1;
  std::uint64_t context_tokens = 0;
  std::uint64_t kv_memory = 0;
  std::uint32_t rows = 128;
  line_policy bad = line_policy::stop;
};

/// Settings of the model, of drawing, and of memory and speed.
settings_table<answer_settings> answer_table() {
  settings_table<answer_settings> table("the stage llama.answers");
  constexpr std::int64_t most = std::int64_t{1} << 32;
  table.include("", &answer_settings::model, volume_model_table(), {});
  // Length, temperature and seed decide about the text of an answer.
  table.add("max_tokens", &answer_settings::max_tokens, "tokens of the longest answer")
      .range(1, most)
      .unit("tokens");
  table
      .add("temperature", &answer_settings::temperature,
           "divides the logits; 0 takes the likeliest token")
      .range(0, 100);
  table.add("seed", &answer_settings::seed,
            "line N of a file draws with this seed + N - 1; behind 2^63-1 comes 0");
  // The other settings never change a result.
  table
      .add("context_tokens", &answer_settings::context_tokens,
           "tokens of all texts that are answered together; 0: as many as kv_memory "
           "holds; never changes a result")
      .range(0, most)
      .unit("tokens")
      .may_change();
  table
      .add("kv_memory", &answer_settings::kv_memory,
           "memory of keys and values of these texts; 0: a quarter of the memory that "
           "is available, at most 4 GiB; never changes a result")
      .range(0, std::int64_t{1} << 44)
      .unit("bytes")
      .may_change();
  table
      .add("rows", &answer_settings::rows,
           "tokens of a step of the model; never changes a result")
      .range(1, 1 << 14)
      .may_change();
  table.add("bad", &answer_settings::bad,
            {{"stop", line_policy::stop}, {"list", line_policy::list}},
            "stop: the run ends at a prompt that is too long for the memory; list: it "
            "leaves through the outlet bad");
  return table;
}

/// A prompt and the answer to it.
struct prompt_answer {
  std::uint64_t line = 0;
  std::vector<std::uint32_t> tokens;  ///< the prompt, and behind it the answer
  std::size_t prompt = 0;             ///< tokens of the prompt
  std::size_t limit = 0;              ///< most tokens of the answer
  std::size_t submitted = 0;          ///< tokens that the model has
  std::uint64_t seed = 0;
  models::context_id context{};  ///< open if its value is not 0
  bool stopped = false;          ///< the model has ended the answer

  /// Tokens of the answer so far.
  [[nodiscard]] std::size_t drawn() const noexcept { return tokens.size() - prompt; }
  /// Nothing more is drawn for it.
  [[nodiscard]] bool ended() const noexcept { return stopped || drawn() == limit; }
};

/// A stage with a loop: `on_step` is called until it returns false.
class llama_answers final : public flow::stage_object {
 public:
  explicit llama_answers(answer_settings settings) : settings_(std::move(settings)) {}

  /// Opens the model and its tokenizer.
  result<void> open(opening& run) override {
    WEIR_TRY(const volume_model model,
             volume_model::open(run, settings_.model, models::architecture::llama));
    // The record says which architecture and which ids the model has.
    const model_record& record = model.stored.record();
    digest_ = record.digest;
    end_token_ = record.facts.end_token;
    WEIR_TRY(auto tokens, model.stored.tokenizer());
    tokens_.emplace(std::move(tokens));
    // The weights stay mapped as long as the stage lives.
    WEIR_TRY(weights_, model_weights::load(model.volume, model.stored));
    WEIR_TRY(const models::llama_config config, models::llama_config_of(record.facts));
    models::llama_options options;
    options.context_tokens = settings_.context_tokens;
    options.kv_memory = settings_.kv_memory;
    options.kernels = run.kernels();
    options.max_rows = settings_.rows;
    engine_ = &run.host().base();
    WEIR_TRY(model_, models::make_llama(*engine_, config, *weights_, options));
    // The seed is that of each answer and is set before it draws.
    sampling_.temperature = static_cast<float>(settings_.temperature);
    return models::check_options(sampling_, config.vocab);
  }

  /// Begins an item: its prompts become answers without tokens.
  result<void> on_item(step& s) override {
    // Another stage than text.tokens may list lines without making texts.
    if (!s.has(any_in{0})) {
      drop_failed();
      return take_list(s);
    }
    // Behind a stage with tasks the ids may still be written.
    if (!s.complete(any_in{0})) {
      WEIR_CHECK(engine_->wait(s[any_in{0}]));
    }
    WEIR_TRY(const token_item item, read_token_item(s[any_in{0}]));
    // Ids mean something only for the tokenizer of the same model.
    if (item.model != digest_) {
      return error(
          errc::config_mismatch,
          fmt::format("cannot use prompts of {}: expected token ids for the "
                      "model {}, found some for {}",
                      json_quote(item.from.name), hex64(digest_), hex64(item.model)));
    }
    // The item before may have failed in the middle.
    drop_failed();
    WEIR_CHECK(take_list(s));
    std::string bad;
    for (const token_text& text : item.texts) {
      const auto entered = enter(text);
      if (entered) {
        continue;
      }
      if (settings_.bad == line_policy::stop) {
        return line_error(item.from.name, text.line, entered.error())
            .hint(std::string(memory_advice));
      }
      bad += listed_line(item.from.name, text.line, text.offset, entered.error().text());
      ++skipped_;
    }
    bad_ = merge_lists(bad_, bad);
    return {};
  }
  /// Takes the result of the step before, and submits the next one. The item is emitted
  /// when no answer is open.
  result<bool> on_step(step& s) override {
    // The result of the step before, memory for further prompts, and the next step.
    WEIR_CHECK(collect());
    WEIR_CHECK(open_contexts());
    WEIR_CHECK(submit_step(s));
    // The step is called again when the task of the ticket has ended.
    if (ticket_) {
      return true;
    }
    // No step was submitted, so all answers have ended.
    WEIR_TRY(const std::string lines, lines_of_answers());
    const auto count = static_cast<std::int64_t>(lines.size());
    // Memory that `make_bytes` returns has no users, so it is written without a task.
    WEIR_TRY(const runtime::tensor to, s.make_bytes(0, dtype::uint8, {&count, 1}));
    std::copy(lines.begin(), lines.end(), to.as<char>());
    WEIR_CHECK(add_list(s));
    WEIR_CHECK(s.emit());
    return false;
  }
  /// Figures of this process.
  void report(figures& to) const override {
    to.set("answers", done_);
    to.set("stopped", stopped_);
    to.set("skipped", skipped_);
    to.set("answer_tokens", drawn_);
    to.set("tokens", processed_);
    to.set("bytes", bytes_);
    // The figures exist before the model is opened.
    to.set("context_tokens", model_ ? model_->facts().context_tokens : 0);
    to.set("copied_bytes", weights_ ? weights_->copied_bytes() : 0);
    to.set("instruction_set", std::string(model_ ? model_->facts().instruction_set : ""));
  }

 private:
  /// Gives back the step and the contexts of an item that has failed.
  void drop_failed() {
    if (ticket_) {
      static_cast<void>(model_->finish(*ticket_));  // its failure is known
      ticket_.reset();
    }
    for (const prompt_answer& a : answers_) {
      if (a.context.value != 0) {
        static_cast<void>(model_->close_context(a.context));  // it is open
      }
    }
    answers_.clear();
    opened_ = 0;
  }
  /// Takes the list of the inlet `listed`. Without bad lines in front, it has a gap.
  result<void> take_list(step& s) {
    bad_.clear();
    if (settings_.bad == line_policy::stop || !s.has(any_in{1})) {
      return {};
    }
    if (!s.complete(any_in{1})) {
      WEIR_CHECK(engine_->wait(s[any_in{1}]));
    }
    const runtime::tensor& list = s[any_in{1}];
    bad_.assign(list.as<char>(), static_cast<std::size_t>(list.count()));
    return {};
  }
  /// Adds the list of bad lines to the item, if there are any.
  result<void> add_list(step& s) {
    if (bad_.empty()) {
      return {};
    }
    const auto count = static_cast<std::int64_t>(bad_.size());
    WEIR_TRY(const runtime::tensor to, s.make_bytes(1, dtype::uint8, {&count, 1}));
    std::copy(bad_.begin(), bad_.end(), to.as<char>());
    return {};
  }
  result<void> enter(const token_text& text);
  result<void> collect();
  result<void> open_contexts();
  result<void> submit_step(step& s);
  result<std::string> lines_of_answers();
  result<void> draw(prompt_answer& a, std::span<const float> logits);

  answer_settings settings_;
  runtime::engine* engine_ = nullptr;
  std::optional<formats::tokenizer> tokens_;
  /// Must outlive the model.
  std::unique_ptr<model_weights> weights_;
  std::unique_ptr<models::step_model> model_;
  models::sampling_options sampling_;
  /// Token with which the model ends an answer, if it has one.
  std::optional<std::uint32_t> end_token_;
  /// Digest of the weights.
  std::uint64_t digest_ = 0;

  std::vector<prompt_answer> answers_;  ///< of the item
  std::size_t opened_ = 0;              ///< answers whose contexts were opened
  std::string bad_;                     ///< list of the bad lines of the item
  /// The step that is computed at the moment.
  std::optional<models::step_ticket> ticket_;
  /// The answers of the groups of the step, and whether their logits are wanted.
  std::vector<std::pair<prompt_answer*, bool>> groups_;

  /// Answers that were handed on, and those of them that the model has ended.
  std::uint64_t done_ = 0;
  std::uint64_t stopped_ = 0;
  std::uint64_t skipped_ = 0;    ///< prompts that were listed and not answered
  std::uint64_t bytes_ = 0;      ///< of the lines
  std::uint64_t drawn_ = 0;      ///< tokens of answers
  std::uint64_t processed_ = 0;  ///< tokens of prompts and answers
};

/// Adds a prompt. The answer is limited by the setting and by the context of the model.
/// A prompt that has to wait for the memory of others is entered. One for which all
/// memory together is too small would wait forever, and is refused.
result<void> llama_answers::enter(const token_text& text) {
  const std::uint64_t most = model_->facts().max_context;
  // A text of the largest length leaves no room for an answer.
  if (text.ids.size() >= most) {
    return error(
        errc::out_of_range,
        fmt::format("cannot answer the prompt: expected fewer than {} tokens, found "
                    "{}",
                    most, text.ids.size()));
  }
  // At least one token of the answer fits.
  const std::uint64_t limit =
      std::min<std::uint64_t>(settings_.max_tokens, most - text.ids.size());
  const std::uint64_t available = model_->facts().context_tokens;
  if (text.ids.size() + limit > available) {
    return error(
        errc::out_of_memory,
        fmt::format("cannot answer the prompt: expected memory of keys and values for {} "
                    "tokens, {} of the prompt and up to {} of its answer, found memory "
                    "for {}",
                    text.ids.size() + limit, text.ids.size(), limit, available));
  }
  prompt_answer& a = answers_.emplace_back();
  a.line = text.line;
  a.tokens.assign(text.ids.begin(), text.ids.end());
  a.prompt = text.ids.size();
  a.limit = static_cast<std::size_t>(limit);
  // The seed follows from the line, so the order of the prompts does not matter.
  // Behind the largest seed that the setting takes comes 0.
  a.seed = (settings_.seed + text.line - 1) & std::uint64_t{INT64_MAX};
  return {};
}

/// Draws tokens from the logits of the step, which has ended.
result<void> llama_answers::collect() {
  if (!ticket_) {
    return {};
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto [answer, wants_logits] = groups_[i];
    // Parts of prompts have no logits of interest.
    if (wants_logits) {
      WEIR_TRY(const std::span<const float> logits, model_->logits(*ticket_, i));
      WEIR_CHECK(draw(*answer, logits));
    }
  }
  // Frees the memory of the step for the next one.
  WEIR_CHECK(model_->finish(*ticket_));
  ticket_.reset();
  // Contexts of ended answers are free for the next prompts.
  for (const auto& [answer, wants_logits] : groups_) {
    if (answer->ended()) {
      WEIR_CHECK(model_->close_context(answer->context));
      answer->context = {};
    }
  }
  return {};
}

/// Opens the contexts of the next prompts as long as there is memory. Tokens with which
/// earlier prompts began are not computed again.
result<void> llama_answers::open_contexts() {
  for (; opened_ < answers_.size(); ++opened_) {
    prompt_answer& a = answers_[opened_];
    // Memory for the whole answer is taken at once, so an open answer always ends.
    auto opened = model_->open_context(a.prompt + a.limit);
    if (!opened) {
      // An answer that ends gives memory back. All memory together suffices for each.
      const bool others = std::any_of(answers_.begin(), answers_.end(),
                                      [](const auto& o) { return o.context.value != 0; });
      if (opened.error().code() == errc::out_of_memory && others) {
        return {};
      }
      return std::move(opened).error();
    }
    // From here on the context belongs to the answer.
    a.context = *opened;
    WEIR_TRY(a.submitted, model_->reuse_prefix(a.context, a.tokens));
  }
  return {};
}

/// Submits a step with rows of all open answers, as far as a step has room.
/// Long prompts take several steps.
result<void> llama_answers::submit_step(step& s) {
  // The groups of the step before are not needed any more.
  groups_.clear();
  std::vector<models::row_group> groups;
  // Older answers come first, so they end as early as possible.
  std::size_t left = model_->facts().max_rows;
  for (prompt_answer& a : answers_) {
    // The rest of its prompt, or the newest token.
    const std::size_t rows = std::min(left, a.tokens.size() - a.submitted);
    // It waits for its context, or the step is full.
    if (a.context.value == 0 || rows == 0) {
      continue;
    }
    // Logits are needed behind the last known token alone.
    const bool wants_logits = a.submitted + rows == a.tokens.size();
    groups.push_back(
        {a.context, std::span(a.tokens).subspan(a.submitted, rows), wants_logits});
    groups_.emplace_back(&a, wants_logits);
    left -= rows;
  }
  if (groups.empty()) {
    return {};
  }
  // The model copies ids and groups.
  WEIR_TRY(ticket_, model_->submit(groups));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups_[i].first->submitted += groups[i].tokens.size();
    processed_ += groups[i].tokens.size();
  }
  // Steps end in order, so the last task stands for all of them.
  const task_id last = model_->last_task(*ticket_);
  s.adopt_tasks(last, last);
  return {};
}

/// Draws the next token of an answer. The token that ends it is not kept.
result<void> llama_answers::draw(prompt_answer& a, std::span<const float> logits) {
  // The number of the draw is the length of the answer so far, so a draw does not depend
  // on steps.
  sampling_.seed = a.seed;
  // A model may have more ids than its tokenizer, so that its size is a round number.
  const auto known =
      logits.first(std::min<std::size_t>(logits.size(), tokens_->vocabulary_size()));
  WEIR_TRY(const std::uint32_t id,
           models::draw_token(known, a.tokens, sampling_, a.drawn()));
  a.stopped = end_token_ == id;
  if (!a.stopped) {
    a.tokens.push_back(id);
  }
  return {};
}

/// Returns the lines of all answers of the item, in the order of the prompts.
result<std::string> llama_answers::lines_of_answers() {
  std::string lines;
  for (const prompt_answer& a : answers_) {
    // The prompt is not repeated.
    WEIR_TRY(const std::string text,
             tokens_->decode(std::span(a.tokens).subspan(a.prompt)));
    // The keys have a fixed order.
    lines += fmt::format(
        "{{\"line\": {}, \"text\": {}, \"tokens\": {}, \"finish\": \"{}\", \"seed\": "
        "{}}}\n",
        a.line, json_quote(text), a.drawn(), a.stopped ? "stop" : "length", a.seed);
    ++done_;
    stopped_ += a.stopped ? 1 : 0;
    drawn_ += a.drawn();
  }
  // The contexts were closed when the answers ended.
  answers_.clear();
  bytes_ += lines.size();
  return lines;
}

/// Further paragraphs of the reference of `llama.answers`.
constexpr std::string_view llama_answers_details =
    R"(Inlet `texts` takes the items of `text.tokens`: each text is a prompt, which the
model continues as it stands, without its chat template. Outlet `y`, of the type `u8[?]`,
has a line of JSON for each prompt, in their order: `line`, `text`, `tokens` of the
answer, `finish`, which is `stop` if the model ended the answer and `length` otherwise,
and `seed`. `json.write` appends them to a file in the form `lines`.

All prompts of an item are answered together, as far as there is memory. An answer depends
on its prompt and its seed alone, bit for bit.

A prompt that is with its longest answer too long for all memory of keys and values ends
the run. With `bad = "list"` it is left out instead: the stage then has an inlet `listed`,
which takes the list of bad lines of `text.tokens`, and an outlet `bad`, through which the
list leaves together with these prompts.)";

/// A small pipeline with `llama.answers`.
constexpr std::string_view llama_answers_example = R"([[stage]]
name = "lines"
use = "text.lines"
files = ["b.txt"]
bytes = 65536

[[stage]]
name = "tokens"
use = "text.tokens"
volume = "models.hn4"
tag = "decoder"
truncate = true

[[stage]]
name = "answers"
use = "llama.answers"
volume = "models.hn4"
tag = "decoder"
max_tokens = 4
from = "tokens.texts"

[[stage]]
name = "write"
use = "json.write"
path = "answers.jsonl"
form = "lines"
)";

}  // namespace

/// Makes the stage.
result<void> make_llama_answers(flow::described_stage& made,
                                const given_settings& given) {
  made.info.name = "llama.answers";
  made.info.documentation = "continues prompts with a decoder of the architecture Llama";
  // A stage with a loop: the flow calls it until the item is complete.
  made.info.face = flow::face::looping;
  made.info.stateless = true;
  made.info.details = llama_answers_details;
  made.info.example = llama_answers_example;
  WEIR_TRY(answer_settings settings,
           flow::read_settings(made.info, answer_table(), given));
  WEIR_TRY(flow::port_type texts, flow::port_type::parse(token_item_type));
  WEIR_TRY(flow::port_type lines, flow::port_type::parse("u8[?]"));
  // A line for each prompt; their lengths are not known before.
  made.info.ports = {{"texts", std::move(texts), true}, {"y", lines, false}};
  if (settings.bad == line_policy::list) {
    made.info.ports.insert(made.info.ports.begin() + 1, {"listed", lines, true});
    made.info.ports.push_back({"bad", lines, false});
    made.info.gaps = flow::gap_policy::pass;  // most items have no bad lines
  }
  made.object = std::make_unique<llama_answers>(std::move(settings));
  return {};
}

}  // namespace weir::actors
