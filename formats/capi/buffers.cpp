// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that find the messages in a buffer and the objects in a message.
///
/// Every function that returns a code runs inside `guarded`, which reports NULL pointers
/// and catches exceptions. The handles are plain structures that the caller owns and
/// frees. The conventions of all functions are at the top of tensogram.h.
#include <fmt/core.h>

#include <tensogram/tensogram_x.h>
#include <limits>

#include "capi/decode.hpp"

using namespace weir::capi;  // NOLINT: the functions below are C
using weir::formats::message_span;

/// The messages of a buffer. Holds places only, so the buffer may be freed before it.
struct tgm_scan_result_t {
  std::vector<message_span> spans;
};

/// Yields pointers into the caller's buffer, which must outlive the iterator.
struct tgm_buffer_iter_t {
  const std::uint8_t* data;
  std::vector<message_span> spans;
  std::size_t next = 0;
};

/// Yields decoded objects. The message is a copy, so the buffer may be freed at once.
struct tgm_object_iter_t {
  open_message message;
  std::size_t next = 0;
};

/// Bytes may be put until the end; see `message_splitter`.
struct tgm_x_splitter_t {
  weir::formats::message_splitter splitter;
  bool ended = false;
};

namespace {

/// Scans a buffer. Finding no message is no error.
outcome<std::vector<message_span>> scan_buffer(const std::uint8_t* buf,
                                               std::size_t length,
                                               tgm_x_scan_order order) {
  int number = 0;  // a C caller's number may lie outside
  std::memcpy(&number, &order, sizeof number);
  if (number < TGM_X_SCAN_FORWARD || number > TGM_X_SCAN_BOTH_ENDS) {
    return invalid_argument(
        fmt::format("cannot scan: expected an order from 0 to {}, found {}",
                    static_cast<int>(TGM_X_SCAN_BOTH_ENDS), number));
  }
  // The places refer to the buffer; nothing is copied.
  return weir::formats::scan(weir::formats::memory_byte_source(view_of(buf, length)),
                             static_cast<weir::formats::scan_order>(number));
}

}  // namespace

extern "C" {

/// The order of the reference: from the first message on.
tgm_error tgm_scan(const uint8_t* buf, size_t buf_len, tgm_scan_result_t** out) {
  return tgm_x_scan(buf, buf_len, TGM_X_SCAN_FORWARD, out);
}

tgm_error tgm_x_scan(const uint8_t* buf, size_t buf_len, tgm_x_scan_order order,
                     tgm_scan_result_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    WEIR_TRY(auto spans, scan_buffer(buf, buf_len, order));
    // The caller owns the result from here on.
    *out = new tgm_scan_result_t{std::move(spans)};
    return {};
  });
}

/// NULL has no messages.
size_t tgm_scan_count(const tgm_scan_result_t* result) {
  return result != nullptr ? result->spans.size() : 0;
}

tgm_scan_entry_t tgm_scan_entry(const tgm_scan_result_t* result, size_t index) {
  const std::size_t count = tgm_scan_count(result);
  if (index < count) {
    const message_span& span = result->spans[index];
    return {span.offset, span.length};
  }
  // The function returns no code, so the error is kept for tgm_last_error() only.
  // An entry that does not exist has an offset that no message can have.
  (void)guarded(result != nullptr, [&]() -> outcome<void> {
    return invalid_argument(fmt::format(
        "cannot name the place of message {}: expected an index below {}, found it out "
        "of range",
        index, count));
  });
  return {std::numeric_limits<std::size_t>::max(), 0};
}

void tgm_scan_free(tgm_scan_result_t* result) {
  delete result;
}

tgm_error tgm_buffer_iter_create(const uint8_t* buf, size_t buf_len,
                                 tgm_buffer_iter_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    WEIR_TRY(auto spans, scan_buffer(buf, buf_len, TGM_X_SCAN_FORWARD));
    // The iterator keeps the address of the buffer.
    *out = new tgm_buffer_iter_t{buf, std::move(spans)};
    return {};
  });
}

/// The number does not change while the iterator moves on.
size_t tgm_buffer_iter_count(const tgm_buffer_iter_t* iter) {
  return iter != nullptr ? iter->spans.size() : 0;
}

/// The message is a part of the caller's buffer and not a copy. The end is a code of its
/// own and no error, so no text is kept for it.
tgm_error tgm_buffer_iter_next(tgm_buffer_iter_t* iter, const uint8_t** out_buf,
                               size_t* out_len) {
  if (!given(iter, out_buf, out_len)) {
    return report(missing_pointer());
  }
  if (iter->next == iter->spans.size()) {
    return TGM_ERROR_END_OF_ITER;
  }
  const message_span& span = iter->spans[iter->next++];
  *out_buf = iter->data + span.offset;
  *out_len = span.length;
  return TGM_ERROR_OK;
}

void tgm_buffer_iter_free(tgm_buffer_iter_t* iter) {
  delete iter;
}

/// The message is opened once. Objects are decoded one by one, when they are asked for.
tgm_error tgm_object_iter_create(const uint8_t* buf, size_t buf_len,
                                 int32_t native_byte_order, int32_t verify_hash,
                                 tgm_object_iter_t** out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    // The iterator reads from its copy, so that the caller may free the buffer.
    const weir::bytes_view bytes = view_of(buf, buf_len);
    auto copy = std::make_shared<const weir::formats::memory_byte_source>(
        weir::byte_vector(bytes.begin(), bytes.end()));
    WEIR_TRY(open_message message,
             open_message::open(
                 {std::move(copy), {0, buf_len}},
                 decode_arguments(native_byte_order != 0, 0, verify_hash != 0)));
    *out = new tgm_object_iter_t{std::move(message)};
    return {};
  });
}

tgm_error tgm_object_iter_next(tgm_object_iter_t* iter, tgm_message_t** out) {
  // The end of an iteration is not an error: tgm_last_error() keeps its text.
  if (given(iter, out) && iter->next == iter->message.object_count()) {
    return TGM_ERROR_END_OF_ITER;
  }
  return guarded(given(iter, out), [&]() -> outcome<void> {
    // An object that does not decode is passed over by the next call.
    WEIR_TRY(message_handle object, iter->message.decode(iter->next++));
    // The caller frees the object.
    *out = object.release();
    return {};
  });
}

void tgm_object_iter_free(tgm_object_iter_t* iter) {
  delete iter;
}

/// The splitter takes bytes in pieces of any size and gives whole messages.
tgm_error tgm_x_splitter_create(uint64_t max_message_bytes, tgm_x_splitter_t** out) {
  return guarded(given(out), [&]() -> outcome<void> {
    using weir::formats::message_splitter;
    // 0 means the limit of the library.
    *out =
        new tgm_x_splitter_t{max_message_bytes != 0 ? message_splitter(max_message_bytes)
                                                    : message_splitter()};
    return {};
  });
}

tgm_error tgm_x_splitter_put(tgm_x_splitter_t* splitter, const uint8_t* buf,
                             size_t buf_len) {
  return guarded(given(splitter, buf), [&]() -> outcome<void> {
    // Bytes behind the end would belong to another stream.
    if (splitter->ended) {
      return invalid_argument(
          "cannot split messages: expected no bytes behind the end, found more");
    }
    splitter->splitter.put(view_of(buf, buf_len));
    return {};
  });
}

/// From here on, what is held cannot become longer.
tgm_error tgm_x_splitter_end(tgm_x_splitter_t* splitter) {
  return guarded(given(splitter), [&]() -> outcome<void> {
    splitter->ended = true;
    splitter->splitter.end();
    return {};
  });
}

tgm_error tgm_x_splitter_take(tgm_x_splitter_t* splitter, tgm_bytes_t* out,
                              uint64_t* out_offset, uint64_t* out_skipped) {
  // No whole message yet is reported as the end of an iteration, which is not an error.
  bool found = true;
  const tgm_error code = guarded(given(splitter, out), [&]() -> outcome<void> {
    const auto piece = splitter->splitter.take();
    found = piece.has_value();
    if (found) {
      // The memory is made first: if that fails, no output is set.
      WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(piece->bytes));
      *out = copy.release();
      // Both outputs are optional.
      if (out_offset != nullptr) {
        *out_offset = piece->offset;
      }
      if (out_skipped != nullptr) {
        *out_skipped = piece->skipped;
      }
    }
    return {};
  });
  return found ? code : TGM_ERROR_END_OF_ITER;
}

/// Bytes that were put and not yet given back or skipped.
uint64_t tgm_x_splitter_held(const tgm_x_splitter_t* splitter) {
  return splitter != nullptr ? splitter->splitter.held() : 0;
}

/// Bytes that belonged to no message, since the last one.
uint64_t tgm_x_splitter_skipped(const tgm_x_splitter_t* splitter) {
  return splitter != nullptr ? splitter->splitter.skipped() : 0;
}

/// True if the input ended within a message.
bool tgm_x_splitter_cut_short(const tgm_x_splitter_t* splitter) {
  return splitter != nullptr && splitter->splitter.cut_short();
}

void tgm_x_splitter_free(tgm_x_splitter_t* splitter) {
  delete splitter;
}

}  // extern "C"
