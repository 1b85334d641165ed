// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs whose tasks run at random places equal the run in one memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "places/guarded_memory.hpp"
#include "random_programs.hpp"
#include "support/case_count.hpp"
#include "tensors.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

/// Faults that tests plant to see that the comparison finds them.
enum class planted { none, forgotten_write, short_piece };

/// A task of a placed program and where it runs.
struct placed_step {
  const program* source;
  program_memory* memory;  ///< memory of the place
  guarded_memory* guard;
  std::size_t index;
  place_id place;
};

/// Returns true if the task writes every byte that it may write.
bool writes_whole(const program_task& t) {
  return t.salt % 3 == 0;
}

/// Runs a task, which may set all bytes of its writes.
void run_placed_task(const program_task& t, std::size_t index, program_memory& m) {
  run_task(t, index, m);
  for (const program_access& a : t.accesses) {
    if (writes_whole(t) && a.mode == access_mode::write) {
      for_each_byte(a.view.offset(), a.view.shape(), a.view.strides(),
                    info_of(a.view.type()).size, [&](std::int64_t b) {
                      m.bases[a.storage][b] = static_cast<std::byte>(
                          mix(t.salt, static_cast<std::uint64_t>(b)) >> 9);
                    });
    }
  }
}

/// One program on an engine whose tasks run at random places.
class placed_program {
 public:
  placed_program(engine& e, const program& p, dice& d, planted fault)
      : engine_(e), source_(p), dice_(d), fault_(fault) {
    memory_.loses_last_byte = fault == planted::short_piece;
    at_place_.resize(guarded_memory::places);
    for (const std::int64_t size : p.sizes) {
      stores_.push_back(or_throw(e.allocate(size, "program")));
      fill(stores_.back().base, size);
      serial_bytes_.emplace_back(stores_.back().base, stores_.back().base + size);
    }
    for (place_id place = 0; place < guarded_memory::places; ++place) {
      at_place_[place].seen.resize(p.tasks.size());
      for (const storage& s : stores_) {
        at_place_[place].bases.push_back(
            or_throw(places_.copy_in(bytes_of(s), place)).store().base);
      }
    }
  }
  ~placed_program() {
    for (const storage& s : stores_) {
      EXPECT_TRUE(places_.release(s.id));
    }
    EXPECT_EQ(memory_.mappings(), 0U);
  }
  placed_program(const placed_program&) = delete;
  placed_program& operator=(const placed_program&) = delete;

  /// Submits all tasks.
  void submit() {
    for (std::size_t i = 0; i < source_.tasks.size(); ++i) {
      where_.push_back(static_cast<place_id>(dice_.in(0, guarded_memory::places - 1)));
      ids_.push_back(submit_task(i));
      if (dice_.one_in(10)) {
        ASSERT_TRUE(places_.bring(bytes_of(stores_[0]), 1));
      } else if (dice_.one_in(10)) {
        engine_.run_one();
      }
    }
  }
  /// Returns true if reads and memory equal those of the serial run.
  bool equals_serial() {
    program_memory serial{{}, std::vector<std::uint64_t>(source_.tasks.size())};
    for (auto& bytes : serial_bytes_) {
      serial.bases.push_back(bytes.data());
    }
    bool equal = true;
    for (std::size_t i = 0; i < source_.tasks.size(); ++i) {
      run_placed_task(source_.tasks[i], i, serial);
    }
    for (std::size_t k = 0; k < stores_.size(); ++k) {
      EXPECT_TRUE(places_.wait(bytes_of(stores_[k])));
      equal = equal && std::memcmp(stores_[k].base, serial_bytes_[k].data(),
                                   serial_bytes_[k].size()) == 0;
    }
    EXPECT_TRUE(engine_.wait_all());
    for (std::size_t i = 0; i < source_.tasks.size(); ++i) {
      equal = equal && at_place_[where_[i]].seen[i] == serial.seen[i];
    }
    return equal;
  }
  /// Expects a failure of each task that fails or is poisoned in one memory, and success
  /// of all tasks before the first failure.
  void check_failures() {
    const auto roots = expected_roots(source_, 1);
    bool failed = false;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      failed = failed || source_.tasks[i].fails;
      const auto outcome = engine_.wait(ids_[i]);
      EXPECT_FALSE(roots[i] != 0 && outcome) << "task " << i;
      EXPECT_FALSE(!failed && !outcome) << "task " << i;
    }
    EXPECT_EQ(engine_.wait_all().has_value(), !failed);
  }

 private:
  static void fill(std::byte* base, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) {
      base[i] = static_cast<std::byte>(mix(77, static_cast<std::uint64_t>(i)) >> 13);
    }
  }
  task_id submit_task(std::size_t i) {
    const placed_step step{&source_, &at_place_[where_[i]], &memory_, i, where_[i]};
    const auto kernel = [step](const task_context&) -> result<void> {
      const guarded_memory::visit open(*step.guard, step.place);
      const program_task& task = step.source->tasks[step.index];
      delay(task.delay);
      if (task.fails) {
        return error(errc::io, "injected failure");
      }
      run_placed_task(task, step.index, *step.memory);
      return {};
    };
    std::vector<placed_access> accesses;
    for (const program_access& a : source_.tasks[i].accesses) {
      const tensor t =
          or_throw(tensor::strided(stores_[a.storage], a.view.type(), a.view.offset(),
                                   a.view.shape(), a.view.strides()));
      accesses.emplace_back(access{t.bytes(), a.mode});
      accesses.back().whole =
          a.mode == access_mode::write && writes_whole(source_.tasks[i]);
      if (fault_ == planted::forgotten_write && i % 3 == 0) {
        or_throw(places_.bring(t, where_[i]));
        accesses.back().bytes = or_throw(places_.copy_in(t, where_[i])).bytes();
      }
    }
    if (fault_ == planted::forgotten_write && i % 3 == 0) {  // the ledger is not told
      const std::vector<access> unseen(accesses.begin(), accesses.end());
      return or_throw(engine_.submit("step", unseen, kernel));
    }
    return or_throw(places_.submit(where_[i], "step", accesses, kernel));
  }

  engine& engine_;
  const program& source_;
  dice& dice_;
  planted fault_;
  guarded_memory memory_;
  places places_{engine_, memory_, guarded_memory::places};
  std::vector<storage> stores_;
  std::vector<std::vector<std::byte>> serial_bytes_;
  std::vector<program_memory> at_place_;
  std::vector<place_id> where_;
  std::vector<task_id> ids_;
};

std::unique_ptr<engine> make_placed_engine(dice& d, unsigned workers) {
  engine_options o;
  o.workers = workers;
  o.window = d.one_in(2) ? 64 : 1U << d.in(1, 3);
  return or_throw(engine::create(o));
}

class Places : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, Places, testing::Values(1U, 2U, 3U));

TEST_P(Places, RandomProgramsEqualTheRunInOneMemory) {
  dice d(500 + GetParam());
  std::unique_ptr<engine> e;
  for (std::uint64_t i = 0; i < case_count("WEIR_TEST_PLACED", 120); ++i) {
    if (i % 20 == 0) {
      e = make_placed_engine(d, GetParam());
    }
    const program p = random_program(d, 0);
    placed_program run(*e, p, d, planted::none);
    run.submit();
    ASSERT_TRUE(run.equals_serial()) << "program " << i;
  }
}

TEST_P(Places, FailuresReachAllTasksThatTheyReachInOneMemory) {
  dice d(600 + GetParam());
  const auto e = make_placed_engine(d, GetParam());
  for (std::uint64_t i = 0; i < case_count("WEIR_TEST_PLACED", 60); ++i) {
    const program p = random_program(d, 12);
    placed_program run(*e, p, d, planted::none);
    run.submit();
    run.check_failures();
    ASSERT_FALSE(HasFailure()) << "program " << i;
  }
}

/// Returns how many of 40 programs differ from the serial run.
int programs_that_differ(planted fault) {
  dice d(700);
  const auto e = make_placed_engine(d, 2);
  int differ = 0;
  for (int i = 0; i < 40; ++i) {
    const program p = random_program(d, 0);
    placed_program run(*e, p, d, fault);
    run.submit();
    differ += run.equals_serial() ? 0 : 1;
  }
  return differ;
}

TEST(PlacesFaults, APlantedFaultIsFound) {
  EXPECT_EQ(programs_that_differ(planted::none), 0);
  EXPECT_GE(programs_that_differ(planted::forgotten_write), 10);
  EXPECT_GE(programs_that_differ(planted::short_piece), 10);
}

/// An engine with one worker and guarded places.
struct one_worker {
  std::unique_ptr<engine> tasks = or_throw(engine::create({}));
  guarded_memory memory;
  places all{*tasks, memory, guarded_memory::places};

  /// Makes a tensor of fp64 elements.
  tensor make(std::int64_t rows, std::int64_t columns) {
    const storage s = or_throw(tasks->allocate(rows * columns * 8, "test"));
    const std::array<std::int64_t, 2> shape{rows, columns};
    return or_throw(tensor::over(s, dtype::fp64, shape));
  }
  /// Adds one to each element of a slice of dense rows, in a place.
  void add_one(const tensor& rows, place_id place) {
    double* first = or_throw(all.copy_in(rows, place)).as<double>();
    const std::int64_t count = rows.count();
    guarded_memory* guard = &memory;
    or_throw(all.submit(place, "add", std::array{placed_access(updates(rows))},
                        [first, count, guard, place](const task_context&) {
                          const guarded_memory::visit open(*guard, place);
                          for (std::int64_t i = 0; i < count; ++i) {
                            first[i] += 1;
                          }
                        }));
  }
};

TEST(PlacesCopies, APieceGoesOncePerVersion) {
  one_worker w;
  const tensor t = w.make(8, 4);
  w.add_one(or_throw(t.slice(0, 0, 4)), 1);
  EXPECT_EQ(w.all.counters().bytes, 4 * 4 * 8);
  w.add_one(or_throw(t.slice(0, 0, 4)), 1);  // the bytes are there
  EXPECT_EQ(w.all.counters().copies, 1U);
  or_throw(w.all.wait(t));  // only the rows that were written come back
  or_throw(w.all.wait(t));
  EXPECT_EQ(w.all.counters().copies, 2U);
  EXPECT_EQ(w.all.counters().bytes, 2 * 4 * 4 * 8);
  EXPECT_EQ(t.as<double>()[15], 2);
  EXPECT_EQ(t.as<double>()[16], 0);
}

TEST(PlacesCopies, BytesThatAreOverwrittenAreNotCopied) {
  one_worker w;
  const tensor t = w.make(4, 4);
  auto* first = or_throw(w.all.copy_in(t, 2)).as<double>();
  guarded_memory* guard = &w.memory;
  or_throw(w.all.submit(2, "set", std::array{overwrites(t)},
                        [first, guard](const task_context&) {
                          const guarded_memory::visit open(*guard, 2);
                          std::fill_n(first, 16, 5.0);
                        }));
  EXPECT_EQ(w.all.counters().copies, 0U);
  or_throw(w.all.wait(t));
  EXPECT_EQ(t.as<double>()[15], 5);
}

TEST(PlacesCopies, AnUpdateGetsItsOldBytesWhateverItClaims) {
  one_worker w;
  const tensor t = w.make(4, 4);
  std::fill_n(t.as<double>(), 16, 2.0);
  auto* first = or_throw(w.all.copy_in(t, 1)).as<double>();
  guarded_memory* guard = &w.memory;
  placed_access claims = updates(t);
  claims.whole = true;  // counts for plain writes alone
  or_throw(
      w.all.submit(1, "double", std::array{claims}, [first, guard](const task_context&) {
        const guarded_memory::visit open(*guard, 1);
        std::transform(first, first + 16, first, [](double v) { return 2 * v; });
      }));
  or_throw(w.all.wait(t));
  EXPECT_EQ(t.as<double>()[15], 4);
}

TEST(PlacesFailures, ACopyThatFailedIsMadeAgain) {
  one_worker w;
  const tensor t = w.make(4, 4);
  std::fill_n(t.as<double>(), 16, 3.0);
  w.memory.failing_copies = 1;
  or_throw(w.all.bring(t, 1));
  const auto failed = w.tasks->wait_all();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().text().find("injected failure of a copy"), std::string::npos);
  w.add_one(t, 1);
  ASSERT_TRUE(w.all.wait(t));
  EXPECT_EQ(t.as<double>()[15], 4);
}

TEST(PlacesFailures, ATaskBesideAFailedCopyFailsUntilTheFailureIsReported) {
  one_worker w;
  const tensor t = w.make(4, 4);
  w.memory.failing_copies = 1;
  or_throw(w.all.bring(t, 1));
  EXPECT_FALSE(w.tasks->wait(or_throw(w.all.copy_in(t, 1))));
  w.add_one(t, 1);
  EXPECT_FALSE(w.tasks->wait_all());
  w.add_one(or_throw(t.slice(0, 0, 2)), 0);  // bytes that no task should have written
  w.add_one(or_throw(t.slice(0, 2, 4)), 0);
  EXPECT_TRUE(w.tasks->wait_all());
}

TEST(PlacesCopies, FootprintsOfManyProgressionsAreCopiedInParts) {
  one_worker w;
  const storage s = or_throw(w.tasks->allocate(3 * 3 * 3 * 3 * 3 * 3, "test"));
  const std::array<std::int64_t, 6> shape{3, 3, 3, 3, 3, 3};
  const tensor all = or_throw(tensor::over(s, dtype::uint8, shape));
  tensor corners = all;
  for (int dim = 0; dim < 6; ++dim) {
    corners = or_throw(corners.slice(dim, 0, 3, 2));
  }
  ASSERT_EQ(corners.bytes().depth, 6);
  for (std::int64_t i = 0; i < s.size; ++i) {
    s.base[i] = static_cast<std::byte>(i % 251);
  }
  or_throw(w.all.bring(corners, 1));
  or_throw(w.tasks->wait_all());
  EXPECT_EQ(w.all.counters().copies, 4U);
  EXPECT_EQ(w.all.counters().bytes, 64);
  const std::byte* there = or_throw(w.all.copy_in(all, 1)).data();
  const guarded_memory::visit open(w.memory, 1);
  const byte_set copied = bytes_in(corners);
  for (std::int64_t i = 0; i < s.size; ++i) {
    const bool here = copied[static_cast<std::size_t>(i)];
    EXPECT_EQ(there[i], here ? s.base[i] : std::byte{0});
  }
}

/// Notes the places of the last copy; its memory is that of the machine.
class noted_copies final : public mover {
 public:
  result<std::byte*> allocate(place_id /*place*/, std::int64_t bytes) override {
    return memory_.emplace_back(static_cast<std::size_t>(bytes)).data();
  }
  void free(place_id /*place*/, std::byte* /*base*/,
            std::int64_t /*bytes*/) noexcept override {}
  result<void> copy(const copy_order& order) override {
    last = {order.from_place, order.to_place};
    copy_bytes(order.bytes, order.from, order.to);
    return {};
  }
  std::pair<place_id, place_id> last;

 private:
  std::vector<std::vector<std::byte>> memory_;
};

TEST(PlacesCopies, TheMoverIsToldPlacesWithLargeNumbers) {
  const auto tasks = or_throw(engine::create({}));
  noted_copies memory;
  places all(*tasks, memory, copy_ledger::max_holders);
  const storage s = or_throw(tasks->allocate(8, "test"));
  const std::array<std::int64_t, 1> shape{8};
  const tensor t = or_throw(tensor::over(s, dtype::uint8, shape));
  place_id holder = machine_memory;
  for (const place_id place :
       {place_id{255}, place_id{256}, place_id{300}, copy_ledger::max_holders - 1}) {
    auto* const bytes = or_throw(all.copy_in(t, place)).data();
    or_throw(all.submit(place, "write", std::array{placed_access(updates(t))},
                        [bytes](const task_context&) { bytes[0] = std::byte{7}; }));
    or_throw(tasks->wait_all());
    EXPECT_EQ(memory.last, std::pair(holder, place));
    holder = place;
  }
}

TEST(PlacesCopies, ASecondUseOfAnUnknownPlaceIsRefused) {
  one_worker w;
  const tensor t = w.make(2, 2);
  EXPECT_EQ(w.all.copy_in(t, 4).error().code(), errc::out_of_range);
  const auto nothing = [](const task_context&) {};
  const std::array accesses{placed_access(reads(t))};
  const auto unknown = w.all.submit(1, "read", accesses, nothing);
  EXPECT_EQ(unknown.error().code(), errc::not_found);
  EXPECT_NE(unknown.error().message().find("places::copy_in makes the copy"),
            std::string::npos);
  EXPECT_TRUE(w.all.submit(0, "read", accesses, nothing));
  EXPECT_EQ(w.all.counters().copies, 0U);
}

TEST(PlacesDeathTest, AKernelOfPlaceZeroCannotTouchAnotherPlace) {
  one_worker w;
  auto* there = or_throw(w.all.copy_in(w.make(2, 2), 1)).as<double>();
  EXPECT_DEATH(
      {
        or_throw(
            w.all.submit(0, "touch", {}, [there](const task_context&) { *there = 1; }));
        static_cast<void>(w.tasks->wait_all());
      },
      "");
}

}  // namespace
}  // namespace weir::runtime
