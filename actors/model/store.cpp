// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stores models in volumes, lists, opens and verifies them.
///
/// A model takes up to three streams of a volume: its weights, byte for byte as in their
/// file, under the tag; the record under the tag with `record_ending`; and the panels
/// with `panels_ending`. A model exists for readers if its record can be read.
///
/// Every import writes the record last, and a replacement removes the old record first. A
/// tag with `import_ending` marks the import meanwhile, and takes the space of the record
/// before anything else is stored. If the streams do not fit, the old record is put back
/// and nothing stays of a new model. What a crash leaves is not shown by `list_models`,
/// and the next import into the volume removes it.
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

/// Ending of the tag that marks an import until it has ended, and takes the space of its
/// record.
constexpr std::string_view import_ending = "/model.import";

/// A tag with one of these endings would be taken for a record or for panels.
result<void> check_model_tag(const std::string& tag) {
  if (tag.empty() || tag.ends_with(record_ending) || tag.ends_with(panels_ending) ||
      tag.ends_with(import_ending)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot import a model under tag {}: expected a name that is "
                    "not empty and does not end with {}, {} or {}",
                    json_quote(tag), record_ending, panels_ending, import_ending));
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

/// Removes a tag if the volume has it.
result<void> remove_if_there(hn4_volume& volume, const std::string& tag) {
  WEIR_TRY(const bool there, has_tag(volume, tag));
  return there ? volume.remove(tag) : result<void>();
}

/// Beginnings of the mark of an import, by what the tag had before; the record follows. A
/// tag of the same name with other contents is none.
constexpr std::string_view mark_of_new = "weir model import: a new tag\n";
constexpr std::string_view mark_of_old = "weir model import: an old tag\n";

/// Returns the beginning of the mark of an import of a tag that has not ended; empty if
/// there is none.
std::string_view import_mark(const hn4_volume& volume, const std::string& tag) {
  const auto stream = volume.stream(tag + std::string(import_ending));
  for (const std::string_view mark : {mark_of_new, mark_of_old}) {
    byte_vector begin(mark.size());
    if (stream && stream->size() >= mark.size() && stream->read(0, begin) &&
        as_text(begin) == mark) {
      return mark;
    }
  }
  return {};
}

/// Returns whether an import of a tag was interrupted and left no model.
result<bool> is_interrupted(const hn4_volume& volume, const std::string& tag) {
  WEIR_TRY(const bool has_record, has_tag(volume, record_tag(tag)));
  return !has_record && !import_mark(volume, tag).empty();
}

/// Ends an import of a tag whose streams may have been stored in part. Without a record,
/// the panels belong to no weights, and weights that were put under a new tag are not
/// those of a model. The mark goes last, so that this can be interrupted, too.
result<void> clear_import(hn4_volume& volume, const std::string& tag) {
  WEIR_TRY(const bool has_record, has_tag(volume, record_tag(tag)));
  if (!has_record) {
    WEIR_CHECK(remove_if_there(volume, tag + std::string(panels_ending)));
    if (import_mark(volume, tag) == mark_of_new) {
      WEIR_CHECK(remove_if_there(volume, tag));
    }
  }
  return remove_if_there(volume, tag + std::string(import_ending));
}

/// Clears all imports that were interrupted.
result<void> clear_interrupted(hn4_volume& volume) {
  WEIR_TRY(const auto tags, volume.tags());
  for (const storage::hn4_tag& t : tags) {
    if (t.name.ends_with(import_ending)) {
      const std::string tag = t.name.substr(0, t.name.size() - import_ending.size());
      if (!import_mark(volume, tag).empty()) {
        WEIR_CHECK(clear_import(volume, tag));
      }
    }
  }
  return {};
}

/// Stores the weights as panels at the places of the record, which has none if the blocks
/// of the volume are too small.
/// The whole stream is built in memory, which takes about as much as the file of the
/// model.
result<void> store_panels(hn4_volume& volume, const model_source& source,
                          const storage::hn4_put_options& put,
                          const model_record& record) {
  const std::string tag = record.tag + std::string(panels_ending);
  if (record.panels.empty()) {
    // Panels of a model that was replaced would not fit to the new weights.
    return remove_if_there(volume, tag);
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

/// How far an import has come: what the volume has no longer of the model before.
enum class import_step : std::uint8_t { nothing, record, panels, weights };

/// Stores the streams of a model. The space of the record is taken first, so that no
/// weights are stored that get no record. `gone` says at any time what was removed or
/// replaced.
result<void> store_streams(hn4_volume& volume, const model_source& source,
                           const model_record& record, bool is_new,
                           const storage::hn4_put_options& put, import_step& gone) {
  const std::string text = text_of_record(record);
  const std::string mark = record.tag + std::string(import_ending);
  WEIR_CHECK(volume.put(
      mark, as_view(std::string(is_new ? mark_of_new : mark_of_old) + text), put));
  WEIR_CHECK(remove_if_there(volume, record_tag(record.tag)));
  gone = import_step::record;
  // A stream that does not fit leaves the one before it. The weights come second, because
  // the old model can be used without panels.
  WEIR_CHECK(store_panels(volume, source, put, record));
  gone = import_step::panels;
  WEIR_CHECK(volume.put(record.tag, source.bytes, put));
  gone = import_step::weights;
  // The mark stays beside the record if there is space for both, so that there is one of
  // them at any time.
  auto stored = volume.put(record_tag(record.tag), as_view(text), put);
  if (!stored && stored.error().code() == errc::no_space) {
    WEIR_CHECK(volume.remove(mark));
    stored = volume.put(record_tag(record.tag), as_view(text), put);
  }
  return stored;
}

/// Gives up an import that has failed. The record of the old model is put back as long as
/// its weights are there; without its panels if they were replaced.
/// The caller reports the first failure, so further ones are not reported.
void give_up_import(hn4_volume& volume, const std::string& tag,
                    std::optional<model_record> old, import_step gone,
                    const storage::hn4_put_options& put) {
  if (old && (gone == import_step::record || gone == import_step::panels)) {
    if (gone == import_step::panels) {
      old->panels.clear();
      // The new panels take space and belong to no weights.
      static_cast<void>(remove_if_there(volume, tag + std::string(panels_ending)));
    }
    const std::string text = text_of_record(*old);
    if (!volume.put(record_tag(tag), as_view(text), put)) {
      // The mark has the space.
      static_cast<void>(remove_if_there(volume, tag + std::string(import_ending)));
      static_cast<void>(volume.put(record_tag(tag), as_view(text), put));
    }
  }
  static_cast<void>(clear_import(volume, tag));
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
  // An interrupted import has left no model, and was allowed to replace what was there.
  WEIR_TRY(const bool interrupted, is_interrupted(volume, tag));
  if ((has_record || has_weights) && !options.replace && !interrupted) {
    return error(errc::already_exists,
                 fmt::format("cannot import a model under tag {}: expected a new tag, "
                             "found one that exists",
                             json_quote(tag)))
        .hint("choose another tag, or use --replace");
  }
  const std::string mark = tag + std::string(import_ending);
  WEIR_TRY(const bool has_mark, has_tag(volume, mark));
  if (has_mark && import_mark(volume, tag).empty()) {
    return error(errc::already_exists,
                 fmt::format("cannot import a model under tag {}: expected no tag {}, "
                             "which marks an import, found one of something else",
                             json_quote(tag), json_quote(mark)))
        .hint("choose another tag");
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
  // Blocks of the volume decide how rows are divided.
  record.panels = plan_panels(source.weights, volume.geometry().payload);
  WEIR_CHECK(clear_interrupted(volume));
  std::optional<model_record> old;
  if (has_record) {
    // A record that cannot be read is not worth keeping.
    if (auto found = read_record(volume, tag)) {
      old = std::move(*found);
    }
  }
  // Equal files give equal volumes if the time is given.
  storage::hn4_put_options put;
  put.time_ns = options.time_ns;
  WEIR_TRY(const bool is_old, has_tag(volume, tag));
  import_step gone = import_step::nothing;
  if (auto stored = store_streams(volume, source, record, !is_old, put, gone); !stored) {
    give_up_import(volume, tag, std::move(old), gone, put);
    return std::move(stored).error();
  }
  // The model is complete; the next import removes a mark that stays.
  static_cast<void>(remove_if_there(volume, tag + std::string(import_ending)));
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

namespace {

/// Returns whether a volume has the record of a model, whole or damaged. Looks for this
/// record alone, because reading all records takes long if there are many models.
bool has_record_of(const hn4_volume& volume, const std::string& tag) {
  const auto record = volume.stream(record_tag(tag));
  return record || record.error().code() != errc::not_found;
}

/// Returns the tags of all models of a volume. Damaged models count, so that none is
/// chosen silently.
result<std::vector<std::string>> tags_of_models(const hn4_volume& volume) {
  WEIR_TRY(const model_listing listing, list_models(volume));
  std::vector<std::string> tags;
  for (const model_record& m : listing.models) {
    tags.push_back(m.tag);
  }
  for (const storage::hn4_damaged_tag& t : listing.damaged) {
    tags.push_back(t.name);
  }
  return tags;
}

/// Returns tags in quotation marks, for messages.
std::string quoted_list(const std::vector<std::string>& tags) {
  std::vector<std::string> quoted;
  quoted.reserve(tags.size());
  for (const std::string& tag : tags) {
    quoted.push_back(json_quote(tag));
  }
  return fmt::format("{}", fmt::join(quoted, ", "));
}

}  // namespace

/// An empty tag is enough if the volume has a single model.
result<std::string> choose_model(const hn4_volume& volume, const std::string& tag) {
  if (!tag.empty() && has_record_of(volume, tag)) {
    return tag;
  }
  WEIR_TRY(const std::vector<std::string> tags, tags_of_models(volume));
  if (tags.empty()) {
    return error(errc::not_found,
                 tag.empty()
                     ? "cannot choose a model: expected one in the volume, found none"
                     : fmt::format("cannot find model {}: expected a model of that tag "
                                   "in the volume, found no model at all",
                                   json_quote(tag)))
        .hint("store one with weir model import");
  }
  if (!tag.empty()) {
    // A damaged record may be found in the list alone.
    if (std::find(tags.begin(), tags.end(), tag) != tags.end()) {
      return tag;
    }
    return error(errc::not_found,
                 fmt::format("cannot find model {}: expected the tag of a model in the "
                             "volume ({}), found none of that name",
                             json_quote(tag), quoted_list(tags)));
  }
  if (tags.size() > 1) {
    return error(errc::invalid_argument,
                 fmt::format("cannot choose a model: expected one in the volume, found "
                             "{}: {}",
                             tags.size(), quoted_list(tags)))
        .hint("name one with --tag");
  }
  return tags.front();
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
