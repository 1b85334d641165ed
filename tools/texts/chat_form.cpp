// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recognises chat templates and writes conversations in their form.
///
/// Chat templates are programs in the language Jinja. This file has no interpreter: it
/// compares the template of the model with the texts of the known ones, and writes their
/// form with code of its own. A template that is not known is refused, because a
/// conversation in a wrong form gives bad answers without an error. The user can choose a
/// form with `--chat-template`.
///
/// The forms, with a system instruction S, a turn T and an answer A:
///
///   chatml  <|im_start|>system\nS<|im_end|>\n<|im_start|>user\nT<|im_end|>\n
///           <|im_start|>assistant\nA<|im_end|>\n
///   llama3  BEGIN<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>
///           <|start_header_id|>user<|end_header_id|>\n\nT<|eot_id|>
///           <|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>
///   none    BEGIN S\nT A \nT A
///
/// Special tokens are appended by their id. Everything else is encoded by
/// `append_plain_text`, so that a user cannot type a special token.
#include "texts/chat_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"

namespace weir::tools {

namespace {

constexpr std::string_view chatml_start = "<|im_start|>";
constexpr std::string_view chatml_end = "<|im_end|>";
constexpr std::string_view llama3_start = "<|start_header_id|>";
constexpr std::string_view llama3_role_end = "<|end_header_id|>";
constexpr std::string_view llama3_end = "<|eot_id|>";

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

// The template of Llama 3. Its first edition always asks for an answer.
constexpr std::string_view llama3_messages =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content "
    "= "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
    "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content "
    "= bos_token + content %}{% endif %}{{ content }}{% endfor %}";
constexpr std::string_view llama3_answer =
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}";

/// Parts of templates by which others than the two are named.
constexpr std::pair<std::string_view, std::string_view> other_templates[] = {
    {"<<SYS>>", "that of Llama 2"},
    {"[INST]", "that of Mistral"},
    {"<|user|>", "that of Zephyr"},
    {"<start_of_turn>", "that of Gemma"},
    {"GPT4", "that of OpenChat"},
    {"USER: ", "that of Vicuna"},
    {"### Instruction", "that of Alpaca"},
    {"<|start_header_id|>", "that of Llama 3.1 or later"},
    {"<|im_start|>", "another edition of ChatML"}};

/// Returns a template in one form: some files have the line ends of its strings as an
/// escape, or line ends behind it.
std::string plain_template(std::string text) {
  for (std::size_t at = 0; (at = text.find("\\n", at)) != std::string::npos;) {
    text.replace(at, 2, "\n");
  }
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

/// Returns whether a text is the template of Llama 3.
/// The two editions differ in whether the head of the answer depends on
/// `add_generation_prompt`.
bool is_llama3(const std::string& text) {
  return text == std::string(llama3_messages).append(llama3_answer) ||
         text == std::string(llama3_messages)
                     .append("{% if add_generation_prompt %}")
                     .append(llama3_answer)
                     .append("{% endif %}");
}

/// Describes a template for an error message.
/// Other known templates are named, so that the user sees which one the model needs. The
/// digest identifies the template in a report of the error.
std::string described(const std::string& text) {
  if (text.empty()) {
    return "none";
  }
  for (const auto& [part, name] : other_templates) {
    if (text.find(part) != std::string::npos) {
      return fmt::format("{} (digest {})", name, hex64(xxh3_64(as_view(text))));
    }
  }
  return fmt::format("another one of digest {}", hex64(xxh3_64(as_view(text))));
}

/// Returns a text without white space at its ends.
std::string_view without_blank_ends(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

/// Returns the default instruction of a ChatML template; nothing for other templates.
/// A ChatML template may have no default instruction (an empty string), or have it
/// between the known head and the known tail. Models that share the template differ only
/// in this text.
std::optional<std::string> system_of_chatml(const std::string& text) {
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

/// Finds the special tokens of a text, from its start to its end.
class special_finder {
 public:
  special_finder(const formats::tokenizer& tokens, std::string_view text) : text_(text) {
    for (const formats::added_token& token : tokens.added_tokens()) {
      if (token.special) {
        next_.push_back({token.content, text.find(token.content)});
      }
    }
  }
  /// Returns where the first special token from `from` on stands, and the length of the
  /// shortest one there; `npos` and 0 if there is none. `from` never falls, so each token
  /// is searched once in each part of the text.
  std::pair<std::size_t, std::size_t> first(std::size_t from) {
    std::pair<std::size_t, std::size_t> out{std::string_view::npos, 0};
    for (occurrence& one : next_) {
      if (one.at < from) {
        one.at = text_.find(one.content, from);
      }
      const std::size_t length = one.content.size();
      if (one.at < out.first ||
          (one.at == out.first && out.second != 0 && length < out.second)) {
        out = {one.at, length};
      }
    }
    return out;
  }

 private:
  /// A token, and the first place in the rest of the text at which it stands.
  struct occurrence {
    std::string_view content;
    std::size_t at = 0;
  };

  std::string_view text_;
  std::vector<occurrence> next_;
};

}  // namespace

// The cut lies behind the first character of the special token, where the tokenizer can
// no longer see it whole. For example, "a<|eot_id|>b" is encoded as "a<" and
// "|eot_id|>b". Each round of the loop shortens the text by at least one character.
result<void> append_plain_text(const formats::tokenizer& tokens, std::string_view text,
                               std::vector<std::uint32_t>& ids) {
  formats::encode_options plain;
  plain.add_special_tokens = false;
  special_finder special(tokens, text);
  for (std::size_t from = 0; from < text.size();) {
    const auto [at, length] = special.first(from);
    std::size_t end = text.size();
    if (at != std::string_view::npos) {
      const std::size_t character = utf8_sequence_length(text.substr(at));
      // A special token of one character would still be whole in the part.
      if (character >= length) {
        return error(errc::unsupported,
                     fmt::format("cannot encode a text: expected no special token of one "
                                 "character, found {}",
                                 json_quote(text.substr(at, length))));
      }
      end = at + character;
    }
    WEIR_CHECK(tokens.encode(text.substr(from, end - from), ids, plain));
    from = end;
  }
  return {};
}

// A tokenizer that lacks one of the tokens belongs to a model that expects another form.
result<void> chat_form::find_tokens(std::string_view name) {
  const bool chatml = name == "chatml";
  start_ = tokens_->id(chatml ? chatml_start : llama3_start);
  role_end_ = chatml ? std::nullopt : tokens_->id(llama3_role_end);
  end_ = tokens_->id(chatml ? chatml_end : llama3_end);
  if (start_ && end_ && (chatml || role_end_)) {
    return {};
  }
  return error(
             errc::unsupported,
             fmt::format("cannot use the chat template {}: expected the tokens {}{}{} "
                         "and {}, found a tokenizer without them",
                         name, chatml ? chatml_start : llama3_start, chatml ? "" : ", ",
                         chatml ? "" : llama3_role_end, chatml ? chatml_end : llama3_end))
      .hint("--chat-template none");
}

// The default instruction is used only if the template itself is recognised: a form that
// the user chose says nothing about the instruction that the model expects.
result<chat_form> chat_form::of_template(const std::string& chat_template,
                                         const std::string& chosen,
                                         std::optional<std::uint32_t> begin,
                                         const formats::tokenizer& tokens) {
  chat_form form(tokens);
  std::string name = chosen;
  if (chosen == "auto") {
    const std::string text = plain_template(chat_template);
    if (auto system = system_of_chatml(text)) {
      form.system_ = std::move(*system);
      name = "chatml";
    } else if (is_llama3(text)) {
      name = "llama3";
    } else {
      return error(errc::unsupported,
                   fmt::format("cannot use the chat template of the model: expected "
                               "ChatML or that of Llama 3, found {}",
                               described(text)))
          .hint("--chat-template chatml, llama3 or none");
    }
  }
  // ChatML templates of the known models do not write the token that begins a text.
  if (name != "chatml") {
    form.begin_ = begin;
  }
  if (name != "none") {
    WEIR_CHECK(form.find_tokens(name));
  }
  return form;
}

// ChatML has the role and the text in one piece, so they are encoded together. Llama 3
// has a token between them, and its template trims the text.
result<void> chat_form::append_role(std::string_view role, std::string_view text,
                                    std::vector<std::uint32_t>& ids) const {
  ids.push_back(*start_);
  if (!role_end_) {
    return append_plain_text(*tokens_, fmt::format("{}\n{}", role, text), ids);
  }
  WEIR_CHECK(append_plain_text(*tokens_, role, ids));
  ids.push_back(*role_end_);
  return append_plain_text(*tokens_, fmt::format("\n\n{}", without_blank_ends(text)),
                           ids);
}

// A line end follows the end of a message in ChatML.
result<void> chat_form::append_end(std::vector<std::uint32_t>& ids) const {
  ids.push_back(*end_);
  return role_end_ ? result<void>() : append_plain_text(*tokens_, "\n", ids);
}

// An empty instruction is left out, as if it were not given.
result<void> chat_form::append_begin(const std::string& system,
                                     std::vector<std::uint32_t>& ids) const {
  if (begin_) {
    ids.push_back(*begin_);
  }
  if (system.empty()) {
    return {};
  }
  if (!start_) {
    return append_plain_text(*tokens_, system + "\n", ids);
  }
  WEIR_CHECK(append_role("system", system, ids));
  return append_end(ids);
}

// The token that ends an answer is never part of the history (see `conversation::say`),
// so the end of the last answer is written here, in front of the next turn. An answer
// that was cut or stopped gets its end in this way, too.
result<void> chat_form::append_turn(std::string_view text, bool first,
                                    std::vector<std::uint32_t>& ids) const {
  if (!start_) {
    return append_plain_text(*tokens_, (first ? "" : "\n") + std::string(text), ids);
  }
  if (!first) {
    WEIR_CHECK(append_end(ids));
  }
  WEIR_CHECK(append_role("user", text, ids));
  WEIR_CHECK(append_end(ids));
  return append_role("assistant", "", ids);
}

}  // namespace weir::tools
