// SPDX-License-Identifier: Apache-2.0
/// @file
/// The form in which a model reads a conversation: its chat template as token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::tools {

/// Appends the ids of a text, none of which is a special token. Where the text contains
/// the text of a special token, it is cut behind the first character of that, and the
/// parts are encoded one by one.
/// @error{unsupported, a special token of one character cannot be cut}
/// Other errors are those of `formats::tokenizer::encode`.
[[nodiscard]] result<void> append_plain_text(const formats::tokenizer& tokens,
                                             std::string_view text,
                                             std::vector<std::uint32_t>& ids);

/// Turns a conversation into token ids.
/// @threads{const members are safe to call concurrently}
class chat_form {
 public:
  /// Reads the template of a model.
  /// @param chosen  "auto": as the template says; "chatml", "llama3" or "none" instead of
  /// it.
  /// @param begin  Id with which the model begins a text; ChatML does not use it.
  /// @param tokens  Must outlive the object.
  /// @error{unsupported, the template is not known, or the tokenizer has no such tokens}
  [[nodiscard]] static result<chat_form> of_template(const std::string& chat_template,
                                                     const std::string& chosen,
                                                     std::optional<std::uint32_t> begin,
                                                     const formats::tokenizer& tokens);

  /// Returns the instruction that the template gives a model without another one.
  [[nodiscard]] const std::string& default_system() const noexcept { return system_; }
  /// Appends the beginning of a conversation.
  /// @param system  Instruction to the model; empty for none.
  [[nodiscard]] result<void> append_begin(const std::string& system,
                                          std::vector<std::uint32_t>& ids) const;
  /// Appends a text of the user, and the tokens behind which the answer begins.
  /// @param first  True if no answer stands before the text.
  [[nodiscard]] result<void> append_turn(std::string_view text, bool first,
                                         std::vector<std::uint32_t>& ids) const;
  /// Returns whether an id ends an answer.
  [[nodiscard]] bool ends_answer(std::uint32_t id) const noexcept {
    return end_ && *end_ == id;
  }

 private:
  explicit chat_form(const formats::tokenizer& tokens) : tokens_(&tokens) {}
  /// Looks up the tokens of a template.
  [[nodiscard]] result<void> find_tokens(std::string_view name);
  /// Appends the beginning of a message and its text.
  [[nodiscard]] result<void> append_role(std::string_view role, std::string_view text,
                                         std::vector<std::uint32_t>& ids) const;
  /// Appends the end of a message.
  [[nodiscard]] result<void> append_end(std::vector<std::uint32_t>& ids) const;

  const formats::tokenizer* tokens_;
  std::string system_;
  std::optional<std::uint32_t> begin_;     ///< of a conversation
  std::optional<std::uint32_t> start_;     ///< of a message; unset without a template
  std::optional<std::uint32_t> role_end_;  ///< behind a role; set for Llama 3
  std::optional<std::uint32_t> end_;       ///< of a message; unset without a template
};

}  // namespace weir::tools
