// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks of a save: each rank writes its tiles and makes its part durable; then rank
/// 0 writes the manifest, or the parts are removed.
///
/// A save only submits tasks and returns; the program goes on, and later writers of the
/// tensors wait for the tasks that read them. The saved state is therefore that of the
/// step in which the save was asked for.
///
///   save tile (owner)  reads the tile, writes its digest
///   save number (0)    copies numbers into the manifest
///   seal part (r)      reads the digests of r, makes the part durable, writes an outcome
///   publish state (0)  reads all outcomes, writes the manifest and then the verdict
///   end save (r)       reads the verdict; removes the part if there is no manifest
///
/// The digests, outcomes and the verdict are tensors of the world, so the engine and the
/// ledger order these tasks and bring the bytes to the ranks.
#include <fmt/core.h>

#include "state/open_state.hpp"

namespace weir::runtime {
namespace {

/// Makes the part of this rank durable and returns what the manifest says of it.
///
/// An outcome travels to rank 0 as bytes, so its texts have fixed sizes.
rank_outcome seal_part(save_job& job, std::span<const std::uint64_t> digests) {
  rank_outcome out;
  copy_text(out.machine, job.site->machine);
  copy_text(out.path, job.site->name_of_part(job.manifest.generation));
  const std::uint64_t offset = job.plan.parts[job.site->rank].tile_bytes;
  if (const auto written = job.part->finish(offset, digests)) {
    out.part = *written;
  } else {
    out.code = static_cast<std::uint64_t>(written.error().code());
    copy_text(out.text, written.error().text());
  }
  return out;
}

/// Keeps the newest complete generations and removes those that are older than they.
/// Only generations that are known to be complete count. Older generations stay until
/// `kept` complete ones exist.
void remove_older(state_site& site, std::uint64_t generation) {
  site.complete.push_back(generation);
  // Fewer than so many are known to be complete.
  if (site.complete.size() < site.kept) {
    return;
  }
  // Now `complete` has exactly `kept` numbers, and the first one is the oldest that
  // stays.
  site.complete.erase(site.complete.begin(),
                      site.complete.end() - static_cast<std::ptrdiff_t>(site.kept));
  // Generations of earlier runs that are older go as well.
  if (const auto all = list_generations(*site.files, site.folder)) {
    for (const std::uint64_t old : *all) {
      if (old < site.complete.front()) {
        remove_generation(*site.files, site.folder, old);
      }
    }
  }
}

/// Writes the manifest, unless a part was not written.
/// The manifest appears at once with all its bytes, or not at all.
result<void> write_manifest(save_job& job, std::span<const rank_outcome> outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    const rank_outcome& one = outcomes[r];
    // One part is missing, so the generation must not exist.
    if (one.code != 0) {
      return error(static_cast<errc>(one.code),
                   fmt::format("rank {} on {} has not written its part: {}", r,
                               one.machine.data(), one.text.data()));
    }
    job.manifest.parts.push_back(
        {one.machine.data(), one.path.data(), one.part.bytes, one.part.digest});
  }
  // The name appears only when the file is durable.
  return write_file_atomically(
      *job.site->files,
      join_path(job.site->folder, manifest_name(job.manifest.generation)),
      encode_manifest(job.manifest));
}

/// Decides about a generation on rank 0. Returns 1 if it exists.
///
/// A failure is a warning, since the run can go on without this generation.
std::uint64_t publish(save_job& job, std::span<const rank_outcome> outcomes) {
  state_site& site = *job.site;
  if (const auto written = write_manifest(job, outcomes); !written) {
    site.warn(fmt::format(
        "generation {} of the state in \"{}\", at step {}, is not kept: {}; the run goes "
        "on, and {}",
        job.manifest.generation, site.folder, job.manifest.step, written.error().text(),
        site.complete.empty()
            ? std::string("it has saved no generation yet")
            : fmt::format("the newest generation is {}", site.complete.back())));
    return 0;
  }
  remove_older(site, job.manifest.generation);
  return 1;
}

}  // namespace

/// Submits the tasks of a save and returns; failures of writes are reported as warnings
/// later. All ranks call it together.
result<void> world_state::open_state::save(std::int64_t step) {
  const auto job = std::make_shared<save_job>();
  job->site = site_;
  // Every save has a number of its own.
  job->manifest.generation = ++newest_;
  job->manifest.step = step;
  job->manifest.items = descriptions_;
  job->manifest.values.resize(descriptions_.size());
  job->plan = plan_;
  job->part = std::make_unique<part_writer>(*site_->files, site_->path_of_part(newest_));
  const std::size_t own = plan_.parts[site_->rank].tiles;
  job->tiles.reserve(own);  // tasks read the vectors while later tasks are submitted
  job->places.reserve(own);
  WEIR_CHECK(submit_tiles(job));
  WEIR_CHECK(submit_values(job));
  // Tiles first, then the parts are sealed, then the verdict.
  WEIR_CHECK(submit_seals(job));
  return submit_publication(job);
}

/// One task per tile, run by its owner. The digest goes to a slot that `submit_seals`
/// reads.
result<void> world_state::open_state::submit_tiles(const std::shared_ptr<save_job>& job) {
  for (std::size_t k = 0; k < items_.size(); ++k) {
    const state_tensor now = items_[k].tensor();
    // Tiles are selected by index, which needs this order.
    WEIR_EXPECT(now.bytes.row_major());
    for (std::size_t i = 0; i < plan_.tiles[k].size(); ++i) {
      const tile_place& place = plan_.tiles[k][i];
      WEIR_TRY(const tensor tile,
               select_tile(now.bytes, descriptions_[k], static_cast<std::int64_t>(i)));
      const tensor digest = digest_slot(place);
      const std::size_t number = job->tiles.size();
      if (place.part == site_->rank) {
        job->tiles.push_back(tile);
        job->places.push_back(place);
      }
      WEIR_CHECK(ranks_.submit(
          // The task reads the tile and writes the digest.
          {place.part, 2}, "save tile", std::array{reads(tile), writes(digest)},
          [own = job.get(), number,
           to = digest.as<std::uint64_t>()](const task_context&) {
            *to = own->part->write(own->places[number].offset, own->tiles[number]);
          },
          job));
    }
  }
  return {};
}

/// Rank 0 copies the numbers that all ranks have into the manifest.
result<void> world_state::open_state::submit_values(
    const std::shared_ptr<save_job>& job) {
  const std::array<std::int64_t, 1> one{1};
  // The tasks update the verdict, which orders them before the publication.
  WEIR_TRY(const tensor verdict, tensor::over(verdict_, dtype::uint64, one));
  for (std::size_t k = 0; k < items_.size(); ++k) {
    if (!descriptions_[k].tile.empty()) {
      continue;
    }
    const tensor value = items_[k].tensor().bytes;
    const auto bytes =
        static_cast<std::size_t>(value.count()) * info_of(value.type()).size;
    WEIR_CHECK(ranks_.submit(
        {0, 0}, "save number", std::array{reads(value), updates(verdict)},
        [own = job.get(), k, from = value.data(), bytes](const task_context&) {
          own->manifest.values[k].assign(from, from + bytes);
        },
        job));
  }
  return {};
}

/// Each rank seals its own part once the digests of its tiles are there.
result<void> world_state::open_state::submit_seals(const std::shared_ptr<save_job>& job) {
  for (rank_id r = 0; r < ranks_.ranks(); ++r) {
    const tensor digests = digests_of(r);
    const tensor outcome = outcome_of(r);
    WEIR_CHECK(ranks_.submit(
        {r, 2}, "seal part", std::array{reads(digests), writes(outcome)},
        // The first word of the slots is not a digest.
        [own = job.get(), from = digests.as<const std::uint64_t>() + 1,
         count = plan_.parts[r].tiles, to = outcome.data()](const task_context&) {
          const rank_outcome out = seal_part(*own, {from, count});
          std::memcpy(to, &out, sizeof out);
        },
        job));
  }
  return {};
}

/// Rank 0 needs the outcomes of all ranks; all ranks need its verdict.
result<void> world_state::open_state::submit_publication(
    const std::shared_ptr<save_job>& job) {
  const std::array<std::int64_t, 1> one{1};
  WEIR_TRY(const tensor verdict, tensor::over(verdict_, dtype::uint64, one));
  const std::array<std::int64_t, 1> size{outcomes_.size};
  WEIR_TRY(const tensor outcomes, tensor::over(outcomes_, dtype::uint8, size));
  WEIR_CHECK(ranks_.submit(
      {0, 0}, "publish state", std::array{reads(outcomes), updates(verdict)},
      [own = job.get(), from = outcomes.data(), ranks = ranks_.ranks(),
       to = verdict.as<std::uint64_t>()](const task_context&) {
        std::vector<rank_outcome> all(ranks);
        std::memcpy(all.data(), from, ranks * sizeof(rank_outcome));
        *to = publish(*own, all);
      },
      job));
  // A rank removes its part if the generation does not exist.
  for (rank_id r = 0; r < ranks_.ranks(); ++r) {
    WEIR_CHECK(ranks_.submit(
        // Updating the outcome keeps the next save from writing it before this task has
        // run.
        {r, 0}, "end save", std::array{reads(verdict), updates(outcome_of(r))},
        [own = job.get(), from = verdict.as<const std::uint64_t>()](const task_context&) {
          if (*from == 0) {
            own->part->discard();
          }
        },
        job));
  }
  return {};
}

}  // namespace weir::runtime
