// SPDX-License-Identifier: Apache-2.0
/// @file
/// The mandatory sections, and the check that stream and model are at one pulse.
///
/// A checkpoint that mixes a model of one pulse with a stream position of another could
/// be loaded without any checksum noticing. The pulse is therefore stored in three
/// places, and a file in which they differ is refused.
///
/// There are three kinds of checkpoints, told apart by their sections: EPOCH for a
/// pipeline, SESSIONS for sessions, else a run with one stream and one model. Each kind
/// has one number that the preamble repeats.
#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/layout.hpp"
#include "context/cursor_codec.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

/// The order is that of the file.
std::vector<checkpoint_section> cursor_sections::sections() const {
  return {{std::string(section::cursor), cursor},
          {std::string(section::source_state), source_state},
          {std::string(section::rng), rng}};
}

// Generator and source state have sections of their own, so they are left out of CURSOR.
cursor_sections sections_of(const stream_cursor& cursor) {
  cursor_sections out;
  stream_cursor bare = cursor;
  bare.rng.reset();
  bare.source_state.clear();
  out.cursor = encode(bare);
  out.source_state = cursor.source_state;
  out.rng = encode_rng(cursor.rng);
  return out;
}

/// The pulse comes first, so that the check can read it without knowing the rest.
byte_vector conductor_section(std::uint64_t pulse_id, bytes_view rest) {
  record_writer out;
  out.put(pulse_id);
  out.put_bytes(rest);
  return std::move(out).take();
}

namespace {

using loaded = checkpoint::loaded_section;

/// Finds a section by name; null if there is none.
const loaded* find_in(std::span<const loaded> sections, std::string_view name) {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const loaded& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

/// Makes the error for a missing section.
error absent(const std::string& path, std::string_view name) {
  return error(errc::corrupt,
               fmt::format("cannot read checkpoint: section {} is missing", name))
      .located(fmt::format("{} (section {})", path, name));
}

/// Wraps the error of a section that cannot be decoded. The code of the cause is kept.
error in_section(const std::string& path, std::string_view name, error cause) {
  const errc code = cause.code();
  return error(code, fmt::format("cannot read checkpoint section {}", name))
      .located(fmt::format("{} (section {})", path, name))
      .because(std::move(cause));
}

/// Checks that stream, model and file name the same pulse. A model that continued with
/// text from another pulse would silently learn something twice or not at all.
result<void> pass_gate(std::uint64_t stream, std::uint64_t model, std::uint64_t file,
                       const std::string& path) {
  if (stream == model && model == file) {
    return {};
  }
  return error(errc::stream_model_mismatch,
               fmt::format(
                   "model and stream are out of sync, cannot resume: expected one "
                   "pulse, found {} of the stream, {} of the model and {} of the file",
                   stream, model, file))
      .located(fmt::format("{} (section {})", path, section::cursor))
      .hint("use another generation");
}

/// Checks a checkpoint of a pipeline: its sections name the item that the file names.
///
/// The number of the next item stands behind the first 8 bytes of the section.
result<resume_state> check_pipeline(std::span<const loaded> sections, const loaded& epoch,
                                    std::uint64_t next_item, const std::string& path) {
  for (const std::string_view name : {section::config, section::pipeline}) {
    if (find_in(sections, name) == nullptr) {
      return absent(path, name);
    }
  }
  const bool sized = epoch.data.size() >= 16;
  const std::uint64_t stored = sized ? load_le<std::uint64_t>(epoch.data.data() + 8) : 0;
  if (!sized || stored != next_item) {
    return error(errc::corrupt,
                 fmt::format("cannot read checkpoint section {}: expected item {}, the "
                             "one that the file names, found {}",
                             section::epoch, next_item,
                             sized ? std::to_string(stored) : "too few bytes"))
        .located(fmt::format("{} (section {})", path, section::epoch));
  }
  return resume_state{};
}

/// Parameters have names with a common prefix, one section each.
bool is_parameter(const loaded& s) {
  return s.name.starts_with(section::param_prefix);
}

/// Checks a checkpoint of sessions: their number of turns is the one that the file names.
///
/// The number of turns is the first word of the section.
result<resume_state> check_sessions(std::span<const loaded> sections,
                                    const loaded& sessions, std::uint64_t turns,
                                    const std::string& path) {
  if (find_in(sections, section::config) == nullptr) {
    return absent(path, section::config);
  }
  if (std::none_of(sections.begin(), sections.end(), is_parameter)) {
    return absent(path, section::param_prefix);
  }
  if (sessions.data.size() < 8 || load_le<std::uint64_t>(sessions.data.data()) != turns) {
    return error(errc::corrupt,
                 fmt::format("cannot read checkpoint section {}: expected turn {}, the "
                             "one that the file names, found another one",
                             section::sessions, turns))
        .located(fmt::format("{} (section {})", path, section::sessions));
  }
  return resume_state{};
}

}  // namespace

// The order decides which error is reported. A missing cursor has a code of its own,
// because a model without its position in the text cannot be resumed.
//
// `sections` are views, from a file or from a caller who is about to save them.
result<resume_state> check_sections(std::span<const loaded> sections,
                                    std::uint64_t pulse_id, const std::string& path) {
  // The other kinds first.
  if (const loaded* const epoch = find_in(sections, section::epoch)) {
    return check_pipeline(sections, *epoch, pulse_id, path);
  }
  if (const loaded* const sessions = find_in(sections, section::sessions)) {
    return check_sessions(sections, *sessions, pulse_id, path);
  }
  const loaded* const cursor = find_in(sections, section::cursor);
  if (cursor == nullptr) {
    return error(errc::missing_cursor,
                 "there is no valid checkpoint without a StreamCursor")
        .located(fmt::format("{} (section {})", path, section::cursor));
  }
  // A section may be empty, but it must exist.
  for (const std::string_view name :
       {section::config, section::conductor, section::source_state, section::rng}) {
    if (find_in(sections, name) == nullptr) {
      return absent(path, name);
    }
  }
  if (std::none_of(sections.begin(), sections.end(), is_parameter)) {
    return absent(path, section::param_prefix);
  }
  resume_state out;
  auto decoded = decode_cursor(cursor->data);
  if (!decoded) {
    return in_section(path, section::cursor, std::move(decoded).error());
  }
  out.cursor = std::move(*decoded);
  auto rng = decode_rng(find_in(sections, section::rng)->data);
  if (!rng) {
    return in_section(path, section::rng, std::move(rng).error());
  }
  // Generator and source state are put back into the cursor.
  out.cursor.rng = *rng;
  const bytes_view source = find_in(sections, section::source_state)->data;
  out.cursor.source_state.assign(source.begin(), source.end());
  const bytes_view conductor = find_in(sections, section::conductor)->data;
  if (conductor.size() < 8) {
    return error(errc::corrupt,
                 fmt::format(
                     "cannot read checkpoint section {}: expected at least 8 bytes, "
                     "found {}",
                     section::conductor, conductor.size()))
        // The first 8 bytes of CONDUCTOR are the pulse.
        .located(fmt::format("{} (section {})", path, section::conductor));
  }
  WEIR_CHECK(pass_gate(out.cursor.pulse_id, load_le<std::uint64_t>(conductor.data()),
                       pulse_id, path));
  out.conductor = conductor.subspan(8);
  return out;
}

}  // namespace weir::storage
