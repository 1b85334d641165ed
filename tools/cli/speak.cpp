// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir speak` and `weir store`: use the parameters of a run outside of the run.
///
/// Both take the parameters from a checkpoint, or `speak` from a volume. The run may go
/// on meanwhile, because checkpoints are never changed.
#include "weir/actors/speak.hpp"

#include "commands.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"

namespace weir::tools {

namespace {

/// Returns the key `bytes` of a text that JSON cannot hold; empty for other texts.
std::string key_of_bytes(std::string_view text) {
  if (is_utf8(text)) {
    return "";
  }
  std::string numbers;
  for (const char c : text) {
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ",
                           static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return fmt::format("\"bytes\": [{}], ", numbers);
}

}  // namespace

/// Continues a prompt and prints the text while it grows, or all of it at the end as
/// JSON.
command_result speak_command(const speak_options& options, output& out) {
  // The negated comparison refuses NaN, too.
  if (!(options.temperature >= 0) || options.temperature > 100) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot speak: expected a temperature from 0 to 100, found {}",
                    options.temperature));
  }
  // Options and request have the same members but come from different layers.
  actors::speak_request request;
  request.source = options.from;
  request.tag = options.tag;
  request.prompt = options.prompt;
  if (options.prompt == "-") {
    WEIR_TRY(const byte_vector given, read_input("-"));
    request.prompt = as_text(given);
  }
  request.tokens = options.tokens;
  request.temperature = options.temperature;
  request.seed = options.seed;
  request.kernels = options.kernels;
  bool begun = false;
  // Called with each piece of new text.
  const auto on_text = [&](std::string_view piece) {
    if (!options.json) {
      // The prompt is printed with the first piece of text, when the source is known to
      // be good.
      out.write(begun ? std::string_view() : std::string_view(request.prompt));
      out.write(piece);
      out.flush();
      begun = true;
    }
    // True asks for more. Only the number of tokens ends the text.
    return true;
  };
  WEIR_TRY(const actors::speak_report report, actors::speak(request, on_text));
  if (!options.json) {
    // No piece of text came if zero tokens were asked for. Then the prompt alone is
    // printed.
    out.write(begun ? "\n" : request.prompt + "\n");
    return 0;
  }
  const models::memory_norm& memory = report.largest_memory;
  // Both hashes tell which parameters and which state of the context spoke.
  out.print(
      "{{\"prompt\": {}, \"text\": {}, {}\"tokens\": {}, \"temperature\": {}, \"seed\": "
      "{}, "
      "\"parameter_hash\": \"{}\", \"context_hash\": \"{}\", \"memory_norm\": "
      "{{\"largest\": {}, \"lane\": {}, \"block\": {}, \"level\": {}, \"head\": {}}}, "
      "\"with_context\": {}, \"instruction_set\": {}, \"seconds\": {:.3f}}}\n",
      json_quote(request.prompt), json_quote(report.text), key_of_bytes(report.text),
      report.tokens, options.temperature, options.seed, hex64(report.parameter_hash),
      hex64(report.context_hash), memory.norm, memory.lane, memory.block, memory.level,
      memory.head, report.with_context, json_quote(report.instruction_set),
      report.seconds);
  return 0;
}

/// Stores the parameters of a run under a name in a volume.
command_result store_command(const store_options& options, output& out) {
  WEIR_TRY(const std::uint64_t hash,
           actors::store_parameters(options.folder, options.volume, options.tag));
  if (options.json) {
    out.print("{{\"volume\": {}, \"tag\": {}, \"parameter_hash\": \"{}\"}}\n",
              json_quote(options.volume), json_quote(options.tag), hex64(hash));
  } else {
    out.print("{} in {}: parameter_hash {}\n", options.tag, options.volume, hex64(hash));
  }
  return 0;
}

}  // namespace weir::tools
