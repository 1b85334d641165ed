// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the header of safetensors files: 8 bytes of length, then a JSON object with one
/// member per tensor.
///
/// The parser of nlohmann::json reports events, and `header_reader` accepts exactly those
/// that a header may have. Nothing is kept but the tensors, so a header of many megabytes
/// takes little memory. The depth of values that are not read is limited.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "hn4/tensors/containers.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Longest header that the format allows, in bytes. Anything longer is refused before it
/// is read.
constexpr std::uint64_t longest_header = 100'000'000;
/// Longer shapes are refused.
constexpr std::size_t safetensors_max_dimensions = 64;
/// Largest depth of nested values inside a member that is not read. The parser itself
/// does not recurse, so this limits only its own stack of states.
constexpr unsigned max_skipped_depth = 64;

/// Element types of the format that have a counterpart here.
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

/// Makes the error for a header that is wrong at a byte of the file. `offset` counts
/// from the beginning of the file.
error bad_safetensors(std::uint64_t offset, std::string_view text) {
  return hn4_error(
      hn4_code::data_rot,
      fmt::format("cannot read the safetensors header at byte {}: {}", offset, text));
}

/// Checks the range of a tensor and sets what follows from it: its length, its offset in
/// the file and its type. `end` is the end of its range; `data` is where ranges begin.
result<void> finish_tensor(stored_tensor& t, std::uint64_t end, std::uint64_t data,
                           std::uint64_t size) {
  // The subtraction is safe: `data` was found to be inside the file.
  if (t.offset > end || end > size - data) {
    return bad_safetensors(
        8, fmt::format("expected tensor \"{}\" inside {} bytes, found {} to {}", t.name,
                       size - data, t.offset, end));
  }
  t.bytes = end - t.offset;
  t.offset += data;
  for (const safetensors_type& row : safetensors_types) {
    if (row.name != t.type_name) {
      continue;
    }
    t.type = row.type;
    // A negative count says that the product of the shape has overflowed.
    const std::int64_t count = element_count(t.shape);
    const auto wanted = count < 0 ? error(errc::out_of_range, "the shape is too large")
                                  : byte_size(row.type, count);
    // The range must have exactly the bytes of shape and type.
    if (!wanted || static_cast<std::uint64_t>(*wanted) != t.bytes) {
      return bad_safetensors(
          8, fmt::format("expected as many bytes as the shape of tensor \"{}\" "
                         "asks for, found {}",
                         t.name, t.bytes));
    }
    return {};
  }
  // A type without a counterpart is delivered as bytes under its name.
  t.type = dtype::uint8;
  t.shape = {static_cast<std::int64_t>(t.bytes)};
  return {};
}

/// Characters of a text for the JSON parser; counts how many of them it has taken, so
/// that an error can say where it was found.
class counting_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  counting_iterator(const char* position, std::size_t* taken)
      : position_(position), taken_(taken) {}
  reference operator*() const { return *position_; }
  counting_iterator& operator++() {
    ++position_;
    ++*taken_;
    return *this;
  }
  friend bool operator==(const counting_iterator& x, const counting_iterator& y) {
    return x.position_ == y.position_;
  }
  friend bool operator!=(const counting_iterator& x, const counting_iterator& y) {
    return !(x == y);
  }

 private:
  const char* position_;
  std::size_t* taken_;
};

/// Receives the events of the JSON parser and collects the tensors. A handler that
/// returns false ends the parse; `problem` then says why.
///
/// The depth counts open objects and arrays: 1 inside the header, 2 inside the object of
/// a tensor, 3 inside its shape or its offsets. Members that are not read are skipped:
/// while `skip_` is set, it is the depth of the object that has the member.
class header_reader {
 public:
  header_reader(std::uint64_t data, std::uint64_t size) : data_(data), size_(size) {}

  /// Returns what was expected where the parse has ended. Ends an error message of the
  /// caller. The position alone would not say which rule was broken.
  [[nodiscard]] std::string expected() const {
    if (depth_ == 0) {
      return begun_ ? "expected nothing behind the object, found more"
                    : "expected an object, found something else";
    }
    if (skip_ == 1) {
      return "expected a value of the metadata";
    }
    if (depth_ == 1 && !named_) {
      return "expected the name of a tensor, a comma or the end of the object";
    }
    return fmt::format("expected dtype, shape and data_offsets of tensor \"{}\"",
                       tensor_.name);
  }
  /// The error of a tensor whose members are read but contradict each other. It takes
  /// precedence over the text of `expected`.
  std::optional<error> problem;
  std::vector<stored_tensor> tensors;

  // Only the header and the objects of tensors may be objects.
  bool start_object(std::size_t) {
    ++depth_;
    if (skip_ != 0) {
      return depth_ - skip_ <= max_skipped_depth;
    }
    begun_ = true;
    seen_ = 0;
    return depth_ <= 2;
  }
  // The end of the object of a tensor: all three members must have been read.
  bool end_object() {
    --depth_;
    if (skip_ != 0) {
      return end_skipped();
    }
    if (depth_ == 0) {
      return true;
    }
    named_ = false;
    // `named_` is set again for the text of the error.
    if (seen_ != (dtype_member | shape_member | offsets_member)) {
      named_ = true;
      return false;
    }
    if (auto good = finish_tensor(tensor_, range_[1], data_, size_); !good) {
      problem = std::move(good).error();
      return false;
    }
    tensors.push_back(std::move(tensor_));
    return true;
  }
  // Arrays are allowed for shape and offsets only.
  bool start_array(std::size_t) {
    ++depth_;
    if (skip_ != 0) {
      return depth_ - skip_ <= max_skipped_depth;
    }
    numbers_ = 0;
    return depth_ == 3 && (member_ == shape_member || member_ == offsets_member);
  }
  bool end_array() {
    --depth_;
    if (skip_ != 0) {
      return end_skipped();
    }
    // The range has exactly two numbers.
    tensor_.offset = range_[0];
    return member_ == shape_member || numbers_ == range_.size();
  }
  // The metadata of the header is skipped as a whole, and so are unknown members of a
  // tensor.
  bool key(const std::string& name) {
    if (skip_ != 0) {
      return true;
    }
    if (depth_ == 1) {
      tensor_ = {};
      tensor_.name = name;
      named_ = name != "__metadata__";
      skip_ = named_ ? 0 : 1;
      return true;
    }
    member_ = name == "dtype"          ? dtype_member
              : name == "shape"        ? shape_member
              : name == "data_offsets" ? offsets_member
                                       : 0;
    skip_ = member_ == 0 ? 2 : 0;
    // A member that occurs twice is refused, since readers would disagree about which
    // counts.
    const bool twice = (seen_ & member_) != 0;
    seen_ |= member_;
    return !twice;
  }
  bool string(const std::string& text) {
    if (skip_ != 0) {
      return end_skipped();
    }
    tensor_.type_name = text;
    return depth_ == 2 && member_ == dtype_member;
  }
  // Negative and fractional numbers arrive at other handlers, which refuse them.
  bool number_unsigned(std::uint64_t n) {
    if (skip_ != 0) {
      return end_skipped();
    }
    if (depth_ != 3) {
      return false;
    }
    // Offsets fill the range, shape numbers are appended.
    if (member_ == offsets_member) {
      return numbers_ < range_.size() && (range_[numbers_++] = n, true);
    }
    tensor_.shape.push_back(static_cast<std::int64_t>(n));
    return n <= static_cast<std::uint64_t>(INT64_MAX) &&
           tensor_.shape.size() <= safetensors_max_dimensions;
  }
  bool null() { return end_skipped(); }
  bool boolean(bool) { return end_skipped(); }
  bool number_integer(std::int64_t) { return end_skipped(); }
  bool number_float(double, const std::string&) { return end_skipped(); }
  bool binary(const nlohmann::json::binary_t&) { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) {
    return false;
  }

 private:
  /// Ends a skipped member if its value is complete; false if none is being skipped,
  /// since the members that are read hold no value of this kind.
  bool end_skipped() {
    const bool skips = skip_ != 0;
    skip_ = depth_ == skip_ ? 0 : skip_;
    return skips;
  }

  static constexpr unsigned dtype_member = 1, shape_member = 2, offsets_member = 4;

  std::uint64_t data_;
  std::uint64_t size_;
  unsigned depth_ = 0;
  unsigned skip_ = 0;
  bool begun_ = false;   ///< the header has begun
  bool named_ = false;   ///< the name of a tensor was read, its object not completely
  unsigned member_ = 0;  ///< the member of the tensor that is read
  unsigned seen_ = 0;    ///< members of the tensor that were read
  std::size_t numbers_ = 0;
  std::array<std::uint64_t, 2> range_{};
  stored_tensor tensor_;
};

}  // namespace

/// Cheap test on the first bytes. A wrong guess would only lead to the error of the
/// parser.
bool is_safetensors(bytes_view head, std::uint64_t size) noexcept {
  if (head.size() < 9 || size < 10) {
    return false;
  }
  // The length must leave space for the object and lie inside the file.
  const std::uint64_t length = load_le<std::uint64_t>(head.data());
  return length >= 2 && length <= longest_header && length <= size - 8 &&
         head[8] == std::byte{'{'};
}

/// `head` is the beginning of the file. Returns how many bytes are needed if it is too
/// short, else fills `out` in the order of the header.
result<header_wants> parse_safetensors(bytes_view head, std::uint64_t size,
                                       std::vector<stored_tensor>& out) {
  const std::uint64_t length = load_le<std::uint64_t>(head.data());
  // No overflow: `is_safetensors` has limited the length.
  const std::uint64_t data = 8 + length;
  if (head.size() < data) {
    return header_wants{data};
  }
  const std::string_view text =
      as_text(head.subspan(8, static_cast<std::size_t>(length)));
  std::size_t taken = 0;
  header_reader reader(data, size);
  if (!nlohmann::json::sax_parse(counting_iterator(text.data(), &taken),
                                 counting_iterator(text.data() + text.size(), &taken),
                                 &reader)) {
    return reader.problem ? *std::move(reader.problem)
                          : bad_safetensors(8 + taken, reader.expected());
  }
  WEIR_CHECK(check_tensors(reader.tensors, size, "safetensors"));
  out = std::move(reader.tensors);
  return header_wants{};
}

}  // namespace weir::storage::hn4

namespace weir::storage {

namespace {

/// Returns a header with its length before it, padded with spaces, so that the elements
/// begin at a multiple of 8 bytes.
byte_vector framed_header(const nlohmann::ordered_json& header) {
  constexpr std::size_t alignment = 8;
  std::string text =
      // Bytes of a type that are no UTF-8 are replaced, since JSON cannot hold them.
      header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize(align_up(text.size(), alignment), ' ');
  byte_vector file(sizeof(std::uint64_t) + text.size());
  store_le(file.data(), std::uint64_t{text.size()});
  std::ranges::copy(as_view(text), file.begin() + sizeof(std::uint64_t));
  return file;
}

/// Refuses a name that is no UTF-8: JSON cannot hold it, and two of them could become one
/// name if their bytes were replaced.
result<void> check_safetensors_name(const std::string& name) {
  if (!is_utf8(name)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a safetensors header: expected names in UTF-8, "
                             "found {}",
                             json_quote(name)));
  }
  return {};
}

}  // namespace

/// The elements of the tensors follow the header in the order of `tensors`, without
/// gaps.
result<byte_vector> safetensors_header(std::span<const stored_tensor> tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  // Some readers refuse a file without this entry.
  header["__metadata__"]["format"] = "pt";
  std::vector<std::string_view> names{"__metadata__"};
  std::uint64_t offset = 0;
  for (const stored_tensor& t : tensors) {
    WEIR_CHECK(check_safetensors_name(t.name));
    std::uint64_t end = 0;
    if (!checked_add(offset, t.bytes, end)) {
      return error(errc::invalid_argument,
                   fmt::format("cannot make a safetensors header: expected lengths of at "
                               "most 2^64 bytes in all, found more at tensor \"{}\"",
                               t.name));
    }
    nlohmann::ordered_json tensor;
    tensor["dtype"] = t.type_name;
    tensor["shape"] = std::vector<std::int64_t>(t.shape.begin(), t.shape.end());
    tensor["data_offsets"] = {offset, end};
    // A look-up of each name would take quadratic time.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(t.name,
                                                                     std::move(tensor));
    names.push_back(t.name);
    offset = end;
  }
  // Names must be different, and different from the entry above.
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make a safetensors header: expected different names, "
                    "found two tensors \"{}\"",
                    *twice));
  }
  return framed_header(header);
}

/// Makes a whole file with one tensor. `data` has the elements in little-endian order.
result<byte_vector> make_safetensors(const std::string& name, dtype type,
                                     std::span<const std::int64_t> shape,
                                     bytes_view data) {
  WEIR_CHECK(check_safetensors_name(name));
  const auto row =
      std::find_if(hn4::safetensors_types.begin(), hn4::safetensors_types.end(),
                   [&](const hn4::safetensors_type& one) { return one.type == type; });
  if (row == hn4::safetensors_types.end()) {
    return error(
        errc::unsupported,
        fmt::format("cannot make a safetensors file of tensor \"{}\": expected a "
                    "type of that format, found {}",
                    name, info_of(type).tensogram));
  }
  const std::int64_t count = element_count({shape.begin(), shape.end()});
  WEIR_TRY(const std::int64_t bytes, byte_size(type, count));
  if (name == "__metadata__" || static_cast<std::uint64_t>(bytes) != data.size()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make a safetensors file of tensor \"{}\": expected "
                    "another name than __metadata__ and {} bytes, found {} bytes",
                    name, bytes, data.size()));
  }
  nlohmann::ordered_json tensor;
  tensor["dtype"] = row->name;
  tensor["shape"] = std::vector<std::int64_t>(shape.begin(), shape.end());
  tensor["data_offsets"] = {0, data.size()};
  nlohmann::ordered_json header;
  header[name] = std::move(tensor);
  byte_vector file = framed_header(header);
  append(file, data);
  return file;
}

}  // namespace weir::storage
