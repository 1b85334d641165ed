// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading a tag piece by piece.
#include "source/volume_reader.hpp"

#include <algorithm>

namespace weir::actors {

namespace {

result<std::uint64_t> open_tag(volume_reader_shell& s, const volume_spec& spec) {
  WEIR_TRY(const auto volume, storage::hn4_volume::open(spec.path));
  WEIR_TRY(auto stream, volume.stream(spec.tag));
  s.stream.emplace(std::move(stream));
  return s.stream->size();
}

result<local<byte_vector>> read_piece(const volume_reader_shell& s, std::uint64_t offset,
                                      std::uint64_t bytes) {
  if (!s.stream) {
    return error(errc::stopping, "the volume reader has no tag: expected an open before");
  }
  byte_vector piece(
      std::min(bytes, s.stream->size() - std::min(offset, s.stream->size())));
  WEIR_TRY(const std::size_t read, s.stream->read(offset, piece));
  piece.resize(read);
  return by_reference(std::move(piece));
}

}  // namespace

volume_reader_actor::behavior_type volume_reader_io(
    volume_reader_actor::stateful_pointer<volume_reader_shell> self,
    volume_reader_config config) {
  install_defaults(self);
  return {
      answers("volume reader, read",
              [self, config](read_atom, std::uint64_t offset, std::uint64_t bytes) {
                return read_piece(self->state, offset, std::min(bytes, config.piece));
              }),
      answers("volume reader, open",
              [self](open_atom, const local<volume_spec>& spec) {
                return open_tag(self->state, *spec);
              }),
  };
}

}  // namespace weir::actors
