// SPDX-License-Identifier: Apache-2.0
/// @file
/// The boundary of a C interface: no exception crosses it, and each thread has the text
/// of its last failure.
///
/// Each interface has its own codes. It converts a failure to a code in one function and
/// passes that function to `guarded_call`.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "weir/base/error.hpp"

namespace weir {

/// Calls `run`. If it throws, calls `failed` instead and returns the value of that call.
/// @param failed  `failed(errc, const char*)`: gets `out_of_memory` or `internal`, and
/// the text of the exception, which is valid during the call. Must not throw.
/// @threads{belongs to the thread that makes the call}
template <class Run, class Failed>
auto guarded_call(Run&& run, Failed&& failed) noexcept -> decltype(run()) {
  try {
    return run();
  } catch (const std::bad_alloc& e) {
    return failed(errc::out_of_memory, e.what());
  } catch (const std::exception& e) {
    return failed(errc::internal, e.what());
  } catch (...) {
    return failed(errc::internal, "an exception of an unknown type");
  }
}

/// Text of the last failure of a thread, for the function of a C interface that returns
/// it. An interface has one thread-local object of this class.
/// @threads{belongs to its thread}
class last_error_text {
 public:
  /// Keeps a text.
  void keep(std::string text) noexcept {
    text_ = std::move(text);
    literal_ = nullptr;
    any_ = true;
  }
  /// Keeps a literal. This needs no memory, so it is used where memory is short.
  void keep_literal(const char* text) noexcept {
    literal_ = text;
    any_ = true;
  }
  /// Returns true if a text was kept.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// Returns the text that was kept last, or an empty text. It is valid until the next
  /// one is kept.
  [[nodiscard]] const char* text() const noexcept {
    return literal_ != nullptr ? literal_ : text_.c_str();
  }

 private:
  std::string text_;
  const char* literal_ = nullptr;  ///< used in place of `text_` if it is set
  bool any_ = false;
};

}  // namespace weir
