// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads a generation on any number of ranks: rank 0 reads the manifest, all ranks get
/// it, and each reads its own tiles from the parts that have them.
///
/// The number of ranks may differ from that of the save. Tiles are the same, so a rank
/// may need tiles of any part.
#include <fmt/format.h>

#include "state/open_state.hpp"

namespace weir::runtime {
namespace {

/// Returns the size of a tensor that all ranks have. The extents were compared with
/// those of the program before.
std::size_t bytes_of_number(const item_description& item) {
  std::size_t bytes = info_of(item.type).size;
  for (const std::int64_t extent : item.shape) {
    bytes *= static_cast<std::size_t>(extent);
  }
  return bytes;
}

/// Checks the sizes that the manifest gives against those that follow from the items, and
/// makes the readers of the parts.
///
/// Each rank makes readers of all parts and opens those that it needs.
result<void> make_readers(load_job& job) {
  const state_manifest& m = job.manifest;
  // The plan of the save is computed again from the items and the number of parts.
  job.plan = plan_parts(m.items, static_cast<rank_id>(m.parts.size()));
  for (std::size_t k = 0; k < m.items.size(); ++k) {
    const item_description& item = m.items[k];
    const auto bytes = item.tile.empty() ? bytes_of_number(item) : 0;
    if (m.values[k].size() != bytes) {
      return error(errc::corrupt,
                   fmt::format("cannot resume from generation {}: expected {} bytes of "
                               "\"{}\" in the manifest, found {}",
                               m.generation, bytes, item.name, m.values[k].size()))
          .located(join_path(job.site->folder, manifest_name(m.generation)));
    }
  }
  for (std::size_t r = 0; r < m.parts.size(); ++r) {
    const part_entry& part = m.parts[r];
    const std::string path = path_of(part, job.site->folder);
    const part_plan& plan = job.plan.parts[r];
    // The file must be as long as its tiles and digests.
    if (part.bytes != plan.file_bytes()) {
      return error(errc::corrupt,
                   fmt::format("cannot resume from generation {}: expected {} bytes of "
                               "part {}, found {} in the manifest",
                               m.generation, plan.file_bytes(), r, part.bytes))
          .located(join_path(job.site->folder, manifest_name(m.generation)));
    }
    job.parts.push_back(std::make_unique<part_reader>(
        *job.site->files, path,
        fmt::format("the part of rank {} on {} of generation {}", r, part.machine,
                    m.generation),
        part, plan));
  }
  return {};
}

/// Loads or verifies one tile and notes the first failure.
///
/// Runs in a task. A failure does not fail the task, so all ranks come to the end.
void load_tile(load_job& job, std::size_t number) {
  const tile_place& place = job.places[number];
  const tensor* into = job.fill ? &job.tiles[number] : nullptr;
  if (const auto done = job.parts[place.part]->read(place, into); !done) {
    const std::lock_guard lock(job.mutex);
    if (!job.failure) {
      job.failure = done.error();
    }
  }
}

}  // namespace

/// Returns the manifest of a generation, the same on all ranks.
///
/// All ranks fail together, or none.
result<std::shared_ptr<load_job>> world_state::open_state::read_manifest(
    std::uint64_t generation) {
  byte_vector own;
  const std::string path = join_path(site_->folder, manifest_name(generation));
  // Only rank 0 reads the file; the others see its outcome.
  WEIR_CHECK(agree("read manifest", [&]() -> result<void> {
    if (ranks_.rank() == 0) {
      WEIR_TRY(own, read_file(*site_->files, path));
    }
    return {};
  }));
  WEIR_TRY(const byte_vector bytes, from_rank_0(std::move(own)));
  auto job = std::make_shared<load_job>();
  job->site = site_;
  WEIR_TRY(job->manifest, decode_manifest(bytes, path));
  // The name of the file and its content must agree.
  if (job->manifest.generation != generation) {
    return error(errc::corrupt,
                 fmt::format("cannot resume from generation {}: expected its manifest, "
                             "found that of generation {}",
                             generation, job->manifest.generation))
        .located(path);
  }
  // The items of the program must be those of the state.
  if (auto same = compare_items(job->manifest.items, descriptions_); !same) {
    return std::move(same.error()).located(path);
  }
  WEIR_CHECK(make_readers(*job));
  return job;
}

/// Submits a task for each tile, which its present owner runs, and for each number.
result<void> world_state::open_state::submit_loads(const std::shared_ptr<load_job>& job) {
  const std::size_t own_tiles = plan_.parts[site_->rank].tiles;
  // The vectors must not move while tasks read them.
  job->tiles.reserve(own_tiles);  // tasks read the vectors while others are submitted
  job->places.reserve(own_tiles);
  for (std::size_t k = 0; k < items_.size(); ++k) {
    const tensor whole = items_[k].tensor().bytes;
    for (std::size_t i = 0; i < plan_.tiles[k].size(); ++i) {
      const tile_place& now = plan_.tiles[k][i];
      WEIR_TRY(const tensor tile,
               select_tile(whole, descriptions_[k], static_cast<std::int64_t>(i)));
      const std::size_t number = job->tiles.size();
      // The owner of a tile now; where it lies in the state is in the old plan.
      if (now.part == site_->rank) {
        job->tiles.push_back(tile);
        job->places.push_back(job->plan.tiles[k][i]);
      }
      // Without filling, only the slot of the digest is written, which orders the tasks.
      const std::array<access, 2> accesses{writes(digest_slot(now)), writes(tile)};
      WEIR_CHECK(ranks_.submit(
          {now.part, 3}, "load tile",
          std::span(accesses).first(job->fill ? accesses.size() : 1),
          [own = job.get(), number](const task_context&) { load_tile(*own, number); },
          job));
    }
    // A value that all ranks have is copied by each of them.
    const byte_vector& value = job->manifest.values[k];
    if (descriptions_[k].tile.empty() && job->fill) {
      WEIR_CHECK(ranks_.submit(
          {0, 1, true}, "load number", std::array{writes(whole)},
          [from = value.data(), bytes = value.size(),
           to = whole.data()](const task_context&) { std::memcpy(to, from, bytes); },
          job));
    }
  }
  return {};
}

/// Waits for all tasks, and lets all ranks agree on the outcome.
result<void> world_state::open_state::load(const std::shared_ptr<load_job>& job) {
  WEIR_CHECK(submit_loads(job));
  return agree("end load", [job]() -> result<void> {
    const std::lock_guard lock(job->mutex);
    return job->failure ? result<void>(*job->failure) : result<void>();
  });
}

/// Returns the step of a generation that has been loaded or verified.
result<std::int64_t> world_state::open_state::load_generation(std::uint64_t generation,
                                                              bool fill) {
  WEIR_TRY(const auto job, read_manifest(generation));
  job->fill = fill;
  WEIR_CHECK(load(job));
  return job->manifest.step;
}

/// Adds the newest complete generation that is older than the one that failed.
///
/// The search verifies older generations completely, which takes as long as loading
/// them.
error world_state::open_state::with_offer(error cause, std::uint64_t failed) {
  for (std::size_t i = generations_.size(); i-- > 0;) {
    const std::uint64_t older = generations_[i];
    if (older >= failed) {
      continue;
    }
    if (const auto step = load_generation(older, false)) {
      return std::move(cause).hint(fmt::format(
          "generation {}, saved at step {}, is complete: resume from it by its number, "
          "or restore the part",
          older, *step));
    }
  }
  return std::move(cause).hint(
      "no older generation is complete: restore the part, or "
      "begin with an empty folder");
}

/// Returns the step, or 0 if the folder has no generation. All ranks call it together.
result<std::int64_t> world_state::open_state::resume(std::uint64_t generation) {
  WEIR_CHECK(list());
  if (generation == newest && generations_.empty()) {
    return 0;
  }
  const std::uint64_t chosen = generation == newest ? generations_.back() : generation;
  if (!std::binary_search(generations_.begin(), generations_.end(), chosen)) {
    return error(errc::not_found,
                 fmt::format("cannot resume from generation {}: expected one of [{}], "
                             "found no manifest of it",
                             chosen, fmt::join(generations_, ", ")))
        .located(site_->folder);
  }
  auto step = load_generation(chosen, true);
  if (!step) {
    // These failures have nothing to do with the files, so no other generation is
    // offered.
    const errc code = step.error().code();
    const bool other_state = code == errc::config_mismatch || code == errc::timeout ||
                             code == errc::stopping || code == errc::kernel_failed ||
                             code == errc::rank_lost || code == errc::diverged;
    return other_state ? std::move(step).error()
                       : with_offer(std::move(step).error(), chosen);
  }
  // The generation that was loaded is known to be complete.
  site_->complete = {chosen};
  return step;
}

}  // namespace weir::runtime
