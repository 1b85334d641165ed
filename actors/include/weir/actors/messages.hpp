// SPDX-License-Identifier: Apache-2.0
/// @file
/// Everything that CAF needs to know of messages: the type-id block, by-reference
/// payloads, and how a `weir::error` travels. No floating point number goes through an
/// inspector: payloads stay in the process and are named by reference.
#pragma once

#include <caf/all.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "weir/base/error.hpp"

namespace weir::actors {

/// An immutable value in a message: copies share it. Never null in a message.
template <class T>
class local {
 public:
  local() = default;
  explicit local(std::shared_ptr<const T> value) : value_(std::move(value)) {}
  explicit local(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  [[nodiscard]] const T& operator*() const noexcept { return *value_; }
  [[nodiscard]] const T* operator->() const noexcept { return value_.get(); }
  [[nodiscard]] const std::shared_ptr<const T>& share() const noexcept { return value_; }

 private:
  std::shared_ptr<const T> value_;
};
template <class T>
[[nodiscard]] local<std::decay_t<T>> by_reference(T&& value) {
  return local<std::decay_t<T>>(std::forward<T>(value));
}

/// An error as CAF carries it: code of ours, category "weir", and the whole of it by
/// reference.
[[nodiscard]] caf::error to_caf(const error& e);
/// Back again, with text and causes. CAF's own errors become `timeout`, `stopping` or
/// `internal`. `what` says what was going on, for those.
[[nodiscard]] error from_caf(const caf::error& e, const std::string& what);

}  // namespace weir::actors

namespace caf {
/// Payloads by reference never leave the process.
template <class T>
struct allowed_unsafe_message_type<weir::actors::local<T>> : std::true_type {};
}  // namespace caf

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(weir_actors, caf::first_custom_type_id)
  CAF_ADD_ATOM(weir_actors, weir::actors, adopt_atom, "adopt")
  CAF_ADD_ATOM(weir_actors, weir::actors, await_atom, "await")
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
  CAF_ADD_ATOM(weir_actors, weir::actors, pulse_atom, "pulse")
  CAF_ADD_ATOM(weir_actors, weir::actors, read_atom, "read")
  CAF_ADD_ATOM(weir_actors, weir::actors, record_atom, "record")
  CAF_ADD_ATOM(weir_actors, weir::actors, report_atom, "report")
  CAF_ADD_ATOM(weir_actors, weir::actors, sample_atom, "sample")
  CAF_ADD_ATOM(weir_actors, weir::actors, save_atom, "save")
  CAF_ADD_ATOM(weir_actors, weir::actors, snapshot_atom, "snapshot")
  CAF_ADD_ATOM(weir_actors, weir::actors, status_atom, "status")
  CAF_ADD_ATOM(weir_actors, weir::actors, stop_atom, "stop")
  CAF_ADD_ATOM(weir_actors, weir::actors, sync_atom, "sync")
  CAF_ADD_ATOM(weir_actors, weir::actors, work_atom, "work")
  CAF_ADD_ATOM(weir_actors, weir::actors, write_atom, "write")
CAF_END_TYPE_ID_BLOCK(weir_actors)
// clang-format on
