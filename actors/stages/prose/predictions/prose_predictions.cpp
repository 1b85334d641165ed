// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `prose.predictions`: predictions and scores of a text model as Tensogram
/// messages at the end of a file.
///
/// Each chunk of a lane is a message. `message_output` appends and cuts the file.
#include "stages/message_output.hpp"
#include "stages/prose/factories.hpp"
#include "stages/prose/predictions/prediction_item.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view predictions_name = "prose.predictions";
/// Bytes of messages that wait for a pipe.
constexpr std::uint64_t max_held = std::uint64_t{64} << 20;

/// See the table.
struct predictions_settings {
  std::string path;
};

/// See `predictions_settings`.
settings_table<predictions_settings> predictions_table() {
  settings_table<predictions_settings> table("the sink prose.predictions");
  table
      .add("path", &predictions_settings::path,
           "a file, which is created if it is missing and begins empty, a pipe, or - for "
           "standard output")
      .required()
      .path(path_use::output);
  return table;
}

/// Returns an object that refers to the words.
// Both element types have four bytes.
formats::object_to_write object_of(const char* name, dtype type,
                                   std::span<const std::uint32_t> words) {
  formats::object_to_write object;
  object.descriptor.type = type;
  object.descriptor.shape = {static_cast<std::int64_t>(words.size())};
  object.metadata.set("name", std::string(name));
  object.data = std::as_bytes(words);
  return object;
}

/// Belongs to the thread of its I/O host.
class prose_predictions final : public flow::stage_object {
 public:
  prose_predictions(predictions_settings settings, file_system& fs)
      : settings_(std::move(settings)), output_(predictions_name, fs) {}

  /// Empties a file of messages; other files are refused.
  result<void> open(opening& run) override {
    // A file that is no sequence of messages is not overwritten.
    return output_.open(path_of(run, settings_.path), run.resuming(), true);
  }
  /// Writes the chunks of a pulse in the order of the lanes.
  result<void> put(taken& t) override {
    // The item is a record of words with all lanes.
    const runtime::tensor& item = t[any_in{0}];
    WEIR_TRY(const pulse_predictions pulse,
             read_predictions({item.as<const std::uint32_t>(),
                               static_cast<std::size_t>(item.count())}));
    for (const chunk_predictions& chunk : pulse.chunks) {
      WEIR_TRY(auto message, encode_chunk(pulse, chunk));
      // Messages wait in memory for a slow reader of a pipe, up to a limit.
      WEIR_CHECK(
          output_.append(std::make_shared<byte_vector>(std::move(message)), max_held));
    }
    return {};
  }
  /// Everything that was appended is durable behind it.
  result<flow::small_record> settle() override { return output_.settle(); }
  /// Cuts what lies behind the offset.
  result<void> rewind(bytes_view stored) override { return output_.rewind(stored); }
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    return output_.verify(path_of(run, settings_.path), stored);
  }

 private:
  /// Encodes the three objects of a chunk and what identifies it.
  [[nodiscard]] static result<byte_vector> encode_chunk(const pulse_predictions& pulse,
                                                        const chunk_predictions& chunk) {
    // Same order as in the documentation, which names the objects.
    formats::object_to_write objects[] = {
        object_of("tokens", dtype::uint32, chunk.tokens),
        object_of("predictions", dtype::uint32, chunk.likeliest),
        object_of("scores", dtype::fp32, chunk.scores)};
    objects[2].metadata.set("units", std::string("bits"));
    formats::message_options options;
    // A score that is not known yet is NaN.
    options.floats = formats::non_finite::store;
    // These keys identify the chunk in the run.
    options.extra.set("lane", std::uint64_t{chunk.lane});
    options.extra.set("position", chunk.position);
    options.extra.set("pulse", pulse.pulse);
    options.extra.set("phase_pulse", pulse.phase_pulse);
    options.extra.set("updates", pulse.updates);
    // A chunk that begins in the middle of a text completes the chunk before it.
    if (chunk.pending_score) {
      options.extra.set("pending_score", static_cast<double>(*chunk.pending_score));
    }
    return formats::encode_message(objects, options);
  }

  predictions_settings settings_;
  message_output output_;
};

/// Further paragraphs of the reference of `prose.predictions`.
constexpr std::string_view prose_predictions_details =
    R"(Each chunk of each lane is a message with three objects, one element for each
token: `tokens` (u32), `predictions` (u32, the likeliest id behind the token; the lowest
one among equals) and `scores` (f32, the negative log2-likelihood of the token that
follows, in bits; NaN if the text ends there or that token was not known yet).

Metadata: `lane`, `position` of the first token in its lane, `pulse` of the run,
`phase_pulse` of the phase, `updates`, the Build pulses from which the model has learned
before, and `pending_score`, the score of the first token if the chunk before it in the
lane has a NaN for it.

Offsets, resumes and pipes are those of `tgm.write`. The bytes do not depend on workers,
devices, checkpoints or interruptions.)";

/// A small pipeline with `prose.predictions`.
constexpr std::string_view prose_predictions_example = R"([[stage]]
name = "text"
use = "text.pulses"
files = ["a.txt", "b.txt"]
build_tokens = 256
stream_tokens = 128

[[stage]]
name = "learn"
use = "prose.learn"
vocab = 257
width = 32
blocks = 1
hidden = 32
window = "4 items"
predictions = true

[[stage]]
name = "accounts"
use = "null"
inlets = { x = "learn.score" }

[[stage]]
name = "predictions"
use = "prose.predictions"
path = "predictions.tgm"
inlets = { predictions = "learn.predictions" }
)";

}  // namespace

/// Makes the sink. A pipe gets messages once more after a resume.
result<void> make_prose_predictions(flow::described_stage& made,
                                    const given_settings& given, file_system& fs) {
  made.info.name = predictions_name;
  made.info.documentation =
      "appends the predictions and scores of prose.learn to a file of messages";
  made.info.face = flow::face::sink;
  made.info.details = prose_predictions_details;
  made.info.example = prose_predictions_example;
  WEIR_TRY(predictions_settings settings,
           flow::read_settings(made.info, predictions_table(), given));
  // The length of an item follows from the lanes and chunks of the stage that makes it,
  // which this sink does not know.
  WEIR_TRY(flow::port_type type, flow::port_type::parse("u32[?]"));
  made.info.ports = {{"predictions", std::move(type), true}};
  // A pipe cannot be cut back, so its reader may see messages twice.
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::at_least_once;
  }
  made.object = std::make_unique<prose_predictions>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
