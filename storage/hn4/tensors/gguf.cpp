// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the header of GGUF files, versions 2 and 3.
///
/// The values are read by `gguf_walker`; here are the tensors and where their data is.
///
/// Offsets in the header count from the begin of the data, which is aligned; the results
/// count from the begin of the file.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "hn4/tensors/containers.hpp"
#include "weir/base/container/gguf_walker.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// The usual limit is 4; a larger one costs nothing.
constexpr std::uint32_t gguf_max_dimensions = 8;

/// An element type: `elements` of them take `bytes` bytes. Quantised types come in blocks
/// and are delivered as bytes.
///
/// A quantised tensor keeps its outer dimensions, and its innermost one counts bytes.
struct gguf_type {
  std::uint32_t id;
  std::string_view name;
  std::uint32_t elements;
  std::uint32_t bytes;
  dtype type;
};
constexpr std::array gguf_types{gguf_type{0, "F32", 1, 4, dtype::fp32},
                                gguf_type{1, "F16", 1, 2, dtype::fp16},
                                gguf_type{2, "Q4_0", 32, 18, dtype::uint8},
                                gguf_type{3, "Q4_1", 32, 20, dtype::uint8},
                                gguf_type{6, "Q5_0", 32, 22, dtype::uint8},
                                gguf_type{7, "Q5_1", 32, 24, dtype::uint8},
                                gguf_type{8, "Q8_0", 32, 34, dtype::uint8},
                                gguf_type{9, "Q8_1", 32, 36, dtype::uint8},
                                gguf_type{10, "Q2_K", 256, 84, dtype::uint8},
                                gguf_type{11, "Q3_K", 256, 110, dtype::uint8},
                                gguf_type{12, "Q4_K", 256, 144, dtype::uint8},
                                gguf_type{13, "Q5_K", 256, 176, dtype::uint8},
                                gguf_type{14, "Q6_K", 256, 210, dtype::uint8},
                                gguf_type{15, "Q8_K", 256, 292, dtype::uint8},
                                gguf_type{16, "IQ2_XXS", 256, 66, dtype::uint8},
                                gguf_type{17, "IQ2_XS", 256, 74, dtype::uint8},
                                gguf_type{18, "IQ3_XXS", 256, 98, dtype::uint8},
                                gguf_type{19, "IQ1_S", 256, 50, dtype::uint8},
                                gguf_type{20, "IQ4_NL", 32, 18, dtype::uint8},
                                gguf_type{21, "IQ3_S", 256, 110, dtype::uint8},
                                gguf_type{22, "IQ2_S", 256, 82, dtype::uint8},
                                gguf_type{23, "IQ4_XS", 256, 136, dtype::uint8},
                                gguf_type{24, "I8", 1, 1, dtype::int8},
                                gguf_type{25, "I16", 1, 2, dtype::int16},
                                gguf_type{26, "I32", 1, 4, dtype::int32},
                                gguf_type{27, "I64", 1, 8, dtype::int64},
                                gguf_type{28, "F64", 1, 8, dtype::fp64},
                                gguf_type{29, "IQ1_M", 256, 56, dtype::uint8},
                                gguf_type{30, "BF16", 1, 2, dtype::bf16},
                                gguf_type{34, "TQ1_0", 256, 54, dtype::uint8},
                                gguf_type{35, "TQ2_0", 256, 66, dtype::uint8},
                                gguf_type{39, "MXFP4", 32, 17, dtype::uint8}};

/// Makes the error for a header that is wrong. Errors name the byte at which parsing
/// stopped.
error bad_gguf(const gguf_walker& w, std::string_view text) {
  return hn4_error(
      hn4_code::data_rot,
      fmt::format("cannot read the GGUF header at byte {}: {}", w.offset(), text));
}

/// Computes shape and size of a tensor from its dimensions, innermost first. Returns
/// false if they are impossible.
///
/// GGUF lists the innermost dimension first, and shapes here list it last, so the order
/// is reversed.
bool measure(stored_tensor& t, const std::vector<std::uint64_t>& dims, std::uint32_t id) {
  const auto row = std::find_if(gguf_types.begin(), gguf_types.end(),
                                [&](const gguf_type& r) { return r.id == id; });
  // A row must consist of whole blocks.
  if (row == gguf_types.end() || dims.empty() || dims[0] % row->elements != 0) {
    return false;
  }
  t.type = row->type;
  t.type_name = row->name;
  std::uint64_t rows = 1, row_bytes = 0;
  // All dimensions but the innermost, from the outermost on.
  for (std::size_t i = dims.size(); i-- > 1;) {
    if (!checked_mul(rows, dims[i], rows) || dims[i] > INT64_MAX) {
      return false;
    }
    t.shape.push_back(static_cast<std::int64_t>(dims[i]));
  }
  // All products are checked, since they come from the file.
  if (!checked_mul<std::uint64_t>(dims[0] / row->elements, row->bytes, row_bytes) ||
      !checked_mul(rows, row_bytes, t.bytes) || dims[0] > INT64_MAX ||
      row_bytes > INT64_MAX) {
    return false;
  }
  t.shape.push_back(static_cast<std::int64_t>(row->elements == 1 ? dims[0] : row_bytes));
  return true;
}

/// Moves over the metadata; only the alignment of the data is read.
///
/// The values are walked over and not kept, since a tokenizer in them may take many
/// megabytes.
bool metadata(gguf_walker& w, std::uint64_t count, std::uint64_t& alignment) {
  std::string_view key;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t type = 0;
    if (!w.text(key) || !w.number(type)) {
      return false;
    }
    const gguf_value kind{type};
    if (key == "general.alignment" && kind == gguf_value::uint32) {
      std::uint32_t value = 0;
      if (!w.number(value) || !std::has_single_bit(value)) {
        // An alignment of 0 or of another number than a power of two would make the
        // offsets ambiguous.
        return false;
      }
      alignment = value;
    } else if (!w.value(kind)) {
      return false;
    }
  }
  return true;
}

/// Reads the description of one tensor. Returns false if the bytes end or make no sense;
/// the walker tells which of both.
bool tensor(gguf_walker& w, stored_tensor& t) {
  std::uint32_t dimensions = 0, type = 0;
  std::string_view name;
  if (!w.text(name) || !w.number(dimensions) || dimensions > gguf_max_dimensions) {
    return false;
  }
  t.name = name;
  std::vector<std::uint64_t> dims(dimensions);
  for (std::uint64_t& d : dims) {
    if (!w.number(d)) {
      return false;
    }
  }
  // A tensor without dimensions is a scalar.
  if (dims.empty()) {
    dims.push_back(1);
  }
  return w.number(type) && w.number(t.offset) && measure(t, dims, type);
}

}  // namespace

// The header is parsed from its start on every call; that is simple, and doubling keeps
// the sum of all parses small.
//
// `head` is the beginning of the file, `size` the size of the whole file. Returns how
// many bytes are needed if `head` is too short, else fills `out`.
result<header_wants> parse_gguf(bytes_view head, std::uint64_t size,
                                std::vector<stored_tensor>& out) {
  gguf_walker w(head, size);
  gguf_start start;
  std::uint64_t alignment = 32;
  // The length of a header is not stored, so the number of bytes is doubled until it
  // suffices.
  const auto more = [&] { return header_wants{std::uint64_t{head.size()} * 2}; };
  // Magic, version and the two counts.
  if (!w.start(start)) {
    return w.ran_out() ? result<header_wants>(more()) : bad_gguf(w, "expected 24 bytes");
  }
  if (start.version != 2 && start.version != 3) {
    return hn4_error(hn4_code::version_incompat,
                     fmt::format("cannot read the GGUF header: expected version 2 or 3, "
                                 "found {}",
                                 start.version));
  }
  constexpr std::uint64_t limit = gguf_walker::max_entries;
  // Limits the work before any of it begins.
  if (start.tensors > limit || start.entries > limit) {
    return bad_gguf(
        w, fmt::format("expected at most {} tensors and entries, found {} and {}", limit,
                       start.tensors, start.entries));
  }
  if (!metadata(w, start.entries, alignment)) {
    return w.ran_out() ? result<header_wants>(more()) : bad_gguf(w, "expected metadata");
  }
  std::vector<stored_tensor> found;
  for (std::uint64_t i = 0; i < start.tensors; ++i) {
    stored_tensor t;
    if (!tensor(w, t)) {
      return w.ran_out()
                 ? result<header_wants>(more())
                 : bad_gguf(w, fmt::format(
                                   "expected a known description of tensor {} (\"{}\")",
                                   i, t.name));
    }
    found.push_back(std::move(t));
  }
  // The data begin at the next multiple of the alignment behind the header.
  const std::uint64_t data = align_up(w.offset(), alignment);
  for (stored_tensor& t : found) {
    if (!checked_add(t.offset, data, t.offset)) {
      return bad_gguf(w, fmt::format("expected tensor \"{}\" inside the file", t.name));
    }
  }
  // Every tensor lies inside the file and none has a name twice.
  WEIR_CHECK(check_tensors(found, size, "GGUF"));
  out = std::move(found);
  return header_wants{};
}

}  // namespace weir::storage::hn4
