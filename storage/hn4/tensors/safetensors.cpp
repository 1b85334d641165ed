// SPDX-License-Identifier: Apache-2.0
/// @file
/// The header of safetensors files: 8 bytes of length, then JSON.
#include <fmt/core.h>

#include <array>

#include "hn4/tensors/containers.hpp"
#include "hn4/tensors/json.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // what the format allows
constexpr std::size_t safetensors_most_dimensions = 64;

struct safetensors_type {
  std::string_view name;
  dtype type;
};
constexpr std::array safetensors_types{safetensors_type{"F64", dtype::fp64},
                                       safetensors_type{"F32", dtype::fp32},
                                       safetensors_type{"F16", dtype::fp16},
                                       safetensors_type{"BF16", dtype::bf16},
                                       safetensors_type{"F8_E4M3", dtype::fp8_e4m3},
                                       safetensors_type{"F8_E5M2", dtype::fp8_e5m2},
                                       safetensors_type{"I64", dtype::int64},
                                       safetensors_type{"I32", dtype::int32},
                                       safetensors_type{"I16", dtype::int16},
                                       safetensors_type{"I8", dtype::int8},
                                       safetensors_type{"U64", dtype::uint64},
                                       safetensors_type{"U32", dtype::uint32},
                                       safetensors_type{"U16", dtype::uint16},
                                       safetensors_type{"U8", dtype::uint8},
                                       safetensors_type{"BOOL", dtype::boolean},
                                       safetensors_type{"C64", dtype::complex64}};

error bad(std::uint64_t at, std::string_view text) {
  return hn4_error(
      hn4_code::data_rot,
      fmt::format("cannot read the safetensors header at byte {}: {}", at, text));
}

bool shape_of(json_walker& json, shape_vector& shape) {
  if (!json.take('[')) {
    return false;
  }
  if (json.take(']')) {
    return true;
  }
  do {
    std::uint64_t n = 0;
    if (!json.number(n) || n > static_cast<std::uint64_t>(INT64_MAX) ||
        shape.size() == safetensors_most_dimensions) {
      return false;
    }
    shape.push_back(static_cast<std::int64_t>(n));
  } while (json.take(','));
  return json.take(']');
}

// The object of one tensor; `seen` has a bit for each of its three members.
bool tensor_of(json_walker& json, stored_tensor& t, std::uint64_t& end) {
  unsigned seen = 0;
  std::string key;
  if (!json.take('{')) {
    return false;
  }
  do {
    if (!json.string(key) || !json.take(':')) {
      return false;
    }
    bool good = true;
    if (key == "dtype") {
      good = (seen & 1U) == 0 && json.string(t.type_name);
      seen |= 1U;
    } else if (key == "shape") {
      good = (seen & 2U) == 0 && shape_of(json, t.shape);
      seen |= 2U;
    } else if (key == "data_offsets") {
      good = (seen & 4U) == 0 && json.take('[') && json.number(t.offset) &&
             json.take(',') && json.number(end) && json.take(']');
      seen |= 4U;
    } else {
      good = json.skip();
    }
    if (!good) {
      return false;
    }
  } while (json.take(','));
  return json.take('}') && seen == 7U;
}

result<void> settle(stored_tensor& t, std::uint64_t end, std::uint64_t data,
                    std::uint64_t size) {
  if (t.offset > end || end > size - data) {
    return bad(8, fmt::format("expected tensor \"{}\" inside {} bytes, found {} to {}",
                              t.name, size - data, t.offset, end));
  }
  t.bytes = end - t.offset;
  t.offset += data;
  for (const safetensors_type& row : safetensors_types) {
    if (row.name != t.type_name) {
      continue;
    }
    t.type = row.type;
    const std::int64_t count = element_count(t.shape);
    const auto wanted = count < 0 ? error(errc::out_of_range, "the shape is too large")
                                  : byte_size(row.type, count);
    if (!wanted || static_cast<std::uint64_t>(*wanted) != t.bytes) {
      return bad(8, fmt::format("expected as many bytes as the shape of tensor \"{}\" "
                                "asks for, found {}",
                                t.name, t.bytes));
    }
    return {};
  }
  // A type that this build does not know: bytes under its name.
  t.type = dtype::uint8;
  t.shape = {static_cast<std::int64_t>(t.bytes)};
  return {};
}

}  // namespace

bool is_safetensors(bytes_view head, std::uint64_t size) noexcept {
  if (head.size() < 9 || size < 10) {
    return false;
  }
  const std::uint64_t length = load_le<std::uint64_t>(head.data());
  return length >= 2 && length <= longest_header && length <= size - 8 &&
         head[8] == std::byte{'{'};
}

result<header_wants> parse_safetensors(bytes_view head, std::uint64_t size,
                                       std::vector<stored_tensor>& out) {
  const std::uint64_t length = load_le<std::uint64_t>(head.data());
  const std::uint64_t data = 8 + length;
  if (head.size() < data) {
    return header_wants{data};
  }
  json_walker json(as_text(head.subspan(8, static_cast<std::size_t>(length))));
  std::vector<stored_tensor> tensors;
  if (!json.take('{')) {
    return bad(8, "expected an object, found something else");
  }
  bool more = !json.take('}');
  while (more) {
    stored_tensor t;
    std::uint64_t end = 0;
    if (!json.string(t.name) || !json.take(':')) {
      return bad(8 + json.at(), "expected the name of a tensor");
    }
    if (t.name == "__metadata__") {
      if (!json.skip()) {
        return bad(8 + json.at(), "expected a value of the metadata");
      }
    } else {
      if (!tensor_of(json, t, end)) {
        return bad(8 + json.at(),
                   fmt::format("expected dtype, shape and data_offsets of tensor \"{}\"",
                               t.name));
      }
      WEIR_CHECK(settle(t, end, data, size));
      tensors.push_back(std::move(t));
    }
    more = json.take(',');
    if (!more && !json.take('}')) {
      return bad(8 + json.at(), "expected a comma or the end of the object");
    }
  }
  if (!json.ended()) {
    return bad(8 + json.at(), "expected nothing behind the object, found more");
  }
  WEIR_CHECK(check_tensors(tensors, size, "safetensors"));
  out = std::move(tensors);
  return header_wants{};
}

}  // namespace weir::storage::hn4
