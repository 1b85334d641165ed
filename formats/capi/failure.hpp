// SPDX-License-Identifier: Apache-2.0
/// @file
/// Translation of the library's errors into codes and texts of the C interface.
#pragma once

#include <tensogram/tensogram.h>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "weir/base/capi/guard.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::capi {

/// A failure with the code that the C interface has for it.
struct failure {
  tgm_error code = TGM_ERROR_IO;  ///< as tensogram.h has it
  std::string text;               ///< UTF-8, for tgm_last_error()

  failure(tgm_error c, std::string t) : code(c), text(std::move(t)) {}
  /// Takes the code that follows from the kind of the error alone. Where one kind stands
  /// for several codes, one of the functions below decides.
  failure(const error& e);  // NOLINT: implicit, so that WEIR_TRY works
};

/// A value or a failure. Converts from the library's `result`, so that WEIR_TRY and
/// WEIR_CHECK work in functions of both kinds.
template <class T>
class [[nodiscard]] outcome : public tl::expected<T, failure> {
  using base = tl::expected<T, failure>;

 public:
  using base::base;
  outcome() requires std::is_default_constructible_v<base>
  = default;
  outcome(failure f) : base(tl::unexpect, std::move(f)) {}     // NOLINT: implicit
  outcome(const error& e) : base(tl::unexpect, failure(e)) {}  // NOLINT
  outcome(result<T> r) : base(converted(std::move(r))) {}      // NOLINT

 private:
  static base converted(result<T> r) {
    if (!r) {
      return base(tl::unexpect, failure(r.error()));
    }
    if constexpr (std::is_void_v<T>) {
      return base();
    } else {
      return base(std::move(*r));
    }
  }
};

/// TGM_ERROR_INVALID_ARG: an argument of the call itself is wrong.
[[nodiscard]] failure invalid_argument(std::string text);
/// TGM_ERROR_METADATA: JSON, or what it says, is wrong.
[[nodiscard]] failure invalid_metadata(std::string text);
/// TGM_ERROR_INVALID_ARG: a pointer that is needed is NULL.
[[nodiscard]] failure missing_pointer();
/// TGM_ERROR_IO: a file cannot be opened, whatever the reason.
[[nodiscard]] failure cannot_open(const error& e);
/// Returns the failure of writing `objects` into a message with the message-level keys
/// `extra`. Faults that can be detected without a codec give TGM_ERROR_METADATA, faults
/// that a codec reports TGM_ERROR_ENCODING.
[[nodiscard]] failure cannot_write(const error& e,
                                   std::span<const formats::object_to_write> objects,
                                   const formats::cbor_map& extra);
/// TGM_ERROR_REMOTE: the file behind an address cannot be opened, whatever the reason.
[[nodiscard]] failure cannot_open_remote(const error& e);
/// Returns the failure of reading the message at `span` of a source. For damage,
/// validates the frames once more to distinguish damaged frames (TGM_ERROR_FRAMING),
/// damaged CBOR in sound frames (TGM_ERROR_METADATA), and a payload that does not decode
/// in a sound message (TGM_ERROR_ENCODING). Reads no payload for that.
[[nodiscard]] failure cannot_read(
    const error& e, const std::shared_ptr<const formats::byte_source>& source,
    formats::message_span span);
/// Returns the failure of reading the message at the start of `message`.
[[nodiscard]] failure cannot_read(const error& e, bytes_view message);

/// Keeps the text for tgm_last_error() on this thread and returns the code.
tgm_error report(failure f);

/// Returns true if none of the pointers that a function needs is NULL.
template <class... Pointers>
[[nodiscard]] bool given(Pointers... pointers) noexcept {
  return (... && (pointers != nullptr));
}

/// Calls `run`, which returns an outcome, and turns exceptions into failures: none may
/// cross into C.
template <class Run>
auto without_exceptions(const Run& run) noexcept -> decltype(run()) {
  return guarded_call(run, [](errc, const char* found) -> decltype(run()) {
    return failure(
        TGM_ERROR_IO,
        std::string("cannot go on: expected no exception, found \"") + found + "\"");
  });
}

/// The body of each C function that returns a code. Calls `run`, which returns
/// outcome<void>, if `complete`, that is, if all pointers that it needs are given.
/// Returns the code and keeps the text of a failure.
template <class Run>
tgm_error guarded(bool complete, const Run& run) noexcept {
  if (!complete) {
    return report(missing_pointer());
  }
  outcome<void> done = without_exceptions([&]() -> outcome<void> { return run(); });
  return done ? TGM_ERROR_OK : report(std::move(done).error());
}

/// The body of each accessor, which reports no errors: returns `otherwise` if an
/// exception occurs.
template <class T, class Run>
T accessed(T otherwise, const Run& run) noexcept {
  return guarded_call([&]() -> T { return run(); },
                      [&](errc, const char*) { return otherwise; });
}

}  // namespace weir::capi
