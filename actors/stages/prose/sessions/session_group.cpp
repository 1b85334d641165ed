// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sessions as lanes of one model.
///
/// A lane of the model is a context beside others over the same parameters, and a pulse
/// in which a lane has no tokens leaves its context as it is. So a session takes a lane,
/// and the turns of several sessions are computed in the same pulses.
///
/// A turn is computed in pulses of the Stream phase: first the tokens of the turn, in
/// chunks, and then one token per pulse, each of which is drawn from the logits behind
/// the one before. Sessions whose turn is longer go on while the lanes of the others are
/// empty.
///
/// Random numbers are counted per session (`drawn`), so an answer does not depend on the
/// lane, the other sessions, or a restart.
#include "weir/actors/sessions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "stages/prose/job/stored_model.hpp"
#include "stages/prose/sessions/session_record.hpp"
#include "weir/actors/speak.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"

namespace weir::actors {

namespace {

/// Stream of random numbers for drawing tokens of sessions.
constexpr std::uint64_t session_stream = 0x73657373696F6E;  // "session"
constexpr const char* parameters_section = "PARAM/message";

/// A session in memory.
struct open_session {
  stored_session stored;
  std::uint32_t lane = 0;
};

/// A turn that is being computed.
struct turn_in_work {
  const session_turn* turn = nullptr;
  open_session* session = nullptr;
  std::uint64_t digest = 0;  ///< of the turn
  std::size_t fed = 0;       ///< tokens of the turn that the model has
  std::uint32_t next = 0;    ///< token that was drawn last
  std::vector<std::uint32_t> answer;
  std::size_t place = 0;  ///< of the turn in the call
};

/// Makes an error about a turn.
error turn_error(const session_turn& turn, errc code, std::string_view text) {
  return error(code, fmt::format("cannot answer session {}: {}", turn.session, text));
}

/// Returns a hash of a hash and of the ids behind it, so that histories form a chain.
std::uint64_t hash_of_ids(std::uint64_t before, std::span<const std::uint32_t> ids) {
  byte_vector raw(8 + 4 * ids.size());
  store_le(raw.data(), before);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    store_le(raw.data() + 8 + 4 * i, ids[i]);
  }
  return xxh3_64(raw);
}

/// Returns a digest of what a turn asks for.
/// The seed is not part of it, because it is compared with that of the session.
std::uint64_t digest_of(const session_turn& turn) {
  const std::uint64_t with_kind =
      hash_of_ids(static_cast<std::uint64_t>(turn.kind), turn.tokens);
  return hash_of_ids(
      with_kind ^ std::bit_cast<std::uint64_t>(turn.temperature),
      std::vector<std::uint32_t>{static_cast<std::uint32_t>(turn.answer_tokens)});
}

/// Checks what can be checked without knowing the session.
result<void> check_turn(const session_turn& turn, std::uint32_t vocabulary) {
  const auto wrong = [&](const std::string& text) {
    return turn_error(turn, errc::invalid_argument, text);
  };
  if (!is_session_name(turn.session)) {
    return wrong(
        "expected a name of 1 to 64 letters of ASCII, digits and the characters . _ -, "
        "found another one");
  }
  if (turn.tokens.size() > max_turn_tokens || turn.answer_tokens > max_turn_tokens) {
    return wrong(
        fmt::format("expected a turn of at most {} tokens and an answer of at "
                    "most as many, found {} and {}",
                    max_turn_tokens, turn.tokens.size(), turn.answer_tokens));
  }
  if (!(turn.temperature >= 0 && turn.temperature <= 100)) {
    return wrong(
        fmt::format("expected a temperature from 0 to 100, found {}", turn.temperature));
  }
  for (std::size_t i = 0; i < turn.tokens.size(); ++i) {
    if (turn.tokens[i] >= vocabulary) {
      return wrong(fmt::format("expected ids below {}, found {} as token {}", vocabulary,
                               turn.tokens[i], i));
    }
  }
  return {};
}

result<parameter_set> parameters_from(const session_options& options) {
  std::error_code ignored;
  if (!std::filesystem::exists(options.from, ignored)) {
    return error(
        errc::not_found,
        fmt::format("cannot begin sessions in \"{}\": expected a run folder or a "
                    "volume \"{}\", found nothing",
                    options.folder, options.from));
  }
  return std::filesystem::is_directory(options.from, ignored)
             ? parameters_of_run(options.from)
             : load_parameters(options.from, options.tag);
}

}  // namespace

struct session_group::state {
  state(storage::checkpoint_store to, std::string set)
      : kernels(std::move(set)), store(std::move(to)) {}

  std::string kernels;  ///< see `session_options`
  std::optional<stored_model> model;
  parameter_set parameters;
  byte_vector message;  ///< the parameters as the checkpoints hold them
  storage::checkpoint_store store;
  /// By name, so that checkpoints have the sessions in order.
  std::map<std::string, open_session> sessions;
  std::vector<bool> lane_taken;
  std::uint64_t turns = 0;       ///< turns of all sessions
  std::uint64_t generation = 0;  ///< newest checkpoint
  bool changed = false;          ///< since that checkpoint
  std::uint64_t pulses = 0;      ///< of this process
  std::string problem;
  /// Why an answer was not computed to its end. The contexts are then between two turns,
  /// and no checkpoint may hold them.
  std::optional<error> failure;

  /// Returns the failure as the reason why a call cannot do its work.
  [[nodiscard]] result<void> usable() const {
    return failure
               ? error(failure->code(),
                       "cannot go on with sessions after a failed answer: expected "
                       "whole turns, found one that has no end; open the folder again")
                     .because(*failure)
               : result<void>();
  }

  [[nodiscard]] models::prose& prose() { return *model->model; }
  result<void> load(const storage::checkpoint& from, std::uint32_t limit);
  result<void> build(std::uint32_t limit);
  [[nodiscard]] std::optional<std::uint32_t> free_lane() const;
  result<std::optional<session_answer>> answer_again(const session_turn& turn);
  result<open_session*> session_for(const session_turn& turn);
  result<void> compute(std::vector<turn_in_work>& work);
  result<bool> submit_pulse(std::vector<turn_in_work>& work);
  result<void> take_input(turn_in_work& w, models::prose::lane_input& to);
  session_answer finish(turn_in_work& w);
  [[nodiscard]] byte_vector context_of(std::uint32_t lane);
};

session_group::session_group(std::unique_ptr<state> s) : state_(std::move(s)) {}
session_group::~session_group() = default;

/// Makes the model, whose lanes have empty contexts.
result<void> session_group::state::build(std::uint32_t limit) {
  WEIR_TRY(model, model_with(parameters, limit, kernels));
  lane_taken.assign(limit, false);
  return {};
}

/// Reads parameters and contexts of a checkpoint. The sessions get the first lanes.
result<void> session_group::state::load(const storage::checkpoint& from,
                                        std::uint32_t limit) {
  const auto located = [&](error e) { return std::move(e).located(from.path()); };
  // A checkpoint of a run has no such section.
  const auto section = from.find(storage::section::sessions);
  if (!section) {
    return located(error(errc::config_mismatch,
                         "cannot open sessions: expected checkpoints of sessions, found "
                         "those of a run; name another folder, and the run as the source "
                         "of the parameters"));
  }
  auto record = decode_sessions((*section)->data);
  if (!record) {
    return located(std::move(record).error());
  }
  if (record->sessions.size() > limit) {
    return error(errc::invalid_argument,
                 fmt::format("cannot open sessions: expected a limit of at least {}, the "
                             "number of sessions, found {}",
                             record->sessions.size(), limit));
  }
  // The message is kept as it was, because later checkpoints contain it again.
  WEIR_TRY(const auto* stored, from.find(parameters_section));
  message.assign(stored->data.begin(), stored->data.end());
  WEIR_TRY(parameters, decode_parameters(message, from.path()));
  WEIR_CHECK(build(limit));
  if (record->kernels != prose().kernel_set()) {
    problem = fmt::format(
        "{}: the contexts were computed with kernels {}, this is {}; "
        "answers may differ in their bits",
        name_of(errc::build_mismatch), record->kernels, prose().kernel_set());
  }
  // Names are sorted, so equal checkpoints give equal lanes.
  for (stored_session& one : record->sessions) {
    const auto lane = static_cast<std::uint32_t>(sessions.size());
    const std::string name = one.facts.name;
    WEIR_TRY(const auto* context, from.find(context_section(name)));
    WEIR_CHECK(prose().restore(models::region_kind::context, lane, context->data));
    // A context knows its position, which must be that of the cursor.
    if (prose().position(lane) != one.facts.position) {
      return located(
          error(errc::corrupt,
                fmt::format("cannot open session {}: expected a context at token "
                            "{}, found one at token {}",
                            name, one.facts.position, prose().position(lane))));
    }
    lane_taken[lane] = true;
    sessions[name] = {std::move(one), lane};
  }
  turns = record->turns;
  generation = from.header().generation;
  return {};
}

/// The folder is made only after its parameters have been read.
result<std::unique_ptr<session_group>> session_group::open(
    const session_options& options) {
  if (options.limit < 1 || options.limit > max_sessions) {
    return error(errc::invalid_argument,
                 fmt::format("cannot open sessions in \"{}\": expected a limit from 1 to "
                             "{}, found {}",
                             options.folder, max_sessions, options.limit));
  }
  file_system& fs = posix_file_system();
  const std::string inner = join_path(options.folder, "checkpoint");
  const error nothing_to_begin_with(
      errc::invalid_argument,
      fmt::format("cannot begin sessions in \"{}\": expected a run folder or a volume "
                  "with parameters, found none; name one with --from",
                  options.folder));
  if (options.from.empty() && !fs.exists(inner)) {
    return nothing_to_begin_with;
  }
  parameter_set given;
  if (!options.from.empty()) {
    WEIR_TRY(given, parameters_from(options));
  }
  WEIR_CHECK(fs.make_folder(options.folder));
  // The store holds the lock of the folder.
  WEIR_TRY(auto store, storage::checkpoint_store::open(
                           fs, inner, storage::checkpoint_store::role::writer));
  WEIR_TRY(const auto entries, store.list());
  auto s = std::make_unique<state>(std::move(store), options.kernels);
  if (!entries.empty()) {
    WEIR_TRY(const auto newest, s->store.load_newest());
    WEIR_CHECK(s->load(newest, options.limit));
    // An older generation lacks answers that clients have seen, so they must know.
    for (const error& skipped : newest.skipped()) {
      s->problem += fmt::format(
          "{}a newer checkpoint cannot be read, so that turns behind "
          "generation {} are not known: {}",
          s->problem.empty() ? "" : "; ", s->generation, skipped.message());
    }
    if (!options.from.empty() && given.hash != s->parameters.hash) {
      return error(errc::config_mismatch,
                   fmt::format("cannot open sessions in \"{}\": expected the parameters "
                               "{}, found {} in \"{}\"; begin new sessions in another "
                               "folder",
                               options.folder, hex64(s->parameters.hash),
                               hex64(given.hash), options.from));
    }
    return std::unique_ptr<session_group>(new session_group(std::move(s)));
  }
  // A process that was killed before its first checkpoint leaves an empty folder.
  if (options.from.empty()) {
    return nothing_to_begin_with;
  }
  s->parameters = std::move(given);
  WEIR_TRY(s->message, encode_parameters(s->parameters));
  WEIR_CHECK(s->build(options.limit));
  s->changed = true;
  std::unique_ptr<session_group> made(new session_group(std::move(s)));
  WEIR_CHECK(made->save());
  return made;
}

std::optional<std::uint32_t> session_group::state::free_lane() const {
  const auto found = std::find(lane_taken.begin(), lane_taken.end(), false);
  return found == lane_taken.end()
             ? std::nullopt
             : std::optional(static_cast<std::uint32_t>(found - lane_taken.begin()));
}

/// Returns the answer to a turn that was answered before; nothing if the turn is the next
/// one. A client that lost the connection asks its last turn again.
result<std::optional<session_answer>> session_group::state::answer_again(
    const session_turn& turn) {
  const auto found = sessions.find(turn.session);
  const std::uint64_t answered =
      found == sessions.end() ? 0 : found->second.stored.facts.turns;
  session_answer again;
  again.session = turn.session;
  again.kind = turn.kind;
  again.repeated = true;
  // A closed session leaves no trace, so closing it again succeeds.
  if (found == sessions.end() && turn.kind == turn_kind::close) {
    again.turn = turn.number.value_or(0);
    return again;
  }
  // Without a number the turn is always the next one.
  if (!turn.number || *turn.number == answered + 1) {
    return std::optional<session_answer>();
  }
  if (*turn.number != answered || answered == 0) {
    return turn_error(turn, errc::out_of_range,
                      fmt::format("expected turn {}, or the last one again, found {}",
                                  answered + 1, *turn.number));
  }
  const stored_session& last = found->second.stored;
  // The same number with another content would hide a mistake of the client.
  if (last.last_digest != digest_of(turn)) {
    return turn_error(turn, errc::history_mismatch,
                      fmt::format("expected turn {} as it was answered, found another "
                                  "content",
                                  answered));
  }
  again.turn = answered;
  again.position = last.facts.position;
  again.tokens = last.last_answer;
  return again;
}

/// Returns the session of a turn, and begins it if it is a new one.
result<open_session*> session_group::state::session_for(const session_turn& turn) {
  if (const auto found = sessions.find(turn.session); found != sessions.end()) {
    const std::uint64_t seed = found->second.stored.facts.seed;
    if (turn.seed && *turn.seed != seed) {
      return turn_error(turn, errc::config_mismatch,
                        fmt::format("expected the seed {} with which it began, found {}",
                                    seed, *turn.seed));
    }
    return &found->second;
  }
  const auto lane = free_lane();
  if (!lane) {
    return turn_error(
        turn, errc::out_of_memory,
        fmt::format("expected at most {} sessions, found another one; close "
                    "one, or raise the limit",
                    lane_taken.size()));
  }
  if (turn.kind == turn_kind::text && turn.tokens.empty() && turn.answer_tokens > 0) {
    return turn_error(
        turn, errc::invalid_argument,
        "expected a text to continue in its first turn, found an empty one");
  }
  WEIR_CHECK(prose().start_context(*lane, 0));
  lane_taken[*lane] = true;
  open_session& made = sessions[turn.session];
  made.lane = *lane;
  made.stored.facts.name = turn.session;
  made.stored.facts.seed = turn.seed.value_or(1);
  return &made;
}

/// Gives a lane its next tokens: those of the turn, and then each one that was drawn.
result<void> session_group::state::take_input(turn_in_work& w,
                                              models::prose::lane_input& to) {
  const std::vector<std::uint32_t>& tokens = w.turn->tokens;
  if (w.fed < tokens.size()) {
    const std::size_t n =
        std::min<std::size_t>(tokens.size() - w.fed, prose().config().max_chunk);
    to.tokens = std::span(tokens).subspan(w.fed, n);
    w.fed += n;
    // The score of the last token needs the one that follows.
    if (w.fed < tokens.size()) {
      to.lookahead = tokens[w.fed];
    }
    return {};
  }
  if (w.answer.size() == w.turn->answer_tokens) {
    return {};
  }
  session_facts& facts = w.session->stored.facts;
  // Logits behind the last token that the lane has read.
  WEIR_TRY(const auto logits, prose().pending_logits(w.session->lane));
  w.next = models::sample(logits, static_cast<float>(w.turn->temperature),
                          philox(facts.seed, session_stream), facts.drawn);
  ++facts.drawn;
  w.answer.push_back(w.next);
  // The drawn token is read by the model in this pulse, so the next one can be drawn.
  to.tokens = std::span(&w.next, 1);
  return {};
}

/// Computes one pulse of the Stream phase, which changes contexts and no parameters.
/// Returns false if no session has further tokens.
result<bool> session_group::state::submit_pulse(std::vector<turn_in_work>& work) {
  std::vector<models::prose::lane_input> lanes(lane_taken.size());
  for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane].position = prose().position(lane);
  }
  bool any = false;
  for (turn_in_work& w : work) {
    if (w.turn->kind == turn_kind::text) {
      WEIR_CHECK(take_input(w, lanes[w.session->lane]));
      any = any || !lanes[w.session->lane].tokens.empty();
    }
  }
  if (any) {
    models::pulse p;
    p.id = pulses++;
    p.phase = models::pulse_phase::stream;
    // The next draw needs the logits, so each pulse is finished at once.
    WEIR_TRY(const auto ticket, prose().submit(p, lanes));
    WEIR_CHECK(prose().finish(ticket));
  }
  return any;
}

/// Computes all turns. An error means that the model cannot go on.
result<void> session_group::state::compute(std::vector<turn_in_work>& work) {
  for (turn_in_work& w : work) {
    if (w.turn->kind != turn_kind::text) {
      WEIR_CHECK(prose().reset_context(w.session->lane));
    }
  }
  for (;;) {
    WEIR_TRY(const bool more, submit_pulse(work));
    if (!more) {
      return {};
    }
  }
}

/// Notes a turn that was computed in the cursor of its session.
session_answer session_group::state::finish(turn_in_work& w) {
  stored_session& stored = w.session->stored;
  // Apart from `drawn`, the cursor changes only after the whole turn was computed.
  session_facts& facts = stored.facts;
  ++facts.turns;
  ++turns;
  facts.position = prose().position(w.session->lane);
  facts.history = hash_of_ids(hash_of_ids(facts.history, {}) ^ w.digest, w.answer);
  // The last turn is kept for a client that asks again.
  stored.last_digest = w.digest;
  stored.last_kind = static_cast<std::uint8_t>(w.turn->kind);
  stored.last_answer = std::move(w.answer);
  session_answer out;
  out.session = facts.name;
  out.turn = facts.turns;
  out.kind = w.turn->kind;
  out.position = facts.position;
  out.tokens = stored.last_answer;
  if (w.turn->kind == turn_kind::close) {
    lane_taken[w.session->lane] = false;
    sessions.erase(out.session);
  }
  changed = true;
  return out;
}

/// Turns are prepared one after another, computed together, and noted at the end.
result<std::vector<result<session_answer>>> session_group::answer(
    std::span<const session_turn> turns) {
  state& s = *state_;
  WEIR_CHECK(s.usable());
  const std::int64_t begun_ns = now_ns();
  std::vector<std::optional<result<session_answer>>> found(turns.size());
  std::vector<turn_in_work> work;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const session_turn& turn = turns[i];
    const bool twice = std::any_of(work.begin(), work.end(), [&](const turn_in_work& w) {
      return w.turn->session == turn.session;
    });
    const auto prepare = [&]() -> result<std::optional<session_answer>> {
      WEIR_CHECK(check_turn(turn, vocabulary()));
      if (twice) {
        return turn_error(turn, errc::invalid_argument,
                          "expected one turn of a session at a time, found two");
      }
      WEIR_TRY(auto again, s.answer_again(turn));
      if (again) {
        return again;
      }
      WEIR_TRY(open_session* const session, s.session_for(turn));
      if (turn.kind == turn_kind::text && turn.tokens.empty() && turn.answer_tokens > 0) {
        if (const auto logits = s.prose().pending_logits(session->lane); !logits) {
          return turn_error(turn, errc::invalid_argument,
                            "expected a text to continue, because its context is empty, "
                            "found an empty one");
        }
      }
      work.push_back({&turn, session, digest_of(turn), 0, 0, {}, i});
      return std::optional<session_answer>();
    };
    auto prepared = prepare();
    if (!prepared) {
      found[i] = std::move(prepared).error();
    } else if (*prepared) {
      found[i] = std::move(**prepared);
    }
  }
  if (auto computed = s.compute(work); !computed) {
    s.failure = computed.error();
    return std::move(computed).error();
  }
  const double seconds = seconds_since(begun_ns);
  for (turn_in_work& w : work) {
    session_answer done = s.finish(w);
    done.seconds = seconds;
    found[w.place] = std::move(done);
  }
  std::vector<result<session_answer>> out;
  for (auto& one : found) {
    out.push_back(std::move(*one));
  }
  return out;
}

/// Returns the bytes of a context, as `prose::restore` takes them.
/// @pre No task of the model runs.
byte_vector session_group::state::context_of(std::uint32_t lane) {
  byte_vector out;
  for (const models::named_region& region : prose().regions()) {
    if (region.kind == models::region_kind::context && region.lane == lane) {
      const runtime::tensor& data = region.data;
      WEIR_EXPECT(data.row_major());
      append(out, {data.data(),
                   static_cast<std::size_t>(data.count()) * info_of(data.type()).size});
    }
  }
  return out;
}

result<std::uint64_t> session_group::save() {
  state& s = *state_;
  if (!s.changed) {
    return s.generation;
  }
  WEIR_CHECK(s.usable());
  WEIR_CHECK(s.model->engine->wait_all());
  session_record record;
  record.turns = s.turns;
  record.parameter_hash = s.parameters.hash;
  record.kernels = s.prose().kernel_set();
  std::vector<byte_vector> contexts;
  for (const auto& [name, one] : s.sessions) {
    record.sessions.push_back(one.stored);
    contexts.push_back(s.context_of(one.lane));
  }
  const byte_vector cursors = encode(record);
  std::vector<storage::checkpoint_section> sections;
  sections.push_back(
      {std::string(storage::section::config), as_view(s.parameters.model)});
  sections.push_back({std::string(storage::section::sessions), cursors});
  sections.push_back({parameters_section, s.message});
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    sections.push_back({context_section(record.sessions[i].facts.name), contexts[i]});
  }
  // The number of turns orders the checkpoints, as items do for a run.
  WEIR_TRY(s.generation, s.store.save(sections, s.turns));
  s.changed = false;
  return s.generation;
}

std::vector<session_facts> session_group::sessions() const {
  std::vector<session_facts> out;
  for (const auto& [name, one] : state_->sessions) {
    out.push_back(one.stored.facts);
  }
  return out;
}

std::uint32_t session_group::vocabulary() const noexcept {
  return state_->prose().config().vocab;
}

std::uint64_t session_group::parameter_hash() const noexcept {
  return state_->parameters.hash;
}

const std::string& session_group::problem() const noexcept {
  return state_->problem;
}

}  // namespace weir::actors
