// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests every form of instructions of the interpreter against results that were computed
/// by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ptx/interpreter.hpp"

namespace weir::tessera::ptx {
namespace {

/// A form, instructions that end with it, and the value of a register behind them.
/// Instructions are separated by '|'; a label ends with a colon.
struct form_case {
  const char* form;
  const char* code;
  const char* result;
  std::uint64_t expected;
};

// %rd7 is the address of a buffer with the words 0x0807060504030201, 2.0, (1.5F, -3),
// and 0. Parameter 1 is -2, parameter 2 is 1.5.
constexpr form_case arithmetic[] = {
    {"add.rn.f32", "add.rn.f32 %f1, 0f3F800000, 0f33800000", "%f1", 0x3F800000},
    {"add.rn.f64", "add.rn.f64 %fd1, 0d3FF0000000000000, 0d4000000000000000", "%fd1",
     0x4008000000000000},
    {"add.s32", "add.s32 %r1, 2147483647, 1", "%r1", 0x80000000},
    {"add.s64", "add.s64 %rd1, 7, -9", "%rd1", 0xFFFFFFFFFFFFFFFE},
    {"add.u64", "add.u64 %rd1, 5, 6", "%rd1", 11},
    {"and.b16", "mov.u16 %rs1, 12|and.b16 %rs2, %rs1, 10", "%rs2", 8},
    {"and.b32", "mov.u32 %r1, -1|and.b32 %r2, %r1, 255", "%r2", 255},
    {"and.b64", "mov.u64 %rd1, -1|and.b64 %rd2, %rd1, -4294967296", "%rd2",
     0xFFFFFFFF00000000},
    {"and.pred", "mov.pred %p1, -1|mov.pred %p2, 0|and.pred %p3, %p1, %p2", "%p3", 0},
    {"bfi.b64", "bfi.b64 %rd1, 5, 15, 40, 8", "%rd1", 0x5000000000F},
    {"cvt.f64.f32", "cvt.f64.f32 %fd1, 0f3FC00000", "%fd1", 0x3FF8000000000000},
    {"cvt.rn.f32.f64", "cvt.rn.f32.f64 %f1, 0d3FF0000010000000", "%f1", 0x3F800000},
    {"cvt.rn.f32.s32", "mov.u32 %r1, -3|cvt.rn.f32.s32 %f1, %r1", "%f1", 0xC0400000},
    {"cvt.rn.f32.u16", "mov.u16 %rs1, 65535|cvt.rn.f32.u16 %f1, %rs1", "%f1", 0x477FFF00},
    {"cvt.rn.f64.s32", "mov.u32 %r1, -3|cvt.rn.f64.s32 %fd1, %r1", "%fd1",
     0xC008000000000000},
    {"cvt.s64.s16", "mov.u16 %rs1, -3|cvt.s64.s16 %rd1, %rs1", "%rd1",
     0xFFFFFFFFFFFFFFFD},
    {"cvt.s64.s32", "mov.u32 %r1, -3|cvt.s64.s32 %rd1, %r1", "%rd1", 0xFFFFFFFFFFFFFFFD},
    {"cvt.s64.s8", "mov.u16 %rs1, 254|cvt.s64.s8 %rd1, %rs1", "%rd1", 0xFFFFFFFFFFFFFFFE},
    {"cvt.u16.u32", "mov.u32 %r1, 65538|cvt.u16.u32 %rs1, %r1", "%rs1", 2},
    {"cvt.u16.u64", "mov.u64 %rd1, 65538|cvt.u16.u64 %rs1, %rd1", "%rs1", 2},
    {"cvt.u32.u16", "mov.u16 %rs1, -1|cvt.u32.u16 %r1, %rs1", "%r1", 65535},
    {"cvt.u32.u64", "mov.u64 %rd1, 4294967301|cvt.u32.u64 %r1, %rd1", "%r1", 5},
    {"cvt.u64.u16", "mov.u16 %rs1, -1|cvt.u64.u16 %rd1, %rs1", "%rd1", 65535},
    {"cvt.u64.u32", "mov.u32 %r1, -3|cvt.u64.u32 %rd1, %r1", "%rd1", 0xFFFFFFFD},
    {"cvta.to.global.u64", "cvta.to.global.u64 %rd1, 4096", "%rd1", 4096},
    {"div.rn.f32", "div.rn.f32 %f1, 0f3F800000, 0f40400000", "%f1", 0x3EAAAAAB},
    {"div.rn.f64", "div.rn.f64 %fd1, 0d3FF0000000000000, 0d4008000000000000", "%fd1",
     0x3FD5555555555555},
    {"div.s64", "div.s64 %rd1, -7, 2", "%rd1", 0xFFFFFFFFFFFFFFFD},
    {"div.u32", "mov.u32 %r1, -1|div.u32 %r2, %r1, 16", "%r2", 0xFFFFFFF},
    {"div.u64", "div.u64 %rd1, -1, 16", "%rd1", 0xFFFFFFFFFFFFFFF},
    // 1 + 2^-23 squared is 1 + 2^-22 + 2^-46; the sum with -1 - 2^-22 keeps the last
    // term.
    {"fma.rn.f32", "fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002", "%f1",
     0x28800000},
    {"mad.lo.s32", "mad.lo.s32 %r1, 3, -4, 5", "%r1", 0xFFFFFFF9},
    {"max.s32", "max.s32 %r1, -1, 2", "%r1", 2},
    {"max.s64", "max.s64 %rd1, -1, -2", "%rd1", 0xFFFFFFFFFFFFFFFF},
    {"min.s64", "min.s64 %rd1, -1, 2", "%rd1", 0xFFFFFFFFFFFFFFFF},
    {"mov.b32", "mov.b32 %r1, 0f3F800000|mov.b32 %f1, %r1", "%f1", 0x3F800000},
    {"mov.b64", "mov.b64 %rd1, 0d3FF0000000000000", "%rd1", 0x3FF0000000000000},
    {"mov.f32", "mov.f32 %f1, 0fFF800000", "%f1", 0xFF800000},
    {"mov.f64", "mov.f64 %fd1, 0dFFF0000000000000", "%fd1", 0xFFF0000000000000},
    {"mov.pred", "mov.pred %p1, -1", "%p1", 1},
    {"mov.u16", "mov.u16 %rs1, -2", "%rs1", 0xFFFE},
    {"mov.u32", "mov.u32 %r1, %ntid.x", "%r1", 1},
    {"mov.u64", "mov.u64 %rd1, depot", "%rd1", 0},
    {"mul.lo.s32", "mul.lo.s32 %r1, 65537, 65537", "%r1", 0x20001},
    {"mul.lo.s64", "mul.lo.s64 %rd1, -3, 5", "%rd1", 0xFFFFFFFFFFFFFFF1},
    {"mul.rn.f32", "mul.rn.f32 %f1, 0f3F800001, 0f3F800001", "%f1", 0x3F800002},
    {"mul.rn.f64", "mul.rn.f64 %fd1, 0d3FF8000000000000, 0dC000000000000000", "%fd1",
     0xC008000000000000},
    {"mul.wide.s32", "mov.u32 %r1, -2|mul.wide.s32 %rd1, %r1, 3", "%rd1",
     0xFFFFFFFFFFFFFFFA},
    {"mul.wide.u32", "mov.u32 %r1, -2|mul.wide.u32 %rd1, %r1, 3", "%rd1", 0x2FFFFFFFA},
    {"neg.s32", "neg.s32 %r1, 5", "%r1", 0xFFFFFFFB},
    {"neg.s64", "neg.s64 %rd1, 5", "%rd1", 0xFFFFFFFFFFFFFFFB},
    {"not.b32", "not.b32 %r1, 5", "%r1", 0xFFFFFFFA},
    {"not.b64", "not.b64 %rd1, 5", "%rd1", 0xFFFFFFFFFFFFFFFA},
    {"not.pred", "mov.pred %p1, -1|not.pred %p2, %p1", "%p2", 0},
    {"or.b16", "or.b16 %rs1, 12, 3", "%rs1", 15},
    {"or.b32", "or.b32 %r1, 12, 3", "%r1", 15},
    {"or.b64", "or.b64 %rd1, 12, -16", "%rd1", 0xFFFFFFFFFFFFFFFC},
    {"or.pred", "mov.pred %p1, -1|mov.pred %p2, 0|or.pred %p3, %p1, %p2", "%p3", 1},
    {"rcp.rn.f64", "rcp.rn.f64 %fd1, 0d4008000000000000", "%fd1", 0x3FD5555555555555},
    {"rem.s64", "rem.s64 %rd1, -7, 2", "%rd1", 0xFFFFFFFFFFFFFFFF},
    {"rem.u32", "mov.u32 %r1, -1|rem.u32 %r2, %r1, 16", "%r2", 15},
    {"shl.b32", "shl.b32 %r1, 3, 31", "%r1", 0x80000000},
    {"shl.b64", "shl.b64 %rd1, 3, 64", "%rd1", 0},
    {"shr.s32", "mov.u32 %r1, -8|shr.s32 %r2, %r1, 40", "%r2", 0xFFFFFFFF},
    {"shr.s64", "shr.s64 %rd1, -8, 1", "%rd1", 0xFFFFFFFFFFFFFFFC},
    {"shr.u32", "mov.u32 %r1, -1|shr.u32 %r2, %r1, 28", "%r2", 15},
    {"shr.u64", "shr.u64 %rd1, -1, 60", "%rd1", 15},
    {"sqrt.rn.f64", "sqrt.rn.f64 %fd1, 0d4000000000000000", "%fd1", 0x3FF6A09E667F3BCD},
    {"sub.rn.f32", "sub.rn.f32 %f1, 0f3F800000, 0f40000000", "%f1", 0xBF800000},
    {"sub.rn.f64", "sub.rn.f64 %fd1, 0d3FF0000000000000, 0d4000000000000000", "%fd1",
     0xBFF0000000000000},
    {"sub.s32", "sub.s32 %r1, 3, 5", "%r1", 0xFFFFFFFE},
    {"sub.s64", "sub.s64 %rd1, 3, 5", "%rd1", 0xFFFFFFFFFFFFFFFE},
    {"xor.b32", "xor.b32 %r1, 12, 10", "%r1", 6},
    {"xor.b64", "xor.b64 %rd1, -1, 10", "%rd1", 0xFFFFFFFFFFFFFFF5},
    {"xor.pred", "mov.pred %p1, -1|mov.pred %p2, -1|xor.pred %p3, %p1, %p2", "%p3", 0},
};

// In the rows with -1, a signed comparison and an unsigned one differ.
constexpr form_case choices[] = {
    {"selp.b32", "mov.pred %p1, 0|selp.b32 %r1, 7, 8, %p1", "%r1", 8},
    {"selp.b64", "mov.pred %p1, -1|selp.b64 %rd1, 7, 8, %p1", "%rd1", 7},
    {"selp.f32", "mov.pred %p1, 0|selp.f32 %f1, 0f3F800000, 0f40000000, %p1", "%f1",
     0x40000000},
    {"selp.f64",
     "mov.pred %p1, -1|selp.f64 %fd1, 0d3FF0000000000000, 0d4000000000000000, %p1",
     "%fd1", 0x3FF0000000000000},
    {"selp.u16", "mov.pred %p1, -1|selp.u16 %rs1, 7, 8, %p1", "%rs1", 7},
    {"selp.u32", "mov.pred %p1, -1|selp.u32 %r1, 7, 8, %p1", "%r1", 7},
    {"selp.u64", "mov.pred %p1, 0|selp.u64 %rd1, 7, 8, %p1", "%rd1", 8},
    {"setp.eq.b32", "setp.eq.b32 %p1, 5, 5", "%p1", 1},
    {"setp.eq.b64", "setp.eq.b64 %p1, 5, 4294967301", "%p1", 0},
    {"setp.eq.f64", "setp.eq.f64 %p1, 0d8000000000000000, 0d0000000000000000", "%p1", 1},
    {"setp.eq.s16", "mov.u16 %rs1, -1|setp.eq.s16 %p1, %rs1, -1", "%p1", 1},
    {"setp.eq.s32", "setp.eq.s32 %p1, 5, 6", "%p1", 0},
    {"setp.eq.s64", "setp.eq.s64 %p1, -5, -5", "%p1", 1},
    {"setp.ge.f32", "setp.ge.f32 %p1, 0f80000000, 0f00000000", "%p1", 1},
    {"setp.ge.s32", "setp.ge.s32 %p1, -1, 0", "%p1", 0},
    {"setp.ge.s64", "setp.ge.s64 %p1, 5, 5", "%p1", 1},
    {"setp.ge.u64", "setp.ge.u64 %p1, -1, 0", "%p1", 1},
    {"setp.gt.f32", "setp.gt.f32 %p1, 0f40000000, 0f7FC00000", "%p1", 0},
    {"setp.gt.f64", "setp.gt.f64 %p1, 0d4000000000000000, 0d3FF0000000000000", "%p1", 1},
    {"setp.gt.s32", "setp.gt.s32 %p1, -1, 0", "%p1", 0},
    {"setp.gt.s64", "setp.gt.s64 %p1, 0, -1", "%p1", 1},
    {"setp.gt.u16", "mov.u16 %rs1, -1|setp.gt.u16 %p1, %rs1, 1", "%p1", 1},
    {"setp.gt.u32", "mov.u32 %r1, -1|setp.gt.u32 %p1, %r1, 1023", "%p1", 1},
    {"setp.gt.u64", "setp.gt.u64 %p1, 1, -1", "%p1", 0},
    {"setp.le.s64", "setp.le.s64 %p1, -1, -1", "%p1", 1},
    {"setp.lt.f32", "setp.lt.f32 %p1, 0fBF800000, 0f80000000", "%p1", 1},
    {"setp.lt.f64", "setp.lt.f64 %p1, 0dBFF0000000000000, 0d8000000000000000", "%p1", 1},
    {"setp.lt.s32", "setp.lt.s32 %p1, -1, 0", "%p1", 1},
    {"setp.lt.s64", "setp.lt.s64 %p1, 1, -1", "%p1", 0},
    {"setp.lt.u16", "mov.u16 %rs1, -1|setp.lt.u16 %p1, %rs1, 1", "%p1", 0},
    {"setp.lt.u32", "setp.lt.u32 %p1, 1, -1", "%p1", 1},
    {"setp.lt.u64", "setp.lt.u64 %p1, -1, 1", "%p1", 0},
    {"setp.nan.f32", "setp.nan.f32 %p1, 0f7FC00000, 0f00000000", "%p1", 1},
    {"setp.nan.f64", "setp.nan.f64 %p1, 0d7FF8000000000000, 0d0000000000000000", "%p1",
     1},
    {"setp.ne.s16", "mov.u16 %rs1, 3|setp.ne.s16 %p1, %rs1, 3", "%p1", 0},
    {"setp.ne.s32", "setp.ne.s32 %p1, 3, 4", "%p1", 1},
    {"setp.ne.s64", "setp.ne.s64 %p1, 3, 4294967299", "%p1", 1},
    {"setp.num.f32", "setp.num.f32 %p1, 0f7FC00000, 0f00000000", "%p1", 0},
    {"setp.num.f64", "setp.num.f64 %p1, 0d7FF0000000000000, 0d0000000000000000", "%p1",
     1},
};

constexpr form_case memory_and_control[] = {
    {"atom.global.add.u32",
     "atom.global.add.u32 %r1, [%rd7], 255|ld.global.u32 %r2, [%rd7]", "%r2", 0x04030300},
    {"atom.global.cas.b32",
     "atom.global.cas.b32 %r1, [%rd7+24], 0, 9|atom.global.cas.b32 %r2, [%rd7+24], 0, 5",
     "%r2", 9},
    {"bar.sync", "bar.sync 0|mov.u32 %r1, 3", "%r1", 3},
    {"bra", "mov.u32 %r1, 1|mov.pred %p1, 0|@%p1 bra L|mov.u32 %r1, 2|L:", "%r1", 2},
    {"bra.uni", "mov.u32 %r1, 1|bra.uni L|mov.u32 %r1, 2|L:", "%r1", 1},
    {"ld.global.f32", "ld.global.f32 %f1, [%rd7+16]", "%f1", 0x3FC00000},
    {"ld.global.f64", "ld.global.f64 %fd1, [%rd7+8]", "%fd1", 0x4000000000000000},
    {"ld.global.s16", "ld.global.s16 %rd1, [%rd7+20]", "%rd1", 0xFFFFFFFFFFFFFFFD},
    {"ld.global.s32", "ld.global.s32 %rd1, [%rd7+20]", "%rd1", 0xFFFFFFFFFFFFFFFD},
    {"ld.global.s8", "ld.global.s8 %rd1, [%rd7+20]", "%rd1", 0xFFFFFFFFFFFFFFFD},
    {"ld.global.u16", "ld.global.u16 %rs1, [%rd7+2]", "%rs1", 0x0403},
    {"ld.global.u32", "ld.global.u32 %r1, [%rd7+20]", "%r1", 0xFFFFFFFD},
    {"ld.global.u64", "ld.global.u64 %rd1, [%rd7]", "%rd1", 0x0807060504030201},
    {"ld.global.u8", "ld.global.u8 %rs1, [%rd7+7]", "%rs1", 8},
    {"ld.local.f32",
     "mov.u64 %rd1, depot|st.local.f32 [%rd1+4], 0f3F800000|"
     "ld.local.f32 %f1, [%rd1+4]",
     "%f1", 0x3F800000},
    {"ld.local.f64",
     "mov.u64 %rd1, depot|st.local.f64 [%rd1], 0d3FF0000000000000|"
     "ld.local.f64 %fd1, [%rd1]",
     "%fd1", 0x3FF0000000000000},
    {"ld.local.u32",
     "mov.u64 %rd1, depot|st.local.u32 [%rd1+8], -1|"
     "ld.local.u32 %r1, [%rd1+8]",
     "%r1", 0xFFFFFFFF},
    {"ld.local.u64",
     "mov.u64 %rd1, depot|st.local.u64 [%rd1+8], -2|"
     "ld.local.u64 %rd2, [%rd1+8]",
     "%rd2", 0xFFFFFFFFFFFFFFFE},
    {"ld.local.u8",
     "mov.u64 %rd1, depot|st.local.u32 [%rd1], 16909060|"
     "ld.local.u8 %rs1, [%rd1+3]",
     "%rs1", 1},
    {"ld.local.v2.f32",
     "mov.u64 %rd1, depot|st.local.f32 [%rd1], 0f3F800000|"
     "st.local.f32 [%rd1+4], 0f40000000|ld.local.v2.f32 {%f1, %f2}, [%rd1]",
     "%f2", 0x40000000},
    {"ld.local.v2.f64",
     "mov.u64 %rd1, depot|st.local.f64 [%rd1], 0d3FF0000000000000|"
     "st.local.f64 [%rd1+8], 0d4000000000000000|"
     "ld.local.v2.f64 {%fd1, %fd2}, [%rd1]",
     "%fd2", 0x4000000000000000},
    {"ld.local.v2.u8",
     "mov.u64 %rd1, depot|st.local.u32 [%rd1], 16909060|"
     "ld.local.v2.u8 {%rs1, %rs2}, [%rd1+2]",
     "%rs2", 1},
    {"ld.param.f32", "ld.param.f32 %f1, [k_param_2]", "%f1", 0x3FC00000},
    {"ld.param.s32", "ld.param.s32 %rd1, [k_param_1]", "%rd1", 0xFFFFFFFFFFFFFFFE},
    {"ld.param.u32", "ld.param.u32 %r1, [k_param_1]", "%r1", 0xFFFFFFFE},
    {"ld.param.u64", "ld.param.u64 %rd1, [k_param_0]|sub.s64 %rd2, %rd1, %rd7", "%rd2",
     0},
    {"ld.param.v2.u32",
     "ld.param.v2.u32 {%r1, %r2}, [k_param_0]|cvt.u64.u32 %rd1, %r1|"
     "cvt.u64.u32 %rd2, %r2|shl.b64 %rd3, %rd2, 32|or.b64 %rd4, %rd3, %rd1|"
     "sub.s64 %rd5, %rd4, %rd7",
     "%rd5", 0},
    {"ld.shared.f32",
     "mov.u32 %r1, box|st.shared.f32 [%r1+4], 0f3F800000|"
     "ld.shared.f32 %f1, [%r1+4]",
     "%f1", 0x3F800000},
    {"ld.shared.f64",
     "mov.u32 %r1, box|st.shared.f64 [%r1+8], 0d3FF0000000000000|"
     "ld.shared.f64 %fd1, [%r1+8]",
     "%fd1", 0x3FF0000000000000},
    {"ld.shared.u32",
     "mov.u32 %r1, box|st.shared.f32 [%r1+8], 0f40000000|"
     "ld.shared.u32 %r2, [%r1+8]",
     "%r2", 0x40000000},
    {"ld.volatile.global.u32", "ld.volatile.global.u32 %r1, [%rd7+4]", "%r1", 0x08070605},
    {"membar.gl", "membar.gl|mov.u32 %r1, 4", "%r1", 4},
    {"nanosleep.u32", "nanosleep.u32 64|mov.u32 %r1, 4", "%r1", 4},
    {"ret", "mov.u32 %r1, 4|ret|mov.u32 %r1, 5", "%r1", 4},
    {"st.global.f32", "st.global.f32 [%rd7], 0f3F800000|ld.global.u64 %rd1, [%rd7]",
     "%rd1", 0x080706053F800000},
    {"st.global.f64",
     "st.global.f64 [%rd7], 0d3FF0000000000000|ld.global.u64 %rd1, [%rd7]", "%rd1",
     0x3FF0000000000000},
    {"st.global.u16", "st.global.u16 [%rd7+2], -1|ld.global.u64 %rd1, [%rd7]", "%rd1",
     0x08070605FFFF0201},
    {"st.global.u32", "st.global.u32 [%rd7+4], -1|ld.global.u64 %rd1, [%rd7]", "%rd1",
     0xFFFFFFFF04030201},
    {"st.global.u64", "st.global.u64 [%rd7], 5|ld.global.u64 %rd1, [%rd7]", "%rd1", 5},
    {"st.global.u8", "st.global.u8 [%rd7+1], 255|ld.global.u64 %rd1, [%rd7]", "%rd1",
     0x080706050403FF01},
    {"st.local.f32",
     "mov.u64 %rd1, depot|st.local.f32 [%rd1], 0f3F800000|"
     "ld.local.u32 %r1, [%rd1]",
     "%r1", 0x3F800000},
    {"st.local.f64",
     "mov.u64 %rd1, depot|st.local.f64 [%rd1], 0d3FF0000000000000|"
     "ld.local.u32 %r1, [%rd1+4]",
     "%r1", 0x3FF00000},
    {"st.local.u32",
     "mov.u64 %rd1, depot|st.local.u32 [%rd1], 258|"
     "ld.local.u8 %rs1, [%rd1+1]",
     "%rs1", 1},
    {"st.local.u64",
     "mov.u64 %rd1, depot|st.local.u64 [%rd1], 5|ld.local.u64 %rd2, [%rd1]", "%rd2", 5},
    {"st.local.u8",
     "mov.u64 %rd1, depot|st.local.u32 [%rd1], 0|st.local.u8 [%rd1+1], 3|"
     "ld.local.u32 %r1, [%rd1]",
     "%r1", 0x300},
    {"st.local.v4.u8",
     "mov.u64 %rd1, depot|mov.u16 %rs1, 5|"
     "st.local.v4.u8 [%rd1+4], {%rs1, 6, 7, 8}|ld.local.u32 %r1, [%rd1+4]",
     "%r1", 0x08070605},
    {"st.shared.f32",
     "mov.u32 %r1, box|st.shared.f32 [%r1], 0f40000000|"
     "ld.shared.f32 %f1, [%r1]",
     "%f1", 0x40000000},
    {"st.shared.f64",
     "mov.u32 %r1, box|st.shared.f64 [%r1], 0d4000000000000000|"
     "ld.shared.f32 %f1, [%r1+4]",
     "%f1", 0x40000000},
    {"st.shared.u32",
     "mov.u32 %r1, box|st.shared.u32 [%r1+12], -2|"
     "ld.shared.u32 %r2, [%r1+12]",
     "%r2", 0xFFFFFFFE},
    {"st.volatile.global.u32",
     "st.volatile.global.u32 [%rd7], 7|ld.global.u64 %rd1, [%rd7]", "%rd1",
     0x0807060500000007},
};

std::vector<form_case> all_form_cases() {
  std::vector<form_case> out(std::begin(arithmetic), std::end(arithmetic));
  out.insert(out.end(), std::begin(choices), std::end(choices));
  out.insert(out.end(), std::begin(memory_and_control), std::end(memory_and_control));
  return out;
}

/// Returns the text of a kernel with these instructions.
std::string kernel_text(std::string_view code) {
  std::string out =
      ".visible .entry k(\n.param .u64 k_param_0,\n.param .u32 k_param_1,\n"
      ".param .f32 k_param_2\n)\n{\n.reg .pred %p<4>;\n.reg .b16 %rs<4>;\n"
      ".reg .f32 %f<4>;\n.reg .b32 %r<4>;\n.reg .f64 %fd<4>;\n.reg .b64 %rd<8>;\n"
      ".shared .align 8 .b8 box[16];\n.local .align 8 .b8 depot[16];\n"
      "ld.param.u64 %rd7, [k_param_0];\n";
  while (!code.empty()) {
    const std::size_t end = std::min(code.find('|'), code.size());
    out += code.substr(0, end);
    out += code[end - 1] == ':' ? "\n" : ";\n";
    code.remove_prefix(std::min(end + 1, code.size()));
  }
  return out + "ret;\n}\n";
}

/// Runs instructions in one thread and returns the value of a register.
std::uint64_t register_after(const form_case& c) {
  const std::vector<kernel> kernels = or_throw(parse(kernel_text(c.code)));
  std::array<std::uint64_t, 4> buffer = {0x0807060504030201, 0x4000000000000000,
                                         0xFFFFFFFD3FC00000, 0};
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  const std::int32_t minus_two = -2;
  const float number = 1.5F;
  const std::array<const void*, 3> arguments = {&address, &minus_two, &number};
  launch what;
  what.options.memory = {{buffer.data(), sizeof buffer}};
  what.arguments = arguments;
  const outcome done = interpret(kernels[0], what);
  EXPECT_EQ(done.fault, "") << c.code;
  const std::uint32_t number_of_register = kernels[0].find_register(c.result);
  return number_of_register < done.registers.size() ? done.registers[number_of_register]
                                                    : ~std::uint64_t{0};
}

TEST(PtxForms, GiveTheResultsComputedByHand) {
  for (const form_case& c : all_form_cases()) {
    EXPECT_NE(std::string_view(c.code).find(c.form), std::string_view::npos) << c.code;
    EXPECT_EQ(register_after(c), c.expected) << c.form;
  }
}

TEST(PtxForms, HaveATestEach) {
  std::vector<std::string_view> tested;
  for (const form_case& c : all_form_cases()) {
    tested.emplace_back(c.form);
  }
  std::sort(tested.begin(), tested.end());
  EXPECT_EQ(tested,
            std::vector<std::string_view>(known_forms().begin(), known_forms().end()));
}

TEST(PtxForms, ThatAreUnknownAreRefusedByName) {
  const auto refused = parse(kernel_text("ex2.approx.f32 %f1, %f2"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  EXPECT_NE(refused.error().message().find("\"ex2.approx.f32\""), std::string::npos)
      << refused.error().message();
}

TEST(PtxForms, OfDamagedTextAreRefused) {
  for (const char* code : {"add.s32 %r1, 1", "add.s32 %r1, %r9, 1", "bra NOWHERE",
                           "ld.global.u32 %r1, [%rd7+x]", "mov.u32 %r1, %warpid"}) {
    const auto refused = parse(kernel_text(code));
    ASSERT_FALSE(refused) << code;
    EXPECT_EQ(refused.error().code(), errc::corrupt) << code;
    EXPECT_NE(refused.error().location(), "") << code;
  }
  EXPECT_FALSE(parse(".visible .entry k(\n)\n{\n"));
}

}  // namespace
}  // namespace weir::tessera::ptx
