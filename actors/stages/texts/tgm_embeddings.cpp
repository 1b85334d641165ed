// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `tgm.embeddings`: rows of texts as Tensogram messages.
///
/// Rows of a file are collected until a message is full or the file ends, whatever items
/// they come in. The rows that wait are a part of the state, so a resumed run writes the
/// same messages.
#include <fmt/format.h>

#include <algorithm>

#include "stages/message_output.hpp"
#include "stages/texts/factories.hpp"
#include "stages/texts/items.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_write.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view tgm_embeddings_name = "tgm.embeddings";
/// The part of the state that holds the rows of the message that is not full yet.
constexpr const char* rows_part = "ROWS";
/// Rows of a message. The number is fixed, so that the bytes do not depend on items.
constexpr std::size_t rows_of_message = 1024;

/// See the table.
struct embedding_settings {
  std::string path;
  std::uint64_t hold = std::uint64_t{64} << 20;
};

/// As in `tgm.write`, without encodings.
settings_table<embedding_settings> embedding_table() {
  settings_table<embedding_settings> table("the sink tgm.embeddings");
  table
      .add("path", &embedding_settings::path,
           "a file, which is created if it is missing, a pipe, or - for standard output")
      .required()
      .path(path_use::output);
  table
      .add(
          "hold", &embedding_settings::hold,
          "a pipe gets messages at a checkpoint, or earlier if more bytes than this wait")
      .unit("bytes")
      .may_change();
  return table;
}

/// Fixed part of the state; the numbers of lines and the values follow.
struct waiting_rows {
  std::uint64_t lines = 0;          ///< rows that wait
  std::uint64_t width = 0;          ///< features of a row
  std::uint64_t file_messages = 0;  ///< messages of the file of texts so far
};

/// Belongs to the thread of its I/O host.
class tgm_embeddings final : public flow::stage_object {
 public:
  tgm_embeddings(embedding_settings settings, file_system& fs)
      : settings_(std::move(settings)), output_(tgm_embeddings_name, fs) {}

  /// Empties a file of messages; other files are refused.
  result<void> open(opening& run) override {
    return output_.open(path_of(run, settings_.path), run.resuming(), true);
  }
  /// Collects the rows of an item and writes messages that are full.
  result<void> put(taken& t) override {
    // The item of ids says from which lines the rows are.
    WEIR_TRY(const token_item item, read_token_item(t[any_in{0}]));
    const runtime::tensor& rows = t[any_in{1}];
    // Both inlets have items of the same number, so they fit unless a stage is wired
    // wrongly.
    if (rows.shape().size() != 2 ||
        rows.shape()[0] != static_cast<std::int64_t>(item.texts.size())) {
      return error(errc::invalid_argument,
                   fmt::format("cannot write the embeddings of {}: expected {} rows, "
                               "found {}",
                               json_quote(item.from.name), item.texts.size(),
                               rows.shape().empty() ? 0 : rows.shape()[0]));
    }
    // The width is that of the model and the same for all rows.
    waiting_.width = static_cast<std::uint64_t>(rows.shape()[1]);
    const float* row = rows.as<const float>();
    for (const token_text& text : item.texts) {
      // The values are copied, because the item goes.
      lines_.push_back(text.line);
      values_.insert(values_.end(), row, row + waiting_.width);
      row += waiting_.width;
      ++rows_;
      if (lines_.size() == rows_of_message) {
        WEIR_CHECK(write(item));
      }
    }
    if (item.from.ends_file) {
      // A file without rows gets a message without rows.
      if (!lines_.empty() || waiting_.file_messages == 0) {
        WEIR_CHECK(write(item));
      }
      // The next file counts anew.
      waiting_.file_messages = 0;
    }
    return {};
  }
  /// Rows that wait are not part of the file; the state has them.
  result<flow::small_record> settle() override { return output_.settle(); }
  /// Cuts messages behind the offset.
  result<void> rewind(bytes_view stored) override { return output_.rewind(stored); }
  /// Compares the last message of a finished run.
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    return output_.verify(path_of(run, settings_.path), stored);
  }

  /// The state is a fixed part, the numbers of lines, and the values.
  result<void> copy_state(flow::state_writer& to) override {
    // Width and messages of the file are kept up to date by `put`.
    waiting_.lines = lines_.size();
    const bytes_view lines = std::as_bytes(std::span(lines_));
    const bytes_view values = std::as_bytes(std::span(values_));
    const bytes_view head = std::as_bytes(std::span(&waiting_, 1));
    auto at = to.add(rows_part, head.size() + lines.size() + values.size()).begin();
    for (const bytes_view part : {head, lines, values}) {
      at = std::copy(part.begin(), part.end(), at);
    }
    return {};
  }
  /// Takes the rows that wait. The lengths are compared before memory is taken.
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(bytes_view bytes, from.part(rows_part));
    waiting_rows head;
    if (bytes.size() >= sizeof head) {
      std::memcpy(&head, bytes.data(), sizeof head);
    }
    // The number of bytes bounds lines and width, so the product cannot overflow.
    const std::uint64_t limit = bytes.size();
    // A full message never waits.
    if (bytes.size() < sizeof head || head.lines >= rows_of_message ||
        (head.lines != 0 && head.width > limit) ||
        limit - sizeof head != head.lines * (8 + 4 * head.width)) {
      return error(
          errc::corrupt,
          fmt::format("cannot use the stored rows of {}: expected a state of its "
                      "own, found {} bytes whose lengths contradict each other",
                      tgm_embeddings_name, bytes.size()));
    }
    waiting_ = head;
    // The lengths fit the bytes, so no more memory is taken than the state has.
    lines_.resize(head.lines);
    values_.resize(head.lines * head.width);
    bytes = bytes.subspan(sizeof head);
    if (head.lines != 0) {
      std::memcpy(lines_.data(), bytes.data(), 8 * head.lines);
      std::memcpy(values_.data(), bytes.data() + 8 * head.lines, 4 * values_.size());
    }
    return {};
  }
  /// Figures of this process.
  void report(figures& to) const override {
    to.set("rows", rows_);
    to.set("messages", messages_);
    to.set("bytes", bytes_);
  }

 private:
  /// Appends a message with the rows that wait.
  // @param item  An item of the file of the rows.
  result<void> write(const token_item& item) {
    formats::object_to_write object;
    object.descriptor.type = dtype::fp32;
    object.descriptor.shape = {static_cast<std::int64_t>(lines_.size()),
                               static_cast<std::int64_t>(waiting_.width)};
    object.metadata.set("name", "embeddings");
    // Numbers of lines identify the rows.
    formats::cbor_array lines;
    for (const std::uint64_t line : lines_) {
      lines.emplace_back(line);
    }
    object.metadata.set("lines", std::move(lines));
    object.data = std::as_bytes(std::span(values_));
    // Metadata of the whole message.
    formats::message_options options;
    options.extra.set("file", item.from.name);
    options.extra.set("model_digest", hex64(item.model));
    // The message holds copies, so the rows can go.
    auto message = std::make_shared<byte_vector>();
    WEIR_TRY(*message, formats::encode_message({&object, 1}, options));
    bytes_ += message->size();
    ++messages_;
    ++waiting_.file_messages;
    // The memory of both stays for the next rows.
    lines_.clear();
    values_.clear();
    return output_.append(std::move(message), settings_.hold);
  }

  embedding_settings settings_;
  message_output output_;
  waiting_rows waiting_;
  std::vector<std::uint64_t> lines_;  ///< of the rows that wait
  std::vector<float> values_;         ///< of the rows that wait
  std::uint64_t rows_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Further paragraphs of the reference of `tgm.embeddings`.
constexpr std::string_view tgm_embeddings_details =
    R"(Inlet `texts` takes the items of `text.tokens`, and inlet `rows` those of
`bert.pool`. A message has up to 1024 rows of one file, which its metadata `file` names;
`model_digest` is the digest of the weights. Its object `embeddings` has a row for each
text, and its metadata `lines` their numbers of lines. A file without texts gives one
message without rows.

The state holds the rows of the message that is not full yet, so the file has the same
bytes for any items, checkpoints and resumes. New runs and resumed ones treat the file as
`tgm.write` does.)";

}  // namespace

/// Makes the sink. A pipe gets messages once more after a resume.
result<void> make_tgm_embeddings(flow::described_stage& made, const given_settings& given,
                                 file_system& fs) {
  made.info.name = tgm_embeddings_name;
  made.info.documentation = "appends embeddings of texts to a file of Tensogram messages";
  made.info.face = flow::face::sink;
  made.info.details = tgm_embeddings_details;
  made.info.example = embedding_example;
  made.info.state = {{rows_part, false}};
  WEIR_TRY(embedding_settings settings,
           flow::read_settings(made.info, embedding_table(), given));
  WEIR_TRY(flow::port_type texts, flow::port_type::parse(token_item_type));
  WEIR_TRY(flow::port_type rows, flow::port_type::parse("f32[?,?]"));
  // The rows have any number of features.
  made.info.ports = {{"texts", std::move(texts), true}, {"rows", std::move(rows), true}};
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::at_least_once;
  }
  made.object = std::make_unique<tgm_embeddings>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
