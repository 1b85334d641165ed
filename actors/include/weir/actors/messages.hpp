// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages as CAF needs them: the block of type ids, payloads by reference, and
/// conversions of `weir::error`.
///
/// Messages stay in the process. Payloads are passed by reference and are never
/// serialised; no floating point number goes through a CAF inspector.
#pragma once

#include <caf/all.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "weir/base/error.hpp"

namespace weir::actors {

/// An immutable payload of a message. Copies share one value, so that a message costs the
/// same whatever its size. A payload in a message is never null.
/// @threads{a value; any thread may read what it refers to}
template <class T>
class local {
 public:
  /// Makes a null payload, which CAF needs to default-construct messages.
  local() = default;
  /// Shares `value`, which must not be null.
  explicit local(std::shared_ptr<const T> value) : value_(std::move(value)) {}
  /// Moves `value` into memory that all copies share.
  explicit local(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  /// Returns the value.
  [[nodiscard]] const T& operator*() const noexcept { return *value_; }
  /// Accesses a member of the value.
  [[nodiscard]] const T* operator->() const noexcept { return value_.get(); }
  /// Returns the shared pointer, for an owner that keeps the value beyond the message.
  [[nodiscard]] const std::shared_ptr<const T>& share() const noexcept { return value_; }

 private:
  std::shared_ptr<const T> value_;
};
/// Moves or copies `value` into a payload.
template <class T>
[[nodiscard]] local<std::decay_t<T>> by_reference(T&& value) {
  return local<std::decay_t<T>>(std::forward<T>(value));
}

/// Converts an error to CAF's type. CAF itself carries only a code and a category; the
/// whole error, with text and causes, travels as a payload by reference.
[[nodiscard]] caf::error to_caf(const error& e);
/// Converts CAF's type back to an error, with the text and the causes that `to_caf` got.
/// CAF's own errors become `timeout` (no answer within the deadline), `stopping` (the
/// receiver has ended) or `internal`.
/// @param action  What was going on, e.g. "opening the stream"; begins the text of CAF's
/// own errors.
[[nodiscard]] error from_caf(const caf::error& e, const std::string& action);

}  // namespace weir::actors

namespace caf {
/// Lets messages hold payloads that CAF cannot serialise, as they never leave the
/// process.
template <class T>
struct allowed_unsafe_message_type<weir::actors::local<T>> : std::true_type {};
}  // namespace caf

// clang-format off
// Names of the messages. `interfaces.hpp` says what each receiver does with them.
CAF_BEGIN_TYPE_ID_BLOCK(weir_actors, caf::first_custom_type_id)
  CAF_ADD_ATOM(weir_actors, weir::actors, adopt_atom, "adopt")
  CAF_ADD_ATOM(weir_actors, weir::actors, await_atom, "await")
  CAF_ADD_ATOM(weir_actors, weir::actors, begin_atom, "begin")
  CAF_ADD_ATOM(weir_actors, weir::actors, close_atom, "close")
  CAF_ADD_ATOM(weir_actors, weir::actors, copy_atom, "copy")
  CAF_ADD_ATOM(weir_actors, weir::actors, cursor_atom, "cursor")
  CAF_ADD_ATOM(weir_actors, weir::actors, deadline_atom, "deadline")
  CAF_ADD_ATOM(weir_actors, weir::actors, drain_atom, "drain")
  CAF_ADD_ATOM(weir_actors, weir::actors, ended_atom, "ended")
  CAF_ADD_ATOM(weir_actors, weir::actors, fill_atom, "fill")
  CAF_ADD_ATOM(weir_actors, weir::actors, flush_atom, "flush")
  CAF_ADD_ATOM(weir_actors, weir::actors, join_atom, "join")
  CAF_ADD_ATOM(weir_actors, weir::actors, launch_atom, "launch")
  CAF_ADD_ATOM(weir_actors, weir::actors, open_atom, "open")
  CAF_ADD_ATOM(weir_actors, weir::actors, pull_atom, "pull")
  CAF_ADD_ATOM(weir_actors, weir::actors, read_atom, "read")
  CAF_ADD_ATOM(weir_actors, weir::actors, record_atom, "record")
  CAF_ADD_ATOM(weir_actors, weir::actors, sample_atom, "sample")
  CAF_ADD_ATOM(weir_actors, weir::actors, save_atom, "save")
  CAF_ADD_ATOM(weir_actors, weir::actors, status_atom, "status")
  CAF_ADD_ATOM(weir_actors, weir::actors, stop_atom, "stop")
  CAF_ADD_ATOM(weir_actors, weir::actors, sync_atom, "sync")
  CAF_ADD_ATOM(weir_actors, weir::actors, work_atom, "work")
  CAF_ADD_ATOM(weir_actors, weir::actors, write_atom, "write")
CAF_END_TYPE_ID_BLOCK(weir_actors)
// clang-format on
