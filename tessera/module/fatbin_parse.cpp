// SPDX-License-Identifier: Apache-2.0
/// @file
/// The second half of reading a container: strings, kernels, plans, signature and code.
///
/// The image may come from anywhere, so nothing in it is trusted: every offset and count
/// is compared with the bytes that exist before it is used, and no memory is taken for a
/// number that the image does not back with bytes. Structure is stricter than necessary
/// (no unused parameters, no duplicate names), so that a container has one meaning.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "fatbin_layout.hpp"
#include "fatbin_sections.hpp"
#include "json_check.hpp"
#include "weir/base/text.hpp"

namespace weir::tessera {

namespace lay = fatbin_layout;

namespace {

/// The kinds of sections that this version knows, with their names.
struct kind_name {
  section_kind kind;
  std::string_view name;
};
/// Names of the specification; `weir module ls` and descriptions show them.
constexpr std::array<kind_name, 14> kind_names{{
    {section_kind::strings, "STRTAB"},
    {section_kind::kernels, "KERNELS"},
    {section_kind::parameters, "PARAMS"},
    {section_kind::policy, "POLICY"},
    {section_kind::plans, "COLLPLAN"},
    {section_kind::explain, "EXPLAIN"},
    {section_kind::signature, "SIGNATURE"},
    {section_kind::cpu_so, "CPU_SO"},
    {section_kind::cpu_registered, "CPU_REGISTERED"},
    {section_kind::ptx, "PTX"},
    {section_kind::cubin, "CUBIN"},
    {section_kind::nvvm_bitcode, "NVVM_BC"},
    {section_kind::rocdl_bitcode, "ROCDL_BC"},
    {section_kind::hsaco, "HSACO"},
}};

/// Underscores count as letters, as in C.
bool is_letter(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || c == '_';
}

/// Returns true for printable characters without spaces, at most 255.
bool is_word(std::string_view text) {
  return text.size() <= lay::max_name_bytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

/// A table: the size and number of its records, then the records. Records may be larger
/// than this version knows; the fields behind are skipped.
class record_table {
 public:
  /// Opens a table. Its records must fill the section exactly, so every index below
  /// `size` is inside of it.
  static result<record_table> open(bytes_view section, std::string_view name,
                                   std::uint32_t least_bytes) {
    record_table out;
    if (section.size() < lay::table_head) {
      return damaged_fatbin(name, "a table", fmt::format("{} bytes", section.size()));
    }
    out.record_bytes_ = load_le<std::uint32_t>(section.data());
    out.count_ = load_le<std::uint32_t>(section.data() + 4);
    // The product of two numbers of 32 bits fits into 64.
    const std::uint64_t bytes = std::uint64_t{out.record_bytes_} * out.count_;
    if (out.record_bytes_ < least_bytes || out.record_bytes_ % lay::table_align != 0 ||
        bytes != section.size() - lay::table_head) {
      return damaged_fatbin(name,
                            fmt::format("records that fill {} bytes", section.size()),
                            fmt::format("{} of {}", out.count_, out.record_bytes_));
    }
    out.records_ = section.subspan(lay::table_head);
    return out;
  }

  [[nodiscard]] std::uint32_t size() const { return count_; }
  /// Returns a field of record `i`, which is below `size`.
  [[nodiscard]] std::uint32_t u32(std::uint32_t i, std::size_t field) const {
    return load_le<std::uint32_t>(record(i) + field);
  }
  [[nodiscard]] std::uint64_t u64(std::uint32_t i, std::size_t field) const {
    return load_le<std::uint64_t>(record(i) + field);
  }

 private:
  // The record is inside of the section, as `open` has checked.
  [[nodiscard]] const std::byte* record(std::uint32_t i) const {
    return records_.data() + std::size_t{i} * record_bytes_;
  }

  bytes_view records_;
  std::uint32_t record_bytes_ = 0;
  std::uint32_t count_ = 0;
};

/// Reads the sections of one container into `out`.
class fatbin_reader {
 public:
  // `out` has the hashes and the size of the container already.
  fatbin_reader(const std::vector<section_entry>& sections, fatbin& out)
      : sections_(sections), out_(out) {}

  /// The order matters: names need the strings, and targets of kernels the code.
  result<void> read() {
    // First of all, because a section that is not known may change the meaning of the
    // others.
    WEIR_CHECK(check_kinds());
    WEIR_CHECK(read_strings());
    WEIR_CHECK(read_code());
    WEIR_CHECK(read_kernels());
    WEIR_CHECK(read_policy());
    WEIR_CHECK(read_plans());
    WEIR_CHECK(read_explain());
    return read_signature();
  }

 private:
  /// Refuses kinds that this version does not know, unless they are optional. Kinds other
  /// than code may occur once.
  result<void> check_kinds() const {
    std::set<std::uint32_t> seen;
    for (const section_entry& s : sections_) {
      const auto kind = static_cast<section_kind>(s.kind);
      const bool known = name_of(kind) != "unknown";
      // Only the flag "optional" is known.
      const bool flagged = (s.flags & ~lay::flag_optional) != 0;
      if ((!known && !s.optional()) || flagged) {
        return error(
            errc::unsupported,
            fmt::format("cannot use a section of a fatbin: expected a known kind "
                        "without compression, found kind {} with flags {:#x}",
                        s.kind, s.flags));
      }
      if (known && !holds_code(kind) && !seen.insert(s.kind).second) {
        return damaged_fatbin(name_of(kind), "one section", "several");
      }
    }
    return {};
  }

  /// Returns the first section of a kind, or null.
  [[nodiscard]] const section_entry* section(section_kind kind) const {
    const auto found =
        std::find_if(sections_.begin(), sections_.end(), [&](const section_entry& s) {
          return s.kind == static_cast<std::uint32_t>(kind);
        });
    return found == sections_.end() ? nullptr : &*found;
  }

  // Opens the strings. A container without this section has the empty string alone. The
  // zero bytes at both ends make every offset inside a string that ends.
  result<void> read_strings() {
    const section_entry* s = section(section_kind::strings);
    // A single zero byte is the empty string.
    strings_ = s == nullptr ? std::string_view("", 1) : as_text(s->bytes);
    // Offset 0 is the empty string by this rule.
    if (strings_.empty() || strings_.front() != '\0' || strings_.back() != '\0') {
      return damaged_fatbin("strings", "NUL at both ends", "something else");
    }
    return {};
  }

  /// Returns the string at an offset. @error{corrupt; no such offset, or too long a
  /// string}
  result<std::string> string_at(std::uint32_t offset) const {
    if (offset >= strings_.size()) {
      return damaged_fatbin("place of a string",
                            fmt::format("less than {}", strings_.size()),
                            fmt::format("{}", offset));
    }
    // A string longer than a name is refused, even if it ends somewhere.
    const std::string_view rest = strings_.substr(offset, lay::max_name_bytes + 1);
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) {
      return damaged_fatbin("strings",
                            fmt::format("at most {} bytes", lay::max_name_bytes),
                            fmt::format("more at {}", offset));
    }
    return std::string(rest.substr(0, end));
  }

  /// Reads the sections of code. Sections of one kind differ in their machines. Sections
  /// of unknown kinds are kept, so that a container can be written again.
  result<void> read_code() {
    std::set<std::pair<std::uint32_t, std::string>> seen;
    for (const section_entry& s : sections_) {
      const auto kind = static_cast<section_kind>(s.kind);
      // Tables and the like were read elsewhere.
      if (!holds_code(kind) && name_of(kind) != "unknown") {
        continue;
      }
      WEIR_TRY(std::string arch, string_at(s.arch));
      // The name goes into messages and descriptions, so it must be printable.
      if (!is_word(arch)) {
        return damaged_fatbin("name of a machine", "printable characters", "others");
      }
      if (!holds_code(kind)) {
        out_.others.push_back({kind, true, std::move(arch), s.bytes});
        continue;
      }
      // A registered function has no bytes; all other code has bytes in pages and a
      // machine.
      const bool registered = kind == section_kind::cpu_registered;
      if (registered != s.bytes.empty() || (!registered && arch.empty()) ||
          (!registered && s.align < lay::code_align)) {
        return damaged_fatbin(name_of(kind),
                              registered ? "no bytes" : "bytes in pages, and a machine",
                              fmt::format("{} for \"{}\"", s.bytes.size(), arch));
      }
      // The set grows only with sections that exist.
      if (!seen.emplace(s.kind, arch).second ||
          out_.code.size() == lay::max_code_sections) {
        return damaged_fatbin(name_of(kind),
                              fmt::format("at most {} sections, each for another machine",
                                          lay::max_code_sections),
                              fmt::format("one more for \"{}\"", arch));
      }
      out_.code.push_back({kind, s.optional(), std::move(arch), s.bytes});
    }
    return {};
  }

  /// Reads parameter `i` of the table. Kind and sizes are checked with the layout.
  result<kernel_parameter> read_parameter(const record_table& table,
                                          std::uint32_t i) const {
    kernel_parameter p;
    WEIR_TRY(p.name, string_at(table.u32(i, lay::parameter::name)));
    p.kind = static_cast<parameter_kind>(table.u32(i, lay::parameter::kind));
    p.dtype = table.u32(i, lay::parameter::dtype);
    p.size = table.u32(i, lay::parameter::size);
    p.offset = table.u32(i, lay::parameter::offset);
    p.space = static_cast<address_space>(table.u32(i, lay::parameter::space));
    p.direction =
        static_cast<parameter_direction>(table.u32(i, lay::parameter::direction));
    // A name must be usable in generated code.
    if (!is_kernel_name(p.name) || table.u32(i, lay::parameter::reserved) != 0) {
      return damaged_fatbin("name of a parameter", "a C identifier", json_quote(p.name));
    }
    return p;
  }

  // Reads the parameters of kernel `i`. They must follow those of the kernel before:
  // otherwise many kernels could refer to the same few parameters, and a short table
  // would cause a lot of work.
  result<void> read_parameters(const record_table& kernels, std::uint32_t i,
                               const record_table& table, std::uint32_t& next,
                               kernel_record& k) const {
    const std::uint32_t first = kernels.u32(i, lay::kernel::first);
    const std::uint32_t count = kernels.u32(i, lay::kernel::count);
    // `next` is at most the size of the table, so the difference does not wrap.
    if (first != next || count > table.size() - next) {
      return damaged_fatbin(
          fmt::format("parameters of \"{}\"", k.name),
          fmt::format("some of {} from number {} on", table.size(), next),
          fmt::format("{} from {} on", count, first));
    }
    next += count;
    // Names of parameters are unique within a kernel.
    std::set<std::string> names;
    for (std::uint32_t p = first; p < next; ++p) {
      WEIR_TRY(kernel_parameter parameter, read_parameter(table, p));
      if (!names.insert(parameter.name).second) {
        return damaged_fatbin(fmt::format("parameters of \"{}\"", k.name),
                              "names that differ", json_quote(parameter.name) + " twice");
      }
      k.parameters.push_back(std::move(parameter));
    }
    // Kinds, sizes and offsets are checked together.
    const auto extent = check_layout(k.parameters);
    if (!extent) {
      return damaged_fatbin(fmt::format("parameters of \"{}\"", k.name), "their layout",
                            extent.error().text());
    }
    // The size of the buffer is stored as well.
    if (extent->padded != kernels.u32(i, lay::kernel::arguments)) {
      return damaged_fatbin(fmt::format("buffer of \"{}\"", k.name),
                            fmt::format("{} bytes", extent->padded),
                            fmt::format("{}", kernels.u32(i, lay::kernel::arguments)));
    }
    return {};
  }

  /// Reads record `i` of the kernels, without its parameters.
  result<kernel_record> read_kernel(const record_table& table, std::uint32_t i) const {
    kernel_record k;
    WEIR_TRY(k.name, string_at(table.u32(i, lay::kernel::name)));
    WEIR_TRY(k.symbol, string_at(table.u32(i, lay::kernel::symbol)));
    if (!is_kernel_name(k.name) || k.symbol.empty() || !is_word(k.symbol)) {
      return damaged_fatbin("name of a kernel", "a C identifier with a symbol",
                            json_quote(k.name) + " with " + json_quote(k.symbol));
    }
    // The block is a default; launches may choose another one of at most `max_threads`
    // threads.
    std::uint64_t threads = 1;
    k.max_threads = table.u32(i, lay::kernel::max_threads);
    for (std::size_t d = 0; d < k.default_block.size(); ++d) {
      k.default_block[d] = table.u32(i, lay::kernel::block + 4 * d);
      // An extent of 0 stands for one that the launch chooses.
      const std::uint64_t extent = std::max(k.default_block[d], 1U);
      // Stops multiplying once the limit is exceeded, so the product cannot overflow.
      threads = threads > k.max_threads ? threads : threads * extent;
    }
    if (k.max_threads == 0 || threads > k.max_threads) {
      return damaged_fatbin(
          fmt::format("block of \"{}\"", k.name),
          fmt::format("at most {} threads, which is not 0", k.max_threads),
          fmt::format("{}", threads));
    }
    k.shared_bytes = table.u32(i, lay::kernel::shared);
    k.flags = table.u32(i, lay::kernel::flags);
    k.targets = table.u64(i, lay::kernel::targets);
    // A shift by 64 would be undefined.
    const std::uint64_t present = out_.code.size() == 64
                                      ? ~std::uint64_t{0}
                                      : (std::uint64_t{1} << out_.code.size()) - 1;
    // Unknown flags could change the meaning of the kernel.
    if ((k.flags & ~lay::known_kernel_flags) != 0 || (k.targets & ~present) != 0 ||
        table.u32(i, lay::kernel::reserved) != 0 ||
        table.u64(i, lay::kernel::more) != 0) {
      return damaged_fatbin(
          fmt::format("record of \"{}\"", k.name),
          "known flags, and targets that are there",
          fmt::format("flags {:#x}, targets {:#x}", k.flags, k.targets));
    }
    return k;
  }

  /// Reads all kernels. Both tables must exist, and every parameter belongs to a kernel.
  result<void> read_kernels() {
    const section_entry* kernels = section(section_kind::kernels);
    const section_entry* parameters = section(section_kind::parameters);
    if (kernels == nullptr || parameters == nullptr) {
      return damaged_fatbin("kernels", "tables of kernels and of parameters", "none");
    }
    WEIR_TRY(const record_table table,
             record_table::open(kernels->bytes, "kernels", lay::kernel_bytes));
    WEIR_TRY(const record_table all,
             record_table::open(parameters->bytes, "parameters", lay::parameter_bytes));
    // Number of the first parameter that no kernel has taken yet.
    std::uint32_t next = 0;
    std::set<std::string> names;
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      WEIR_TRY(kernel_record k, read_kernel(table, i));
      WEIR_CHECK(read_parameters(table, i, all, next, k));
      if (!names.insert(k.name).second) {
        return damaged_fatbin("names of kernels", "each once", k.name + " twice");
      }
      out_.kernels.push_back(std::move(k));
    }
    // A parameter that no kernel takes would make two containers with the same meaning
    // differ.
    if (next != all.size()) {
      return damaged_fatbin("parameters", fmt::format("{} that kernels take", next),
                            fmt::format("{}", all.size()));
    }
    return {};
  }

  /// Reads the policy. The sixth field is reserved.
  result<void> read_policy() {
    const section_entry* s = section(section_kind::policy);
    if (s == nullptr) {
      return {};
    }
    if (s->bytes.size() != lay::policy_bytes) {
      return damaged_fatbin("policy", fmt::format("{} bytes", lay::policy_bytes),
                            fmt::format("{}", s->bytes.size()));
    }
    std::array<std::uint32_t, 6> fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      fields[i] = load_le<std::uint32_t>(s->bytes.data() + 4 * i);
      // The sixth field is reserved and must be 0.
      if (fields[i] > (i == 5 ? 0U : 1U)) {
        return damaged_fatbin("policy", "0 or 1", fmt::format("{}", fields[i]));
      }
    }
    out_.policy = policy_record{
        fields[0] != 0, fields[1] != 0,
        fields[2] != 0, fields[3] != 0,
        fields[4] != 0, load_le<std::uint64_t>(s->bytes.data() + lay::policy::seed)};
    return {};
  }

  /// Reads the plans. Unknown collectives and algorithms are allowed: plans are
  /// proposals, and those that cannot be used are skipped.
  result<void> read_plans() {
    const section_entry* s = section(section_kind::plans);
    if (s == nullptr) {
      return {};
    }
    WEIR_TRY(const record_table table,
             record_table::open(s->bytes, "plans", lay::plan_bytes));
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      plan_record p;
      p.collective = table.u32(i, lay::plan::collective);
      p.dtype = table.u32(i, lay::plan::dtype);
      WEIR_TRY(p.axis, string_at(table.u32(i, lay::plan::axis)));
      p.algorithm = table.u32(i, lay::plan::algorithm);
      p.least_bytes = table.u64(i, lay::plan::min_bytes);
      p.max_bytes = table.u64(i, lay::plan::max_bytes);
      p.chunk_bytes = table.u64(i, lay::plan::chunk);
      p.wire_dtype = table.u32(i, lay::plan::wire);
      // 0 stands for every type.
      const auto known = [](std::uint32_t id) {
        return id == 0 || size_of_dtype(id) != 0;
      };
      if (!known(p.dtype) || !known(p.wire_dtype) || !is_word(p.axis) ||
          p.least_bytes > p.max_bytes || table.u32(i, lay::plan::reserved) != 0) {
        return damaged_fatbin("plans", "known types, an axis, a range of sizes",
                              fmt::format("others in number {}", i));
      }
      out_.plans.push_back(std::move(p));
    }
    return {};
  }

  /// Reads the explanation, which must be JSON because it is embedded in descriptions.
  result<void> read_explain() {
    const section_entry* s = section(section_kind::explain);
    if (s == nullptr) {
      return {};
    }
    if (!is_json(as_text(s->bytes))) {
      return damaged_fatbin("explanation", "one JSON value", "something else");
    }
    out_.explain = as_text(s->bytes);
    return {};
  }

  /// Checks the signature against the key beside it. Whether this key is trusted is
  /// decided by the loader.
  result<void> read_signature() {
    const section_entry* s = section(section_kind::signature);
    if (s == nullptr) {
      return {};
    }
    const bytes_view bytes = s->bytes;
    // The only algorithm is Ed25519.
    if (bytes.size() != lay::signature_section_bytes ||
        load_le<std::uint32_t>(bytes.data() + lay::signature::algorithm) !=
            lay::signature::ed25519 ||
        load_le<std::uint32_t>(bytes.data() + lay::signature::reserved) != 0) {
      return damaged_fatbin("signature", "Ed25519", "something else");
    }
    // The key is part of the section; the content hash is what it has signed.
    module_signature found;
    std::copy_n(bytes.begin() + lay::signature::key, found.key.size(), found.key.begin());
    std::copy_n(bytes.begin() + lay::signature::bytes, found.bytes.size(),
                found.bytes.begin());
    // The content hash was compared with the image before.
    if (!verify_digest(found.key, out_.content_hash, found.bytes)) {
      return damaged_fatbin("signature", "one over the content by the key beside it",
                            "another");
    }
    out_.signature = found;
    return {};
  }

  const std::vector<section_entry>& sections_;
  fatbin& out_;
  std::string_view strings_;
};

}  // namespace

/// Letters, digits and underscores, beginning with a letter or an underscore.
bool is_kernel_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= lay::max_name_bytes && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

/// "unknown" for other kinds.
std::string_view name_of(section_kind kind) noexcept {
  for (const kind_name& k : kind_names) {
    if (k.kind == kind) {
      return k.name;
    }
  }
  return "unknown";
}

// Kinds of code have the numbers from `cpu_so` on.
bool holds_code(section_kind kind) noexcept {
  return kind >= section_kind::cpu_so && name_of(kind) != "unknown";
}

// Names are compared without regard to case.
result<section_kind> code_kind_named(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  std::vector<std::string> names;
  for (const kind_name& k : kind_names) {
    if (holds_code(k.kind)) {
      if (k.name == upper) {
        return k.kind;
      }
      names.emplace_back(k.name);
    }
  }
  return error(errc::unknown_key,
               fmt::format("cannot find a kind of section: expected one that holds code, "
                           "found \"{}\"{}",
                           name, did_you_mean(upper, names)));
}

/// Null if the module has no kernel of that name.
const kernel_record* fatbin::find(std::string_view name) const noexcept {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const kernel_record& k) { return k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

// Code and explanation of the result refer to the image, which the caller keeps.
result<fatbin> parse_fatbin(bytes_view image, abi_version runtime) try {
  fatbin out;
  WEIR_TRY(const std::vector<section_entry> sections, read_sections(image, runtime, out));
  WEIR_CHECK(fatbin_reader(sections, out).read());
  return out;
} catch (const std::bad_alloc&) {
  return error(
      errc::out_of_memory,
      fmt::format("cannot read a fatbin of {} bytes: expected memory, found none",
                  image.size()));
}

}  // namespace weir::tessera
