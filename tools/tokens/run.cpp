// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs the verbs of `weir tokens`. Texts pass through streams, so that memory does
/// not grow with them.
///
/// A text is encoded while it is read, in blocks. The encoder holds back what may still
/// join with the next block, so the ids do not depend on the size of a block.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tokens/token_file.hpp"
#include "tokens/verbs.hpp"
#include "watch/progress.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::tools {

namespace {

using ordered = nlohmann::ordered_json;

/// Bytes that are read at once.
constexpr std::size_t block_bytes = 1024 * 1024;
/// A bound for folders that contain each other by links.
constexpr std::size_t max_files = 10'000'000;

/// Receives ids of a text.
using take_ids = std::function<result<void>(std::span<const std::uint32_t>)>;

/// Reads a file, or standard input for "-", block by block.
class text_input {
 public:
  static result<text_input> open(const std::string& path) {
    text_input in;
    // Without a file object, the functions below read standard input.
    if (path != "-") {
      WEIR_TRY(in.file_, posix_file_system().open(path, open_mode::read));
    }
    return in;
  }
  /// Returns the next bytes; none at the end.
  /// The view is valid until the next call.
  result<bytes_view> next() {
    if (file_) {
      // Files are read by offset, so nobody else can move the position.
      WEIR_TRY(const std::size_t got, file_->read_some(at_, block_));
      at_ += got;
      return bytes_view(block_).first(got);
    }
    for (;;) {
      // A pipe may return less than a block, which is fine here.
      const ssize_t got = ::read(0, block_.data(), block_.size());
      if (got >= 0) {
        at_ += static_cast<std::uint64_t>(got);
        return bytes_view(block_).first(static_cast<std::size_t>(got));
      }
      // An interrupted call is repeated.
      if (errno != EINTR) {
        return system_error("read", "standard input", errno);
      }
    }
  }
  [[nodiscard]] std::uint64_t bytes() const { return at_; }

 private:
  std::unique_ptr<file> file_;
  std::uint64_t at_ = 0;
  byte_vector block_ = byte_vector(block_bytes);
};

/// Loads the tokenizer from a file or from standard input.
result<formats::tokenizer> load(const tokens_options& options) {
  if (options.tokenizer != "-") {
    return formats::tokenizer::from_file(posix_file_system(), options.tokenizer);
  }
  WEIR_TRY(const byte_vector bytes, read_input(options.tokenizer));
  return formats::tokenizer::from_bytes(bytes, "standard input");
}

/// Passes the ids of one text on and returns the number of its bytes.
result<std::uint64_t> encode_one(const formats::tokenizer& with, const std::string& path,
                                 const tokens_options& options, bool plain,
                                 progress_line& line, const take_ids& take) {
  WEIR_TRY(auto in, text_input::open(path));
  WEIR_TRY(auto stream,
           // Each text has an encoder of its own. Special ids at both ends are added
           // unless `plain` is set.
           formats::token_stream::open(
               with, {.add_special_tokens = !plain,
                      .invalid = options.replace ? formats::invalid_utf8::replace
                                                 : formats::invalid_utf8::refuse}));
  // Errors of the encoder know the byte but not the file.
  const auto located = [&](error e) { return std::move(e).located(path); };
  std::uint64_t taken = 0;
  // Passes on the ids that no later byte can change, and removes them from the encoder.
  const auto pass_on = [&]() -> result<void> {
    const auto ids = stream.ready();
    taken += ids.size();
    WEIR_CHECK(take(ids));
    stream.take(ids.size());
    return {};
  };
  // Ends with an empty block, which is the end of the input.
  for (;;) {
    WEIR_TRY(const bytes_view bytes, in.next());
    if (bytes.empty()) {
      break;
    }
    if (auto done = stream.push(bytes); !done) {
      return located(done.error());
    }
    WEIR_CHECK(pass_on());
    line.show(fmt::format("{}: {} read, {} ids", path, human_bytes(in.bytes()),
                          grouped(static_cast<double>(taken))));
  }
  // At the end nothing can join any more, so everything becomes ready.
  if (auto done = stream.finish(); !done) {
    return located(done.error());
  }
  WEIR_CHECK(pass_on());
  return in.bytes();
}

/// The texts of the paths that a user has named.
class text_list {
 public:
  /// Adds a path itself, or all files in a folder and its folders. Names come sorted from
  /// the file system, so the order is the same on every machine.
  result<void> add(const std::string& path) {
    struct stat facts {};
    // A path that does not exist is added, too. Opening it then gives the error.
    if (::stat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
      texts_.push_back(path);
      return {};
    }
    // A link may lead back to a folder around it; following it would never end.
    const folder_id here{facts.st_dev, facts.st_ino};
    if (std::find(around_.begin(), around_.end(), here) != around_.end()) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read \"{}\": expected a folder, found a link to a "
                               "folder around it",
                               path));
    }
    if (around_.size() == 64 || texts_.size() > max_files || ++folders_ > max_files) {
      return error(
          errc::out_of_range,
          fmt::format("cannot read \"{}\": expected at most 64 nested folders, {} "
                      "folders and {} files, found more",
                      path, max_files, max_files));
    }
    WEIR_TRY(const auto names, posix_file_system().list(path));
    around_.push_back(here);
    for (const std::string& name : names) {
      // A hidden file is no text of a corpus.
      if (!name.starts_with('.')) {
        WEIR_CHECK(add(join_path(path, name)));
      }
    }
    around_.pop_back();
    return {};
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return texts_; }

 private:
  using folder_id = std::pair<dev_t, ino_t>;

  std::vector<std::string> texts_;
  std::vector<folder_id> around_;  ///< folders that are being read, outermost first
  std::size_t folders_ = 0;        ///< folders so far
};

/// Returns the id that `pack` puts behind each text.
/// The names are those that common families of tokenizers use.
result<std::uint32_t> end_of_text(const formats::tokenizer& with,
                                  const tokens_options& options) {
  if (!options.end_of_text.empty()) {
    // An explicit name must exist. There is no fallback from it.
    if (const auto id = with.id(options.end_of_text)) {
      return *id;
    }
    return error(errc::not_found,
                 fmt::format("cannot put {} behind each text: expected a token of the "
                             "vocabulary, found none",
                             json_quote(options.end_of_text)));
  }
  // The first of them that the vocabulary has.
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"}) {
    if (const auto id = with.id(name)) {
      return *id;
    }
  }
  return error(errc::not_found,
               "cannot put a token behind each text: expected <|endoftext|>, "
               "<|end_of_text|>, </s> or [SEP] in the vocabulary, found none")
      .hint("name the token with --end-of-text");
}

/// Prints the outcome of a verb, unless standard output has its ids.
void print_facts(const tokens_options& options, const std::string& path,
                 std::uint64_t bytes, std::uint64_t ids, std::uint64_t texts,
                 output& out) {
  // Facts between ids would destroy the output.
  if (path == "-") {
    return;
  }
  if (options.json) {
    out.print("{}\n",
              json_text(ordered{
                  {"out", path}, {"texts", texts}, {"bytes", bytes}, {"tokens", ids}}));
  } else {
    out.print("{}: {}, {}, {}\n", path, counted(texts, "text"), human_bytes(bytes),
              counted(ids, "id"));
  }
}

}  // namespace

/// Encodes one text.
command_result tokens_encode(const tokens_options& options, output& out) {
  // Checked first, since standard output can have one of them only.
  if (options.json && options.out == "-") {
    return error(errc::invalid_argument,
                 "cannot print facts as JSON: expected ids in a file, found ids on "
                 "standard output")
        .hint("name a file with -o");
  }
  WEIR_TRY(const auto with, load(options));
  progress_line line;
  std::uint64_t bytes = 0;
  // The writer calls the function with itself and completes the file afterwards.
  WEIR_TRY(const std::uint64_t ids,
           token_writer::write(
               options.out, token_format_of(options.format, options.out),
               with.vocabulary_size(), out, [&](token_writer& to) -> result<void> {
                 WEIR_TRY(bytes,
                          encode_one(with, options.file, options, options.plain, line,
                                     [&](auto some) { return to.add(some); }));
                 return {};
               }));
  // The progress is removed before the facts are printed.
  line.clear();
  print_facts(options, options.out, bytes, ids, 1, out);
  return 0;
}

/// Decodes ids. The file of ids is read as a whole, since its format may need its length.
command_result tokens_decode(const tokens_options& options, output& out) {
  WEIR_TRY(const auto with, load(options));
  WEIR_TRY(const byte_vector bytes, read_input(options.file));
  WEIR_TRY(const auto ids,
           read_tokens(bytes, token_format_of(options.format, options.file),
                       with.vocabulary_size(), options.file));
  // Special tokens are left out by default, as they are no text.
  WEIR_TRY(const std::string text,
           with.decode(ids, {.skip_special_tokens = !options.keep_special}));
  if (options.out == "-") {
    // JSON holds the text as a string, so both fit into standard output here.
    if (options.json) {
      out.print("{}\n", json_text(ordered{{"text", text}, {"tokens", ids.size()}}));
    } else {
      out.write(text);
    }
    return 0;
  }
  WEIR_CHECK(write_file_atomically(posix_file_system(), options.out, as_view(text)));
  print_facts(options, options.out, text.size(), ids.size(), 1, out);
  return 0;
}

/// Counts the ids of texts, without keeping them.
command_result tokens_count(const tokens_options& options, output& out) {
  WEIR_TRY(const auto with, load(options));
  progress_line line;
  ordered texts = ordered::array();
  std::uint64_t all_bytes = 0;
  std::uint64_t all_ids = 0;
  for (const std::string& path : options.files) {
    std::uint64_t ids = 0;
    WEIR_TRY(const std::uint64_t bytes,
             encode_one(with, path, options, options.plain, line,
                        // Only the number matters, so the ids are forgotten at once.
                        [&](std::span<const std::uint32_t> some) -> result<void> {
                          ids += some.size();
                          return {};
                        }));
    line.clear();
    all_bytes += bytes;
    all_ids += ids;
    texts.push_back({{"file", path}, {"bytes", bytes}, {"tokens", ids}});
    // One line for each text, as soon as it has been counted.
    if (!options.json) {
      out.print("{}\t{}\t{:.3f} bytes per id\n", ids, path,
                // The quotient tells how well the vocabulary fits the text. An empty text
                // has none.
                ids == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(ids));
    }
  }
  if (options.json) {
    out.print("{}\n", json_text(ordered{{"bytes", all_bytes},
                                        {"tokens", all_ids},
                                        {"vocabulary", with.vocabulary_size()},
                                        {"texts", texts}}));
  } else if (options.files.size() > 1) {
    // A sum is printed only if there is more than one number.
    out.print("{}\ttotal\n", all_ids);
  }
  return 0;
}

/// Encodes many texts into one file.
command_result tokens_pack(const tokens_options& options, output& out) {
  WEIR_TRY(const auto with, load(options));
  // Looked up before any text is read.
  WEIR_TRY(const std::uint32_t behind, end_of_text(with, options));
  text_list list;
  // The list of all texts is made first, so a folder that cannot be read shows at once.
  for (const std::string& path : options.files) {
    WEIR_CHECK(list.add(path));
  }
  const std::vector<std::string>& texts = list.all();
  if (texts.empty()) {
    return error(errc::not_found, "cannot pack: expected at least one text, found none");
  }
  progress_line line;
  std::uint64_t bytes = 0;
  WEIR_TRY(const std::uint64_t ids,
           token_writer::write(
               options.out, token_format_of(options.format, options.out),
               with.vocabulary_size(), out, [&](token_writer& to) -> result<void> {
                 for (const std::string& text : texts) {
                   WEIR_TRY(const std::uint64_t size,
                            // No special ids: the token behind each text is what
                            // separates them.
                            encode_one(with, text, options, true, line,
                                       [&](auto some) { return to.add(some); }));
                   bytes += size;
                   WEIR_CHECK(to.add(std::span(&behind, 1)));
                 }
                 return {};
               }));
  line.clear();
  print_facts(options, options.out, bytes, ids, texts.size(), out);
  return 0;
}

}  // namespace weir::tools
