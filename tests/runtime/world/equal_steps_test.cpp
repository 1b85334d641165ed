// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loops whose program promises equal steps: replayed steps do not call the body, and the
/// results, the saved states and the program's variables are those of calling it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_folder.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

/// Numbers on a ring of tensors, each of which is made from the one before it. Steps
/// repeat after as many steps as there are tensors.
struct ring {
  ring(world& ranks, std::size_t tensors) : w(ranks) {
    for (std::size_t i = 0; i < tensors; ++i) {
      all.push_back(w.make<double>(rows(2), 14));
      for (const auto& box : all.back().tiles()) {
        w.submit(
            "fill",
            [box](view<double, 1> out) {
              for (std::int64_t k = 0; k < out.extent(0); ++k) {
                out(k) = static_cast<double>((box.lo[0] + k) * 37 % 10);
              }
            },
            write(all.back().of_tile(box)));
      }
    }
  }
  /// Makes the second tensor from the first one and puts the first one behind all others.
  void step() {
    ++calls;
    const auto& from = all.front();
    const auto& to = all[1 % all.size()];
    for (const auto& box : from.tiles()) {
      const auto mean = [](wrapped_view<double, 1> in, view<double, 1> out) {
        for (std::int64_t k = 0; k < out.extent(0); ++k) {
          out(k) = (in(k - 1) + 2 * in(k) + in(k + 1)) / 4 + out(k) / 8;
        }
      };
      w.submit("mean", mean, read(from.wrapped(box, 1)), update(to.of_tile(box)));
    }
    std::rotate(all.begin(), all.begin() + 1, all.end());
  }
  std::vector<double> elements() {
    std::vector<double> out;
    for (const auto& one : all) {
      const auto found = or_throw(w.elements(one));
      for (std::int64_t i = 0; i < found.extent(0); ++i) {
        out.push_back(found(i));
      }
    }
    return out;
  }
  /// Names all tensors in their present order.
  void checkpoint(const std::string& folder, std::int64_t every) {
    std::vector<named_state<world_tensor<double, 1>>> names;
    for (std::size_t i = 0; i < all.size(); ++i) {
      names.push_back(named("tensor " + std::to_string(i), all[i]));
    }
    if (names.size() == 2) {
      w.checkpoint(folder, {.every = every}, names[0], names[1]);
    } else {
      w.checkpoint(folder, {.every = every}, names[0], names[1], names[2]);
    }
  }
  world& w;
  std::vector<world_tensor<double, 1>> all;
  int calls = 0;  ///< of the body
};

/// Runs a body on a thread for each rank; on one rank without a transport.
void on_equal_ranks(runtime::rank_id ranks, std::uint64_t seed, std::uint32_t window,
                    const std::function<void(world&, runtime::rank_id)>& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 3, .seed = seed});
  std::vector<std::thread> threads;
  for (runtime::rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      runtime::engine_options o;
      o.workers = 1 + r % 2;
      o.window = r == 1 ? 8 : window;  // rank 1 can replay no period
      engine e(o);
      world w(e, net.transport_of(r));
      body(w, r);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

/// Returns the elements after a number of steps, each submitted by one rank.
std::vector<double> serial_elements(std::size_t tensors, std::int64_t steps) {
  engine e;
  world w(e);
  ring numbers(w, tensors);
  for (std::int64_t s = 0; s < steps; ++s) {
    numbers.step();
  }
  return numbers.elements();
}

TEST(EqualSteps, HaveTheResultsOfStepsThatAreCalled) {
  for (const std::size_t tensors : {2U, 3U}) {
    for (const std::int64_t steps : {3, 40, 41}) {  // 41 ends inside of a period
      const auto expected = serial_elements(tensors, steps);
      for (const runtime::rank_id ranks : {1U, 2U, 4U}) {
        on_equal_ranks(ranks, 5, 256, [&](world& w, runtime::rank_id rank) {
          ring numbers(w, tensors);
          w.repeat(steps, equal_steps(), [&](std::int64_t) { numbers.step(); });
          const int called = numbers.calls;
          EXPECT_EQ(numbers.elements(), expected)
              << tensors << " tensors, " << ranks << " ranks, " << steps << " steps";
          const bool replays = ranks > 1 && rank != 1 && steps >= 40;
          // Two periods are compared, one is recorded, one may be needed to be sure of
          // the ledger, and up to two steps are no whole period.
          EXPECT_EQ(called < steps, replays) << called << " calls on rank " << rank;
          EXPECT_LE(called, replays ? 14 : steps);
        });
      }
    }
  }
}

TEST(EqualSteps, AreSavedBetweenPeriodsAndInside) {
  for (const std::size_t tensors : {2U, 3U}) {
    const test::temp_folder folder;
    const std::string path = folder.path() + "/state";
    const auto expected = serial_elements(tensors, 61);
    on_equal_ranks(3, 7, 256, [&](world& w, runtime::rank_id) {
      ring numbers(w, tensors);
      numbers.checkpoint(path, 7);
      w.repeat(47, equal_steps(), [&](std::int64_t) { numbers.step(); });
      or_throw(w.wait());
    });
    on_equal_ranks(2, 8, 256, [&](world& w, runtime::rank_id) {
      ring numbers(w, tensors);
      numbers.checkpoint(path, 7);
      EXPECT_EQ(or_throw(w.resume()), 47);
      w.repeat(61, equal_steps(), [&](std::int64_t) { numbers.step(); });
      EXPECT_EQ(numbers.elements(), expected);
    });
  }
}

TEST(EqualSteps, ThatAreStoppedGoOnWithTheSameResult) {
  constexpr std::int64_t steps = 400;
  const auto expected = serial_elements(2, steps);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const test::temp_folder folder;
    const std::string path = folder.path() + "/state";
    std::array<std::int64_t, 3> stopped_at{};
    on_equal_ranks(3, seed, 256, [&](world& w, runtime::rank_id rank) {
      ring numbers(w, 2);
      numbers.checkpoint(path, 0);
      std::thread asks([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(300 * seed));
        if (rank == seed % 3) {
          w.ask_to_stop();
        }
      });
      w.repeat(steps, equal_steps(), [&](std::int64_t) { numbers.step(); });
      stopped_at.at(rank) = w.stopped_at();
      asks.join();
    });
    EXPECT_EQ(stopped_at[0], stopped_at[1]);
    EXPECT_EQ(stopped_at[0], stopped_at[2]);
    on_equal_ranks(2, seed, 256, [&](world& w, runtime::rank_id) {
      ring numbers(w, 2);
      numbers.checkpoint(path, 0);
      const std::int64_t first = or_throw(w.resume());
      EXPECT_EQ(first, std::max<std::int64_t>(stopped_at[0], 0)) << "seed " << seed;
      w.repeat(steps, equal_steps(), [&](std::int64_t) { numbers.step(); });
      EXPECT_EQ(numbers.elements(), expected) << "seed " << seed;
    });
  }
}

}  // namespace
}  // namespace weir
