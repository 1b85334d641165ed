// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `text.pulses`: a context stream as pulses, each with the next chunk of
/// every lane. Budgets of phases decide how long it is.
#include <limits>

#include "stages/prose/accounts.hpp"
#include "stages/prose/chunk_plan.hpp"
#include "stages/prose/corpus.hpp"
#include "stages/prose/factories.hpp"
#include "stages/prose/pulse_item.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/record.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view text_pulses_name = "text.pulses";
/// Longest wait for a pipe in one call.
constexpr int wait_ms = 50;
/// Parts of the state.
constexpr const char* cursor_part = "CURSOR";
constexpr const char* conductor_part = "CONDUCTOR";
constexpr const char* budget_part = "BUDGET";

struct pulses_settings {
  source_settings source;
  named_sources sources;
  storage::stream_config stream;
  phase_budgets budgets;
};

void add_phase_budget(settings_table<pulses_settings>& table, std::size_t phase,
                      const std::string& name, const std::string& documentation) {
  const auto tokens = [phase](auto& s) -> auto& {
    return s.budgets[phase].tokens;
  };
  const auto pulses = [phase](auto& s) -> auto& {
    return s.budgets[phase].pulses;
  };
  auto budget = table.add(name + "_tokens", tokens, documentation);
  budget.range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()).unit("tokens");
  if (phase == 0) {
    budget.word("all", one_pass);
  }
  table.add(name + "_pulses", pulses, "most pulses of the phase; 0 is no limit")
      .unit("pulses");
}

settings_table<pulses_settings> pulses_table() {
  settings_table<pulses_settings> table("the source text.pulses");
  const auto files = [](auto& s) -> auto& {
    return s.source.paths;
  };
  table
      .add("files", files,
           "files, folders and patterns in the order of reading; those of a folder or "
           "pattern by their paths; - is standard input")
      .required()
      .single();
  table.include("", &pulses_settings::source, source_table(), {"path"});
  table.include("", &pulses_settings::stream, storage::stream_settings(),
                {"ranks", "frequencies"});
  add_phase_budget(
      table, 0, "build",
      "tokens of the Build phase, of all lanes; 0 skips it, \"all\" is one pass");
  add_phase_budget(table, 1, "test", "tokens of the Test phase, which follows Build");
  add_phase_budget(table, 2, "stream", "tokens of the Stream phase, which follows Test");
  return table;
}

/// Settings that came after the first version count as values of a resumed run only if
/// they differ from their defaults, so that older checkpoints can be continued.
bool is_later(const setting_info& info) {
  return source_table().find(info.name) != nullptr && info.name != "eot";
}

/// Reads the settings of the stage. Those of named sources have keys that no table lists.
result<pulses_settings> read_pulses_settings(flow::stage_info& info,
                                             const given_settings& given) {
  const auto table = pulses_table();
  flow::add_settings(info, table);
  pulses_settings settings;
  for (const auto& [name, one] : given) {
    WEIR_CHECK(name.starts_with(source_prefix)
                   ? assign_source(settings.sources, name, one.value)
                   : table.assign(settings, name, one.value));
  }
  WEIR_CHECK(table.check(settings));
  const pulses_settings untouched{};
  for (const auto& one : table.entries()) {
    const auto value = one.get(settings);
    if (!is_later(one) || value != one.get(untouched)) {
      flow::add_value(info, one, value);
    }
  }
  for (const auto& [name, source] : settings.sources) {
    for (const auto& one : source_table().entries()) {
      setting_info named = one;
      named.name = std::string(source_prefix) + name + "." + one.name;
      if (const auto value = one.get(source); value != one.get(source_settings())) {
        flow::add_value(info, named, value);
      }
    }
  }
  return settings;
}

class text_pulses final : public flow::stage_object {
 public:
  text_pulses(pulses_settings settings, file_system& fs)
      : settings_(std::move(settings)),
        shape_{settings_.stream.lanes, settings_.stream.chunk},
        fs_(fs) {}

  /// A run that continues opens its corpus in `restore_state`, behind the cursor.
  result<void> open(opening& run) override {
    const auto absolute = [&](const std::string& path) { return path_of(run, path); };
    replace_paths(settings_.source, absolute);
    for (auto& [name, source] : settings_.sources) {
      replace_paths(source, absolute);
    }
    if (run.resuming()) {
      return {};
    }
    WEIR_TRY(corpus_, open_corpus(fs_, order()));
    phase_budget& build = settings_.budgets[0];
    if (build.tokens == one_pass) {
      if (corpus_.tokens == 0) {
        return error(errc::invalid_argument,
                     "cannot use setting \"build_tokens\" of text.pulses: expected a "
                     "number, because the source does not say how long it is, found "
                     "\"all\"");
      }
      build.tokens = corpus_.tokens;
    }
    record_.total_updates = max_pulses(build, shape_.tokens());
    begin();
    return {};
  }

  /// A pipe may be quiet for any time, so the next chunk is read only when it has
  /// arrived.
  result<bool> next(pull& p) override {
    for (;;) {
      if (orders_.empty()) {
        orders_ = plan_->take_orders(1);
      }
      while (!orders_.empty()) {
        const chunk_order& order = orders_.front();
        WEIR_TRY(const bool ready,
                 corpus_.stream->ready(order.tokens, order.lane, wait_ms));
        if (!ready) {
          p.nothing_yet();
          return true;
        }
        WEIR_TRY(auto chunk, corpus_.stream->next_lane_chunk(order.tokens, order.lane));
        WEIR_CHECK(plan_->resolve({order, std::move(chunk)}));
        orders_.erase(orders_.begin());
      }
      if (const auto chunks = plan_->take_pulse()) {
        WEIR_CHECK(make(p, *chunks));
        return true;
      }
      if (plan_->exhausted()) {
        return false;
      }
    }
  }

  /// Also makes the cursor of the stream, which may read the files, so it is made here on
  /// the thread of the source. `copy_state` only copies it.
  [[nodiscard]] flow::small_record position() const override {
    std::vector<storage::chunk_mark> marks;
    for (const auto& mark : marks_) {
      if (mark) {
        marks.push_back(*mark);
      }
    }
    auto made = corpus_.stream->cursor_at(marks, record_.pulses);
    cursor_ = made ? result<byte_vector>(storage::encode(*made))
                   : result<byte_vector>(std::move(made.error()));
    return flow::small_record::holding(record_.pulses);
  }
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto pulses,
             record_of<std::uint64_t>(stored, text_pulses_name, "cursor"));
    if (pulses != record_.pulses) {
      return error(errc::corrupt,
                   fmt::format("cannot use the stored cursor of {}: expected pulse {}, "
                               "found {}",
                               text_pulses_name, record_.pulses, pulses));
    }
    return {};
  }

  result<void> copy_state(flow::state_writer& to) override {
    WEIR_CHECK(cursor_);
    record_writer budget;
    budget.put(settings_.budgets[0].tokens);
    put(to, cursor_part, *cursor_);
    put(to, conductor_part, encode(record_));
    put(to, budget_part, budget.view());
    return {};
  }
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(const bytes_view cursor, from.part(cursor_part));
    WEIR_TRY(const auto where, storage::decode_cursor(cursor));
    WEIR_TRY(corpus_, continue_corpus(fs_, order(), where));
    WEIR_TRY(const bytes_view record, from.part(conductor_part));
    WEIR_TRY(record_, decode_conductor(record));
    WEIR_TRY(const bytes_view budget, from.part(budget_part));
    settings_.budgets[0].tokens = record_reader(budget).get<std::uint64_t>();
    begin();
    return {};
  }

  void report(figures& to) const override {
    to.set("files", corpus_.files);
    to.set("corpus_tokens", corpus_.tokens);
    to.set("corpus_identity", corpus_.identity);
    to.set("build_budget", settings_.budgets[0].tokens);
    report_shares(to);
  }

 private:
  /// Tells how much each source of a mixture has given.
  void report_shares(figures& to) const {
    const auto shares = corpus_.stream->shares();
    if (!shares || shares->empty()) {
      return;
    }
    std::uint64_t tokens = 0;
    for (const storage::part_share& part : *shares) {
      tokens += part.tokens;
    }
    std::vector<std::string> lines;
    for (const storage::part_share& part : *shares) {
      const double percent = tokens == 0 ? 0
                                         : 100.0 * static_cast<double>(part.tokens) /
                                               static_cast<double>(tokens);
      lines.push_back(fmt::format("{}: {:.2f} % of the tokens, {} units, {} rounds",
                                  part.name, percent, part.draws, part.rounds));
    }
    to.set("mix", std::move(lines));
  }
  [[nodiscard]] corpus_order order() const {
    return {settings_.source, settings_.sources, settings_.stream};
  }
  static void put(flow::state_writer& to, const char* part, bytes_view bytes) {
    std::copy(bytes.begin(), bytes.end(), to.add(part, bytes.size()).begin());
  }
  /// Plans the chunks behind those of the record.
  void begin() {
    record_.reset_due.resize(shape_.lanes, 0);
    marks_.assign(shape_.lanes, std::nullopt);
    plan_.emplace(chunk_plan::settings{shape_.lanes, shape_.chunk, settings_.budgets},
                  record_.used);
  }
  /// Returns the lanes whose contexts are emptied before this pulse, and notes those that
  /// are to be emptied before their next chunk. A boundary at the start of a chunk
  /// belongs to this pulse, and a later one in it to the next.
  [[nodiscard]] std::vector<std::uint32_t> note_boundaries(const pulse_chunks& chunks) {
    std::vector<std::uint32_t> resets;
    if (settings_.stream.boundary == storage::boundary_policy::never) {
      return resets;
    }
    for (std::uint32_t lane = 0; lane < shape_.lanes; ++lane) {
      if (!chunks.lanes[lane]) {
        continue;
      }
      const auto& boundaries = chunks.lanes[lane]->boundaries;
      const bool before = !boundaries.empty() && boundaries.front() == 0;
      if (record_.reset_due[lane] != 0 || before) {
        resets.push_back(lane);
      }
      record_.reset_due[lane] = !boundaries.empty() && boundaries.back() > 0 ? 1 : 0;
    }
    return resets;
  }
  /// Fills the item of a pulse and counts it.
  result<void> make(pull& p, const pulse_chunks& chunks) {
    const auto words = static_cast<std::int64_t>(shape_.words());
    WEIR_TRY(const auto to, p.fill_bytes(0, dtype::uint32, std::span(&words, 1)));
    pulse_facts facts;
    facts.pulse.id = record_.pulses;
    facts.pulse.phase = static_cast<models::pulse_phase>(chunks.phase);
    facts.pulse.update = record_.used[0].pulses;
    facts.pulse.total_updates = record_.total_updates;
    facts.tokens = chunks.tokens();
    facts.ends_of_text = chunks.ends_of_text();
    facts.build_budget = settings_.budgets[0].tokens;
    for (const auto& lane : chunks.lanes) {
      if (lane) {
        marks_[lane->lane] = lane->mark;
      }
    }
    write_pulse({to.as<std::uint32_t>(), shape_.words()}, shape_, facts, chunks.lanes,
                note_boundaries(chunks));
    phase_use& used = record_.used[chunks.phase];
    used.tokens += facts.tokens;
    used.pulses += 1;
    record_.tokens += facts.tokens;
    record_.pulses += 1;
    return {};
  }

  pulses_settings settings_;
  pulse_shape shape_;
  file_system& fs_;
  opened_corpus corpus_;
  std::optional<chunk_plan> plan_;
  chunk_orders orders_;      ///< chunks of the next pulse that have not been read
  conductor_record record_;  ///< as of the last item
  /// Last chunk of each lane; empty if the lane had none since the stream was opened.
  std::vector<std::optional<storage::chunk_mark>> marks_;
  mutable result<byte_vector> cursor_ = byte_vector();  ///< made by `position`
};

/// Further paragraphs of the reference of `text.pulses`.
constexpr std::string_view text_pulses_details =
    R"(Outlet `pulses` has the type `u32[k]`, where k follows from `lanes` and `chunk`.
A phase ends with its budget, and the source ends with the last phase or with the text.

The cursor is the number of the pulse. The state holds the cursor of the context
stream with its last tokens, the sums of the phases, and the budget that "all" stands
for. A resumed run compares the text before the cursor with these tokens and with a
hash of all of it.

A table `[stage.source.NAME]` describes a source to which others refer by its name; it
has the keys of a table `[source.NAME]` of a run.)";

/// A small pipeline with `text.pulses`.
constexpr std::string_view text_pulses_example = R"([[stage]]
name = "text"
use = "text.pulses"
files = ["a.txt", "b.txt"]
build_tokens = "all"

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

result<void> make_text_pulses(flow::described_stage& made, const given_settings& given,
                              file_system& fs) {
  made.info = source_info(std::string(text_pulses_name),
                          "reads a context stream as pulses of tokens for a text model");
  made.info.details = text_pulses_details;
  made.info.example = text_pulses_example;
  made.info.state = {{cursor_part, false}, {conductor_part, false}, {budget_part, false}};
  WEIR_TRY(pulses_settings settings, read_pulses_settings(made.info, given));
  WEIR_TRY(const std::string warning, storage::check_config(settings.stream));
  static_cast<void>(warning);  // the source does not know the periods of the model
  if (settings.source.paths == std::vector<std::string>{std::string(standard_stream)}) {
    made.info.promise = flow::guarantee::none;
  }
  const pulse_shape shape{settings.stream.lanes, settings.stream.chunk};
  WEIR_TRY(flow::port_type type, flow::port_type::parse(shape.type()));
  made.info.ports = {{"pulses", std::move(type), false}};
  for (const char* part : {cursor_part, conductor_part, budget_part}) {
    made.info.state.push_back({part, false});
  }
  made.object = std::make_unique<text_pulses>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
