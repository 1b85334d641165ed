// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the verbs that write files share.
#pragma once

#include "tgm/messages.hpp"
#include "tgm/stored.hpp"
#include "tgm/verbs.hpp"

namespace weir::tools {

/// Replaces the content of a file, or writes nothing. @error{io; no_space}
[[nodiscard]] result<void> save(const std::string& path, bytes_view bytes);

/// Prints what a verb has written: facts as JSON if asked for, else `text`, if any.
void report(const tgm_verb_options& options, formats::cbor_map facts,
            const std::string& text, output& out);

/// All objects of a message after their digests were verified, each as it is stored or
/// with the masks that `wishes` ask for.
/// @error{hash_mismatch; what reading and encoding return}
[[nodiscard]] result<stored_message> stored_copy(const formats::message_reader& reader,
                                                 std::size_t number,
                                                 const encoding_wishes& wishes);

}  // namespace weir::tools
