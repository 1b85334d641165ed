// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens the state of a world, and what its ranks tell each other about files.
///
/// Ranks tell each other outcomes by storages of the world: each rank writes its own
/// slot in a task, and all ranks read all slots after a wait.
#include "weir/runtime/state/world_state.hpp"

#include <fmt/core.h>

#include <cstdio>

#include "state/open_state.hpp"
#include "weir/base/record.hpp"

namespace weir::runtime {
namespace {

/// Numbers in the storage `verdict_`: the decision about a generation, and a size.
constexpr std::int64_t verdict_numbers = 2;

/// Makes and reads the folders of this rank.
///
/// Only rank 0 takes the lock and cleans the common folder. Paths must fit a message.
result<void> prepare_folders(state_site& site) {
  if (site.folder.size() > 400 || site.part_folder.size() > 400) {
    return error(errc::out_of_range,
                 fmt::format("cannot open the folder of a state: expected a path of at "
                             "most 400 bytes, found {}",
                             std::max(site.folder.size(), site.part_folder.size())));
  }
  if (site.rank == 0) {
    WEIR_CHECK(site.files->make_folder(site.folder));
    WEIR_TRY(site.lock, file_lock::acquire(join_path(site.folder, "lock")));
    // Files that a killed process has left half written.
    WEIR_CHECK(remove_unfinished(*site.files, join_path(site.folder, "state-")));
  }
  return site.apart ? site.files->make_folder(site.part_folder) : result<void>();
}

/// Returns the advice for a run that cannot go on: the newest generation that exists.
///
/// It becomes the hint of the error that ends the run.
std::string advice_of(const state_site& site) {
  const auto known = list_generations(*site.files, site.folder);
  if (!known || known->empty()) {
    return {};
  }
  const std::string path = join_path(site.folder, manifest_name(known->back()));
  const auto bytes = read_file(*site.files, path);
  const auto manifest =
      bytes ? decode_manifest(*bytes, path) : result<state_manifest>(bytes.error());
  return manifest ? fmt::format(
                        "generation {} in {}, saved at step {}, is complete: "
                        "resume from it, on any number of ranks",
                        known->back(), site.folder, manifest->step)
                  : std::string();
}

/// The default of `state_options::warn`.
void warn_on_standard_error(const std::string& text) {
  static_cast<void>(std::fprintf(stderr, "warning: %s\n", text.c_str()));
}

}  // namespace

// The descriptions are taken once; a tensor must keep its shape, type and tiles from then
// on.
world_state::open_state::open_state(world& ranks, std::shared_ptr<state_site> site,
                                    std::vector<state_item> items)
    : ranks_(ranks), site_(std::move(site)), items_(std::move(items)) {
  // Tiles are numbered by index, which needs tensors without gaps.
  for (const state_item& item : items_) {
    const state_tensor now = item.tensor();
    WEIR_EXPECT(now.bytes.row_major());
    const auto shape = now.bytes.shape();
    descriptions_.push_back(
        {item.name, now.bytes.type(), {shape.begin(), shape.end()}, now.tile});
  }
  plan_ = plan_parts(descriptions_, ranks_.ranks());
  ranks_.explain_failures([site = site_] { return advice_of(*site); });
}

/// Tasks of a save may run; the world waits for them at its end, and the jobs keep what
/// they use. The storages end with the engine, since other ranks may not be here.
world_state::open_state::~open_state() {
  ranks_.explain_failures({});
}

/// The storages are allocated once, in the same order on all ranks.
result<void> world_state::open_state::allocate() {
  std::size_t slots = 0;
  for (const part_plan& part : plan_.parts) {
    first_digest_.push_back(slots);
    slots += part.tiles + 1;  // one that no tile has, so that no part has none
  }
  const auto ranks = static_cast<std::int64_t>(ranks_.ranks());
  const auto bytes = static_cast<std::int64_t>(sizeof(rank_outcome));
  WEIR_TRY(outcomes_, ranks_.allocate(ranks * bytes, "state"));
  WEIR_TRY(digests_, ranks_.allocate(static_cast<std::int64_t>(8 * slots), "state"));
  WEIR_TRY(verdict_, ranks_.allocate(8 * verdict_numbers, "state"));
  return {};
}

/// The slot of a rank for its outcome.
tensor world_state::open_state::outcome_of(rank_id rank) const {
  const std::array<std::int64_t, 1> shape{std::int64_t{sizeof(rank_outcome)}};
  return or_throw(
      tensor::over(outcomes_, dtype::uint8, shape, std::int64_t{rank} * shape[0]));
}
/// The slots of all digests of a rank, with one in front that no tile has.
tensor world_state::open_state::digests_of(rank_id rank) const {
  const std::array<std::int64_t, 1> shape{
      static_cast<std::int64_t>(plan_.parts[rank].tiles) + 1};
  return or_throw(tensor::over(digests_, dtype::uint64, shape,
                               static_cast<std::int64_t>(8 * first_digest_[rank])));
}
/// The slot of one tile.
tensor world_state::open_state::digest_slot(const tile_place& place) const {
  const std::array<std::int64_t, 1> shape{1};
  const std::size_t slot = first_digest_[place.part] + 1 + place.slot;
  return or_throw(
      tensor::over(digests_, dtype::uint64, shape, static_cast<std::int64_t>(8 * slot)));
}

/// Each rank acts in a task that comes after its tasks with digests. All ranks wait, and
/// get the failure of the lowest rank.
///
/// `name` is that of the task. `own` is what this rank does; the object is kept until
/// the task has ended.
result<void> world_state::open_state::agree(const char* name, action own) {
  const auto kept = std::make_shared<const action>(std::move(own));
  for (rank_id r = 0; r < ranks_.ranks(); ++r) {
    const tensor outcome = outcome_of(r);
    // The access to the digests puts the task behind those that write them.
    WEIR_CHECK(ranks_.submit(
        {r, 2}, name, std::array{reads(digests_of(r)), writes(outcome)},
        [act = kept.get(), to = outcome.data()](const task_context&) {
          rank_outcome out;
          if (const auto done = (*act)(); !done) {
            out.code = static_cast<std::uint64_t>(done.error().code());
            copy_text(out.text, done.error().text());
            copy_text(out.path, done.error().location());
          }
          std::memcpy(to, &out, sizeof out);
        },
        kept));
  }
  // Every rank gets all outcomes.
  for (rank_id r = 0; r < ranks_.ranks(); ++r) {
    WEIR_CHECK(ranks_.bring_everywhere(outcome_of(r)));
  }
  WEIR_CHECK(ranks_.wait());
  for (rank_id r = 0; r < ranks_.ranks(); ++r) {
    rank_outcome found;
    std::memcpy(&found, outcome_of(r).data(), sizeof found);
    // The lowest rank with a failure decides, so all ranks return the same error.
    if (found.code != 0) {
      error cause(static_cast<errc>(found.code), found.text.data());
      return found.path[0] == '\0' ? cause : std::move(cause).located(found.path.data());
    }
  }
  return {};
}

/// Returns bytes of rank 0 on all ranks. `own` counts on rank 0 alone.
///
/// First the size is told, then memory is allocated on all ranks for the content.
result<byte_vector> world_state::open_state::from_rank_0(byte_vector own) {
  const std::array<std::int64_t, 1> one{1};
  WEIR_TRY(const tensor size, tensor::over(verdict_, dtype::uint64, one, 8));
  WEIR_CHECK(ranks_.submit({0, 1}, "size", std::array{writes(size)},
                           [to = size.as<std::uint64_t>(),
                            bytes = own.size()](const task_context&) { *to = bytes; }));
  WEIR_CHECK(ranks_.bring_everywhere(size));
  WEIR_CHECK(ranks_.wait());
  const auto bytes = static_cast<std::int64_t>(*size.as<std::uint64_t>());
  if (bytes == 0) {
    return byte_vector{};
  }
  WEIR_TRY(const storage memory, ranks_.allocate(bytes, "state"));
  const std::array<std::int64_t, 1> shape{bytes};
  WEIR_TRY(const tensor all, tensor::over(memory, dtype::uint8, shape));
  // The task refers to `own`, which lives until the wait below.
  WEIR_CHECK(ranks_.submit({0, 1}, "content", std::array{writes(all)},
                           [to = all.data(), &own](const task_context&) {
                             std::copy(own.begin(), own.end(), to);
                           }));
  WEIR_CHECK(ranks_.bring_everywhere(all));
  WEIR_CHECK(ranks_.wait());
  byte_vector out(all.data(), all.data() + bytes);
  WEIR_CHECK(ranks_.release(memory.id));
  return out;
}

/// Sets the generations that exist, as rank 0 finds them.
/// `newest_` never goes back: a number of a failed save is not used again.
result<void> world_state::open_state::list() {
  std::vector<std::uint64_t> found;
  WEIR_CHECK(agree("list state", [this, &found]() -> result<void> {
    if (ranks_.rank() == 0) {
      WEIR_TRY(found, list_generations(*site_->files, site_->folder));
    }
    return {};
  }));
  record_writer bytes;
  bytes.put_all(std::span<const std::uint64_t>(found));
  WEIR_TRY(const byte_vector all, from_rank_0(std::move(bytes).take()));
  // All ranks have the same list afterwards.
  generations_ = record_reader(all).get_all<std::uint64_t>(all.size() / 8);
  // A number that was given to a failed save is not used again.
  newest_ = std::max(newest_, generations_.empty() ? 0 : generations_.back());
  return {};
}

/// The folders are opened, the generations are listed, and parts without a manifest are
/// removed, each on all ranks together.
result<void> world_state::open_state::begin() {
  WEIR_CHECK(allocate());
  std::string identity;
  const auto open_folders = [site = site_, &identity]() -> result<void> {
    WEIR_CHECK(prepare_folders(*site));
    // Other ranks may have parts apart even if rank 0 has none.
    if (site->rank == 0) {
      WEIR_TRY(identity, state_identity(join_path(site->folder, "lock")));
    }
    return {};
  };
  WEIR_CHECK(agree("open state", open_folders));
  const bytes_view own = as_view(identity);
  WEIR_TRY(const byte_vector agreed, from_rank_0({own.begin(), own.end()}));
  if (site_->apart) {
    site_->identity = as_text(agreed);
  }
  WEIR_CHECK(list());
  return agree("clean state", [this]() {
    return remove_lonely_parts(*site_->files, site_->part_folder, site_->identity,
                               generations_);
  });
}

world_state::world_state(std::unique_ptr<open_state> state) : state_(std::move(state)) {}
world_state::~world_state() = default;

/// All ranks call it with the same items. `options.parts` names a folder of this machine
/// for its parts; without it, parts lie in the common folder.
result<std::unique_ptr<world_state>> world_state::open(world& ranks, std::string folder,
                                                       state_options options,
                                                       std::vector<state_item> items) {
  WEIR_EXPECT(options.kept >= 1);
  if (ranks.is_pretended()) {
    return error(errc::unsupported,
                 "checkpoints not opened: expected a world whose ranks exist, found one "
                 "whose other ranks are pretended and whose tensors have no content")
        .hint("unset WEIR_PRETEND");
  }
  const auto site = std::make_shared<state_site>();
  site->files = options.files == nullptr ? &posix_file_system() : options.files;
  site->folder = std::move(folder);
  site->apart = !options.parts.empty();
  site->part_folder = site->apart ? std::move(options.parts) : site->folder;
  site->machine = machine_name();
  site->rank = ranks.rank();
  site->kept = options.kept;
  site->warn = options.warn ? std::move(options.warn) : warn_on_standard_error;
  auto state = std::make_unique<open_state>(ranks, site, std::move(items));
  WEIR_CHECK(state->begin());
  return std::unique_ptr<world_state>(new world_state(std::move(state)));
}

result<void> world_state::save(std::int64_t step) {
  return state_->save(step);
}
result<std::int64_t> world_state::resume(std::uint64_t generation) {
  return state_->resume(generation);
}

}  // namespace weir::runtime
