// SPDX-License-Identifier: Apache-2.0
/// @file
/// The dam break of `demos/shallow_water`, written by hand with MPI: the same kernel, a
/// block of rows for each rank, and one more row of each field on both sides. The rows
/// inside are computed while the messages are under way.
/// Usage: see `sampled_options`
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "heat.hpp"
#include "sampled_program.hpp"
#include "shallow_water/basin.hpp"

namespace {

using weir::view;

/// The rows of one rank.
class block {
 public:
  block(std::int64_t n, int rank, int ranks)
      : n_(n),
        first_(n * rank / ranks),
        rows_(n * (rank + 1) / ranks - first_),
        above_(rank > 0 ? rank - 1 : MPI_PROC_NULL),
        below_(rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL) {
    for (std::vector<double>& field : now_) {
      field.resize(static_cast<std::size_t>((rows_ + 2) * n));
    }
    next_ = now_;
  }

  void fill() {
    const double length = 1.0 / static_cast<double>(n_);
    fastest_ = 0;
    for (std::int64_t k = 0; k < rows_ * n_; ++k) {
      const double south = (static_cast<double>(first_ + k / n_) + 0.5) * length;
      const double east = (static_cast<double>(k % n_) + 0.5) * length;
      const auto at = static_cast<std::size_t>(k + n_);
      now_[0][at] = shallow_water::circular_dam(south, east);
      now_[1][at] = 0;
      now_[2][at] = 0;
      fastest_ = std::max(fastest_, shallow_water::wave_speed(now_[0][at], 0));
    }
  }
  void step() {
    double fastest = 0;
    MPI_Allreduce(&fastest_, &fastest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double length = 1.0 / static_cast<double>(n_);
    const double ratio = 0.25 * length / fastest / length;
    std::array<MPI_Request, 12> open{};
    std::size_t count = 0;
    for (std::size_t f = 0; f < now_.size(); ++f) {
      const int tag = 2 * static_cast<int>(f);
      MPI_Irecv(row(f, 0), columns(), MPI_DOUBLE, above_, tag, MPI_COMM_WORLD,
                &open[count++]);
      MPI_Irecv(row(f, rows_ + 1), columns(), MPI_DOUBLE, below_, tag + 1, MPI_COMM_WORLD,
                &open[count++]);
      MPI_Isend(row(f, 1), columns(), MPI_DOUBLE, above_, tag + 1, MPI_COMM_WORLD,
                &open[count++]);
      MPI_Isend(row(f, rows_), columns(), MPI_DOUBLE, below_, tag, MPI_COMM_WORLD,
                &open[count++]);
    }
    fastest_ = compute(1, rows_ - 1, ratio);
    MPI_Waitall(static_cast<int>(open.size()), open.data(), MPI_STATUSES_IGNORE);
    fastest_ = std::max({fastest_, compute(0, 1, ratio),
                         compute(std::max<std::int64_t>(rows_ - 1, 1), rows_, ratio)});
    std::swap(now_, next_);
  }
  /// Returns the sums of the rows of all ranks, on rank 0.
  [[nodiscard]] std::vector<double> row_sums(int rank, int ranks) {
    std::vector<double> own;
    for (std::int64_t i = 1; i <= rows_; ++i) {
      own.push_back(weir::bench::row_sum({row(0, i), static_cast<std::size_t>(n_)}));
    }
    std::vector<double> all(static_cast<std::size_t>(rank == 0 ? n_ : 0));
    std::vector<int> counts;
    std::vector<int> places;
    for (int r = 0; r < ranks; ++r) {
      places.push_back(static_cast<int>(n_ * r / ranks));
      counts.push_back(static_cast<int>(n_ * (r + 1) / ranks) - places.back());
    }
    MPI_Gatherv(own.data(), static_cast<int>(rows_), MPI_DOUBLE, all.data(),
                counts.data(), places.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return all;
  }

 private:
  [[nodiscard]] int columns() const { return static_cast<int>(n_); }
  double* row(std::size_t field, std::int64_t i) { return now_[field].data() + i * n_; }
  /// Computes the rows [lo, hi) of the block, which count from 0. Returns the speed of
  /// the fastest wave in them.
  [[nodiscard]] double compute(std::int64_t lo, std::int64_t hi, double ratio) {
    if (lo >= hi) {
      return 0;
    }
    // The kernel reads one more row on each side, where the basin has one.
    const std::int64_t begin = std::max<std::int64_t>(first_ + lo - 1, 0);
    const std::int64_t end = std::min(first_ + hi + 1, n_);
    const auto in = [&](std::size_t field) {
      return view<const double, 2>(row(field, begin - first_ + 1), {end - begin, n_},
                                   {n_, 1});
    };
    const auto out = [&](std::size_t field) {
      return view<double, 2>(next_[field].data() + (lo + 1) * n_, {hi - lo, n_}, {n_, 1});
    };
    const weir::tile<2> box{0, {first_ + lo, 0}, {first_ + hi, n_}};
    return shallow_water::step({in(0), in(1), in(2)}, {out(0), out(1), out(2)},
                               {box, n_, n_}, ratio);
  }

  std::int64_t n_;
  std::int64_t first_;
  std::int64_t rows_;
  int above_;
  int below_;
  double fastest_ = 0;
  std::array<std::vector<double>, 3> now_;
  std::array<std::vector<double>, 3> next_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const weir::bench::sampled_options with(argc, argv);
  block basin(with.size, rank, ranks);
  weir::bench::print_samples(
      with, rank, [&] { basin.fill(); }, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&] {
        for (std::int64_t s = 0; s < with.steps; ++s) {
          basin.step();
        }
      });
  const std::vector<double> sums = basin.row_sums(rank, ranks);
  if (rank == 0) {
    std::printf("checksum %a\n", weir::bench::checksum(sums));
  }
  MPI_Finalize();
  return 0;
}
