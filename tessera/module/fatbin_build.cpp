// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writing of containers.
///
/// The image consists of the header, the table of sections, the sections of tables, and
/// the sections of code, each at the beginning of a page. Equal contents give
/// equal images. What was written is read again by the parser, which therefore is the
/// only place that knows the rules of a valid container.
///
///   header (128 bytes)
///   table of sections (64 bytes each)
///   STRTAB  KERNELS  PARAMS  [POLICY]  [COLLPLAN]  [EXPLAIN]  [SIGNATURE]  optional ones
///   code, each section at a multiple of 4096 bytes
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "fatbin_layout.hpp"
#include "weir/base/record.hpp"

namespace weir::tessera {

namespace lay = fatbin_layout;

namespace {

/// A record whose numbers have 4 or 8 bytes.
class byte_sink {
 public:
  void u32(std::uint32_t value) { out_.put(value); }
  void u64(std::uint64_t value) { out_.put(value); }
  void bytes(bytes_view b) { out_.put_bytes(b); }
  /// Begins a table of records.
  void head(std::uint32_t record_bytes, std::size_t count) {
    u32(record_bytes);
    u32(static_cast<std::uint32_t>(count));
  }
  byte_vector take() { return std::move(out_).take(); }

 private:
  record_writer out_;
};

/// The strings of a container, each stored once, in the order of first use. Offset 0 is
/// the empty string.
class string_table {
 public:
  // Offsets count from the begin of the table.
  std::uint32_t offset_of(const std::string& text) {
    const auto [entry, fresh] =
        offsets_.emplace(text, static_cast<std::uint32_t>(bytes_.size()));
    if (fresh) {
      append(bytes_, as_view(text));
      bytes_.push_back(std::byte(0));
    }
    return entry->second;
  }
  [[nodiscard]] const byte_vector& bytes() const { return bytes_; }

 private:
  std::map<std::string, std::uint32_t> offsets_{{"", 0}};
  byte_vector bytes_{std::byte(0)};
};

/// A section before it has a place in the image. `bytes` refers to `own` or to bytes of
/// the caller.
struct pending_section {
  std::uint32_t kind = 0;
  std::uint32_t flags = 0;
  std::uint32_t arch = 0;
  std::uint32_t align = lay::table_align;
  byte_vector own;
  bytes_view bytes;
  std::uint64_t offset = 0;
};

/// For entries of the table of sections.
std::uint32_t number_of(section_kind kind) {
  return static_cast<std::uint32_t>(kind);
}

/// Returns a section that has its bytes itself. Moving it does not move the bytes.
pending_section owned(section_kind kind, byte_vector bytes) {
  pending_section s;
  s.kind = number_of(kind);
  s.own = std::move(bytes);
  s.bytes = s.own;
  return s;
}

/// Returns the table of kernels. Targets of all ones mean all sections that exist, so
/// they are limited to these.
byte_vector kernels_of(const fatbin& f, string_table& strings) {
  byte_sink out;
  out.head(lay::kernel_bytes, f.kernels.size());
  // The parameters of all kernels stand in one table; `first` counts those of the kernels
  // before.
  std::uint32_t first = 0;
  // One bit per section of code.
  const std::uint64_t present =
      f.code.size() >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << f.code.size()) - 1;
  for (const kernel_record& k : f.kernels) {
    const auto count = static_cast<std::uint32_t>(k.parameters.size());
    out.u32(strings.offset_of(k.name));
    out.u32(strings.offset_of(k.symbol));
    out.u32(first);
    // Parameters of a kernel follow each other in their table.
    out.u32(count);
    // The size of the buffer is redundant and lets a reader check the layout.
    out.u32(extent_of(k.parameters).padded);
    for (const std::uint32_t extent : k.default_block) {
      out.u32(extent);
    }
    out.u32(k.max_threads);
    out.u32(k.shared_bytes);
    out.u32(k.flags);
    // Reserved.
    out.u32(0);
    out.u64(k.targets == ~std::uint64_t{0} ? present : k.targets);
    out.u64(0);
    first += count;
  }
  return out.take();
}

/// Returns the table of the parameters of all kernels, in the order of the kernels.
byte_vector parameters_of(const fatbin& f, string_table& strings) {
  byte_sink out;
  std::size_t count = 0;
  for (const kernel_record& k : f.kernels) {
    count += k.parameters.size();
  }
  out.head(lay::parameter_bytes, count);
  for (const kernel_record& k : f.kernels) {
    for (const kernel_parameter& p : k.parameters) {
      out.u32(strings.offset_of(p.name));
      out.u32(static_cast<std::uint32_t>(p.kind));
      out.u32(p.dtype);
      out.u32(p.size);
      out.u32(p.offset);
      out.u32(static_cast<std::uint32_t>(p.space));
      out.u32(static_cast<std::uint32_t>(p.direction));
      out.u32(0);
    }
  }
  return out.take();
}

/// Returns the section of the policy: five values of 0 or 1, a reserved one, and the
/// seed.
byte_vector policy_of(const policy_record& p) {
  byte_sink out;
  for (const bool bit : {p.stable_reductions, p.deterministic, p.rng_stateless,
                         p.fast_math, p.wire_quantisation, false}) {
    out.u32(bit ? 1 : 0);
  }
  out.u64(p.seed);
  return out.take();
}

/// Returns the table of plans.
byte_vector plans_of(const fatbin& f, string_table& strings) {
  byte_sink out;
  out.head(lay::plan_bytes, f.plans.size());
  for (const plan_record& p : f.plans) {
    out.u32(p.collective);
    out.u32(p.dtype);
    out.u32(strings.offset_of(p.axis));
    out.u32(p.algorithm);
    out.u64(p.least_bytes);
    out.u64(p.max_bytes);
    out.u64(p.chunk_bytes);
    out.u32(p.wire_dtype);
    out.u32(0);
  }
  return out.take();
}

// The section of strings is the first, but its content is known only when all other
// sections are made. Its place is kept free until then.
std::vector<pending_section> sections_of(const fatbin& f, bool is_signed) {
  string_table strings;
  std::vector<pending_section> out;
  out.emplace_back();
  out.push_back(owned(section_kind::kernels, kernels_of(f, strings)));
  out.push_back(owned(section_kind::parameters, parameters_of(f, strings)));
  if (f.policy) {
    out.push_back(owned(section_kind::policy, policy_of(*f.policy)));
  }
  if (!f.plans.empty()) {
    out.push_back(owned(section_kind::plans, plans_of(f, strings)));
  }
  if (!f.explain.empty()) {
    const bytes_view text = as_view(f.explain);
    out.push_back(owned(section_kind::explain, {text.begin(), text.end()}));
  }
  // Filled in at the end, by `seal`.
  if (is_signed) {
    out.push_back(
        owned(section_kind::signature, byte_vector(lay::signature_section_bytes)));
  }
  // Code is not copied; the section refers to the bytes of the caller.
  const auto add = [&](const code_section& code, std::uint32_t align) {
    pending_section s;
    s.kind = number_of(code.kind);
    s.flags = code.optional ? lay::flag_optional : 0;
    s.arch = strings.offset_of(code.arch);
    s.align = align;
    s.bytes = code.bytes;
    out.push_back(std::move(s));
  };
  // Sections that this version does not know are kept.
  for (const code_section& code : f.others) {
    add(code, lay::table_align);
  }
  // Code begins at a page, so that it can be mapped.
  for (const code_section& code : f.code) {
    add(code, code.bytes.empty() ? lay::table_align : lay::code_align);
  }
  // All names are known now.
  out[0] = owned(section_kind::strings, strings.bytes());
  return out;
}

// The content hash is filled in later, by `seal`.
void write_header(byte_vector& image, const fatbin& f, std::size_t sections) {
  std::byte* to = image.data();
  std::memcpy(to, lay::magic.data(), lay::magic.size());
  store_le(to + lay::header::version, lay::container_version);
  store_le(to + lay::header::abi_major, f.abi.major);
  store_le(to + lay::header::abi_minor, f.abi.minor);
  store_le(to + lay::header::bytes, lay::header_bytes);
  store_le(to + lay::header::sections, static_cast<std::uint32_t>(sections));
  store_le(to + lay::header::table, std::uint64_t{lay::header_bytes});
  store_le(to + lay::header::file_bytes, std::uint64_t{image.size()});
  std::copy(f.source_hash.begin(), f.source_hash.end(), to + lay::header::source_hash);
}

// The entry of the signature has no hash, because the signature is made over the finished
// image.
void write_section(byte_vector& image, std::size_t number, const pending_section& s) {
  std::byte* to = image.data() + lay::header_bytes + number * lay::entry_bytes;
  const std::uint64_t bytes = s.bytes.size();
  store_le(to + lay::entry::kind, s.kind);
  store_le(to + lay::entry::flags, s.flags);
  store_le(to + lay::entry::arch, s.arch);
  store_le(to + lay::entry::align, s.align);
  store_le(to + lay::entry::offset, s.offset);
  store_le(to + lay::entry::bytes, bytes);
  store_le(to + lay::entry::plain_bytes, bytes);
  if (s.kind != number_of(section_kind::signature)) {
    // The entry has the first half of the hash, enough to notice damage. The content hash
    // covers everything in full.
    const digest256 hash = sha256(s.bytes);
    std::copy_n(hash.begin(), lay::entry::hash_bytes, to + lay::entry::hash);
  }
  std::copy(s.bytes.begin(), s.bytes.end(),
            image.begin() + static_cast<std::ptrdiff_t>(s.offset));
}

// Fills in the content hash and, if there is a key, the signature of it.
result<void> seal(byte_vector& image, const pending_section* signature,
                  const secret_key* key) {
  // The hash leaves out its own field and the bytes of the signature, which do not exist
  // yet.
  const digest256 hash =
      signature == nullptr
          ? lay::content_hash_of(image, image.size(), 0)
          : lay::content_hash_of(image, signature->offset, signature->bytes.size());
  std::copy(hash.begin(), hash.end(), image.data() + lay::header::content_hash);
  if (signature == nullptr) {
    return {};
  }
  // The signature covers the content hash, which does not cover the signature.
  WEIR_TRY(const signature_bytes bytes, sign_digest(*key, hash));
  const public_key open = public_half(*key);
  std::byte* to = image.data() + signature->offset;
  store_le(to + lay::signature::algorithm, lay::signature::ed25519);
  std::copy(open.begin(), open.end(), to + lay::signature::key);
  std::copy(bytes.begin(), bytes.end(), to + lay::signature::bytes);
  return {};
}

// Places the sections one after another, then copies them into the image.
result<byte_vector> write_image(const fatbin& f, const secret_key* key) {
  std::vector<pending_section> sections = sections_of(f, key != nullptr);
  // Header and table come first; each section begins at a multiple of its alignment.
  std::uint64_t end = lay::header_bytes + sections.size() * lay::entry_bytes;
  const pending_section* signature = nullptr;
  for (pending_section& s : sections) {
    s.offset = align_up<std::uint64_t>(end, s.align);
    end = s.offset + s.bytes.size();
    signature = s.kind == number_of(section_kind::signature) ? &s : signature;
  }
  // The gaps between sections are zeros, so equal contents give equal images.
  byte_vector image(align_up<std::uint64_t>(end, lay::table_align));
  write_header(image, f, sections.size());
  // Hashes of the sections are computed while they are written.
  for (std::size_t i = 0; i < sections.size(); ++i) {
    write_section(image, i, sections[i]);
  }
  WEIR_CHECK(seal(image, signature, key));
  return image;
}

// Returns false if a name was cut off, because it contains a zero byte. The parser cannot
// see that: what it reads is a valid, shorter name. Targets may differ, since the image
// has only sections that exist.
bool same_content(const fatbin& read, const fatbin& written) {
  const auto same_kernel = [](const kernel_record& a, kernel_record b) {
    b.targets = a.targets;
    return a == b;
  };
  const auto same_section = [](const code_section& a, const code_section& b) {
    return a.arch == b.arch;
  };
  // Kernels, code and plans are compared, since they have names.
  return std::equal(read.kernels.begin(), read.kernels.end(), written.kernels.begin(),
                    written.kernels.end(), same_kernel) &&
         std::equal(read.code.begin(), read.code.end(), written.code.begin(),
                    written.code.end(), same_section) &&
         read.plans == written.plans;
}

}  // namespace

// A changed module needs a new signature.
fatbin_builder::fatbin_builder(const fatbin& from) : content_(from) {
  content_.signature.reset();
}

// Without a symbol, the function in the code has the name of the kernel.
result<void> fatbin_builder::add_kernel(kernel_record kernel) {
  if (kernel.symbol.empty()) {
    kernel.symbol = kernel.name;
  }
  WEIR_CHECK(lay_out(kernel.parameters));
  content_.kernels.push_back(std::move(kernel));
  return {};
}

/// Returns the number of the section, for the targets of kernels. The bytes must live
/// until `build`.
std::size_t fatbin_builder::add_code(section_kind kind, std::string arch,
                                     bytes_view bytes) {
  content_.code.push_back({kind, false, std::move(arch), bytes});
  return content_.code.size() - 1;
}

/// Old readers skip such a section.
void fatbin_builder::add_optional(std::uint32_t kind, bytes_view bytes) {
  content_.others.push_back({static_cast<section_kind>(kind), true, "", bytes});
}

// Every rule of the format is checked by reading the image again.
result<byte_vector> fatbin_builder::build(const secret_key* sign_with) const try {
  WEIR_TRY(byte_vector image, write_image(content_, sign_with));
  const auto read = parse_fatbin(image, content_.abi);
  if (!read) {
    return error(errc::invalid_argument,
                 fmt::format("cannot build a fatbin: expected content that can be read "
                             "again, found \"{}\"",
                             read.error().text()));
  }
  if (!same_content(*read, content_)) {
    return error(errc::invalid_argument,
                 "cannot build a fatbin: expected names that can be read again, found "
                 "others");
  }
  return image;
} catch (const std::bad_alloc&) {
  return error(errc::out_of_memory,
               "cannot build a fatbin: expected memory for the image, found none");
}

}  // namespace weir::tessera
