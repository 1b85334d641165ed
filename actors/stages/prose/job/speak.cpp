// SPDX-License-Identifier: Apache-2.0
/// @file
/// Continuing a prompt: the model reads the prompt, and then each token that was drawn
/// from its predictions.
///
/// A prompt is fed in chunks of the model's size, and each drawn token alone. The model
/// computes the prediction of the next token with each pulse; `pending_logits` returns
/// it.
#include "weir/actors/speak.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "stages/prose/job/stored_model.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/prose_contexts.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::actors {

namespace {

/// Stream of random numbers for drawing tokens; other streams initialise parameters.
constexpr std::uint64_t speak_stream = 0x737065616B;  // "speak"

/// A context that reads tokens and gives the logits behind them.
class reader {
 public:
  reader(models::step_model& model, models::context_id context)
      : model_(model), context_(context) {}

  /// Reads tokens, at least one, and returns the logits behind the last one.
  [[nodiscard]] result<std::vector<float>> read(std::span<const std::uint32_t> tokens) {
    std::vector<float> logits;
    while (!tokens.empty()) {
      const std::size_t count =
          std::min<std::size_t>(tokens.size(), model_.facts().max_rows);
      const models::row_group group{context_, tokens.first(count),
                                    count == tokens.size()};
      WEIR_TRY(const models::step_ticket ticket, model_.submit({&group, 1}));
      if (group.wants_logits) {
        WEIR_TRY(const std::span<const float> found, model_.logits(ticket, 0));
        logits.assign(found.begin(), found.end());
      }
      WEIR_CHECK(model_.finish(ticket));
      tokens = tokens.subspan(count);
    }
    return logits;
  }

 private:
  models::step_model& model_;
  models::context_id context_;
};

/// Opens a run folder, with the context of its checkpoint, or parameters in a volume.
/// @param with_context  Set to whether the model continues the text of a run.
result<stored_model> open_model(const speak_request& request, bool* with_context) {
  std::error_code failure;
  if (!std::filesystem::exists(request.source, failure)) {
    return error(
        errc::not_found,
        fmt::format("opening {} failed: expected a run folder or a volume, found nothing",
                    request.source));
  }
  *with_context = std::filesystem::is_directory(request.source, failure);
  if (*with_context) {
    return open_stored_model(request.source, request.kernels);
  }
  WEIR_TRY(const auto parameters, load_parameters(request.source, request.tag));
  return model_with(parameters, 1, request.kernels);
}

/// Refuses a model of a tokenizer: a prompt is bytes, and its ids are no bytes.
result<void> check_reads_bytes(const models::prose& model, const std::string& source) {
  const std::uint32_t vocabulary = model.config().vocab;
  if (vocabulary <= storage::byte_vocabulary) {
    return {};
  }
  return error(errc::unsupported,
               fmt::format("speaking failed for {}: expected a model of bytes, with ids "
                           "from 0 to {}, found one with ids from 0 to {}",
                           source, storage::end_of_text, vocabulary - 1))
      .hint("`weir sessions` takes and gives ids of a tokenizer");
}

/// Returns a token as text. An end-of-text token ends the line.
/// @pre The token is a byte or the end of text.
std::string text_of_token(std::uint32_t token) {
  return token == storage::end_of_text ? "\n" : std::string(1, static_cast<char>(token));
}

}  // namespace

/// Continues a text. Each token is drawn from the pending prediction and fed back before
/// the next one. The random numbers depend only on the seed and the number of the token,
/// so what other requests do has no influence.
result<speak_report> speak(const speak_request& request,
                           const std::function<bool(std::string_view)>& on_text) {
  // The form of the comparison refuses NaN, too.
  if (!(request.temperature >= 0)) {
    return error(
        errc::invalid_argument,
        fmt::format("speaking failed for the temperature: expected at least 0, found {}",
                    request.temperature));
  }
  speak_report report;
  WEIR_TRY(auto stored, open_model(request, &report.with_context));
  models::prose& model = *stored.model;
  report.instruction_set = model.instruction_set();
  WEIR_CHECK(check_reads_bytes(model, request.source));
  const std::int64_t start = now_ns();
  const auto contexts = models::make_prose_contexts(model);
  WEIR_TRY(const models::context_id context, contexts->continue_lane(0));
  reader text(*contexts, context);
  std::vector<std::uint32_t> tokens;
  // A prompt is bytes, which are the ids of the model.
  for (const char c : request.prompt) {
    tokens.push_back(static_cast<unsigned char>(c));
  }
  // Without a prompt, the prediction behind the last token of the run is continued.
  auto logits = tokens.empty() ? model.pending_logits(0) : text.read(tokens);
  if (!logits && tokens.empty()) {
    return error(errc::invalid_argument,
                 "speaking failed: expected a prompt, because the model has no pending "
                 "prediction to continue from, found an empty one")
        .because(logits.error());
  }
  const philox random(request.seed, speak_stream);
  while (report.tokens < request.tokens) {
    if (!logits) {
      return std::move(logits).error();
    }
    // The number of the token is the counter of the random numbers.
    const std::uint32_t token = models::sample(
        *logits, static_cast<float>(request.temperature), random, report.tokens);
    report.text += text_of_token(token);
    ++report.tokens;
    logits = text.read({&token, 1});
    if (on_text && !on_text(text_of_token(token))) {
      break;
    }
  }
  if (!logits) {
    return std::move(logits).error();
  }
  report.seconds = seconds_since(start);
  WEIR_TRY(report.parameter_hash, model.parameter_hash());
  WEIR_TRY(report.context_hash, model.context_hash());
  WEIR_TRY(report.largest_memory, model.largest_memory());
  return report;
}

}  // namespace weir::actors
