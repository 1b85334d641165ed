// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines for programs: name stages, connect them, run them.
///
/// ```
/// weir::pipeline p("squares");
/// auto numbers = p.add<counting>("numbers", {.count = 1000});
/// auto square = p.map("square", "f64[n]", "f64[n]",
///                     [](weir::view<const double, 1> x, weir::view<double, 1> y) {
///                       for (std::size_t i = 0; i < std::size_t(x.extent(0)); ++i)
///                         y[i] = x[i] * x[i];
///                     });
/// auto file = p.add<raw_file>("file", {.path = "squares.bin"});
/// numbers >> square >> file;
/// ```
/// @source{docs/pipelines.md}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/pipeline/catalog.hpp"
#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/map_stage.hpp"

namespace weir {

class pipeline;

/// A stage of a pipeline that is being built, or one of its ports.
/// @threads{thread-compatible; must not outlive its pipeline}
class node {
 public:
  /// Returns a port of the stage. A name that no port has is an error of the check.
  [[nodiscard]] node operator[](std::string_view port) const;
  /// Sets the window of the edges that end at the stage or port.
  /// @param items  Largest number of items alive on the edge, at least 1.
  /// @param bytes  Largest number of bytes alive on the edge; one item may exceed them.
  node& window(std::uint32_t items, std::int64_t bytes = flow::default_window_bytes);
  /// Sets the treatment of items that fail. With `dead_letter` the stage gets outlets
  /// `failed_NAME`, one for each inlet, which lead to a sink.
  /// @param max_failures  Failed items after which the next one stops the run.
  node& failing(flow::failure_policy policy,
                std::uint64_t max_failures = flow::unlimited_failures);
  /// Sets the thread or process in which the stage works. It changes no result, and a run
  /// may be resumed with other hosts.
  node& host(flow::host_kind kind);
  /// Sets the place of the stage's definition for messages, such as `two.toml:12:1`.
  node& defined_at(std::string place);
  /// Adds an edge. The name of a port may be left out if the stage has only one in that
  /// direction. Returns the second node, so that edges can be chained.
  friend node operator>>(node from, node to);
  /// Adds a feedback edge: `to` reads with item n what this stage made for item n -
  /// delay.
  /// @param delay  At least 1.
  void feed_back(node to, std::uint32_t delay) const;

 private:
  friend class pipeline;
  node(pipeline& owner, std::uint32_t stage, std::string port = {})
      : owner_(&owner), stage_(stage), port_(std::move(port)) {}
  pipeline* owner_;
  std::uint32_t stage_;
  std::string port_;
};

/// A graph of stages that is being built. Mistakes are reported by `check` and by the
/// functions that run the pipeline.
/// @threads{thread-compatible}
class pipeline {
 public:
  /// Begins a pipeline. @param name Appears in messages, checkpoints and reports.
  explicit pipeline(std::string name);
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;
  pipeline(pipeline&&) = delete;
  pipeline& operator=(pipeline&&) = delete;
  ~pipeline();

  /// Adds a stage of a class.
  template <class S>
  node add(const std::string& name, flow::settings_of<S> settings = {}) {
    return add_maker(
        name, [settings = std::move(settings)] { return flow::make_stage<S>(settings); });
  }
  /// Adds a stage of `flow::stages()` by its full name.
  node add(std::string name, std::string_view stage, const given_settings& settings = {});
  /// Adds a function of the elements of one item as a stage; it runs as one task for each
  /// item. Extents of the outlet that are letters are those of the inlet.
  /// @param from  Type of the inlet `x`, such as `f32[n,4]`.
  /// @param to    Type of the outlet `y`.
  template <class Function>
  node map(const std::string& name, std::string_view from, std::string_view to,
           Function function) {
    if constexpr (std::is_copy_constructible_v<Function>) {
      return add_maker(name, [from = std::string(from), to = std::string(to),
                              function = std::move(function)] {
        return flow::make_map_stage(from, to, function);
      });
    } else {
      return add_made(name, flow::make_map_stage(from, to, std::move(function)));
    }
  }
  /// Adds a stage that a function makes. It is called at once, and again when a run goes
  /// back to a checkpoint.
  node add_maker(std::string name, std::function<result<flow::described_stage>()> make);
  /// Adds a stage that was made before.
  /// @param make  Makes the stage again when a run goes back to a checkpoint.
  node add_made(std::string name, result<flow::described_stage> stage,
                std::function<result<flow::described_stage>()> make = {});
  /// Adds an edge between ports by name; see `operator>>` for empty names.
  /// @param place  Place of its definition for messages; may be empty.
  void connect(std::uint32_t from, std::string_view outlet, std::uint32_t to,
               std::string_view inlet, std::uint32_t delay = 0, std::string place = {});

  /// Checks the pipeline, see `flow::check`.
  /// @error{invalid_argument, the first mistake in building it. Also returns the errors
  /// of `flow::check`}
  [[nodiscard]] result<flow::plan> check() const;
  /// Hands the stages over for a run, in the order in which they were added. A pipeline
  /// runs once. @error{invalid_argument, the stages were taken before}
  [[nodiscard]] result<std::vector<std::unique_ptr<flow::stage_object>>> take_stages();
  /// Makes all stages again, in the state before their first item.
  /// @error{unsupported, a stage was made by the program and cannot be made again; or
  /// returns the errors of the factories}
  [[nodiscard]] result<std::vector<std::unique_ptr<flow::stage_object>>> remake_stages()
      const;
  /// Returns the graph so far.
  [[nodiscard]] const flow::graph& built() const noexcept { return graph_; }

 private:
  friend class node;
  void mistake(error e);
  [[nodiscard]] std::optional<std::uint32_t> port_of(std::uint32_t stage,
                                                     std::string_view port, bool inlet);
  void apply_windows(flow::graph& g) const;

  struct window_setting {
    std::uint32_t stage;
    std::string port;
    std::uint32_t items;
    std::int64_t bytes;
  };
  flow::graph graph_;
  std::vector<std::unique_ptr<flow::stage_object>> objects_;
  /// Make the stages again; empty for a stage that cannot be made again.
  std::vector<std::function<result<flow::described_stage>()>> makers_;
  std::vector<window_setting> windows_;
  std::optional<error> mistake_;
  bool taken_ = false;
};

}  // namespace weir
