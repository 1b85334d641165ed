// SPDX-License-Identifier: Apache-2.0
/// @file
/// The container of kernels: its content, its reader and its writer.
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
  std::uint16_t major = 1;  ///< major version
  std::uint16_t minor = 0;  ///< minor version

  bool operator==(const abi_version&) const = default;
};
/// Version of the ABI of this library.
inline constexpr abi_version runtime_abi{1, 0};

/// Kinds of sections. @source{docs/formats/fatbin.md, sections}
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
/// Returns the name of a kind, such as "CPU_SO", or "unknown".
[[nodiscard]] std::string_view name_of(section_kind kind) noexcept;
/// Returns true for kinds that hold code.
[[nodiscard]] bool holds_code(section_kind kind) noexcept;
/// Returns the kind of code of this name, in either case.
/// @error{unknown_key; there is no such kind}
[[nodiscard]] result<section_kind> code_kind_named(std::string_view name);

/// One kernel as the container describes it. Flags are those of `tessera_kernel.h`.
struct kernel_record {
  std::string name;                          ///< C identifier, unique in the module
  std::string symbol;                        ///< name of the entry in the code sections
  std::vector<kernel_parameter> parameters;  ///< parameters in order
  /// Extents of a block for launches that leave them 0; 0: the module gives none.
  std::array<std::uint32_t, 3> default_block{};
  std::uint32_t max_threads = 1024;           ///< largest number of threads of a block
  std::uint32_t shared_bytes = 0;             ///< shared memory that every launch gets
  std::uint32_t flags = 0;                    ///< TESS_KERNEL_*
  std::uint64_t targets = ~std::uint64_t{0};  ///< bit i: code section i has it

  bool operator==(const kernel_record&) const = default;
};

/// Policy of a module, which counts if the program sets none.
/// @source{Tessera Runtime & ABI, section 11}
struct policy_record {
  bool stable_reductions = true;   ///< stable reductions
  bool deterministic = true;       ///< equal bits in every run
  bool rng_stateless = true;       ///< stateless random numbers
  bool fast_math = false;          ///< fast math is permitted
  bool wire_quantisation = false;  ///< narrower types between devices are permitted
  std::uint64_t seed = 0;          ///< seed of random numbers

  bool operator==(const policy_record&) const = default;
};

/// A hint for the algorithm of collectives.
struct plan_record {
  /// Kind: 0 all, 1 all-reduce, 2 reduce-scatter, 3 all-gather, 4 broadcast
  std::uint32_t collective = 0;
  std::uint32_t dtype = 0;        ///< 0: any
  std::string axis;               ///< "tp", "dp+tp"; empty: any
  std::uint32_t algorithm = 0;    ///< 0 none, 1 ring, 2 tree, 3 hierarchical, 4 direct
  std::uint64_t least_bytes = 0;  ///< smallest size in bytes
  std::uint64_t max_bytes = ~std::uint64_t{0};  ///< largest size in bytes
  std::uint64_t chunk_bytes = 0;                ///< bytes of a piece; 0: chosen
  std::uint32_t wire_dtype = 0;  ///< type between ranks; 0: that of the elements

  bool operator==(const plan_record&) const = default;
};

/// A section of code. Its bytes are those of the parsed image, which must live as long.
struct code_section {
  section_kind kind = section_kind::cpu_so;  ///< kind of the section
  bool optional = false;                     ///< true if readers may skip it
  std::string arch;                          ///< "x86-64-v3", "aarch64", "sm_90a"
  bytes_view bytes;                          ///< content
};

/// A signature of a module.
struct module_signature {
  public_key key{};         ///< key of the signer
  signature_bytes bytes{};  ///< signature of the content hash
};

/// A container that was read and checked. Code stays in the image.
/// @threads{a value}
struct fatbin {
  abi_version abi;           ///< version of the ABI
  digest256 source_hash{};   ///< hash of the source
  digest256 content_hash{};  ///< hash of all bytes except itself and the signature
  std::uint64_t bytes = 0;   ///< size of the container
  std::vector<kernel_record> kernels;   ///< kernels in order
  std::optional<policy_record> policy;  ///< policy of the module
  std::vector<plan_record> plans;       ///< hints for collectives
  std::string explain;  ///< JSON about tiles and fusion, valid UTF-8; empty if absent
  std::optional<module_signature> signature;  ///< signature, which was verified
  std::vector<code_section> code;             ///< sections of code, at most 64
  std::vector<code_section> others;           ///< optional sections of unknown kinds

  /// Returns the kernel of this name, or null.
  [[nodiscard]] const kernel_record* find(std::string_view name) const noexcept;
};

/// Returns true if the bytes begin like a container.
[[nodiscard]] bool looks_like_fatbin(bytes_view image) noexcept;

/// Reads and checks a container, in this order: magic, ABI version, sizes, hash of the
/// whole, sections, strings, kernels with names and layouts, signature if there is one.
/// @error{corrupt; a byte is not as it was written}
/// @error{unsupported_version; the major version differs or the minor version is newer,
/// whatever else is wrong}
/// @error{unsupported; a required section of unknown kind, compressed sections, or
/// another version of the container}
[[nodiscard]] result<fatbin> parse_fatbin(bytes_view image,
                                          abi_version runtime = runtime_abi);

/// Makes containers. Equal calls give equal bytes, signature included.
/// @threads{thread-compatible}
class fatbin_builder {
 public:
  fatbin_builder() = default;
  /// Begins with the content of a container, without its signature. Keeps views of its
  /// code.
  explicit fatbin_builder(const fatbin& from);

  /// Sets the version of the ABI.
  void set_abi(abi_version abi) { content_.abi = abi; }
  /// Sets the hash of the source.
  void set_source_hash(const digest256& hash) { content_.source_hash = hash; }
  /// Sets the policy.
  void set_policy(const policy_record& policy) { content_.policy = policy; }
  /// Sets the JSON about tiles and fusion.
  void set_explain(std::string json) { content_.explain = std::move(json); }
  /// Adds a hint for collectives.
  void add_plan(plan_record plan) { content_.plans.push_back(std::move(plan)); }
  /// Adds a kernel. Offsets of its parameters are computed; an empty symbol becomes the
  /// name.
  /// @error{invalid_argument; see lay_out}
  [[nodiscard]] result<void> add_kernel(kernel_record kernel);
  /// Adds code and returns the number of its section, for `kernel_record::targets`. The
  /// bytes must live until `build`.
  std::size_t add_code(section_kind kind, std::string arch, bytes_view bytes = {});
  /// Adds a section of a kind that this version does not know. Readers skip it.
  void add_optional(std::uint32_t kind, bytes_view bytes);

  /// Returns the bytes of the container, which `parse_fatbin` of this version accepts.
  /// @error{invalid_argument; content that it would not accept}
  [[nodiscard]] result<byte_vector> build(const secret_key* sign_with = nullptr) const;

 private:
  fatbin content_;
};

}  // namespace weir::tessera
