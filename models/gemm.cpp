// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dense products: oneDNN's sgemm, limited to one thread, and plain loops for fp64.
#include "gemm.hpp"

#include <dlfcn.h>
#include <dnnl.h>
#include <fmt/core.h>

#include "weir/base/error.hpp"

namespace weir::models {

namespace {

/// Limits oneDNN to the calling thread. Otherwise it would start a thread per core inside
/// every task, although the engine's workers occupy all cores already.
///
/// oneDNN takes its threads from OpenMP, whose limit is a setting of the calling thread.
/// The function is looked up at run time, because a oneDNN that was built without OpenMP
/// does not bring it along, and does not need it either. Returns true, so that a constant
/// of each thread can be initialized with a call.
bool use_one_thread() {
  using set_threads = void (*)(int);
  // In the whole process, not in a library of our choice.
  if (const auto f =
          reinterpret_cast<set_threads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    f(1);
  }
  return true;
}

/// Returns the name of the instruction set that oneDNN uses on this processor. Products
/// with other instruction sets round differently.
const char* instruction_set() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx2_vnni: return "avx2";
    case dnnl_cpu_isa_avx512_core:
    case dnnl_cpu_isa_avx512_core_vnni:
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512";
    default:
      // For fp32, oneDNN runs its AVX-512 kernels on newer instruction sets as well.
      return dnnl_get_effective_cpu_isa() > dnnl_cpu_isa_avx512_core ? "avx512"
                                                                     : "generic";
  }
}

}  // namespace

/// The matrices are stored by rows.
void gemm(form fa, form fb, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
          float beta, float* c, std::int64_t c_stride) {
  // Once per thread, because the limit is one of the thread.
  static thread_local const bool one_thread = use_one_thread();
  static_cast<void>(one_thread);
  const dnnl_status_t status =
      dnnl_sgemm(fa == form::plain ? 'N' : 'T', fb == form::plain ? 'N' : 'T', m, n, k,
                 1.0F, a, a_stride, b, b_stride, beta, c, c_stride);
  // The arguments are those of the caller, so an error is one of the program.
  WEIR_EXPECT(status == dnnl_success);
}

/// Used by checks, so clarity comes before speed.
void gemm(form fa, form fb, std::int64_t m, std::int64_t n, std::int64_t k,
          const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride,
          double beta, double* c, std::int64_t c_stride) {
  // An element of the right factor.
  const auto right = [&](std::int64_t x, std::int64_t j) {
    return fb == form::plain ? b[x * b_stride + j] : b[j * b_stride + x];
  };
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      // With beta = 0 the old values may be NaN.
      double sum = beta == 0 ? 0 : beta * c[i * c_stride + j];
      for (std::int64_t x = 0; x < k; ++x) {
        sum +=
            (fa == form::plain ? a[i * a_stride + x] : a[x * a_stride + i]) * right(x, j);
      }
      c[i * c_stride + j] = sum;
    }
  }
}

/// Results are only equal for equal names.
std::string gemm_name() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("onednn-{}.{}.{}/{}", v->major, v->minor, v->patch,
                     instruction_set());
}

}  // namespace weir::models
