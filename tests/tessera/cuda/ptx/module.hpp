// SPDX-License-Identifier: Apache-2.0
/// @file
/// PTX in the form in which it is interpreted: kernels, their memory, and instructions
/// whose operands are resolved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tessera::ptx {

/// Types of operands: unsigned, signed and float numbers, plain bits, and predicates.
enum class type_kind : std::uint8_t { none, u, s, f, b, pred };
/// A type, such as s64.
struct type {
  type_kind kind = type_kind::none;
  std::uint8_t bits = 0;

  bool operator==(const type&) const = default;
};

/// Operations.
enum class operation : std::uint8_t {
  add,
  sub,
  mul_lo,
  mul_wide,
  mad_lo,
  div,
  rem,
  neg,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  shl,
  shr,
  bfi,
  setp,
  selp,
  mov,
  cvt,
  cvta,
  fma,
  rcp,
  sqrt,
  ld,
  st,
  atom_add,
  atom_cas,
  bar,
  bra,
  ret,
  membar,
  nanosleep
};
/// Comparisons of setp.
enum class comparison : std::uint8_t { eq, ne, lt, le, gt, ge, num, nan };
/// State spaces. `generic` is an address that is taken for global.
enum class space : std::uint8_t { generic, global, shared, local, param };

/// A decoded form, such as `ld.shared.f32`.
struct form {
  operation op = operation::ret;
  type to;    ///< the type, or the one of the result for cvt
  type from;  ///< the type of the source of cvt
  comparison compare = comparison::eq;
  space in = space::generic;
  bool is_volatile = false;
  std::uint8_t elements = 1;  ///< numbers that ld or st move
};

/// Returns the form of this name. Only forms that the kernels contain and that have a
/// test are known. @error{unsupported; names the form}
[[nodiscard]] result<form> form_named(std::string_view name);
/// Returns the names of all known forms, in ascending order.
[[nodiscard]] std::span<const std::string_view> known_forms();

/// Kinds of operands.
enum class operand_kind : std::uint8_t { reg, number, special };
/// An operand. An address is a register or a number, and an offset.
struct operand {
  operand_kind kind = operand_kind::number;
  std::uint32_t reg = 0;    ///< number of the register, or of the special register
  std::uint64_t value = 0;  ///< bits of a number
  std::int64_t offset = 0;  ///< of an address
};

/// An instruction.
struct instruction {
  form what;
  std::uint32_t name = 0;  ///< index in kernel::forms
  bool guarded = false;    ///< it depends on a predicate
  bool guard_negated = false;
  std::uint32_t guard = 0;  ///< register of the predicate
  std::vector<operand> operands;
  std::uint32_t target = 0;  ///< of bra
  std::uint32_t line = 0;    ///< line of the text
};

/// A parameter of a kernel.
struct parameter {
  std::string name;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// A kernel.
struct kernel {
  std::string name;
  std::vector<parameter> parameters;
  std::vector<std::uint8_t> register_bits;  ///< width of each register; 1: a predicate
  std::vector<std::string> register_names;
  std::size_t shared_bytes = 0;
  std::size_t local_bytes = 0;
  std::vector<instruction> code;
  std::vector<std::string> forms;  ///< names of the forms of its instructions

  /// Returns the number of a register, or the number of registers if there is none.
  [[nodiscard]] std::uint32_t find_register(std::string_view wanted) const;
};

/// Reads PTX. @error{corrupt; the text is not PTX of the known kind, with its line}
/// @error{unsupported; a form, a directive or a special register that is not known}
[[nodiscard]] result<std::vector<kernel>> parse(std::string_view text);

/// Names of the special registers, by their number: tid.x, tid.y, ..., nctaid.z.
inline constexpr std::array<std::string_view, 12> special_registers = {
    "%tid.x",   "%tid.y",   "%tid.z",   "%ntid.x",   "%ntid.y",   "%ntid.z",
    "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"};

/// Returns the result of an operation without memory and control, for operands that are
/// masked to their types. @error{invalid_argument; a division by 0}
[[nodiscard]] result<std::uint64_t> compute(const form& what,
                                            const std::array<std::uint64_t, 4>& a);

}  // namespace weir::tessera::ptx
