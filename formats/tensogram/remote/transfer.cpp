// SPDX-License-Identifier: Apache-2.0
/// @file
/// One request for a range, and the checks of its answer. An answer is checked when its
/// headers are known, before any byte of its body is stored.
///
///   take_body -> take -> accept_head (once) -> accept_part (206) | accept_whole (200)
///   finish    -> finish_status (other statuses) | finish_broken (no whole answer)
///
/// Wrong bytes are worse than none: a server or a cache in between that sends another
/// range, another version or compressed bytes makes the request fail. Failures are
/// divided into those that another request may mend and those that it cannot.
#include "tensogram/remote/transfer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>

namespace weir::formats {

namespace {

/// Largest size of a file that a server may claim, in bytes.
constexpr std::uint64_t max_file_size = std::numeric_limits<std::int64_t>::max();
/// Bytes of an error's body that are kept.
/// An error of S3 is a short XML document.
constexpr std::size_t longest_error_body = 4096;
/// Size of libcurl's buffer, larger than its default so that large parts need fewer
/// calls.
constexpr long body_buffer = 256 << 10;
/// Value that libcurl reports for a chain of certificates that it has not verified
/// because the name of the host did not match.
constexpr long chain_not_checked = 1;
/// SHA-256 of an empty body, which requests of S3 must state.
constexpr std::string_view digest_of_nothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Sets an option of a handle.
template <class T>
void set(CURL* easy, CURLoption option, T value) {
  // The options exist in the version that the build requires. Where memory is short, the
  // request itself fails.
  static_cast<void>(curl_easy_setopt(easy, option, value));
}

/// Parses a number at the start of `text` and removes it.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t out = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (problem != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return out;
}

/// Removes `c` from the start of `text`; returns whether it was there.
bool take_char(std::string_view& text, char c) {
  const bool there = !text.empty() && text.front() == c;
  text.remove_prefix(there ? 1 : 0);
  return there;
}

/// Returns the text between <tag> and </tag> if it is a single word, and an empty string
/// otherwise. Words of a server appear in messages, so they are restricted.
std::string xml_word(const std::string& text, const std::string& tag) {
  // `from` is used only if the tag was found.
  const std::size_t start = text.find("<" + tag + ">");
  const std::size_t from = start + tag.size() + 2;
  const std::size_t end = start == std::string::npos ? start : text.find('<', from);
  if (end == std::string::npos || end - from > 64) {
    return {};
  }
  const std::string word = text.substr(from, end - from);
  const bool plain = std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-';
  });
  return plain ? word : std::string();
}

/// Returns true if a request that failed for this reason may succeed when it is repeated.
/// What is missing here (a host that does not resolve, a certificate, a malformed answer)
/// would fail again.
bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
  }
}

/// Returns whether a failure concerns certificates.
bool of_certificates(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

}  // namespace

/// Accepts "bytes A-B/N", "bytes A-B/*" and "bytes */N", and checks A <= B < N.
std::optional<content_range> parse_content_range(std::string_view text) {
  content_range out;
  constexpr std::string_view unit = "bytes ";
  if (text.substr(0, unit.size()) != unit) {
    return std::nullopt;
  }
  text.remove_prefix(unit.size());
  // "*" in front means that the range could not be served.
  if (!take_char(text, '*')) {
    out.first = take_number(text);
    if (!out.first || !take_char(text, '-')) {
      return std::nullopt;
    }
    const auto last = take_number(text);
    if (!last || *last < *out.first) {
      return std::nullopt;
    }
    out.last = *last;
  }
  if (!take_char(text, '/')) {
    return std::nullopt;
  }
  if (!take_char(text, '*')) {
    out.total = take_number(text);
    if (!out.total || (out.first && *out.total <= out.last)) {
      return std::nullopt;
    }
  }
  return text.empty() && (out.first || out.total) ? std::optional(out) : std::nullopt;
}

/// Without memory there is no handle, and range_batch reports it.
transfer::transfer(request_target target, range_wanted wanted,
                   std::chrono::milliseconds time_limit)
    : target_(std::move(target)), wanted_(wanted), easy_(curl_easy_init()) {
  if (easy_ != nullptr) {
    set_up(time_limit);
  }
}

/// Must not run while a multi handle still has the request.
transfer::~transfer() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

/// Sets all options of the request. libcurl copies the strings.
void transfer::set_up(std::chrono::milliseconds time_limit) {
  const remote_settings& s = target_.settings;
  set(easy_, CURLOPT_PRIVATE, this);
  set(easy_, CURLOPT_URL, target_.url.c_str());
  set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  // Redirects are followed by range_batch, which decides whether secrets go along.
  set(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  // Signals would disturb other threads of the program.
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  set(easy_, CURLOPT_QUICK_EXIT, 1L);
  set(easy_, CURLOPT_ERRORBUFFER, text_);
  set(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy_, CURLOPT_BUFFERSIZE, body_buffer);
  set(easy_, CURLOPT_WRITEFUNCTION, &transfer::take_body);
  set(easy_, CURLOPT_WRITEDATA, this);
  // Both ends are inclusive. The range is not empty.
  const std::string range =
      fmt::format("{}-{}", wanted_.offset, wanted_.offset + wanted_.to.size() - 1);
  set(easy_, CURLOPT_RANGE, range.c_str());
  set(easy_, CURLOPT_TIMEOUT_MS, static_cast<long>(time_limit.count()));
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(s.connect_timeout.count()));
  set(easy_, CURLOPT_USERAGENT,
      s.user_agent.empty() ? "weir/" WEIR_VERSION : s.user_agent.c_str());
  set(easy_, CURLOPT_HTTP_VERSION,
      static_cast<long>(s.http1_only   ? CURL_HTTP_VERSION_1_1
                        : s.http2_only ? CURL_HTTP_VERSION_2_0
                                       : CURL_HTTP_VERSION_2TLS));
  if (!s.proxy.empty()) {
    set(easy_, CURLOPT_PROXY, s.proxy.c_str());
  }
  if (!s.proxy_excludes.empty()) {
    set(easy_, CURLOPT_NOPROXY, s.proxy_excludes.c_str());
  }
  // With If-Match the server itself refuses a file that has changed.
  if (wanted_.version != nullptr && wanted_.version->strong()) {
    add_header("If-Match: " + wanted_.version->etag);
  }
  trust();
  if (target_.own_server) {
    sign();
  }
  set(easy_, CURLOPT_HTTPHEADER, headers_);
}

/// Adds a header; if memory is short, the header is omitted.
void transfer::add_header(const std::string& line) {
  if (curl_slist* longer = curl_slist_append(headers_, line.c_str())) {
    headers_ = longer;
  }
}

/// Adds the identity of the caller. Only requests to the server of the address get it.
void transfer::sign() {
  const remote_settings& s = target_.settings;
  const remote_address& a = target_.address;
  // http and https: the user and the password of the address, if there are any.
  if (!a.s3) {
    if (!a.user.empty() || !a.password.empty()) {
      set(easy_, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
      set(easy_, CURLOPT_USERNAME, a.user.c_str());
      set(easy_, CURLOPT_PASSWORD, a.password.c_str());
    }
    return;
  }
  // ".." in a key has no special meaning.
  set(easy_, CURLOPT_PATH_AS_IS, 1L);
  if (s.request_payer) {
    add_header("x-amz-request-payer: requester");
  }
  if (!s.signs()) {
    return;
  }
  // S3 requires this header and its signature. libcurl 7.88 does not add it.
  add_header("x-amz-content-sha256: " + std::string(digest_of_nothing));
  if (!s.session_token.empty()) {
    add_header("x-amz-security-token: " + s.session_token);
  }
  set(easy_, CURLOPT_USERNAME, s.access_key.c_str());
  set(easy_, CURLOPT_PASSWORD, s.secret_key.c_str());
  set(easy_, CURLOPT_AWS_SIGV4, ("aws:amz:" + s.region + ":s3").c_str());
}

/// Sets the certificates to trust.
void transfer::trust() {
  const remote_settings& s = target_.settings;
  set(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!s.certificate_file.empty()) {
    set(easy_, CURLOPT_CAINFO, s.certificate_file.c_str());
  }
  if (!s.certificate_folder.empty()) {
    set(easy_, CURLOPT_CAPATH, s.certificate_folder.c_str());
  }
  if (s.allow_invalid_certificates) {
    set(easy_, CURLOPT_SSL_VERIFYPEER, 0L);
    set(easy_, CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

/// Notes a failure for which another request would not help. Returns false.
bool transfer::fail(errc code, std::string reason, std::string hint) {
  failed_ = true;
  code_ = code;
  reason_ = std::move(reason);
  hint_ = std::move(hint);
  return false;
}

/// Returns a header of the final answer, or an empty string.
std::string transfer::header(const char* name) const {
  // The last of several answers counts, as after an answer 100 or from a proxy.
  curl_header* found = nullptr;
  const bool there =
      curl_easy_header(easy_, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK;
  return there ? std::string(found->value) : std::string();
}

/// Compares the version of the answer with the one that was opened. A property that one
/// of the two answers lacks is not compared.
bool transfer::same_version() const {
  const file_version& opened = *wanted_.version;
  const auto agree = [](const std::string& a, const std::string& b) {
    return a.empty() || b.empty() || a == b;
  };
  return found_.size == opened.size && agree(found_.etag, opened.etag) &&
         agree(found_.modified, opened.modified);
}

/// Checks status and headers before the first byte of the body.
bool transfer::accept_head() {
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status_);
  // The body of any other status is the text of an error; see finish_status().
  if (status_ != 200 && status_ != 206) {
    return true;
  }
  found_.etag = header("ETag");
  found_.modified = header("Last-Modified");
  // A compressed body has other bytes at other offsets.
  const std::string encoding = header("Content-Encoding");
  if (!encoding.empty() && encoding != "identity") {
    return fail(errc::source_unavailable,
                fmt::format("expected the bytes as they are, found Content-Encoding {}",
                            encoding.substr(0, 40)));
  }
  return status_ == 206 ? accept_part() : accept_whole();
}

/// Checks an answer with status 206: the range must begin where it was requested and must
/// not be longer, and the file must be the version that was opened.
bool transfer::accept_part() {
  const std::string text = header("Content-Range");
  const auto range = parse_content_range(text);
  const std::uint64_t last = wanted_.offset + wanted_.to.size() - 1;
  if (!range || !range->first || *range->first != wanted_.offset || range->last > last) {
    return fail(errc::source_unavailable,
                fmt::format("expected Content-Range from {} to {} at most, found \"{}\"",
                            wanted_.offset, last, text.substr(0, 80)));
  }
  // Without the size, nothing could be known about the end of the file.
  if (!range->total && wanted_.version == nullptr) {
    return fail(errc::source_unavailable,
                "expected the size of the file in Content-Range, found none");
  }
  // No file system has files of 2^63 bytes. Below this limit, no sum of an offset and a
  // length can overflow in the code that reads the file.
  if (range->total.value_or(0) > max_file_size) {
    return fail(errc::source_unavailable,
                fmt::format("expected a file of at most {} bytes, found a server that "
                            "claims {}",
                            max_file_size, *range->total));
  }
  // A server may leave the size out later; it then counts as unchanged.
  found_.size = range->total ? *range->total : wanted_.version->size;
  if (wanted_.version != nullptr && !same_version()) {
    return fail(errc::source_unavailable,
                fmt::format("expected the file as it was opened, of {} bytes, found "
                            "another version of {} bytes",
                            wanted_.version->size, found_.size),
                "it was changed while it was read: open it again");
  }
  expected_ = range->last - wanted_.offset + 1;
  return true;
}

/// Checks an answer with status 200, which is the whole file. It is accepted only for the
/// first request of a file, up to a limit.
bool transfer::accept_whole() {
  if (wanted_.whole == nullptr) {
    return fail(errc::source_unavailable,
                "expected status 206 and a range, found 200 and the whole file");
  }
  const std::string text = header("Content-Length");
  // A missing length is allowed; take() counts the bytes.
  std::string_view rest = text;
  const auto length = take_number(rest);
  if (length.value_or(0) > wanted_.largest_whole) {
    return fail(errc::unsupported,
                fmt::format("expected a server that sends ranges, found one that sends "
                            "the whole file of {} bytes, of which up to {} are taken",
                            *length, wanted_.largest_whole),
                "copy the file, or ask a server that knows Range requests");
  }
  got_whole_ = true;
  wanted_.whole->clear();
  return true;
}

/// Takes the next bytes of the body.
bool transfer::take(bytes_view bytes) {
  if (!head_seen_) {
    head_seen_ = true;
    if (!accept_head()) {
      return false;
    }
  }
  if (status_ == 206) {
    // More bytes than announced would belong to another place.
    if (bytes.size() > expected_ - received_) {
      return fail(
          errc::source_unavailable,
          fmt::format("expected {} bytes as Content-Range says, found more", expected_));
    }
    std::memcpy(wanted_.to.data() + received_, bytes.data(), bytes.size());
  } else if (status_ == 200) {
    if (bytes.size() > wanted_.largest_whole - received_) {
      return fail(errc::unsupported,
                  fmt::format("expected a server that sends ranges, found one that sends "
                              "a whole file of more than {} bytes",
                              wanted_.largest_whole),
                  "copy the file, or ask a server that knows Range requests");
    }
    append(*wanted_.whole, bytes);
  } else {
    // The rest of a long text of an error is not read.
    error_body_.append(as_text(bytes));
    return error_body_.size() <= longest_error_body;
  }
  received_ += bytes.size();
  return true;
}

/// Callback of libcurl. Any result other than the number of bytes ends the transfer. No
/// exception may pass through libcurl.
std::size_t transfer::take_body(char* bytes, std::size_t one, std::size_t count,
                                void* self) {
  const std::size_t size = one * count;
  try {
    // size + 1 differs from every number that libcurl accepts.
    return static_cast<transfer*>(self)->take(as_view({bytes, size})) ? size : size + 1;
  } catch (const std::exception&) {
    static_cast<transfer*>(self)->fail(
        errc::out_of_memory, "expected memory for the answer, found too little");
    return size + 1;
  }
}

/// Determines the outcome when libcurl has finished the request. A failure that was noted
/// during the request takes precedence over libcurl's code, which it has caused.
transfer::outcome transfer::finish(CURLcode code) {
  // An answer without a body never calls take().
  if (code == CURLE_OK && !head_seen_) {
    head_seen_ = true;
    static_cast<void>(accept_head());
  }
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status_);
  if (failed_) {
    return outcome::failed;
  }
  // Redirects and errors are complete answers.
  if (status_ != 0 && status_ != 200 && status_ != 206) {
    return finish_status();
  }
  if (code != CURLE_OK) {
    return finish_broken(code);
  }
  // The whole file has arrived, so its size is known.
  if (status_ == 200) {
    found_.size = received_;
    return outcome::done;
  }
  // A file may end before the range does, in the first request.
  const bool full = received_ == wanted_.to.size() ||
                    (received_ == expected_ && wanted_.offset + received_ == found_.size);
  if (full && status_ == 206) {
    return outcome::done;
  }
  reason_ = fmt::format("expected {} bytes, found {}", wanted_.to.size(), received_);
  return received_ > 0 ? outcome::part : outcome::repeat;
}

/// Determines the outcome of a request that the network or TLS has broken.
transfer::outcome transfer::finish_broken(CURLcode code) {
  const std::string text = text_[0] != '\0' ? text_ : curl_easy_strerror(code);
  if (of_certificates(code)) {
    // A hint helps only if the chain of certificates is not trusted, not for a wrong
    // name.
    long chain = 0;
    curl_easy_getinfo(easy_, CURLINFO_SSL_VERIFYRESULT, &chain);
    fail(errc::source_unavailable,
         fmt::format("expected a certificate that is trusted, found \"{}\"", text),
         chain > chain_not_checked ? "name the file of its authority in SSL_CERT_FILE"
                                   : "");
    return outcome::failed;
  }
  timed_out_ = code == CURLE_OPERATION_TIMEDOUT;
  code_ = timed_out_ ? errc::timeout : errc::source_unavailable;
  reason_ = fmt::format("expected {} bytes, found {} and \"{}\"", wanted_.to.size(),
                        received_, text);
  if (!is_transient(code)) {
    return outcome::failed;
  }
  // Bytes of a 206 answer are kept; a part of a whole file is not.
  return received_ > 0 && status_ == 206 ? outcome::part : outcome::repeat;
}

/// Describes a status, with the error code of S3 from the body, in words, and gives a
/// hint where the cause is known.
void transfer::explain_status() {
  const std::string word = xml_word(error_body_, "Code");
  reason_ = fmt::format("expected status 206, found {}{}", status_,
                        word.empty() ? "" : " (" + word + ")");
  // S3 names the region of a bucket in a header or in the text of the error.
  std::string region = header("x-amz-bucket-region");
  region = region.empty() ? xml_word(error_body_, "Region") : region;
  if (target_.address.s3 && !region.empty() && region != target_.settings.region) {
    hint_ = fmt::format("the bucket is in region \"{}\": set AWS_REGION", region);
  } else if (status_ == 401 || status_ == 403) {
    hint_ = !target_.address.s3 ? "the server asks for a user and password"
            : target_.settings.signs()
                ? "the keys do not give access, or their region is another"
                : "no keys were given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  }
}

/// Describes a status that means that the version of the file that was opened does not
/// exist any more.
void transfer::explain_lost_version() {
  const bool removed = status_ == 404 || status_ == 410;
  if (!removed && status_ != 412 && status_ != 416) {
    return;
  }
  fail(errc::source_unavailable,
       fmt::format("expected the file as it was opened, found status {}", status_),
       removed ? "it was removed while it was read"
               : "it was changed while it was read: open it again");
}

/// Determines the outcome of an answer without the file: redirects, statuses after which
/// a repetition may help, and failures.
transfer::outcome transfer::finish_status() {
  explain_status();
  switch (status_) {
    // The URL is absolute: libcurl has resolved it.
    case 301:
    case 302:
    case 303:
    case 307:
    case 308: {
      char* to = nullptr;
      curl_easy_getinfo(easy_, CURLINFO_REDIRECT_URL, &to);
      location_ = to != nullptr ? to : "";
      // A signature is valid for one server only.
      return target_.address.s3 || location_.empty() ? outcome::failed
                                                     : outcome::redirect;
    }
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: {
      // Seconds, whether the header had a number or a date; 0 if it is missing.
      curl_off_t seconds = 0;
      curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
      retry_after_ = std::chrono::seconds(seconds);
      return outcome::repeat;
    }
    case 404:
    case 410:
      // After the first request, a missing file was removed meanwhile.
      if (wanted_.version != nullptr) {
        break;
      }
      code_ = errc::not_found;
      return outcome::failed;
    case 416: {
      const auto range = parse_content_range(header("Content-Range"));
      if (wanted_.version == nullptr && range && range->total == std::uint64_t{0}) {
        return outcome::done;  // an empty file
      }
      break;
    }
    default: break;
  }
  if (wanted_.version != nullptr) {
    explain_lost_version();
  }
  return outcome::failed;
}

}  // namespace weir::formats
