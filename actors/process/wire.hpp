// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages between a run and the child process of a stage, as
/// docs/formats/stage-wire.md describes them. All numbers are little-endian, as the
/// machine has them.
///
/// A request and its answer (`head`, then a payload) travel on the socket. The records
/// below stand in the shared memory, in arrays whose places `flow::shared_layout` gives.
/// The run writes calls and inputs, sends the request, and then reads what the child has
/// written; neither writes while the other one may read. All sizes are fixed by
/// assertions, because a program in Python reads the same bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::actors::wire {

/// Version of everything in this header; the start message carries it.
inline constexpr std::uint32_t version = 2;
/// First word of every message.
inline constexpr std::uint32_t magic = 0x52494557;
/// Descriptor of the socket and of the shared memory in the child.
inline constexpr int socket_fd = 3;
inline constexpr int memory_fd = 4;  ///< see `socket_fd`
/// Calls, or items of a source, of one message.
inline constexpr std::uint32_t max_calls = 32;
/// Place for the attributes of an item. @units{bytes}
inline constexpr std::uint32_t attribute_bytes = 2048;
/// Value of `made_record::about_bytes`: the attributes are those of the call.
inline constexpr std::uint32_t same_attributes = 0xFFFFFFFF;
/// Largest payload of a text. @units{bytes}
inline constexpr std::uint64_t max_text = std::uint64_t{1} << 20;
/// Alignment of tensors in the shared memory. @units{bytes}
inline constexpr std::uint64_t alignment = 64;
/// Largest number of dimensions of a tensor.
inline constexpr std::size_t max_rank = 8;

/// Requests. An answer has the number of its request plus `answer`.
enum class kind : std::uint32_t {
  start = 1,   ///< JSON: makes the stage. Answer: nothing
  open,        ///< opens the stage. Answer: JSON with the constants
  work,        ///< processes calls. Answer: `count` calls are complete
  fill,        ///< source: fills `count` items. Answer: `count` items are filled
  write,       ///< sink: writes `count` items. Answer: `count` items are written
  cursor,      ///< source. Answer: the cursor
  seek,        ///< source, with a cursor. Answer: nothing
  settle,      ///< sink. Answer: the offset
  rewind,      ///< sink, with an offset. Answer: nothing
  verify,      ///< sink, with offset and state, instead of `open`. Answer: `count` 0 or 1
  copy_state,  ///< Answer: sections
  restore_state,  ///< with sections. Answer: nothing
  report,         ///< Answer: JSON with the figures
  end,            ///< the child ends with status 0. No answer
};
/// Added to the number of a request.
inline constexpr std::uint32_t answer = 0x80;

/// Flags of answers.
inline constexpr std::uint32_t failed = 1;   ///< the payload is an error as JSON
inline constexpr std::uint32_t ended = 2;    ///< `fill`: no more data; payload: cursor
inline constexpr std::uint32_t nothing = 4;  ///< `fill`: no item at the moment
/// `work`: the call of number `count` is not complete; its items so far are there.
inline constexpr std::uint32_t partial = 8;

/// Begin of every message on the socket.
struct head {
  std::uint32_t magic;     ///< `wire::magic`
  std::uint32_t kind;      ///< of the request, or that plus `answer`
  std::uint64_t sequence;  ///< 1, 2, 3, ... of the request, which its answer repeats
  std::uint32_t count;     ///< see `kind`
  std::uint32_t flags;     ///< see `failed`
  std::uint64_t bytes;     ///< bytes of the payload that follows
};
static_assert(sizeof(head) == 32);

/// Value of `made_record::call` behind the last made item of a stage whose items have
/// numbers of their own.
inline constexpr std::uint32_t no_call = 0xFFFFFFFF;

/// Flag of a call: a source tells the cursor behind the item.
inline constexpr std::uint32_t wants_cursor = 1;

/// A call of the stage, in the shared memory.
struct call_record {
  std::uint64_t seq;          ///< number of the item, the first one of several
  std::uint32_t lane;         ///< lane of the item
  std::uint32_t count;        ///< items of the call, from 1; 0 for a source
  std::int64_t source_ns;     ///< `step::source_time`
  std::int64_t turn_ns;       ///< `step::turn_time`
  std::uint32_t about_bytes;  ///< encoded attributes
  std::uint32_t flags;        ///< see `wants_cursor`
  std::array<std::uint64_t, 3> reserved;  ///< 0
};
static_assert(sizeof(call_record) == 64);

/// A tensor of a call or of a made item, in the shared memory.
struct tensor_record {
  std::uint64_t offset;  ///< of the bytes in the shared memory, a multiple of 64
  std::uint64_t bytes;   ///< bytes of the tensor
  std::uint32_t type;    ///< number of `weir::dtype`; 0: there is no tensor (a gap)
  std::uint32_t rank;    ///< extents in use, at most 8
  std::array<std::int64_t, max_rank> shape;  ///< extents, the slowest dimension first
  std::uint64_t reserved;                    ///< 0
};
static_assert(sizeof(tensor_record) == 96);

/// Flag of a made item: the number has no item behind the stage.
inline constexpr std::uint32_t skipped = 1;

/// An item that the stage has made, in the shared memory.
struct made_record {
  std::uint32_t call;                     ///< number of the call in the message, from 0
  std::uint32_t flags;                    ///< see `skipped`
  std::uint32_t about_bytes;              ///< encoded attributes, or `same_attributes`
  std::uint32_t cursor_bytes;             ///< of a source, if the call asks for it
  std::array<std::byte, 64> cursor;       ///< cursor behind the item
  std::array<std::uint64_t, 6> reserved;  ///< 0
};
static_assert(sizeof(made_record) == 128);

}  // namespace weir::actors::wire
