// SPDX-License-Identifier: Apache-2.0
/// @file
/// Codes and texts of failures.
///
/// The library's error codes are finer than those of the C interface in some places and
/// coarser in others, and callers of the reference depend on its codes. Where one kind of
/// error stands for several codes, the input is examined once more, which costs nothing
/// on success.
///
///   result<T> of the library  ->  outcome<T> of this folder  ->  tgm_error, and a text
///                                                                 for the thread
///
/// The records 706 to 708 of docs/decisions list the codes of all failures.
#include "capi/failure.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/outline.hpp"
#include "tensogram/write/frame_writer.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

namespace {

/// The text of the last failure on this thread.
thread_local last_error_text last;

/// Returns the code that follows from the kind of an error alone.
tgm_error code_of(errc kind) noexcept {
  switch (kind) {
    case errc::corrupt:
    case errc::torn:
    // Damaged bytes are framing errors unless cannot_read() finds something better.
    case errc::unsupported_version: return TGM_ERROR_FRAMING;
    case errc::unknown_key: return TGM_ERROR_METADATA;
    case errc::invalid_argument:
    case errc::unsupported:
    case errc::internal: return TGM_ERROR_ENCODING;
    case errc::not_found:
    case errc::out_of_range: return TGM_ERROR_OBJECT;
    case errc::hash_mismatch: return TGM_ERROR_HASH_MISMATCH;
    case errc::missing_hash: return TGM_ERROR_MISSING_HASH;
    // This is the time limit of a request. The time limit of a task ends the task itself,
    // before the source of the bytes notices.
    case errc::timeout:
    case errc::source_unavailable: return TGM_ERROR_REMOTE;
    case errc::interrupted: return TGM_ERROR_CANCELLED;
    default: return TGM_ERROR_IO;
  }
}

/// Returns whether the descriptor of a stored payload is acceptable apart from the
/// payload's size and its szip offsets.
bool only_sizes_are_wrong(const object_to_write& object) {
  object_descriptor d = object.descriptor;
  d.parameters.erase("szip_block_offsets");
  if (d.compression == "none") {
    d.compression = "lz4";  // its size is not known from the shape
  }
  return check_stored(d, object.data.size()).has_value();
}

/// Returns whether an object is rejected for its description alone, before any codec has
/// seen its data. The reference reports such errors as TGM_ERROR_METADATA.
bool badly_described(const object_to_write& object) {
  // The objects are those that the caller gave; the writer works on copies.
  return !check_described(object) ||
         (object.stored && !check_stored(object.descriptor, object.data.size()) &&
          only_sizes_are_wrong(object));
}

/// Returns whether a writer would miss a parameter in a descriptor of a message.
bool misses_parameters(const std::shared_ptr<const byte_source>& source,
                       message_span span) {
  // Damage of payloads does not matter here.
  read_options all;
  all.hashes = hash_check::none;
  const auto reader = message_reader::open(source, span, all);
  for (std::size_t i = 0; reader && i < reader->object_count(); ++i) {
    // A size of 0 is wrong for most objects; only the code for a missing key counts.
    const auto checked = check_stored(reader->descriptor(i), 0);
    if (!checked && checked.error().code() == errc::unknown_key) {
      return true;
    }
  }
  return false;
}

/// Returns the code for an issue that a validation of structure and metadata found.
tgm_error code_of(const validation_issue& issue) {
  // The codes are those of the validation.
  const std::string_view code = issue.code;
  if (code == "decode_object_failed") {  // a mask: where it lies, or how it is stored
    return issue.description.find("a method of") == std::string::npos
               ? TGM_ERROR_FRAMING
               : TGM_ERROR_ENCODING;
  }
  // Two codes of the level of structure are about CBOR or metadata.
  if (issue.level == validation_level::structure &&
      code != "cbor_before_boundary_unknown" && code != "no_metadata_frame") {
    return TGM_ERROR_FRAMING;
  }
  return code == "decoded_size_mismatch" || code.substr(0, 8) == "unknown_"
             ? TGM_ERROR_ENCODING
             : TGM_ERROR_METADATA;
}

}  // namespace

/// The text has the place, the hint and the causes of the error.
failure::failure(const error& e) : code(code_of(e.code())), text(e.message()) {}

failure invalid_argument(std::string text) {
  return {TGM_ERROR_INVALID_ARG, std::move(text)};
}

failure invalid_metadata(std::string text) {
  return {TGM_ERROR_METADATA, std::move(text)};
}

failure missing_pointer() {
  return invalid_argument(
      "cannot go on: expected a pointer to all that is needed, found a null pointer");
}

/// Every failure to open a file has this code.
failure cannot_open(const error& e) {
  return {TGM_ERROR_IO, e.message()};
}

/// Examines the description of each object again. A description that is rejected without
/// a codec gives TGM_ERROR_METADATA, whatever the error of the attempt was.
failure cannot_write(const error& e, std::span<const object_to_write> objects,
                     const cbor_map& extra) {
  failure out(e);
  if (std::any_of(objects.begin(), objects.end(), badly_described) ||
      !check_metadata(extra, metadata_place::extra, "metadata of the message")) {
    out.code = TGM_ERROR_METADATA;
  }
  return out;
}

/// Cancellation and lack of memory keep their codes, whatever was opened.
failure cannot_open_remote(const error& e) {
  failure out(e);
  if (e.code() != errc::interrupted && e.code() != errc::out_of_memory) {
    out.code = TGM_ERROR_REMOTE;
  }
  return out;
}

/// The first error of the validation decides. If the frames and their CBOR are sound, the
/// fault lies in a payload, or in a parameter that the writer should have given.
failure cannot_read(const error& e, const std::shared_ptr<const byte_source>& source,
                    message_span span) {
  failure out(e);
  // Other kinds of errors say all that is needed.
  if (e.code() != errc::corrupt && e.code() != errc::torn) {
    return out;
  }
  if (source->distant()) {
    (void)prefetch_frames(source, span);  // validation would ask for one after the other
  }
  validation_options structure_and_metadata;
  // The level "metadata" reads frames and CBOR, but no payloads.
  structure_and_metadata.level = validation_level::metadata;
  const auto report = validate_message(*source, span, structure_and_metadata);
  if (!report) {
    return report.error();
  }
  // Warnings do not decide.
  for (const auto& issue : report->issues) {
    if (issue.severity == issue_severity::error) {
      out.code = code_of(issue);
      return out;
    }
  }
  out.code = misses_parameters(source, span) ? TGM_ERROR_METADATA : TGM_ERROR_ENCODING;
  return out;
}

failure cannot_read(const error& e, bytes_view message) {
  return cannot_read(e, std::make_shared<memory_byte_source>(message),
                     {0, message.size()});
}

/// The text is moved into the memory of the thread; tgm_last_error() returns its address.
tgm_error report(failure f) {
  last.keep(std::move(f.text));
  return f.code;
}

}  // namespace weir::capi

extern "C" {

// NULL means that no call of the thread has failed yet.
const char* tgm_last_error(void) {
  return weir::capi::last.any() ? weir::capi::last.text() : nullptr;
}

const char* tgm_error_string(tgm_error err) {
  // A caller's number may lie outside of the enumeration, where reading it is undefined.
  // The bytes are copied, as in checked_choice().
  int code = 0;
  static_assert(sizeof code == sizeof err);
  std::memcpy(&code, &err, sizeof code);
  switch (code) {
    case TGM_ERROR_OK: return "ok";
    case TGM_ERROR_FRAMING: return "framing error";
    case TGM_ERROR_METADATA: return "metadata error";
    case TGM_ERROR_ENCODING: return "encoding error";
    case TGM_ERROR_COMPRESSION: return "compression error";
    case TGM_ERROR_OBJECT: return "object error";
    case TGM_ERROR_IO: return "I/O error";
    case TGM_ERROR_HASH_MISMATCH: return "hash mismatch";
    case TGM_ERROR_INVALID_ARG: return "invalid argument";
    case TGM_ERROR_END_OF_ITER: return "end of iteration";
    case TGM_ERROR_REMOTE: return "remote error";
    case TGM_ERROR_MISSING_HASH: return "missing hash";
    case TGM_ERROR_TIMEOUT: return "async task timed out";
    case TGM_ERROR_CANCELLED: return "async task cancelled";
  }
  return "unknown error";
}

}  // extern "C"
