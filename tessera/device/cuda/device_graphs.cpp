// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes graphs of the driver: nodes, the order between them, and the form that can be
/// launched.
///
/// A kernel that takes the facts of its launch is refused: it may report a failure, after
/// which later work must not run, and its facts change from run to run. The driver knows
/// neither. Copies of memory of the host are refused as well, since such memory can be
/// unregistered between two runs.
#include "device/cuda/device_graphs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {
namespace {

/// Returns the error for work that the driver cannot do by itself.
error not_native(std::string_view device, std::string_view found) {
  return {errc::unsupported,
          fmt::format("cannot make a graph on {}: expected copies on the device, fills "
                      "and kernels without the facts of their launch, found {}",
                      device, found)};
}

/// Returns true if the driver has all functions that graphs need.
bool has_graphs(const driver_api& api) noexcept {
  return api.graph_create != nullptr && api.graph_add_kernel != nullptr &&
         api.graph_add_copy != nullptr && api.graph_add_fill != nullptr &&
         api.graph_instantiate != nullptr && api.graph_destroy != nullptr &&
         api.graph_launch != nullptr && api.graph_exec_destroy != nullptr;
}

/// Checks that the driver can do a piece by itself.
result<void> check_piece(const device_work& work, std::int32_t device,
                         std::string_view name) {
  if (const auto* const copy = std::get_if<copy_work>(&work)) {
    // Copies to other devices have two contexts.
    const bool here = copy->kind == copy_kind::device_to_device &&
                      copy->to_device == device && copy->from_device == device;
    return here ? result<void>() : not_native(name, "another copy");
  }
  if (const auto* const grid = std::get_if<grid_work>(&work)) {
    const auto& kernel = *reinterpret_cast<const device_kernel*>(grid->launch.code.entry);
    return kernel.without_facts[static_cast<std::size_t>(device)] != 0
               ? result<void>()
               : not_native(name, fmt::format("kernel {}", kernel.name));
  }
  return std::holds_alternative<fill_work>(work) ? result<void>()
                                                 : not_native(name, "a graph");
}

/// Names a graph by its kernels, since the driver does not say which of them has failed.
std::string label_of(std::span<const graph_piece> pieces, std::string_view device) {
  constexpr std::size_t shown = 3;
  std::vector<std::string_view> names;
  for (const graph_piece& piece : pieces) {
    if (const auto* const grid = std::get_if<grid_work>(&piece.work)) {
      const std::string_view name = grid->launch.code.name;
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    text += fmt::format("{}kernel {}", i == 0 ? " with " : " or ", names[i]);
  }
  if (names.size() > shown) {
    text += fmt::format(" or {} others", names.size() - shown);
  }
  return fmt::format("run graph{} on {}", text, device);
}

/// Describes a copy on a device.
copy_node node_of(const copy_work& work) noexcept {
  copy_node out;
  out.from.device = reinterpret_cast<device_address>(work.from);
  out.to.device = reinterpret_cast<device_address>(work.to);
  out.from.pitch = work.bytes;
  out.to.pitch = work.bytes;
  out.from.height = 1;
  out.to.height = 1;
  out.width = work.bytes;
  return out;
}

}  // namespace

// A run keeps its graph, so no run is in flight. The driver may be called after a loss:
// it answers with the error of the loss.
cuda_graph::~cuda_graph() {
  if (::getpid() != owner_) {
    return;  // a child of fork has no thread of the device
  }
  thread_.post([&api = api_, handle = handle_] { (void)api.graph_exec_destroy(handle); });
}

/// Waits for the thread, which alone calls the driver.
result<std::shared_ptr<device_graph>> device_thread::make_graph(
    std::span<const graph_piece> pieces) {
  std::shared_ptr<device_graph> made;
  WEIR_CHECK(call([&]() -> result<void> {
    WEIR_TRY(made, record_graph(pieces));
    return {};
  }));
  return made;
}

// Only the form that can be launched stays. The description is destroyed at once.
result<std::shared_ptr<device_graph>> device_thread::record_graph(
    std::span<const graph_piece> pieces) {
  if (!has_graphs(api_)) {
    return not_native(facts_.name, "a driver without graphs");
  }
  for (const graph_piece& piece : pieces) {
    WEIR_CHECK(check_piece(piece.work, ordinal_, facts_.name));
  }
  const std::string label = fmt::format("make a graph on {}", facts_.name);
  graph_handle graph = nullptr;
  status s = api_.graph_create(&graph, 0);
  if (s != status::success) {
    return returned_or_lost(s, label);
  }
  graph_exec_handle exec = nullptr;
  s = add_pieces(graph, pieces);
  if (s == status::success) {
    s = api_.graph_instantiate(&exec, graph, 0);
  }
  // Its failure changes nothing for the form that can be launched.
  const status gone = api_.graph_destroy(graph);
  if (s == status::success && kind_of(gone) == status_kind::sticky) {
    (void)api_.graph_exec_destroy(exec);
    s = gone;
  }
  if (s != status::success) {
    return returned_or_lost(s, label);
  }
  return std::make_shared<cuda_graph>(*this, api_, exec, label_of(pieces, facts_.name));
}

/// Adds the nodes of all pieces, each behind the last nodes of those that it follows.
status device_thread::add_pieces(graph_handle graph,
                                 std::span<const graph_piece> pieces) {
  std::vector<graph_node_handle> last(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    // The driver takes no node twice.
    std::vector<std::size_t> numbers = pieces[i].after;
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::vector<graph_node_handle> after;
    for (const std::size_t number : numbers) {
      after.push_back(last[number]);
    }
    const status s = add_piece(graph, pieces[i].work, std::move(after), last[i]);
    if (s != status::success) {
      return s;
    }
  }
  return status::success;
}

/// `last` becomes the node with whose end the piece has ended. A fill may have several
/// nodes, which follow each other.
status device_thread::add_piece(graph_handle graph, const device_work& work,
                                std::vector<graph_node_handle> after,
                                graph_node_handle& last) {
  if (const auto* const grid = std::get_if<grid_work>(&work)) {
    return add_kernel(graph, grid->launch, after, last);
  }
  if (const auto* const copy = std::get_if<copy_work>(&work)) {
    const copy_node node = node_of(*copy);
    return api_.graph_add_copy(&last, graph, after.data(), after.size(), &node, context_);
  }
  for (const fill_node& part : parts_of(std::get<fill_work>(work))) {
    const status s =
        api_.graph_add_fill(&last, graph, after.data(), after.size(), &part, context_);
    if (s != status::success) {
      return s;
    }
    after.assign(1, last);
  }
  return status::success;
}

// The driver copies the arguments during the call. They are passed one by one, as for a
// launch in a stream.
status device_thread::add_kernel(graph_handle graph, const grid_launch& launch,
                                 const std::vector<graph_node_handle>& after,
                                 graph_node_handle& made) {
  const auto& kernel = *reinterpret_cast<const device_kernel*>(launch.code.entry);
  std::vector<void*> arguments;
  for (const std::uint32_t place : kernel.places) {
    arguments.push_back(const_cast<std::byte*>(launch.args.data() + place));
  }
  if (const status s = allow_shared(launch); s != status::success) {
    return s;
  }
  kernel_node node;
  node.function = kernel.functions[static_cast<std::size_t>(ordinal_)];
  for (std::size_t i = 0; i < 3; ++i) {
    node.grid[i] = static_cast<unsigned>(launch.grid[i]);
    node.block[i] = static_cast<unsigned>(launch.block[i]);
  }
  node.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  node.arguments = arguments.data();
  return api_.graph_add_kernel(&made, graph, after.data(), after.size(), &node);
}

}  // namespace weir::tessera::cuda
