// SPDX-License-Identifier: Apache-2.0
/// @file
/// The reader of one message: opening, and access to metadata and objects. Decoding is in
/// object_io.cpp.
///
/// Opening walks over all frames (`layout.cpp`), then reads what is in them
/// (`contents.cpp`). Afterwards the reader is constant, so its functions may be called on
/// several threads, if the source allows it. Every function checks the number of the
/// object first and adds the place of the object to errors that have none.
#include <fmt/core.h>

#include <new>

#include "tensogram/codec/parallel.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/outline.hpp"
#include "tensogram/read/reader_state.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

namespace {

/// Allocates memory for elements.
result<byte_vector> allocate(std::uint64_t bytes) {
  // The size comes from the file, and may be more than there is.
  try {
    return byte_vector(bytes);
  } catch (const std::exception&) {
    return error(
        errc::out_of_memory,
        fmt::format("cannot decode: expected {} bytes of memory, found fewer", bytes));
  }
}

/// Returns a provider that allocates `out` when the memory is requested.
/// The memory of `out` is taken only when the payload has shown that it decodes to the
/// size.
element_memory memory_of(byte_vector& out) {
  return [&](std::uint64_t bytes) -> result<mutable_bytes> {
    WEIR_TRY(out, allocate(bytes));
    return mutable_bytes(out);
  };
}

}  // namespace

/// Reads the stored bytes of an object.
result<byte_vector> message_reader::state::stored(std::size_t i,
                                                  std::uint64_t bytes) const {
  WEIR_TRY(byte_vector out, allocate(bytes));
  // The range has been checked when the message was opened.
  WEIR_CHECK(source->read(layout.span.offset + contents.objects[i].payload_offset, out));
  return out;
}

message_reader::message_reader(std::unique_ptr<state> s) : state_(std::move(s)) {}
message_reader::message_reader(message_reader&&) noexcept = default;
message_reader& message_reader::operator=(message_reader&&) noexcept = default;
message_reader::~message_reader() = default;

result<message_reader> message_reader::open(bytes_view message,
                                            const read_options& options) {
  // The bytes are not copied, so they must live as long as the reader.
  return open(std::make_shared<memory_byte_source>(message), {0, message.size()},
              options);
}

/// Reads all frames but no payload. The first error among the issues is returned.
result<message_reader> message_reader::open(std::shared_ptr<const byte_source> source,
                                            message_span span,
                                            const read_options& options) {
  if (source->distant()) {
    // Reading frames one by one would cost one request each.
    WEIR_CHECK(prefetch_frames(source, span));
  }
  // The state has a fixed address, since the reader may be moved.
  auto s = std::make_unique<state>();
  s->source = std::move(source);
  s->options = options;
  piece_reader pieces(*s->source);
  issue_list issues;
  // Structure first: without it, the content cannot be found.
  WEIR_TRY(s->layout, read_layout(pieces, span, issues));
  if (const found_issue* found = issues.first_error()) {
    return as_error(*found, *s->source, span.offset);
  }
  // Which digests are checked now depends on the options.
  const content_checks checks{
      options.hashes != hash_check::none,
      options.legacy_hashes || options.hashes == hash_check::present, false};
  WEIR_TRY(s->contents, read_contents(pieces, s->layout, checks, issues));
  if (const found_issue* found = issues.first_error()) {
    return as_error(*found, *s->source, span.offset);
  }
  return message_reader(std::move(s));
}

std::size_t message_reader::object_count() const noexcept {
  // The number of frames that hold an object.
  return state_->contents.objects.size();
}
const message_metadata& message_reader::metadata() const noexcept {
  return state_->contents.metadata;
}
/// Accessors of one object expect a valid number: a caller counts the objects first.
const cbor_map& message_reader::metadata(std::size_t i) const {
  WEIR_EXPECT(i < object_count());
  return state_->contents.metadata.base[i];
}
const object_descriptor& message_reader::descriptor(std::size_t i) const {
  WEIR_EXPECT(i < object_count());
  return state_->contents.objects[i].descriptor;
}
std::uint64_t message_reader::object_bytes(std::size_t i) const {
  WEIR_EXPECT(i < object_count());
  return state_->contents.objects[i].decoded;
}
std::uint64_t message_reader::stored_bytes(std::size_t i) const {
  WEIR_EXPECT(i < object_count());
  return state_->contents.objects[i].payload_length;
}

/// Returns the first object with this name in its metadata.
/// A name that is no text is no name.
std::optional<std::size_t> message_reader::find(std::string_view name) const {
  for (std::size_t i = 0; i < object_count(); ++i) {
    const cbor_value* value = metadata(i).find("name");
    if (value != nullptr && value->text() != nullptr && *value->text() == name) {
      return i;
    }
  }
  return std::nullopt;
}

/// Decodes object `i` into new memory. Errors get the place of the object in the source.
result<byte_vector> message_reader::decode(std::size_t i) const {
  WEIR_CHECK(state_->check_index(i));
  byte_vector out;
  auto done =
      decode_object(*state_->source, state_->layout.span.offset, state_->layout.head,
                    state_->contents.objects[i], state_->options, memory_of(out));
  if (!done) {
    return state_->located(std::move(done).error(), i);
  }
  return out;
}

/// Decodes object `i` into memory of the caller, which must have exactly the decoded
/// size.
result<void> message_reader::decode_into(std::size_t i, mutable_bytes to) const {
  WEIR_CHECK(state_->check_index(i));
  const object_place& object = state_->contents.objects[i];
  // Neither more nor less space, so that no byte stays without a value.
  if (to.size() != object.decoded) {
    return error(errc::invalid_argument,
                 fmt::format(
                     "cannot decode object {}: expected space for {} bytes, found {}", i,
                     object.decoded, to.size()))
        .located(state_->place_of(i));
  }
  auto done = decode_object(*state_->source, state_->layout.span.offset,
                            state_->layout.head, object, state_->options, memory_at(to));
  if (!done) {
    return state_->located(std::move(done).error(), i);
  }
  return {};
}

/// Several objects are decoded on several threads; each object then also uses up to
/// `options.threads` threads for itself.
result<std::vector<byte_vector>> message_reader::decode_all() const {
  const unsigned threads = state_->options.threads;
  std::vector<std::optional<result<byte_vector>>> parts(object_count());
  // One object takes all threads itself.
  for_each_piece(object_count() > 1 ? threads : 1, object_count(),
                 [&](std::size_t i) { parts[i].emplace(decode(i)); });
  std::vector<byte_vector> out;
  // The first error in the order of the objects is returned, whichever came first in
  // time.
  for (auto& part : parts) {
    WEIR_TRY(byte_vector elements, std::move(*part));
    out.push_back(std::move(elements));
  }
  return out;
}

/// Decodes a range of elements. For uncompressed elements, and for codecs whose stream
/// has an entry point near the range, only a part of the payload is read. The digest is
/// not verified, because it covers the whole frame.
result<byte_vector> message_reader::decode_range(std::size_t i, std::uint64_t first,
                                                 std::uint64_t count) const {
  WEIR_CHECK(state_->check_index(i));
  const object_place& object = state_->contents.objects[i];
  const auto all = static_cast<std::uint64_t>(element_count(object.descriptor.shape));
  // Subtraction instead of a sum: both numbers come from the caller.
  if (first > all || count > all - first) {
    return error(errc::out_of_range,
                 fmt::format("cannot decode range: expected elements below {}, found {} "
                             "from {} on",
                             all, count, first))
        .located(state_->place_of(i));
  }
  byte_vector out;
  auto done = decode_object_range(*state_->source, state_->layout.span.offset, object,
                                  state_->options, first, count, memory_of(out));
  if (!done) {
    return state_->located(std::move(done).error(), i);
  }
  return out;
}

/// The masks are those of the whole object.
result<value_masks> message_reader::masks(std::size_t i) const {
  WEIR_CHECK(state_->check_index(i));
  auto out = read_masks(*state_->source, state_->layout.span.offset,
                        state_->contents.objects[i], state_->options);
  if (!out) {
    return state_->located(std::move(out).error(), i);
  }
  return out;
}

/// The bytes are not verified; `verify` does that for all objects.
result<byte_vector> message_reader::stored_payload(std::size_t i) const {
  WEIR_CHECK(state_->check_index(i));
  // As they are in the file, in its own byte order.
  return state_->stored(i, state_->contents.objects[i].payload_length);
}

result<byte_vector> message_reader::stored_region(std::size_t i) const {
  WEIR_CHECK(state_->check_index(i));
  // Payload and masks together.
  return state_->stored(i, state_->contents.objects[i].region_length);
}

/// A view is possible only if the stored bytes are the elements and nothing must be
/// restored. The digest is verified all the same.
result<bytes_view> message_reader::view(std::size_t i) const {
  WEIR_CHECK(state_->check_index(i));
  const object_place& object = state_->contents.objects[i];
  const auto memory = state_->source->view();
  const bool swap = state_->options.native_order &&
                    object.descriptor.order != native_byte_order &&
                    info_of(object.descriptor.type).swap_unit > 1;
  // A plan tells whether any stage is in the way.
  const auto plan =
      plan_reading(object.descriptor, object.payload_length, state_->options);
  if (!plan) {
    return state_->located(plan.error(), i);
  }
  const bool masked =
      state_->options.restore_non_finite && !object.descriptor.masks.empty();
  // All four conditions must hold for the bytes to be the elements.
  if (!memory || swap || masked || !plan->raw()) {
    return error(errc::unsupported,
                 "cannot view object: expected uncompressed elements in memory and "
                 "native order, "
                 "found others")
        .located(state_->place_of(i))
        .hint("decode it");
  }
  auto good = verify_object(*state_->source, state_->layout.span.offset,
                            state_->layout.head, object, state_->options);
  if (!good) {
    return state_->located(std::move(good).error(), i);
  }
  // The view is as long-lived as the memory of the source.
  return memory->subspan(state_->layout.span.offset + object.payload_offset,
                         object.payload_length);
}

/// Verifies the digests of all objects, as far as the options ask for it. The first that
/// is wrong ends it.
result<void> message_reader::verify() const {
  for (std::size_t i = 0; i < object_count(); ++i) {
    auto good =
        verify_object(*state_->source, state_->layout.span.offset, state_->layout.head,
                      state_->contents.objects[i], state_->options);
    if (!good) {
      return state_->located(std::move(good).error(), i);
    }
  }
  return {};
}

/// The range of the message in its source.
message_span message_reader::span() const noexcept {
  return state_->layout.span;
}
/// The flags of the preamble.
std::uint16_t message_reader::flags() const noexcept {
  return state_->layout.head.flags;
}
/// A streamed message has no length in its preamble.
bool message_reader::streamed() const noexcept {
  return state_->layout.head.total_length == 0;
}
const std::vector<frame_info>& message_reader::frames() const noexcept {
  return state_->layout.frames;
}

/// The future waits in its destructor, as futures of std::async do.
std::future<result<byte_vector>> decode_later(
    std::shared_ptr<const message_reader> reader, std::size_t i) {
  // The reader is shared, so it lives until the result is there.
  return std::async(std::launch::async,
                    [reader = std::move(reader), i] { return reader->decode(i); });
}

}  // namespace weir::formats
