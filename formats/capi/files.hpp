// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of messages, for the functions with and without tasks.
#pragma once

#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/decode.hpp"

namespace weir::capi {

/// Opens a file for reading. @error{TGM_ERROR_IO}
[[nodiscard]] outcome<std::shared_ptr<const formats::byte_source>> open_source(
    const std::string& path);

/// A file whose messages are read by their numbers.
/// @threads{safe to call concurrently}
class message_store {
 public:
  virtual ~message_store() = default;
  /// Returns the path or address as the caller gave it.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// Returns the number of messages, for which the file may be scanned.
  [[nodiscard]] virtual outcome<std::size_t> message_count() = 0;
  /// Returns the place of a message. If the file is remote, reading from the place ends
  /// early when a stop is requested. @error{TGM_ERROR_OBJECT, the file has no such
  /// message}
  [[nodiscard]] virtual outcome<message_place> place(std::size_t index,
                                                     const std::stop_token& stop) = 0;
};
/// Returns the failure of place() for an index that is not below `count`.
[[nodiscard]] failure no_such_message(std::size_t index, const std::string& file,
                                      std::size_t count);

/// A file of this machine. It is scanned when the places of its messages are first
/// requested, and again after each append.
class message_file final : public message_store {
 public:
  /// Opens an existing file. @error{TGM_ERROR_IO}
  [[nodiscard]] static outcome<std::shared_ptr<message_file>> open(
      const std::string& path);
  /// Empties the file, or creates it together with the folders above it.
  /// @error{TGM_ERROR_IO}
  [[nodiscard]] static outcome<std::shared_ptr<message_file>> create(
      const std::string& path);
  /// A file with a source of its own, which is only read; append() must not be called.
  message_file(std::string name, std::shared_ptr<const formats::byte_source> source)
      : name_(std::move(name)), source_(std::move(source)) {}

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  /// The places of all messages, with the source that contains them.
  struct contents {
    std::shared_ptr<const formats::byte_source> source;  ///< where the bytes are
    std::vector<formats::message_span> spans;            ///< in the order of the file
  };
  /// Returns the places of all messages; scans the file if that is needed.
  [[nodiscard]] outcome<std::shared_ptr<const contents>> scan();
  [[nodiscard]] outcome<std::size_t> message_count() override;
  [[nodiscard]] outcome<message_place> place(std::size_t index,
                                             const std::stop_token& stop = {}) override;
  /// Appends a whole message. After a failure the file is as it was before.
  /// @error{TGM_ERROR_IO}
  [[nodiscard]] outcome<void> append(bytes_view bytes);

 private:
  std::string name_;                                    ///< path as the caller gave it
  std::mutex mutex_;                                    ///< for the members below
  std::shared_ptr<const formats::byte_source> source_;  ///< under `mutex_`
  std::shared_ptr<const contents> found_;               ///< under `mutex_`
  bool appended_ = false;  ///< `source_` is older than the last append; under `mutex_`
};

/// Reads the bytes of a message.
[[nodiscard]] outcome<owned_bytes> read_message(const message_place& message);
/// Decodes all objects of a message after reading its bytes into memory.
[[nodiscard]] outcome<message_handle> decode_message(const message_place& message,
                                                     const formats::read_options& options,
                                                     const std::stop_token& stop = {});

}  // namespace weir::capi
