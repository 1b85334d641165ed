// SPDX-License-Identifier: Apache-2.0
/// @file
/// The forms of instructions that the interpreter knows: those that `scripts/ptx forms`
/// lists. Each has a test in forms_test.cpp.
#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include "ptx/module.hpp"

namespace weir::tessera::ptx {
namespace {

/// Returns the type that a name such as `u32` stands for, or the type `none`.
type type_named(std::string_view name) {
  if (name == "pred") {
    return {type_kind::pred, 1};
  }
  constexpr std::string_view letters = "usfb";
  constexpr std::array<type_kind, 4> kinds = {type_kind::u, type_kind::s, type_kind::f,
                                              type_kind::b};
  const std::size_t kind = name.empty() ? letters.npos : letters.find(name[0]);
  std::uint8_t bits = 0;
  if (kind == letters.npos ||
      std::from_chars(name.data() + 1, name.data() + name.size(), bits).ptr !=
          name.data() + name.size()) {
    return {};
  }
  return {kinds[kind], bits};
}

/// Output of `scripts/ptx forms`.
constexpr std::string_view all_forms[] = {"add.rn.f32",
                                          "add.rn.f64",
                                          "add.s32",
                                          "add.s64",
                                          "add.u64",
                                          "and.b16",
                                          "and.b32",
                                          "and.b64",
                                          "and.pred",
                                          "atom.global.add.u32",
                                          "atom.global.cas.b32",
                                          "bar.sync",
                                          "bfi.b64",
                                          "bra",
                                          "bra.uni",
                                          "cvt.f64.f32",
                                          "cvt.rn.f32.f64",
                                          "cvt.rn.f32.s32",
                                          "cvt.rn.f32.u16",
                                          "cvt.rn.f64.s32",
                                          "cvt.s64.s16",
                                          "cvt.s64.s32",
                                          "cvt.s64.s8",
                                          "cvt.u16.u32",
                                          "cvt.u16.u64",
                                          "cvt.u32.u16",
                                          "cvt.u32.u64",
                                          "cvt.u64.u16",
                                          "cvt.u64.u32",
                                          "cvta.to.global.u64",
                                          "div.rn.f32",
                                          "div.rn.f64",
                                          "div.s64",
                                          "div.u32",
                                          "div.u64",
                                          "fma.rn.f32",
                                          "ld.global.f32",
                                          "ld.global.f64",
                                          "ld.global.s16",
                                          "ld.global.s32",
                                          "ld.global.s8",
                                          "ld.global.u16",
                                          "ld.global.u32",
                                          "ld.global.u64",
                                          "ld.global.u8",
                                          "ld.local.f32",
                                          "ld.local.f64",
                                          "ld.local.u32",
                                          "ld.local.u64",
                                          "ld.local.u8",
                                          "ld.local.v2.f32",
                                          "ld.local.v2.f64",
                                          "ld.local.v2.u8",
                                          "ld.param.f32",
                                          "ld.param.s32",
                                          "ld.param.u32",
                                          "ld.param.u64",
                                          "ld.param.v2.u32",
                                          "ld.shared.f32",
                                          "ld.shared.f64",
                                          "ld.shared.u32",
                                          "ld.volatile.global.u32",
                                          "mad.lo.s32",
                                          "max.s32",
                                          "max.s64",
                                          "membar.gl",
                                          "min.s64",
                                          "mov.b32",
                                          "mov.b64",
                                          "mov.f32",
                                          "mov.f64",
                                          "mov.pred",
                                          "mov.u16",
                                          "mov.u32",
                                          "mov.u64",
                                          "mul.lo.s32",
                                          "mul.lo.s64",
                                          "mul.rn.f32",
                                          "mul.rn.f64",
                                          "mul.wide.s32",
                                          "mul.wide.u32",
                                          "nanosleep.u32",
                                          "neg.s32",
                                          "neg.s64",
                                          "not.b32",
                                          "not.b64",
                                          "not.pred",
                                          "or.b16",
                                          "or.b32",
                                          "or.b64",
                                          "or.pred",
                                          "rcp.rn.f64",
                                          "rem.s64",
                                          "rem.u32",
                                          "ret",
                                          "selp.b32",
                                          "selp.b64",
                                          "selp.f32",
                                          "selp.f64",
                                          "selp.u16",
                                          "selp.u32",
                                          "selp.u64",
                                          "setp.eq.b32",
                                          "setp.eq.b64",
                                          "setp.eq.f64",
                                          "setp.eq.s16",
                                          "setp.eq.s32",
                                          "setp.eq.s64",
                                          "setp.ge.f32",
                                          "setp.ge.s32",
                                          "setp.ge.s64",
                                          "setp.ge.u64",
                                          "setp.gt.f32",
                                          "setp.gt.f64",
                                          "setp.gt.s32",
                                          "setp.gt.s64",
                                          "setp.gt.u16",
                                          "setp.gt.u32",
                                          "setp.gt.u64",
                                          "setp.le.s64",
                                          "setp.lt.f32",
                                          "setp.lt.f64",
                                          "setp.lt.s32",
                                          "setp.lt.s64",
                                          "setp.lt.u16",
                                          "setp.lt.u32",
                                          "setp.lt.u64",
                                          "setp.nan.f32",
                                          "setp.nan.f64",
                                          "setp.ne.s16",
                                          "setp.ne.s32",
                                          "setp.ne.s64",
                                          "setp.num.f32",
                                          "setp.num.f64",
                                          "shl.b32",
                                          "shl.b64",
                                          "shr.s32",
                                          "shr.s64",
                                          "shr.u32",
                                          "shr.u64",
                                          "sqrt.rn.f64",
                                          "st.global.f32",
                                          "st.global.f64",
                                          "st.global.u16",
                                          "st.global.u32",
                                          "st.global.u64",
                                          "st.global.u8",
                                          "st.local.f32",
                                          "st.local.f64",
                                          "st.local.u32",
                                          "st.local.u64",
                                          "st.local.u8",
                                          "st.local.v4.u8",
                                          "st.shared.f32",
                                          "st.shared.f64",
                                          "st.shared.u32",
                                          "st.volatile.global.u32",
                                          "sub.rn.f32",
                                          "sub.rn.f64",
                                          "sub.s32",
                                          "sub.s64",
                                          "xor.b32",
                                          "xor.b64",
                                          "xor.pred"};

template <class T>
struct named {
  std::string_view name;
  T value;
};
constexpr named<operation> operations[] = {
    {"add", operation::add},
    {"sub", operation::sub},
    {"mul.lo", operation::mul_lo},
    {"mul.wide", operation::mul_wide},
    {"mul", operation::mul_lo},
    {"mad.lo", operation::mad_lo},
    {"div", operation::div},
    {"rem", operation::rem},
    {"neg", operation::neg},
    {"min", operation::min},
    {"max", operation::max},
    {"and", operation::bit_and},
    {"or", operation::bit_or},
    {"xor", operation::bit_xor},
    {"not", operation::bit_not},
    {"shl", operation::shl},
    {"shr", operation::shr},
    {"bfi", operation::bfi},
    {"setp", operation::setp},
    {"selp", operation::selp},
    {"mov", operation::mov},
    {"cvt", operation::cvt},
    {"cvta.to", operation::cvta},
    {"fma", operation::fma},
    {"rcp", operation::rcp},
    {"sqrt", operation::sqrt},
    {"ld", operation::ld},
    {"st", operation::st},
    {"atom", operation::atom_add},
    {"bar.sync", operation::bar},
    {"bra", operation::bra},
    {"ret", operation::ret},
    {"membar.gl", operation::membar},
    {"nanosleep", operation::nanosleep},
};
constexpr named<comparison> comparisons[] = {
    {"eq", comparison::eq},   {"ne", comparison::ne},   {"lt", comparison::lt},
    {"le", comparison::le},   {"gt", comparison::gt},   {"ge", comparison::ge},
    {"num", comparison::num}, {"nan", comparison::nan},
};
constexpr named<space> spaces[] = {
    {"global", space::global},
    {"shared", space::shared},
    {"local", space::local},
    {"param", space::param},
};

/// Looks a name up in a table and stores its value in `to`. Returns false if the table
/// does not have the name.
template <class T, std::size_t N>
bool look_up(const named<T> (&table)[N], std::string_view name, T& to) {
  for (const named<T>& entry : table) {
    if (entry.name == name) {
      to = entry.value;
      return true;
    }
  }
  return false;
}

/// Adds the meaning of one part of the name of a form, behind the operation, to the form.
void apply(std::string_view part, form& to) {
  const type named_type = type_named(part);
  if (named_type.kind != type_kind::none) {
    (to.to.kind == type_kind::none ? to.to : to.from) = named_type;
  } else if (part == "v2" || part == "v4") {
    to.elements = part == "v2" ? 2 : 4;
  } else if (part == "volatile") {
    to.is_volatile = true;
  } else if (part == "cas") {
    to.op = operation::atom_cas;
  } else if (!look_up(spaces, part, to.in) && to.op == operation::setp) {
    look_up(comparisons, part, to.compare);
  }
}

}  // namespace

std::span<const std::string_view> known_forms() {
  return all_forms;
}

result<form> form_named(std::string_view name) {
  if (!std::binary_search(known_forms().begin(), known_forms().end(), name)) {
    return error(errc::unsupported,
                 fmt::format("cannot interpret PTX: expected a known form of "
                             "instructions, found \"{}\"",
                             name));
  }
  form out;
  std::string_view rest;
  for (std::size_t end = name.size();; end = name.rfind('.', end - 1)) {
    if (look_up(operations, name.substr(0, end), out.op)) {
      rest = name.substr(end);
      break;
    }
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('.'));
    apply(part, out);
    rest.remove_prefix(part.size());
  }
  return out;
}

}  // namespace weir::tessera::ptx
