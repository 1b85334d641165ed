// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that read files in tasks. Arguments are checked and copied before a task
/// is launched, because the caller may free them as soon as the function returns.
#include <tensogram/tensogram_x.h>

#include "capi/async/remote.hpp"
#include "capi/async/tasks.hpp"
#include "capi/files.hpp"

using namespace weir::capi;  // NOLINT: the functions below are C

namespace {

/// Launches work on the file of a handle. The task shares the file with the handle.
/// `work` gets the file and the stop token of the task.
template <class Work>
tgm_error launch_on(tgm_async_file_t* file, const task_limits& limits,
                    tgm_async_task_t** out_task, Work work) {
  // Checks the pointers before the handle is used.
  return guarded(given(file, out_task), [&] {
    return launch_work(limits, out_task,
                       [file = file->file, work = std::move(work)](
                           const std::stop_token& stop) -> outcome<task_value> {
                         return work(*file, stop);
                       });
  });
}

/// Wraps a file in a handle that becomes the result of a task.
/// The handle is made in the task, and belongs to the caller after a join.
task_value handle_of_file(std::shared_ptr<message_store> file) {
  return std::make_unique<tgm_async_file_t>(tgm_async_file_t{std::move(file)});
}

}  // namespace

extern "C" {

const char* tgm_async_file_path(const tgm_async_file_t* file) {
  // The text belongs to the handle.
  return file != nullptr ? file->file->name().c_str() : nullptr;
}

void tgm_async_file_close(tgm_async_file_t* file) {
  // Tasks that use the file go on, because each shares it.
  delete file;
}

tgm_error tgm_async_file_open(const char* path, tgm_cancellation_token_t* cancel,
                              uint64_t timeout_ms, tgm_async_task_t** out_task) {
  return guarded(given(path, out_task), [&]() -> outcome<void> {
    // The path is copied, since the task may start after the call has returned.
    WEIR_TRY(const std::string name, text_argument(path, "the path"));
    return launch_work({cancel, timeout_ms}, out_task,
                       // Opening does not scan; the first task that needs a message does.
                       [name](const std::stop_token&) -> outcome<task_value> {
                         WEIR_TRY(auto file, message_file::open(name));
                         return handle_of_file(std::move(file));
                       });
  });
}

/// The options are copied before the launch, so the caller may free its strings when the
/// call returns.
tgm_error tgm_async_file_open_remote(const char* url, const char* const* storage_keys,
                                     const char* const* storage_values, size_t nopts,
                                     bool bidirectional, tgm_cancellation_token_t* cancel,
                                     uint64_t timeout_ms, tgm_async_task_t** out_task) {
  const bool complete =
      given(url, out_task) && (nopts == 0 || given(storage_keys, storage_values));
  return guarded(complete, [&]() -> outcome<void> {
    remote_request request;
    WEIR_TRY(request.url, text_argument(url, "the address"));
    request.both_ends = bidirectional;
    // A NULL among the strings is refused before any is used.
    for (std::size_t i = 0; i < nopts; ++i) {
      if (!given(storage_keys[i], storage_values[i])) {
        return missing_pointer();
      }
      WEIR_TRY(std::string key, text_argument(storage_keys[i], "the key of an option"));
      WEIR_TRY(std::string value,
               text_argument(storage_values[i], "the value of an option"));
      request.options.emplace_back(std::move(key), std::move(value));
    }
    // The request is copied into the task as well.
    return launch_work({cancel, timeout_ms}, out_task,
                       [request](const std::stop_token& stop) -> outcome<task_value> {
                         // Opening a remote file sends requests, which the stop token can
                         // end.
                         WEIR_TRY(auto file, open_remote(request, stop));
                         return handle_of_file(std::move(file));
                       });
  });
}

tgm_error tgm_async_file_message_count(tgm_async_file_t* file,
                                       tgm_cancellation_token_t* cancel,
                                       uint64_t timeout_ms, tgm_async_task_t** out_task) {
  return launch_on(
      file, {cancel, timeout_ms}, out_task,
      [](message_store& from, const std::stop_token&) -> outcome<task_value> {
        // Scanning a local file may take long and cannot be stopped.
        WEIR_TRY(const std::size_t count, from.message_count());
        return task_value(std::uint64_t{count});
      });
}

/// A remote file may need several requests to find the message. Its place is therefore
/// looked up in the task, and not in the call.
tgm_error tgm_async_file_read_message(tgm_async_file_t* file, size_t index,
                                      tgm_cancellation_token_t* cancel,
                                      uint64_t timeout_ms, tgm_async_task_t** out_task) {
  return launch_on(
      file, {cancel, timeout_ms}, out_task,
      [index](message_store& from, const std::stop_token& stop) -> outcome<task_value> {
        // The place says where the message is; the bytes are read by the next step.
        WEIR_TRY(const message_place place, from.place(index, stop));
        // The bytes are copied into memory that C code can free.
        WEIR_TRY(owned_bytes bytes, read_message(place));
        return task_value(std::move(bytes));
      });
}

tgm_error tgm_async_file_decode_message(tgm_async_file_t* file, size_t index,
                                        bool native_order, uint32_t threads,
                                        bool restore_non_finite, bool verify_hash,
                                        tgm_cancellation_token_t* cancel,
                                        uint64_t timeout_ms,
                                        tgm_async_task_t** out_task) {
  // Options are plain values, so the task has its own copy.
  const auto options =
      decode_arguments(native_order, threads, verify_hash, restore_non_finite);
  return launch_on(file, {cancel, timeout_ms}, out_task,
                   [index, options](message_store& from,
                                    const std::stop_token& stop) -> outcome<task_value> {
                     WEIR_TRY(const message_place place, from.place(index, stop));
                     WEIR_TRY(message_handle message,
                              // Decoding looks at the stop token between objects.
                              decode_message(place, options, stop));
                     return task_value(std::move(message));
                   });
}

tgm_error tgm_async_file_decode_metadata(tgm_async_file_t* file, size_t index,
                                         tgm_cancellation_token_t* cancel,
                                         uint64_t timeout_ms,
                                         tgm_async_task_t** out_task) {
  return launch_on(
      file, {cancel, timeout_ms}, out_task,
      [index](message_store& from, const std::stop_token& stop) -> outcome<task_value> {
        WEIR_TRY(const message_place place, from.place(index, stop));
        // Reads only the parts of the message that have metadata.
        WEIR_TRY(auto metadata, decode_metadata(place));
        return task_value(std::move(metadata));
      });
}

tgm_error tgm_async_file_decode_object(tgm_async_file_t* file, size_t msg_index,
                                       size_t obj_index, bool native_order,
                                       uint32_t threads, bool restore_non_finite,
                                       bool verify_hash, tgm_cancellation_token_t* cancel,
                                       uint64_t timeout_ms, tgm_async_task_t** out_task) {
  const auto options =
      decode_arguments(native_order, threads, verify_hash, restore_non_finite);
  return launch_on(
      file, {cancel, timeout_ms}, out_task,
      [msg_index, obj_index, options](
          message_store& from, const std::stop_token& stop) -> outcome<task_value> {
        WEIR_TRY(const message_place place, from.place(msg_index, stop));
        // Other objects of the message are neither read nor decoded.
        WEIR_TRY(message_handle object, decode_object(place, obj_index, options));
        return task_value(std::move(object));
      });
}

/// The ranges are copied before the launch. The task keeps the file alive even if its
/// handle is closed meanwhile. Each range becomes a buffer that C code can own.
tgm_error tgm_async_file_decode_range(tgm_async_file_t* file, size_t msg_index,
                                      size_t obj_index, const uint64_t* offsets,
                                      const uint64_t* counts, size_t n_ranges,
                                      bool native_order, uint32_t threads,
                                      tgm_cancellation_token_t* cancel,
                                      uint64_t timeout_ms, tgm_async_task_t** out_task) {
  // Unlike tgm_decode_range(), the arrays are needed even for no ranges.
  return guarded(given(file, offsets, counts, out_task), [&]() -> outcome<void> {
    const std::vector<std::uint64_t> first(offsets, offsets + n_ranges);
    const std::vector<std::uint64_t> count(counts, counts + n_ranges);
    const auto options = decode_arguments(native_order, threads, false);
    const auto work =
        [=, from = file->file](const std::stop_token& stop) -> outcome<task_value> {
      WEIR_TRY(const message_place place, from->place(msg_index, stop));
      WEIR_TRY(const auto parts,
               // All ranges belong to one object.
               decode_ranges(place, {obj_index, first, count}, options));
      std::vector<owned_bytes> copies;
      for (const weir::byte_vector& part : parts) {
        WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(part));
        copies.push_back(std::move(copy));
      }
      return task_value(std::move(copies));
    };
    return launch_work({cancel, timeout_ms}, out_task, work);
  });
}

/// Decodes a message of a buffer instead of a file, so there is no handle of a file.
tgm_error tgm_x_async_decode(const uint8_t* buf, size_t buf_len,
                             const tgm_x_decode_options_t* options,
                             tgm_cancellation_token_t* cancel, uint64_t timeout_ms,
                             tgm_async_task_t** out_task) {
  return guarded(given(buf, out_task), [&]() -> outcome<void> {
    WEIR_TRY(const auto how, decode_arguments(options));
    // A copy, because a cancelled task ends at once while its work may still read bytes.
    WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(view_of(buf, buf_len)));
    return launch_work({cancel, timeout_ms}, out_task,
                       [bytes = std::make_shared<owned_bytes>(std::move(copy)),
                        how](const std::stop_token& stop) -> outcome<task_value> {
                         WEIR_TRY(message_handle message,
                                  decode_message(bytes->view(), how, stop));
                         return task_value(std::move(message));
                       });
  });
}

}  // extern "C"
