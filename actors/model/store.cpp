// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stores models in volumes, lists, opens and verifies them.
///
/// A model takes up to three streams of a volume: its weights, byte for byte as in their
/// file, under the tag; the record under the tag with `record_ending`; and the panels
/// with `panels_ending`. A model exists for readers if its record can be read.
///
/// Every import writes the record last, and a replacement removes the old record first. A
/// crash in between leaves weights without a record, which `list_models` does not show
/// and the next import replaces. If the new streams do not fit, the old record is put
/// back.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/panels.hpp"
#include "model/record.hpp"
#include "model/source.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tokenizer_forms.hpp"

namespace weir::actors {

namespace {

using storage::hn4_stream;
using storage::hn4_volume;

/// Returns the tag of the record of a model.
/// The name of a model is that of its weights.
std::string record_tag(const std::string& tag) {
  return tag + std::string(record_ending);
}

/// A tag with one of these endings would be taken for a record or for panels.
result<void> check_model_tag(const std::string& tag) {
  if (tag.empty() || tag.ends_with(record_ending) || tag.ends_with(panels_ending)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot import a model under tag {}: expected a name that is "
                    "not empty and does not end with {} or {}",
                    json_quote(tag), record_ending, panels_ending));
  }
  return {};
}

/// Returns whether a volume has a tag, whole or damaged.
/// A damaged tag counts, because a new stream of that name would collide with it.
result<bool> has_tag(const hn4_volume& volume, const std::string& tag) {
  const auto named = [&](const auto& t) { return t.name == tag; };
  WEIR_TRY(const auto tags, volume.tags());
  // Damaged tags are listed apart.
  WEIR_TRY(const auto damaged, volume.damaged_tags());
  return std::any_of(tags.begin(), tags.end(), named) ||
         std::any_of(damaged.begin(), damaged.end(), named);
}

/// Reads the record of a model. A volume may come from anywhere, so the size is checked
/// before memory is allocated.
result<model_record> read_record(const hn4_volume& volume, const std::string& tag) {
  // A record is a tokenizer and a few facts.
  constexpr std::uint64_t max_record = std::uint64_t{2} << 30;
  WEIR_TRY(const hn4_stream stream, volume.stream(record_tag(tag)));
  if (stream.size() > max_record) {
    return error(errc::corrupt,
                 fmt::format("cannot read the record of model {}: expected at most {} "
                             "bytes, found {}",
                             json_quote(tag), max_record, stream.size()));
  }
  WEIR_TRY(const byte_vector text, stream.read_all());
  return record_of_text(as_text(text), tag);
}

/// Stores the weights as panels and sets their places in the record. A volume with
/// smaller blocks gets none.
/// The whole stream is built in memory, which takes about as much as the file of the
/// model.
result<void> store_panels(hn4_volume& volume, const model_source& source,
                          const storage::hn4_put_options& put, model_record& record) {
  const std::string tag = record.tag + std::string(panels_ending);
  // Blocks of the volume decide how rows are divided.
  record.panels = plan_panels(source.weights, volume.geometry().payload);
  if (record.panels.empty()) {
    // Panels of a model that was replaced would not fit to the new weights.
    WEIR_TRY(const bool old, has_tag(volume, tag));
    return old ? volume.remove(tag) : result<void>();
  }
  // As large as all panels together.
  byte_vector stream(static_cast<std::size_t>(stream_bytes(record.panels)));
  for (std::size_t i = 0; i < source.weights.size(); ++i) {
    const models::bound_weight& w = source.weights[i];
    const storage::stored_tensor& t = source.tensors[w.tensor];
    // The weight and the bytes of its tensor.
    const raw_weight raw{&w, source.view(w),
                         source.bytes.subspan(static_cast<std::size_t>(t.offset),
                                              static_cast<std::size_t>(t.bytes)),
                         record.files};
    for (const panel_place& run : record.panels[i].runs) {
      WEIR_CHECK(
          pack_run(raw, run.first,
                   mutable_bytes(stream).subspan(static_cast<std::size_t>(run.offset),
                                                 static_cast<std::size_t>(run.bytes))));
    }
  }
  return volume.put(tag, stream, put);
}

/// Puts the record of a model back whose replacement has failed while its weights were
/// still the old ones. If its panels were replaced, it is kept without panels.
/// The caller reports the first failure, so a second one is not reported.
void put_back(hn4_volume& volume, model_record old, bool has_panels,
              const storage::hn4_put_options& put) {
  if (!has_panels) {
    old.panels.clear();
    // The new panels take space and belong to no weights. There may be none.
    static_cast<void>(volume.remove(old.tag + std::string(panels_ending)));
  }
  static_cast<void>(volume.put(record_tag(old.tag), as_view(text_of_record(old)), put));
}

}  // namespace

// The record goes first and comes last, so that it never describes other weights than
// those of its tag, even after a crash.
result<model_record> import_model(hn4_volume& volume, const std::string& path,
                                  const std::string& tag,
                                  const model_import_options& options) {
  // Nothing is changed before all checks.
  WEIR_CHECK(check_model_tag(tag));
  WEIR_TRY(const bool has_record, has_tag(volume, record_tag(tag)));
  WEIR_TRY(const bool has_weights, has_tag(volume, tag));
  if ((has_record || has_weights) && !options.replace) {
    return error(errc::already_exists,
                 fmt::format("cannot import a model under tag {}: expected a new tag, "
                             "found one that exists",
                             json_quote(tag)))
        .hint("choose another tag, or use --replace");
  }
  // The source is checked completely before anything in the volume changes.
  // Also reads the facts and the tokenizer.
  WEIR_TRY(const model_source source, open_model_source(path));
  model_record record = source.record;
  record.tag = tag;
  // The digest is over the decoded weights and does not depend on the kind of file.
  models::weights_digest digest;
  for (const models::bound_weight& w : source.weights) {
    digest.add(w.info, source.view(w));
  }
  record.digest = digest.value();
  std::optional<model_record> old;
  if (has_record) {
    // A record that cannot be read is not worth keeping.
    if (auto found = read_record(volume, tag)) {
      old = std::move(*found);
    }
    WEIR_CHECK(volume.remove(record_tag(tag)));
  }
  // Equal files give equal volumes if the time is given.
  storage::hn4_put_options put;
  put.time_ns = options.time_ns;
  // A stream that does not fit leaves the one before it. The weights come second, because
  // the old model can be used without panels.
  auto stored = store_panels(volume, source, put, record);
  const bool old_panels = !stored;
  if (stored) {
    stored = volume.put(tag, source.bytes, put);
  }
  if (!stored) {
    if (old) {
      put_back(volume, std::move(*old), old_panels, put);
    }
    return std::move(stored).error();
  }
  WEIR_CHECK(volume.put(record_tag(tag), as_view(text_of_record(record)), put));
  return record;
}

/// Lists models by their records. One that cannot be read is listed as damaged with its
/// reason; damaged streams of other kinds are not listed.
result<model_listing> list_models(const hn4_volume& volume) {
  model_listing out;
  WEIR_TRY(const auto tags, volume.tags());
  for (const storage::hn4_tag& t : tags) {
    if (!t.name.ends_with(record_ending)) {
      continue;
    }
    // The tag of the model is the one without the ending.
    const std::string tag = t.name.substr(0, t.name.size() - record_ending.size());
    auto record = read_record(volume, tag);
    if (record) {
      out.models.push_back(std::move(*record));
    } else {
      out.damaged.push_back({tag, std::move(record).error()});
    }
  }
  WEIR_TRY(auto damaged, volume.damaged_tags());
  for (storage::hn4_damaged_tag& t : damaged) {
    if (t.name.ends_with(record_ending)) {
      t.name.resize(t.name.size() - record_ending.size());
      out.damaged.push_back(std::move(t));
    }
  }
  return out;
}

/// An empty tag is enough if the volume has a single model. Damaged models count, so that
/// none is chosen silently.
result<std::string> choose_model(const hn4_volume& volume, const std::string& tag) {
  // The user has chosen.
  if (!tag.empty()) {
    return tag;
  }
  WEIR_TRY(const model_listing listing, list_models(volume));
  std::vector<std::string> tags;
  for (const model_record& m : listing.models) {
    tags.push_back(json_quote(m.tag));
  }
  for (const storage::hn4_damaged_tag& t : listing.damaged) {
    tags.push_back(json_quote(t.name));
  }
  if (tags.empty()) {
    return error(errc::not_found,
                 "cannot choose a model: expected one in the volume, found none")
        .hint("store one with weir model import");
  }
  if (tags.size() > 1) {
    return error(errc::invalid_argument,
                 fmt::format("cannot choose a model: expected one in the volume, found "
                             "{}: {}",
                             tags.size(), fmt::join(tags, ", ")))
        .hint("name one with --tag");
  }
  return listing.models.empty() ? listing.damaged[0].name : listing.models[0].tag;
}

namespace {

/// Reads facts and weights from the header of stored weights, which must be those of the
/// record. @pre `head` holds the bytes in front of the first tensor, or nothing for
/// safetensors.
result<std::vector<models::bound_weight>> weights_of(
    const model_record& record, bytes_view head,
    std::span<const storage::stored_tensor> tensors) {
  // Tensors of the header by their names.
  const auto named = named_tensors(tensors);
  if (record.files == models::weight_files::gguf) {
    // The facts of GGUF stand in the header, too, and must agree with the record.
    WEIR_TRY(const auto keys, gguf_metadata::read(head, record.tag));
    WEIR_TRY(const auto facts, models::facts_of_gguf(keys, named));
    if (facts != record.facts) {
      return error(
                 errc::corrupt,
                 fmt::format("cannot open model {}: expected the facts of its record in "
                             "the header of its weights, found others",
                             json_quote(record.tag)))
          .hint("import the model again");
    }
  }
  // Fails if a weight of the architecture is missing.
  return models::bind_weights(record.facts, record.files, named);
}

}  // namespace

/// Opens a model without reading its weights. The record and the header of the weights
/// are compared, because both could come from different imports.
result<model_in_volume> model_in_volume::open(const hn4_volume& volume,
                                              const std::string& tag) {
  WEIR_TRY(model_record record, read_record(volume, tag));
  WEIR_TRY(hn4_stream stream, volume.stream(tag));
  model_in_volume model(std::move(stream));
  model.record_ = std::move(record);
  // The container says what it is.
  WEIR_TRY(const auto directory, storage::tensor_directory::from_stream(model.stream_));
  const bool gguf = model.record_.files == models::weight_files::gguf;
  // Size and kind are compared first: their difference has a clear message.
  if (model.stream_.size() != model.record_.bytes ||
      directory.format() != (gguf ? storage::container_format::gguf
                                  : storage::container_format::safetensors)) {
    return error(errc::corrupt,
                 fmt::format("cannot open model {}: expected {} bytes of {}, as its "
                             "record says, found {} bytes of {}",
                             json_quote(tag), model.record_.bytes,
                             gguf ? "gguf" : "safetensors", model.stream_.size(),
                             name_of(directory.format())))
        .hint("import the model again");
  }
  model.tensors_.assign(directory.tensors().begin(), directory.tensors().end());
  // The header is kept, because the tokenizer of a GGUF model is read from it later.
  WEIR_TRY(const std::uint64_t before, bytes_before_data(model.tensors_, tag));
  if (gguf) {
    model.head_.resize(static_cast<std::size_t>(before));
    WEIR_CHECK(model.stream_.read(0, model.head_));
  }
  WEIR_TRY(model.weights_, weights_of(model.record_, model.head_, model.tensors_));
  return model;
}

/// A weight is a view of the mapped volume if it lies inside one block; otherwise it is a
/// copy, whose bytes are counted.
result<stored_weight> model_in_volume::weight(std::size_t index) const {
  WEIR_EXPECT(index < weights_.size());
  const models::bound_weight& w = weights_[index];
  WEIR_TRY(storage::hn4_tensor tensor, read_tensor(stream_, tensors_[w.tensor]));
  if (!tensor.is_view()) {
    copied_->fetch_add(tensor.bytes().size());
  }
  const models::weight_view view(w.info, w.type, record_.files, tensor.bytes());
  return stored_weight{w, view, std::move(tensor)};
}

/// Made anew at each call; callers keep it.
result<formats::tokenizer> model_in_volume::tokenizer() const {
  // Safetensors have no tokenizer, so it is in the record.
  if (!record_.tokenizer.empty()) {
    return formats::tokenizer::from_json(as_view(record_.tokenizer), record_.tag);
  }
  WEIR_TRY(const auto keys, tokenizer_keys());
  return formats::tokenizer::from_gguf(keys);
}

/// The keys from which `tokenizer` makes one.
result<formats::gguf_tokenizer> model_in_volume::tokenizer_keys() const {
  return record_.tokenizer.empty()
             ? formats::tokenizer_keys_of_gguf(head_, record_.tag)
             : formats::tokenizer_keys_of_json(as_view(record_.tokenizer), record_.tag);
}

/// Reads all weights, which also checks the sums of their blocks, and compares the
/// digest.
result<void> model_in_volume::verify() const {
  models::weights_digest digest;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    WEIR_TRY(const stored_weight w, weight(i));
    digest.add(w.weight.info, w.view);
  }
  // The order of the weights is that of the import.
  if (digest.value() != record_.digest) {
    return error(errc::hash_mismatch,
                 fmt::format("cannot verify model {}: expected the digest {}, found {}",
                             json_quote(record_.tag), hex64(record_.digest),
                             hex64(digest.value())))
        .hint("import the model again");
  }
  return {};
}

}  // namespace weir::actors
