// SPDX-License-Identifier: Apache-2.0
/// @file
/// All kernels of the demo for GPUs, for one text of PTX.
#include "matmul.cu"
#include "rows.cu"
#include "vectors.cu"
