// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small programs over world tensors, for one process or for several that a launcher of
/// MPI has started: ranks_program NAME WORKERS [DEADLINE_MS [FOLDER [MAX_UNSENT]]]. Rank
/// 0 prints a hash of the result, which must not depend on ranks, workers and launcher. A
/// rank whose wait fails prints the failure and ends with status 6. The programs that use
/// a transport without a world are in `transport_programs.cpp`.
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/case_count.hpp"
#include "transport_programs.hpp"
#include "weir/base/hash.hpp"
#include "weir/mpi/ranks.hpp"
#include "weir/weir.hpp"
#include "weir/world.hpp"
#include "world/random_worlds.hpp"

namespace {

using weir::result;
using weir::view;
using weir::world;
using matrix = weir::world_tensor<double, 2>;
using weir::test::raise_known;

/// Returns a hash of all elements, the same on every rank.
result<std::uint64_t> hash_of(world& w, const matrix& t) {
  WEIR_TRY(const auto all, w.elements(t));
  std::uint64_t h = 1469598103934665603U;
  for (std::int64_t i = 0; i < all.extent(0); ++i) {
    for (std::int64_t k = 0; k < all.extent(1); ++k) {
      h = (h ^ std::bit_cast<std::uint64_t>(all(i, k))) * 1099511628211U;
    }
  }
  return h;
}

/// Gives each element a number of its own.
void number_elements(world& w, const matrix& t) {
  for (const auto& box : t.tiles()) {
    const auto number = [box](view<double, 2> out) {
      for (std::int64_t i = 0; i < out.extent(0); ++i) {
        for (std::int64_t k = 0; k < out.extent(1); ++k) {
          out(i, k) = static_cast<double>(
              ((box.lo[0] + i) * 7919 + (box.lo[1] + k) * 104729) % 1000);
        }
      }
    };
    w.submit("number", number, weir::write(t.of_tile(box)));
  }
}

void sweep(view<const double, 2> in, view<double, 2> out) {
  for (std::int64_t i = 0; i < out.extent(0); ++i) {
    for (std::int64_t k = 0; k < out.extent(1); ++k) {
      out(i, k) =
          0.25 * (in(i, k + 1) + in(i + 2, k + 1) + in(i + 1, k) + in(i + 1, k + 2));
    }
  }
}

/// Averages over four neighbours. The tiles are rows, so pieces are rows, too.
result<std::uint64_t> heat(world& w, std::int64_t n, std::int64_t rows, int steps) {
  auto a = w.make<double>(weir::rows(rows), n, n);
  auto b = w.make<double>(weir::rows(rows), n, n);
  number_elements(w, a);
  number_elements(w, b);
  for (int step = 0; step < steps; ++step, std::swap(a, b)) {
    for (const auto& box : b.tiles_inside(1)) {
      w.submit("sweep", sweep, weir::read(a.around(box, 1)), weir::write(b.of_tile(box)));
    }
  }
  return hash_of(w, a);
}
result<std::uint64_t> small_heat(world& w) {
  return heat(w, 64, 8, 100);
}
result<std::uint64_t> large_heat(world& w) {
  return heat(w, 768, 96, 20);
}

/// As `heat`, with one call for all tiles, in steps that are replayed.
result<std::uint64_t> heat_of_tiles(world& w) {
  auto a = w.make<double>(weir::rows(6), 64, 64);
  auto b = w.make<double>(weir::rows(6), 64, 64);
  number_elements(w, a);
  number_elements(w, b);
  w.repeat(60, [&](std::int64_t) {
    w.submit_tiles("sweep", sweep, b.range(1), weir::read(a.each(1)),
                   weir::write(b.each()));
    std::swap(a, b);
  });
  return hash_of(w, a);
}

/// Averages over eight neighbours in blocks whose edges meet: pieces have corners.
result<std::uint64_t> blur(world& w) {
  auto a = w.make<double>(weir::blocks(9, 7), 40, 33);
  auto b = w.make<double>(weir::blocks(9, 7), 40, 33);
  number_elements(w, a);
  const auto kernel = [](weir::wrapped_view<double, 2> in, view<double, 2> out) {
    for (std::int64_t i = 0; i < out.extent(0); ++i) {
      for (std::int64_t k = 0; k < out.extent(1); ++k) {
        double sum = 0;
        for (std::int64_t n = 0; n < 9; ++n) {
          sum += in(i + n / 3 - 1, k + n % 3 - 1);
        }
        out(i, k) = sum / 8;
      }
    }
  };
  for (int step = 0; step < 20; ++step, std::swap(a, b)) {
    for (const auto& box : b.tiles()) {
      w.submit("blur", kernel, weir::read(a.wrapped(box, 1)),
               weir::write(b.of_tile(box)));
    }
  }
  return hash_of(w, a);
}

/// Divides rows by the sum of all elements, a number that every rank has.
result<std::uint64_t> normalise(world& w) {
  auto a = w.make<double>(weir::rows(5), 61, 17);
  number_elements(w, a);
  auto parts = w.per_tile<double>(a);
  auto total = w.everywhere<double>();
  for (int step = 0; step < 10; ++step) {
    for (const auto& box : a.tiles()) {
      const auto sum = [](view<const double, 2> in, view<double, 1> out) {
        out(0) = 1e-3;
        for (std::int64_t i = 0; i < in.extent(0); ++i) {
          for (std::int64_t k = 0; k < in.extent(1); ++k) {
            out(0) += in(i, k);
          }
        }
      };
      w.submit("sum", sum, weir::read(a.of_tile(box)),
               weir::write(parts.of_index(box.index)));
    }
    w.reduce(std::plus<>(), parts, total);
    for (const auto& box : a.tiles()) {
      const auto divide = [](view<const double, 0> by, view<double, 2> out) {
        for (std::int64_t i = 0; i < out.extent(0); ++i) {
          for (std::int64_t k = 0; k < out.extent(1); ++k) {
            out(i, k) = 1000 * out(i, k) / by() + static_cast<double>(k);
          }
        }
      };
      w.submit("divide", divide, weir::read(total), weir::update(a.of_tile(box)));
    }
  }
  return hash_of(w, a);
}

/// Mirrors a matrix, so every tile needs columns of all others: many large pieces.
result<std::uint64_t> mirror(world& w) {
  auto a = w.make<double>(weir::rows(64), 512, 512);
  auto b = w.make<double>(weir::columns(64), 512, 512);
  number_elements(w, a);
  for (int step = 0; step < 4; ++step) {
    const auto copy = [](view<const double, 2> in, view<double, 2> out) {
      for (std::int64_t i = 0; i < out.extent(0); ++i) {
        for (std::int64_t k = 0; k < out.extent(1); ++k) {
          out(i, k) = in(i, k) + 0.5 * in(out.extent(0) - 1 - i, k);
        }
      }
    };
    for (const auto& box : b.tiles()) {
      w.submit("columns", copy, weir::read(a.of_tile(box)), weir::write(b.of_tile(box)));
    }
    for (const auto& box : a.tiles()) {
      w.submit("rows", copy, weir::read(b.of_tile(box)), weir::write(a.of_tile(box)));
    }
  }
  return hash_of(w, a);
}

/// Runs random programs, as many as WEIR_TEST_RANK_PROGRAMS says, each in a world of its
/// own, and compares each with its serial run.
result<std::uint64_t> random_programs(weir::runtime::transport* link, unsigned workers) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < weir::test::case_count("WEIR_TEST_RANK_PROGRAMS", 10);
       ++i) {
    weir::test::dice d(7000 + i);
    const weir::test::program p = weir::test::random_program(d, 0);
    weir::runtime::rank_run run;
    run.source = &p;
    run.memory.seen.resize(p.tasks.size());
    weir::runtime::run_program(link, run, i, workers);
    std::vector<std::uint64_t> seen;
    if (!run.failure.empty() || run.result != weir::runtime::run_serially(p, seen)) {
      return weir::error(weir::errc::internal,
                         "random program " + std::to_string(i) +
                             ": expected the bytes of its serial run, found " +
                             (run.failure.empty() ? "others" : run.failure));
    }
    for (const auto& bytes : run.result) {
      sum = sum * 31 + weir::xxh3_64(bytes);
    }
  }
  return sum;
}

/// Makes more worlds than one communicator has channels for.
result<std::uint64_t> worlds(world& w, weir::engine& e, weir::runtime::transport* link) {
  std::uint64_t sum = 0;
  for (int i = 0; i < 100; ++i) {
    if (link == nullptr) {
      world one(e);
      WEIR_TRY(const auto h, heat(one, 16, 4, 3));
      sum += h;
    } else {
      world one(e, *link);
      WEIR_TRY(const auto h, heat(one, 16, 4, 3));
      sum += h;
    }
  }
  WEIR_TRY(const auto h, small_heat(w));
  return sum + h;
}

/// Kernels that take three times as long as a deadline of 500 ms.
result<std::uint64_t> long_kernels(world& w) {
  auto a = w.make<double>(weir::rows(1), 4, 4);
  const auto slow = [](view<double, 2> out) {
    usleep(1'500'000);
    out(0, 0) = 1;
  };
  w.submit("slow", slow, weir::write(a.of_tile(a.tiles().front())));
  return hash_of(w, a);
}

/// A kernel fails on the owner of the last tile.
result<std::uint64_t> failing(world& w) {
  auto a = w.make<double>(weir::rows(8), 64, 64);
  number_elements(w, a);
  const auto fail = [](view<double, 2>) -> result<void> {
    return weir::error(weir::errc::kernel_failed, "planted failure");
  };
  w.submit("fail", fail, weir::update(a.of_tile(a.tiles().back())));
  auto b = w.make<double>(weir::rows(8), 64, 64);
  for (const auto& box : b.tiles_inside(1)) {
    w.submit("sweep", sweep, weir::read(a.around(box, 1)), weir::write(b.of_tile(box)));
  }
  return hash_of(w, b);
}

/// The last rank submits another task.
result<std::uint64_t> diverging(world& w) {
  auto a = w.make<double>(weir::rows(8), 64, 64);
  const bool last = w.base().rank() + 1 == w.base().ranks();
  const auto nothing = [](view<double, 2>) {};
  w.submit(last ? "other" : "one", nothing, weir::write(a.of_tile(a.tiles().front())));
  return hash_of(w, a);
}

/// Adds the numbers of one row to another one.
void add_rows(view<const double, 2> in, view<double, 2> out) {
  for (std::int64_t k = 0; k < out.extent(1); ++k) {
    out(0, k) += in(0, k);
  }
}

/// Rank 0 sends pieces of `width` numbers to rank 1, which is stopped before, and waits
/// for space in the window of its engine, or in a release. It awaits no piece itself.
result<std::uint64_t> sending(world& w, std::int64_t width, int steps) {
  auto a = w.make<double>(weir::rows(1), 2, width);
  auto b = w.make<double>(weir::rows(1), 2, width);
  number_elements(w, a);
  number_elements(w, b);
  WEIR_CHECK(w.wait());
  if (w.base().rank() == 1) {
    raise_known(SIGSTOP);
  }
  const auto own = a.of_tile(a.tiles().front());
  const auto of_rank_1 = b.of_tile(b.tiles().back());
  try {
    for (int step = 0; step < steps; ++step) {
      w.submit("add", add_rows, weir::read(b.of_tile(b.tiles().front())),
               weir::update(own));
      w.submit("take", add_rows, weir::read(own), weir::update(of_rank_1));
    }
    w.release(a);
  } catch (const std::exception&) {
    WEIR_CHECK(w.wait());  // the failure with its code
    throw;
  }
  return hash_of(w, b);
}

/// Rank 1 has no space in its window before a piece comes, whose task rank 0 has not run
/// when it makes so many worlds that all ranks copy a communicator.
result<std::uint64_t> worlds_before_a_piece(world& w, weir::engine& e,
                                            weir::runtime::transport* link) {
  auto a = w.make<double>(weir::rows(1), 2, 8);
  number_elements(w, a);
  const auto piece = a.of_tile(a.tiles().front());
  for (int step = 0; step < 5000; ++step) {
    w.submit("take", add_rows, weir::read(piece),
             weir::update(a.of_tile(a.tiles().back())));
  }
  std::vector<std::unique_ptr<world>> kept;
  for (int i = 0; i < 64; ++i) {
    kept.push_back(link == nullptr ? std::make_unique<world>(e)
                                   : std::make_unique<world>(e, *link));
  }
  WEIR_TRY(const auto sum, small_heat(*kept.back()));
  WEIR_TRY(const auto h, hash_of(w, a));
  return sum + h;
}

/// The last rank ends its process, or is stopped, in the middle of the work.
result<std::uint64_t> losing(world& w, int signal) {
  auto a = w.make<double>(weir::rows(8), 64, 64);
  auto b = w.make<double>(weir::rows(8), 64, 64);
  number_elements(w, a);
  for (int step = 0; step < 100; ++step, std::swap(a, b)) {
    for (const auto& box : b.tiles_inside(1)) {
      w.submit("sweep", sweep, weir::read(a.around(box, 1)), weir::write(b.of_tile(box)));
    }
    if (step == 50) {
      WEIR_CHECK(w.wait());
      if (w.base().ranks() > 1 && w.base().rank() + 1 == w.base().ranks()) {
        raise_known(signal);
      }
    }
  }
  return hash_of(w, a);
}

/// Takes about half a second, so that a test can stop all ranks meanwhile. Rank 0 says
/// when it has begun.
result<std::uint64_t> pausing(world& w) {
  auto a = w.make<double>(weir::rows(8), 64, 64);
  auto b = w.make<double>(weir::rows(8), 64, 64);
  number_elements(w, a);
  number_elements(w, b);
  WEIR_CHECK(w.wait());
  if (w.base().rank() == 0) {
    std::printf("begun\n");
    std::fflush(stdout);
  }
  const auto slow_sweep = [](view<const double, 2> in, view<double, 2> out) {
    usleep(1000);
    sweep(in, out);
  };
  for (int step = 0; step < 250; ++step, std::swap(a, b)) {
    for (const auto& box : b.tiles_inside(1)) {
      w.submit("sweep", slow_sweep, weir::read(a.around(box, 1)),
               weir::write(b.of_tile(box)));
    }
  }
  return hash_of(w, a);
}

/// Runs worlds whose messages have numbers with gaps, so that tags are used again after
/// 256 messages from one rank to another. Each world has fewer under way.
result<std::uint64_t> wrapping(weir::engine& e, weir::runtime::transport* link) {
  weir::test::sparse_link* sparse = nullptr;
  std::unique_ptr<weir::runtime::transport> owned;
  if (link != nullptr) {
    sparse = new weir::test::sparse_link(*link, 12);
    owned.reset(sparse);
  }
  std::uint64_t sum = 0;
  {
    world one(e, owned);
    for (int i = 0; i < 10; ++i) {
      WEIR_TRY(const auto h, heat(one, 16, 4, 200));
      sum = sum * 31 + h;
    }
  }
  if (sparse != nullptr && sparse->largest() >> 20 < 3) {
    return weir::error(weir::errc::internal, "expected that tags are used several times");
  }
  return sum;
}

/// Saves its state each tenth step. The last rank is killed behind step 50.
result<std::uint64_t> saving(world& w, const std::string& folder) {
  auto a = w.make<double>(weir::rows(8), 64, 64);
  auto b = w.make<double>(weir::rows(8), 64, 64);
  number_elements(w, a);
  w.checkpoint(folder, {.every = 10}, a);
  result<void> waited;
  const auto step_of_a = [&](std::int64_t step) {
    for (const auto& box : b.tiles_inside(1)) {
      w.submit("sweep", sweep, weir::read(a.around(box, 1)), weir::write(b.of_tile(box)));
    }
    std::swap(a, b);
    waited = w.wait();
    weir::or_throw(waited);
    if (step == 50 && w.base().rank() + 1 == w.base().ranks()) {
      raise(SIGKILL);
    }
  };
  try {
    w.repeat(100, step_of_a);
  } catch (const std::exception&) {
    WEIR_CHECK(waited);
    throw;
  }
  return hash_of(w, a);
}

/// What a program may use.
struct program_place {
  world& w;
  weir::engine& tasks;
  weir::runtime::transport* link;  ///< null: this process is alone
  std::string folder;              ///< for files
};
using rank_program = std::function<result<std::uint64_t>(const program_place&)>;

/// Programs whose hash is that of one rank, on any number of ranks and workers.
const std::map<std::string, rank_program>& equal_programs() {
  static const std::map<std::string, rank_program> all{
      {"heat", [](const program_place& at) { return small_heat(at.w); }},
      {"tiles", [](const program_place& at) { return heat_of_tiles(at.w); }},
      {"large", [](const program_place& at) { return large_heat(at.w); }},
      {"blur", [](const program_place& at) { return blur(at.w); }},
      {"normalise", [](const program_place& at) { return normalise(at.w); }},
      {"mirror", [](const program_place& at) { return mirror(at.w); }},
      {"worlds", [](const program_place& at) { return worlds(at.w, at.tasks, at.link); }},
  };
  return all;
}

/// Programs about failures, and one with worlds of its own.
const std::map<std::string, rank_program>& other_programs() {
  static const std::map<std::string, rank_program> all{
      {"random",
       [](const program_place& at) {
         return random_programs(at.link, at.tasks.base().workers());
       }},
      {"long", [](const program_place& at) { return long_kernels(at.w); }},
      {"failing", [](const program_place& at) { return failing(at.w); }},
      {"diverging", [](const program_place& at) { return diverging(at.w); }},
      {"killed", [](const program_place& at) { return losing(at.w, SIGKILL); }},
      {"stopped", [](const program_place& at) { return losing(at.w, SIGSTOP); }},
      {"saving", [](const program_place& at) { return saving(at.w, at.folder); }},
      {"pausing", [](const program_place& at) { return pausing(at.w); }},
      {"wrapping", [](const program_place& at) { return wrapping(at.tasks, at.link); }},
      {"absent", [](const program_place& at) { return small_heat(at.w); }},
      {"sending", [](const program_place& at) { return sending(at.w, 8192, 3000); }},
      {"trickling", [](const program_place& at) { return sending(at.w, 8, 3000); }},
      {"releasing", [](const program_place& at) { return sending(at.w, 8192, 1); }},
      {"worlds_before",
       [](const program_place& at) {
         return worlds_before_a_piece(at.w, at.tasks, at.link);
       }},
  };
  return all;
}

void print_hash(const std::string& name, std::uint64_t hash) {
  std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash));
}

/// Runs all programs of `equal_programs`, each in a world of its own. Rank 0 prints the
/// hash of each.
result<std::uint64_t> run_equal_programs(const program_place& at) {
  std::uint64_t sum = 0;
  for (const auto& one : equal_programs()) {
    const auto run = [&](world&& w) {
      return one.second({w, at.tasks, at.link, at.folder});
    };
    WEIR_TRY(const auto hash,
             at.link == nullptr ? run(world(at.tasks)) : run(world(at.tasks, *at.link)));
    if (at.w.base().rank() == 0) {
      print_hash(one.first, hash);
    }
    sum = sum * 31 + hash;
  }
  return sum;
}

/// Returns the program with a name; empty if there is none.
rank_program program_of(const std::string& name) {
  for (const auto* const all : {&equal_programs(), &other_programs()}) {
    if (const auto found = all->find(name); found != all->end()) {
      return found->second;
    }
  }
  const auto found = weir::test::transport_programs().find(name);
  if (found == weir::test::transport_programs().end()) {
    return name == "equal" ? rank_program(run_equal_programs) : rank_program();
  }
  return [body = found->second](const program_place& at) { return body(*at.link); };
}

/// Runs a program on threads and returns the hash of rank 0.
result<std::uint64_t> run_on_threads(const rank_program& body, unsigned ranks,
                                     unsigned workers) {
  weir::runtime::in_process_network net({.ranks = ranks, .max_delay = 2, .seed = ranks});
  std::vector<result<std::uint64_t>> outcomes(ranks, std::uint64_t{0});
  weir::runtime::on_ranks(net, ranks, [&](unsigned rank, weir::runtime::transport& link) {
    weir::engine tasks(workers);
    world w(tasks, link);
    outcomes[rank] = body({w, tasks, &link, {}});
  });
  return outcomes[0];
}

/// Runs each program on 1 to 4 ranks with 1 to 3 workers each, and prints its hash, or
/// all hashes that differ from the first one. Under sanitizers it takes fewer numbers.
int run_all_on_threads() {
  bool equal = true;
  for (const auto& [name, body] : equal_programs()) {
    const auto first = weir::or_throw(run_on_threads(body, 1, 1));
    print_hash(name, first);
    const int step = static_cast<int>(weir::test::case_step());
    for (int number = 11; number > 0; number -= step) {
      const auto shape = static_cast<unsigned>(number);
      const unsigned ranks = shape / 3 + 1;
      const unsigned workers = shape % 3 + 1;
      const auto hash = weir::or_throw(run_on_threads(body, ranks, workers));
      if (hash != first) {
        std::printf("%u ranks with %u workers: ", ranks, workers);
        print_hash(name, hash);
        equal = false;
      }
    }
  }
  return equal ? 0 : 1;
}

/// Returns true if the launcher says so, before MPI has begun.
bool is_rank_1_of_launcher() {
  const auto is_1 = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && std::string_view(value) == "1";
  };
  return is_1("OMPI_COMM_WORLD_RANK") || is_1("PMI_RANK");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "heat";
  if (name == "threads") {
    return run_all_on_threads();
  }
  const rank_program body = program_of(name);
  if (!body) {
    std::fprintf(stderr, "unknown program %s\n", name.c_str());
    return 2;
  }
  weir::mpi_options options;
  options.deadline_ns = (argc > 3 ? std::atoll(argv[3]) : 60'000) * 1'000'000;
  options.max_unsent = argc > 5 ? std::atoll(argv[5]) : options.max_unsent;
  options.start_deadline_ns =
      name == "absent" ? options.deadline_ns : options.start_deadline_ns;
  if (name == "absent" && is_rank_1_of_launcher()) {
    raise_known(SIGSTOP);  // the others wait in MPI_Init_thread
  }
  auto link = weir::launched_ranks(options);
  if (!link) {
    std::fprintf(stderr, "%s\n", link.error().message().c_str());
    return weir::exit_code_of(link.error().code());
  }
  weir::engine e(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1);
  result<std::uint64_t> outcome = std::uint64_t{0};
  unsigned rank = 0;
  {
    world w(e, *link);
    rank = w.base().rank();
    outcome = body({w, e, link->get(), argc > 4 ? argv[4] : "state"});
  }
  if (!outcome) {
    std::fprintf(stderr, "%s%s: %s\n",
                 rank == 0 ? "" : weir::runtime::line_prefix(rank).c_str(),
                 std::string(weir::name_of(outcome.error().code())).c_str(),
                 outcome.error().message().c_str());
    return 6;
  }
  if (rank == 0) {
    print_hash(name, *outcome);
  }
  return 0;
}
