// SPDX-License-Identifier: Apache-2.0
/// @file
/// Algorithm bandwidth of MPI_Allreduce: fp32 sums in place, bytes of one rank's buffer by
/// the mean time over ranks of one operation. One line per size given: bytes, seconds, GB/s.
///   mpirun -np 2 mpi_allreduce 65536 1048576 67108864
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { samples = 9 };

/// Operations of one sample: long enough for the clock.
static int batch_of(size_t bytes, int ranks) {
  if (bytes <= 65536) {
    return ranks > 2 ? 10 : 40;
  }
  return bytes <= 1048576 ? 6 : 1;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

/// Zeros would never change, ones would grow without bound: a sum of numbers that cancel.
static void fill(float* at, size_t count, int rank, int ranks) {
  for (size_t i = 0; i < count; ++i) {
    at[i] = (float)(2 * rank - (ranks - 1)) + 1.0F / (float)ranks;
  }
}

static double sample(float* buffer, size_t count, int batch, int rank, int ranks) {
  fill(buffer, count, rank, ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < batch; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  double mine = (MPI_Wtime() - start) / batch;
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all / ranks;
}

/// Whether one operation gives the sum.
static int is_right(float* buffer, size_t count, int rank, int ranks) {
  fill(buffer, count, rank, ranks);
  MPI_Allreduce(MPI_IN_PLACE, buffer, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (size_t i = 0; i < count; ++i) {
    if (buffer[i] < 0.999F || buffer[i] > 1.001F) {
      return 0;
    }
  }
  return 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int a = 1; a < argc; ++a) {
    const size_t bytes = strtoull(argv[a], NULL, 10);
    const size_t count = bytes / sizeof(float);
    float* buffer = count > 0 && count < 2147483647U ? malloc(bytes) : NULL;
    if (buffer == NULL || !is_right(buffer, count, rank, ranks)) {
      fprintf(stderr, "no all-reduce of %s bytes\n", argv[a]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    double times[samples];
    const int batch = batch_of(bytes, ranks);
    sample(buffer, count, batch, rank, ranks);  // warm
    for (int s = 0; s < samples; ++s) {
      times[s] = sample(buffer, count, batch, rank, ranks);
    }
    qsort(times, samples, sizeof times[0], ascending);
    const double middle = times[samples / 2];
    if (rank == 0) {
      printf("%zu %.9f %.3f\n", bytes, middle, (double)bytes / middle * 1e-9);
    }
    free(buffer);
  }
  MPI_Finalize();
  return 0;
}
