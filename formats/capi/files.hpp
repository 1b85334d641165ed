// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file of messages, as the functions with and without tasks share it.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/decode.hpp"

namespace weir::capi {

/// A file that can be read. @error{TGM_ERROR_IO}
[[nodiscard]] outcome<std::shared_ptr<const formats::byte_source>> open_source(
    const std::string& path);

/// Reads where messages lie when that is first asked for.
/// @threads{safe to call concurrently}
class message_file {
 public:
  /// @error{TGM_ERROR_IO}
  [[nodiscard]] static outcome<std::shared_ptr<message_file>> open(
      const std::string& path);
  /// Empties the file, or creates it with the folders above it. @error{TGM_ERROR_IO}
  [[nodiscard]] static outcome<std::shared_ptr<message_file>> create(
      const std::string& path);
  /// A file that is read from elsewhere; append() does not apply.
  message_file(std::string name, std::shared_ptr<const formats::byte_source> source)
      : name_(std::move(name)), source_(std::move(source)) {}

  /// The path or address, as the caller gave it.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The places of all messages, in the source in which they lie.
  struct contents {
    std::shared_ptr<const formats::byte_source> source;
    std::vector<formats::message_span> spans;
  };
  [[nodiscard]] outcome<std::shared_ptr<const contents>> scan();
  /// @error{TGM_ERROR_OBJECT, the file has no such message}
  [[nodiscard]] outcome<message_place> place(std::size_t index);
  /// After a failure the file is as it was before. @error{TGM_ERROR_IO}
  [[nodiscard]] outcome<void> append(bytes_view bytes);

 private:
  std::string name_;
  std::mutex mutex_;
  std::shared_ptr<const formats::byte_source> source_;  ///< under `mutex_`
  std::shared_ptr<const contents> found_;               ///< under `mutex_`
};

/// The bytes of a message.
[[nodiscard]] outcome<owned_bytes> read_message(const message_place& message);
/// All objects of a message, from its bytes in memory.
[[nodiscard]] outcome<message_handle> decode_message(const message_place& message,
                                                     const formats::read_options& options,
                                                     const stop_check& stop = {});

}  // namespace weir::capi
