// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes the cursors of sessions.
///
/// The section SESSIONS of a checkpoint has the number of all turns first, then a
/// version, the hash of the parameters, the name of the kernels, and the sessions. The
/// contexts are sections of their own.
///
/// Decoding accepts only what encoding can make, so that a damaged record is found before
/// a context is read.
#include "stages/prose/sessions/session_record.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/record.hpp"

namespace weir::actors {

namespace {

/// Version of the record; others are refused.
constexpr std::uint32_t sessions_version = 1;
/// Names are also names of sections.
constexpr std::size_t longest_session_name = 64;
/// Smallest number of bytes of a session in the record.
/// A text has its length in front. It bounds the number of sessions that a damaged record
/// can claim.
constexpr std::size_t min_session_bytes = 4 + 6 * 8 + 1 + 4;

/// Adds a session.
void put_session(record_writer& out, const stored_session& one) {
  out.put_text(one.facts.name);
  // The order must be that of `get_session`.
  for (const std::uint64_t number :
       {one.facts.seed, one.facts.turns, one.facts.position, one.facts.drawn,
        one.facts.history, one.last_digest}) {
    out.put(number);
  }
  out.put(one.last_kind);
  // The answer has its length in front.
  out.put(static_cast<std::uint32_t>(one.last_answer.size()));
  out.put_all(std::span<const std::uint32_t>(one.last_answer));
}

/// Reads a session. Errors are noted by the reader.
stored_session get_session(record_reader& from) {
  stored_session one;
  one.facts.name = from.get_text();
  for (std::uint64_t* const number :
       {&one.facts.seed, &one.facts.turns, &one.facts.position, &one.facts.drawn,
        &one.facts.history, &one.last_digest}) {
    *number = from.get<std::uint64_t>();
  }
  one.last_kind = from.get<std::uint8_t>();
  // The reader refuses a count that the rest of the bytes cannot hold.
  const std::size_t tokens = from.get_count<std::uint32_t>(sizeof(std::uint32_t));
  one.last_answer = from.get_all<std::uint32_t>(tokens);
  return one;
}

/// Returns whether a session can have been stored. A closed one is never stored.
bool is_possible(const stored_session& one) {
  return is_session_name(one.facts.name) && one.facts.turns > 0 &&
         one.last_kind < static_cast<std::uint8_t>(turn_kind::close) &&
         one.last_answer.size() <= max_turn_tokens;
}

}  // namespace

/// The characters are safe in names of sections and in messages.
bool is_session_name(std::string_view name) noexcept {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= longest_session_name &&
         name.find_first_not_of(allowed) == std::string_view::npos;
}

/// Name of the section with the context of a session.
std::string context_section(const std::string& session) {
  return "CTX/session/" + session;
}

/// @pre The sessions are sorted by name.
byte_vector encode(const session_record& record) {
  record_writer out;
  out.put(record.turns);
  out.put(sessions_version);
  out.put(record.parameter_hash);
  out.put_text(record.kernels);
  out.put(static_cast<std::uint32_t>(record.sessions.size()));
  for (const stored_session& one : record.sessions) {
    put_session(out, one);
  }
  return std::move(out).take();
}

// Names stand in their order, so that equal sessions give equal bytes.
result<session_record> decode_sessions(bytes_view bytes) {
  record_reader from(bytes);
  session_record out;
  out.turns = from.get<std::uint64_t>();
  // The version of a record that is too short is 0 and says nothing.
  const auto version = from.get<std::uint32_t>();
  if (!from.failed() && version != sessions_version) {
    return error(
        errc::unsupported_version,
        fmt::format("cannot read section SESSIONS: expected version {}, found {}",
                    sessions_version, version));
  }
  out.parameter_hash = from.get<std::uint64_t>();
  out.kernels = from.get_text();
  // Checked against the bytes that are left, before memory is taken.
  const std::size_t count = from.get_count<std::uint32_t>(min_session_bytes);
  bool possible = count <= max_sessions;
  for (std::size_t i = 0; possible && i < count && !from.failed(); ++i) {
    out.sessions.push_back(get_session(from));
    // The names must rise, so none occurs twice.
    possible = is_possible(out.sessions.back()) &&
               (i == 0 || out.sessions[i - 1].facts.name < out.sessions[i].facts.name);
  }
  // Bytes behind the record are an error, too.
  if (from.failed() || !from.rest().empty() || !possible) {
    return error(errc::corrupt,
                 "cannot read section SESSIONS: expected the cursors of sessions in the "
                 "order of their names, found other bytes");
  }
  return out;
}

/// For programs that list sessions without a model.
result<std::vector<session_facts>> sessions_in(const storage::checkpoint& from) {
  WEIR_TRY(const auto* section, from.find(storage::section::sessions));
  auto record = decode_sessions(section->data);
  if (!record) {
    return std::move(record).error().located(from.path());
  }
  std::vector<session_facts> out;
  for (stored_session& one : record->sessions) {
    out.push_back(std::move(one.facts));
  }
  return out;
}

}  // namespace weir::actors
