// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the corpus of a run again and scores simple models on it.
///
/// The comparison reads the files once more, after the run. It is valid only if they are
/// the same files, so their identity is computed and the caller compares it with that of
/// the run.
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
  // Pipes and devices are not regular files and are refused.
  if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) {
    return error(errc::unsupported,
                 fmt::format("cannot compare with the corpus: expected files, found "
                             "\"{}\", which cannot be read again",
                             path));
  }
  WEIR_TRY(const auto f, posix_file_system().open(path, open_mode::read));
  corpus_file out{path, 0, 0};
  xxh3_stream digest;
  // Pieces keep the memory small, whatever the size of the file.
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
  // The size of a source is an upper limit of what it gives.
  std::vector<std::uint32_t> out(
      static_cast<std::size_t>(std::min(tokens, source.size())));
  std::size_t filled = 0;
  // A source may return less than it was asked for.
  while (filled < out.size()) {
    WEIR_TRY(const std::size_t n,
             source.read(filled, std::span<std::uint32_t>(out).subspan(filled)));
    // The source has ended early. What came is enough for a comparison.
    if (n == 0) {
      break;
    }
    filled += n;
  }
  out.resize(filled);
  return out;
}

// Returns the number of tokens per point of a curve with about 150 points, rounded up to
// a multiple of 64, which is the usual size of a pulse.
std::size_t window_for(std::size_t tokens) {
  return std::max<std::size_t>(64, (tokens / 150 + 63) / 64 * 64);
}

/// Returns numbers as a list in words: "0", "0 and 1", "0, 1 and 2".
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
    // A tie is no victory.
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
  // Text from standard input is gone.
  if (std::find(paths.begin(), paths.end(), "-") != paths.end()) {
    return error(errc::unsupported,
                 "cannot compare with the corpus: expected files, found standard input, "
                 "which cannot be "
                 "read again");
  }
  corpus_comparison out;
  // Folders are replaced by their files, in the order in which the run read them.
  WEIR_TRY(const auto files, storage::expand_paths(posix_file_system(), paths));
  // Digests are for the table of the page. The identity covers the same bytes once more.
  for (const std::string& path : files) {
    WEIR_TRY(corpus_file file, describe_file(path));
    out.files.push_back(std::move(file));
  }
  storage::source_options options;
  options.separate_documents = separate_documents;
  WEIR_TRY(const auto source,
           storage::open_file_set(posix_file_system(), files, options));
  // This digest also covers the order and the names.
  out.identity = source->identity().digest();
  // A limit keeps the time of the comparison at some seconds.
  WEIR_TRY(const auto read, read_tokens(*source, std::min(tokens, comparison_limit)));
  out.tokens = read.size();
  out.window = window_for(read.size());
  // The token between documents is no byte. It counts as one more token of the vocabulary
  // only if it occurs.
  const bool has_eot =
      std::find(read.begin(), read.end(), storage::end_of_text) != read.end();
  WEIR_TRY(out.counts,
           count_models(read, has_eot ? storage::byte_vocabulary : 256, out.window));
  // gzip gets the bytes alone, without the marks between documents.
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
  // A text that is read several times gives the model an advantage that the others do not
  // have.
  if (const double times = learned / static_cast<double>(c.tokens); times > 1) {
    return fmt::format(
        "The model learned from {:.1f} times as many tokens as gzip and the count models "
        "read, so its figures cannot be compared with theirs.",
        times);
  }
  // gzip has an advantage of its own, which the sentence names.
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
