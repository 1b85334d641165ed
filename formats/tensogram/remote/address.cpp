// SPDX-License-Identifier: Apache-2.0
/// @file
/// Addresses of http, https and S3: parsing, the URL to request, and the form for
/// messages, which contains no secrets. libcurl parses URLs, so that the address that is
/// checked here is the one that it connects to.
///
/// An address can have secrets in four places: the user, the password, the query (signed
/// links) and the fragment. They are separated when an address is parsed, and every
/// message uses `public_part`.
#include "tensogram/remote/address.hpp"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

namespace weir::formats {

namespace {

constexpr std::array<std::string_view, 2> http_schemes{"http", "https"};
constexpr std::array<std::string_view, 2> s3_schemes{"s3", "s3a"};
constexpr std::array<std::string_view, 1> google_schemes{"gs"};
constexpr std::array<std::string_view, 5> azure_schemes{"az", "azure", "abfs", "abfss",
                                                        "adl"};

/// Returns a letter in lower case.
char lower_letter(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Returns the scheme in front of "://" in lower case; empty if there is none.
/// Schemes are short; a longer text in front of "://" is part of a file name.
std::string scheme_of(std::string_view address) {
  const std::size_t end = address.find("://");
  if (end == std::string_view::npos || end > 8) {
    return {};
  }
  std::string out(address.substr(0, end));
  std::transform(out.begin(), out.end(), out.begin(), lower_letter);
  return out;
}

/// Returns whether `names` contains `name`.
template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct url_closer {
  void operator()(CURLU* url) const noexcept { curl_url_cleanup(url); }
};
using url_handle = std::unique_ptr<CURLU, url_closer>;

/// Parses an http address. Returns a null pointer if it is malformed.
/// Spaces and characters beyond ASCII are encoded.
url_handle parse_url(const std::string& text) {
  url_handle url(curl_url());
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(),
                                     CURLU_URLENCODE | CURLU_ALLOW_SPACE) != CURLUE_OK) {
    return nullptr;
  }
  return url;
}

/// Returns a part of a URL, or an empty string if it has none.
std::string part_of(const url_handle& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (url == nullptr || curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) {
    return {};
  }
  std::string out(text);
  curl_free(text);
  return out;
}

/// Returns the error for an address of another form than `expected`.
error malformed(std::string_view address, const std::string& expected) {
  return error(errc::invalid_argument,
               fmt::format("cannot use address \"{}\": expected {}, found another form",
                           public_part(address), expected));
}

/// Returns true if anything but digits follows the colon of a host.
/// IPv6 addresses in brackets contain colons, so they are exempt.
bool has_malformed_port(std::string_view authority) {
  const std::size_t colon = authority.find(':');
  if (colon == std::string_view::npos || authority.substr(0, 1) == "[") {
    return false;
  }
  const std::string_view port = authority.substr(colon + 1);
  return !std::all_of(port.begin(), port.end(),
                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Control characters could split a header or disturb a terminal.
bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

/// Parses an http or https address. User and password are taken out of the URL.
result<remote_address> parse_http(std::string_view address,
                                  const remote_settings& settings) {
  const url_handle url = parse_url(std::string(address));
  const std::string_view rest = address.substr(address.find("://") + 3);
  // libcurl skips a third slash and would take the first part of the path for the host.
  if (url == nullptr || rest.substr(0, 1) == "/" ||
      part_of(url, CURLUPART_HOST).empty()) {
    return malformed(address, "scheme, host and path");
  }
  remote_address out;
  out.name = public_part(address);
  out.user = part_of(url, CURLUPART_USER, CURLU_URLDECODE);
  out.password = part_of(url, CURLUPART_PASSWORD, CURLU_URLDECODE);
  // User and password go into headers, and only to this server; a fragment is never sent.
  curl_url_set(url.get(), CURLUPART_USER, nullptr, 0);
  curl_url_set(url.get(), CURLUPART_PASSWORD, nullptr, 0);
  curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  out.url = part_of(url, CURLUPART_URL);
  if (!settings.allow_http && !is_https(out.url)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot use address \"{}\": expected https, since allow_http "
                    "is off, found http",
                    out.name));
  }
  return out;
}

/// Returns the value of a hexadecimal digit, or -1.
int digit_of(char c) {
  const char l = lower_letter(c);
  return c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

/// Replaces %XX by the byte that it stands for, as the reference does for keys.
std::string decode_key(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() &&
                       digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0;
    // An incomplete or malformed code stays as it is.
    out += coded ? static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]))
                 : text[i];
    i += coded ? 2 : 0;
  }
  return out;
}

/// Returns the URL of a bucket, without a slash at its end: Amazon's for the region, or
/// the endpoint of the options.
result<std::string> bucket_url(const std::string& bucket, const std::string& name,
                               const remote_settings& settings) {
  if (settings.endpoint.empty()) {
    // Regions in China have a domain of their own.
    const std::string domain =
        fmt::format("s3.{}.amazonaws.com{}", settings.region,
                    settings.region.rfind("cn-", 0) == 0 ? ".cn" : "");
    return settings.virtual_hosted ? fmt::format("https://{}.{}", bucket, domain)
                                   : fmt::format("https://{}/{}", domain, bucket);
  }
  const url_handle url = parse_url(settings.endpoint);
  const std::string scheme = part_of(url, CURLUPART_SCHEME);
  // A user, query or fragment of an endpoint would be lost or sent to the wrong place.
  const bool plain = part_of(url, CURLUPART_USER).empty() &&
                     part_of(url, CURLUPART_QUERY).empty() &&
                     part_of(url, CURLUPART_FRAGMENT).empty();
  if (!among(http_schemes, scheme) || !plain) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use endpoint \"{}\": expected an http or https "
                             "address without user and query, found another",
                             public_part(settings.endpoint)));
  }
  if (scheme == "http" && !settings.allow_http) {
    return error(errc::invalid_argument,
                 fmt::format("cannot read \"{}\": expected an endpoint of https, since "
                             "allow_http is off, found \"{}\"",
                             name, public_part(settings.endpoint)));
  }
  // The path of an endpoint is kept; slashes at its end are not.
  std::string out = part_of(url, CURLUPART_URL);
  while (!out.empty() && out.back() == '/') {
    out.pop_back();
  }
  // An endpoint for requests of the virtual-hosted style contains the bucket already.
  return settings.virtual_hosted ? out : out + "/" + bucket;
}

/// Parses "s3://BUCKET/KEY". The bucket is restricted to plain characters, because it
/// becomes part of a host name or a path.
result<remote_address> parse_s3(std::string_view address,
                                const remote_settings& settings) {
  const std::string_view rest = address.substr(address.find("://") + 3);
  const std::size_t slash = rest.find('/');
  const std::string bucket(rest.substr(0, slash));
  const bool plain_bucket =
      !bucket.empty() && std::all_of(bucket.begin(), bucket.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
      });
  // The address needs a bucket and a key that is not empty.
  if (!plain_bucket || slash == std::string_view::npos || slash + 1 == rest.size()) {
    return malformed(address, "s3://BUCKET/KEY");
  }
  // A "?" could begin a query or belong to the key, so it must be written as a code.
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return malformed(address,
                     "s3://BUCKET/KEY without a query, with ? and # in the key "
                     "as %3F and %23");
  }
  if (!settings.bucket.empty() && settings.bucket != bucket) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use address \"{}\": expected the bucket of the "
                             "options, \"{}\", found another",
                             public_part(address), settings.bucket));
  }
  remote_address out;
  out.s3 = true;
  out.name = public_part(address);
  WEIR_TRY(const std::string base, bucket_url(bucket, out.name, settings));
  // The key is decoded first, so that a key with codes is not encoded twice.
  out.url = base + "/" + encode_key(decode_key(rest.substr(slash + 1)));
  return out;
}

}  // namespace

/// Only the scheme decides; the rest may be malformed.
bool is_remote_address(std::string_view text) noexcept {
  const std::string scheme = scheme_of(text);
  return among(http_schemes, scheme) || among(s3_schemes, scheme) ||
         among(google_schemes, scheme) || among(azure_schemes, scheme);
}

/// Works on malformed addresses too, because it makes the text for their errors.
std::string public_part(std::string_view address) {
  const std::size_t scheme = address.find("://");
  const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t query = address.find_first_of("?#", start);
  std::string_view rest = address.substr(start, query - start);
  const std::string_view authority = rest.substr(0, rest.find('/'));
  // The last "@" ends the user and the password, since a password may contain "@" itself.
  if (const std::size_t separator = authority.rfind('@');
      separator != std::string_view::npos) {
    rest.remove_prefix(separator + 1);
  } else if (has_malformed_port(authority)) {
    // This may be a password that contains a slash.
    return std::string(address.substr(0, start + authority.find(':'))) + ":***";
  }
  std::string out(address.substr(0, start));
  // Control characters become question marks.
  for (const char c : rest) {
    const auto code = static_cast<unsigned char>(c);
    out += code < 0x20 || code == 0x7F ? '?' : c;
  }
  return out;
}

bool is_https(std::string_view url) {
  return scheme_of(url) == "https";
}

/// Compares in lower case, and fills in the default port of the scheme.
bool same_server(const std::string& one, const std::string& other) {
  const url_handle a = parse_url(one);
  const url_handle b = parse_url(other);
  // Empty parts are not equal: of two malformed addresses nothing is known.
  const auto equal = [&](CURLUPart part, unsigned flags) {
    std::string left = part_of(a, part, flags);
    std::string right = part_of(b, part, flags);
    std::transform(left.begin(), left.end(), left.begin(), lower_letter);
    std::transform(right.begin(), right.end(), right.begin(), lower_letter);
    return !left.empty() && left == right;
  };
  return equal(CURLUPART_SCHEME, 0) && equal(CURLUPART_HOST, 0) &&
         equal(CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

/// Encodes a key for a URL: everything but unreserved characters (RFC 3986, 2.3) and the
/// slashes between the parts of the key. Letters beyond ASCII are bytes of UTF-8, each of
/// which is encoded.
std::string encode_key(std::string_view key) {
  std::string out;
  for (const char c : key) {
    const auto code = static_cast<unsigned char>(c);
    const bool stays = (code < 0x80 && std::isalnum(code) != 0) || c == '-' || c == '.' ||
                       c == '_' || c == '~' || c == '/';
    out += stays ? std::string(1, c) : fmt::format("%{:02X}", code);
  }
  return out;
}

/// Stores that are not built get an error of their own, with a way out in its hint.
result<remote_address> parse_address(std::string_view address,
                                     const remote_settings& settings) {
  // The stores are told apart by the scheme alone.
  const std::string scheme = scheme_of(address);
  const bool google = among(google_schemes, scheme);
  if (google || among(azure_schemes, scheme)) {
    return error(errc::unsupported,
                 fmt::format("cannot open \"{}\": expected an address of http, https or "
                             "s3, found one of {} storage, which is not built",
                             public_part(address), google ? "Google" : "Azure"))
        .hint("give the https address of the object");
  }
  if (has_control_characters(address)) {
    return malformed(address, "printable characters");
  }
  if (among(http_schemes, scheme)) {
    return parse_http(address, settings);
  }
  if (among(s3_schemes, scheme)) {
    return parse_s3(address, settings);
  }
  return malformed(address, "http://, https:// or s3:// in front");
}

}  // namespace weir::formats
