// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions that several verbs of `weir tgm` share.
#include "tgm/verbs.hpp"

#include "weir/base/file.hpp"
#include "weir/formats/remote.hpp"

namespace weir::tools {

formats::read_options tgm_verb_options::reading() const {
  formats::read_options read;
  read.max_object_bytes = max_object_bytes;
  read.threads = encoding.threads;
  // One option of the user covers old digests and old packing keys.
  read.legacy_packing = legacy;
  return read;
}

result<void> save(const std::string& path, bytes_view bytes) {
  // An object in a store would have to be written as a whole by another protocol.
  if (formats::is_remote_address(path)) {
    return error(errc::unsupported,
                 "cannot write to an address: expected the name of a file, found one of "
                 "http, s3 or another store");
  }
  return write_file_atomically(posix_file_system(), path, bytes);
}

void report(const tgm_verb_options& options, formats::cbor_map facts,
            const std::string& text, output& out) {
  // With JSON every verb prints its facts. As text, some verbs are silent.
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(std::move(facts))));
  } else if (!text.empty()) {
    out.print("{}\n", text);
  }
}

}  // namespace weir::tools
