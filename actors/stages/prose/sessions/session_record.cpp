// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes the cursors of sessions.
#include "stages/prose/sessions/session_record.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/record.hpp"

namespace weir::actors {

namespace {

constexpr std::uint32_t sessions_version = 1;
constexpr std::size_t longest_session_name = 64;
/// Smallest number of bytes of a session in the record.
constexpr std::size_t min_session_bytes = 4 + 6 * 8 + 1 + 4;

void put_session(record_writer& out, const stored_session& one) {
  out.put_text(one.facts.name);
  for (const std::uint64_t number :
       {one.facts.seed, one.facts.turns, one.facts.position, one.facts.drawn,
        one.facts.history, one.last_digest}) {
    out.put(number);
  }
  out.put(one.last_kind);
  out.put(static_cast<std::uint32_t>(one.last_answer.size()));
  out.put_all(std::span<const std::uint32_t>(one.last_answer));
}

stored_session get_session(record_reader& from) {
  stored_session one;
  one.facts.name = from.get_text();
  for (std::uint64_t* const number :
       {&one.facts.seed, &one.facts.turns, &one.facts.position, &one.facts.drawn,
        &one.facts.history, &one.last_digest}) {
    *number = from.get<std::uint64_t>();
  }
  one.last_kind = from.get<std::uint8_t>();
  const std::size_t tokens = from.get_count<std::uint32_t>(sizeof(std::uint32_t));
  one.last_answer = from.get_all<std::uint32_t>(tokens);
  return one;
}

bool is_possible(const stored_session& one) {
  return is_session_name(one.facts.name) && one.facts.turns > 0 &&
         one.last_kind < static_cast<std::uint8_t>(turn_kind::close) &&
         one.last_answer.size() <= max_turn_tokens;
}

}  // namespace

bool is_session_name(std::string_view name) noexcept {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= longest_session_name &&
         name.find_first_not_of(allowed) == std::string_view::npos;
}

std::string context_section(const std::string& session) {
  return "CTX/session/" + session;
}

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
  const auto version = from.get<std::uint32_t>();
  if (!from.failed() && version != sessions_version) {
    return error(
        errc::unsupported_version,
        fmt::format("cannot read section SESSIONS: expected version {}, found {}",
                    sessions_version, version));
  }
  out.parameter_hash = from.get<std::uint64_t>();
  out.kernels = from.get_text();
  const std::size_t count = from.get_count<std::uint32_t>(min_session_bytes);
  bool possible = count <= max_sessions;
  for (std::size_t i = 0; possible && i < count && !from.failed(); ++i) {
    out.sessions.push_back(get_session(from));
    possible = is_possible(out.sessions.back()) &&
               (i == 0 || out.sessions[i - 1].facts.name < out.sessions[i].facts.name);
  }
  if (from.failed() || !from.rest().empty() || !possible) {
    return error(errc::corrupt,
                 "cannot read section SESSIONS: expected the cursors of sessions in the "
                 "order of their names, found other bytes");
  }
  return out;
}

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
