// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs `weir generate`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "texts/lines.hpp"
#include "texts/load.hpp"
#include "texts/progress.hpp"
#include "texts/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/models/token_sampling.hpp"

namespace weir::tools {

namespace {

/// Rows of a step. More prompts than this in a batch make it larger.
constexpr std::uint32_t rows_of_step = 128;

/// A prompt and the answer to it.
struct prompt_answer {
  std::uint64_t line = 0;
  std::vector<std::uint32_t> tokens;  ///< the prompt, and behind it the answer
  std::size_t prompt = 0;             ///< tokens of the prompt
  std::size_t limit = 0;              ///< most tokens of the answer
  std::size_t submitted = 0;          ///< tokens that the model has
  std::uint64_t seed = 0;
  models::context_id context;
  bool stopped = false;  ///< the model has ended the answer

  [[nodiscard]] std::size_t drawn() const noexcept { return tokens.size() - prompt; }
  [[nodiscard]] bool ended() const noexcept { return stopped || drawn() == limit; }
};

/// Answers prompts, many at a time.
class answer_maker {
 public:
  answer_maker(models::step_model& model, const generate_options& options,
               std::optional<std::uint32_t> end_token)
      : model_(model), end_token_(end_token), options_(options) {
    sampling_.temperature = static_cast<float>(options.temperature);
  }

  /// Opens the context of a prompt. Tokens with which earlier prompts began are not
  /// computed again.
  /// @error{out_of_memory, the answers that are open need the memory}
  result<prompt_answer> open(const token_document& document) {
    prompt_answer out;
    out.line = document.line;
    out.tokens = document.ids;
    out.prompt = document.ids.size();
    out.limit = static_cast<std::size_t>(std::min<std::uint64_t>(
        options_.max_tokens, model_.facts().max_context - out.prompt));
    out.seed = options_.seed + document.line - 1;
    WEIR_TRY(out.context, model_.open_context(out.prompt + out.limit));
    WEIR_TRY(out.submitted, model_.reuse_prefix(out.context, document.ids));
    return out;
  }

  /// Completes answers and closes their contexts.
  result<void> complete(std::vector<prompt_answer>& answers) {
    for (;;) {
      WEIR_TRY(const bool more, step(answers));
      if (!more) {
        break;
      }
    }
    for (const prompt_answer& a : answers) {
      WEIR_CHECK(model_.close_context(a.context));
    }
    return {};
  }
  /// Returns the tokens of prompts and answers so far.
  [[nodiscard]] std::uint64_t tokens() const noexcept { return tokens_; }

 private:
  /// Adds rows to all answers that have not ended, as far as a step has room. Returns
  /// false if all have ended.
  result<bool> step(std::vector<prompt_answer>& answers) {
    std::vector<models::row_group> groups;
    std::vector<prompt_answer*> owners;
    std::size_t room = model_.facts().max_rows;
    for (prompt_answer& a : answers) {
      const std::size_t rows = std::min(room, a.tokens.size() - a.submitted);
      if (a.ended() || rows == 0) {
        continue;
      }
      groups.push_back({a.context, std::span(a.tokens).subspan(a.submitted, rows),
                        a.submitted + rows == a.tokens.size()});
      owners.push_back(&a);
      room -= rows;
    }
    if (groups.empty()) {
      return false;
    }
    WEIR_TRY(const auto ticket, model_.submit(groups));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      owners[i]->submitted += groups[i].tokens.size();
      tokens_ += groups[i].tokens.size();
      if (groups[i].wants_logits) {
        WEIR_TRY(const std::span<const float> logits, model_.logits(ticket, i));
        draw(*owners[i], logits);
      }
    }
    WEIR_CHECK(model_.finish(ticket));
    return true;
  }

  void draw(prompt_answer& a, std::span<const float> logits) {
    sampling_.seed = a.seed;
    const std::uint32_t id = models::draw_token(logits, a.tokens, sampling_, a.drawn());
    a.stopped = end_token_ == id;
    if (!a.stopped) {
      a.tokens.push_back(id);
    }
  }

  models::step_model& model_;
  std::optional<std::uint32_t> end_token_;
  const generate_options& options_;
  models::sampling_options sampling_;
  std::uint64_t tokens_ = 0;
};

/// What a run has done.
struct generate_summary {
  std::uint64_t answers = 0, stopped = 0, tokens = 0, bytes = 0;
  double seconds = 0;
};

/// Writes answers as lines of JSON.
class answer_file {
 public:
  answer_file(file& to, const formats::tokenizer& tokens, generate_summary& summary)
      : to_(to), tokens_(tokens), summary_(summary) {}

  result<void> write(std::span<const prompt_answer> answers) {
    std::string lines;
    for (const prompt_answer& a : answers) {
      WEIR_TRY(const std::string text,
               tokens_.decode(std::span(a.tokens).subspan(a.prompt)));
      lines += fmt::format(
          "{{\"line\": {}, \"text\": {}, \"tokens\": {}, \"finish\": \"{}\", \"seed\": "
          "{}}}\n",
          a.line, json_quote(text), a.drawn(), a.stopped ? "stop" : "length", a.seed);
      ++summary_.answers;
      summary_.stopped += a.stopped ? 1 : 0;
      summary_.tokens += a.drawn();
    }
    WEIR_CHECK(write_all(to_, summary_.bytes, as_view(lines)));
    summary_.bytes += lines.size();
    return {};
  }

 private:
  file& to_;
  const formats::tokenizer& tokens_;
  generate_summary& summary_;
};

/// Answers the prompts of a reader, one batch behind another.
result<void> answer_prompts(document_reader& prompts, answer_maker& maker,
                            std::size_t batch, answer_file& to,
                            const generate_summary& summary, text_progress& progress) {
  std::optional<token_document> next;
  std::vector<prompt_answer> answers;
  for (;;) {
    if (!next) {
      WEIR_TRY(next, prompts.next());
    }
    if (next) {
      auto opened = maker.open(*next);
      if (opened) {
        answers.push_back(std::move(*opened));
        next.reset();
      } else if (opened.error().code() != errc::out_of_memory || answers.empty()) {
        return std::move(opened).error().hint(
            "--context-tokens is the memory of a batch");
      }
      if (!next && answers.size() < batch) {
        continue;
      }
    }
    if (answers.empty()) {
      return {};
    }
    WEIR_CHECK(maker.complete(answers));
    WEIR_CHECK(to.write(answers));
    answers.clear();
    progress.show(summary.answers, maker.tokens());
  }
}

void print_generate_summary(const std::string& tag, const generate_summary& s,
                            std::uint64_t skipped, const generate_options& options,
                            output& out) {
  if (options.json) {
    nlohmann::ordered_json facts;
    facts["tag"] = tag;
    facts["answers"] = s.answers;
    facts["stopped"] = s.stopped;
    facts["skipped"] = skipped;
    facts["tokens"] = s.tokens;
    facts["bytes"] = s.bytes;
    facts["seconds"] = s.seconds;
    out.write(facts.dump() + "\n");
    return;
  }
  out.print("{}: {} of {} in {}, {} skipped\n", tag, counted(s.answers, "answer"),
            counted(s.tokens, "token"), options.out, counted(skipped, "line"));
}

}  // namespace

command_result generate_command(const generate_options& options, output& out) {
  WEIR_CHECK(refuse_output_over(options.prompts, options.out));
  WEIR_TRY(const auto loaded, load_model(options.volume, options.tag,
                                         models::architecture::llama, options.workers));
  models::llama_options memory;
  memory.context_tokens = options.context_tokens;
  memory.max_rows = std::max(rows_of_step, options.batch);
  WEIR_TRY(const auto model, decoder_of(*loaded, memory));
  const actors::model_record& record = loaded->stored.record();
  bad_lines bad(options.skip_bad);
  document_rules rules;
  rules.field = options.field;
  // At least one token of an answer must fit behind a prompt.
  rules.max_tokens = model->facts().max_context - 1;
  rules.truncate = options.truncate;
  rules.begin_token = record.facts.begin_token;
  WEIR_TRY(auto prompts,
           document_reader::open(options.prompts, loaded->tokens, rules, bad));
  answer_maker maker(*model, options, record.facts.end_token);
  generate_summary summary;
  const auto fill = [&](file& to) -> result<void> {
    answer_file answers(to, loaded->tokens, summary);
    text_progress progress("answers");
    WEIR_CHECK(answer_prompts(prompts, maker, options.batch, answers, summary, progress));
    summary.seconds = progress.seconds();
    return {};
  };
  WEIR_CHECK(write_file_atomically(posix_file_system(), options.out, fill));
  WEIR_CHECK(bad.write());
  print_generate_summary(record.tag, summary, bad.count(), options, out);
  return 0;
}

}  // namespace weir::tools
