// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages of a remote file: a scan with a limit, outlines, readers.
///
/// Opening finds the messages, which reads a few bytes at the ends of each. The functions
/// that follow read what they need: an outline the frames around the objects, an object
/// its own frame, a reader all frames. Each call has limits of its own, through a source
/// that shares the client and the cache of the file (`remote_source::limited`).
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "weir/formats/remote.hpp"

namespace weir::formats {

namespace {

/// A message is read in pieces of this size, so that memory grows only as bytes arrive.
constexpr std::uint64_t message_piece = 8 << 20;

/// A source that fails when more bytes than allowed have been read from it. A scan of
/// damaged bytes would otherwise download the whole file.
class metered_source final : public byte_source {
  // Bytes from the cache count too, so the limit does not depend on what was read before.
 public:
  metered_source(const byte_source& source, std::uint64_t bytes)
      : source_(source), allowed_(bytes) {}

  std::uint64_t size() const noexcept override { return source_.size(); }
  const std::string& name() const noexcept override { return source_.name(); }
  std::optional<bytes_view> view() const noexcept override { return source_.view(); }
  /// Reads as long as the allowed number of bytes suffices. A file without index of its
  /// messages could otherwise make the scan download all of it.
  result<void> read(std::uint64_t offset, mutable_bytes to) const override {
    // `used_` never exceeds `allowed_`, so the difference does not wrap around.
    if (to.size() > allowed_ - used_) {
      return error(errc::out_of_range,
                   fmt::format("cannot find messages of \"{}\": expected them within {} "
                               "bytes of reading, found other bytes or a message in many "
                               "pieces",
                               name(), allowed_))
          .located(fmt::format("{}:{}", name(), offset))
          .hint("copy the file");
    }
    used_ += to.size();
    return source_.read(offset, to);
  }

 private:
  const byte_source& source_;       ///< the file
  std::uint64_t allowed_;           ///< largest number of bytes
  mutable std::uint64_t used_ = 0;  ///< bytes that were read
};

}  // namespace

/// The limit makes up for files of other content, in which the scan would search.
result<std::vector<message_span>> scan_remote(const remote_source& source,
                                              scan_order order,
                                              std::uint64_t scan_bytes) {
  return scan(metered_source(source, scan_bytes), order);
}

/// Opens the file and finds its messages. Both share the time limit of the call.
result<std::shared_ptr<const remote_file>> remote_file::open(
    std::string_view address, const remote_options& options, scan_order order,
    const call_limits& limits) {
  const auto start = std::chrono::steady_clock::now();
  WEIR_TRY(auto source, remote_source::open(address, options, limits));
  // The scan may take the time that opening has left over.
  call_limits rest = limits;
  if (limits.timeout.count() != 0) {
    // Never 0, which would mean "no limit".
    const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    rest.timeout = std::max(std::chrono::milliseconds(1), limits.timeout - used);
  }
  WEIR_TRY(auto spans, scan_remote(*source->limited(rest), order, options.scan_bytes));
  return std::shared_ptr<const remote_file>(
      new remote_file(std::move(source), std::move(spans)));
}

/// Returns the place of message `m`, as the scan has found it.
result<message_span> remote_file::span_of(std::size_t m) const {
  if (m >= spans_.size()) {
    return error(errc::not_found,
                 fmt::format("cannot find message {} of \"{}\": expected a number below "
                             "{}, found it beyond",
                             m, name(), spans_.size()))
        .located(name());
  }
  return spans_[m];
}

/// Memory grows piece by piece, since the length of a message comes from the file.
result<byte_vector> remote_file::read_message(std::size_t m,
                                              const call_limits& limits) const {
  WEIR_TRY(const message_span span, span_of(m));
  const auto source = source_->limited(limits);
  byte_vector out;
  // A message that is longer than the file fails at the first piece that is missing.
  while (out.size() < span.length) {
    const std::uint64_t done = out.size();
    out.resize(done + std::min(message_piece, span.length - done));
    WEIR_CHECK(source->read(span.offset + done, mutable_bytes(out).subspan(done)));
  }
  return out;
}

result<message_outline> remote_file::outline(std::size_t m, const read_options& options,
                                             const call_limits& limits) const {
  WEIR_TRY(const message_span span, span_of(m));
  return message_outline::open(source_->limited(limits), span, options);
}

/// Opens a single object: the outline of the message gives its place, and nothing else of
/// the message is read.
result<message_reader> remote_file::object(std::size_t m, std::size_t i,
                                           const read_options& options,
                                           const call_limits& limits) const {
  WEIR_TRY(const message_outline found, outline(m, options, limits));
  return found.object(i);
}

result<message_reader> remote_file::reader(std::size_t m, const read_options& options,
                                           const call_limits& limits) const {
  WEIR_TRY(const message_span span, span_of(m));
  return message_reader::open(source_->limited(limits), span, options);
}

}  // namespace weir::formats
