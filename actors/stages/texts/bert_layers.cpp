// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `bert.layers`: some layers of an encoder.
///
/// Several stages can share the layers of a model, each with some of them: the first one
/// looks the token ids up, and every stage hands rows on. A stage submits an item as a
/// task and emits it when the task has ended. The encoder has a small number of calls;
/// items behind keep their rows in `flight::rows` until they are emitted.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>

#include "stages/texts/factories.hpp"
#include "stages/texts/items.hpp"
#include "stages/texts/volume_model.hpp"
#include "weir/actors/model_weights.hpp"
#include "weir/base/text.hpp"
#include "weir/models/bert.hpp"
#include "weir/models/configs.hpp"

namespace weir::actors {
namespace {

/// See the table.
struct layer_settings {
  volume_model_settings model;
  std::uint32_t first = 0;
  std::uint32_t layers = 0;
  std::uint32_t rows = 4096;
};

/// The settings of the model are those of all its stages.
settings_table<layer_settings> layer_table() {
  settings_table<layer_settings> table("the stage bert.layers");
  table.include("", &layer_settings::model, volume_model_table(), {});
  // Layers count from 0.
  table
      .add("first", &layer_settings::first,
           "first layer of the stage; above 0 it has the inlet rows")
      .range(0, 1023);
  table
      .add("layers", &layer_settings::layers,
           "number of layers; 0: up to the last one of the model")
      .range(0, 1024);
  table
      // Memory and speed alone.
      .add("rows", &layer_settings::rows,
           "token ids of the largest item, which take memory; never changes a result")
      .range(1, 1 << 16)
      .may_change();
  return table;
}

/// Returns whether a weight belongs to a part of the layers.
// Weights that are no layer are the embeddings, which only the first part needs.
bool is_of_part(std::string_view name, std::uint32_t first, std::uint32_t end) {
  constexpr std::string_view layer = "encoder.layer.";
  if (!name.starts_with(layer)) {
    return first == 0;
  }
  std::uint32_t number = 0;
  name.remove_prefix(layer.size());
  // A name without a number gives 0.
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number >= first && number < end;
}

/// Runs on the thread of the engine host.
class bert_layers final : public flow::stage_object {
 public:
  explicit bert_layers(layer_settings settings) : settings_(std::move(settings)) {}

  /// Opens the model and maps the weights of the layers.
  result<void> open(opening& run) override {
    WEIR_TRY(const volume_model model,
             volume_model::open(run, settings_.model, models::architecture::bert));
    const model_record& record = model.stored.record();
    // The pooling is a stage of its own, which computes the mean.
    // Other stages pool the rows of all tokens.
    if (record.facts.pool == models::pooling::first) {
      return error(errc::unsupported,
                   fmt::format("cannot use model {}: expected the mean of the rows as "
                               "pooling, found the row of the first token",
                               json_quote(record.tag)));
    }
    WEIR_TRY(const models::bert_config config, models::bert_config_of(record.facts));
    // 0 layers mean all from `first` on.
    const std::uint32_t first = settings_.first;
    const std::uint32_t count = settings_.layers == 0 ? UINT32_MAX : settings_.layers;
    if (first >= config.layers ||
        (count != UINT32_MAX && count > config.layers - first)) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot use layers of model {}: expected layers below {}, "
                      "found {} from {} on",
                      json_quote(record.tag), config.layers, settings_.layers, first));
    }
    // The first layer that is not of this stage.
    const std::uint32_t end = count == UINT32_MAX ? config.layers : first + count;
    // Weights of other layers are not mapped.
    WEIR_TRY(weights_,
             model_weights::load(model.volume, model.stored, [&](std::string_view name) {
               return is_of_part(name, first, end);
             }));
    digest_ = record.digest;
    engine_ = &run.host().base();
    // The encoder computes these layers only.
    models::bert_options options;
    options.kernels = run.kernels();
    options.max_rows = settings_.rows;
    options.first_layer = first;
    options.layers = count;
    // The rows themselves are handed on.
    options.pool = false;
    WEIR_TRY(encoder_, models::make_bert(*engine_, config, *weights_, options));
    return {};
  }

  /// Submits an item. One without texts has no call.
  result<void> on_item(step& s) override {
    // The stages before this one hand items on when their bytes are there; behind other
    // stages tasks may write them.
    // The inlet `rows` exists only behind another part.
    for (int i = 0; i < (settings_.first == 0 ? 1 : 2); ++i) {
      if (!s.complete(any_in{i})) {
        WEIR_CHECK(engine_->wait(s[any_in{i}]));
      }
    }
    WEIR_TRY(const token_item item, read_token_item(s[any_in{0}]));
    // Facts that are needed when the item is emitted.
    flight f;
    f.seq = s.seq();
    f.texts = item.texts.size();
    f.tokens = item.tokens();
    WEIR_CHECK(check(item, f));
    if (!item.texts.empty()) {
      // Each text is a run of ids with positions of its own.
      std::vector<models::token_run> runs;
      for (const token_text& text : item.texts) {
        runs.push_back({text.ids});
      }
      std::span<const float> rows;
      if (settings_.first != 0) {
        WEIR_TRY(rows, rows_of(s[any_in{1}]));
      }
      // A new call needs a free place; the rows of the oldest finished call are copied.
      free_a_call();
      WEIR_TRY(f.ticket, encoder_->submit(runs, rows));
      f.submitted = true;
      // The item has ended when the last task of its call has.
      const task_id last = encoder_->last_task(f.ticket);
      s.adopt_tasks(last, last);
    }
    in_flight_.push_back(std::move(f));
    return {};
  }

  /// Emits the item with its rows. Items whose call has failed are skipped by the flow
  /// and are only dropped here.
  result<void> on_done(step& s) override {
    while (in_flight_.front().seq != s.seq()) {        // an item that has failed
      static_cast<void>(collect(in_flight_.front()));  // its failure is known
      in_flight_.pop_front();
    }
    // Items are emitted in the order in which they came.
    flight f = std::move(in_flight_.front());
    in_flight_.pop_front();
    WEIR_CHECK(collect(f));
    // A row for each token id.
    const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(f.tokens),
                                            encoder_->facts().width};
    // Memory that `make_bytes` returns has no users, so it is written without a task.
    WEIR_TRY(const runtime::tensor to, s.make_bytes(0, dtype::fp32, shape));
    std::copy(f.rows.begin(), f.rows.end(), to.as<float>());
    texts_ += f.texts;
    tokens_ += f.tokens;
    return s.emit();
  }

  /// Figures of this process.
  void report(figures& to) const override {
    to.set("texts", texts_);
    to.set("tokens", tokens_);
    to.set("width", std::uint64_t{encoder_ ? encoder_->facts().width : 0});
    to.set("copied_bytes", weights_ ? weights_->copied_bytes() : 0);
    to.set("instruction_set",
           std::string(encoder_ ? encoder_->facts().instruction_set : ""));
  }

 private:
  /// An item that was not emitted.
  struct flight {
    std::uint64_t seq = 0;  ///< number of the item
    /// For the figures and the shape.
    std::size_t texts = 0;
    std::size_t tokens = 0;
    models::step_ticket ticket{};
    bool submitted = false;   ///< the encoder has a call of the item
    std::vector<float> rows;  ///< of a call that is finished
  };

  /// Takes the rows of an item's call and finishes the call.
  /// @pre The tasks of the call have ended.
  result<void> collect(flight& f) {
    if (!f.submitted) {
      return {};
    }
    f.submitted = false;
    if (const auto rows = encoder_->rows(f.ticket)) {
      f.rows.assign(rows->begin(), rows->end());
    }
    return encoder_->finish(f.ticket);  // fails if the rows have failed
  }
  /// Finishes the oldest call if the encoder has no free one. Its tasks have ended, but
  /// its item waits for the stages behind this one, or has failed.
  void free_a_call() {
    // Calls that are not finished count.
    const auto is_submitted = [](const flight& f) { return f.submitted; };
    const auto open = std::count_if(in_flight_.begin(), in_flight_.end(), is_submitted);
    if (open < static_cast<std::ptrdiff_t>(models::encoder::max_in_flight)) {
      return;
    }
    // A failure shows again when the item itself is collected.
    static_cast<void>(
        collect(*std::find_if(in_flight_.begin(), in_flight_.end(), is_submitted)));
  }
  /// Checks that the ids are for this model and that the item fits.
  [[nodiscard]] result<void> check(const token_item& item, const flight& f) const {
    // The ids are those of another tokenizer.
    if (item.model != digest_) {
      return error(
          errc::config_mismatch,
          fmt::format("cannot use texts of {}: expected token ids for the model "
                      "{}, found some for {}",
                      json_quote(item.from.name), hex64(digest_), hex64(item.model)));
    }
    if (f.tokens > encoder_->facts().max_rows) {
      return error(errc::out_of_range,
                   fmt::format("cannot use texts of {}: expected at most {} token ids in "
                               "an item, found {}",
                               json_quote(item.from.name), encoder_->facts().max_rows,
                               f.tokens))
          .hint("enlarge rows of bert.layers, or make bytes of text.lines smaller");
    }
    return {};
  }
  /// Returns the rows of the stage before.
  static result<std::span<const float>> rows_of(const runtime::tensor& x) {
    // The extents are compared by the encoder.
    if (x.type() != dtype::fp32) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use rows: expected f32, found {}",
                               flow::port_text(x.type())));
    }
    return std::span<const float>(x.as<const float>(),
                                  static_cast<std::size_t>(x.count()));
  }

  layer_settings settings_;
  runtime::engine* engine_ = nullptr;
  std::unique_ptr<model_weights> weights_;
  /// Declared behind the weights, which it refers to.
  std::unique_ptr<models::encoder> encoder_;
  /// Digest of the weights, by which items of another model are refused.
  std::uint64_t digest_ = 0;
  std::deque<flight> in_flight_;  ///< the oldest first
  std::uint64_t texts_ = 0;
  std::uint64_t tokens_ = 0;
};

/// Further paragraphs of the reference of `bert.layers`.
constexpr std::string_view bert_layers_details =
    R"(Inlet `texts` takes the items of `text.tokens`. A stage whose first layer is not
the first of the model takes the rows of the stage before it at the inlet `rows`. Outlet
`y` has a row for each token id of the item, of the type `f32[?,?]`.

Only the weights of the layers are mapped and verified. The bits of a row depend on its
text alone: not on the other texts of an item, and not on how layers are shared out among
stages. The largest item must fit: an item of `text.lines` has at most as many token ids
as bytes, and two more for each line.)";

}  // namespace

/// Makes the stage. Only a part that does not begin the model has the inlet `rows`.
result<void> make_bert_layers(flow::described_stage& made, const given_settings& given) {
  made.info.name = "bert.layers";
  made.info.documentation = "computes layers of an encoder of the architecture BERT";
  // Answers late: an item is emitted when its task has ended.
  made.info.face = flow::face::late;
  made.info.stateless = true;
  made.info.details = bert_layers_details;
  made.info.example = embedding_example;
  WEIR_TRY(layer_settings settings, flow::read_settings(made.info, layer_table(), given));
  WEIR_TRY(flow::port_type texts, flow::port_type::parse(token_item_type));
  WEIR_TRY(const flow::port_type rows, flow::port_type::parse("f32[?,?]"));
  made.info.ports = {{"texts", std::move(texts), true}};
  if (settings.first != 0) {
    made.info.ports.push_back({"rows", rows, true});
  }
  made.info.ports.push_back({"y", rows, false});
  // As many as the encoder has calls.
  made.info.max_open_calls = models::encoder::max_in_flight;
  made.object = std::make_unique<bert_layers>(std::move(settings));
  return {};
}

}  // namespace weir::actors
