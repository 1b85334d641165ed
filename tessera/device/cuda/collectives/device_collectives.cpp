// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives over GPUs: the choice between NCCL and copies with kernels.
///
/// NCCL is used for level 0 where it has the operation; everything else is done by
/// copies and kernels of this repository, whose results do not depend on the number of
/// devices or on timing.
#include "device/cuda/collectives/device_collectives.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/collectives/peer_plan.hpp"
#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {
namespace {

using collective::collective_call;
using collective::collective_kind;

/// Makes the module of the reduction kernels from the PTX of the repository.
result<byte_vector> reduction_module() {
  fatbin_builder builder;
  const std::string_view code = reduction_code();
  // PTX is compiled by the driver for the GPU at hand.
  builder.add_code(
      section_kind::ptx, "compute_75",
      bytes_view(reinterpret_cast<const std::byte*>(code.data()), code.size()));
  const auto int32 = static_cast<std::uint32_t>(dtype::int32);
  const auto int64 = static_cast<std::uint32_t>(dtype::int64);
  // The names are those of the kernels' code.
  for (const char* const name : {"weir_reduce_tree", "weir_sum_exact"}) {
    // Both kernels have the parameters of `reduction_arguments`.
    kernel_record record;
    record.name = name;
    record.parameters = {pointer_parameter("inputs", int64),
                         scalar_parameter("ranks", int32),
                         pointer_parameter("out", 0, parameter_direction::out),
                         scalar_parameter("count", int64),
                         scalar_parameter("type", int32),
                         scalar_parameter("operation", int32)};
    WEIR_CHECK(builder.add_kernel(std::move(record)));
  }
  return builder.build();
}

/// Returns a call in words, for errors.
std::string description_of(const collective_call& call) {
  return fmt::format("{} of {} elements of type {}, operation {}, level {}, root {}",
                     collective::name_of(call.kind), call.count,
                     static_cast<int>(call.type), collective::name_of(call.op),
                     call.level, call.root);
}

/// Returns the capability of an architecture such as "sm_90", or 0.
///
/// Numbers are compared, as 9.0 is 90.
int capability_of(std::string_view arch) noexcept {
  int number = 0;
  arch.remove_prefix(std::min(arch.find('_') + 1, arch.size()));
  (void)std::from_chars(arch.data(), arch.data() + arch.size(), number);
  return number;
}

}  // namespace

/// Fails if the kernels cannot be loaded; without NCCL, level 0 uses the kernels as
/// well.
///
/// The devices stay in the order of the ranks.
result<std::unique_ptr<device_collectives>> device_collectives::open(
    cuda_backend& backend, std::vector<std::int32_t> devices,
    const collective_options& options) {
  if (devices.empty() || devices.size() > collective::max_ranks) {
    return error(errc::invalid_argument,
                 fmt::format("make collectives: expected 1 to {} ranks, found {}",
                             collective::max_ranks, devices.size()));
  }
  std::unique_ptr<device_collectives> made(
      new device_collectives(backend, std::move(devices)));
  // The lowest capability of all devices decides what NCCL can reduce.
  made->capability_ = 1000;
  // Devices may be of different kinds.
  for (const std::int32_t device : made->devices_) {
    WEIR_TRY(const device_properties p, backend.properties(device));
    made->capability_ = std::min(made->capability_, capability_of(p.arch));
  }
  WEIR_CHECK(made->load_kernels());
  WEIR_CHECK(made->open_clique(options));
  return made;
}

/// The clique goes first: it ends the collectives that NCCL runs, within its limit of
/// time if NCCL hangs. Waiting before that could last for ever.
///
/// Callers' completions have been called when it returns.
device_collectives::~device_collectives() {
  clique_.reset();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return running_ == 0; });
}

/// The module is loaded once for all devices.
result<void> device_collectives::load_kernels() {
  WEIR_TRY(const byte_vector image, reduction_module());
  WEIR_TRY(const fatbin parsed, parse_fatbin(image));
  WEIR_TRY(module_, backend_.load(parsed, "reductions over ranks"));
  WEIR_TRY(tree_, module_->kernel("weir_reduce_tree"));
  WEIR_TRY(exact_, module_->kernel("weir_sum_exact"));
  return {};
}

/// NCCL refuses two ranks on one GPU, and one rank needs none.
result<void> device_collectives::open_clique(const collective_options& options) {
  // Both lists have one length if no device is there twice.
  const bool apart =
      std::set<std::int32_t>(devices_.begin(), devices_.end()).size() == devices_.size();
  if (options.nccl == nullptr || options.from == nullptr || !apart ||
      devices_.size() < 2) {
    return {};
  }
  std::vector<device_number> numbers;
  for (const std::int32_t device : devices_) {
    // Numbers of the driver, by the ordinals of the devices.
    device_number number = 0;
    const status s = options.from->api.device_get(&number, device);
    if (s != status::success) {
      return failure_of(options.from->api, s, fmt::format("find GPU {}", device));
    }
    numbers.push_back(number);
  }
  version_ = options.nccl->version;
  WEIR_TRY(clique_,
           nccl_clique::open(*options.nccl, options.from->api, numbers, options.clique));
  return {};
}

/// Small questions first; all of them must agree.
bool device_collectives::uses_nccl(
    const collective_call& call,
    const std::vector<rank_buffers>& buffers) const noexcept {
  return clique_ != nullptr && call.level == 0 && call.count > 0 &&
         nccl_runs(call, buffers) && nccl_elements_of(call, version_, capability_);
}

/// Every rank must make the same call. A difference is a fault of the program.
///
/// The first difference is reported.
result<void> device_collectives::check(std::span<const rank_call> calls) const {
  if (calls.size() != devices_.size()) {
    return error(errc::invalid_argument,
                 fmt::format("start a collective: expected the calls of {} ranks, found "
                             "{}",
                             devices_.size(), calls.size()));
  }
  // Kind, type, count, operation, root and the like.
  for (std::size_t r = 1; r < calls.size(); ++r) {
    if (digest_of(calls[r].call) != digest_of(calls[0].call)) {
      return error(
          errc::collective_mismatch,
          // Both calls are shown.
          fmt::format("start a collective: expected equal calls of all ranks, "
                      "found {} by rank 0 and {} by rank {}",
                      description_of(calls[0].call), description_of(calls[r].call), r));
    }
  }
  // Freedom with numbers is compared apart, since it has an error code of its own.
  for (std::size_t r = 1; r < calls.size(); ++r) {
    const collective_call& call = calls[r].call;
    if (call.level != calls[0].call.level || call.wide != calls[0].call.wide) {
      return error(errc::determinism_violation,
                   fmt::format("start a collective: expected the same freedom with "
                               "numbers of all ranks, found level {} of rank 0 and level "
                               "{} of rank {}",
                               calls[0].call.level, call.level, r));
    }
  }
  // Now that all calls are equal, one of them is checked.
  WEIR_CHECK(check_call(calls[0].call, static_cast<int>(calls.size())));
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const rank_buffers& b = calls[r].buffers;
    const bool needed =
        calls[0].call.count > 0 && calls[0].call.kind != collective_kind::barrier;
    if (needed && (b.input == nullptr || b.output == nullptr)) {
      return error(errc::invalid_argument,
                   fmt::format("start a collective: expected an input and an output of "
                               "rank {}, found null",
                               r));
    }
  }
  return {};
}

/// `calls` has one call per rank. Every failure is passed to `done`; the function itself
/// cannot fail.
void device_collectives::submit(std::span<const rank_call> calls, completion done) {
  // Null if nobody wants to know.
  const auto finish = [&](result<void> outcome) {
    if (done) {
      done(std::move(outcome));
    }
  };
  if (auto good = check(calls); !good) {
    finish(std::move(good));
    return;
  }
  const collective_call& call = calls[0].call;
  // Nothing to move.
  if (call.count == 0 || call.kind == collective_kind::barrier) {
    finish({});
    return;
  }
  std::vector<rank_buffers> buffers;
  for (const rank_call& c : calls) {
    buffers.push_back(c.buffers);
  }
  const bool by_nccl = uses_nccl(call, buffers);
  // The plan allocates memory, so it is made before the collective counts as running.
  std::shared_ptr<peer_run> run;
  // Copies and kernels.
  if (!by_nccl) {
    auto planned = peer_run::plan(backend_, {call, buffers, devices_, tree_, exact_});
    if (!planned) {
      finish(std::move(planned.error()));
      return;
    }
    run = *std::move(planned);
  }
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  // Called by a thread of the backend or of the clique.
  completion ended = [this, done = std::move(done)](result<void> outcome) {
    if (done) {
      done(std::move(outcome));
    }
    const std::lock_guard lock(mutex_);
    // Behind the completion, so that the destructor waits for it.
    --running_;
    ended_.notify_all();
  };
  if (by_nccl) {
    clique_->submit({call, *nccl_elements_of(call, version_, capability_), buffers},
                    std::move(ended));
  } else {
    run->start(std::move(ended));
  }
}

}  // namespace weir::tessera::cuda
