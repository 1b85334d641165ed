// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the corpus of a run again and scores simple models on it.
#include "comparison.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::tools {

namespace {

// Reads a file in pieces and returns its size and digest. Opening a named pipe would wait
// for another writer.
result<corpus_file> describe_file(const std::string& path) {
  if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) {
    return error(errc::unsupported,
                 fmt::format("cannot compare with the corpus: expected files, found "
                             "\"{}\", which cannot be read again",
                             path));
  }
  WEIR_TRY(const auto f, posix_file_system().open(path, open_mode::read));
  corpus_file out{path, 0, 0};
  xxh3_stream digest;
  byte_vector piece(std::size_t{1} << 20);
  for (;;) {
    WEIR_TRY(const std::size_t n, f->read_some(out.bytes, piece));
    if (n == 0) {
      break;
    }
    digest.update(bytes_view(piece).first(n));
    out.bytes += n;
  }
  out.digest = digest.digest();
  return out;
}

// Reads the first tokens of a source; fewer if it ends before.
result<std::vector<std::uint32_t>> read_tokens(storage::token_source& source,
                                               std::uint64_t tokens) {
  std::vector<std::uint32_t> out(
      static_cast<std::size_t>(std::min(tokens, source.size())));
  std::size_t filled = 0;
  while (filled < out.size()) {
    WEIR_TRY(const std::size_t n,
             source.read(filled, std::span<std::uint32_t>(out).subspan(filled)));
    if (n == 0) {
      break;
    }
    filled += n;
  }
  out.resize(filled);
  return out;
}

// Returns the tokens of one point of a curve: a multiple of 64, which is the usual size
// of a pulse, so that the curve has about 150 points.
std::size_t window_for(std::size_t tokens) {
  return std::max<std::size_t>(64, (tokens / 150 + 63) / 64 * 64);
}

std::string list_orders(const std::vector<unsigned>& orders) {
  std::string out;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    out += fmt::format("{}{}",
                       i == 0                   ? ""
                       : i + 1 == orders.size() ? " and "
                                                : ", ",
                       orders[i]);
  }
  return out;
}

// Returns a clause such as "beats the count models of order 0, 1 and 2, but not of order
// 3".
std::string against_counts(const std::vector<count_curve>& counts, double bits,
                           double count_curve::*member) {
  std::vector<unsigned> beaten;
  std::vector<unsigned> better;
  for (const count_curve& c : counts) {
    (bits < c.*member ? beaten : better).push_back(c.order);
  }
  if (beaten.empty()) {
    return "beats none of the count models";
  }
  return better.empty()
             ? fmt::format("beats the count models of order {}", list_orders(beaten))
             : fmt::format("beats the count models of order {}, but not of order {}",
                           list_orders(beaten), list_orders(better));
}

}  // namespace

result<corpus_comparison> compare_corpus(const std::vector<std::string>& paths,
                                         bool separate_documents, std::uint64_t tokens) {
  if (std::find(paths.begin(), paths.end(), "-") != paths.end()) {
    return error(errc::unsupported,
                 "cannot compare with the corpus: expected files, found standard input, "
                 "which cannot be "
                 "read again");
  }
  corpus_comparison out;
  WEIR_TRY(const auto files, storage::expand_paths(posix_file_system(), paths));
  for (const std::string& path : files) {
    WEIR_TRY(corpus_file file, describe_file(path));
    out.files.push_back(std::move(file));
  }
  storage::source_options options;
  options.separate_documents = separate_documents;
  WEIR_TRY(const auto source,
           storage::open_file_set(posix_file_system(), files, options));
  out.identity = source->identity().digest();
  WEIR_TRY(const auto read, read_tokens(*source, std::min(tokens, comparison_limit)));
  out.tokens = read.size();
  out.window = window_for(read.size());
  const bool has_eot =
      std::find(read.begin(), read.end(), storage::end_of_text) != read.end();
  WEIR_TRY(out.counts,
           count_models(read, has_eot ? storage::byte_vocabulary : 256, out.window));
  byte_vector text;
  text.reserve(read.size());
  for (const std::uint32_t token : read) {
    if (token < 256) {
      text.push_back(static_cast<std::byte>(token));
    }
  }
  WEIR_TRY(out.gzip, gzip_bits_per_byte(text));
  return out;
}

std::string verdict(const corpus_comparison& c, double cumulative, double last_quarter,
                    double learned) {
  if (const double times = learned / static_cast<double>(c.tokens); times > 1) {
    return fmt::format(
        "The model learned from {:.1f} times as many tokens as gzip and the count models "
        "read, so its figures cannot be compared with theirs.",
        times);
  }
  const bool smaller = cumulative < c.gzip;
  return fmt::format(
      "Over the whole text the model {}, and {} gzip -9 ({:.3f} against {:.3f} bits per "
      "byte; gzip may "
      "look at all of the text before it writes). Over the last quarter ({:.3f}) it {}.",
      against_counts(c.counts, cumulative, &count_curve::cumulative),
      smaller ? "beats" : "does not beat", cumulative, c.gzip, last_quarter,
      against_counts(c.counts, last_quarter, &count_curve::last_quarter));
}

}  // namespace weir::tools
