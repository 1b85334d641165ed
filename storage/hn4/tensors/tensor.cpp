// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads directories of stored files and the tensors that they name.
///
/// The same parsers serve files in memory and stored files. A stored file is read from
/// the front until its header is complete; the tensors themselves are read only on
/// request.
///
/// Raw files, which have no header, are a container of their own kind without tensors.
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "hn4/tensors/containers.hpp"
#include "weir/base/container/gguf_walker.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage {

namespace {

/// Bytes that are read first; most headers fit into them. Reading more at once would
/// cost time for files whose header is short.
constexpr std::uint64_t first_read = std::uint64_t{64} << 10;
/// Longest header that is read. A longer one would come from a damaged length.
constexpr std::uint64_t longest_stored_header = std::uint64_t{1} << 30;
/// Alignment of tensors in memory of their own. Enough for every element type and for
/// vector registers.
constexpr std::size_t tensor_alignment = 64;

/// A parser gets the beginning of a file and the size of the whole file. It returns how
/// many bytes it needs, or 0 if it has filled the list.
using parser = result<hn4::header_wants> (*)(bytes_view, std::uint64_t,
                                             std::vector<stored_tensor>&);

/// Parser of raw files, which have no header. It is always content with what it has.
result<hn4::header_wants> none(bytes_view, std::uint64_t, std::vector<stored_tensor>&) {
  return hn4::header_wants{};
}

/// Chooses the parser by the first bytes of a file.
///
/// GGUF has a magic number; safetensors is recognised by a plausible length and the
/// first brace. Everything else is raw.
parser parser_for(bytes_view head, std::uint64_t size, container_format& format) {
  if (is_gguf(head)) {
    format = container_format::gguf;
    return &hn4::parse_gguf;
  }
  if (hn4::is_safetensors(head, size)) {
    format = container_format::safetensors;
    return &hn4::parse_safetensors;
  }
  format = container_format::raw;
  return &none;
}

}  // namespace

namespace hn4 {

// Sorting by name finds repeated names, sorting by offset finds overlaps: both take
// little more than linear time for headers with many tensors.
//
// Requires nothing of the order of `tensors`. `format` names the container in errors.
result<void> check_tensors(const std::vector<stored_tensor>& tensors, std::uint64_t size,
                           std::string_view format) {
  std::vector<const stored_tensor*> order;
  for (const stored_tensor& t : tensors) {
    // The second condition cannot overflow, since the first one has passed.
    if (t.offset > size || t.bytes > size - t.offset) {
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot use the {} header: expected tensor \"{}\" "
                                   "inside {} bytes, found {} bytes at {}",
                                   format, t.name, size, t.bytes, t.offset));
    }
    order.push_back(&t);
  }
  std::sort(order.begin(), order.end(),
            [](const auto* x, const auto* y) { return x->name < y->name; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->name == order[i - 1]->name) {
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot use the {} header: expected one tensor "
                                   "\"{}\", found two",
                                   format, order[i]->name));
    }
  }
  std::sort(order.begin(), order.end(),
            [](const auto* x, const auto* y) { return x->offset < y->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    // Empty tensors may lie anywhere. The sum was checked above.
    if (order[i]->bytes != 0 &&
        order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot use the {} header: expected tensors apart, "
                                   "found \"{}\" and \"{}\" on the same bytes",
                                   format, order[i - 1]->name, order[i]->name));
    }
  }
  return {};
}

}  // namespace hn4

/// The names are those of the command line and of reports.
std::string_view name_of(container_format format) noexcept {
  switch (format) {
    case container_format::safetensors: return "safetensors";
    case container_format::gguf: return "gguf";
    default: return "raw";
  }
}

namespace {

/// Allocates memory for a tensor. A large one gets huge pages: with ordinary pages, the
/// first touch of new memory takes longer than the read that fills it.
///
/// Returns a null pointer if the system has no memory. Tensors come from files, so a
/// lack of memory is an ordinary error.
std::shared_ptr<void> allocate(std::size_t size) {
  constexpr std::size_t large_page = std::size_t{2} << 20;
  const std::align_val_t aligned{size >= large_page ? large_page : tensor_alignment};
  // At least one unit, since an empty tensor also needs an address.
  void* memory = ::operator new(std::max(size, tensor_alignment), aligned, std::nothrow);
  if (memory == nullptr) {
    return nullptr;
  }
  if (size >= large_page) {
    // Advice that may be refused without harm.
    (void)::madvise(memory, align_down(size, large_page), MADV_HUGEPAGE);
  }
  return {memory, [aligned](void* p) { ::operator delete(p, aligned); }};
}

}  // namespace

/// The whole file is there, so a parser that wants more bytes has found a file that
/// contradicts itself; `WEIR_EXPECT` reports it.
result<tensor_directory> tensor_directory::from_bytes(bytes_view file) {
  tensor_directory directory;
  const parser parse = parser_for(file, file.size(), directory.format_);
  WEIR_TRY(const auto wants, parse(file, file.size(), directory.tensors_));
  WEIR_EXPECT(wants.bytes == 0);
  return directory;
}

// The header tells how long it is only while it is read, so bytes are added until it is
// complete.
//
// Each round parses from the start, and the number of bytes at least doubles for GGUF,
// so the rounds together cost little more than the last.
result<tensor_directory> tensor_directory::from_stream(const hn4_stream& stream) {
  tensor_directory directory;
  byte_vector head;
  std::uint64_t wanted = std::min(stream.size(), first_read);
  for (;;) {
    const std::size_t there = head.size();
    // Bytes that were read before are kept.
    head.resize(static_cast<std::size_t>(wanted));
    WEIR_TRY(const std::size_t got,
             stream.read(there, mutable_bytes(head).subspan(there)));
    head.resize(there + got);
    const parser parse = parser_for(head, stream.size(), directory.format_);
    WEIR_TRY(const auto wants, parse(head, stream.size(), directory.tensors_));
    if (wants.bytes == 0) {
      return directory;
    }
    // The header is too long, or the file ends inside of it.
    if (wants.bytes > longest_stored_header || head.size() == stream.size()) {
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot read the header of tag \"{}\": expected at "
                                   "most {} bytes, found more",
                                   stream.tag(), longest_stored_header));
    }
    wanted = std::min(stream.size(), wants.bytes);
  }
}

/// The order is that of the file, which is not sorted.
const stored_tensor* tensor_directory::find(std::string_view name) const noexcept {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const stored_tensor& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

// Uses the bytes in place if they are aligned for their elements; else reads a copy.
//
// The tensor keeps a mapped device alive by its holder.
result<hn4_tensor> read_tensor(const hn4_stream& stream, const stored_tensor& info) {
  // The description may come from another stream, so the range is checked here again.
  if (info.offset > stream.size() || info.bytes > stream.size() - info.offset) {
    return hn4_error(
        hn4_code::invalid_argument,
        fmt::format("cannot read tensor \"{}\": expected {} bytes at {} "
                    "inside tag \"{}\", found its end at {}",
                    info.name, info.bytes, info.offset, stream.tag(), stream.size()),
        errc::out_of_range);
  }
  hn4_tensor tensor;
  tensor.info_ = info;
  const auto size = static_cast<std::size_t>(info.bytes);
  // Elements of less than a byte need no alignment.
  const std::size_t element = std::max<std::size_t>(info_of(info.type).size, 1);
  WEIR_TRY(const hn4_view view, stream.view(info.offset, size));
  if (!view.bytes.empty() &&
      reinterpret_cast<std::uintptr_t>(view.bytes.data()) % element == 0) {
    tensor.holder_ = view.holder;
    tensor.bytes_ = view.bytes;
    tensor.is_view_ = true;
    return tensor;
  }
  // Not mapped, compressed, divided over blocks or not aligned: a copy is needed.
  const std::shared_ptr<void> memory = allocate(size);
  if (memory == nullptr) {
    return hn4_error(
        hn4_code::no_memory,
        fmt::format(
            "cannot allocate {} bytes for tensor \"{}\": the system has no more memory",
            size, info.name));
  }
  const mutable_bytes to(static_cast<std::byte*>(memory.get()), size);
  WEIR_CHECK(stream.read(info.offset, to));
  tensor.holder_ = memory;
  tensor.bytes_ = to;
  return tensor;
}

// All tags are searched even after a tensor was found, because a second one would make
// the name ambiguous. A tag that cannot be read is an error only if no other tag has the
// tensor.
//
// With a tag, only this tag is searched, and its errors are returned as they are.
result<located_tensor> locate_tensor(const hn4_volume& volume, std::string_view name,
                                     std::string_view tag) {
  std::vector<std::string> tags, known;
  std::optional<error> unreadable;  // of the first tag that may have held the tensor
  if (tag.empty()) {
    WEIR_TRY(const auto all, volume.tags());
    WEIR_TRY(const auto damaged, volume.damaged_tags());
    for (const hn4_tag& t : all) {
      tags.push_back(t.name);
    }
    if (!damaged.empty()) {
      unreadable = damaged.front().problem;
    }
  } else {
    tags.emplace_back(tag);
  }
  std::optional<hn4_stream> where;
  std::optional<stored_tensor> info;
  for (const std::string& each : tags) {
    auto stream = volume.stream(each);
    auto directory = stream ? tensor_directory::from_stream(*stream)
                            : result<tensor_directory>(stream.error());
    if (!directory) {
      if (!tag.empty()) {
        return std::move(directory).error();
      }
      unreadable = unreadable ? unreadable : directory.error();
      continue;
    }
    for (const stored_tensor& t : directory->tensors()) {
      known.push_back(t.name);
    }
    const stored_tensor* found = directory->find(name);
    if (found != nullptr && where) {
      return hn4_error(
          hn4_code::invalid_argument,
          fmt::format("cannot choose tensor \"{}\": expected one tag to have "
                      "it, found \"{}\" and \"{}\"",
                      name, where->tag(), each));
    }
    if (found != nullptr) {
      info = *found;
      where.emplace(std::move(*stream));
    }
  }
  if (!where && unreadable) {
    return hn4_error(hn4_code::data_rot,
                     fmt::format("cannot find tensor \"{}\": expected every tag to be "
                                 "whole, found one that is not and may hold it",
                                 name))
        .because(std::move(*unreadable));
  }
  if (!where) {
    return hn4_error(
        hn4_code::not_found,
        fmt::format("cannot find tensor \"{}\": expected one of {}, found another{}",
                    name, known.size(), did_you_mean(name, known)));
  }
  return located_tensor{std::move(*where), std::move(*info)};
}

/// Locates and reads in one call.
result<hn4_tensor> find_tensor(const hn4_volume& volume, std::string_view name,
                               std::string_view tag) {
  WEIR_TRY(const located_tensor found, locate_tensor(volume, name, tag));
  return read_tensor(found.stream, found.info);
}

result<hn4_tensor> hn4_volume::tensor(std::string_view name, std::string_view tag) const {
  return find_tensor(*this, name, tag);
}

}  // namespace weir::storage
