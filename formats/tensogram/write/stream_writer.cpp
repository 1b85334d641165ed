// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a message whose length is not known in advance: a stream.
///
/// Bytes go to a sink in order and are never read back. Everything that is known only at
/// the end is in the footer: final metadata, digest list, index. The metadata of an
/// object precede it in a preceder frame, so that a reader of the stream has them in
/// time.
#include <fmt/core.h>

#include "tensogram/wire/metadata.hpp"
#include "tensogram/write/frame_writer.hpp"

namespace weir::formats {

/// State of a writer. After a failure of the sink it is unknown which bytes the sink has,
/// so every later call returns the same failure.
struct stream_writer::state {
  byte_sink sink;  ///< receives all bytes in order
  message_options options;
  std::vector<cbor_map> base;          ///< given in advance, then one per object
  object_index index;                  ///< for the index in the footer
  std::vector<std::uint64_t> digests;  ///< of the frames of the objects
  std::uint64_t written = 0;           ///< bytes that the sink has taken
  bool finished = false;               ///< the postamble has been written
  std::optional<error> failure;        ///< first failure of the sink

  // Streams have a digest list in their footer or none.
  bool listed() const { return options.hashes && options.list != hash_list::none; }

  /// Passes bytes to the sink and keeps its failure.
  result<void> put(bytes_view bytes) {
    if (bytes.empty()) {
      return {};
    }
    if (auto done = sink(bytes); !done) {
      failure = done.error();
      return done;
    }
    written += bytes.size();
    return {};
  }
  // Writes a frame with a map.
  result<void> put_frame(std::uint16_t type, const cbor_map& body) {
    return put(make_frame(type, encode_cbor(body), options.hashes));
  }
  /// Returns an error after a failure or after the end.
  result<void> usable() const {
    if (failure) {
      return *failure;
    }
    if (finished) {
      return error(errc::invalid_argument,
                   "cannot write stream: expected an open one, found it finished");
    }
    return {};
  }

  result<void> start();
  result<void> put_object(const object_to_write& object, prepared_object prepared);
  result<void> finish(bool with_length);
};

/// Writes the preamble and the header metadata. The flags are written before anything
/// else is known, so they announce all frames that may follow.
result<void> stream_writer::state::start() {
  unsigned flags = preamble_flag::header_metadata | preamble_flag::footer_metadata |
                   preamble_flag::footer_index | preamble_flag::preceder;
  flags |= listed() ? preamble_flag::footer_hashes : 0u;
  flags |= options.hashes ? preamble_flag::hashes_present : 0u;
  WEIR_CHECK(put(make_preamble({static_cast<std::uint16_t>(flags), 0})));
  // The header has no `_reserved_`: the writer describes itself in the footer.
  return put_frame(frame_type::header_metadata, make_metadata({base, options.extra, {}}));
}

/// Writes the preceder of an object, if it has metadata, and its frame. The payload is
/// hashed in a pass of its own before the first byte is written, so that a value which is
/// not finite is found in time.
result<void> stream_writer::state::put_object(const object_to_write& object,
                                              prepared_object prepared) {
  const std::size_t i = digests.size();
  auto passed = pass_payload(prepared, options.hashes, nullptr);
  if (!passed) {
    return std::move(passed).error().located(object_name(i));
  }
  const std::uint64_t digest = *passed;
  if (!object.metadata.empty()) {
    WEIR_CHECK(
        put_frame(frame_type::preceder, make_metadata({{object.metadata}, {}, {}})));
  }
  // The index has the place of the frame, behind its preceder.
  index.offsets.push_back(written);
  index.lengths.push_back(prepared.frame_length());
  digests.push_back(digest);
  // Entries given in advance are kept; others are made as objects come.
  if (base.size() <= i) {
    base.resize(i + 1);
  }
  overlay(base[i], object.metadata);
  add_reserved(base[i], prepared.reserved);
  WEIR_CHECK(put(make_frame_header(frame_type::object, object_flags(options.hashes),
                                   prepared.frame_length())));
  WEIR_CHECK(put(prepared.payload.bytes));
  WEIR_CHECK(put(prepared.masks));
  WEIR_CHECK(put(prepared.descriptor));
  return put(make_object_end(prepared, digest));
}

/// Writes the footer frames in the order 7, 5, 6, as the reference does, and the
/// postamble, which has the length of the message if `with_length`.
result<void> stream_writer::state::finish(bool with_length) {
  WEIR_CHECK(usable());
  // A header that describes more objects than follow would make the message unreadable.
  if (base.size() > digests.size()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot finish stream: expected {} objects as the header metadata "
                    "has, found {}",
                    base.size(), digests.size()));
  }
  const std::uint64_t footer = written;
  WEIR_CHECK(
      put_frame(frame_type::footer_metadata,
                make_metadata({base, options.extra, make_provenance(options.writer)})));
  if (listed() && !digests.empty()) {
    WEIR_CHECK(put_frame(frame_type::footer_hashes, make_digests(digests)));
  }
  WEIR_CHECK(put_frame(frame_type::footer_index, make_index(index)));
  // The length includes the postamble itself.
  WEIR_CHECK(put(make_postamble({footer, with_length ? written + postamble_size : 0})));
  finished = true;
  return {};
}

stream_writer::stream_writer(std::unique_ptr<state> s) : state_(std::move(s)) {}
stream_writer::stream_writer(stream_writer&&) noexcept = default;
stream_writer& stream_writer::operator=(stream_writer&&) noexcept = default;
stream_writer::~stream_writer() = default;

/// A digest list in the header is impossible, because the header is written first.
result<stream_writer> stream_writer::open(byte_sink sink, message_options options,
                                          std::vector<cbor_map> header_base) {
  if (options.list == hash_list::header || options.list == hash_list::both) {
    return error(
        errc::invalid_argument,
        "cannot open stream: expected the digest list in the footer, found it in the "
        "header");
  }
  WEIR_CHECK(
      check_metadata(options.extra, metadata_place::extra, "metadata of the message"));
  for (const cbor_map& entry : header_base) {
    WEIR_CHECK(check_metadata(entry, metadata_place::base_entry, "base entry"));
  }
  auto s = std::make_unique<state>();
  s->sink = std::move(sink);
  s->options = std::move(options);
  s->base = std::move(header_base);
  WEIR_CHECK(s->start());
  return stream_writer(std::move(s));
}

/// The object is prepared before anything is written, so a bad one leaves the stream as
/// it was.
result<void> stream_writer::write(const object_to_write& object) {
  WEIR_CHECK(state_->usable());
  WEIR_TRY(prepared_object prepared, prepare(object, state_->digests.size(),
                                             state_->options, state_->options.threads));
  return state_->put_object(object, std::move(prepared));
}

/// A pipe cannot be written at its start, so the length stays 0.
result<void> stream_writer::finish() {
  return state_->finish(false);
}

/// The length in the preamble is patched last: a message that is cut off before looks
/// like a stream that was cut off.
result<void> stream_writer::finish(const byte_patch& patch) {
  WEIR_CHECK(state_->finish(true));
  std::array<std::byte, 8> length{};
  store_be<std::uint64_t>(length.data(), state_->written);
  return patch(16, length);
}

std::size_t stream_writer::object_count() const noexcept {
  return state_->digests.size();
}
std::uint64_t stream_writer::bytes_written() const noexcept {
  return state_->written;
}

}  // namespace weir::formats
