// SPDX-License-Identifier: Apache-2.0
/// @file
/// The container of kernels: what it holds, how it is read from bytes and written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/arguments.hpp"
#include "weir/tessera/module/digest.hpp"
#include "weir/tessera/module/signature.hpp"

namespace weir::tessera {

/// Version of the ABI that a module was made for, or that a runtime speaks.
struct abi_version {
  std::uint16_t major = 1;
  std::uint16_t minor = 0;

  bool operator==(const abi_version&) const = default;
};
/// What this runtime speaks.
inline constexpr abi_version runtime_abi{1, 0};

/// @source{docs/formats/fatbin.md, sections}
enum class section_kind : std::uint32_t {
  strings = 1,
  kernels = 2,
  parameters = 3,
  policy = 4,
  plans = 5,
  explain = 6,
  signature = 7,
  cpu_so = 16,
  cpu_registered = 17,
  ptx = 32,
  cubin = 33,
  nvvm_bitcode = 34,
  rocdl_bitcode = 48,
  hsaco = 49,
};
/// E.g. "CPU_SO"; "unknown" for other numbers.
[[nodiscard]] std::string_view name_of(section_kind kind) noexcept;
/// The kinds from 16 on that this version knows.
[[nodiscard]] bool holds_code(section_kind kind) noexcept;
/// Finds a kind that holds code by its name, in either case. @error{unknown_key}
[[nodiscard]] result<section_kind> code_kind_named(std::string_view name);

/// One kernel as the container describes it. Flags are those of `tessera_kernel.h`.
struct kernel_record {
  std::string name;    ///< C identifier, unique in the module
  std::string symbol;  ///< of the entry, in the code sections
  std::vector<kernel_parameter> parameters;
  /// Threads for what a launch leaves at zero; zero where the module says nothing.
  std::array<std::uint32_t, 3> default_block{};
  std::uint32_t most_threads = 1024;  ///< product of the extents of a block
  std::uint32_t shared_bytes = 0;  ///< that the kernel needs whatever a launch asks for
  std::uint32_t flags = 0;         ///< TESS_KERNEL_*
  std::uint64_t targets = ~std::uint64_t{0};  ///< bit i: code section i has it

  bool operator==(const kernel_record&) const = default;
};

/// How a module wants numbers treated if nobody else says so.
/// @source{Tessera Runtime & ABI, section 11}
struct policy_record {
  bool stable_reductions = true;
  bool deterministic = true;
  bool rng_stateless = true;
  bool fast_math = false;
  bool wire_quantisation = false;  ///< narrower types between devices are permitted
  std::uint64_t seed = 0;          ///< of random numbers

  bool operator==(const policy_record&) const = default;
};

/// A hint which algorithm a collective should take.
struct plan_record {
  /// 0 all, 1 all-reduce, 2 reduce-scatter, 3 all-gather, 4 broadcast
  std::uint32_t collective = 0;
  std::uint32_t dtype = 0;      ///< 0: any
  std::string axis;             ///< "tp", "dp+tp"; empty: any
  std::uint32_t algorithm = 0;  ///< 0 none, 1 ring, 2 tree, 3 hierarchical, 4 direct
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = ~std::uint64_t{0};  ///< included
  std::uint64_t chunk_bytes = 0;                 ///< 0: as the runtime likes
  std::uint32_t wire_dtype = 0;                  ///< 0: as stored

  bool operator==(const plan_record&) const = default;
};

/// A section whose bytes this version hands on as they are. The bytes are those of the
/// image that was parsed, which has to live as long.
struct code_section {
  section_kind kind = section_kind::cpu_so;
  bool optional = false;
  std::string arch;  ///< "x86-64-v3", "aarch64", "sm_90a"
  bytes_view bytes;
};

struct module_signature {
  public_key key{};
  signature_bytes bytes{};
};

/// A container, read and checked; code stays in the image.
/// @threads{a value}
struct fatbin {
  abi_version abi;
  digest256 source_hash{};   ///< of the IR that the module was compiled from
  digest256 content_hash{};  ///< of all bytes but its own and the signature's
  std::uint64_t bytes = 0;   ///< of the container
  std::vector<kernel_record> kernels;
  std::optional<policy_record> policy;
  std::vector<plan_record> plans;
  std::string explain;  ///< JSON about tiles and fusion, valid UTF-8; empty if absent
  std::optional<module_signature> signature;  ///< verified
  std::vector<code_section> code;             ///< at most 64
  std::vector<code_section> others;  ///< optional sections of kinds that are not known

  /// Null if there is none.
  [[nodiscard]] const kernel_record* find(std::string_view name) const noexcept;
};

/// Whether the bytes begin as a container does.
[[nodiscard]] bool looks_like_fatbin(bytes_view image) noexcept;

/// Reads and checks a container, in this order: magic, ABI version, sizes, hash of the
/// whole, sections, strings, kernels with names and layouts, signature if there is one.
/// @error{corrupt, any byte that is not as it was written; unsupported_version, major
/// differs or minor is newer, whatever else is wrong behind it; unsupported, a section
/// that is required and not known, compressed sections, another version of the container;
/// out_of_memory}
[[nodiscard]] result<fatbin> parse_fatbin(bytes_view image,
                                          abi_version runtime = runtime_abi);

/// Makes containers. The same calls give the same bytes, signature included.
/// @threads{thread-compatible}
class fatbin_builder {
 public:
  fatbin_builder() = default;
  /// Everything that a container holds but its signature. Keeps views of its code.
  explicit fatbin_builder(const fatbin& from);

  void set_abi(abi_version abi) { content_.abi = abi; }
  void set_source_hash(const digest256& hash) { content_.source_hash = hash; }
  void set_policy(const policy_record& policy) { content_.policy = policy; }
  void set_explain(std::string json) { content_.explain = std::move(json); }
  void add_plan(plan_record plan) { content_.plans.push_back(std::move(plan)); }
  /// Offsets of the parameters are worked out; an empty symbol becomes the name.
  /// @error as of `lay_out`
  [[nodiscard]] result<void> add_kernel(kernel_record kernel);
  /// Returns the number of the section, for `kernel_record::targets`. The bytes have to
  /// live until `build`.
  std::size_t add_code(section_kind kind, std::string arch, bytes_view bytes = {});
  /// A section of a kind that this version does not know; readers skip it.
  void add_optional(std::uint32_t kind, bytes_view bytes);

  /// The container, which `parse_fatbin` of the same version accepts.
  /// @error{invalid_argument, what it would not accept; out_of_memory}
  [[nodiscard]] result<byte_vector> build(const secret_key* sign_with = nullptr) const;

 private:
  fatbin content_;
};

}  // namespace weir::tessera
