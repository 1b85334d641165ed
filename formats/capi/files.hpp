// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of messages, as the functions with and without tasks share them.
#pragma once

#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/decode.hpp"

namespace weir::capi {

/// A file that can be read. @error{TGM_ERROR_IO}
[[nodiscard]] outcome<std::shared_ptr<const formats::byte_source>> open_source(
    const std::string& path);

/// A file whose messages are read by their numbers.
/// @threads{safe to call concurrently}
class message_store {
 public:
  virtual ~message_store() = default;
  /// The path or address, as the caller gave it.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  [[nodiscard]] virtual outcome<std::size_t> message_count() = 0;
  /// Reading from the place ends early if a stop is requested and the file is remote.
  /// @error{TGM_ERROR_OBJECT, the file has no such message}
  [[nodiscard]] virtual outcome<message_place> place(std::size_t index,
                                                     const std::stop_token& stop) = 0;
};
/// The failure of place() for an index beyond the `count` messages of a file.
[[nodiscard]] failure no_such_message(std::size_t index, const std::string& file,
                                      std::size_t count);

/// A file of this machine. It is scanned when the places of its messages are first asked
/// for.
class message_file final : public message_store {
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

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  /// The places of all messages, in the source in which they lie.
  struct contents {
    std::shared_ptr<const formats::byte_source> source;
    std::vector<formats::message_span> spans;
  };
  [[nodiscard]] outcome<std::shared_ptr<const contents>> scan();
  [[nodiscard]] outcome<std::size_t> message_count() override;
  [[nodiscard]] outcome<message_place> place(std::size_t index,
                                             const std::stop_token& stop = {}) override;
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
                                                     const std::stop_token& stop = {});

}  // namespace weir::capi
