// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that read files of messages and append to them.
///
/// The first access to a message scans the whole file. The scan and the source that it
/// belongs to are one object, `contents`, which iterators share, so that what they see is
/// consistent whatever is appended meanwhile.
#include "capi/files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "capi/encode.hpp"
#include "weir/base/file.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

/// A folder is refused with its own message, because reading it would fail later and less
/// clearly.
outcome<std::shared_ptr<const byte_source>> open_source(const std::string& path) {
  std::error_code none;
  // A failure to ask is left to open(), which reports it better.
  if (std::filesystem::is_directory(path,
                                    none)) {  // a folder can be opened, but not read
    return failure(TGM_ERROR_IO,
                   fmt::format("cannot open {}: expected a file, found a folder", path));
  }
  auto file = posix_file_system().open(path, open_mode::read);
  if (!file) {
    return cannot_open(file.error());
  }
  auto source = file_source::open(std::move(*file));
  if (!source) {
    return cannot_open(source.error());
  }
  return std::shared_ptr<const byte_source>(std::move(*source));
}

/// The file is not scanned yet.
outcome<std::shared_ptr<message_file>> message_file::open(const std::string& path) {
  WEIR_TRY(auto source, open_source(path));
  return std::make_shared<message_file>(path, std::move(source));
}

/// Creates an empty file, with its folders, or empties the file that is there.
outcome<std::shared_ptr<message_file>> message_file::create(const std::string& path) {
  std::error_code failed;
  // If this fails, open() reports the reason.
  std::filesystem::create_directories(folder_of(path), failed);
  auto file = posix_file_system().open(path, open_mode::create_or_open);
  if (!file) {
    return cannot_open(file.error());
  }
  // An existing file is emptied, not replaced: other links to it stay.
  WEIR_CHECK((*file)->resize(0));
  return open(path);
}

/// The result is shared with iterators, so a later append does not change what they see.
outcome<std::shared_ptr<const message_file::contents>> message_file::scan() {
  // The lock is held during the scan, so that threads scan once.
  const std::lock_guard lock(mutex_);
  if (!found_) {
    if (appended_) {
      WEIR_TRY(source_, open_source(name_));
      appended_ = false;
    }
    WEIR_TRY(auto spans, formats::scan(*source_));
    found_ = std::make_shared<const contents>(contents{source_, std::move(spans)});
  }
  return found_;
}

/// Reports an index that is too large. The C interface has a code of its own for it.
failure no_such_message(std::size_t index, const std::string& file, std::size_t count) {
  return failure(TGM_ERROR_OBJECT,
                 fmt::format("cannot read message {} of {}: expected an index below {}, "
                             "found it beyond",
                             index, file, count));
}

outcome<std::size_t> message_file::message_count() {
  WEIR_TRY(const auto found, scan());
  return found->spans.size();
}

/// Returns the place of message `index`. The first call scans the file for its messages.
/// A local scan cannot be stopped, so the stop token is unused.
outcome<message_place> message_file::place(std::size_t index,
                                           const std::stop_token& /*stop*/) {
  // The scan is kept until the next append.
  WEIR_TRY(const auto found, scan());
  if (index >= found->spans.size()) {
    return no_such_message(index, name_, found->spans.size());
  }
  return message_place{found->source, found->spans[index]};
}

namespace {

/// Waits up to half a minute for other processes that append to the file. Returns no lock
/// if the file system has none; the append then goes on without.
outcome<std::optional<file_lock>> lock_for_append(const std::string& path) {
  constexpr int attempts = 30;  // of a second each
  auto lock = file_lock::acquire(path);
  for (int i = 1; i < attempts && !lock && lock.error().code() == errc::locked; ++i) {
    lock = file_lock::acquire(path);
  }
  if (lock) {
    return std::optional<file_lock>(std::move(*lock));
  }
  if (lock.error().code() == errc::locked) {
    return failure(TGM_ERROR_IO, lock.error().message());
  }
  return std::optional<file_lock>();
}

}  // namespace

/// Opens the file for each append, and finds its end anew, so that bytes which another
/// process has appended are not overwritten. The lock of the file keeps its end in place
/// between the question and the write.
outcome<void> message_file::append(bytes_view bytes) {
  const std::lock_guard lock(mutex_);
  {
    WEIR_TRY(const auto file_lock, lock_for_append(name_));
    auto to = posix_file_system().open(name_, open_mode::create_or_open);
    if (!to) {
      return cannot_open(to.error());
    }
    // The length is asked anew for each append. A failed write is undone, so that no
    // part of a message stays at the end of the file.
    WEIR_TRY(const std::uint64_t end, (*to)->size());
    if (const auto done = write_all(**to, end, bytes); !done) {
      // If cutting fails too, both reasons are reported.
      const auto undone = (*to)->resize(end);
      return failure(TGM_ERROR_IO, undone ? done.error().message()
                                          : done.error().message() + "\n  and " +
                                                undone.error().message());
    }
  }
  // Iterators keep the old source and the old places; both stay valid, because bytes that
  // are in the file are never changed.
  // The next access opens the file and scans again, now with the new message. If it fails
  // then, the message is in the file all the same.
  found_ = nullptr;
  appended_ = true;
  return {};
}

/// Copies a whole message into memory that C code can own.
outcome<owned_bytes> read_message(const message_place& message) {
  // The kernel provides memory when it is first written to. So no more of it is used than
  // bytes have arrived, even if a remote message has a false length.
  // The length comes from a scan, so it is within the file; that of a remote file may be
  // false.
  WEIR_TRY(owned_bytes out, owned_bytes::make(message.span.length));
  constexpr std::size_t largest_piece = std::size_t{32} << 20;
  const mutable_bytes all = out.view();
  for (std::size_t done = 0; done < all.size();) {
    const std::size_t size = std::min(largest_piece, all.size() - done);
    WEIR_CHECK(message.source->read(message.span.offset + done, all.subspan(done, size)));
    done += size;
  }
  return out;
}

/// Reads a message and decodes all its objects. The copy of the message is freed on
/// return, so the handle must not refer to it.
outcome<message_handle> decode_message(const message_place& message,
                                       const read_options& options,
                                       const std::stop_token& stop) {
  // Decoding needs the whole message.
  WEIR_TRY(owned_bytes bytes, read_message(message));
  return decode_message(bytes.view(), options, stop);
}

}  // namespace weir::capi

using namespace weir::capi;  // NOLINT: the functions below are C

/// The iterators share the file, so the handle may be closed before them.
struct tgm_file_t {
  std::shared_ptr<message_file> file;
};

/// The messages that the file had when the iterator was made.
struct tgm_file_iter_t {
  std::shared_ptr<const message_file::contents> contents;
  std::size_t next = 0;
};

namespace {

/// Opens or creates a file with one of the two functions of message_file.
tgm_error open_with(const char* path, tgm_file_t** out,
                    outcome<std::shared_ptr<message_file>> (*open)(const std::string&)) {
  // `open` is called with the path as text.
  return guarded(given(path, out), [&]() -> outcome<void> {
    WEIR_TRY(const std::string name, text_argument(path, "the path"));
    WEIR_TRY(auto file, open(name));
    *out = new tgm_file_t{std::move(file)};
    return {};
  });
}

}  // namespace

extern "C" {

tgm_error tgm_file_open(const char* path, tgm_file_t** out) {
  return open_with(path, out, &message_file::open);
}

tgm_error tgm_file_create(const char* path, tgm_file_t** out) {
  return open_with(path, out, &message_file::create);
}

const char* tgm_file_path(const tgm_file_t* file) {
  // The text lives as long as the handle.
  return file != nullptr ? file->file->name().c_str() : nullptr;
}

void tgm_file_close(tgm_file_t* file) {
  delete file;
}

tgm_error tgm_file_message_count(tgm_file_t* file, size_t* out_count) {
  return guarded(given(file, out_count), [&]() -> outcome<void> {
    WEIR_TRY(*out_count, file->file->message_count());
    return {};
  });
}

tgm_error tgm_file_decode_message(tgm_file_t* file, size_t index, int32_t native_order,
                                  uint32_t threads, int32_t verify_hash,
                                  tgm_message_t** out) {
  return guarded(given(file, out), [&]() -> outcome<void> {
    // The handle may be used by several threads; the file locks itself.
    WEIR_TRY(const message_place place, file->file->place(index));
    WEIR_TRY(message_handle message,
             decode_message(
                 place, decode_arguments(native_order != 0, threads, verify_hash != 0)));
    *out = message.release();
    return {};
  });
}

tgm_error tgm_file_read_message(tgm_file_t* file, size_t index, tgm_bytes_t* out) {
  return guarded(given(file, out), [&]() -> outcome<void> {
    WEIR_TRY(const message_place place, file->file->place(index));
    WEIR_TRY(owned_bytes bytes, read_message(place));
    *out = bytes.release();
    return {};
  });
}

tgm_error tgm_file_append_raw(tgm_file_t* file, const uint8_t* buf, size_t buf_len) {
  return guarded(given(file, buf),
                 [&] { return file->file->append(view_of(buf, buf_len)); });
}

tgm_error tgm_file_append(tgm_file_t* file, const char* metadata_json,
                          const uint8_t* const* data_ptrs, const size_t* data_lens,
                          size_t num_objects, const char* hash_algo, uint32_t threads) {
  return tgm_file_append_with_options(file, metadata_json, data_ptrs, data_lens,
                                      num_objects, hash_algo, threads, nullptr);
}

tgm_error tgm_file_append_with_options(tgm_file_t* file, const char* metadata_json,
                                       const uint8_t* const* data_ptrs,
                                       const size_t* data_lens, size_t num_objects,
                                       const char* hash_algo, uint32_t threads,
                                       const TgmEncodeMaskOptions* mask_options) {
  return guarded(given(file, metadata_json), [&]() -> outcome<void> {
    WEIR_TRY(const weir::byte_vector bytes,
             encode({metadata_json, data_ptrs, data_lens, num_objects},
                    encode_arguments(hash_algo, threads, mask_options)));
    return file->file->append(bytes);
  });
}

tgm_error tgm_file_iter_create(tgm_file_t* file, tgm_file_iter_t** out) {
  return guarded(given(file, out), [&]() -> outcome<void> {
    WEIR_TRY(auto found, file->file->scan());
    *out = new tgm_file_iter_t{std::move(found)};
    return {};
  });
}

tgm_error tgm_file_iter_next(tgm_file_iter_t* iter, tgm_bytes_t* out) {
  // The end of an iteration is not an error: tgm_last_error() keeps its text.
  if (given(iter, out) && iter->next == iter->contents->spans.size()) {
    return TGM_ERROR_END_OF_ITER;
  }
  return guarded(given(iter, out), [&]() -> outcome<void> {
    // A message that cannot be read is passed over by the next call.
    const auto span = iter->contents->spans[iter->next++];
    WEIR_TRY(owned_bytes bytes, read_message({iter->contents->source, span}));
    *out = bytes.release();
    return {};
  });
}

void tgm_file_iter_free(tgm_file_iter_t* iter) {
  delete iter;
}

}  // extern "C"
