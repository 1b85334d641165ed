// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shared memory by memfd, and its records.
///
/// Layout, alignment and the owner of every region are fixed by `flow::shared_layout`;
/// this file only copies into it and checks what comes out of it. Everything that the
/// other process has written is copied before it is checked, because that process can
/// change the memory at any time.
#include "process/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "weir/base/bytes.hpp"

namespace weir::actors {
namespace {

/// Memory up to this size is allocated at once, so that a lack of it is an error here and
/// no signal later. @units{bytes}
constexpr std::uint64_t max_allocated = std::uint64_t{64} << 20;

/// Returns the error for memory that the system has refused to the run.
/// @param call  System call that has failed with the error `number`.
error no_memory(const std::string& stage, std::uint64_t bytes, const char* call,
                int number) {
  // The memory is a file: a limit of the size of files holds for it, and a size beyond
  // that of any file is an invalid argument of the calls that get it.
  const std::string_view named = call;
  const bool has_size = named != "memfd_create" && named != "fcntl";
  const bool lacks = number == ENOSPC || number == ENOMEM || number == EFBIG ||
                     (number == EINVAL && has_size);
  const errc code = number == ENOMEM ? errc::out_of_memory
                    : lacks          ? errc::no_space
                                     : errc::io;
  error e(code,
          fmt::format("cannot make the memory that the run shares with the child process "
                      "of stage \"{}\": expected {} bytes, found the error \"{}\" of {}",
                      stage, bytes, std::strerror(number), call));
  if (number == EMFILE || number == ENFILE) {
    return std::move(e).hint("raise the limit of open files (`ulimit -n`)");
  }
  return lacks
             ? std::move(e).hint(
                   "give the edges of the stage smaller windows, or raise the limits of "
                   "the process (`ulimit -f`, `ulimit -v`)")
             : std::move(e);
}

/// Maps the whole file for reading and writing, shared with the other process.
/// Returns a null pointer, with the reason in `errno`, if the system refuses.
std::byte* map_all(int fd, std::uint64_t bytes) {
  // Both processes see each other's writes at once.
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

/// Returns the error for a field of a record that the child has written.
error bad_field(const char* field, const std::string& expected,
                const std::string& found) {
  return error(errc::corrupt, fmt::format("cannot use a tensor of the child process: "
                                          "expected {} {}, found {}",
                                          field, expected, found));
}

}  // namespace

// The size is sealed, because a child that shrinks the file would end the run by SIGBUS
// at its next access. A sealed file also cannot grow, so a child cannot fill the memory
// of the machine through it.
result<shared_memory> shared_memory::create(const std::string& stage,
                                            std::uint64_t bytes) {
  // The name is seen in the list of mappings, for people.
  const int fd =
      ::memfd_create(("weir:" + stage).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return no_memory(stage, bytes, "memfd_create", errno);
  }
  // From here on the descriptor is closed on errors.
  shared_memory made(fd, nullptr, bytes);
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(fd, size) != 0) {
    return no_memory(stage, bytes, "ftruncate", errno);
  }
  // Larger memory is allocated page by page when it is used.
  if (bytes <= max_allocated) {
    if (const int number = ::posix_fallocate(fd, 0, size); number != 0) {
      return no_memory(stage, bytes, "posix_fallocate", number);
    }
  }
  // No further seals can be added.
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return no_memory(stage, bytes, "fcntl", errno);
  }
  made.base_ = map_all(fd, bytes);
  if (made.base_ == nullptr) {
    return no_memory(stage, bytes, "mmap", errno);
  }
  return made;
}

// The child compares the size with the one in the start message, so that a descriptor of
// something else is an error and not an access behind its end.
result<shared_memory> shared_memory::map(int fd, std::uint64_t bytes) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) {
    return system_error("look at", "shared memory", errno);
  }
  // A size that differs means another descriptor.
  if (static_cast<std::uint64_t>(facts.st_size) != bytes) {
    return error(errc::io, fmt::format("cannot map shared memory: expected {} bytes, "
                                       "found {}",
                                       bytes, facts.st_size));
  }
  // The descriptor is owned from here on.
  shared_memory made(fd, nullptr, bytes);
  made.base_ = map_all(fd, bytes);
  if (made.base_ == nullptr) {
    return system_error("map", "shared memory", errno);
  }
  return made;
}

/// The other object is empty afterwards.
shared_memory::shared_memory(shared_memory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

/// Swaps, so that the destructor of the other object frees what this one had.
shared_memory& shared_memory::operator=(shared_memory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

shared_memory::~shared_memory() {
  // Mapping and descriptor end independently.
  if (base_ != nullptr) {
    ::munmap(base_, bytes_);
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

// Compares by subtraction: the sum of an offset and a size of the other process could
// overflow.
std::optional<std::uint64_t> region::take(std::uint64_t bytes) noexcept {
  // Every tensor begins at an aligned offset.
  const std::uint64_t at = align_up<std::uint64_t>(at_, wire::alignment);
  if (at > end_ || bytes > end_ - at) {
    return std::nullopt;
  }
  at_ = at + bytes;
  return at;
}

// Each attribute is stored as kind (1 byte), length of the name (1), length of the value
// (2), name and value. Numbers have 8 bytes. The flow refuses items whose attributes need
// more than `flow::max_attribute_bytes`, and so many fit into `wire::attribute_bytes` in
// this form.
std::uint32_t put_attributes(std::byte* to, const attributes& all) {
  std::byte* at = to;
  const auto put = [&](const void* from, std::size_t bytes) {
    std::memcpy(at, from, bytes);
    at += bytes;
  };
  for (const auto& [name, value] : all) {
    const auto* text = std::get_if<std::string>(&value);
    // The index is that of the type in `attribute`; 3 is text.
    const auto kind = static_cast<std::uint8_t>(value.index());
    const auto name_bytes = static_cast<std::uint8_t>(name.size());
    const auto bytes = static_cast<std::uint16_t>(text != nullptr ? text->size() : 8);
    put(&kind, 1);
    put(&name_bytes, 1);
    put(&bytes, 2);
    put(name.data(), name_bytes);
    std::visit(
        [&](const auto& one) {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::string>) {
            put(one.data(), bytes);
          } else {
            put(&one, 8);
          }
        },
        value);
  }
  return static_cast<std::uint32_t>(at - to);
}

// Works on a copy: the child could change the shared bytes between a check and its use.
result<attributes> get_attributes(const std::byte* from, std::uint32_t bytes) {
  const auto bad = [](const char* found) {
    return error(errc::corrupt,
                 fmt::format("cannot read attributes of the child process: expected "
                             "kind, name and value, found {}",
                             found));
  };
  // Checked before the copy is made.
  if (bytes > wire::attribute_bytes) {
    return bad("too many bytes");
  }
  attributes all;
  // All checks and reads below are of this copy.
  std::vector<std::byte> copy(from, from + bytes);
  std::size_t at = 0;
  while (at != copy.size()) {
    if (copy.size() - at < 4) {
      return bad("fewer bytes");
    }
    // The head of an attribute: kind, length of the name, length of the value.
    // The kind is the index of the type in `attribute`; 3 is text, all others have 8
    // bytes.
    const auto kind = std::to_integer<unsigned>(copy[at]);
    const auto name_bytes = std::to_integer<std::size_t>(copy[at + 1]);
    std::uint16_t value_bytes = 0;
    std::memcpy(&value_bytes, &copy[at + 2], 2);
    at += 4;
    // Lengths are compared with what is left before any byte behind the head is read.
    if (copy.size() - at < name_bytes + value_bytes || kind > 3 ||
        (kind != 3 && value_bytes != 8)) {
      return bad("fewer bytes, or an unknown kind");
    }
    // @pre The range was compared with the size.
    const auto text = [&](std::size_t begin, std::size_t count) {
      return std::string(as_text(bytes_view(copy).subspan(begin, count)));
    };
    attribute& value = all[text(at, name_bytes)];
    at += name_bytes;
    // Numbers are not aligned here.
    const auto number = [&](auto one) {
      std::memcpy(&one, &copy[at], 8);
      value = one;
    };
    switch (kind) {
      case 0: number(std::int64_t{}); break;
      case 1: number(std::uint64_t{}); break;
      case 2: number(double{}); break;
      default: value = text(at, value_bytes);
    }
    at += value_bytes;
  }
  return all;
}

// The record holds type and shape as numbers, so that the other process needs no pointer
// of this one.
wire::tensor_record record_of(const runtime::tensor& t, std::uint64_t offset) {
  wire::tensor_record one{};
  one.offset = offset;
  // A tensor without bytes has a record as well.
  one.bytes = static_cast<std::uint64_t>(byte_size(t.type(), t.count()).value_or(0));
  one.type = static_cast<std::uint32_t>(t.type());
  one.rank = static_cast<std::uint32_t>(t.shape().size());
  std::copy(t.shape().begin(), t.shape().end(), one.shape.begin());
  return one;
}

// The tensor must be row-major: its bytes are copied as one piece.
std::optional<wire::tensor_record> put_tensor(const shared_memory& memory, region& space,
                                              const runtime::tensor& t) {
  // The size was checked when the tensor was made.
  const std::int64_t bytes = byte_size(t.type(), t.count()).value_or(0);
  const auto at = space.take(static_cast<std::uint64_t>(bytes));
  // The space of this call is used up.
  if (!at) {
    return std::nullopt;
  }
  const wire::tensor_record one = record_of(t, *at);
  // A tensor without elements may have no address.
  if (bytes != 0) {
    std::memcpy(memory.at(*at), t.data(), one.bytes);
  }
  return one;
}

// Every field comes from the other process and is checked against the others and against
// the region that it may name: rank, type, product of the extents without overflow, and
// then offset and size. `one` is a copy, so the checked values are the used ones.
result<shared_tensor> check_tensor(const shared_memory& memory,
                                   const wire::tensor_record& one, std::uint64_t begin,
                                   std::uint64_t bytes) {
  if (one.rank > wire::max_rank) {
    return bad_field("a rank of at most", std::to_string(wire::max_rank),
                     std::to_string(one.rank));
  }
  // An element type without a size cannot be in memory.
  if (one.type > 255 || !info_of(static_cast<int>(one.type)) ||
      info_of(static_cast<int>(one.type))->size == 0) {
    return bad_field("the number of", "an element type", std::to_string(one.type));
  }
  shared_tensor t;
  t.type = static_cast<dtype>(one.type);
  t.shape = {one.shape.data(), one.rank};
  // A product that overflows fits nothing.
  std::int64_t count = 1;
  bool fits = true;
  for (const std::int64_t extent : t.shape) {
    fits = fits && extent >= 0 && checked_mul(count, extent, count);
  }
  const auto expected = fits ? byte_size(t.type, count) : result<std::int64_t>(-1);
  if (!expected || *expected < 0 || static_cast<std::uint64_t>(*expected) != one.bytes) {
    return bad_field("bytes of", "its shape", std::to_string(one.bytes));
  }
  if (one.offset % wire::alignment != 0 || one.offset < begin ||
      one.offset - begin > bytes || one.bytes > bytes - (one.offset - begin)) {
    // The order of the comparisons keeps every difference from becoming negative.
    return bad_field("an offset", fmt::format("in {}+{}", begin, bytes),
                     fmt::format("{}+{}", one.offset, one.bytes));
  }
  // The address is valid as long as the memory is mapped.
  t.data = memory.at(one.offset);
  t.bytes = one.bytes;
  return t;
}

}  // namespace weir::actors
