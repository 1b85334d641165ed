// SPDX-License-Identifier: Apache-2.0
/// @file
/// What every fallible function returns: `result<T>`, and the `error` inside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace weir {

/// Kinds of failure. Numbers are fixed for ever and never reused; families of ten share
/// an exit code.
/// @source{docs/decisions/005-one-table-of-error-codes.md}
enum class errc : std::uint16_t {
  // usage: exit 2
  invalid_argument = 10,
  unknown_key = 11,      ///< configuration key or name that does not exist
  config_mismatch = 12,  ///< a stored state belongs to another configuration
  unsupported = 13,      ///< well-formed, but not something this build does
  arch_mismatch = 14,    ///< well-formed, but for another machine
  not_initialized = 15,  ///< a context, mesh or engine that is not there (any more)
  // not found: exit 3
  not_found = 20,
  already_exists = 21,
  // damaged or foreign data: exit 4
  corrupt = 30,                ///< a checksum, magic or structure is wrong
  torn = 31,                   ///< a file ends before it should
  unsupported_version = 32,    ///< valid, of a version this build does not read
  stream_model_mismatch = 33,  ///< pulse of the cursor differs from pulse of the model
  history_mismatch = 34,       ///< the data behind the cursor is not what was consumed
  missing_cursor = 35,         ///< a checkpoint without a stream cursor
  position_out_of_bounds = 36,
  rng_mismatch = 37,
  lane_mismatch = 38,
  build_mismatch = 39,  ///< another kernel set or build: results may differ in their bits
  missing_hash = 40,
  hash_mismatch = 41,
  out_of_range = 42,
  generation_skew = 43,
  hole = 44,           ///< a block that should hold data is not allocated
  cache_corrupt = 45,  ///< an entry of a cache that may be deleted
  // system: exit 5
  io = 50,
  no_space = 51,
  out_of_memory = 52,
  source_unavailable = 53,
  locked = 54,  ///< another process holds the lock
  // course of events: exit 6
  interrupted = 60,
  timeout = 61,
  stopping = 62,
  abandoned = 63,        ///< a promise was dropped without an answer
  upstream_failed = 64,  ///< not run, because what it depends on failed
  kernel_failed = 65,
  collective_mismatch = 66,    ///< participants of a collective disagree
  determinism_violation = 67,  ///< more freedom asked for than the policy allows
  // defects: exit 70
  internal = 70,
};

/// Name of a code, e.g. `history_mismatch`.
[[nodiscard]] std::string_view name_of(errc code) noexcept;
/// Exit code of the command line for a failure of this kind.
[[nodiscard]] int exit_code_of(errc code) noexcept;

/// One failure: what failed on which thing, where, a hint, and what caused it.
///
/// Text follows `<what failed> <which thing>: expected <X>, found <Y>`; lower case, no
/// full stop.
/// @threads{a value; the cause is shared and immutable}
class error {
 public:
  error(errc code, std::string text) : code_(code), text_(std::move(text)) {}

  /// Place of the failure: `file:byte offset (object 1 "t2m")`, or the name of an actor
  /// or task.
  error&& at(std::string where) && {
    where_ = std::move(where);
    return std::move(*this);
  }
  /// What the reader can do about it.
  error&& hint(std::string text) && {
    hint_ = std::move(text);
    return std::move(*this);
  }
  /// The failure that led to this one.
  error&& because(error cause) && {
    cause_ = std::make_shared<const error>(std::move(cause));
    return std::move(*this);
  }

  [[nodiscard]] errc code() const noexcept { return code_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
  [[nodiscard]] const error* cause() const noexcept { return cause_.get(); }
  /// Innermost cause, or this error.
  [[nodiscard]] const error& root() const noexcept;

  /// Text, hint, place and causes, one line each.
  [[nodiscard]] std::string message() const;

 private:
  errc code_;
  std::string text_;
  std::string where_;
  std::string hint_;
  std::shared_ptr<const error> cause_;
};

/// A value or an error; must be looked at.
template <class T>
class [[nodiscard]] result : public tl::expected<T, ::weir::error> {
  using base = tl::expected<T, ::weir::error>;

 public:
  using base::base;
  /// Success. Says so itself, since a constructor of the compiler's making would zero the
  /// whole room of an error each time.
  result() requires std::is_default_constructible_v<base> {}
  result(::weir::error e)
      : base(tl::unexpect, std::move(e)) {}  // NOLINT: implicit on purpose
  result(base e) : base(std::move(e)) {}     // NOLINT
};

/// Thrown by `WEIR_EXPECT` and by `or_throw`; `what()` is the whole message.
class contract_violation;
class failure;
[[noreturn]] void throw_contract_violation(const char* condition, const char* file,
                                           int line);
[[noreturn]] void throw_failure(const error& e);

/// Value of a result, or `std::runtime_error` with its message: for demos and tests.
template <class T>
T or_throw(result<T> r) {
  if (!r) {
    throw_failure(r.error());
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*r);
  }
}

}  // namespace weir

/// Programming errors, in every build: throws `weir::contract_violation`.
#define WEIR_EXPECT(condition)  \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::weir::throw_contract_violation(#condition, __FILE__, __LINE__))

#define WEIR_CONCAT_(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_(a, b)
/// `WEIR_TRY(auto x, f());` declares x from the value of f(), or returns its error from
/// this function.
#define WEIR_TRY(declaration, ...)                              \
  auto WEIR_CONCAT(weir_try_, __LINE__) = (__VA_ARGS__);        \
  if (!WEIR_CONCAT(weir_try_, __LINE__)) {                      \
    return std::move(WEIR_CONCAT(weir_try_, __LINE__)).error(); \
  }                                                             \
  declaration = std::move(*WEIR_CONCAT(weir_try_, __LINE__))
/// `WEIR_CHECK(f());` returns the error of a `result<void>` from this function.
#define WEIR_CHECK(...)                                 \
  if (auto weir_check_ = (__VA_ARGS__); !weir_check_) { \
    return std::move(weir_check_).error();              \
  }                                                     \
  static_assert(true)
