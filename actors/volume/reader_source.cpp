// SPDX-License-Identifier: Apache-2.0
/// @file
/// Requests to a volume reader from threads that are not actors.
#include "volume/reader_source.hpp"

#include <algorithm>

namespace weir::actors {

namespace {

/// The reader answers within its own deadline; this one is for a reader that does not.
constexpr std::chrono::seconds reader_deadline{600};

}  // namespace

stream_source reader_source(caf::actor_system& system, volume_reader_actor reader,
                            std::uint64_t stream) {
  return [&system, reader = std::move(reader), stream](
             std::uint64_t offset, mutable_bytes memory) -> result<std::size_t> {
    // A worker that is late may write after this call has returned `timeout`. It writes
    // to `own`, which its order keeps alive, and not to memory that the caller may reuse.
    auto own = std::make_shared<byte_vector>(memory.size());
    caf::scoped_actor self{system};
    fill_order order{stream, offset, {mutable_bytes(*own), own, {}}};
    WEIR_TRY(const std::uint64_t count,
             ask<std::uint64_t>(self, reader, reader_deadline, "filling a tensor",
                                fill_atom_v, by_reference(std::move(order))));
    std::copy_n(own->begin(), static_cast<std::size_t>(count), memory.begin());
    return static_cast<std::size_t>(count);
  };
}

}  // namespace weir::actors
