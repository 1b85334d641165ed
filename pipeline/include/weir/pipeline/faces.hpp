// SPDX-License-Identifier: Apache-2.0
/// @file
/// How a class becomes a stage: the members that each face has, the description, and the
/// adapter to `flow::stage_object`.
///
/// A class is a stage if it has `static void describe(stage_spec<S>&)` and the members of
/// one face: `on_item` (a task stage), `on_item` and `on_done` (a late stage), `next`,
/// `position` and `seek` with a type `cursor` (a source), or `put`, `settle` and `rewind`
/// with a type `offset` (a sink). All faces may have a type `settings` and
/// `result<void> open(opening&, const settings&)`.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/base/settings.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir {

/// Settings of a stage class that has none.
struct no_settings {};

namespace flow {

/// The settings of a stage class that has none.
template <class S>
struct settings_type {
  using type = no_settings;  ///< a structure without members
};
/// The settings of a stage class with a type `settings`.
template <class S>
requires requires {
  typename S::settings;
}
struct settings_type<S> {
  using type = typename S::settings;  ///< the structure of the class
};
/// The settings of a stage class, or `no_settings`.
template <class S>
using settings_of = typename settings_type<S>::type;

/// Returns the type of a port with static type, from the extents in a description.
/// @pre The text has as many extents as the port has dimensions.
[[nodiscard]] port_type static_type(dtype element, int rank, std::string_view extents);

}  // namespace flow

/// The description of a stage class. `describe` calls its members, which can be chained.
/// @threads{thread-compatible}
template <class S>
class stage_spec {
 public:
  /// Type of the settings of the stage.
  using settings = flow::settings_of<S>;

  /// Sets the full name, such as `demo.dense`, and one sentence of documentation.
  stage_spec& name(std::string full_name, std::string documentation) {
    info_.name = std::move(full_name);
    info_.documentation = std::move(documentation);
    return *this;
  }
  /// Describes an inlet. @param extents  Such as `n,384`, see `flow::port_type`.
  template <class T, int Rank>
  stage_spec& port(std::string port_name, in<T, Rank> S::*member,
                   std::string_view extents) {
    return add_port(std::move(port_name), member,
                    flow::static_type(dtype_of<T>, Rank, extents), true);
  }
  /// Describes an outlet. @param extents  Such as `n,384`, see `flow::port_type`.
  template <class T, int Rank>
  stage_spec& port(std::string port_name, out<T, Rank> S::*member,
                   std::string_view extents) {
    return add_port(std::move(port_name), member,
                    flow::static_type(dtype_of<T>, Rank, extents), false);
  }
  /// Describes an inlet for tensors of any type.
  stage_spec& port(std::string port_name, any_in S::*member) {
    return add_port(std::move(port_name), member, {}, true);
  }
  /// Describes an outlet that hands on the tensor of an inlet of any type.
  stage_spec& port(std::string port_name, any_out S::*member) {
    info_.forwards = true;
    return add_port(std::move(port_name), member, {}, false);
  }
  /// Describes scratch memory. @param extents  Fixed numbers, such as `4,4`.
  template <class T, int Rank>
  stage_spec& memory(std::string memory_name, scratch<T, Rank> S::*member,
                     std::string_view extents) {
    bind(member, static_cast<int>(info_.scratch.size()));
    info_.scratch.push_back(
        {std::move(memory_name), flow::static_type(dtype_of<T>, Rank, extents), false});
    return *this;
  }
  /// Declares a tensor of the engine that checkpoints hold. `open` makes it.
  template <class T, int Rank>
  stage_spec& state(std::string state_name, tensor<T, Rank> S::*member) {
    info_.state.push_back({state_name, true});
    states_.push_back([state_name, member](S& stage) {
      return flow::state_part{state_name, true, (stage.*member).bytes(), {}};
    });
    return *this;
  }
  /// Declares a value without pointers that checkpoints hold.
  template <class T>
  requires std::is_trivially_copyable_v<T> stage_spec& state(std::string state_name,
                                                             T S::*member) {
    info_.state.push_back({state_name, false});
    states_.push_back([state_name, member](S& stage) {
      return flow::state_part{
          state_name, false, {}, std::as_writable_bytes(std::span(&(stage.*member), 1))};
    });
    return *this;
  }
  /// Adds a setting; the returned options narrow it, see `settings_table::add`.
  template <class T>
  auto set(std::string key, T settings::*member, std::string documentation) {
    return table_.add(std::move(key), member, std::move(documentation));
  }
  /// Declares that items are independent of each other, so that a failed one may be
  /// skipped.
  stage_spec& stateless() {
    info_.stateless = true;
    return *this;
  }
  /// Declares that a call takes `takes` items and makes up to `gives`. The items of such
  /// a stage have a numbering of their own.
  stage_spec& rate(std::uint32_t takes, std::uint32_t gives) {
    info_.takes = takes;
    info_.gives = gives;
    info_.own_numbering = true;
    return *this;
  }
  /// Declares that the stage is called for numbers that some of its inlets have no item
  /// for. By default such numbers become gaps behind the stage.
  stage_spec& accept_gaps() {
    info_.gaps = flow::gap_policy::pass;
    return *this;
  }
  /// Declares that the stage may call `step::forward` with typed ports.
  stage_spec& forwards() {
    info_.forwards = true;
    return *this;
  }
  /// Sets the strongest guarantee that the source or sink gives; exactly once by default.
  stage_spec& promises(flow::guarantee promise) {
    info_.promise = promise;
    return *this;
  }

  /// Returns the description so far.
  [[nodiscard]] const flow::stage_info& info() const noexcept { return info_; }
  /// Returns the table of the settings.
  [[nodiscard]] const settings_table<settings>& table() const noexcept { return table_; }
  /// Sets the numbers of the ports and scratch memories of a stage.
  void number_ports(S& stage) const {
    for (const auto& one : binders_) {
      one(stage);
    }
  }
  /// Returns the parts of the state of a stage.
  [[nodiscard]] std::vector<flow::state_part> states(S& stage) const {
    std::vector<flow::state_part> all;
    for (const auto& one : states_) {
      all.push_back(one(stage));
    }
    return all;
  }

 private:
  template <class Port>
  stage_spec& add_port(std::string port_name, Port S::*member, flow::port_type type,
                       bool inlet) {
    bind(member, static_cast<int>(inlet ? info_.inlets() : info_.outlets()));
    info_.ports.push_back({std::move(port_name), std::move(type), inlet});
    return *this;
  }
  template <class Port>
  void bind(Port S::*member, int index) {
    binders_.push_back([member, index](S& stage) { (stage.*member).index = index; });
  }

  flow::stage_info info_;
  settings_table<settings> table_{"the stage"};
  std::vector<std::function<void(S&)>> binders_;
  std::vector<std::function<flow::state_part(S&)>> states_;
};

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
  } else {
    static_assert(task_stage<S>,
                  "a task stage has `result<void> on_item(step&)`; a late stage also has "
                  "`result<void> on_done(step&)`; a source has a type `cursor`; a sink "
                  "has a type `offset`");
  }
}

/// Returns the face of a stage class.
template <class S>
[[nodiscard]] constexpr flow::face face_of() {
  if constexpr (source_stage<S>) {
    return face::source;
  } else if constexpr (sink_stage<S>) {
    return face::sink;
  } else {
    return late_stage<S> ? face::late : face::task;
  }
}

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
  std::vector<state_part> state() override { return spec_.states(stage_); }

 private:
  /// Calls a function with the value that a record holds.
  template <class T, class Function>
  static result<void> with_record(std::string_view kind, bytes_view bytes,
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
    if (!one.may_change) {
      made.info.frozen.emplace_back(one.name, one.get(settings).describe());
    }
  }
  made.object = std::make_unique<typed_stage<S>>(std::move(spec), std::move(settings));
  return made;
}

}  // namespace flow
}  // namespace weir
