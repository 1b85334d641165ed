/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Fused attention on eight devices: the example of the specification, completed by
 * inputs, a check of the result, and an argument that names the fatbin. Compiles as C99
 * and as C++20.
 *     attention kernels.fatbin
 * @source{Tessera Runtime & ABI, section 18}
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera_ext.h>

enum { B = 2, H = 3, L = 70, D = 32, ROWS = B * H * L, COUNT = ROWS * D };
#define Q_BYTES (COUNT * sizeof(float))
#define K_BYTES Q_BYTES
#define V_BYTES Q_BYTES
#define O_BYTES Q_BYTES

/* Bound of |o - exact|. Values are at most 1. The relative error of a weight is that of
 * its exponential, below 1e-7, and twice the error of a score, a sum of D fp32 products. */
#define BOUND 1e-5

static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];
static double exact[COUNT];

/* Fills x with numbers from [-1, 1) that depend on the state alone. */
static void fill(float* x, uint64_t state) {
  int i;
  for (i = 0; i < COUNT; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)(state >> 40) / 8388608.0f - 1.0f; /* [-1, 1) */
  }
}

/* Computes softmax(q k^T) v in double precision; the scale is 1. */
static void reference(void) {
  static double weight[L];
  int row, j, d;
  for (row = 0; row < ROWS; ++row) {
    const int head = row / L * L;
    double largest = -INFINITY, sum = 0;
    for (j = 0; j < L; ++j) {
      weight[j] = 0;
      for (d = 0; d < D; ++d) {
        weight[j] += (double)q[row * D + d] * k[(head + j) * D + d];
      }
      largest = weight[j] > largest ? weight[j] : largest;
    }
    for (j = 0; j < L; ++j) {
      weight[j] = exp(weight[j] - largest);
      sum += weight[j];
    }
    for (d = 0; d < D; ++d) {
      double total = 0;
      for (j = 0; j < L; ++j) {
        total += weight[j] * v[(head + j) * D + d];
      }
      exact[row * D + d] = total / sum;
    }
  }
}

/* Returns the contents of a file, which the caller frees, or NULL. */
static char* read_all(const char* path, size_t* size) {
  FILE* f = fopen(path, "rb");
  char* image = NULL;
  long end;
  if (f != NULL && fseek(f, 0, SEEK_END) == 0 && (end = ftell(f)) > 0 &&
      fseek(f, 0, SEEK_SET) == 0 && (image = (char*)malloc((size_t)end)) != NULL) {
    *size = fread(image, 1, (size_t)end, f);
  }
  if (f != NULL) {
    fclose(f);
  }
  return image;
}

/* Copies the same inputs to every device. */
static void load(void* Q, void* K, void* V, tessStream_t s) {
  tessMemcpyAsync(Q, q, Q_BYTES, TESS_COPY_H2D, s);
  tessMemcpyAsync(K, k, K_BYTES, TESS_COPY_H2D, s);
  tessMemcpyAsync(V, v, V_BYTES, TESS_COPY_H2D, s);
}

/* Returns the largest distance from the reference over all devices. */
static double compare(void* O, tessStream_t s) {
  double worst = 0;
  int rank, i;
  for (rank = 0; rank < 8; ++rank) {
    memset(o, 0xFF, sizeof o);
    tessMemcpyRankAsync(o, O, O_BYTES, TESS_COPY_D2H, rank, s);
    if (tessStreamSynchronize(s) != TESS_OK) {
      return INFINITY;
    }
    for (i = 0; i < COUNT; ++i) {
      const double off = fabs(o[i] - exact[i]);
      worst = off <= worst ? worst : off == off ? off : INFINITY;
    }
  }
  return worst;
}

int main(int argc, char** argv) {
  size_t fatbin_size = 0;
  char* fatbin_image = argc == 2 ? read_all(argv[1], &fatbin_size) : NULL;
  double worst;
  if (fatbin_image == NULL) {
    fprintf(stderr, "usage: attention FATBIN\n");
    return 2;
  }
  fill(q, 1);
  fill(k, 2);
  fill(v, 3);
  reference();

  /* The rest is the example of the specification, with two added lines. */
  tessContext_t ctx; tessInit(&ctx);
  tessMesh_t mesh; int devs[8]={0,1,2,3,4,5,6,7};
  tessMeshCreate(ctx, devs, 8, (tessMeshAxes){.tp=2,.pp=1,.dp=4,.ep=0}, &mesh);

  tessStream_t s; tessStreamCreate(mesh, /*priority=*/0, &s);

  void* Q; tessMalloc(mesh, Q_BYTES, &Q);
  void* K; tessMalloc(mesh, K_BYTES, &K);
  void* V; tessMalloc(mesh, V_BYTES, &V);
  void* O; tessMalloc(mesh, O_BYTES, &O);
  load(Q, K, V, s); /* added */

  tessModule_t mod;
  tessModuleLoad(ctx, fatbin_image, fatbin_size, &mod);
  tessKernel_t ker;
  tessKernelGet(mod, "flash_attention_fused", &ker);

  struct { void* Q; void* K; void* V; void* O; int B,H,L,D; float scale; } args = {Q,K,V,O,B,H,L,D,1.0f};
  tessLaunchConfig cfg = { .grid={256,1,1}, .block={128,1,1}, .shmemBytes=0, .flags=TESS_LAUNCH_DETERMINISTIC };
  tessLaunch(ker, mesh, cfg, &args, sizeof(args), s);

  tessStreamSynchronize(s);
  worst = compare(O, s); /* added */
  tessStreamDestroy(s);
  tessModuleUnload(mod);
  tessFree(mesh, Q); tessFree(mesh, K); tessFree(mesh, V); tessFree(mesh, O);
  tessMeshDestroy(mesh);
  tessShutdown(ctx);

  free(fatbin_image);
  if (tessGetLastErrorMessage()[0] != '\0') {
    fprintf(stderr, "attention: %s\n", tessGetLastErrorMessage());
    return 1;
  }
  printf("attention: off by %.2g, bound %g\n", worst, BOUND);
  return worst <= BOUND ? 0 : 1;
}
