// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening of a source of tokens that settings describe.
///
/// Sources are files of tokens or of text, texts with a tokenizer, or live: standard
/// input, a named pipe, a socket or a child process. A live source can be opened once, so
/// the number of its ids must be found without opening it.
#include "stages/prose/source/open_source.hpp"

#include <algorithm>
#include <optional>

#include "stages/prose/source/open_mix.hpp"
#include "stages/prose/source/tokenized.hpp"
#include "weir/storage/live_source.hpp"

namespace weir::actors {

namespace {

/// What a source is opened for.
enum class use_of : std::uint8_t {
  reading,  ///< its tokens
  looking   ///< its vocabulary: no content is read
};

/// Returns the id of the end-of-text token, or nothing for the usual one.
std::optional<std::uint32_t> separator_of(const source_settings& source) {
  return source.eot_id == new_id
             ? std::nullopt
             : std::optional(static_cast<std::uint32_t>(source.eot_id));
}

/// Live sources carry bytes, or ids that a child process names.
/// Other settings would have no effect there.
result<void> check_live(const source_settings& source) {
  const source_settings usual;
  const bool plain =
      source.tag.empty() && source.tokenizer.empty() && source.eot_id == usual.eot_id &&
      source.on_damage == usual.on_damage &&
      (source.vocabulary == 0 || !source.command.empty()) &&
      (source.format == usual.format || source.format == storage::token_format::bytes);
  if (!plain) {
    return error(errc::unsupported,
                 "opening the corpus failed: expected bytes from a live source without "
                 "settings of token files, found such settings")
        .hint("name a file, or leave format, tag, tokenizer and vocabulary out");
  }
  return {};
}

/// Returns the number above the ids that a child process may send.
/// The range below it is that of bytes by default.
std::uint32_t child_vocabulary(const source_settings& source) {
  return source.vocabulary != 0 ? source.vocabulary : storage::byte_vocabulary;
}

/// Returns the number of distinct ids of a live source without opening it: opening would
/// start the child process, or take tokens out of a pipe. `ends` says that the
/// end-of-text token follows its documents in any case.
// A child process names ids itself.
std::uint32_t live_vocabulary(const source_settings& source, bool ends) {
  if (source.command.empty()) {
    return source.turns || ends ? storage::byte_vocabulary : storage::byte_vocabulary - 1;
  }
  const std::uint32_t ids = child_vocabulary(source);
  return source.turns || source.eot || ends ? storage::child_separator(ids) + 1 : ids;
}

/// Opens a source whose tokens arrive while it is read.
/// The file list of the report has the command, the address or the name of the pipe.
result<opened_source> open_live(const source_settings& source) {
  WEIR_CHECK(check_live(source));
  storage::live_options options;
  options.turns = source.turns;
  options.separate_documents = source.eot;
  options.token_file = source.token_file;
  options.log = source.log;
  options.vocabulary = child_vocabulary(source);
  opened_source opened;
  if (!source.command.empty()) {
    opened.files = {source.command.front()};
    WEIR_TRY(opened.tokens, storage::open_child_source(source.command, options));
  } else if (!source.listen.empty()) {
    opened.files = {source.listen};
    WEIR_TRY(opened.tokens, storage::open_socket_source(source.listen, options));
  } else if (source.paths.front() != "-") {
    opened.files = source.paths;
    WEIR_TRY(opened.tokens, storage::open_fifo_source(source.paths.front(), options));
  } else {
    opened.files = {"stdin"};
    WEIR_TRY(opened.tokens, storage::open_pipe_source(0, "stdin", options));
  }
  return opened;
}

/// Opens texts whose ids a tokenizer makes while they are read.
result<opened_source> open_texts(file_system& fs, const source_settings& source,
                                 opened_source opened) {
  tokenized_options options;
  WEIR_TRY(options.skip, skipped_ranges(source));
  options.separate_documents = source.eot;
  options.separator = separator_of(source);
  options.skip_damage = source.on_damage == storage::damage_policy::skip;
  WEIR_TRY(auto with, formats::tokenizer::from_file(fs, source.tokenizer));
  WEIR_TRY(opened.tokens, open_tokenized(fs, opened.files, std::move(with), options));
  return opened;
}

/// Files come in the order that `expand_paths` gives them.
/// @param use  `looking` avoids reading the content, which may be large.
result<opened_source> open_for(use_of use, file_system& fs,
                               const source_settings& source) {
  if (is_live(source)) {
    return open_live(source);
  }
  // Standard input among files would be read at an unknown place.
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
  WEIR_TRY(options.skip, skipped_ranges(source));
  // Damage is of no interest, and digests need not be computed.
  if (use == use_of::looking) {
    options.on_damage = storage::damage_policy::stop;
    options.digest_limit = 0;
  }
  WEIR_TRY(opened.tokens, storage::open_token_files(fs, opened.files, options));
  return opened;
}

}  // namespace

/// Opens a source with everything that is put around it.
result<opened_source> open_source(file_system& fs, const source_settings& source,
                                  const named_sources& named) {
  WEIR_TRY(auto opened, source.mix.sources.empty() ? open_for(use_of::reading, fs, source)
                                                   : open_mixture(fs, source, named));
  return arrange(std::move(opened), source);
}

/// A range that is left out has the end-of-text token in its place, and the documents of
/// a mixture, a sample or a shuffle end with it.
/// @param wraps  The stream adds the token whatever the source does.
result<std::uint32_t> vocabulary_of(file_system& fs, const source_settings& source,
                                    const named_sources& named, bool wraps) {
  // Of a mixture, the largest number of its parts counts.
  if (!source.mix.sources.empty()) {
    WEIR_CHECK(check_mix("stream.", source, named));
    std::uint32_t largest = 0;
    for (const std::string& name : source.mix.sources) {
      WEIR_TRY(const std::uint32_t ids,
               vocabulary_of(fs, named.find(name)->second, named, true));
      largest = std::max(largest, ids);
    }
    return largest;
  }
  if (is_live(source)) {
    return live_vocabulary(source, wraps);
  }
  WEIR_TRY(const opened_source opened, open_for(use_of::looking, fs, source));
  const std::uint32_t ids = opened.tokens->vocabulary();
  const bool skips = source.on_damage == storage::damage_policy::skip && source.eot;
  const bool arranged =
      source.shuffle.window != 0 || source.sample.keep < source.sample.among;
  // The separator may be a new id above all others.
  return wraps || skips || arranged ? std::max(ids, opened.tokens->separator() + 1) : ids;
}

}  // namespace weir::actors
