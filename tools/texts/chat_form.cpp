// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recognises chat templates and writes conversations in their form.
#include "texts/chat_form.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"

namespace weir::tools {

namespace {

constexpr std::string_view start_token = "<|im_start|>";
constexpr std::string_view end_token = "<|im_end|>";

// The ChatML template of SmolLM2 and its relatives, whose parts stand around the default
// instruction.
constexpr std::string_view chatml_head =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' "
    "%}{{ '<|im_start|>system\n";
constexpr std::string_view chatml_middle = "<|im_end|>\n' }}{% endif %}";
constexpr std::string_view chatml_messages =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
    "endif %}";
constexpr std::string_view loop_head = "{% for message in messages %}";

/// Returns the default instruction of a ChatML template; nothing for other templates.
std::optional<std::string> system_of_chatml(std::string text) {
  // Some files have the line ends of the template's strings as an escape.
  for (std::size_t at = 0; (at = text.find("\\n", at)) != std::string::npos;) {
    text.replace(at, 2, "\n");
  }
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  if (text == std::string(loop_head).append(chatml_messages)) {
    return std::string();
  }
  const std::string tail = std::string(chatml_middle).append(chatml_messages);
  if (!text.starts_with(chatml_head) || !text.ends_with(tail) ||
      text.size() < chatml_head.size() + tail.size()) {
    return std::nullopt;
  }
  return text.substr(chatml_head.size(), text.size() - chatml_head.size() - tail.size());
}

/// Returns where the first special token in a text stands, and the length of the shortest
/// one there.
std::pair<std::size_t, std::size_t> first_special(const formats::tokenizer& tokens,
                                                  std::string_view text) {
  std::pair<std::size_t, std::size_t> first{std::string_view::npos, 0};
  for (const formats::added_token& token : tokens.added_tokens()) {
    if (!token.special) {
      continue;
    }
    const std::size_t at = text.find(token.content);
    const std::size_t length = token.content.size();
    if (at < first.first ||
        (at == first.first && first.second != 0 && length < first.second)) {
      first = {at, length};
    }
  }
  return first;
}

}  // namespace

result<void> append_plain_text(const formats::tokenizer& tokens, std::string_view text,
                               std::vector<std::uint32_t>& ids) {
  formats::encode_options plain;
  plain.add_special_tokens = false;
  while (!text.empty()) {
    const auto [at, length] = first_special(tokens, text);
    std::string_view part = text;
    if (at != std::string_view::npos) {
      const std::size_t character = utf8_sequence_length(text.substr(at));
      if (character >= length) {
        return error(errc::unsupported,
                     fmt::format("cannot encode a text: expected no special token of one "
                                 "character, found {}",
                                 json_quote(text.substr(at, length))));
      }
      part = text.substr(0, at + character);
    }
    WEIR_CHECK(tokens.encode(part, ids, plain));
    text.remove_prefix(part.size());
  }
  return {};
}

result<chat_form> chat_form::of_template(const std::string& chat_template,
                                         const std::string& chosen,
                                         std::optional<std::uint32_t> begin,
                                         const formats::tokenizer& tokens) {
  chat_form form(tokens);
  if (chosen == "none") {
    form.begin_ = begin;
    return form;
  }
  if (chosen == "auto") {
    auto system = system_of_chatml(chat_template);
    if (!system) {
      return error(errc::unsupported,
                   fmt::format("cannot use the chat template of the model: expected "
                               "ChatML, found {}",
                               chat_template.empty()
                                   ? std::string("none")
                                   : fmt::format("another one of digest {}",
                                                 hex64(xxh3_64(as_view(chat_template))))))
          .hint("--chat-template chatml or --chat-template none");
    }
    form.system_ = std::move(*system);
  }
  form.start_ = tokens.id(start_token);
  form.end_ = tokens.id(end_token);
  if (!form.start_ || !form.end_) {
    return error(errc::unsupported,
                 fmt::format("cannot use the chat template chatml: expected the tokens "
                             "{} and {}, found a tokenizer without them",
                             start_token, end_token))
        .hint("--chat-template none");
  }
  return form;
}

result<void> chat_form::append_message(std::string_view role, std::string_view text,
                                       std::vector<std::uint32_t>& ids) const {
  ids.push_back(*start_);
  WEIR_CHECK(append_plain_text(*tokens_, fmt::format("{}\n{}", role, text), ids));
  ids.push_back(*end_);
  return append_plain_text(*tokens_, "\n", ids);
}

result<void> chat_form::append_begin(const std::string& system,
                                     std::vector<std::uint32_t>& ids) const {
  if (begin_) {
    ids.push_back(*begin_);
  }
  if (system.empty()) {
    return {};
  }
  return start_ ? append_message("system", system, ids)
                : append_plain_text(*tokens_, system + "\n", ids);
}

result<void> chat_form::append_turn(std::string_view text, bool first,
                                    std::vector<std::uint32_t>& ids) const {
  if (!start_) {
    return append_plain_text(*tokens_, (first ? "" : "\n") + std::string(text), ids);
  }
  if (!first) {
    ids.push_back(*end_);
    WEIR_CHECK(append_plain_text(*tokens_, "\n", ids));
  }
  WEIR_CHECK(append_message("user", text, ids));
  ids.push_back(*start_);
  return append_plain_text(*tokens_, "assistant\n", ids);
}

}  // namespace weir::tools
