/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun -n RANKS mpi_allreduce BYTES SAMPLES: seconds of one out-of-place all-reduce of
 * that many bytes of floats, the mean over the ranks, one line per sample. Rank r stays
 * on processor r mod 2; the result is checked. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)processor, &set);
  sched_setaffinity(0, sizeof set, &set); /* elsewhere is fine if it may not */
}

static int batch_of(size_t bytes, int ranks) {
  if (bytes <= 65536) {
    return ranks > 2 ? 10 : 40;
  }
  return bytes <= 1048576 ? 6 : 1;
}

int main(int argc, char** argv) {
  int ranks = 0;
  int me = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  const size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 65536;
  const int samples = argc > 2 ? atoi(argv[2]) : 9;
  const int count = (int)(bytes / sizeof(float));
  float* in = malloc(bytes);
  float* out = malloc(bytes);
  if (in == NULL || out == NULL) {
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  stay_on(me % 2);
  for (int i = 0; i < count; ++i) {
    in[i] = (float)(me + 1) + (float)(i % 7);
  }
  const int batch = batch_of(bytes, ranks);
  for (int s = -1; s < samples; ++s) { /* the first one warms up */
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < batch; ++i) {
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    const double took = (MPI_Wtime() - start) / batch;
    double sum = 0;
    MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0 && s >= 0) {
      printf("%.9f\n", sum / ranks);
    }
  }
  for (int i = 0; i < count; ++i) {
    if (out[i] != (float)(ranks * (ranks + 1) / 2) + (float)ranks * (float)(i % 7)) {
      fprintf(stderr, "mpi_allreduce: wrong sum at %d\n", i);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
