// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens files behind addresses: http, https and S3 through the remote reader, file:// as
/// files of this machine.
#include "capi/async/remote.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

#include "weir/formats/remote.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

namespace {

/// A file on a server. Its messages were found when it was opened.
class remote_messages final : public message_store {
 public:
  remote_messages(std::string url, std::shared_ptr<const remote_file> file)
      : url_(std::move(url)), file_(std::move(file)) {}

  const std::string& name() const noexcept override { return url_; }
  outcome<std::size_t> message_count() override { return file_->message_count(); }
  outcome<message_place> place(std::size_t index, const std::stop_token& stop) override {
    if (index >= file_->message_count()) {
      return no_such_message(index, file_->name(), file_->message_count());
    }
    // Each place has a source with the stop token of its task; client and cache are
    // shared.
    return message_place{file_->source()->limited({stop, {}}), file_->spans()[index],
                         true};
  }

 private:
  std::string url_;                          ///< as the caller gave it
  std::shared_ptr<const remote_file> file_;  ///< with the places of its messages
};

/// Replaces %XX by the byte that it stands for. Returns nothing if two hexadecimal digits
/// do not follow a percent sign.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    // from_chars() stops at the first character that is no digit.
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto read =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + 2) {
      return std::nullopt;
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

/// Removes `prefix` from the start of `text`, without regard to the case of letters.
bool take_prefix(std::string_view& text, std::string_view prefix) {
  const auto equal = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  const bool there = text.size() >= prefix.size() &&
                     // The comparison is that of schemes and hosts, which know no case.
                     std::equal(prefix.begin(), prefix.end(), text.begin(), equal);
  text.remove_prefix(there ? prefix.size() : 0);
  return there;
}

/// Returns the absolute path behind "file://", with or without the host "localhost". A
/// path with a zero byte is refused, because the system would see only its beginning.
std::optional<std::string> local_path(std::string_view rest) {
  // "file:///path" and "file://localhost/path" name the same file.
  take_prefix(rest, "localhost");
  auto path = rest.substr(0, 1) == "/" ? percent_decoded(rest) : std::nullopt;
  return path && path->find('\0') == std::string::npos ? path : std::nullopt;
}

/// Opens a file of this machine through its address. All failures have the code that
/// failures of remote files have.
outcome<std::shared_ptr<message_store>> open_local(const std::string& url,
                                                   std::string_view rest) {
  const auto path = local_path(rest);
  if (!path) {
    return failure(TGM_ERROR_REMOTE,
                   fmt::format("cannot open \"{}\": expected \"file://\" and an absolute "
                               "path, found another form",
                               url));
  }
  // The file is opened now and scanned later, as other local files.
  auto source = open_source(*path);
  if (!source) {
    return failure(TGM_ERROR_REMOTE, source.error().text);
  }
  // The name is the address, which messages then show.
  return std::make_shared<message_file>(url, std::move(*source));
}

/// Returns a note that names the options which no store knows. They have no effect, as in
/// the reference, but one of them may be the reason why a file cannot be opened.
std::string note_on(const std::vector<std::string>& unknown_options) {
  std::string out;
  for (const std::string& name : unknown_options) {
    out += fmt::format("\n  the option \"{}\" had no effect: no store knows it", name);
  }
  return out;
}

}  // namespace

/// Options that no store knows are collected and not refused: the reference ignores them,
/// but they are named if opening fails.
outcome<std::shared_ptr<message_store>> open_remote(const remote_request& request,
                                                    const std::stop_token& stop) {
  std::string_view rest = request.url;
  if (take_prefix(rest, "file://")) {
    return open_local(request.url, rest);
  }
  remote_options options;
  std::vector<std::string> unknown_options;
  for (const auto& [key, value] : request.options) {
    // Unknown names are strings of the caller, such as a misspelt key.
    if (is_storage_option(key)) {
      options.storage.emplace_back(key, value);
    } else {
      unknown_options.push_back(key);
    }
  }
  // The deadline of the task is watched by the runtime, so the call has no time limit of
  // its own.
  auto file = remote_file::open(
      request.url, options,
      request.both_ends ? scan_order::both_ends : scan_order::forward, {stop, {}});
  if (!file) {
    failure why = cannot_open_remote(file.error());
    why.text += note_on(unknown_options);
    return why;
  }
  return std::make_shared<remote_messages>(request.url, std::move(*file));
}

}  // namespace weir::capi
