// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about all-reduces of floats on two workers. Bandwidth is the bytes of one buffer
/// over the time; traffic is the number of bytes that all devices read and write.
#include <emmintrin.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "clean.hpp"
#include "rows.hpp"

namespace weir::bench {
namespace {

struct size_row {
  const char* name;
  std::size_t bytes;
  double bar;  ///< least ratio to OpenMPI
  int batch;
};
constexpr size_row sizes[] = {{"64KiB", std::size_t{64} << 10, 3, 40},
                              {"1MiB", std::size_t{1} << 20, 3.5, 6},
                              {"64MiB", std::size_t{64} << 20, 4, 1}};

/// Number of calls at level 0 after which the runtime knows the fastest schedule.
constexpr int measured_first = 12;

/// Buffers of every device with numbers, and buffers for their sum.
class reduction_bench : public tessera {
 public:
  reduction_bench(int devices, std::size_t bytes, bool spread = false)
      : tessera(devices, 2), bytes_(bytes) {
    or_throw(tessMalloc(mesh, bytes, &from_));
    or_throw(tessMalloc(mesh, bytes, &to_));
    // The numbers are the same in every run. With `spread`, their exponents differ
    // widely, so that rounding depends on the order of the additions.
    std::mt19937_64 dice(7);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-30, 30);
    std::vector<float> some(65536 + 1024);
    for (float& x : some) {
      x = spread ? std::ldexp(normal(dice), exponent(dice)) : normal(dice);
    }
    for (int r = 0; r < devices; ++r) {
      void* address = nullptr;
      or_throw(tessMemGetRankPtr(mesh, from_, r, &address));
      for (std::size_t done = 0; done < bytes; done += 65536 * 4) {
        // Every rank begins at another place of the same numbers, so that no two ranks
        // add equal ones.
        std::memcpy(static_cast<char*>(address) + done, some.data() + 37 * r,
                    std::min<std::size_t>(65536 * 4, bytes - done));
      }
    }
  }

  /// Returns the seconds of one all-reduce in a batch.
  [[nodiscard]] double seconds(int level, int batch) const {
    const tessNumericsPolicy policy{level == 2 ? 1 : 0, level > 0 ? 1 : 0, 1, 0};
    or_throw(tessSetNumericsPolicy(context, &policy));
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.kind = TESS_COLLECTIVE_ALL_REDUCE;
    d.sendbuf = from_;
    d.recvbuf = to_;
    d.count = bytes_ / 4;
    d.dtype = TESS_FP32;
    return seconds_of([&] {
             for (int i = 0; i < batch; ++i) {
               or_throw(tessCollective(mesh, &d, stream));
             }
             synchronize();
           }) /
           batch;
  }

 private:
  std::size_t bytes_;
  void* from_ = nullptr;
  void* to_ = nullptr;
};

#ifdef WEIR_BENCH_MPIRUN
/// Runs the peer, a program of OpenMPI, which measures nine times by itself and prints
/// the seconds.
std::vector<double> mpi_seconds(int ranks, std::size_t bytes) {
  const std::string line =
      std::string(WEIR_BENCH_MPIRUN " --allow-run-as-root --oversubscribe -n ") +
      std::to_string(ranks) + " " WEIR_BENCH_MPI_PEER " " + std::to_string(bytes) + " 9";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  std::vector<double> out;
  double value = 0;
  while (pipe != nullptr && std::fscanf(pipe.get(), "%lf", &value) == 1) {
    out.push_back(value);
  }
  if (out.size() != 9) {
    throw std::runtime_error("no figures from: " + line);
  }
  return out;
}

/// Seconds of both in one turn.
struct mpi_turn {
  double mine = 0;
  double theirs = 0;
  [[nodiscard]] double ratio() const { return theirs / mine; }
};

/// Measures ours before and after the peer, so that a drift of the machine affects both.
/// The first call of each part is not counted.
mpi_turn take_turn(const reduction_bench& ours, int devices, const size_row& row) {
  std::vector<double> mine;
  const auto measure = [&] {
    static_cast<void>(ours.seconds(1, row.batch));
    for (int i = 0; i < 9; ++i) {
      mine.push_back(ours.seconds(1, row.batch));
    }
  };
  measure();
  const double theirs = median(mpi_seconds(devices, row.bytes));
  measure();
  return {median(mine), theirs};
}

/// Returns the bandwidth over that of OpenMPI, turn by turn. Uses the turns before and
/// after which the processors were two cores, or all turns if those are few.
measured against_mpi(int devices, const size_row& row) {
  const reduction_bench ours(devices, row.bytes);
  std::vector<mpi_turn> all;
  std::vector<mpi_turn> apart;
  while (all.size() < 12 && apart.size() < 5) {
    const bool before = look(2).one_core();
    all.push_back(take_turn(ours, devices, row));
    if (!before && !look(2).one_core()) {
      apart.push_back(all.back());
    }
  }
  std::vector<mpi_turn>& used = apart.size() < 3 ? all : apart;
  const auto middle = used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2);
  std::nth_element(used.begin(), middle, used.end(),
                   [](const auto& a, const auto& b) { return a.ratio() < b.ratio(); });
  std::fprintf(stderr, "allreduce %s of %d: %.3g us, OpenMPI %.3g us; %zu of %zu turns\n",
               row.name, devices, middle->mine * 1e6, middle->theirs * 1e6, used.size(),
               all.size());
  return {middle->ratio(), 1.0};
}
#endif

/// Returns the time at a level over the time at level 0, sample by sample.
double level_ratio(const size_row& row, int level, bool spread) {
  const reduction_bench ours(4, row.bytes, spread);
  static_cast<void>(ours.seconds(0, std::max(row.batch, measured_first)));
  static_cast<void>(ours.seconds(level, row.batch));
  return median(repeat(15, [&] {
    const double free_order = ours.seconds(0, row.batch);
    return ours.seconds(level, row.batch) / free_order;
  }));
}

/// Copies with stores that bypass the caches.
void stream_copy(char* to, const char* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  _mm_sfence();
}

/// Measures the bytes per second that two threads read and write in their best copy.
class copy_bench {
 public:
  explicit copy_bench(std::size_t bytes)
      : bytes_(bytes), from_(allocate(bytes)), to_(allocate(bytes)) {}

  [[nodiscard]] double traffic() const {
    const double plain = seconds(
        [](char* to, const char* from, std::size_t n) { std::memcpy(to, from, n); });
    return 2.0 * static_cast<double>(bytes_) / std::min(plain, seconds(stream_copy));
  }

 private:
  using block = std::unique_ptr<char, void (*)(void*)>;

  static block allocate(std::size_t bytes) {
    block out(static_cast<char*>(std::aligned_alloc(4096, bytes)), std::free);
    std::memset(out.get(), 1, bytes);
    return out;
  }
  template <class Copy>
  [[nodiscard]] double seconds(Copy copy) const {
    const std::size_t half = bytes_ / 2;
    return min_seconds(5, [&] {
      std::thread other([&] { copy(to_.get(), from_.get(), half); });
      copy(to_.get() + half, from_.get() + half, half);
      other.join();
    });
  }

  std::size_t bytes_;
  block from_;
  block to_;
};

double best_traffic(const reduction_bench& rows, int devices, std::size_t bytes) {
  static_cast<void>(rows.seconds(1, 1));
  const std::vector<double> all = repeat(9, [&] { return rows.seconds(1, 1); });
  return 2.0 * devices * static_cast<double>(bytes) /
         *std::min_element(all.begin(), all.end());
}

constexpr std::size_t large = std::size_t{64} << 20;

measured traffic_ratio(int devices) {
  const reduction_bench ours(devices, large);
  const copy_bench copies(std::size_t{256} << 20);
  return median(repeat(3, [&] {
    const double peer = copies.traffic();
    return best_traffic(ours, devices, large) / peer;
  }));
}

double eight_over_two() {
  const reduction_bench two(2, large);
  const reduction_bench eight(8, large);
  return median(repeat(
      3, [&] { return best_traffic(eight, 8, large) / best_traffic(two, 2, large); }));
}

}  // namespace

void add_collective_rows(program& bench) {
#ifdef WEIR_BENCH_MPIRUN
  for (const size_row& row : sizes) {
    for (const int devices : {2, 4}) {
      bench.add(
          std::string("allreduce_") + row.name + "_" + std::to_string(devices) + "_ratio",
          "ratio", at_least(row.bar), [=] { return against_mpi(devices, row); });
    }
  }
#else
  std::fprintf(stderr, "allreduce_*_ratio left out: OpenMPI is not installed\n");
#endif
  for (const size_row& row : sizes) {
    const std::string id = std::string("allreduce_") + row.name;
    bench.add(id + "_level1_time", "ratio", at_most(1.3),
              [row] { return level_ratio(row, 1, false); });
    bench.add(id + "_level2_time", "ratio", at_most(3),
              [row] { return level_ratio(row, 2, false); });
    bench.add(id + "_level2_spread_time", "ratio", no_bar,
              [row] { return level_ratio(row, 2, true); });
  }
  bench.add("allreduce_traffic_2", "ratio", at_least(0.8),
            [] { return traffic_ratio(2); });
  bench.add("allreduce_traffic_4", "ratio", no_bar, [] { return traffic_ratio(4); });
  bench.add("allreduce_traffic_8_over_2", "ratio", at_least(0.5),
            [] { return eight_over_two(); });
}

}  // namespace weir::bench
