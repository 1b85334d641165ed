// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows that compare tokenizers with Hugging Face tokenizers on one thread, in the same
/// run and on the same paragraphs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/rows.hpp"
#include "weir/base/file.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::bench {

namespace {

using namespace weir::formats;

constexpr const char* folder = WEIR_BINARY_DIR "/bench-tokens";

/// Returns a Python that has the package: the one that the environment names, or the one
/// that the tests have installed.
std::string tokenizers_python() {
  if (const char* given = std::getenv("WEIR_TOKENIZERS_PYTHON")) {
    return given;
  }
  const std::string made = WEIR_BINARY_DIR "/tokenizers-venv/bin/python";
  return std::filesystem::exists(made) ? made : std::string();
}

/// Returns the seconds of the package; the script also writes text and tokenizers.
nlohmann::json run_package() {
  const std::string python = tokenizers_python();
  if (python.empty()) {
    throw std::runtime_error(
        "tokenizers is not installed: expected it in WEIR_TOKENIZERS_PYTHON or from "
        "ctest -R interop.tokens_hf");
  }
  std::filesystem::create_directories(folder);
  const std::string command = "'" + python +
                              "' -B '" WEIR_SOURCE_DIR
                              "/bench/formats/tokens.py' '" WEIR_SOURCE_DIR "' '" +
                              folder + "'";
  std::string text;
  if (std::FILE* pipe = ::popen(command.c_str(), "r")) {
    char piece[512];
    while (const std::size_t got = std::fread(piece, 1, sizeof piece, pipe)) {
      text.append(piece, got);
    }
    ::pclose(pipe);
  }
  return nlohmann::json::parse(text);
}

/// Returns the speed relative to the package.
measured ratio(const std::string& kind) {
  static const nlohmann::json package = run_package();
  auto& files = posix_file_system();
  const auto with = or_throw(tokenizer::from_json(
      or_throw(read_file(files, std::string(folder) + "/" + kind + ".json"))));
  const byte_vector bytes = or_throw(read_file(files, std::string(folder) + "/text"));
  std::vector<std::string_view> paragraphs;
  std::string_view rest = as_text(bytes);
  for (std::size_t end = 0; end != std::string_view::npos; rest.remove_prefix(end + 1)) {
    end = rest.find('\0');
    paragraphs.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
  }
  std::vector<std::uint32_t> ids;
  const auto times = repeat(11, [&] {
    return thread_seconds_of([&] {
      for (const std::string_view paragraph : paragraphs) {
        ids.clear();
        or_throw(with.encode(paragraph, ids));
        keep(ids.size());
      }
    });
  });
  const double ours = *std::min_element(times.begin(), times.end());
  return measured(package[kind].get<double>() / ours, 1.0);
}

}  // namespace

void add_token_rows(program& bench) {
  for (const char* kind : {"bpe", "wordpiece"}) {
    bench.add(std::string("tokenize_ratio_") + kind, "ratio", at_least(1),
              [kind] { return ratio(kind); });
  }
}

}  // namespace weir::bench
