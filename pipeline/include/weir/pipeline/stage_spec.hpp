// SPDX-License-Identifier: Apache-2.0
/// @file
/// The description of a stage class: its ports, settings and state by name.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
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
  /// Adds what the reference says about the stage: further paragraphs in Markdown, and
  /// the TOML of a small pipeline that runs.
  stage_spec& manual(std::string_view details, std::string_view example) {
    info_.details = details;
    info_.example = example;
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
  /// Declares a late stage, so that a misspelt `on_done` is an error of the compiler.
  stage_spec& late() {
    static_assert(
        requires(S s, step & x) {
          { s.on_done(x) } -> std::same_as<result<void>>;
        },
        "a late stage has `result<void> on_item(step&)` and `result<void> "
        "on_done(step&)`");
    return *this;
  }
  /// Declares a step loop, so that a misspelt `on_step` is an error of the compiler.
  stage_spec& looping() {
    static_assert(
        requires(S s, step & x) {
          { s.on_step(x) } -> std::same_as<result<bool>>;
        },
        "a step loop has `result<void> on_item(step&)` and `result<bool> "
        "on_step(step&)`");
    return *this;
  }
  /// Declares a blocking stage, so that a misspelt `on_ready` is an error of the
  /// compiler.
  stage_spec& blocking() {
    static_assert(
        requires(S s, taken & from, pull & to) {
          { s.on_ready(from, to) } -> std::same_as<result<void>>;
        },
        "a blocking stage has `result<void> on_ready(taken&, pull&)`");
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

}  // namespace weir
