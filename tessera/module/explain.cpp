// SPDX-License-Identifier: Apache-2.0
/// @file
/// The description of a module as JSON. Members stand in a fixed order, so that equal
/// modules have equal descriptions.
///
/// The text is what `tessExplain` and `weir module inspect` show. It is written by
/// hand and not by a JSON library, because its members must keep their order.
#include "explain.hpp"

#include <fmt/core.h>

#include <array>
#include "weir/base/text.hpp"

namespace weir::tessera {

namespace {

/// Return the words of kinds, directions, algorithms and collectives. A number that this
/// version does not know is "unknown" or "other", because a description must not fail.
std::string_view word_of(parameter_kind kind) {
  switch (kind) {
    case parameter_kind::scalar: return "scalar";
    case parameter_kind::pointer: return "pointer";
    case parameter_kind::opaque: return "opaque";
  }
  return "unknown";
}

/// Only pointers have another direction than "in".
std::string_view word_of(parameter_direction direction) {
  switch (direction) {
    case parameter_direction::in: return "in";
    case parameter_direction::out: return "out";
    case parameter_direction::inout: return "inout";
  }
  return "unknown";
}

/// The numbers are those of the plans of a container.
std::string_view word_of_algorithm(std::uint32_t algorithm) {
  switch (algorithm) {
    case 0: return "any";
    case 1: return "ring";
    case 2: return "tree";
    case 3: return "hierarchical";
    case 4: return "direct";
    default: return "unknown";
  }
}

std::string_view word_of_collective(std::uint32_t collective) {
  switch (collective) {
    case 0: return "any";
    case 1: return "all_reduce";
    case 2: return "reduce_scatter";
    case 3: return "all_gather";
    case 4: return "broadcast";
    default: return "other";
  }
}

/// Returns the name of a type, or null for a parameter without one.
std::string dtype_json(std::uint32_t id) {
  return id == 0 ? "null" : json_quote(name_of_dtype(id));
}

// Returns a JSON array whose elements are made by `one`.
template <class Range, class One>
std::string list(const Range& range, One one) {
  std::string out = "[";
  for (const auto& element : range) {
    out += out.size() == 1 ? "" : ",";
    out += one(element);
  }
  return out + "]";
}

/// Pointers have two members more.
std::string parameter_json(const kernel_parameter& p) {
  std::string out = fmt::format(
      R"({{"name":{},"kind":"{}","dtype":{},"size":{},"offset":{})", json_quote(p.name),
      word_of(p.kind), dtype_json(p.dtype), p.size, p.offset);
  if (p.kind == parameter_kind::pointer) {
    out += fmt::format(R"(,"direction":"{}","space":{})", word_of(p.direction),
                       static_cast<std::uint32_t>(p.space));
  }
  return out + "}";
}

/// Returns the names of the flags that are set.
std::string flags_json(std::uint32_t flags) {
  /// A bit of the flags and its word in the description.
  struct flag_word {
    std::uint32_t flag;
    std::string_view word;
  };
  // The order is that of the words in the output.
  constexpr std::array<flag_word, 6> words{{
      {TESS_KERNEL_DETERMINISTIC, "deterministic"},
      {TESS_KERNEL_USES_BARRIER, "uses_barrier"},
      {TESS_KERNEL_PER_THREAD, "per_thread"},
      {TESS_KERNEL_PERSISTENT_ONLY, "persistent_only"},
      {TESS_KERNEL_PERSISTENT_CAPABLE, "persistent_capable"},
      {TESS_KERNEL_ANY_BLOCK, "any_block"},
  }};
  std::vector<std::string_view> set;
  for (const flag_word& w : words) {
    if ((flags & w.flag) != 0) {
      set.push_back(w.word);
    }
  }
  return list(set, [](std::string_view w) { return json_quote(w); });
}

/// Describes kernel `i`. `selected` is the section that it runs from, or -1.
std::string kernel_json(const fatbin& module, std::size_t i, std::ptrdiff_t selected) {
  const kernel_record& k = module.kernels[i];
  // Both sizes are shown: that of the structure and that without the padding at its end.
  const argument_extent extent = extent_of(k.parameters);
  std::vector<std::size_t> targets;
  // Numbers of the sections that have code for the kernel.
  for (std::size_t s = 0; s < module.code.size(); ++s) {
    if ((k.targets >> s & 1) != 0) {
      targets.push_back(s);
    }
  }
  return fmt::format(
      R"({{"name":{},"symbol":{},"argument_bytes":{},"argument_bytes_used":{},)"
      R"("default_block":[{},{},{}],"most_threads":{},"shared_bytes":{},"flags":{},)"
      R"("parameters":{},"targets":{},"selected":{}}})",
      json_quote(k.name), json_quote(k.symbol), extent.padded, extent.used,
      k.default_block[0], k.default_block[1], k.default_block[2], k.max_threads,
      k.shared_bytes, flags_json(k.flags), list(k.parameters, parameter_json),
      list(targets, [](std::size_t s) { return std::to_string(s); }),
      selected < 0 ? std::string("null") : std::to_string(selected));
}

/// Describes a section of code. `selected` means that a kernel runs from it.
/// The content of a section is not shown, only its size.
std::string section_json(const section_facts& s) {
  return fmt::format(R"({{"kind":"{}","arch":{},"bytes":{},"selected":{}}})",
                     name_of(s.kind), json_quote(s.arch), s.bytes, s.selected);
}

/// Describes a plan. The names of members are part of the interface.
std::string plan_json(const plan_record& p) {
  return fmt::format(
      R"({{"collective":"{}","dtype":{},"axis":{},"algorithm":"{}","least_bytes":{},)"
      R"("most_bytes":{},"chunk_bytes":{},"wire_dtype":{}}})",
      word_of_collective(p.collective), dtype_json(p.dtype),
      p.axis.empty() ? std::string("null") : json_quote(p.axis),
      word_of_algorithm(p.algorithm), p.least_bytes, p.max_bytes, p.chunk_bytes,
      dtype_json(p.wire_dtype));
}

/// Returns the policy, or null if the module has none.
std::string policy_json(const std::optional<policy_record>& p) {
  if (!p) {
    return "null";
  }
  return fmt::format(R"({{"stable_reductions":{},"deterministic":{},"rng_stateless":{},)"
                     R"("fast_math":{},"wire_quantisation":{},"seed":{}}})",
                     p->stable_reductions, p->deterministic, p->rng_stateless,
                     p->fast_math, p->wire_quantisation, p->seed);
}

}  // namespace

// Sections are those of code, in the order in which kernels name them.
std::vector<section_facts> facts_of(const fatbin& module) {
  std::vector<section_facts> out;
  for (const code_section& s : module.code) {
    out.push_back({s.kind, s.arch, s.bytes.size(), false});
  }
  return out;
}

// The explanation of the module itself is JSON already, which the parser has checked, so
// it becomes a member as it is.
// `sections` and `selected_section` differ from the container if the module was loaded:
// they say what runs here.
std::string explain_json(const fatbin& module, const std::vector<section_facts>& sections,
                         const std::vector<std::ptrdiff_t>& selected_section,
                         signature_state signature) {
  // A loop with numbers, because each kernel needs the section of the same number.
  std::string kernels = "[";
  for (std::size_t i = 0; i < module.kernels.size(); ++i) {
    kernels += i == 0 ? "" : ",";
    kernels += kernel_json(module, i, selected_section[i]);
  }
  // Null without a signature.
  const std::string key =
      module.signature ? json_quote(to_hex(module.signature->key)) : "null";
  return fmt::format(
      R"({{"abi":[{},{}],"bytes":{},"source_hash":"{}","content_hash":"{}",)"
      R"("signature":{{"state":"{}","key":{}}},"kernels":{}],"sections":{},)"
      R"("policy":{},"plans":{},"explain":{}}})",
      module.abi.major, module.abi.minor, module.bytes, to_hex(module.source_hash),
      to_hex(module.content_hash), name_of(signature), key, kernels,
      list(sections, section_json), policy_json(module.policy),
      list(module.plans, plan_json), module.explain.empty() ? "null" : module.explain);
}

// A container that has only been read: no section is selected, and no trust was checked.
std::string explain(const fatbin& module) {
  return explain_json(
      module, facts_of(module), std::vector<std::ptrdiff_t>(module.kernels.size(), -1),
      module.signature ? signature_state::valid : signature_state::absent);
}

}  // namespace weir::tessera
