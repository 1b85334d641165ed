// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs `weir embed`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "texts/lines.hpp"
#include "texts/load.hpp"
#include "texts/progress.hpp"
#include "texts/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_write.hpp"

namespace weir::tools {

namespace {

/// Rows of a message. The number is fixed, so that the bytes do not depend on batches.
constexpr std::size_t rows_of_message = 1024;

/// Appends messages with embeddings to a file.
class embedding_writer {
 public:
  embedding_writer(file& to, std::uint32_t width, std::uint64_t digest)
      : to_(to), width_(width), digest_(hex64(digest)) {}

  /// Begins the rows of a file of texts.
  void begin(const std::string& source) {
    source_ = source;
    messages_ = 0;
  }
  /// Adds a row.
  result<void> add(std::uint64_t line, std::span<const float> row) {
    lines_.emplace_back(line);
    values_.insert(values_.end(), row.begin(), row.end());
    ++rows_;
    return lines_.size() < rows_of_message ? result<void>() : write();
  }
  /// Ends the rows of a file of texts. One without rows gets a message without rows.
  result<void> end() {
    return lines_.empty() && messages_ > 0 ? result<void>() : write();
  }
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return at_; }

 private:
  result<void> write() {
    formats::object_to_write object;
    object.descriptor.type = dtype::fp32;
    object.descriptor.shape = {static_cast<std::int64_t>(lines_.size()), width_};
    object.metadata.set("name", "embeddings");
    object.metadata.set("lines", std::move(lines_));
    object.data = std::as_bytes(std::span(values_));
    formats::message_options options;
    options.extra.set("file", source_);
    options.extra.set("model_digest", digest_);
    WEIR_TRY(const byte_vector message, formats::encode_message({&object, 1}, options));
    WEIR_CHECK(write_all(to_, at_, message));
    at_ += message.size();
    ++messages_;
    lines_ = formats::cbor_array();
    values_.clear();
    return {};
  }

  file& to_;
  std::uint32_t width_;
  std::string digest_;
  std::string source_;
  std::uint64_t at_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t messages_ = 0;  ///< of the file of texts
  formats::cbor_array lines_;   ///< of the rows that wait
  std::vector<float> values_;   ///< of the rows that wait
};

/// Turns documents into rows, several at a time.
class document_batch {
 public:
  document_batch(models::encoder& model, embedding_writer& to, std::uint32_t limit)
      : model_(model), to_(to), limit_(limit) {}

  /// Adds a document, and computes the documents before it if there are enough.
  result<void> add(token_document document) {
    if (documents_.size() == limit_ ||
        waiting_ + document.ids.size() > model_.facts().max_rows) {
      WEIR_CHECK(compute());
    }
    waiting_ += document.ids.size();
    documents_.push_back(std::move(document));
    return {};
  }
  /// Computes the documents that wait.
  result<void> compute() {
    if (documents_.empty()) {
      return {};
    }
    std::vector<models::token_run> runs;
    for (const token_document& d : documents_) {
      runs.push_back({d.ids});
    }
    WEIR_TRY(const auto ticket, model_.submit(runs));
    WEIR_TRY(const std::span<const float> rows, model_.rows(ticket));
    const std::size_t width = model_.facts().width;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      WEIR_CHECK(to_.add(documents_[i].line, rows.subspan(i * width, width)));
    }
    tokens_ += waiting_;
    waiting_ = 0;
    documents_.clear();
    return model_.finish(ticket);
  }
  /// Returns the tokens of the computed documents.
  [[nodiscard]] std::uint64_t tokens() const noexcept { return tokens_; }

 private:
  models::encoder& model_;
  embedding_writer& to_;
  std::size_t limit_;
  std::vector<token_document> documents_;
  std::uint64_t waiting_ = 0;  ///< tokens of the documents that wait
  std::uint64_t tokens_ = 0;
};

/// What a run has done.
struct embed_summary {
  std::string tag;
  std::uint32_t width = 0;
  std::uint64_t rows = 0, skipped = 0, tokens = 0, bytes = 0;
  double seconds = 0;
};

result<void> embed_files(const embed_options& options, loaded_model& model,
                         models::encoder& encoder, bad_lines& bad, file& to,
                         embed_summary& summary) {
  embedding_writer writer(to, encoder.facts().width, model.stored.record().digest);
  document_batch batch(encoder, writer, options.batch);
  text_progress progress("texts");
  document_rules rules;
  rules.field = options.field;
  rules.max_tokens = encoder.facts().max_tokens;
  rules.truncate = options.truncate;
  for (const std::string& path : options.files) {
    WEIR_TRY(auto documents, document_reader::open(path, model.tokens, rules, bad));
    writer.begin(path);
    for (;;) {
      WEIR_TRY(std::optional<token_document> document, documents.next());
      if (!document) {
        break;
      }
      WEIR_CHECK(batch.add(std::move(*document)));
      progress.show(writer.rows(), batch.tokens());
    }
    WEIR_CHECK(batch.compute());
    WEIR_CHECK(writer.end());
  }
  summary.rows = writer.rows();
  summary.tokens = batch.tokens();
  summary.bytes = writer.bytes();
  summary.seconds = progress.seconds();
  return {};
}

void print_embed_summary(const embed_summary& s, const embed_options& options,
                         output& out) {
  if (options.json) {
    nlohmann::ordered_json facts;
    facts["tag"] = s.tag;
    facts["rows"] = s.rows;
    facts["width"] = s.width;
    facts["skipped"] = s.skipped;
    facts["tokens"] = s.tokens;
    facts["bytes"] = s.bytes;
    facts["seconds"] = s.seconds;
    out.write(facts.dump() + "\n");
    return;
  }
  out.print("{}: {} of {} in {}, {} skipped\n", s.tag, counted(s.rows, "row"),
            counted(s.width, "feature"), options.out, counted(s.skipped, "line"));
}

}  // namespace

command_result embed_command(const embed_options& options, output& out) {
  for (const std::string& path : options.files) {
    WEIR_CHECK(refuse_output_over(path, options.out));
  }
  WEIR_TRY(const auto model, load_model(options.volume, options.tag,
                                        models::architecture::bert, options.workers));
  WEIR_TRY(const auto encoder, encoder_of(*model));
  bad_lines bad(options.skip_bad);
  embed_summary summary;
  summary.tag = model->stored.record().tag;
  summary.width = encoder->facts().width;
  const auto fill = [&](file& to) {
    return embed_files(options, *model, *encoder, bad, to, summary);
  };
  WEIR_CHECK(write_file_atomically(posix_file_system(), options.out, fill));
  WEIR_CHECK(bad.write());
  summary.skipped = bad.count();
  print_embed_summary(summary, options, out);
  return 0;
}

}  // namespace weir::tools
