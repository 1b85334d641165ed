// SPDX-License-Identifier: Apache-2.0
/// @file
/// Fills a kernel table from the functions of one instruction set. Included once per
/// instruction set. The two headers of `base` consist of functions that are always
/// inlined.
#pragma once

#include "weir/base/math/elementary.hpp"
#include "weir/base/small_floats.hpp"
// The headers below use both.
#include "layers/kernels/product.hpp"
#include "layers/kernels/rows.hpp"

namespace weir::models::layers::WEIR_LAYER_SPACE {

/// Returns the table of the kernels that are compiled in this file.
inline layer_kernels make_layer_table(const char* name) {
  layer_kernels t;
  t.name = name;
  t.product = &product;
  t.rms_norm = &rms_norm;
  t.layer_norm = &layer_norm;
  t.silu_times = &silu_times;
  t.gelu = &gelu;
  t.exponential = &exponential;
  t.attention = &attention;
  return t;
}

}  // namespace weir::models::layers::WEIR_LAYER_SPACE
