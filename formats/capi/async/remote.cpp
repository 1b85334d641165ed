// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening files at an address.
#include "capi/async/remote.hpp"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace weir::capi {

namespace {

/// The text behind percent signs; nothing if one of them is not followed by two digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
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

/// The path in "file:///path" or "file://localhost/path".
std::optional<std::string> local_path(std::string_view url) {
  constexpr std::string_view scheme = "file://";
  if (url.substr(0, scheme.size()) != scheme) {
    return std::nullopt;
  }
  url.remove_prefix(scheme.size());
  constexpr std::string_view host = "localhost";
  if (url.substr(0, host.size()) == host) {
    url.remove_prefix(host.size());
  }
  auto path = url.substr(0, 1) == "/" ? percent_decoded(url) : std::nullopt;
  return path && path->find('\0') == std::string::npos ? path : std::nullopt;
}

}  // namespace

outcome<std::shared_ptr<message_file>> open_remote(const remote_address& address,
                                                   const stop_check& /*stop*/) {
  if (const auto path = local_path(address.url)) {
    auto source = open_source(*path);
    if (!source) {
      return failure(TGM_ERROR_REMOTE, source.error().text);
    }
    return std::make_shared<message_file>(address.url, std::move(*source));
  }
  return failure(
      TGM_ERROR_REMOTE,
      fmt::format("cannot open {}: expected an address that this build can read "
                  "(\"file://\" and an absolute path), found another",
                  address.url));
}

}  // namespace weir::capi
