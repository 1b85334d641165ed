// SPDX-License-Identifier: Apache-2.0
/// @file
/// Heat in a plate, written by hand with MPI: each rank has a block of rows and one more
/// row on both sides. The rows inside are computed while the messages are under way.
/// Usage: see `sampled_options`
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "heat.hpp"
#include "sampled_program.hpp"

namespace {

using weir::bench::heat_step;

/// The rows of one rank.
class block {
 public:
  block(std::int64_t n, int rank, int ranks)
      : n_(n),
        first_(n * rank / ranks),
        rows_(n * (rank + 1) / ranks - first_),
        above_(rank > 0 ? rank - 1 : MPI_PROC_NULL),
        below_(rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL),
        now_(static_cast<std::size_t>((rows_ + 2) * n)),
        next_(now_.size()) {}

  void fill() {
    for (std::int64_t k = 0; k < rows_ * n_; ++k) {
      now_[static_cast<std::size_t>(k + n_)] = weir::bench::first_heat(first_ * n_ + k);
    }
    next_ = now_;
  }
  void step() {
    const int count = static_cast<int>(n_);
    MPI_Request open[4];
    MPI_Irecv(row(0), count, MPI_DOUBLE, above_, 0, MPI_COMM_WORLD, &open[0]);
    MPI_Irecv(row(rows_ + 1), count, MPI_DOUBLE, below_, 1, MPI_COMM_WORLD, &open[1]);
    MPI_Isend(row(1), count, MPI_DOUBLE, above_, 1, MPI_COMM_WORLD, &open[2]);
    MPI_Isend(row(rows_), count, MPI_DOUBLE, below_, 0, MPI_COMM_WORLD, &open[3]);
    compute(2, rows_);
    MPI_Waitall(4, open, MPI_STATUSES_IGNORE);
    // The first and the last row of the plate keep their temperature.
    compute(above_ == MPI_PROC_NULL ? 2 : 1, 2);
    compute(std::max<std::int64_t>(rows_, 2),
            below_ == MPI_PROC_NULL ? rows_ : rows_ + 1);
    std::swap(now_, next_);
  }
  /// Returns the sums of the rows of all ranks, on rank 0.
  [[nodiscard]] std::vector<double> row_sums(int rank, int ranks) {
    std::vector<double> own;
    for (std::int64_t i = 1; i <= rows_; ++i) {
      own.push_back(weir::bench::row_sum({row(i), static_cast<std::size_t>(n_)}));
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
  double* row(std::int64_t i) { return now_.data() + i * n_; }
  /// Computes the rows [lo, hi) of the block, which count from 1.
  void compute(std::int64_t lo, std::int64_t hi) {
    heat_step(now_.data() + (lo - 1) * n_, n_, next_.data() + lo * n_ + 1, n_, hi - lo,
              n_ - 2);
  }

  std::int64_t n_;
  std::int64_t first_;
  std::int64_t rows_;
  int above_;
  int below_;
  std::vector<double> now_;
  std::vector<double> next_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const weir::bench::sampled_options with(argc, argv);
  block plate(with.size, rank, ranks);
  weir::bench::print_samples(
      with, rank, [&] { plate.fill(); }, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&] {
        for (std::int64_t s = 0; s < with.steps; ++s) {
          plate.step();
        }
      });
  const std::vector<double> sums = plate.row_sums(rank, ranks);
  if (rank == 0) {
    std::printf("checksum %a\n", weir::bench::checksum(sums));
  }
  MPI_Finalize();
  return 0;
}
