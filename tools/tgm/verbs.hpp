// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir tgm`: their options, and the functions that perform them.
///
/// All verbs fail with `not_found` or `io` if a file cannot be read, with `corrupt` or
/// another code of damaged data if a message is damaged, and with `io` or `no_space` if
/// an output cannot be written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "tgm/recode.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// Options of all verbs of `weir tgm`; each verb uses some of them.
struct tgm_verb_options {
  std::vector<std::string> files;
  std::string file;   ///< for verbs with one file; becomes the only one of `files`
  std::string keys;   ///< -p: separated by commas
  std::string where;  ///< -w: KEY=V1/V2 or KEY!=V1/V2
  std::string sets;   ///< -s of `set`: KEY=VALUE,...
  std::string out;    ///< -o: output file or template of names
  std::string strategy = "first";   ///< for `merge`: first, last or error
  std::string object = "0";         ///< name or number of an object
  std::uint64_t message = 0;        ///< number of a message
  std::uint64_t limit = 8;          ///< for `dump`: elements per object, 0 for all
  bool raw = false;                 ///< for `dump`: print the bytes of one object
  std::string level = "integrity";  ///< for `validate`
  bool quick = false;               ///< for `validate`: structure alone
  bool checksum = false;            ///< for `validate`: do not decode
  bool full = false;                ///< for `validate`: check values, too
  bool canonical = false;           ///< for `validate`: require canonical CBOR
  bool legacy = false;              ///< accept old digests and packing keys
  bool recode = false;              ///< for `copy`: encode every object again
  bool skip_damaged = false;        ///< leave damaged messages out
  bool json = false;
  std::uint64_t max_object_bytes = formats::read_options().max_object_bytes;
  encoding_overrides encoding;

  /// Returns the options for reading messages, in all verbs but `validate`.
  [[nodiscard]] formats::read_options reading() const;
};

/// `info`: prints the number of messages and the size of each file.
[[nodiscard]] command_result tgm_info(const tgm_verb_options& options, output& out);
/// `ls`: lists the objects of one file with their digests. With keys, a clause or several
/// files, prints a row for each message, in the form of the reference implementation.
[[nodiscard]] command_result tgm_list(const tgm_verb_options& options, output& out);
/// `dump`: prints messages in the form of the reference implementation, as text or as one
/// JSON object each.
[[nodiscard]] command_result tgm_describe(const tgm_verb_options& options, output& out);
/// `dump` with options for values: prints the values of objects, one JSON line each.
[[nodiscard]] command_result tgm_dump_values(const tgm_verb_options& options,
                                             output& out);
/// `get`: prints the values of keys, a line for each message.
/// @error{not_found, a message does not have a key}
[[nodiscard]] command_result tgm_get(const tgm_verb_options& options, output& out);
/// `set`: writes a copy of a file with other values of keys.
/// @error{invalid_argument, a key must not be changed}
[[nodiscard]] command_result tgm_set(const tgm_verb_options& options, output& out);
/// `copy`: copies messages to other files.
[[nodiscard]] command_result tgm_copy(const tgm_verb_options& options, output& out);
/// `merge`: writes all objects of several files as one message.
/// @error{invalid_argument, a key has two values and the strategy is "error"}
[[nodiscard]] command_result tgm_merge(const tgm_verb_options& options, output& out);
/// `split`: writes a file for each object.
[[nodiscard]] command_result tgm_split(const tgm_verb_options& options, output& out);
/// `reshuffle`: moves metadata and index from the end of messages to their front.
[[nodiscard]] command_result tgm_reshuffle(const tgm_verb_options& options, output& out);
/// `validate`: reports everything that is wrong with files.
[[nodiscard]] command_result tgm_check(const tgm_verb_options& options, output& out);
/// `export`: writes an object as a NumPy file.
/// @error{not_found, the file has no such message or object}
[[nodiscard]] command_result tgm_export(const tgm_verb_options& options, output& out);
/// `show`: draws an object in the terminal, and as a PNG file.
/// @error{not_found, the file has no such message or object}
[[nodiscard]] command_result tgm_show(const tgm_verb_options& options, output& out);
/// `doctor`: prints the codecs of this build and tries each of them.
[[nodiscard]] command_result tgm_doctor(const tgm_verb_options& options, output& out);

/// Replaces the content of a file, or leaves it unchanged on failure.
/// @error{io, no_space, the file cannot be written}
/// @error{unsupported, the path is an address}
[[nodiscard]] result<void> save(const std::string& path, bytes_view bytes);

/// Prints the outcome of a verb: `facts` as JSON if the options ask for JSON, and
/// otherwise `text`, if it is not empty.
void report(const tgm_verb_options& options, formats::cbor_map facts,
            const std::string& text, output& out);

}  // namespace weir::tools
