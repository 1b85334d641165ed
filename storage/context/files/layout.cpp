// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recognises formats of token files and reads the headers of llm.c and NumPy.
///
/// A layout says where the ids of a file lie, how wide they are and how many distinct
/// ones there may be. The index of Megatron is read by megatron.cpp, the header of NumPy
/// by npy_header.cpp.
#include "context/files/layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"
#include "weir/storage/npy.hpp"

namespace weir::storage {

namespace {

/// Bytes that are looked at to recognise a format. A page.
constexpr std::size_t look_bytes = 4096;

/// Header of llm.c: 256 numbers of 32 bits. The numbers used are: magic, version and
/// number of ids.
constexpr std::size_t llmc_header = 1024;

/// A kind of llm.c's files.
struct llmc_kind {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint8_t id_bytes;
  std::uint64_t vocabulary;  ///< of the model for which llm.c writes it
};
constexpr std::array<llmc_kind, 2> llmc_kinds{
    {{20240520, 1, 2, 50257}, {20240801, 7, 4, 128256}}};

/// Null if no kind has this magic.
const llmc_kind* llmc_kind_of(bytes_view head) {
  if (head.size() < 4) {
    return nullptr;
  }
  const auto* const found = std::ranges::find(
      llmc_kinds, load_le<std::uint32_t>(head.data()), &llmc_kind::magic);
  return found == llmc_kinds.end() ? nullptr : found;
}

/// Returns whether bytes can be the start of a text: UTF-8 without a zero byte.
///
/// A text may be cut within its last character by the end of `head`.
bool looks_like_text(std::string_view head) {
  while (!head.empty()) {
    const std::size_t length = utf8_sequence_length(head);
    if (length == 0) {
      // At most three bytes of a character are left.
      return head.size() < 4 && head.front() != '\0';  // cut within a character
    }
    if (head.front() == '\0') {
      return false;
    }
    head.remove_prefix(length);
  }
  return true;
}

/// A format and why a file is said to have it.
struct recognised {
  token_format format = token_format::automatic;  ///< `automatic`: none is recognised
  std::string_view words;                         ///< such as "a file of llm.c"
};

/// Recognises a format by the first bytes, and Megatron's by the index beside the file.
///
/// Formats without a header cannot be recognised and must be stated.
recognised recognise(file_system& fs, const std::string& path, bytes_view head) {
  if (as_text(head).starts_with(npy_magic)) {
    return {token_format::npy, "an array of NumPy"};
  }
  const llmc_kind* const kind = llmc_kind_of(head);
  // The magic alone may be text by chance, so the version counts, too.
  if (kind != nullptr && head.size() >= 8 &&
      load_le<std::uint32_t>(head.data() + 4) == kind->version) {
    return {token_format::llmc, "a file of llm.c"};
  }
  const std::string index = megatron_index_of(path);
  // An index beside an empty file says nothing.
  if (!head.empty() && !index.empty() && fs.exists(index)) {
    return {token_format::megatron, "the data of an index of Megatron"};
  }
  return {};
}

/// The error of a file whose content and settings contradict each other.
error refused_format(const std::string& name, std::string_view expected,
                     std::string_view found) {
  return error(errc::invalid_argument,
               fmt::format("cannot read \"{}\" as tokens: expected {}, found {}", name,
                           expected, found))
      .located(name + ":0");
}

/// Returns the words for a format in messages.
std::string words_of(token_format format) {
  switch (format) {
    case token_format::u16: return "ids of 16 bits without a header";
    case token_format::u32: return "ids of 32 bits without a header";
    case token_format::llmc: return "a file of llm.c";
    case token_format::npy: return "an array of NumPy";
    case token_format::megatron: return "the data of an index of Megatron";
    default: return "text";
  }
}

/// For such names, ids would be a surprise.
bool is_named_as_text(const std::string& path) {
  return std::ranges::any_of(
      std::array{".txt", ".text", ".md", ".rst", ".html", ".xml", ".json", ".jsonl"},
      [&](const char* end) { return path.ends_with(end); });
}

/// Decides the format of a leaf from what the settings state and what it holds.
///
/// A format that is stated counts, unless the file plainly has another one. A guess is
/// refused where a name and the content disagree, because a wrong guess would teach the
/// model noise.
result<token_format> decide(file_system& fs, const token_leaves& leaves, std::size_t leaf,
                            token_format stated, bytes_view head) {
  const std::string& name = leaves.name(leaf);
  if (stated == token_format::bytes) {
    return stated;
  }
  // A tag has no index beside it.
  const std::string path = leaves.checked() ? std::string() : leaves.path(leaf);
  const recognised found = recognise(fs, path, head);
  // The user has named the index instead of the data.
  if (as_text(head).starts_with(megatron_magic)) {
    return refused_format(name, "a file with ids", "an index of Megatron")
        .hint("name the file that ends with .bin instead of the index");
  }
  if (stated != token_format::automatic) {
    // Megatron's data has no header, so it may be read as plain ids.
    const bool other = found.format != token_format::automatic &&
                       found.format != token_format::megatron && found.format != stated;
    return other ? result<token_format>(
                       refused_format(name, words_of(stated), found.words)
                           .hint(fmt::format("state format = \"{}\" or \"auto\"",
                                             name_of(found.format))))
                 : result<token_format>(stated);
  }
  if (found.format != token_format::automatic && is_named_as_text(path)) {
    return refused_format(name, "text as its name says", found.words)
        .hint(fmt::format("state format = \"{}\", or \"bytes\" to read its bytes",
                          name_of(found.format)));
  }
  if (found.format != token_format::automatic) {
    return found.format;
  }
  // The name promises a format that the content does not have.
  if (path.ends_with(".npy")) {
    return refused_format(name, "an array of NumPy as its name says", "other bytes")
        .hint("state format = \"bytes\" to read its bytes");
  }
  // Binary content without a header: the width of the ids cannot be known.
  if (path.ends_with(".bin") && !looks_like_text(as_text(head))) {
    return refused_format(name, "a header that says what it holds", "none")
        .hint("state format = \"u16\", \"u32\" or \"bytes\"");
  }
  return token_format::bytes;
}

/// Returns the layout of ids that fill the leaf from `begin` on.
///
/// A format of one byte per id has the vocabulary 256, of two bytes 65,536; wider ids
/// imply none.
result<leaf_layout> plain_layout(const token_leaves& leaves, std::size_t leaf,
                                 token_format format, std::uint8_t id_bytes,
                                 std::uint64_t begin) {
  const std::uint64_t bytes = leaves.size(leaf) - begin;
  // Ids must not be cut.
  if (bytes % id_bytes != 0) {
    return error(errc::torn,
                 fmt::format("cannot read \"{}\" as tokens: expected a multiple of {} "
                             "bytes, found {}",
                             leaves.name(leaf), id_bytes, bytes))
        .located(fmt::format("{}:{}", leaves.name(leaf), begin))
        .hint("the file is cut, or its ids have another width");
  }
  leaf_layout out;
  out.format = format;
  out.ids = {id_bytes, false};
  out.vocabulary = id_bytes == 1 ? 256 : id_bytes == 2 ? 65536 : 0;
  if (bytes != 0) {
    // The whole file is one document.
    out.runs = {{begin, bytes / id_bytes, true}};
  }
  return out;
}

/// The header says how many ids follow; the file must have exactly as many.
result<leaf_layout> llmc_layout(const token_leaves& leaves, std::size_t leaf,
                                bytes_view head) {
  const std::string& name = leaves.name(leaf);
  const llmc_kind* const kind = llmc_kind_of(head);
  if (kind == nullptr) {
    return refused_format(name, "the magic number 20240520 or 20240801 of llm.c",
                          "other bytes");
  }
  if (head.size() < llmc_header) {
    return error(errc::torn,
                 fmt::format("cannot read \"{}\" as tokens: expected a header of {} "
                             "bytes, found {}",
                             name, llmc_header, head.size()))
        .located(name + ":0");
  }
  const auto version = load_le<std::uint32_t>(head.data() + 4);
  // Another version may have another layout.
  if (version != kind->version) {
    return error(errc::unsupported,
                 fmt::format("cannot read \"{}\" as tokens: expected version {} of llm.c "
                             "with magic number {}, found {}",
                             name, kind->version, kind->magic, version))
        .located(name + ":4");
  }
  WEIR_TRY(leaf_layout out,
           plain_layout(leaves, leaf, token_format::llmc, kind->id_bytes, llmc_header));
  const std::uint64_t claimed = load_le<std::uint32_t>(head.data() + 8);
  const std::uint64_t held = (leaves.size(leaf) - llmc_header) / kind->id_bytes;
  // Fewer ids mean that the file was cut.
  if (claimed != held) {
    return error(claimed > held ? errc::torn : errc::corrupt,
                 fmt::format("cannot read \"{}\" as tokens: expected the {} ids of its "
                             "header, found {}",
                             name, claimed, held))
        .located(name + ":8");
  }
  out.vocabulary = kind->vocabulary;
  return out;
}

/// An array of one dimension with integers of any width.
result<leaf_layout> npy_layout(token_leaves& leaves, std::size_t leaf) {
  const std::string& name = leaves.name(leaf);
  WEIR_TRY(file* const f, leaves.open(leaf));
  auto header = read_npy_header(*f, leaves.size(leaf));
  if (!header) {
    const errc code = header.error().code();
    return error(code, fmt::format("cannot read \"{}\" as tokens", name))
        .located(name + ":0")
        .because(std::move(header).error());
  }
  const auto& info = info_of(header->type);
  const bool is_signed = header->type == dtype::int8 || header->type == dtype::int16 ||
                         header->type == dtype::int32 || header->type == dtype::int64;
  const bool is_unsigned = header->type == dtype::uint8 ||
                           header->type == dtype::uint16 ||
                           header->type == dtype::uint32 || header->type == dtype::uint64;
  if ((!is_signed && !is_unsigned) || header->shape.size() != 1) {
    return error(errc::unsupported,
                 fmt::format("cannot read \"{}\" as tokens: expected integers in one "
                             "dimension, found {} in {}",
                             name, info.tensogram, header->shape.size()))
        .located(name + ":0")
        .hint("store the ids as numpy.array(ids, dtype=\"<u4\")");
  }
  leaf_layout out;
  out.format = token_format::npy;
  out.ids = {static_cast<std::uint8_t>(info.size), is_signed};
  // Signed and wide integers do not say how large ids can be.
  out.vocabulary = is_signed ? 0 : info.size == 1 ? 256 : info.size == 2 ? 65536 : 0;
  if (header->bytes != 0) {
    out.runs = {{header->size, header->bytes / info.size, true}};
  }
  return out;
}

/// Recognises the format and reads what it needs of the file.
result<leaf_layout> layout_in(file_system& fs, token_leaves& leaves, std::size_t leaf,
                              token_format stated) {
  byte_vector head(
      static_cast<std::size_t>(std::min<std::uint64_t>(leaves.size(leaf), look_bytes)));
  // A damaged start of a leaf is left to the policy for damage. Bytes of a file need no
  // look.
  if (stated != token_format::bytes || leaves.checked()) {
    WEIR_TRY(const auto part, leaves.probe(leaf, 0, head.size()));
    head.resize(static_cast<std::size_t>(part.sound));
  }
  if (stated != token_format::bytes) {
    WEIR_CHECK(leaves.read(leaf, 0, head));
  }
  WEIR_TRY(const token_format format, decide(fs, leaves, leaf, stated, head));
  // An index cannot be beside a tag.
  if (format == token_format::megatron && leaves.checked()) {
    return refused_format(leaves.name(leaf), "a format of one file", "that of Megatron")
        .hint("keep the data and the index of Megatron outside of volumes");
  }
  switch (format) {
    case token_format::u16: return plain_layout(leaves, leaf, format, 2, 0);
    case token_format::u32: return plain_layout(leaves, leaf, format, 4, 0);
    case token_format::llmc: return llmc_layout(leaves, leaf, head);
    case token_format::npy: return npy_layout(leaves, leaf);
    case token_format::megatron:
      return read_megatron_index(fs, leaves.path(leaf), leaves.size(leaf));
    default: return plain_layout(leaves, leaf, token_format::bytes, 1, 0);
  }
}

}  // namespace

/// The names are those of the setting `format`.
std::string_view name_of(token_format format) noexcept {
  switch (format) {
    case token_format::automatic: return "auto";
    case token_format::bytes: return "bytes";
    case token_format::u16: return "u16";
    case token_format::u32: return "u32";
    case token_format::llmc: return "llmc";
    case token_format::npy: return "npy";
    case token_format::megatron: return "megatron";
  }
  return "unknown";
}

/// A file without any token is refused, since it is a mistake in most cases.
result<leaf_layout> read_layout(file_system& fs, token_leaves& leaves, std::size_t leaf,
                                token_format stated) {
  WEIR_TRY(leaf_layout out, layout_in(fs, leaves, leaf, stated));
  if (out.runs.empty()) {
    return error(errc::source_unavailable,
                 fmt::format("cannot attach source \"{}\": expected at least 1 token, "
                             "found 0",
                             leaves.name(leaf)))
        .located(leaves.name(leaf))
        .hint("leave the empty file out");
  }
  return out;
}

}  // namespace weir::storage
