// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a source of tokens that settings describe.
#include "stages/prose/source/open_source.hpp"

#include <algorithm>
#include <optional>

#include "stages/prose/source/tokenized.hpp"
#include "weir/storage/live_source.hpp"

namespace weir::actors {

namespace {

/// What a source is opened for.
enum class use_of : std::uint8_t {
  reading,  ///< its tokens
  looking   ///< its vocabulary: no content is read
};

bool is_standard_input(const source_settings& source) {
  return source.paths == std::vector<std::string>{"-"};
}

std::optional<std::uint32_t> separator_of(const source_settings& source) {
  return source.eot_id == new_id
             ? std::nullopt
             : std::optional(static_cast<std::uint32_t>(source.eot_id));
}

/// Standard input carries bytes.
result<opened_source> open_standard_input(const source_settings& source) {
  source_settings plain;
  plain.paths = source.paths;
  plain.eot = source.eot;
  if (source.format == storage::token_format::bytes) {
    plain.format = source.format;
  }
  if (source != plain) {
    return error(errc::unsupported,
                 "opening the corpus failed: expected bytes from standard input without "
                 "settings of token files, found such settings")
        .hint("name a file, or leave format, tag, tokenizer and vocabulary out");
  }
  return opened_source{storage::open_pipe_source(0), {"stdin"}};
}

result<opened_source> open_texts(file_system& fs, const source_settings& source,
                                 opened_source opened) {
  tokenized_options options;
  options.separate_documents = source.eot;
  options.separator = separator_of(source);
  options.replace_invalid = source.on_damage == storage::damage_policy::skip;
  WEIR_TRY(auto with, read_tokenizer(fs, source.tokenizer));
  WEIR_TRY(opened.tokens, open_tokenized(fs, opened.files, std::move(with), options));
  return opened;
}

/// Files come in the order that `expand_paths` gives them.
result<opened_source> open_for(use_of use, file_system& fs,
                               const source_settings& source) {
  if (is_standard_input(source)) {
    return open_standard_input(source);
  }
  if (std::find(source.paths.begin(), source.paths.end(), "-") != source.paths.end()) {
    return error(errc::invalid_argument,
                 "opening the corpus failed: expected standard input alone, found it "
                 "beside files");
  }
  opened_source opened;
  WEIR_TRY(opened.files, storage::expand_paths(fs, source.paths));
  if (!source.tokenizer.empty()) {
    return open_texts(fs, source, std::move(opened));
  }
  storage::token_file_options options;
  options.format = source.format;
  options.tag = source.tag;
  options.vocabulary = source.vocabulary;
  options.separator = separator_of(source);
  options.separate_documents = source.eot;
  options.on_damage = source.on_damage;
  if (use == use_of::looking) {
    options.on_damage = storage::damage_policy::stop;
    options.digest_limit = 0;
  }
  WEIR_TRY(opened.tokens, storage::open_token_files(fs, opened.files, options));
  return opened;
}

}  // namespace

result<opened_source> open_source(file_system& fs, const source_settings& source,
                                  const named_sources& /*named*/) {
  return open_for(use_of::reading, fs, source);
}

/// A range that is left out has the end-of-text token in its place.
result<std::uint32_t> vocabulary_of(file_system& fs, const source_settings& source,
                                    const named_sources& /*named*/, bool wraps) {
  WEIR_TRY(const opened_source opened, open_for(use_of::looking, fs, source));
  const std::uint32_t ids = opened.tokens->vocabulary();
  const bool skips = source.on_damage == storage::damage_policy::skip && source.eot;
  return wraps || skips ? std::max(ids, opened.tokens->separator() + 1) : ids;
}

}  // namespace weir::actors
