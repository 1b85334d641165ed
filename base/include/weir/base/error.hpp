// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result type of every function that can fail, `result<T>`, and the `error` that it
/// holds on failure.
///
/// Failures that a caller can expect (a missing file, damaged data, a full disk) travel
/// as results. Exceptions are for broken contracts (`WEIR_EXPECT`) and exhausted memory
/// alone. `WEIR_TRY` and `WEIR_CHECK` pass a failure on to the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace weir {

/// Kinds of failure. Numbers never change their meaning and are never reused, because
/// checkpoints, logs and other programs hold them. Each family of ten has one exit code.
/// @source{docs/decisions/005-one-table-of-error-codes.md}
enum class errc : std::uint16_t {
  // Wrong use: exit code 2.
  invalid_argument = 10,  ///< a value of the wrong kind or outside its range
  unknown_key = 11,       ///< a configuration key or a name that does not exist
  config_mismatch = 12,   ///< a stored state belongs to another configuration
  unsupported = 13,       ///< well-formed, but this build or function cannot do it
  arch_mismatch = 14,     ///< well-formed, but made for another machine
  not_initialized = 15,   ///< a context, mesh or engine does not exist, or not any more
  // Not there, or there already: exit code 3.
  not_found = 20,
  already_exists = 21,
  // Damaged data, or data that does not fit together: exit code 4.
  corrupt = 30,                 ///< a checksum, a magic number or a structure is wrong
  torn = 31,                    ///< a file ends before its content does
  unsupported_version = 32,     ///< valid, but of a version that this build cannot read
  stream_model_mismatch = 33,   ///< the cursor's pulse differs from the model's pulse
  history_mismatch = 34,        ///< data before the cursor differs from the data consumed
  missing_cursor = 35,          ///< a checkpoint has no stream cursor
  position_out_of_bounds = 36,  ///< a cursor lies beyond the end of its source
  rng_mismatch = 37,            ///< the stored random state belongs to another run
  lane_mismatch = 38,           ///< the number of lanes differs from the stored one
  build_mismatch = 39,   ///< another kernel set or build: bits of results may differ
  missing_hash = 40,     ///< a digest is required and absent
  hash_mismatch = 41,    ///< a digest differs from the digest of the data
  out_of_range = 42,     ///< a number or a size exceeds a limit
  generation_skew = 43,  ///< parts that belong together have different generations
  hole = 44,             ///< a block that should hold data is not allocated
  cache_corrupt = 45,    ///< an entry of a cache is damaged and may be deleted
  // The operating system or the machine: exit code 5.
  io = 50,
  no_space = 51,
  out_of_memory = 52,
  source_unavailable = 53,  ///< a data source cannot be reached
  locked = 54,              ///< another process holds the lock
  // The course of a run: exit code 6.
  interrupted = 60,
  timeout = 61,
  stopping = 62,               ///< refused, because a shutdown has begun
  abandoned = 63,              ///< a promise was dropped without an answer
  upstream_failed = 64,        ///< not run, because something it depends on failed
  kernel_failed = 65,          ///< a kernel reported a failure
  collective_mismatch = 66,    ///< the participants of a collective disagree
  determinism_violation = 67,  ///< the policy does not allow the freedom asked for
  // Defects of this program: exit code 70.
  internal = 70,
  // The course of a run on several ranks and devices: exit code 6.
  rank_lost = 80,    ///< a rank has ended or shows no sign of life
  diverged = 81,     ///< ranks that must do the same have done different things
  device_lost = 82,  ///< a device does not answer any more
  overloaded = 83,   ///< refused, because too much is waiting already
  cancelled = 84,    ///< ended early, because its caller asked for that
};

/// Returns the name of a code, such as `history_mismatch`; `unknown` for other numbers.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(errc code) noexcept;

/// Returns the exit code with which the command line ends on a failure of this kind.
/// @threads{safe to call concurrently}
[[nodiscard]] int exit_code_of(errc code) noexcept;

/// Returns the code for a value of `errno`.
/// @returns `not_found` for ENOENT and ENOTDIR, `already_exists` for EEXIST, `no_space`
/// for ENOSPC and EDQUOT, `io` for all other values.
/// @threads{safe to call concurrently}
[[nodiscard]] errc errc_of_errno(int number) noexcept;

/// One failure: what failed on which thing, where, what the reader can do about it, and
/// the failure that caused it.
///
/// The text has the form `<what failed> <which thing>: expected <X>, found <Y>`, in lower
/// case and without a full stop. Location, hint and cause are added to a new error:
///
///     return error(errc::torn, "cannot read the header: expected 64 bytes, found 12")
///         .located("data.tgm:4096")
///         .hint("copy the file again")
///         .because(std::move(cause));
///
/// @threads{a value; causes are shared and immutable}
class error {
 public:
  /// @param text  What failed; one line.
  error(errc code, std::string text) : code_(code), text_(std::move(text)) {}

  /// Sets the location of the failure: `file:byte offset (object 1 "t2m")`, or the name
  /// of an actor or of a task.
  error&& located(std::string location) && {
    location_ = std::move(location);
    return std::move(*this);
  }
  /// Sets the advice: what the reader can do about the failure.
  error&& hint(std::string text) && {
    hint_ = std::move(text);
    return std::move(*this);
  }
  /// Sets the failure that led to this one.
  error&& because(error cause) && {
    cause_ = std::make_shared<const error>(std::move(cause));
    return std::move(*this);
  }

  /// Returns the kind of the failure.
  [[nodiscard]] errc code() const noexcept { return code_; }
  /// Returns what failed, without location, hint and causes.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Returns the location of the failure; empty if none was given.
  [[nodiscard]] const std::string& location() const noexcept { return location_; }
  /// Returns the advice; empty if none was given.
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
  /// Returns the failure that led to this one, or a null pointer. It lives as long as
  /// this error or a copy of it.
  [[nodiscard]] const error* cause() const noexcept { return cause_.get(); }
  /// Returns the innermost cause; this error itself if it has no cause.
  [[nodiscard]] const error& root() const noexcept;

  /// Returns the whole message: text and hint in the first line, then the location, then
  /// each cause in the same form.
  [[nodiscard]] std::string message() const;

 private:
  errc code_;
  std::string text_;
  std::string location_;
  std::string hint_;
  std::shared_ptr<const error> cause_;
};

/// Returns the error of a failed system call: `cannot <action> "<thing>": <text of the
/// system>`, with the code of `errc_of_errno`.
/// @param action  A verb in the infinitive, such as "open" or "sync".
/// @param thing   The path or other name on which the call failed.
/// @param number  The value of `errno` right after the call.
/// @threads{safe to call concurrently}
[[nodiscard]] error system_error(std::string_view action, std::string_view thing,
                                 int number);

/// A value, or the error that prevented it. The compiler warns where one is dropped.
///
/// The members are those of `tl::expected`: `if (r)`, `*r`, `r.error()`.
/// @threads{as T; a value}
template <class T>
class [[nodiscard]] result : public tl::expected<T, ::weir::error> {
  using base = tl::expected<T, ::weir::error>;

 public:
  using base::base;
  /// Makes a success with a default value. A constructor that the compiler generates
  /// would first zero all memory of the object, including the larger part in which the
  /// error would be stored.
  result() requires std::is_default_constructible_v<base> {}
  /// Makes a failure; implicit, so that a function can return an error as it is.
  result(::weir::error e) : base(tl::unexpect, std::move(e)) {}  // NOLINT
  /// Takes over the result of a monadic member, which returns the base class.
  result(base e) : base(std::move(e)) {}  // NOLINT
};

/// Exception of `WEIR_EXPECT`, a `std::logic_error` with condition and place.
class contract_violation;
/// Exception of `or_throw`, a `std::runtime_error` with the whole message.
class failure;
/// Throws `contract_violation`; `WEIR_EXPECT` calls it.
[[noreturn]] void throw_contract_violation(const char* condition, const char* file,
                                           int line);
/// Throws `failure` with the message of an error; `or_throw` calls it.
[[noreturn]] void throw_failure(const error& e);

/// Returns the value of a result or throws its error, for demos and tests.
/// @throws std::runtime_error whose `what()` is the whole message
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

/// Throws `weir::contract_violation` unless a condition holds, in every kind of build.
/// For mistakes of the calling code; wrong input gets a `result` with an error instead.
#define WEIR_EXPECT(condition)  \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::weir::throw_contract_violation(#condition, __FILE__, __LINE__))

#define WEIR_CONCAT_(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_(a, b)
/// `WEIR_TRY(auto x, f());` declares x with the value of f(), or returns the error of f()
/// from the calling function. The line number keeps the names of several uses apart.
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
