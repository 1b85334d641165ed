// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contexts: how their members are made and destroyed, and the state that all streams of
/// a context share (policy, module wishes, tuners, observers).
///
/// Locks: `mutex_` guards lists and policy, and is held for moments only. A guard of
/// `submission_lock_` is the right to submit to the engine.
#include "weir/tessera/stream/context.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "device/cpu.hpp"
#include "device/gpus.hpp"
#include "stream/block_tuner.hpp"
#include "stream/collectives/group_table.hpp"
#include "stream/collectives/meeting_point.hpp"
#include "stream/deferred_calls.hpp"
#include "stream/notifier.hpp"
#include "weir/base/clock.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {
namespace {

/// Capacity of the engine in unfinished tasks.
constexpr std::uint32_t window = 1U << 15;
/// Longest wait of a shutdown for one mesh.
constexpr std::int64_t stop_limit_ns = 5'000'000'000;

/// Passes reports on to several observers.
class observers final : public operation_observer {
 public:
  explicit observers(std::vector<std::shared_ptr<operation_observer>> all)
      : all_(std::move(all)) {}
  void ended(const operation& operation, unsigned chain, std::int64_t start_ns,
             std::int64_t end_ns) noexcept override {
    for (const auto& one : all_) {
      one->ended(operation, chain, start_ns, end_ns);
    }
  }
  void called(const observed_call& call) noexcept override {
    for (const auto& one : all_) {
      one->called(call);
    }
  }

 private:
  std::vector<std::shared_ptr<operation_observer>> all_;
};

collective::algorithm algorithm_of(const plan_record& plan) {
  switch (plan.algorithm) {
    case 1: return collective::algorithm::ring;
    case 2: return collective::algorithm::tree;
    case 3: return collective::algorithm::hierarchical;
    default: return collective::algorithm::direct;
  }
}

/// Returns the wire format of a plan, or nothing if no wire format has its type.
std::optional<collective::wire_format> wire_of(const plan_record& plan) {
  const auto type = [&](dtype t) { return static_cast<std::uint32_t>(t); };
  if (plan.wire_dtype == 0 || plan.wire_dtype == plan.dtype) {
    return collective::wire_format::plain;
  }
  return plan.wire_dtype == type(dtype::bf16)
             ? std::optional(collective::wire_format::bf16)
         : plan.wire_dtype == type(dtype::fp8_e4m3)
             ? std::optional(collective::wire_format::fp8_e4m3)
         : plan.wire_dtype == type(dtype::fp8_e5m2)
             ? std::optional(collective::wire_format::fp8_e5m2)
             : std::nullopt;
}

/// Returns the proposals of a module's plan, one for each kind of collective.
std::vector<collective::collective_hint> hints_of(const plan_record& plan) {
  const std::optional<collective::wire_format> wire = wire_of(plan);
  if (!wire || (plan.algorithm == 0 && *wire == collective::wire_format::plain)) {
    return {};
  }
  constexpr collective::collective_kind kinds[] = {
      collective::collective_kind::all_reduce,
      collective::collective_kind::reduce_scatter,
      collective::collective_kind::all_gather, collective::collective_kind::broadcast};
  std::vector<collective::collective_hint> out;
  for (std::uint32_t i = 0; i < 4; ++i) {
    if (plan.collective == 0 || plan.collective == i + 1) {
      collective::collective_hint hint;
      hint.kind = kinds[i];
      hint.type = static_cast<int>(plan.dtype);
      hint.least_bytes = plan.least_bytes;
      hint.max_bytes = plan.max_bytes;
      // A wire format rounds once per phase, and only this algorithm has a single phase.
      hint.how = *wire == collective::wire_format::plain ? algorithm_of(plan)
                                                         : collective::algorithm::direct;
      hint.wire = *wire;
      hint.chunk_bytes = plan.chunk_bytes;
      out.push_back(hint);
    }
  }
  return out;
}

/// Returns the key of a measurement of collectives in the cache.
cache_key cache_key_of(const collective::tuning_key& key) {
  cache_key out;
  out.kind = cache_kind::collective_tuning;
  out.kernel = collective::name_of(key.kind);
  for (const int part : {static_cast<int>(key.op), key.level, key.wide ? 1 : 0, key.ranks,
                         key.domains, key.workers, key.size_class}) {
    out.shape.push_back(static_cast<std::uint64_t>(part));
  }
  out.dtypes = {static_cast<std::uint32_t>(key.type)};
  out.arch = cpu_arch();
  return out;
}

/// Returns a store that keeps measurements in files of the cache.
collective::tuning_store store_in(module_cache& cache) {
  collective::tuning_store out;
  out.load = [&cache](const collective::tuning_key& key)
      -> result<std::optional<collective::algorithm>> {
    WEIR_TRY(const auto found, cache.get(cache_key_of(key)));
    if (!found) {
      return std::optional<collective::algorithm>();
    }
    const auto how = collective::algorithm_named(as_text(*found));
    return how ? std::optional(*how) : std::nullopt;
  };
  out.keep = [&cache](const collective::tuning_key& key, collective::algorithm how) {
    static_cast<void>(cache.put(cache_key_of(key), as_view(collective::name_of(how))));
  };
  return out;
}

}  // namespace

mesh::mesh(std::shared_ptr<tessera::context> context_of, std::uint64_t number_of,
           std::span<const std::int32_t> ids, const collective::mesh_shape& s)
    : context(std::move(context_of)),
      number(number_of),
      devices(ids.begin(), ids.end()),
      shape(s),
      pool(context->memory(), devices, number),
      recoveries(devices.size()),
      aborted(devices.size()) {
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    block_facts& facts = places.emplace_back();
    facts.rank = rank;
    facts.ranks = shape.ranks();
    const auto sizes = shape.sizes();
    std::copy(sizes.begin(), sizes.end(), facts.axis_size.begin());
    if (const auto coordinates = shape.coordinates(rank)) {
      std::copy(coordinates->begin(), coordinates->end(), facts.axis_index.begin());
    }
  }
}

result<std::shared_ptr<const collective::collective_plan>> plan_cache::get(
    const collective::collective_call& call, int ranks, const collective::topology& shape,
    const collective::plan_options& options) {
  const key k{collective::digest_of(call),
              ranks,
              shape.domains,
              shape.workers,
              static_cast<int>(options.how),
              static_cast<int>(options.wire),
              options.chunk_bytes,
              call.level,
              call.wide,
              call.packed_shards};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(k); found != plans_.end()) {
      return found->second;
    }
  }
  WEIR_TRY(auto made, collective::plan_collective(call, ranks, shape, options));
  auto out = std::make_shared<const collective::collective_plan>(std::move(made));
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= max_plans) {
    plans_.clear();
  }
  plans_.emplace(k, out);
  return out;
}

context::context(runtime_settings settings)
    : settings_(std::move(settings)),
      notifier_(std::make_unique<tessera::notifier>()),
      policy_(settings_.policy),
      deferred_(std::make_unique<deferred_calls>()) {}

context::~context() = default;
// Called when the last reference has gone, on whichever thread released it.
void context::destroy(context* object) noexcept {
  if (!on_worker()) {
    delete object;
    return;
  }
  // After a shutdown that timed out, the last operation to end may release the context on
  // a worker. The worker cannot wait for itself in the engine's destructor.
  try {
    std::thread([object] { delete object; }).detach();
  } catch (...) {
    // Without a thread the context is never destroyed, which is better than ending the
    // process.
  }
}

result<std::shared_ptr<context>> context::make(runtime_settings settings) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned threads = settings.threads != 0 ? settings.threads : cores;
  runtime::engine_options options;
  // Threads of the program only submit, so the submitter's slot among the workers is
  // idle.
  options.workers = threads + 1;
  options.window = window;
  options.heap = 0;
  options.kernel_time = false;
  WEIR_TRY(auto made, runtime::engine::create(options));
  std::shared_ptr<context> out(new context(std::move(settings)), &context::destroy);
  out->workers_ = threads;
  out->own_engine_ = std::move(made);
  WEIR_CHECK(out->open(*out->own_engine_));
  return out;
}

result<std::shared_ptr<context>> context::over(runtime::engine& workers,
                                               runtime_settings settings) {
  std::shared_ptr<context> out(new context(std::move(settings)));
  out->workers_ = workers.workers();
  WEIR_CHECK(out->open(workers));
  return out;
}

std::function<void(std::string_view)> context::log_at(log_level level) {
  return [self = weak_from_this(), level](std::string_view text) {
    if (const auto alive = self.lock()) {
      alive->log(level, text);
    }
  };
}

result<void> context::open(runtime::engine& workers) {
  submission_lock_ = std::make_unique<tessera::submission_lock>(workers);
  WEIR_TRY(trust_.keys, read_trusted_keys(settings_.trusted_keys));
  trust_.required = settings_.require_signed;
  if (!settings_.cache_folder.empty()) {
    cache_options cached;
    cached.folder = settings_.cache_folder;
    cached.strict = settings_.cache_strict;
    cached.environment = environment_digest(cpu_arch());
    cached.on_log = log_at(log_level::info);
    if (logs(log_level::debug)) {
      cached.on_decision = log_at(log_level::debug);
    }
    auto made = module_cache::open(std::move(cached));
    if (!made && settings_.cache_strict) {
      return std::move(made).error();
    }
    if (made) {
      cache_ = std::move(*made);
    } else {
      warnings_.push_back(
          error(errc::invalid_argument,
                fmt::format("no cache on disk: expected TESS_CACHE_DIR, or else "
                            "XDG_CACHE_HOME, to say where one may be, found \"{}\"",
                            settings_.cache_folder))
              .because(std::move(made).error())
              .message());
    }
  }
  tuner_ = std::make_unique<collective::collective_tuner>(
      cache_ == nullptr ? collective::tuning_store() : store_in(*cache_));
  blocks_ = std::make_unique<block_tuner>(cache_ == nullptr ? block_tuner::store()
                                                            : block_store_in(*cache_));
  WEIR_CHECK(open_devices());
  meetings_ = std::make_unique<meeting_point>(*this);
  memory_ = std::make_unique<symmetric_memory>(
      backend_, [to = log_at(log_level::info)](const error& e) { to(e.message()); });
  return {};
}

result<void> context::open_devices() {
  if (settings_.backend == "cuda") {
    WEIR_TRY(gpus opened, open_gpus());
    backend_ = std::move(opened.backend);
    device_code_ = std::move(opened.load);
    groups_ = std::make_unique<group_table>(std::move(opened.collectives));
    return {};
  }
  cpu_options options;
  options.devices = settings_.devices;
  options.memory = settings_.device_memory;
  options.allocator = settings_.allocator;
  options.log = [to = log_at(log_level::info)](std::int32_t device,
                                               std::string_view text) {
    to(fmt::format("device {}: {}", device, text));
  };
  WEIR_TRY(auto backend, make_cpu_backend(std::move(options)));
  backend_ = std::move(backend);
  return {};
}

void context::log(log_level level, std::string_view text) const {
  if (!logs(level)) {
    return;
  }
  if (settings_.on_log) {
    const program_callback calls;
    settings_.on_log(level, text);
  } else {
    std::fprintf(stderr, "tessera: %.*s\n", static_cast<int>(text.size()), text.data());
  }
}

result<std::shared_ptr<mesh>> context::make_mesh(std::span<const std::int32_t> devices,
                                                 const collective::mesh_axes& axes) {
  WEIR_TRY(const collective::mesh_shape shape,
           collective::mesh_shape::make(devices, backend_->device_count(), axes));
  std::shared_ptr<mesh> out;
  {
    const std::lock_guard lock(mutex_);
    out = std::make_shared<mesh>(shared_from_this(), ++mesh_numbers_, devices, shape);
    std::erase_if(meshes_, [](const auto& m) { return m.expired(); });
    meshes_.push_back(out);
  }
  log(log_level::debug, "mesh {} created on {} devices", out->number, devices.size());
  return out;
}

std::vector<std::shared_ptr<mesh>> context::open_meshes() {
  std::vector<std::shared_ptr<mesh>> out;
  const std::lock_guard lock(mutex_);
  for (const auto& weak : meshes_) {
    if (auto m = weak.lock()) {
      out.push_back(std::move(m));
    }
  }
  return out;
}

std::vector<std::shared_ptr<stream>> context::streams_of(const mesh& m) {
  const auto in = submission_lock_->enter();
  std::vector<std::shared_ptr<stream>> out;
  for (const auto& weak : m.streams) {
    if (auto s = weak.lock()) {
      out.push_back(std::move(s));
    }
  }
  return out;
}

// Enqueues a point behind all operations of each stream of the mesh and waits for these
// points. Returns false if one is not reached by the deadline.
bool context::drain(const std::shared_ptr<mesh>& m, std::int64_t limit_ns) {
  const std::int64_t deadline = limit_ns < 0 ? -1 : now_ns() + limit_ns;
  std::vector<ref<point>> ends;
  for (const auto& s : streams_of(*m)) {
    ends.push_back(make_ref<point>(s->chain_count(), *notifier_));
    s->enqueue_beside(ends.back());
  }
  return std::all_of(ends.begin(), ends.end(), [&](const ref<point>& p) {
    return notifier_->wait([&] { return p->reached(); }, deadline);
  });
}

// Ends the meetings first: a rank that waits for others would otherwise keep `drain` from
// returning.
void context::drop_mesh(const std::shared_ptr<mesh>& m) {
  {
    auto in = submission_lock_->enter();
    meetings_->forget(in, *m);
  }
  static_cast<void>(drain(m, -1));
  static_cast<void>(memory_->remove_all(m->number));
  m->pool.set_keep(0);
}

result<void> context::shut_down() {
  const std::vector<std::shared_ptr<mesh>> open = open_meshes();
  {
    auto in = submission_lock_->enter();
    meetings_->end_all(in);
  }
  result<void> out;
  for (const auto& m : open) {
    for (const auto& s : streams_of(*m)) {
      s->stop_persistent();
    }
    if (!drain(m, stop_limit_ns)) {
      out = error(errc::timeout,
                  "context not drained: expected its streams to end within 5 s");
      continue;
    }
    static_cast<void>(memory_->remove_all(m->number));
    m->pool.set_keep(0);
  }
  // An operation that has reached its end may still hold objects until its task has
  // ended.
  const std::int64_t deadline = now_ns() + stop_limit_ns;
  const auto busy = [this] {
    const runtime::engine_counters c = submission_lock_->engine().counters();
    return c.submitted != c.finished;
  };
  while (out && busy() && now_ns() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return out;
}

result<void> context::set_policy(numerics_policy policy) {
  const char* locked = nullptr;
  if (settings_.lock_deterministic && !policy.deterministic) {
    locked = "deterministic=1";
  } else if (settings_.lock_stable && !policy.stable_reductions) {
    locked = "stableReductions=1";
  } else if (settings_.lock_fast_math && policy.fast_math) {
    locked = "allowFastMath=0";
  }
  if (locked != nullptr) {
    return error(errc::determinism_violation,
                 fmt::format("policy not set: expected {}, which is locked", locked))
        .hint("TESS_POLICY_LOCK locks it");
  }
  const std::lock_guard lock(mutex_);
  policy_ = policy;
  policy_set_ = true;
  return {};
}

result<void> context::set_determinism(std::uint64_t seed, std::uint32_t toggles) {
  constexpr std::uint32_t all = 7;
  if ((toggles & ~all) != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("determinism not set: expected stable toggles of {:#x}, found {:#x}",
                    all, toggles));
  }
  if (settings_.lock_stable && toggles != all) {
    return error(errc::determinism_violation,
                 fmt::format("determinism not set: expected all stable toggles, which "
                             "are locked, found {:#x}",
                             toggles))
        .hint("TESS_POLICY_LOCK locks them");
  }
  seed_ = seed;
  toggles_ = toggles;
  return {};
}

void context::write_determinism(tessDeterminism& d) const noexcept {
  if (const std::uint32_t toggles = toggles_; toggles != not_set) {
    d.stableToggles = toggles;
    d.seed = seed_;
  }
}

// The caller holds `mutex_`. The policy of the module loaded last counts, until the
// program sets one itself.
void context::suggest_policy() {
  if (policy_set_) {
    return;
  }
  numerics_policy now = settings_.policy;
  for (const module_wishes& m : wishes_) {
    now = m.policy.value_or(now);
  }
  policy_ = now;
}

numerics_policy context::policy() const {
  numerics_policy out = policy_;
  out.deterministic |= settings_.deterministic_floor || settings_.lock_deterministic;
  out.stable_reductions |= settings_.lock_stable;
  out.fast_math &=
      !settings_.lock_fast_math && settings_.numerics != numerics_mode::strict;
  return out;
}

result<std::shared_ptr<const loaded_module>> context::load_module(bytes_view image) {
  load_options options;
  options.trust = trust_;
  options.cache = cache_.get();
  options.from_files = settings_.code_from_cache;
  options.devices = device_code_;
  WEIR_TRY(auto out, tessera::load_module(image, options));
  module_wishes wishes;
  wishes.module = out.get();
  if (const auto& p = out->policy()) {
    wishes.policy = {p->stable_reductions, p->deterministic, p->rng_stateless,
                     p->fast_math};
  }
  for (const plan_record& plan : out->plans()) {
    if (plan.wire_dtype != 0 && out->policy() && !out->policy()->wire_quantisation) {
      continue;  // the module's own policy forbids what the plan proposes
    }
    std::optional<collective::axis_set> axes;
    if (!plan.axis.empty()) {
      WEIR_TRY(axes, collective::parse_axes(std::string_view(plan.axis)));
    }
    for (const collective::collective_hint& hint : hints_of(plan)) {
      wishes.hints.emplace_back(axes, hint);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    wishes_.push_back(std::move(wishes));
    suggest_policy();
  }
  log(log_level::debug, "module loaded: {} kernels, {} plans{}", out->kernels().size(),
      out->plans().size(), out->policy() ? ", a policy" : "");
  return out;
}

void context::forget_module(const loaded_module& module) {
  log(log_level::debug, "module unloaded: {} kernels, {} plans", module.kernels().size(),
      module.plans().size());
  const std::lock_guard lock(mutex_);
  std::erase_if(wishes_, [&](const module_wishes& m) { return m.module == &module; });
  suggest_policy();
}

std::vector<collective::collective_hint> context::hints(collective::axis_set axes) const {
  const std::lock_guard lock(mutex_);
  std::vector<collective::collective_hint> out;
  for (const module_wishes& m : wishes_) {
    for (const auto& [only, hint] : m.hints) {
      if (!only || *only == axes) {
        out.push_back(hint);
      }
    }
  }
  return out;
}

// Called on a worker, which must not wait for files: a deferred call writes the cache.
void context::took(const collective::tuning_trial& trial, std::int64_t ns) {
  if (tuner_->took(trial, ns) && cache_ != nullptr) {
    deferred_->later([self = weak_from_this(), key = trial.key] {
      if (const auto alive = self.lock()) {
        alive->tuner_->keep(key);
      }
    });
  }
}

result<std::unique_ptr<device_chains>> context::take_chains(unsigned devices) {
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(spare_chains_.begin(), spare_chains_.end(),
                     [&](const auto& chains) { return chains->devices() == devices; });
    if (found != spare_chains_.end()) {
      auto out = std::move(*found);
      spare_chains_.erase(found);
      return out;
    }
  }
  auto in = submission_lock_->enter();
  return device_chains::make(in.engine(), devices);
}

void context::return_chains(std::unique_ptr<device_chains> chains) {
  static_cast<void>(chains->take_failures());
  const std::lock_guard lock(mutex_);
  spare_chains_.push_back(std::move(chains));
}

// Publishes a new immutable list, so that `observer` needs only a reference to it.
void context::observe(std::shared_ptr<operation_observer> by) {
  const std::lock_guard lock(mutex_);
  observers_.push_back(std::move(by));
  listening_ = std::make_shared<observers>(observers_);
  observed_.store(true, std::memory_order_release);
}

void context::unobserve(const operation_observer* by) {
  const std::lock_guard lock(mutex_);
  std::erase_if(observers_, [&](const auto& one) { return one.get() == by; });
  listening_ = observers_.empty() ? nullptr : std::make_shared<observers>(observers_);
  observed_.store(!observers_.empty(), std::memory_order_release);
}

std::shared_ptr<operation_observer> context::observer() const {
  if (!observed_.load(std::memory_order_acquire)) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  return listening_;
}

}  // namespace weir::tessera
