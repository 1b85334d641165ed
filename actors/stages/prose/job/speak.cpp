// SPDX-License-Identifier: Apache-2.0
/// @file
/// Continuing a prompt: the model reads the prompt, and then each token that was drawn
/// from its predictions.
#include "weir/actors/speak.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "stages/prose/job/stored_model.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::actors {

namespace {

/// Stream of random numbers for drawing tokens; other streams initialise parameters.
constexpr std::uint64_t speak_stream = 0x737065616B;  // "speak"

/// Lets lane 0 of a model read tokens.
class lane_feeder {
 public:
  explicit lane_feeder(models::prose& model) : model_(model) {}

  /// Reads tokens. The prediction of the token behind the last one is then pending.
  [[nodiscard]] result<void> feed(std::span<const std::uint32_t> tokens) {
    while (!tokens.empty()) {
      const std::size_t n =
          std::min<std::size_t>(tokens.size(), model_.config().max_chunk);
      std::optional<std::uint32_t> next;
      if (n < tokens.size()) {
        next = tokens[n];
      }
      WEIR_CHECK(pulse(tokens.first(n), next));
      tokens = tokens.subspan(n);
    }
    return {};
  }

 private:
  /// Feeds tokens to lane 0 as one pulse of the Stream phase, which changes the context
  /// but no parameters. The other lanes get no tokens and stay as they are.
  [[nodiscard]] result<void> pulse(std::span<const std::uint32_t> tokens,
                                   std::optional<std::uint32_t> next) {
    std::vector<models::prose::lane_input> lanes(model_.config().lanes);
    for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane].position = model_.position(lane);
    }
    lanes[0].tokens = tokens;
    lanes[0].lookahead = next;
    models::pulse p;
    p.id = pulses_++;
    p.phase = models::pulse_phase::stream;
    WEIR_TRY(const auto ticket, model_.submit(p, lanes));
    WEIR_TRY([[maybe_unused]] const auto done, model_.finish(ticket));
    return {};
  }

  models::prose& model_;
  std::uint64_t pulses_ = 0;
};

/// Opens a run folder, with the context of its checkpoint, or parameters in a volume.
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
    return open_stored_model(request.source);
  }
  WEIR_TRY(const auto parameters, load_parameters(request.source, request.tag));
  return model_with(parameters);
}

/// Returns a token as text. An end-of-text token ends the line.
std::string text_of_token(std::uint32_t token) {
  return token == storage::end_of_text ? "\n" : std::string(1, static_cast<char>(token));
}

}  // namespace

/// Continues a text. Each token is drawn from the pending prediction and fed back before
/// the next one. The random numbers depend only on the seed and the number of the token,
/// so what other requests do has no influence.
result<speak_report> speak(const speak_request& request,
                           const std::function<bool(std::string_view)>& on_text) {
  if (!(request.temperature >= 0)) {
    return error(
        errc::invalid_argument,
        fmt::format("speaking failed for the temperature: expected at least 0, found {}",
                    request.temperature));
  }
  speak_report report;
  WEIR_TRY(auto stored, open_model(request, &report.with_context));
  models::prose& model = *stored.model;
  const std::int64_t start = now_ns();
  lane_feeder feeder(model);
  std::vector<std::uint32_t> tokens;
  for (const char c : request.prompt) {
    tokens.push_back(static_cast<unsigned char>(c));
  }
  WEIR_CHECK(feeder.feed(tokens));
  const philox random(request.seed, speak_stream);
  while (report.tokens < request.tokens) {
    auto logits = model.pending_logits(0);
    if (!logits) {
      return error(errc::invalid_argument,
                   "speaking failed: expected a prompt, because the model has no pending "
                   "prediction to continue from, found an empty one")
          .because(logits.error());
    }
    const std::uint32_t token = models::sample(
        *logits, static_cast<float>(request.temperature), random, report.tokens);
    report.text += text_of_token(token);
    ++report.tokens;
    WEIR_CHECK(feeder.feed({&token, 1}));
    if (on_text && !on_text(text_of_token(token))) {
      break;
    }
  }
  report.seconds = seconds_since(start);
  WEIR_TRY(report.parameter_hash, model.parameter_hash());
  WEIR_TRY(report.context_hash, model.context_hash());
  WEIR_TRY(report.largest_memory, model.largest_memory());
  return report;
}

}  // namespace weir::actors
