// SPDX-License-Identifier: Apache-2.0
/// @file
/// What each verb of `weir tgm` takes and does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "tgm/recode.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

struct tgm_verb_options {
  std::vector<std::string> files;
  std::string file;   ///< of a verb that takes one; becomes the only one of `files`
  std::string keys;   ///< -p: separated by commas
  std::string where;  ///< -w: KEY=V1/V2 or KEY!=V1/V2
  std::string sets;   ///< -s of `set`: KEY=VALUE,...
  std::string out;    ///< -o
  std::string strategy = "first";
  std::string object = "0";
  std::uint64_t message = 0;
  std::uint64_t limit = 8;  ///< of `dump`: elements per object, 0 for all
  bool raw = false;         ///< of `dump`: the bytes of one object
  std::string level = "integrity";
  bool quick = false;
  bool checksum = false;
  bool full = false;
  bool canonical = false;
  bool legacy = false;
  bool recode = false;
  bool skip_damaged = false;
  bool json = false;
  std::uint64_t max_object_bytes = formats::read_options().max_object_bytes;
  encoding_wishes encoding;

  /// How every verb but `validate` reads messages.
  [[nodiscard]] formats::read_options reading() const;
};

[[nodiscard]] command_result tgm_info(const tgm_verb_options& options, output& out);
/// Objects with digests; with keys, a clause or several files a row per message, as the
/// reference prints it.
[[nodiscard]] command_result tgm_list(const tgm_verb_options& options, output& out);
/// Messages as the reference prints them: text, or one JSON object each.
[[nodiscard]] command_result tgm_describe(const tgm_verb_options& options, output& out);
/// Values of objects, one JSON line each.
[[nodiscard]] command_result tgm_dump_values(const tgm_verb_options& options,
                                             output& out);
[[nodiscard]] command_result tgm_get(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_set(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_copy(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_merge(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_split(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_reshuffle(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_check(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_export(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_show(const tgm_verb_options& options, output& out);
[[nodiscard]] command_result tgm_doctor(const tgm_verb_options& options, output& out);

/// Replaces the content of a file, or writes nothing. @error{io; no_space}
[[nodiscard]] result<void> save(const std::string& path, bytes_view bytes);

/// Prints what a verb has written: facts as JSON if asked for, else `text`, if any.
void report(const tgm_verb_options& options, formats::cbor_map facts,
            const std::string& text, output& out);

}  // namespace weir::tools
