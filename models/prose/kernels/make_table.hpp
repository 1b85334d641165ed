// SPDX-License-Identifier: Apache-2.0
/// @file
/// Fills a kernel table from the templates of one instruction set. Included once per
/// instruction set.
#pragma once

#include "prose/kernels/gradient.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

/// Returns the table of the kernels that are compiled in this file.
///
/// The functions of another instruction set are in another namespace.
template <class R>
kernel_table<R> make_table(const char* name) {
  kernel_table<R> t;
  t.name = name;
  t.norm_forward = &norm_forward<R>;
  t.norm_backward = &norm_backward<R>;
  t.conv_forward = &conv_forward<R>;
  t.conv_backward = &conv_backward<R>;
  t.square_forward = &square_forward<R>;
  t.square_backward = &square_backward<R>;
  t.softmax = &softmax<R>;
  t.keys = &keys<R>;
  t.keys_backward = &keys_backward<R>;
  t.memory_forward = &memory_forward<R>;
  t.memory_backward = &memory_backward<R>;
  t.add = &add<R>;
  t.sum_of = &sum_of<R>;
  t.squares = &squares<R>;
  t.step = &step<R>;
  t.accumulate = &accumulate<R>;
  return t;
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
