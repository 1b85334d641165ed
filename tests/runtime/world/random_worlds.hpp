// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs on the ranks of a world, and their serial runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "random_programs.hpp"
#include "tensors.hpp"
#include "world/ranks.hpp"

namespace weir::runtime {

using test::delay;
using test::dice;
using test::for_each_byte;
using test::mix;
using test::program;
using test::program_access;
using test::program_memory;
using test::program_task;
using test::run_task;

/// Returns true if the task sets every byte that it writes.
inline bool sets_all(const program_task& t) {
  return t.salt % 3 == 0;
}

/// Runs a task, which may set all bytes of its writes.
inline void run_world_task(const program_task& t, std::size_t index, program_memory& m) {
  run_task(t, index, m);
  for (const program_access& a : t.accesses) {
    if (sets_all(t) && a.mode == access_mode::write) {
      for_each_byte(a.view.offset(), a.view.shape(), a.view.strides(),
                    info_of(a.view.type()).size, [&](std::int64_t b) {
                      m.bases[a.storage][b] = static_cast<std::byte>(
                          mix(t.salt, static_cast<std::uint64_t>(b)) >> 9);
                    });
    }
  }
}

/// Fills memory in the same way on every rank.
inline void fill_storage(std::byte* base, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    base[i] = static_cast<std::byte>(mix(91, static_cast<std::uint64_t>(i)) >> 13);
  }
}

/// One rank's run of a program.
struct rank_run {
  const program* source;
  world_fault fault = world_fault::none;
  program_memory memory;
  std::vector<std::vector<std::byte>> result;  ///< bytes of each storage at the end
  std::string failure;                         ///< text of `wait`
};

/// Keeps the text of the first failure.
inline void note_outcome(rank_run& run, const result<void>& waited) {
  if (!waited && run.failure.empty()) {
    run.failure = waited.error().text();
  }
}

/// The kernel of a task of a program.
struct program_kernel {
  rank_run* run;
  std::size_t index;
  result<void> operator()(const task_context& /*context*/) const {
    const program_task& own = run->source->tasks[index];
    delay(own.delay);
    if (own.fails) {
      return error(errc::io, "injected failure");
    }
    run_world_task(own, index, run->memory);
    return {};
  }
};

/// A series of one task of a program. The world asks a series for its accesses, from
/// which it derives pieces and what it notes in the ledger of copies; the series itself
/// gives the accesses to the engine. So a series can tell the engine the truth and let
/// the ledger forget: a read needs the same old bytes as a write that may leave some
/// unchanged, and differs from it only in that the ledger notes nothing.
class one_task final : public task_series {
 public:
  one_task(world& w, const program_kernel& kernel, rank_id executor,
           std::vector<access> accesses)
      : w_(w), kernel_(kernel), executor_(executor), accesses_(std::move(accesses)) {
    const bool forgets = kernel.run->fault == world_fault::forgotten_writes;
    for (const access& a : accesses_) {
      noted_.push_back({a.bytes.id, forgets ? access_mode::read : a.mode});
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "step"; }
  [[nodiscard]] std::uint64_t digest() const noexcept override {
    return mix(kernel_.run->source->tasks[kernel_.index].salt, executor_);
  }
  [[nodiscard]] std::uint64_t identity() const noexcept override { return 0; }
  [[nodiscard]] std::span<const series_access> accesses() const noexcept override {
    return noted_;
  }
  [[nodiscard]] std::int64_t size() const noexcept override { return 1; }
  [[nodiscard]] rank_id executor_of(std::int64_t /*task*/,
                                    rank_id /*ranks*/) const noexcept override {
    return executor_;
  }
  [[nodiscard]] std::int64_t end_of(rank_id executor,
                                    rank_id /*ranks*/) const noexcept override {
    return executor >= executor_ ? 1 : 0;
  }
  [[nodiscard]] byte_range hull_of(std::size_t number, std::int64_t /*first*/,
                                   std::int64_t /*last*/) const noexcept override {
    return {accesses_[number].bytes.lo, accesses_[number].bytes.hi};
  }
  [[nodiscard]] bool find_accesses(std::int64_t /*task*/,
                                   std::vector<access>& out) const override {
    out = accesses_;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].mode = noted_[i].mode;
    }
    return true;
  }
  [[nodiscard]] result<void> start(std::int64_t /*task*/,
                                   std::uint64_t step) const override {
    return w_.start(step, name(), accesses_, kernel_);
  }

 private:
  world& w_;
  program_kernel kernel_;
  rank_id executor_;
  std::vector<access> accesses_;      ///< what the engine is told
  std::vector<series_access> noted_;  ///< what the ledger is told
};

/// Submits a program; executors are random and equal on all ranks.
inline void submit_program(world& w, rank_run& run, const std::vector<storage>& stores,
                           std::uint64_t seed) {
  const bool in_series = run.fault == world_fault::noted_writes ||
                         run.fault == world_fault::forgotten_writes;
  dice d(seed);
  for (std::size_t i = 0; i < run.source->tasks.size(); ++i) {
    const program_task& task = run.source->tasks[i];
    world_submission with;
    with.executor = static_cast<rank_id>(d.in(0, w.ranks() - 1));
    std::vector<access> accesses;
    for (const program_access& a : task.accesses) {
      const tensor t =
          or_throw(tensor::strided(stores[a.storage], a.view.type(), a.view.offset(),
                                   a.view.shape(), a.view.strides()));
      if (sets_all(task) && a.mode == access_mode::write) {
        with.overwrites |= std::uint64_t{1} << accesses.size();
      }
      accesses.push_back({t.bytes(), a.mode});
    }
    const program_kernel kernel{&run, i};
    if (in_series && i % 3 == 0) {
      or_throw(w.submit_series(
          std::make_shared<one_task>(w, kernel, with.executor, std::move(accesses))));
    } else {
      or_throw(w.submit(with, "step", accesses, kernel));
    }
    if (d.one_in(25)) {
      note_outcome(run, w.wait());
    }
  }
}

/// Runs a program on one rank of a network.
inline void run_program(transport* link, rank_run& run, std::uint64_t seed,
                        unsigned workers) {
  const auto e = engine_of_rank(workers, seed % 2 == 0 ? 64 : 4);
  world w(*e, link);
  std::vector<storage> stores;
  for (const std::int64_t size : run.source->sizes) {
    stores.push_back(or_throw(w.allocate(size, "program")));
    fill_storage(stores.back().base, size);
    run.memory.bases.push_back(stores.back().base);
  }
  submit_program(w, run, stores, seed);
  for (const storage& s : stores) {
    or_throw(w.bring_everywhere(bytes_of(s)));
  }
  note_outcome(run, w.wait());
  for (const storage& s : stores) {
    run.result.emplace_back(s.base, s.base + s.size);
    or_throw(w.release(s.id));
  }
}

/// Returns the bytes of each storage after the serial run, and what the tasks have read.
inline std::vector<std::vector<std::byte>> run_serially(
    const program& p, std::vector<std::uint64_t>& seen) {
  program_memory serial{{}, std::vector<std::uint64_t>(p.tasks.size())};
  std::vector<std::vector<std::byte>> bytes;
  for (const std::int64_t size : p.sizes) {
    bytes.emplace_back(static_cast<std::size_t>(size));
    fill_storage(bytes.back().data(), size);
  }
  for (auto& one : bytes) {
    serial.bases.push_back(one.data());
  }
  for (std::size_t k = 0; k < p.tasks.size(); ++k) {
    run_world_task(p.tasks[k], k, serial);
  }
  seen = serial.seen;
  return bytes;
}

}  // namespace weir::runtime
