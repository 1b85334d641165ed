// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that validate messages and files, and test this build.
///
/// A report is JSON in memory of the caller. A message with faults is no failure of the
/// call: its report lists them, and the code is TGM_ERROR_OK.
#include "capi/arguments.hpp"
#include "capi/failure.hpp"
#include "capi/files.hpp"
#include "weir/formats/tensogram_validate.hpp"

using namespace weir::capi;     // NOLINT: the functions below are C
using namespace weir::formats;  // NOLINT

namespace {

/// Hands a copy of a text to the caller.
outcome<void> hand_out(std::string_view text, tgm_bytes_t* out) {
  WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(weir::as_view(text)));
  *out = copy.release();
  return {};
}

}  // namespace

extern "C" {

tgm_error tgm_validate(const uint8_t* buf, size_t buf_len, const char* level,
                       int32_t check_canonical, tgm_bytes_t* out) {
  // An empty buffer is allowed; the report then has an issue.
  const bool complete = out != nullptr && (buf != nullptr || buf_len == 0);
  return guarded(complete, [&]() -> outcome<void> {
    WEIR_TRY(const auto options, validate_arguments(level, check_canonical != 0, false));
    return hand_out(to_json(validate_message(view_of(buf, buf_len), options)), out);
  });
}

tgm_error tgm_validate_file(const char* path, const char* level, int32_t check_canonical,
                            tgm_bytes_t* out) {
  return guarded(given(path, out), [&]() -> outcome<void> {
    WEIR_TRY(const std::string name, text_argument(path, "the path"));
    WEIR_TRY(const auto options, validate_arguments(level, check_canonical != 0, false));
    WEIR_TRY(const auto source, open_source(name));
    // Reading the file can fail, which is a failure of the call.
    WEIR_TRY(const auto report, validate(*source, options));
    return hand_out(to_json(report), out);
  });
}

tgm_error tgm_x_validate(const uint8_t* buf, size_t buf_len, const char* level,
                         const tgm_x_validate_options_t* options, tgm_bytes_t* out) {
  const bool complete = out != nullptr && (buf != nullptr || buf_len == 0);
  return guarded(complete, [&]() -> outcome<void> {
    WEIR_TRY(const auto how, validate_arguments(level, options));
    // Unlike tgm_validate(), this reports all messages of the buffer and the bytes
    // between them.
    return hand_out(to_json(validate(view_of(buf, buf_len), how)), out);
  });
}

tgm_error tgm_doctor_to_json(tgm_bytes_t* out) {
  return guarded(out != nullptr,
                 [&] { return hand_out(to_json(self_test().facts), out); });
}

const char* tgm_x_version(void) {
  return WEIR_VERSION;
}

}  // extern "C"
