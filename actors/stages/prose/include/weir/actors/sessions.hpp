// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sessions: conversations that share the parameters of one text model in one process.
///
/// Each session has its own context, cursor and seed. A session reads the tokens of a
/// turn, and then draws an answer, token by token. What a session answers depends on its
/// own turns and its seed alone, bit for bit, and not on the other sessions.
///
/// A folder of sessions holds checkpoints with the contexts and cursors of all sessions.
/// The parameters do not change, so later checkpoints refer to those of an earlier one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// Where sessions are stored, and where their parameters come from.
struct session_options {
  /// Folder of the sessions; it is made if it is missing.
  std::string folder;
  /// A run folder or an HN4 volume with the parameters; empty if the folder has sessions
  /// already.
  std::string from;
  std::string tag = "prose";  ///< tag of the parameters, if `from` is a volume
  /// Largest number of sessions at a time, from 1 to 1024; each one takes the memory of
  /// a context.
  std::uint32_t limit = 16;
  /// Instruction set of the model's kernels: "auto", or one of
  /// `models::instruction_sets_here`.
  std::string kernels = "auto";
};

/// Kind of a turn.
enum class turn_kind : std::uint8_t {
  text,   ///< the session reads tokens and draws an answer
  reset,  ///< the context of the session is emptied
  close   ///< the session ends and is forgotten
};

/// One turn of a session. The first one begins the session.
struct session_turn {
  /// Name of the session: 1 to 64 letters of ASCII, digits, and the characters . _ -
  std::string session;
  turn_kind kind = turn_kind::text;  ///< kind of the turn
  /// Number of the turn in its session, from 1 on; nothing takes the next one. The last
  /// turn may be asked again: its answer is returned and nothing is done.
  std::optional<std::uint64_t> number;
  std::vector<std::uint32_t> tokens;  ///< ids that are read, at most 2^20
  std::uint64_t answer_tokens = 0;    ///< tokens to draw, at most 2^20
  double temperature = 0.8;           ///< from 0 to 100; 0 takes the likeliest token
  std::optional<std::uint64_t> seed;  ///< seed of a new session; 1 without it
};

/// The answer to a turn.
struct session_answer {
  std::string session;                ///< name of the session
  std::uint64_t turn = 0;             ///< number of the turn
  turn_kind kind = turn_kind::text;   ///< kind of the turn
  std::uint64_t position = 0;         ///< tokens of the session so far, with the answer
  std::vector<std::uint32_t> tokens;  ///< tokens that were drawn
  bool repeated = false;              ///< the turn had been answered before
  double seconds = 0;                 ///< time that the turn took; 0 if it is repeated
};

/// The cursor of a session.
struct session_facts {
  std::string name;            ///< name of the session
  std::uint64_t seed = 1;      ///< seed of the random numbers that draw tokens
  std::uint64_t turns = 0;     ///< number of turns that were answered
  std::uint64_t position = 0;  ///< tokens that were read and drawn
  std::uint64_t drawn = 0;     ///< tokens that were drawn
  std::uint64_t history = 0;   ///< hash of all turns and answers in their order
  friend bool operator==(const session_facts&, const session_facts&) = default;
};

/// Returns the sessions of a checkpoint, sorted by name.
/// @error{not_found, the checkpoint is not one of sessions}
/// @error{corrupt, the section is damaged}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<session_facts>> sessions_in(
    const storage::checkpoint& from);

/// Sessions that share the parameters of a model.
/// @threads{thread-compatible}
class session_group {
 public:
  /// Opens a folder of sessions, or begins one with the parameters of a run or a volume.
  /// Also returns the errors of `parameters_of_run` and `load_parameters`.
  /// @error{invalid_argument, the folder has no sessions and `from` is empty; `limit` is
  /// out of its range or below the number of sessions; or the processor lacks the
  /// instruction set}
  /// @error{config_mismatch, `from` has other parameters than the sessions of the folder;
  /// or the folder holds a run}
  /// @error{locked, another process has the sessions open}
  /// @error{corrupt, no checkpoint of the folder is valid}
  [[nodiscard]] static result<std::unique_ptr<session_group>> open(
      const session_options& options);
  session_group(const session_group&) = delete;
  session_group& operator=(const session_group&) = delete;
  ~session_group();

  /// Answers turns of different sessions, which are computed together. The answers are
  /// not durable before `save` has returned.
  ///
  /// An error of one turn does not concern the others:
  /// `invalid_argument`: a name, a token, a number or a temperature is out of range; the
  /// session has another turn in this call; or it has read nothing to continue;
  /// `out_of_range`: the number of the turn is neither the next one nor the last one;
  /// `history_mismatch`: the last turn was asked again with other content;
  /// `config_mismatch`: the session has another seed;
  /// `out_of_memory`: there are `limit` sessions already.
  /// @returns for each turn its answer or its error
  /// @error{kernel_failed, the model cannot go on; open the folder again}
  [[nodiscard]] result<std::vector<result<session_answer>>> answer(
      std::span<const session_turn> turns);
  /// Writes a checkpoint of all sessions. Does nothing if no turn was answered since the
  /// last one.
  /// @returns the generation of the newest checkpoint
  /// @error{no_space; io}
  [[nodiscard]] result<std::uint64_t> save();

  /// Returns the sessions, sorted by name.
  [[nodiscard]] std::vector<session_facts> sessions() const;
  /// Returns the number of ids that a token may have.
  [[nodiscard]] std::uint32_t vocabulary() const noexcept;
  /// Returns the digest of the parameters, as `metrics.json` of the run has it.
  [[nodiscard]] std::uint64_t parameter_hash() const noexcept;
  /// Returns why answers may differ from those of before in their bits, because other
  /// kernels have computed the contexts; empty if they do not.
  [[nodiscard]] const std::string& problem() const noexcept;

 private:
  struct state;
  explicit session_group(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::actors
