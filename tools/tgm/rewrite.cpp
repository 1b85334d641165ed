// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of messages that may be changed, and the files that they go into.
#include "tgm/rewrite.hpp"

#include "weir/base/file.hpp"

namespace weir::tools {

result<void> save(const std::string& path, bytes_view bytes) {
  return write_file_atomically(posix_file_system(), path, bytes);
}

void report(const tgm_verb_options& options, formats::cbor_map facts,
            const std::string& text, output& out) {
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(std::move(facts))));
  } else if (!text.empty()) {
    out.print("{}\n", text);
  }
}

result<stored_message> stored_copy(const formats::message_reader& reader,
                                   std::size_t number, const encoding_wishes& wishes) {
  WEIR_CHECK(reader.verify());
  stored_message out;
  out.take_head(reader);
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    WEIR_CHECK(take_with_masks(out, reader, number, i, wishes));
  }
  return out;
}

}  // namespace weir::tools
