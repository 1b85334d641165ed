// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes launches from requests.
///
/// Everything that can be checked is checked when the program calls: the request's errors
/// are then returned by the call itself. Only errors of the policy and of the memory
/// limit become operations that fail in the order of the stream. The properties that
/// consecutive launches have in common are computed once (`launch_shape`).
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "stream/block_tuner.hpp"
#include "stream/launch_operation.hpp"
#include "stream/persistent_launch.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {
namespace {

/// Returns the rank of a place as an index.
std::size_t rank_in(const memory_place& place) noexcept {
  return static_cast<std::size_t>(place.rank);
}

/// Copies the arguments, checks them, and finds the memory that their pointers reach.
/// Returns null if the kernel has no arguments.
/// @error{invalid_argument; arguments that do not fit the kernel's parameters, or
/// symmetric memory of another mesh}
result<ref<launch_arguments>> arguments_of(stream& target, const kernel_record& record,
                                           const launch_request& request) {
  // The text of the error gets the name of the kernel.
  auto fits = check_arguments(record.parameters, request.args, request.args_bytes);
  if (!fits) {
    return std::move(fits.error()).located(fmt::format("kernel \"{}\"", record.name));
  }
  if (record.parameters.empty()) {
    return ref<launch_arguments>();
  }
  auto out = make_ref<launch_arguments>();
  WEIR_TRY(out->bytes,
           copy_arguments(record.parameters, request.args, request.args_bytes));
  for (const kernel_parameter& p : record.parameters) {
    if (p.kind != parameter_kind::pointer) {
      continue;
    }
    void* pointer = nullptr;
    std::memcpy(&pointer, out->bytes.data() + p.offset, sizeof pointer);
    if (pointer == nullptr) {
      continue;
    }
    // Pointers to unknown memory are passed as they are.
    auto place = target.context().memory().find(pointer);
    if (place && place->memory->symmetric() && !target.fits(*place)) {
      return error(errc::invalid_argument,
                   fmt::format("kernel not launched \"{}\": expected memory of the "
                               "stream's mesh as {}, found another mesh's",
                               record.name, p.name));
    }
    // A kernel may touch every byte of an allocation that it gets a pointer into. If the
    // address table does not know the address, the kernel may touch any byte of the host.
    const auto reached =
        place ? target.owner_of(place, place->memory->instances()[rank_in(*place)],
                                place->memory->bytes(), true)
              : target.owner_of(place, nullptr, 0, true);
    // With a single device chain all operations are in order anyway.
    if (reached && target.chain_count() > 1) {
      out->reached.push_back(*reached);
    }
    // Only symmetric addresses differ between ranks; others are passed as they are.
    if (place && place->memory->symmetric()) {
      out->pointers.push_back({p.offset, std::move(*place)});
    }
  }
  return out;
}

/// Returns the grid of a launch on the first device chain: fills in defaults for extents
/// of 0 and adds the shared memory that the kernel itself declares.
/// @error{invalid_argument; more threads in a block or more shared memory than allowed,
/// or a grid that the backend refuses}
result<grid_launch> grid_of(stream& target, const launch_request& request) {
  const kernel_record& record = request.kernel.kernel->record;
  grid_launch grid;
  grid.code = request.kernel.code();
  grid.device = target.device_of(0);
  grid.grid = request.grid;
  grid.block = request.block;
  if (is_zero(request.block)) {
    grid.block = usual_block(record);
  }
  // A product above this limit is refused anyway.
  constexpr std::int64_t too_many = std::int64_t{1} << 31;
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (grid.block[i] == 0) {
      grid.block[i] = std::max(static_cast<std::int32_t>(record.default_block[i]), 1);
    }
    // The product cannot overflow: it is limited before each multiplication.
    threads = std::min(threads, too_many) * std::max(grid.block[i], 1);
  }
  if (threads > record.max_threads) {
    return error(errc::invalid_argument,
                 fmt::format("kernel not launched \"{}\": expected at most {} threads in "
                             "a block, found {}",
                             record.name, record.max_threads, threads));
  }
  // The sum of both sizes must not overflow.
  if (request.shared_bytes > SIZE_MAX - record.shared_bytes) {
    return error(errc::invalid_argument,
                 fmt::format("kernel not launched \"{}\": expected shared memory that "
                             "can be counted, found {} bytes",
                             record.name, request.shared_bytes));
  }
  const device_backend& backend = target.context().backend();
  // Code for other devices declares its own shared memory, which drivers add.
  grid.shared_bytes =
      request.shared_bytes + (backend.inline_work() ? record.shared_bytes : 0);
  // The arguments themselves are checked later; the backend needs their size.
  const std::vector<std::byte> size_of_arguments(request.kernel.kernel->arguments.padded);
  grid.args = size_of_arguments;
  WEIR_CHECK(backend.check(grid, request.persistent));
  grid.args = {};
  return grid;
}

/// Computes everything that launches with these terms share, for each device chain.
result<ref<launch_shape>> shape_of_launch(stream& target, const launch_request& request,
                                          const numerics_policy& policy) {
  auto out = make_ref<launch_shape>();
  WEIR_TRY(grid_launch grid, grid_of(target, request));
  out->kernel = request.kernel;
  out->mesh = target.mesh();
  out->backend = &target.context().backend();
  out->rank = target.options().rank;
  const auto& of_module = request.kernel.module->policy();
  out->determinism = target.describe(policy, of_module ? of_module->seed : 0);
  // Every device chain has its device and its place in the mesh.
  for (unsigned chain = 0; chain < target.chain_count(); ++chain) {
    grid.device = target.device_of(chain);
    grid.facts = target.mesh()->places[static_cast<std::size_t>(target.rank_of(chain))];
    out->grids.push_back(grid);
  }
  // The workers are divided among the devices of the mesh. A device gets enough slices to
  // keep its part of the workers busy.
  const unsigned workers =
      (target.context().workers() + target.chain_count() - 1) / target.chain_count();
  const std::int64_t blocks = grid.blocks();
  out->slices =
      blocks <= 1 ? slice_plan{blocks, 1, 1} : out->backend->plan(grid, workers);
  return out;
}

/// Returns true if the shared memory of this many blocks fits into the stream's limit.
bool fits_shared(const stream& target, const launch_request& request,
                 std::int64_t blocks) {
  return request.shared_bytes == 0 ||
         target.budget()->free_bytes() / request.shared_bytes >=
             static_cast<std::size_t>(blocks);
}

/// Returns true if operations of the stream are recorded and do not run. The memory limit
/// is then checked at each run of the graph.
bool only_records(stream& target) {
  const auto in = target.context().submission_lock().enter();
  return target.recording_only();
}

/// Returns an operation that fails because shared memory exceeds the stream's limit.
ref<operation> over_limit(const stream& target, const kernel_record& record,
                          std::size_t bytes) {
  return make_failing(
      error(errc::out_of_memory,
            fmt::format("kernel not run \"{}\": expected shared memory of all blocks at "
                        "work within the {} bytes that the stream's limit leaves, found "
                        "{} bytes for each",
                        record.name, target.budget()->free_bytes(), bytes)));
}

/// Makes a launch, or an operation that fails when the stream reaches it. `trial` is set
/// if the launch is to be measured, and null otherwise. Returns null if the request has
/// no kernel.
result<ref<operation>> make_launch(stream& target, const launch_request& request,
                                   const numerics_policy& policy, block_trial* trial) {
  // `make` runs if the terms differ from those of the last launch. `accept` runs under
  // the stream's lock, so a launch takes a number only if its arguments are valid.
  const launch_terms terms{request.key,        request.grid,
                           request.block,      request.shared_bytes,
                           request.persistent, target.describe(policy)};
  ref<launch_arguments> args;
  std::uint64_t ordinal = 0;
  const auto make = [&]() -> result<ref<launch_shape>> {
    return request.kernel.kernel == nullptr ? result<ref<launch_shape>>()
                                            : shape_of_launch(target, request, policy);
  };
  const auto accept = [&](const launch_shape& accepted,
                          std::uint64_t number) -> result<void> {
    WEIR_TRY(args, arguments_of(target, accepted.kernel.kernel->record, request));
    ordinal = number;
    return {};
  };
  // If random numbers depend on the number of the launch, only launches that run take a
  // number. A recorded launch takes one in each run of its graph.
  const bool counts = policy.stateless_rng ||
                      (!request.in_graph && !(target.records() && only_records(target)));
  WEIR_TRY(auto shape,
           target.shared_by_launches<launch_shape>(terms, counts, make, accept));
  // The request names no kernel.
  if (!shape) {
    return ref<operation>();
  }
  const kernel_record& record = shape->kernel.kernel->record;
  if (request.persistent && target.records()) {
    return error(errc::unsupported,
                 fmt::format("kernel not launched \"{}\": expected a launch that can be "
                             "captured, found a persistent one on a stream that captures",
                             record.name));
  }
  ref<operation> out;
  if (request.persistent && !fits_shared(target, request, shape->grid().blocks())) {
    out = over_limit(target, record, request.shared_bytes);
  } else if (request.persistent) {
    out = make_persistent_launch(std::move(shape), std::move(args), ordinal, target);
  } else if (policy.deterministic && (record.flags & TESS_KERNEL_DETERMINISTIC) == 0) {
    out = make_failing(
        error(errc::determinism_violation,
              fmt::format("kernel not run \"{}\": expected one that is marked "
                          "deterministic, as the policy asks, found one that is not",
                          record.name)));
  } else if (!fits_shared(target, request, shape->slices.slices) &&
             !only_records(target)) {
    out = over_limit(target, record, request.shared_bytes);
  } else if (trial) {
    out = make_ref<measured_launch>(std::move(shape), std::move(args), ordinal,
                                    std::move(*trial), target.chain_count());
  } else {
    out = make_ref<launch_operation>(std::move(shape), std::move(args), ordinal);
  }
  out->urgent = request.urgent;
  return out;
}

/// Makes a launch with the block that the tuner chooses.
result<ref<operation>> make_launch_in_any_block(stream& target,
                                                const launch_request& request,
                                                const numerics_policy& policy) {
  WEIR_TRY(auto choice, choose_block(target, request, policy));
  launch_request chosen = request;
  chosen.block = choice.block;
  return make_launch(target, chosen, policy, choice.trial ? &*choice.trial : nullptr);
}

}  // namespace

result<ref<operation>> make_launch(stream& target, const launch_request& request) {
  // A single launch may ask for more than the policy.
  numerics_policy policy = target.context().policy();
  policy.deterministic |= request.deterministic;
  // Only blocks that run on workers are measured.
  if (leaves_block(request) && target.context().backend().inline_work()) {
    return make_launch_in_any_block(target, request, policy);
  }
  return make_launch(target, request, policy, nullptr);
}

}  // namespace weir::tessera
