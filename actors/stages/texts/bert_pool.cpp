// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `bert.pool`: computes one row for each text, the scaled mean of its rows.
///
/// The mean of the rows of a text is a few additions, so it is computed on the thread of
/// the engine host and not as a task.
#include <fmt/format.h>

#include "stages/texts/factories.hpp"
#include "stages/texts/items.hpp"
#include "weir/base/text.hpp"
#include "weir/models/bert.hpp"

namespace weir::actors {
namespace {

/// Has no state between items.
class bert_pool final : public flow::stage_object {
 public:
  result<void> open(opening& run) override {
    engine_ = &run.host().base();
    return {};
  }
  /// Computes one row for each text of the item.
  result<void> on_item(step& s) override {
    for (int i = 0; i < 2; ++i) {
      if (!s.complete(any_in{i})) {
        WEIR_CHECK(engine_->wait(s[any_in{i}]));
      }
    }
    const runtime::tensor& rows = s[any_in{1}];
    WEIR_TRY(const token_item item, read_token_item(s[any_in{0}]));
    // Another stage than `bert.layers` may be connected here.
    if (rows.shape().size() != 2 ||
        rows.shape()[0] != static_cast<std::int64_t>(item.tokens())) {
      return error(errc::invalid_argument,
                   fmt::format("cannot pool the rows of {}: expected {} rows, found {}",
                               json_quote(item.from.name), item.tokens(),
                               rows.shape().empty() ? 0 : rows.shape()[0]));
    }
    const auto width = static_cast<std::size_t>(rows.shape()[1]);
    const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(item.texts.size()),
                                            rows.shape()[1]};
    // The few additions for each row take less time than a task for a worker would. No
    // task uses the memory that `make_bytes` returns, so this thread writes it.
    WEIR_TRY(const runtime::tensor to, s.make_bytes(0, dtype::fp32, shape));
    const float* from = rows.as<const float>();
    float* mean = to.as<float>();
    // The rows of the texts follow each other.
    for (const token_text& text : item.texts) {
      models::pool_mean({from, text.ids.size() * width}, {mean, width});
      from += text.ids.size() * width;
      mean += width;
    }
    return s.emit();
  }

 private:
  runtime::engine* engine_ = nullptr;
};

/// Further paragraphs of the reference of `bert.pool`.
constexpr std::string_view bert_pool_details =
    R"(Inlet `texts` takes the items of `text.tokens`, and inlet `rows` the rows of the
last stage of layers. Outlet `y`, of the type `f32[?,?]`, has for each text the mean of
its rows, scaled to length 1.)";

}  // namespace

/// Makes the stage, which has no settings.
result<void> make_bert_pool(flow::described_stage& made, const given_settings& given) {
  made.info.name = "bert.pool";
  made.info.documentation = "makes the embedding of each text of its rows";
  made.info.face = flow::face::task;
  made.info.stateless = true;
  made.info.details = bert_pool_details;
  made.info.example = embedding_example;
  WEIR_TRY(no_settings none,
           flow::read_settings(
               made.info, settings_table<no_settings>("the stage bert.pool"), given));
  static_cast<void>(none);
  WEIR_TRY(flow::port_type texts, flow::port_type::parse(token_item_type));
  WEIR_TRY(const flow::port_type rows, flow::port_type::parse("f32[?,?]"));
  made.info.ports = {
      {"texts", std::move(texts), true}, {"rows", rows, true}, {"y", rows, false}};
  made.object = std::make_unique<bert_pool>();
  return {};
}

}  // namespace weir::actors
