// SPDX-License-Identifier: Apache-2.0
/// @file
/// States of worlds in files: resumed on any number of ranks, and after every fault.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "state/manifest.hpp"
#include "state/state_folder.hpp"
#include "support/faulty_files.hpp"
#include "support/real_files.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/hash.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

using doubles = std::vector<double>;
namespace fs = std::filesystem;

/// Runs a program on each of `ranks` threads.
void run_ranks(runtime::rank_id ranks,
               const std::function<void(world&, runtime::rank_id)>& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 2, .seed = ranks});
  std::vector<std::thread> threads;
  for (runtime::rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      engine e(1 + r % 2);
      world w(e, net.transport_of(r));
      body(w, r);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

/// A program with a field that is swapped, one number for each tile, and one number that
/// all ranks have.
struct state_program {
  state_program(world& ranks, const layout& cut)
      : w(ranks),
        now(w.make<double>(cut, 11, 9)),
        next(w.make<double>(cut, 11, 9)),
        sums(w.per_tile<float>(now)),
        total(w.everywhere<double>()) {
    for (const auto& box : now.tiles()) {
      w.submit(
          "fill",
          [box](view<double, 2> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              for (std::int64_t j = 0; j < out.extent(1); ++j) {
                out(i, j) =
                    static_cast<double>((box.lo[0] + i) * 17 + (box.lo[1] + j) * 5);
              }
            }
          },
          write(now.of_tile(box)));
    }
  }
  void open(const std::string& folder, runtime::state_options with) {
    w.checkpoint(folder, std::move(with), named("field", now), sums,
                 named("total", total));
  }
  void step(std::int64_t number) {
    for (const auto& box : now.tiles()) {
      w.submit(
          "step",
          [number](wrapped_view<double, 2> in, view<const double, 0> by,
                   view<double, 2> out, view<float, 1> sum) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              for (std::int64_t j = 0; j < out.extent(1); ++j) {
                out(i, j) = (in(i, j) + in(i, j + 1) + in(i - 1, j)) / 3 + by();
              }
            }
            sum(0) += static_cast<float>(out(0, 0)) / static_cast<float>(number + 1);
          },
          read(now.wrapped(box, 1)), read(total), write(next.of_tile(box)),
          update(sums.of_index(box.index)));
    }
    std::swap(now, next);
    w.submit_everywhere(
        "count", [](view<double, 0> out) { out() += 0.125; }, update(total));
  }
  void run(std::int64_t steps) {
    w.repeat(steps, [this](std::int64_t number) { step(number); });
  }
  doubles result_of() {
    or_throw(w.elements(now));
    or_throw(w.elements(sums));
    const auto* first = now.all().bytes().as<double>();
    doubles out(first, first + 99);
    const auto* sum = sums.all().bytes().as<float>();
    out.insert(out.end(), sum, sum + sums.tile_count());
    out.push_back(or_throw(w.get(total)));
    return out;
  }
  world& w;
  world_tensor<double, 2> now;
  world_tensor<double, 2> next;
  world_tensor<float, 1> sums;
  tensor<double, 0> total;
};

/// Returns the result of steps without files.
doubles expected_after(std::int64_t steps, const layout& cut) {
  engine e(1);
  world w(e);
  state_program p(w, cut);
  p.run(steps);
  return p.result_of();
}
/// Runs to `steps` on some ranks, from the newest generation, and checks the result.
void run_to(std::int64_t steps, runtime::rank_id ranks, const layout& cut,
            const std::string& folder, std::int64_t resumed_at,
            const runtime::state_options& with = {.every = 2}) {
  const doubles expected = expected_after(steps, cut);
  run_ranks(ranks, [&](world& w, runtime::rank_id) {
    state_program p(w, cut);
    p.open(folder, with);
    EXPECT_EQ(or_throw(w.resume()), resumed_at);
    p.run(steps);
    EXPECT_EQ(p.result_of(), expected) << ranks << " ranks";
  });
}
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}
/// Changes a byte of a file; counts from the end if `offset` is negative.
void flip(const std::string& path, std::int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file);
  const auto place = offset < 0 ? std::ios::end : std::ios::beg;
  file.seekg(offset, place);
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(offset, place);
  file.put(byte);
}

TEST(WorldState, ResumesOnAnyNumberOfRanks) {
  for (const layout& cut : {rows(2), columns(4), blocks(3, 2)}) {
    test::temp_folder folder;
    std::int64_t done = 0;
    for (const runtime::rank_id ranks : {2U, 3U, 1U, 4U, 2U}) {
      run_to(done + 3, ranks, cut, folder / "state", done);
      done += 3;
    }
  }
}

TEST(WorldState, KeepsTheNewestGenerationsAlone) {
  test::temp_folder folder;
  run_to(9, 3, rows(2), folder.path(), 0);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"lock", "state-4.manifest", "state-4.rank-0.part",
                                      "state-4.rank-1.part", "state-4.rank-2.part",
                                      "state-5.manifest", "state-5.rank-0.part",
                                      "state-5.rank-1.part", "state-5.rank-2.part"}));
  run_to(12, 1, rows(2), folder.path(), 9, {.every = 2, .kept = 1});
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"lock", "state-7.manifest",
                                                               "state-7.rank-0.part"}));
}

TEST(WorldState, PartsOfRanksMayLieInFoldersOfTheirOwn) {
  test::temp_folder folder;
  const auto run = [&](runtime::rank_id ranks, std::int64_t steps, std::int64_t from) {
    run_ranks(ranks, [&](world& w, runtime::rank_id r) {
      state_program p(w, rows(2));
      p.open(folder / "state",
             {.every = 2, .kept = 1, .parts = folder / ("disk" + std::to_string(r))});
      EXPECT_EQ(or_throw(w.resume()), from);
      p.run(steps);
      EXPECT_EQ(p.result_of(), expected_after(steps, rows(2)));
    });
  };
  run(2, 4, 0);
  // The lock of the state holds its identity.
  std::string identity;
  ASSERT_TRUE(std::getline(std::ifstream(folder / "state" + "/lock"), identity));
  EXPECT_EQ(names_in(folder / "disk1"),
            std::vector<std::string>{"state-2.rank-1.of-" + identity + ".part"});
  run(3, 8, 4);
  EXPECT_EQ(names_in(folder / "disk1"),
            std::vector<std::string>{"state-4.rank-1.of-" + identity + ".part"});
}

TEST(WorldState, StatesWithOneFolderOfPartsLeaveThePartsOfEachOtherAlone) {
  test::temp_folder folder;
  const auto run = [&](const std::string& state, std::int64_t steps, std::int64_t from) {
    run_to(steps, 2, rows(2), folder / state, from,
           {.every = 2, .kept = 1, .parts = folder / "disk"});
  };
  run("first", 4, 0);
  // The other state has no generations, and then generations of the same numbers.
  run("second", 4, 0);
  EXPECT_EQ(names_in(folder / "disk").size(), 4u);
  run("first", 6, 4);
  run("second", 6, 4);
  EXPECT_EQ(names_in(folder / "disk").size(), 4u);
}

TEST(WorldState, PartsWithoutAManifestAreRemovedAtTheStart) {
  test::temp_folder folder;
  run_to(4, 2, rows(2), folder.path(), 0);
  fs::remove(folder / "state-2.manifest");
  std::ofstream(folder / "state-9.rank-7.part") << "of a run that was killed";
  std::ofstream(folder / "state-9.manifest.1-2.tmp") << "of a run that was killed";
  std::ofstream(folder / "state-9.rank-7.parts") << "of the user";
  run_to(2, 2, rows(2), folder.path(), 2);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"lock", "state-1.manifest", "state-1.rank-0.part",
                                      "state-1.rank-1.part", "state-9.rank-7.parts"}));
}

/// Returns the folder of the parts of a rank; empty: that of the state.
using folder_of_rank = std::function<std::string(runtime::rank_id)>;

/// Returns the error of a resume of three ranks, which all of them get.
error refusal_of_three(const std::string& folder, const layout& cut,
                       const std::function<void(world&, state_program&)>& then = {},
                       const folder_of_rank& parts = {}) {
  std::mutex guard;
  std::vector<error> all;
  run_ranks(3, [&](world& w, runtime::rank_id r) {
    state_program p(w, cut);
    p.open(folder, {.every = 2, .parts = parts ? parts(r) : ""});
    const auto resumed = w.resume();
    ASSERT_FALSE(resumed);
    {
      const std::lock_guard lock(guard);
      all.push_back(resumed.error());
    }
    if (then) {
      then(w, p);
    }
  });
  EXPECT_EQ(all.size(), 3U);
  for (const error& one : all) {
    EXPECT_EQ(one.message(), all[0].message());
  }
  return all.at(0);
}

/// Returns the words for the part of a rank of this machine in errors.
std::string name_of_part(runtime::rank_id rank, int generation) {
  std::array<char, 64> machine{};
  EXPECT_EQ(::gethostname(machine.data(), machine.size() - 1), 0);
  return "the part of rank " + std::to_string(rank) + " on " + machine.data() +
         " of generation " + std::to_string(generation);
}

TEST(WorldState, ADamagedPartIsNamedAndAnOlderGenerationIsOffered) {
  struct damage {
    errc code;
    std::function<void(const std::string&)> plant;
  };
  const std::vector<damage> all{
      {errc::not_found, [](const std::string& part) { fs::remove(part); }},
      {errc::torn, [](const std::string& part) { fs::resize_file(part, 100); }},
      {errc::hash_mismatch, [](const std::string& part) { flip(part, 3); }},
      {errc::hash_mismatch, [](const std::string& part) { flip(part, -1); }}};
  for (const damage& one : all) {
    test::temp_folder folder;
    run_to(6, 4, rows(2), folder.path(), 0);
    one.plant(folder / "state-3.rank-2.part");
    const error found =
        refusal_of_three(folder.path(), rows(2), [](world& w, state_program& p) {
          EXPECT_EQ(or_throw(w.resume(2)), 4);
          p.run(7);
          EXPECT_EQ(p.result_of(), expected_after(7, rows(2)));
        });
    EXPECT_EQ(found.code(), one.code) << found.message();
    EXPECT_NE(found.text().find(name_of_part(2, 3)), std::string::npos)
        << found.message();
    EXPECT_EQ(found.location(), folder / "state-3.rank-2.part");
    EXPECT_NE(found.hint().find("generation 2, saved at step 4, is complete"),
              std::string::npos)
        << found.message();
  }
}

TEST(WorldState, AMissingPartInAFolderOfItsOwnIsNamed) {
  test::temp_folder folder;
  const folder_of_rank disk = [&folder](runtime::rank_id r) {
    return folder / ("disk" + std::to_string(r));
  };
  run_ranks(3, [&](world& w, runtime::rank_id r) {
    state_program p(w, rows(2));
    p.open(folder / "state", {.every = 2, .parts = disk(r)});
    EXPECT_EQ(or_throw(w.resume()), 0);
    p.run(6);
    or_throw(w.wait());
  });
  std::string identity;
  ASSERT_TRUE(std::getline(std::ifstream(folder / "state" + "/lock"), identity));
  const std::string ending = ".rank-1.of-" + identity + ".part";
  ASSERT_EQ(names_in(disk(1)),
            (std::vector<std::string>{"state-2" + ending, "state-3" + ending}));
  fs::remove(disk(1) + "/state-3" + ending);
  const error found = refusal_of_three(
      folder / "state", rows(2),
      [](world& w, state_program& p) {
        EXPECT_EQ(or_throw(w.resume(2)), 4);
        p.run(7);
        EXPECT_EQ(p.result_of(), expected_after(7, rows(2)));
      },
      disk);
  EXPECT_EQ(found.code(), errc::not_found);
  EXPECT_NE(found.text().find(name_of_part(1, 3)), std::string::npos) << found.message();
  EXPECT_EQ(found.location(), disk(1) + "/state-3" + ending);
  EXPECT_NE(found.hint().find("generation 2, saved at step 4, is complete"),
            std::string::npos)
      << found.message();

  fs::remove_all(disk(2));  // a disk that is gone has the parts of all generations
  const error gone = refusal_of_three(folder / "state", rows(2), {}, disk);
  EXPECT_EQ(gone.code(), errc::not_found);
  EXPECT_NE(gone.text().find("the part of rank 2 on "), std::string::npos)
      << gone.message();
  EXPECT_NE(gone.hint().find("no older generation is complete"), std::string::npos)
      << gone.message();
}

TEST(WorldState, ADamagedManifestIsNamed) {
  test::temp_folder folder;
  run_to(6, 2, rows(2), folder.path(), 0);
  flip(folder / "state-3.manifest", 40);
  const error found = refusal_of_three(folder.path(), rows(2));
  EXPECT_EQ(found.code(), errc::corrupt);
  EXPECT_EQ(found.location(), folder / "state-3.manifest");
  EXPECT_NE(found.hint().find("generation 2"), std::string::npos);
  fs::remove(folder / "state-2.rank-0.part");
  EXPECT_NE(refusal_of_three(folder.path(), rows(2)).hint().find("no older generation"),
            std::string::npos);
}

TEST(WorldState, EveryDamagedByteOfAManifestIsFound) {
  runtime::state_manifest m;
  m.generation = 7;
  m.step = 350;
  m.items = {{"a", dtype::fp64, {4, 6}, {2, 6}}, {"b", dtype::fp32, {}, {}}};
  m.values = {{}, byte_vector(4)};
  m.parts = {{"machine", "state-7.rank-0.part", 200, 1}, {"other", "/x/y", 300, 2}};
  const byte_vector whole = runtime::encode_manifest(m);
  const auto again = or_throw(runtime::decode_manifest(whole, "m"));
  EXPECT_EQ(again.items, m.items);
  EXPECT_EQ(again.values, m.values);
  EXPECT_EQ(again.parts[1].path, "/x/y");
  EXPECT_EQ(again.step, 350);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    byte_vector damaged = whole;
    damaged[i] ^= std::byte{1};
    EXPECT_FALSE(runtime::decode_manifest(damaged, "m")) << i;
    EXPECT_FALSE(runtime::decode_manifest(bytes_view(whole).first(i), "m")) << i;
    // Fields are checked, too, if a digest vouches for damaged ones.
    store_le(damaged.data() + damaged.size() - 8,
             xxh3_64(bytes_view(damaged).first(damaged.size() - 8)));
    static_cast<void>(runtime::decode_manifest(damaged, "m"));
  }
}

TEST(WorldState, NoPartOutsideOfTheFoldersOfAManifestIsRemoved) {
  test::temp_folder folder;
  fs::create_directories(folder / "state" + "/inner");
  fs::create_directories(folder / "disk");
  runtime::state_manifest m;
  m.generation = 7;
  m.items = {{"b", dtype::fp32, {}, {}}};
  m.values = {byte_vector(4)};
  const std::string outside = folder / "state-7.rank-0.part";
  const std::string inner = folder / "state/inner/state-7.rank-1.part";
  const std::string common = folder / "state/state-7.rank-2.part";
  const std::string own = folder / "disk/state-7.rank-3.part";
  m.parts = {{"a", "../state-7.rank-0.part", 1, 1},
             {"a", "inner/state-7.rank-1.part", 1, 1},
             {"a", "state-7.rank-2.part", 1, 1},
             {"a", own, 1, 1}};
  for (const std::string& path : {outside, inner, common, own}) {
    std::ofstream(path) << "a part";
  }
  const byte_vector bytes = runtime::encode_manifest(m);
  std::ofstream(folder / "state/state-7.manifest", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),  // NOLINT: bytes
             static_cast<std::streamsize>(bytes.size()));
  runtime::remove_generation(posix_file_system(), folder / "state", 7);
  EXPECT_FALSE(fs::exists(folder / "state/state-7.manifest"));
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_TRUE(fs::exists(inner));
  EXPECT_FALSE(fs::exists(common));
  EXPECT_FALSE(fs::exists(own)) << "an own folder of a rank has an absolute path";
}

TEST(WorldState, OtherTilesAndNamesAreRefusedWithBoth) {
  test::temp_folder folder;
  run_to(2, 2, rows(2), folder.path(), 0);
  const error tiles = refusal_of_three(folder.path(), rows(3));
  EXPECT_EQ(tiles.code(), errc::config_mismatch);
  EXPECT_EQ(
      tiles.text(),
      "cannot resume another state: expected, as in the program, \"field\": float64 "
      "[11, 9] in tiles [3, 9], found in the stored state \"field\": float64 [11, "
      "9] in tiles [2, 9]");
  engine e(1);
  world w(e);
  auto other = w.make<double>(rows(2), 11, 9);
  w.checkpoint(folder.path(), {}, named("velocity", other));
  const auto names = w.resume();
  ASSERT_FALSE(names);
  EXPECT_NE(names.error().text().find("\"velocity\""), std::string::npos);
  EXPECT_NE(names.error().text().find("\"field\""), std::string::npos);
}

TEST(WorldState, AFolderIsOpenInOneRunAtATime) {
  test::temp_folder folder;
  engine e(1);
  world w(e);
  state_program p(w, rows(2));
  p.open(folder.path(), {});
  engine e2(1);
  world w2(e2);
  state_program p2(w2, rows(2));
  EXPECT_THROW(p2.open(folder.path(), {}), std::runtime_error);
  EXPECT_EQ(or_throw(w.resume()), 0);
  const auto missing = w.resume(3);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
}

/// The real file system, with writes that fail.
class full_disk final : public test::real_files {
 public:
  /// Part of the path of files that cannot be written.
  std::string full;
  std::atomic<bool> active{true};

  class handle final : public test::real_file {
   public:
    handle(std::unique_ptr<file> real, const full_disk& disk)
        : real_file(std::move(real)), disk_(disk) {}
    result<std::size_t> write_some(std::uint64_t offset, bytes_view bytes) override {
      if (disk_.active && path().find(disk_.full) != std::string::npos) {
        return error(errc::no_space, "cannot write \"" + path() + "\": injected");
      }
      return real_file::write_some(offset, bytes);
    }

   private:
    const full_disk& disk_;
  };
  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    WEIR_TRY(auto real, real_files::open(path, mode));
    return std::unique_ptr<file>(std::make_unique<handle>(std::move(real), *this));
  }
};

TEST(WorldState, AFullDiskOfOneRankVoidsTheGenerationOnAll) {
  for (const std::string full : {"rank-1.part", "rank-0.part", ".manifest"}) {
    test::temp_folder folder;
    full_disk disk;
    disk.full = full;
    std::mutex guard;
    std::vector<std::string> warnings;
    runtime::state_options with{.every = 2};
    with.files = &disk;
    with.warn = [&](const std::string& text) {
      const std::lock_guard lock(guard);
      warnings.push_back(text);
    };
    disk.active = false;
    run_to(2, 3, rows(2), folder.path(), 0, with);
    disk.active = true;
    run_to(5, 3, rows(2), folder.path(), 2, with);  // the run goes on
    EXPECT_EQ(warnings.size(), 2U) << full;
    EXPECT_NE(warnings.at(0).find("generation 2 of the state"), std::string::npos);
    EXPECT_NE(warnings.at(0).find("injected"), std::string::npos);
    EXPECT_NE(warnings.at(0).find("the newest generation is 1"), std::string::npos);
    EXPECT_EQ(names_in(folder.path()).size(), 5U) << "lock and generation 1";
    disk.active = false;
    run_to(7, 2, rows(2), folder.path(), 2, with);
    EXPECT_EQ(warnings.size(), 2U);
  }
}

TEST(WorldState, NoGenerationIsWrittenAfterAFailure) {
  test::temp_folder folder;
  run_ranks(2, [&](world& w, runtime::rank_id) {
    state_program p(w, rows(2));
    p.open(folder.path(), {.every = 1});
    p.run(1);
    w.submit(
        "fail",
        [](view<double, 2>) -> result<void> { return error(errc::io, "planned"); },
        update(p.now.of_tile(p.now.tiles()[4])));
    p.run(1);
    EXPECT_FALSE(w.wait());
    ASSERT_EQ(or_throw(w.resume()), 1);  // what was poisoned is written again
    p.run(2);
    EXPECT_EQ(p.result_of(), expected_after(2, rows(2)));
  });
}

/// Counts to `steps` in a world of one rank and returns the step from which it resumed.
std::int64_t count_to(const std::string& folder, file_system& files, std::int64_t steps) {
  engine e(1);
  world w(e);
  auto field = w.make<double>(rows(1), 2);
  w.checkpoint(folder, {.every = 1, .kept = 1, .files = &files}, field);
  const std::int64_t from = or_throw(w.resume());
  const auto found = or_throw(w.elements(field));
  EXPECT_EQ(found(0), static_cast<double>(from));
  EXPECT_EQ(found(1), static_cast<double>(from));
  w.repeat(steps, [&](std::int64_t) {
    for (const auto& box : field.tiles()) {
      w.submit(
          "count", [](view<double, 1> one) { one(0) += 1; }, update(field.of_tile(box)));
    }
    or_throw(w.wait());
  });
  or_throw(w.wait());
  return from;
}

TEST(WorldState, ACrashAtAnyInstantLeavesACompleteGeneration) {
  test::temp_folder folder;  // has the lock; everything else is in memory
  std::map<test::disk, std::int64_t> states;  // and the step that each must have
  test::faulty_files disk;
  disk.after_change = [&] {
    std::int64_t durable = 0;
    for (std::int64_t next = 2; next <= 4; ++next) {
      if (disk.exists(folder / ("state-" + std::to_string(next) + ".rank-0.part"))) {
        durable = next - 1;  // the save before has ended
      }
    }
    for (const test::disk& one :
         disk.crash_states(test::disk_model::posix, [](const std::string& path) {
           return path.find("/state-") != std::string::npos;
         })) {
      states[one] = std::max(states[one], durable);
    }
  };
  EXPECT_EQ(count_to(folder.path(), disk, 4), 0);
  std::set<std::int64_t> steps;
  for (const auto& [found, at_least] : states) {
    test::faulty_files after(found);
    const std::int64_t from = count_to(folder.path(), after, 5);
    EXPECT_GE(from, at_least);
    steps.insert(from);
  }
  EXPECT_GT(states.size(), 20U);
  EXPECT_EQ(steps, (std::set<std::int64_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace weir
