// SPDX-License-Identifier: Apache-2.0
/// @file
/// The section SESSIONS of a checkpoint: the cursors of all sessions.
#pragma once

#include <string>
#include <vector>

#include "weir/actors/sessions.hpp"
#include "weir/base/bytes.hpp"

namespace weir::actors {

/// A session as a checkpoint stores it, without its context.
struct stored_session {
  session_facts facts;
  std::uint64_t last_digest = 0;  ///< of the last turn, to recognise it
  std::uint8_t last_kind = 0;     ///< a `turn_kind`
  std::vector<std::uint32_t> last_answer;
};
/// All sessions of a checkpoint.
struct session_record {
  std::uint64_t turns = 0;           ///< turns of all sessions, closed ones too
  std::uint64_t parameter_hash = 0;  ///< digest of the parameters
  std::string kernels;               ///< kernels that have computed the contexts
  std::vector<stored_session> sessions;
};

/// Largest number of tokens that a turn reads, and that it draws.
inline constexpr std::uint64_t max_turn_tokens = std::uint64_t{1} << 20;
/// Largest number of sessions of a process.
inline constexpr std::uint32_t max_sessions = 1024;

/// Returns whether a session may have this name.
[[nodiscard]] bool is_session_name(std::string_view name) noexcept;
/// Returns the name of the section with the context of a session.
[[nodiscard]] std::string context_section(const std::string& session);

/// Returns the bytes of the section. Its first 8 bytes are the number of turns.
[[nodiscard]] byte_vector encode(const session_record& record);
/// @error{corrupt, the bytes are not those of a record}
[[nodiscard]] result<session_record> decode_sessions(bytes_view bytes);

}  // namespace weir::actors
