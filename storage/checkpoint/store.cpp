// SPDX-License-Identifier: Apache-2.0
/// @file
/// The generations of a folder: saves a new one, finds the newest, removes old ones.
///
/// A save takes these steps: write a temporary file; make it durable; read it back and
/// verify it; give it its final name; make the folder durable; remove old generations. A
/// crash before the fourth step leaves a temporary file, which the next writer removes. A
/// crash after it leaves a complete generation. Removing old files comes last, so that at
/// any instant one valid generation is durable.
///
/// A section that has not changed is not written again if an earlier generation, the
/// base, holds it. Two generations in a row never depend on the same file: a base is
/// neither the generation before nor the base of that one. While nothing changes, two
/// whole files stay, to which the small generations behind them refer in turn.
///
/// Generations are numbered upwards for ever. A number that a failed save has used is not
/// used again, because its file may exist in part.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "checkpoint/reader.hpp"
#include "checkpoint/writer.hpp"

namespace weir::storage {

namespace {

/// A file is "ck-<generation>.weir".
constexpr std::string_view prefix = "ck-";
constexpr std::string_view suffix = ".weir";
constexpr std::string_view temporary_suffix = ".weir.tmp";
/// A file refers to a base only for at least one part in so many of its bytes.
constexpr std::uint64_t min_share = 4;

/// Returns the number in "ck-<number><ending>". Returns nothing if the name has another
/// form, or the number is not written as this code writes it (no leading zero).
std::optional<std::uint64_t> number_in(std::string_view name, std::string_view ending) {
  if (name.size() <= prefix.size() + ending.size() ||
      name.substr(0, prefix.size()) != prefix ||
      name.substr(name.size() - ending.size()) != ending) {
    return std::nullopt;
  }
  const std::string_view digits =
      name.substr(prefix.size(), name.size() - prefix.size() - ending.size());
  std::uint64_t number = 0;
  const auto [end, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size() ||
      // A name with a leading zero would give two names to one generation.
      (digits.size() > 1 && digits.front() == '0') || number >= generation_limit) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string path_of_generation(const std::string& folder, std::uint64_t generation) {
  return join_path(folder, fmt::format("{}{}{}", prefix, generation, suffix));
}

/// State of a store. Only a writer has a lock.
///
/// `verified` and `bases` live in memory only. A new writer begins without them and
/// learns the newest generation at its first save.
struct checkpoint_store::state {
  file_system* fs = nullptr;
  std::string folder;
  std::optional<file_lock> lock;
  std::uint64_t next_generation = 1;
  // At least 2, so that damage of the newest one leaves another.
  std::size_t kept = 2;  ///< whole generations that stay in the folder
  // In bytes.
  std::uint64_t refer_from = std::uint64_t{64} << 10;  ///< smallest section of a base
  /// Generations that this writer knows to be whole, the oldest first.
  std::vector<verified_file> verified;
  /// Their bases that are not among them.
  std::vector<verified_file> bases;

  /// Lists the generations, the newest first.
  [[nodiscard]] result<std::vector<entry>> list() const;
  /// Writes a file under a temporary name, makes it durable and reads it back.
  [[nodiscard]] result<verified_checkpoint> write_temporary(
      const std::string& path, std::span<const checkpoint_section> sections,
      const section_table& table, const checkpoint_header& header) const;
  /// Marks the sections of a table that a base holds, and notes the base in it.
  void refer(section_table& table) const;
  /// Finds the newest whole file of an earlier writer, at the first save.
  void remember_previous(const std::string& newest);
  /// Notes a generation as whole, and its base.
  void remember(verified_checkpoint loaded);
  /// Forgets generations that do not stay.
  template <class Stays>
  void forget_unless(Stays stays) {
    const auto goes = [&](const verified_file& f) { return !stays(f); };
    std::erase_if(verified, goes);
    std::erase_if(bases, goes);
  }
  /// Removes all but the newest verified generations.
  void prune(const std::string& newest);
};

checkpoint_store::checkpoint_store(std::unique_ptr<state> s) : state_(std::move(s)) {}
checkpoint_store::checkpoint_store(checkpoint_store&&) noexcept = default;
checkpoint_store& checkpoint_store::operator=(checkpoint_store&&) noexcept = default;
checkpoint_store::~checkpoint_store() = default;
/// Takes effect at the next save.
void checkpoint_store::keep(std::size_t count) {
  WEIR_EXPECT(count >= 2);
  state_->kept = count;
}

/// Sections below this size are always written.
void checkpoint_store::refer_from(std::uint64_t bytes) noexcept {
  state_->refer_from = bytes;
}

/// Removes the newest file first, so that a crash never leaves a newer generation without
/// the ones before it, and never one without its base. Files that cannot be read stay,
/// because their generation is not known.
///
/// Used when a run is resumed from an older generation: what comes after it is given up.
result<void> checkpoint_store::remove_newer(std::uint64_t generation) {
  WEIR_EXPECT(state_->lock.has_value());
  state_->forget_unless(
      [&](const verified_file& f) { return f.generation <= generation; });
  WEIR_TRY(const auto entries, state_->list());
  for (const entry& e : entries) {
    if (!e.problem && e.header.generation > generation) {
      WEIR_CHECK(state_->fs->remove(e.path));
    }
  }
  return state_->fs->sync_folder(state_->folder);
}

const std::string& checkpoint_store::folder() const noexcept {
  return state_->folder;
}

// The next generation follows the highest that any file name or preamble states, valid or
// not, so that no number is ever used twice.
//
// A writer takes the lock of the folder, which fails if another one has it, and removes
// temporary files of writers that were killed.
result<checkpoint_store> checkpoint_store::open(file_system& fs, std::string folder,
                                                role as) {
  auto s = std::make_unique<state>();
  s->fs = &fs;
  s->folder = std::move(folder);
  // A reader makes no folder and takes no lock; it may work while a writer does.
  if (as == role::writer) {
    WEIR_CHECK(fs.make_folder(s->folder));
    WEIR_TRY(s->lock, file_lock::acquire(join_path(s->folder, "lock")));
  }
  WEIR_TRY(const auto names, fs.list(s->folder));
  for (const std::string& name : names) {
    if (as == role::writer && number_in(name, temporary_suffix)) {
      WEIR_CHECK(fs.remove(join_path(s->folder, name)));
    }
    if (const auto number = number_in(name, suffix)) {
      s->next_generation = std::max(s->next_generation, *number + 1);
    }
  }
  // The generation inside a file counts. A renamed file may state a higher one than any
  // name.
  WEIR_TRY(const auto entries, s->list());
  for (const entry& e : entries) {
    s->next_generation = std::max(s->next_generation, e.header.generation + 1);
  }
  return checkpoint_store(std::move(s));
}

// Reads the preamble of each file. A file that cannot be read is listed with its problem,
// because the caller decides what that means.
//
// Sections are not verified here; this is the task of `verify` and of loading.
result<std::vector<checkpoint_store::entry>> checkpoint_store::state::list() const {
  WEIR_TRY(const auto names, fs->list(folder));
  /// An entry and its place in the order: the generation in the file or, if that cannot
  /// be read, in its name.
  struct ranked {
    entry e;
    std::uint64_t rank;
  };
  std::vector<ranked> found;
  for (const std::string& name : names) {
    const auto number = number_in(name, suffix);
    if (!number) {
      continue;
    }
    ranked r{{join_path(folder, name), 0, {}, {}}, *number};
    // The name gives the order if the file does not.
    auto f = fs->open(r.e.path, open_mode::read);
    if (!f && f.error().code() == errc::not_found) {
      continue;  // a writer has removed it meanwhile
    }
    auto p = f ? read_preamble(**f) : result<preamble>(std::move(f).error());
    if (p) {
      r.e.header = p->header;
      r.e.bytes = p->file_bytes;
      r.rank = p->header.generation;
    } else {
      r.e.problem = std::move(p).error();
      // The size is for people only.
      r.e.bytes = f ? (*f)->size().value_or(0) : 0;
    }
    found.push_back(std::move(r));
  }
  // The names are sorted, so files that state equal generations keep one order.
  std::stable_sort(found.begin(), found.end(),
                   [](const ranked& a, const ranked& b) { return a.rank > b.rank; });
  std::vector<entry> out;
  for (ranked& r : found) {
    out.push_back(std::move(r.e));
  }
  return out;
}

/// See `state::list`.
result<std::vector<checkpoint_store::entry>> checkpoint_store::list() {
  return state_->list();
}

/// Loads every file, which reads all of its bytes.
result<std::vector<checkpoint_store::entry>> checkpoint_store::verify() {
  WEIR_TRY(auto entries, state_->list());
  for (entry& e : entries) {
    if (!e.problem) {
      auto loaded = load_checkpoint(*state_->fs, e.path);
      if (loaded) {
        e.base = loaded->base();
      } else {
        e.problem = std::move(loaded).error();
      }
    }
  }
  return entries;
}

result<checkpoint> checkpoint_store::load(const std::string& path) {
  return load_checkpoint(*state_->fs, path);
}

// Tries the files from the newest to the oldest. If a file has vanished meanwhile, a
// writer has removed it after saving a newer one, so the folder is listed again.
//
// Files that were skipped are noted in the result with their problems.
result<checkpoint> checkpoint_store::load_newest() {
  constexpr int attempts = 3;  // a writer may remove a file that was just listed
  std::vector<error> skipped;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    skipped.clear();
    WEIR_TRY(auto entries, state_->list());
    bool vanished = false;
    for (entry& e : entries) {
      if (e.problem) {
        skipped.push_back(std::move(*e.problem));
        continue;
      }
      auto loaded = load_checkpoint(*state_->fs, e.path);
      if (loaded) {
        loaded->skipped_ = std::move(skipped);
        return loaded;
      }
      // "Not found" is also the code of a missing base; listing once more does no harm.
      vanished = vanished || loaded.error().code() == errc::not_found;
      skipped.push_back(std::move(loaded).error());
    }
    if (!vanished) {
      break;
    }
  }
  if (skipped.empty()) {
    return error(errc::not_found,
                 fmt::format("cannot find a checkpoint in \"{}\": expected files "
                             "ck-GENERATION.weir, found none",
                             state_->folder))
        .located(state_->folder);
  }
  // The problem of the newest file says most; the hint says that the others failed, too.
  error newest = std::move(skipped.front());
  return std::move(newest).hint(fmt::format(
      "none of the {} generations in \"{}\" is valid", skipped.size(), state_->folder));
}

/// Counts the bytes of a table that a base holds, which are those of its entries with the
/// same name, type, shape and digest.
///
/// Sets `in_base` of every entry. `least` is the smallest length that is worth it.
std::uint64_t mark_held(section_table& table, const verified_file& base,
                        std::uint64_t least) {
  std::uint64_t saved = 0;
  for (table_entry& e : table.entries) {
    e.in_base = std::any_of(
        base.table.entries.begin(), base.table.entries.end(), [&](const table_entry& b) {
          return e.length >= least && !b.in_base && b.name == e.name &&
                 b.type == e.type && b.shape == e.shape && b.length == e.length &&
                 b.hash == e.hash;
        });
    saved += e.in_base ? e.length : 0;
  }
  return saved;
}

/// The candidates are the generations that this writer has verified, except for the
/// previous one and its base. Then damage of one file can never spoil both of the two
/// newest generations.
void checkpoint_store::state::refer(section_table& table) const {
  if (verified.empty()) {
    return;
  }
  // The newest generation.
  const verified_file& previous = verified.back();
  const std::uint64_t least = std::max<std::uint64_t>(refer_from, 1);
  const verified_file* best = nullptr;
  std::uint64_t most = 0;
  // `mark_held` is used here for its sum; the marks of the last candidate are reset
  // below.
  const auto try_base = [&](const verified_file& f) {
    const bool shared =
        f.generation == previous.generation ||
        (previous.table.base && f.generation == previous.table.base->generation);
    // Readers find a base by the name that its generation has, so a file that somebody
    // renamed cannot be one.
    const bool named = f.path == path_of_generation(folder, f.generation);
    if (const std::uint64_t saved = shared || !named ? 0 : mark_held(table, f, least);
        saved > most) {
      best = &f;
      most = saved;
    }
  };
  // Older bases are tried first, so that at equal gain an old file is used again.
  std::for_each(bases.begin(), bases.end(), try_base);
  std::for_each(verified.begin(), verified.end(), try_base);
  std::uint64_t total = 0;
  for (const table_entry& e : table.entries) {
    total += e.length;
  }
  // A base is kept as a whole, so that a small part of it does not pay. A base that was
  // damaged meanwhile is found here, and the new file then holds everything.
  const bool pays = best != nullptr && most >= total / min_share;
  const bool whole = pays && load_verified(*fs, best->path);
  for (table_entry& e : table.entries) {
    e.in_base = false;
  }
  if (whole) {
    mark_held(table, *best, least);
    table.base = base_reference{best->generation, best->root};
  }
}

/// A failure leaves the file for the caller to remove.
result<verified_checkpoint> checkpoint_store::state::write_temporary(
    const std::string& path, std::span<const checkpoint_section> sections,
    const section_table& table, const checkpoint_header& header) const {
  // The file is closed at the end of the block, before it is read again.
  {
    WEIR_TRY(const auto f, fs->open(path, open_mode::create_new));
    WEIR_CHECK(write_checkpoint(*f, sections, table, header));
    // After a failed sync the content is unknown, and a second sync might report success
    // for lost data. The file is given up.
    WEIR_CHECK(f->sync());
  }
  // Reads and verifies everything from the file, the base included.
  return load_verified(*fs, path);
}

// See the top of the file for the order of the steps.
//
// A failed save leaves the folder as it was, except for a temporary file at worst.
result<std::uint64_t> checkpoint_store::save(std::span<const checkpoint_section> sections,
                                             std::uint64_t pulse_id) {
  state& s = *state_;
  if (!s.lock) {
    return error(errc::invalid_argument,
                 fmt::format("cannot save a checkpoint in \"{}\": it is open for reading",
                             s.folder));
  }
  // Nothing that a reader would refuse is written.
  WEIR_CHECK(check_for_save(sections, pulse_id));
  // The number is used up even if the save fails.
  const std::uint64_t generation = s.next_generation++;
  const std::string path = path_of_generation(s.folder, generation);
  const std::string temporary =
      join_path(s.folder, fmt::format("{}{}{}", prefix, generation, temporary_suffix));
  section_table table = table_of(sections);
  // Decides which sections are not written again.
  s.refer(table);
  auto written = s.write_temporary(temporary, sections, table, {generation, pulse_id});
  const auto published =
      written ? s.fs->rename(temporary, path) : result<void>(std::move(written).error());
  if (!published) {
    // Reports the first failure. If the temporary file stays, the next writer removes it.
    static_cast<void>(s.fs->remove(temporary));
    return published.error();
  }
  // Only now the new name is durable; nothing old is removed before.
  WEIR_CHECK(s.fs->sync_folder(s.folder));
  s.remember_previous(path);
  // It was verified under its temporary name.
  written->own.path = path;
  s.remember(std::move(*written));
  s.prune(path);
  return generation;
}

/// A base that several generations share is noted once.
void checkpoint_store::state::remember(verified_checkpoint loaded) {
  verified.push_back(std::move(loaded.own));
  if (!loaded.base) {
    return;
  }
  const std::uint64_t number = loaded.base->generation;
  const auto is_base = [&](const verified_file& f) { return f.generation == number; };
  if (std::none_of(bases.begin(), bases.end(), is_base)) {
    bases.push_back(std::move(*loaded.base));
  }
}

/// A new writer has verified nothing yet. Without this, its first save would remove files
/// of the earlier writer although it knows only one whole generation.
void checkpoint_store::state::remember_previous(const std::string& newest) {
  if (!verified.empty()) {
    return;
  }
  const auto entries = list();
  if (!entries) {
    // Without a list nothing is known, and nothing is removed.
    return;
  }
  // The entries come from the newest to the oldest.
  for (const entry& e : *entries) {
    if (e.path == newest || e.problem) {
      continue;
    }
    if (auto loaded = load_verified(*fs, e.path)) {
      remember(std::move(*loaded));
      return;
    }
  }
}

/// Runs only once the new generation is durable. If an old file cannot be removed,
/// nothing is lost, and the next save tries again. A file to which a generation that
/// stays refers stays with it.
void checkpoint_store::state::prune(const std::string& newest) {
  // Generations beyond the number may still be bases of newer ones.
  while (verified.size() > kept) {
    bases.push_back(std::move(verified.front()));
    verified.erase(verified.begin());
  }
  // Bases to which no kept generation refers.
  std::erase_if(bases, [&](const verified_file& b) {
    return std::none_of(verified.begin(), verified.end(), [&](const verified_file& v) {
      return v.table.base && v.table.base->generation == b.generation;
    });
  });
  const auto entries = list();
  // Fewer whole generations are known than must stay.
  if (!entries || verified.size() < kept) {
    return;
  }
  const auto among = [](const std::vector<verified_file>& files, const entry& e) {
    return std::any_of(files.begin(), files.end(),
                       [&](const verified_file& f) { return f.path == e.path; });
  };
  std::size_t seen = 0;
  // Goes from the newest on. Once as many kept generations were passed as must stay,
  // everything older is removed except for bases.
  for (const entry& e : *entries) {
    if (seen == kept && e.path != newest && !among(bases, e)) {
      static_cast<void>(fs->remove(e.path));
    }
    seen += among(verified, e) ? 1U : 0U;
  }
}

}  // namespace weir::storage
