// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `text.tokens`: turns lines into texts, and texts into token ids.
///
/// Each line of an item becomes a text and then token ids, or is bad. A bad line ends the
/// run, or leaves through an outlet of its own as a line of JSON. The stage has a thread
/// of its own, because encoding takes long.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "stages/source_parts.hpp"
#include "stages/texts/bad_lines.hpp"
#include "stages/texts/factories.hpp"
#include "stages/texts/items.hpp"
#include "stages/texts/volume_model.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::actors {
namespace {

/// The part of the state that holds the digest of the model.
constexpr const char* digest_part = "MODEL";

/// See the table.
struct token_settings {
  volume_model_settings model;
  std::string field;
  bool truncate = false;
  line_policy bad = line_policy::stop;
};

/// The settings of the model are those of all its stages.
settings_table<token_settings> token_table() {
  settings_table<token_settings> table("the stage text.tokens");
  table.include("", &token_settings::model, volume_model_table(), {});
  table.add("field", &token_settings::field,
            "lines are JSON objects with the text under this name; empty: lines are "
            "texts");
  table.add("truncate", &token_settings::truncate,
            "cut texts that are too long for the model; false: their lines are bad");
  table.add("bad", &token_settings::bad,
            {{"stop", line_policy::stop}, {"list", line_policy::list}},
            "stop: the run ends at a bad line; list: it leaves through the outlet bad");
  return table;
}

/// Error of a text that the model cannot take.
error no_text(std::string_view expected, std::string_view found) {
  return error(errc::corrupt, fmt::format("cannot read a document: expected {}, found {}",
                                          expected, found));
}

/// Belongs to the thread of its I/O host.
class text_tokens final : public flow::stage_object {
 public:
  explicit text_tokens(token_settings settings) : settings_(std::move(settings)) {}

  /// Opens the model for its tokenizer and its limits; weights are not mapped.
  result<void> open(opening& run) override {
    WEIR_TRY(const volume_model model, volume_model::open(run, settings_.model));
    WEIR_TRY(auto tokens, model.stored.tokenizer());
    tokens_.emplace(std::move(tokens));
    // The record has the limits of the model.
    const model_record& record = model.stored.record();
    digest_ = record.digest;
    limit_ = record.facts.context_limit;
    if (record.facts.family == models::architecture::llama) {
      begin_ = record.facts.begin_token;
      --limit_;  // at least one token of an answer must fit behind a prompt
    }
    return {};
  }
  /// Makes the item of ids, and the item of bad lines if there are any.
  result<void> on_ready(taken& from, pull& to) override {
    WEIR_TRY(line_item item, read_line_item(from[any_in{0}]));
    token_item out{item.from, digest_, {}};
    // Kept until the item is encoded, because the texts refer to them.
    std::vector<std::vector<std::uint32_t>> ids;
    std::string bad;
    for (text_line& line : item.lines) {
      const std::uint64_t number = line.number;
      const std::uint64_t offset = line.offset;
      // The text, or the reason why the line is bad.
      // The line is moved, so its number is kept before.
      const auto text = text_of_line(std::move(line), settings_.field);
      auto made = text ? ids_of(*text) : text.error();
      if (made) {
        ids.push_back(std::move(*made));
        out.texts.push_back({number, offset, ids.back()});
        continue;
      }
      // The first bad line ends the run.
      if (settings_.bad == line_policy::stop) {
        return line_error(item.from.name, number,
                          error(errc::corrupt, made.error().text()))
            .hint(std::string(list_advice));
      }
      bad += listed_line(item.from.name, number, offset, made.error().text());
    }
    // Without bad lines, the outlet `bad` gets a gap.
    skipped_ += item.lines.size() - out.texts.size();
    texts_ += out.texts.size();
    // One item of words has all texts.
    const auto elements = encode_token_item(out);
    WEIR_CHECK(
        fill(to, 0, dtype::uint32, std::as_bytes(std::span(elements)), elements.size()));
    return bad.empty() ? result<void>()
                       : fill(to, 1, dtype::uint8, as_view(bad), bad.size());
  }
  /// Ids depend on the tokenizer and rows on the weights, so a run goes on with the same
  /// model only.
  result<void> copy_state(flow::state_writer& to) override {
    // Eight bytes in the order of the machine.
    const bytes_view digest = std::as_bytes(std::span(&digest_, 1));
    std::copy(digest.begin(), digest.end(), to.add(digest_part, digest.size()).begin());
    return {};
  }
  /// Refuses a state of another model.
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(const bytes_view bytes, from.part(digest_part));
    WEIR_TRY(const auto digest, record_of<std::uint64_t>(bytes, "text.tokens", "digest"));
    if (digest == digest_) {
      return {};
    }
    return error(
        errc::history_mismatch,
        fmt::format("cannot continue with the model of {}: expected the digest "
                    "{}, found {}",
                    json_quote(settings_.model.volume), hex64(digest), hex64(digest_)));
  }
  /// Texts of this process, and lines that were skipped.
  void report(figures& to) const override {
    to.set("texts", texts_);
    to.set("skipped", skipped_);
  }

 private:
  /// Copies bytes to the item of an outlet.
  static result<void> fill(pull& to, int port, dtype type, bytes_view bytes,
                           std::size_t elements) {
    // The flow knows the size of the item only now.
    const auto count = static_cast<std::int64_t>(elements);
    WEIR_TRY(const runtime::tensor x, to.fill_bytes(port, type, {&count, 1}));
    std::copy(bytes.begin(), bytes.end(), x.data());
    return {};
  }
  /// Returns the ids of a text, with the special ones of the tokenizer.
  [[nodiscard]] result<std::vector<std::uint32_t>> ids_of(const std::string& text) const {
    std::vector<std::uint32_t> ids;
    // Special ids in front and behind are part of the ids.
    WEIR_CHECK(tokens_->encode(text, ids));
    // Decoders accept an empty prompt by the id that begins every text.
    if (ids.empty() && begin_) {
      ids.push_back(*begin_);
    }
    if (ids.empty()) {
      return no_text("at least one token", "an empty text");
    }
    if (ids.size() <= limit_) {
      return ids;
    }
    // Without room for the text itself, cutting is no use.
    const auto behind = tokens_->suffix();
    if (!settings_.truncate || behind.size() >= limit_) {
      return no_text(fmt::format("at most {} tokens", limit_),
                     fmt::format("{}; --truncate cuts longer texts", ids.size()));
    }
    // The special ids behind the text stay when it is cut.
    ids.resize(limit_ - behind.size());
    ids.insert(ids.end(), behind.begin(), behind.end());
    return ids;
  }

  token_settings settings_;
  std::optional<formats::tokenizer> tokens_;
  std::uint64_t digest_ = 0;
  std::uint64_t limit_ = 0;             ///< ids of the longest text
  std::optional<std::uint32_t> begin_;  ///< id of a text without ids
  std::uint64_t texts_ = 0;
  std::uint64_t skipped_ = 0;
};

/// Further paragraphs of the reference of `text.tokens`.
constexpr std::string_view text_tokens_details =
    R"(Inlet `lines` takes the items of `text.lines`. Outlet `texts` has the type
`u32[?]`: numbers of lines and the token ids of their texts, for the stages of models.

A line is bad if it is not UTF-8, has NUL or more than 16 MiB, is no JSON object with a
string under `field`, has no tokens, or has more than the model takes. By default a bad
line ends the run with the code of damaged data. With `bad = "list"` an item leaves
through the outlet `bad` for the lines that were skipped: lines of JSON with `file`,
`line`, `offset` and `reason`, which `json.write` appends to a file in the form `lines`.

A run is continued only with a model of the same digest.)";

}  // namespace

/// Makes the stage. The outlet `bad` exists only if lines are listed.
result<void> make_text_tokens(flow::described_stage& made, const given_settings& given) {
  made.info.name = "text.tokens";
  made.info.documentation = "turns lines of texts into token ids of a model";
  made.info.face = flow::face::blocking;
  made.info.details = text_tokens_details;
  made.info.example = embedding_example;
  made.info.state = {{digest_part, false}};
  WEIR_TRY(token_settings settings, flow::read_settings(made.info, token_table(), given));
  WEIR_TRY(flow::port_type lines, flow::port_type::parse(line_item_type));
  WEIR_TRY(flow::port_type texts, flow::port_type::parse(token_item_type));
  made.info.ports = {{"lines", std::move(lines), true},
                     {"texts", std::move(texts), false}};
  // Only then a gap at the outlet means that no line was bad.
  if (settings.bad == line_policy::list) {
    WEIR_TRY(flow::port_type bad, flow::port_type::parse("u8[?]"));
    made.info.ports.push_back({"bad", std::move(bad), false});
  }
  made.object = std::make_unique<text_tokens>(std::move(settings));
  return {};
}

}  // namespace weir::actors
