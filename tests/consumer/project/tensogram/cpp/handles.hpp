// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors as exceptions, handles that free themselves, and bytes.
#pragma once

extern "C" {
#include "tensogram.h"
}

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace wrapped {

/// An error of the library: its code, and the text of the last error.
class failure : public std::runtime_error {
 public:
  failure(tgm_error code, const std::string& text)
      : std::runtime_error(std::string(tgm_error_string(code)) + ": " + text),
        code_(code) {}
  tgm_error code() const noexcept { return code_; }

 private:
  tgm_error code_;
};
/// The exception type of one code.
template <tgm_error Code>
struct failure_with : failure {
  explicit failure_with(const std::string& text) : failure(Code, text) {}
};

/// Throws the exception type of a code; recursion over the codes finds the type.
template <int Candidate = TGM_ERROR_FRAMING>
[[noreturn]] void raise(tgm_error code) {
  if constexpr (Candidate > TGM_ERROR_CANCELLED) {
    throw std::logic_error("a code that the interface does not have");
  } else {
    if (code == Candidate) {
      const char* text = tgm_last_error();
      throw failure_with<static_cast<tgm_error>(Candidate)>(text != nullptr ? text : "");
    }
    raise<Candidate + 1>(code);
  }
}
/// Throws the exception of a code other than TGM_ERROR_OK.
inline void check(tgm_error code) {
  if (code != TGM_ERROR_OK) {
    raise(code);
  }
}

/// A deleter that calls a function of the interface.
template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* handle) const noexcept {
    static_assert(std::is_same_v<decltype(Free), void (*)(T*)>);
    Free(handle);
  }
};
template <class T, void (*Free)(T*)>
using owner = std::unique_ptr<T, freed_by<Free>>;

/// Calls a function that writes a handle to its last parameter, and returns the handle.
template <class Owner, class... Parameters, class... Arguments>
Owner made_by(tgm_error (*create)(Parameters...), Arguments&&... arguments) {
  typename Owner::pointer handle = nullptr;
  check(create(std::forward<Arguments>(arguments)..., &handle));
  return Owner(handle);
}

/// Bytes that the library has allocated.
class bytes {
 public:
  bytes() = default;
  explicit bytes(tgm_bytes_t raw) : raw_(raw) {}
  bytes(bytes&& other) noexcept : raw_(std::exchange(other.raw_, {nullptr, 0})) {}
  bytes& operator=(bytes&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~bytes() { tgm_bytes_free(raw_); }
  const std::uint8_t* data() const noexcept { return raw_.data; }
  std::size_t size() const noexcept { return raw_.len; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(raw_.data), raw_.len};
  }
  tgm_bytes_t* raw() noexcept { return &raw_; }

 private:
  tgm_bytes_t raw_{nullptr, 0};
};
/// Calls a function that writes bytes to its last parameter, and returns them.
template <class... Parameters, class... Arguments>
bytes bytes_by(tgm_error (*create)(Parameters...), Arguments&&... arguments) {
  bytes out;
  check(create(std::forward<Arguments>(arguments)..., out.raw()));
  return out;
}

}  // namespace wrapped
