// SPDX-License-Identifier: Apache-2.0
/// @file
/// How a class becomes a stage: the members that each face has, and the adapter to
/// `flow::stage_object`.
///
/// A class is a stage if it has `static void describe(stage_spec<S>&)` and the members of
/// one face: `on_item` (a task stage), `on_item` and `on_done` (a late stage), `on_item`
/// and `on_step` (a step loop), `on_ready` (a blocking stage), `next`, `position` and
/// `seek` with a type `cursor` (a source), or `put`, `settle` and `rewind` with a type
/// `offset` (a sink). A sink may also have `result<bool> verify(opening&, const
/// settings&, offset)`, which compares the output of a finished run with its offset, see
/// `flow::stage_object::verify`. All faces may have a type `settings` and `result<void>
/// open(opening&, const settings&)`.
/// @threads{a stage is called by one thread at a time, that of its host; the functions
/// are safe to call concurrently}
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/pipeline/stage_spec.hpp"

namespace weir {

/// A class that describes itself as a stage.
template <class S>
concept described = requires(stage_spec<S>& spec) {
  S::describe(spec);
};
/// A task stage.
template <class S>
concept task_stage = described<S> && requires(S s, step& x) {
  { s.on_item(x) } -> std::same_as<result<void>>;
};
/// A late stage: `on_done` is called in the order of the items, once the tasks of the
/// item have ended. Between two calls of `on_done` any number of `on_item` may be called,
/// so the results of either must not depend on values that the other changes.
template <class S>
concept late_stage = task_stage<S> && requires(S s, step& x) {
  { s.on_done(x) } -> std::same_as<result<void>>;
};
/// A step loop: once the tasks of an item have ended, `on_step` is called, and again each
/// time the tasks that it has submitted have ended, until it returns false. Only then the
/// stage gets its next item. Its calls therefore depend on items and state alone.
template <class S>
concept looping_stage = task_stage<S> && requires(S s, step& x) {
  { s.on_step(x) } -> std::same_as<result<bool>>;
};
/// A blocking stage: `on_ready` gets an item whose bytes are complete, and fills the item
/// that it makes of it. It runs on a thread of its own, where it may wait.
template <class S>
concept blocking_stage = described<S> && requires(S s, taken& from, pull& to) {
  { s.on_ready(from, to) } -> std::same_as<result<void>>;
};
/// A source. After `seek` with the result of `position`, `next` goes on behind the item
/// before `position`. The cursor has at most 64 bytes and no pointers.
template <class S>
concept source_stage = described<S> &&
    requires(S s, const S& c, pull& p, typename S::cursor where) {
  { s.next(p) } -> std::same_as<result<bool>>;
  { c.position() } -> std::same_as<typename S::cursor>;
  { s.seek(where) } -> std::same_as<result<void>>;
} && std::is_trivially_copyable_v<typename S::cursor> &&
    sizeof(typename S::cursor) <= flow::max_record;
/// A sink. No crash takes away the items before an offset that `settle` has returned;
/// `rewind` removes everything behind an offset. The offset has at most 64 bytes and no
/// pointers.
template <class S>
concept sink_stage = described<S> && requires(S s, taken& t, typename S::offset where) {
  { s.put(t) } -> std::same_as<result<void>>;
  { s.settle() } -> std::same_as<result<typename S::offset>>;
  { s.rewind(where) } -> std::same_as<result<void>>;
} && std::is_trivially_copyable_v<typename S::offset> &&
    sizeof(typename S::offset) <= flow::max_record;

namespace flow {

/// Refuses classes that are no stage, with the members that are missing.
template <class S>
constexpr void require_face() {
  static_assert(described<S>, "a stage has `static void describe(weir::stage_spec<S>&)`");
  if constexpr (requires { typename S::cursor; }) {
    static_assert(source_stage<S>,
                  "a source (it has a type `cursor`) has `result<bool> next(pull&)`, "
                  "`cursor position() const` and `result<void> seek(cursor)`; the cursor "
                  "has at most 64 bytes and no pointers");
  } else if constexpr (requires { typename S::offset; }) {
    static_assert(sink_stage<S>,
                  "a sink (it has a type `offset`) has `result<void> put(taken&)`, "
                  "`result<offset> settle()` and `result<void> rewind(offset)`; the "
                  "offset has at most 64 bytes and no pointers");
  } else if constexpr (requires { &S::on_ready; }) {
    static_assert(blocking_stage<S>,
                  "a blocking stage has `result<void> on_ready(taken&, pull&)`");
  } else if constexpr (requires { &S::on_step; }) {
    static_assert(looping_stage<S>,
                  "a step loop has `result<void> on_item(step&)` and `result<bool> "
                  "on_step(step&)`");
    static_assert(!late_stage<S>, "a step loop has no `on_done`");
  } else if constexpr (requires { &S::on_done; }) {
    static_assert(late_stage<S>,
                  "a late stage has `result<void> on_item(step&)` and `result<void> "
                  "on_done(step&)`");
  } else {
    static_assert(task_stage<S>,
                  "a task stage has `result<void> on_item(step&)`; a late stage also has "
                  "`result<void> on_done(step&)`, a step loop `result<bool> "
                  "on_step(step&)`; a blocking stage has `result<void> on_ready(taken&, "
                  "pull&)`; a source has a type `cursor`; a sink has a type `offset`");
  }
}

/// Returns the face of a stage class.
template <class S>
[[nodiscard]] constexpr flow::face face_of() {
  if constexpr (source_stage<S>) {
    return face::source;
  } else if constexpr (sink_stage<S>) {
    return face::sink;
  } else if constexpr (blocking_stage<S>) {
    return face::blocking;
  } else if constexpr (looping_stage<S>) {
    return face::looping;
  } else {
    return late_stage<S> ? face::late : face::task;
  }
}

/// A sink that can compare its output with an offset.
template <class S>
concept verifying_sink = sink_stage<S> &&
    requires(S s, opening& run, const settings_of<S>& with, typename S::offset where) {
  s.verify(run, with, where);
};

/// A stage class behind the interface of the hosts.
template <class S>
class typed_stage final : public stage_object {
 public:
  /// Makes a stage with numbered ports.
  typed_stage(stage_spec<S> spec, settings_of<S> settings)
      : spec_(std::move(spec)), settings_(std::move(settings)) {
    spec_.number_ports(stage_);
  }
  result<void> open(opening& run) override {
    if constexpr (requires { stage_.open(run, settings_); }) {
      return stage_.open(run, settings_);
    }
    return {};
  }
  result<void> on_item(step& s) override {
    if constexpr (task_stage<S>) {
      return stage_.on_item(s);
    }
    return stage_object::on_item(s);
  }
  result<void> on_done(step& s) override {
    if constexpr (late_stage<S>) {
      return stage_.on_done(s);
    }
    return stage_object::on_done(s);
  }
  result<bool> on_step(step& s) override {
    if constexpr (looping_stage<S>) {
      return stage_.on_step(s);
    }
    return stage_object::on_step(s);
  }
  result<void> on_ready(taken& from, pull& to) override {
    if constexpr (blocking_stage<S>) {
      return stage_.on_ready(from, to);
    }
    return stage_object::on_ready(from, to);
  }
  result<bool> next(pull& p) override {
    if constexpr (source_stage<S>) {
      return stage_.next(p);
    }
    return stage_object::next(p);
  }
  [[nodiscard]] small_record position() const override {
    if constexpr (source_stage<S>) {
      return small_record::holding(std::as_const(stage_).position());
    }
    return {};
  }
  result<void> seek(bytes_view cursor) override {
    if constexpr (source_stage<S>) {
      return with_record<typename S::cursor>(
          "cursor", cursor, [&](const auto& where) { return stage_.seek(where); });
    }
    return stage_object::seek(cursor);
  }
  result<void> put(taken& t) override {
    if constexpr (sink_stage<S>) {
      return stage_.put(t);
    }
    return stage_object::put(t);
  }
  result<small_record> settle() override {
    if constexpr (sink_stage<S>) {
      auto offset = stage_.settle();
      if (!offset) {
        return std::move(offset.error());
      }
      return small_record::holding(*offset);
    }
    return stage_object::settle();
  }
  result<void> rewind(bytes_view offset) override {
    if constexpr (sink_stage<S>) {
      return with_record<typename S::offset>(
          "offset", offset, [&](const auto& where) { return stage_.rewind(where); });
    }
    return stage_object::rewind(offset);
  }
  result<bool> verify(opening& run, bytes_view offset,
                      const state_reader& state) override {
    if constexpr (verifying_sink<S>) {
      return with_record<typename S::offset>("offset", offset, [&](const auto& where) {
        return stage_.verify(run, settings_, where);
      });
    }
    return stage_object::verify(run, offset, state);
  }
  std::vector<state_part> state() override { return spec_.states(stage_); }
  void report(figures& to) const override {
    if constexpr (requires { stage_.report(to); }) {
      stage_.report(to);
    }
  }

 private:
  /// Calls a function with the value that a record holds.
  template <class T, class Function>
  static std::invoke_result_t<Function, const T&> with_record(std::string_view kind,
                                                              bytes_view bytes,
                                                              Function&& use) {
    if (bytes.size() != sizeof(T)) {
      return error(errc::corrupt, "cannot use the stored " + std::string(kind) +
                                      ": expected " + std::to_string(sizeof(T)) +
                                      " bytes, found " + std::to_string(bytes.size()));
    }
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return use(value);
  }

  S stage_{};
  stage_spec<S> spec_;
  settings_of<S> settings_;
};

/// Adds the settings of a table and their defaults to the description of a stage.
template <class Settings>
void add_settings(stage_info& info, const settings_table<Settings>& table) {
  const Settings untouched{};
  for (const auto& one : table.entries()) {
    info.settings.push_back(one);
    info.defaults.push_back(one.get(untouched));
  }
}

/// Returns the description of a stage class with its face, and with its settings and
/// their defaults.
template <class S>
[[nodiscard]] stage_info describe_class(const stage_spec<S>& spec) {
  stage_info info = spec.info();
  info.face = face_of<S>();
  add_settings(info, spec.table());
  return info;
}

/// Makes a stage of a class, with its description and checked settings.
/// @error{invalid_argument, a setting is outside its range}
template <class S>
[[nodiscard]] result<described_stage> make_stage(settings_of<S> settings) {
  require_face<S>();
  stage_spec<S> spec;
  S::describe(spec);
  WEIR_CHECK(spec.table().check(settings));
  described_stage made;
  made.info = describe_class<S>(spec);
  for (const auto& one : spec.table().entries()) {
    add_value(made.info, one, one.get(settings));
  }
  made.object = std::make_unique<typed_stage<S>>(std::move(spec), std::move(settings));
  return made;
}

}  // namespace flow
}  // namespace weir
