// SPDX-License-Identifier: Apache-2.0
/// @file
/// Storage options and environment variables, with the names and the meaning that they
/// have for the reference.
///
/// A table has one row for each option: its names and a function that stores its value.
/// The environment is read first, then the options of the program, so that options
/// override variables. Where one value can come from several names (region, endpoint),
/// the names are collected in `given_settings` and resolved at the end of each of the two
/// steps.
#include "tensogram/remote/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <span>

#include "weir/base/bytes.hpp"
#include "weir/base/text.hpp"

namespace weir::formats {

namespace {

/// Settings under construction, and values of which one takes precedence over another.
/// An empty text means that the value was not given.
struct given_settings {
  remote_settings to;          ///< what the options say
  std::string default_region;  ///< used if `region` is not given
  std::string region;
  std::string endpoint;
  std::string s3_endpoint;  ///< takes precedence over `endpoint`
};

/// Stores the value of an option, or returns why it cannot be used. The error must not
/// contain the value.
using setter = result<void> (*)(given_settings& s, const std::string& value);

/// An option and its names. The first name is used in messages. A name that begins with
/// "aws_" is also the name of an environment variable, in upper case.
struct known_option {
  std::array<std::string_view, 4> names;  ///< in lower case; unused ones are empty
  setter set;  ///< `ignore` and `refuse` for options that are not built
};

/// Returns a text in lower case.
std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Parses a switch; the words are those that object_store accepts.
result<bool> parse_switch(const std::string& value) {
  // The words are accepted in any case of letters.
  const std::string text = lower(value);
  for (const std::string_view yes : {"1", "true", "on", "yes", "y"}) {
    if (text == yes) {
      return true;
    }
  }
  for (const std::string_view no : {"0", "false", "off", "no", "n"}) {
    if (text == no) {
      return false;
    }
  }
  // The value itself is not in the message.
  return error(errc::invalid_argument, "expected true or false, found neither");
}

/// Setters, one for each kind of member.
template <bool remote_settings::*Member>
result<void> set_switch(given_settings& s, const std::string& value) {
  WEIR_TRY(s.to.*Member, parse_switch(value));
  return {};
}
template <std::string remote_settings::*Member>
result<void> set_text(given_settings& s, const std::string& value) {
  s.to.*Member = value;
  return {};
}
template <std::string given_settings::*Member>
result<void> set_given(given_settings& s, const std::string& value) {
  s.*Member = value;
  return {};
}
template <std::chrono::milliseconds remote_settings::*Member>
result<void> set_time(given_settings& s, const std::string& value) {
  // The error of the parser does not contain the value.
  WEIR_TRY(s.to.*Member, parse_duration(value));
  return {};
}
/// Accepts an option without effect: it matters only to writers or other clients.
result<void> ignore(given_settings& /*s*/, const std::string& /*value*/) {
  return {};
}
/// Refuses an option that would need a service that is not built.
result<void> refuse(given_settings& /*s*/, const std::string& /*value*/) {
  return error(errc::unsupported,
               "expected keys that are given, found an option for keys that another "
               "service issues");
}
/// Accepts an option only if it is off.
result<void> refuse_switch(given_settings& /*s*/, const std::string& value) {
  // A word that is no switch is wrong in any case.
  WEIR_TRY(const bool enabled, parse_switch(value));
  if (enabled) {
    return error(errc::unsupported, "expected it to be off, found it on");
  }
  return {};
}

/// The options of the reference. It passes its options on to the Rust crate object_store,
/// so the names are those of that crate. @source{object_store 0.12, AmazonS3ConfigKey and
/// ClientConfigKey}
constexpr known_option known_options[] = {
    {{"aws_access_key_id", "access_key_id"}, set_text<&remote_settings::access_key>},
    {{"aws_secret_access_key", "secret_access_key"},
     set_text<&remote_settings::secret_key>},
    {{"aws_session_token", "aws_token", "session_token", "token"},
     set_text<&remote_settings::session_token>},
    {{"aws_default_region", "default_region"},
     set_given<&given_settings::default_region>},
    {{"aws_region", "region"}, set_given<&given_settings::region>},
    {{"aws_bucket", "aws_bucket_name", "bucket", "bucket_name"},
     set_text<&remote_settings::bucket>},
    {{"aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"},
     set_given<&given_settings::endpoint>},
    {{"aws_endpoint_url_s3", "endpoint_url_s3"}, set_given<&given_settings::s3_endpoint>},
    {{"aws_virtual_hosted_style_request", "virtual_hosted_style_request"},
     set_switch<&remote_settings::virtual_hosted>},
    {{"aws_skip_signature", "skip_signature"},
     set_switch<&remote_settings::skip_signature>},
    {{"aws_request_payer", "request_payer"}, set_switch<&remote_settings::request_payer>},
    {{"allow_http", "aws_allow_http"}, set_switch<&remote_settings::allow_http>},
    {{"allow_invalid_certificates", "aws_allow_invalid_certificates"},
     set_switch<&remote_settings::allow_invalid_certificates>},
    {{"connect_timeout"}, set_time<&remote_settings::connect_timeout>},
    {{"timeout"}, set_time<&remote_settings::timeout>},
    {{"http1_only"}, set_switch<&remote_settings::http1_only>},
    {{"http2_only"}, set_switch<&remote_settings::http2_only>},
    {{"proxy_url"}, set_text<&remote_settings::proxy>},
    {{"proxy_excludes"}, set_text<&remote_settings::proxy_excludes>},
    {{"user_agent"}, set_text<&remote_settings::user_agent>},
    // Options that need another service or protocol.
    {{"role_arn", "aws_role_arn"}, refuse},
    {{"role_session_name", "aws_role_session_name"}, ignore},
    {{"web_identity_token_file", "aws_web_identity_token_file"}, refuse},
    {{"container_credentials_relative_uri", "aws_container_credentials_relative_uri"},
     refuse},
    {{"container_credentials_full_uri", "aws_container_credentials_full_uri"}, refuse},
    {{"container_authorization_token_file", "aws_container_authorization_token_file"},
     refuse},
    {{"metadata_endpoint", "aws_metadata_endpoint"}, ignore},
    {{"imdsv1_fallback", "aws_imdsv1_fallback"}, ignore},
    {{"s3_express", "aws_s3_express"}, refuse_switch},
    {{"aws_sse_customer_key_base64"}, refuse},
    {{"proxy_ca_certificate"}, refuse},
    // Options that only writers or other clients use.
    {{"unsigned_payload", "aws_unsigned_payload"}, ignore},
    {{"checksum_algorithm", "aws_checksum_algorithm"}, ignore},
    {{"copy_if_not_exists", "aws_copy_if_not_exists"}, ignore},
    {{"conditional_put", "aws_conditional_put"}, ignore},
    {{"disable_tagging", "aws_disable_tagging"}, ignore},
    {{"aws_server_side_encryption"}, ignore},
    {{"aws_sse_kms_key_id"}, ignore},
    {{"aws_sse_bucket_key_enabled"}, ignore},
    {{"default_content_type"}, ignore},
    {{"http2_keep_alive_interval"}, ignore},
    {{"http2_keep_alive_timeout"}, ignore},
    {{"http2_keep_alive_while_idle"}, ignore},
    {{"http2_max_frame_size"}, ignore},
    {{"pool_idle_timeout"}, ignore},
    {{"pool_max_idle_per_host"}, ignore},
    {{"randomize_addresses"}, ignore},
    {{"read_timeout"}, ignore},
};

/// Returns the option with a name in lower case, or a null pointer.
const known_option* find_option(std::string_view name) {
  // About fifty options with up to four names.
  for (const known_option& option : known_options) {
    if (!name.empty() &&
        std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return &option;
    }
  }
  return nullptr;
}

/// Suggests the nearest known name.
/// `name` is in lower case.
error unknown_option(const std::string& name) {
  std::vector<std::string> names;
  for (const known_option& option : known_options) {
    names.emplace_back(option.names[0]);
  }
  return error(errc::invalid_argument,
               fmt::format("cannot use storage option \"{}\": expected one of the names "
                           "that object_store gives them, found another{}",
                           name, did_you_mean(name, names)));
}

/// Returns whether an option belongs to another store. It has no effect on S3 and http.
/// A program may pass one set of options for all of its stores.
bool is_option_of_another_store(std::string_view name) {
  return name.substr(0, 6) == "azure_" || name.substr(0, 7) == "google_";
}

/// Sets an option by name.
result<void> set_option(given_settings& s, const std::string& given,
                        const std::string& value) {
  // Names are accepted in any case of letters.
  const std::string name = lower(given);
  const known_option* option = find_option(name);
  if (option == nullptr) {
    return is_option_of_another_store(name) ? result<void>() : unknown_option(name);
  }
  if (auto done = option->set(s, value); !done) {
    // The value may be a secret, so the message has the name only.
    return error(done.error().code(), fmt::format("cannot use storage option \"{}\": {}",
                                                  name, done.error().text()));
  }
  return {};
}

/// Returns the value of an environment variable; a null pointer if unset or empty.
/// An empty variable is treated as unset, because shells set variables to nothing.
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// Reads options from the environment. Variables for options that are not built are
/// ignored, because they may be meant for another program.
result<void> read_environment(given_settings& s) {
  for (const known_option& option : known_options) {
    if (option.set == &refuse || option.set == &ignore) {
      continue;
    }
    for (const std::string_view name : option.names) {
      // Only names with "aws_" are variables. The first name that is set counts.
      std::string capitals(name);
      std::transform(capitals.begin(), capitals.end(), capitals.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      const char* value =
          name.substr(0, 4) == "aws_" ? variable(capitals.c_str()) : nullptr;
      if (value == nullptr) {
        continue;
      }
      // The message names the variable and not the option.
      if (auto done = set_option(s, std::string(name), value); !done) {
        return error(done.error().code(),
                     fmt::format("cannot use environment variable {}: {}", capitals,
                                 done.error().text()));
      }
      // Further names of the same option are not looked at.
      break;
    }
  }
  // The first of the two that is set counts.
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE"}) {
    if (s.to.certificate_file.empty() && variable(name) != nullptr) {
      s.to.certificate_file = variable(name);
    }
  }
  // Both a file and a folder may be given.
  if (const char* folder = variable("SSL_CERT_DIR")) {
    s.to.certificate_folder = folder;
  }
  return {};
}

/// Returns whether a setter stores a key or a token.
bool is_credential(setter set) {
  // Functions are compared, since each stores one member.
  return set == &set_text<&remote_settings::access_key> ||
         set == &set_text<&remote_settings::secret_key> ||
         set == &set_text<&remote_settings::session_token>;
}

/// Returns true if options hold keys or a token. The keys and the token of the
/// environment are then ignored: two identities must not be mixed.
bool have_credentials(const std::vector<storage_option>& options) {
  // Unknown names are reported later.
  return std::any_of(options.begin(), options.end(), [](const storage_option& option) {
    const known_option* known = find_option(lower(option.first));
    return known != nullptr && is_credential(known->set);
  });
}

/// Returns whether a text can be part of a host name.
bool plain_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
}

/// Resolves alternatives among the values of one origin, the environment or the options:
/// the region takes precedence over the default region, and the endpoint of S3 over the
/// general one.
void resolve_alternatives(given_settings& s) {
  // The second of each pair overrides the first.
  for (const std::string* region : {&s.default_region, &s.region}) {
    s.to.region = region->empty() ? s.to.region : *region;
  }
  for (const std::string* endpoint : {&s.endpoint, &s.s3_endpoint}) {
    s.to.endpoint = endpoint->empty() ? s.to.endpoint : *endpoint;
  }
  // The values of the environment must not override those of the options in the next
  // call.
  for (std::string* value : {&s.default_region, &s.region, &s.endpoint, &s.s3_endpoint}) {
    value->clear();
  }
}

/// Checks values that depend on each other.
result<remote_settings> checked(given_settings s) {
  remote_settings& out = s.to;
  // The region becomes part of a host name.
  if (!plain_name(out.region)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use region \"{}\": expected letters, digits and "
                             "hyphens, found other characters",
                             out.region));
  }
  // One without the other cannot sign anything.
  if (out.access_key.empty() != out.secret_key.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot sign requests: expected an access key and its "
                             "secret, found only the {}",
                             out.access_key.empty() ? "secret" : "access key"))
        .hint("give both, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or as options");
  }
  return std::move(out);
}

}  // namespace

/// Accepts one or more numbers with units, such as "1m 30s". A number without a unit is
/// refused because its meaning would be a guess.
result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  // Days and longer units are not accepted.
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 13> units{{
      {"ms", 1},
      {"msec", 1},
      {"s", 1000},
      {"sec", 1000},
      {"second", 1000},
      {"seconds", 1000},
      {"m", 60000},
      {"min", 60000},
      {"minute", 60000},
      {"minutes", 60000},
      {"h", 3600000},
      {"hour", 3600000},
      {"hours", 3600000},
  }};
  const error wrong(errc::invalid_argument,
                    "expected a time with its unit, such as 30s, found another text");
  std::int64_t total = 0;
  const char* next = text.data();
  const char* end = next + text.size();
  if (text.empty()) {
    // No text is no time, and not zero.
    return wrong;
  }
  while (next != end) {
    std::uint32_t number = 0;
    // A number, spaces, a unit, spaces; then the next number.
    const auto [after, problem] = std::from_chars(next, end, number);
    // Signs and fractions are refused here.
    if (problem != std::errc()) {
      return wrong;
    }
    const char* unit = std::find_if(after, end, [](char c) { return c != ' '; });
    const char* unit_end =
        std::find_if(unit, end, [](unsigned char c) { return std::isalpha(c) == 0; });
    const std::string_view name(unit, static_cast<std::size_t>(unit_end - unit));
    const auto* found = std::find_if(units.begin(), units.end(),
                                     [&](const auto& u) { return u.first == name; });
    std::int64_t part = 0;
    // Products and sums are checked, as the numbers come from the user.
    if (found == units.end() || !checked_mul<std::int64_t>(number, found->second, part) ||
        !checked_add(total, part, total)) {
      return wrong;
    }
    next = std::find_if(unit_end, end, [](char c) { return c != ' '; });
  }
  // Zero is possible, and its meaning is up to the caller.
  return std::chrono::milliseconds(total);
}

bool is_storage_option(std::string_view name) {
  const std::string known = lower(name);
  // Used by others to tell options of a store from their own.
  return find_option(known) != nullptr || is_option_of_another_store(known);
}

/// Replaces secrets in a text that goes into an error or a log.
/// Only the secret key and the token are secrets; an access key names its owner.
std::string remote_settings::without_secrets(std::string text) const {
  constexpr std::string_view mask = "***";
  // A short secret may occur by chance, which does no harm.
  for (const std::string* secret : {&secret_key, &session_token}) {
    for (std::size_t found = 0;
         !secret->empty() && (found = text.find(*secret, found)) != std::string::npos;) {
      text.replace(found, secret->size(), mask);
      // The search goes on behind the mask, because a secret of asterisks would be found
      // in the mask again.
      found += mask.size();
    }
  }
  return text;
}

/// Environment first, options second, each with its alternatives resolved, so that any
/// option takes precedence over any variable.
result<remote_settings> make_settings(const std::vector<storage_option>& options,
                                      bool environment) {
  given_settings s;
  if (environment) {
    WEIR_CHECK(read_environment(s));
    resolve_alternatives(s);
    // The bucket, the endpoint and the rest of the environment still count.
    if (have_credentials(options)) {
      s.to.access_key.clear();
      s.to.secret_key.clear();
      s.to.session_token.clear();
    }
  }
  for (const auto& [name, value] : options) {
    // The first wrong option is the error.
    WEIR_CHECK(set_option(s, name, value));
  }
  resolve_alternatives(s);
  return checked(std::move(s));
}

}  // namespace weir::formats
