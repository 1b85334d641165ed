// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs the verbs of `weir model`.
///
/// Models are stored in HN4 volumes under tags. Reading verbs map the volume and print
/// its warnings as notes on standard error, so that standard output has facts alone. A
/// damaged model does not stop a verb that lists or verifies several: it is noted, and
/// the exit status is 1.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/verbs.hpp"
#include "weir/actors/model_weights.hpp"
#include "weir/actors/models.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::tools {

namespace {

using nlohmann::ordered_json;
using storage::hn4_volume;

/// Weights of at least so many bytes get a volume with blocks of 64 MiB, in which most
/// tensors lie in one piece.
constexpr std::uint64_t large_model = std::uint64_t{64} << 20;

/// Makes a volume for a model of so many bytes.
/// A large volume is a sparse file of the smallest size that the profile allows. A small
/// one has four times the bytes of the source, but at least the default size of volumes,
/// since a model is stored together with its panels and its record.
result<void> make_model_volume(const std::string& path, std::uint64_t bytes) {
  storage::hn4_format_options format;
  format.label = "models";
  if (bytes >= large_model) {
    format.profile = storage::hn4_profile::ai;
    format.capacity = storage::limits_of(format.profile).min;
  } else {
    format.capacity = std::max(format.capacity, align_up<std::uint64_t>(bytes * 4, 4096));
  }
  return storage::hn4_format(path, format);
}

/// Returns the bytes of the largest file that an import may read.
/// The number only chooses the size of a new volume. A file that cannot be read counts as
/// 0; the import itself reports it.
std::uint64_t bytes_of_source(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) {
    const auto size = std::filesystem::file_size(path, failed);
    return failed ? 0 : size;
  }
  std::uint64_t largest = 0;
  // A range-based loop would throw an exception if the folder cannot be read to its end.
  std::filesystem::directory_iterator entry(path, failed);
  while (!failed && entry != std::filesystem::directory_iterator()) {
    std::error_code unreadable;
    const auto size =
        entry->is_regular_file(unreadable) ? entry->file_size(unreadable) : 0;
    largest = unreadable ? largest : std::max<std::uint64_t>(largest, size);
    entry.increment(failed);
  }
  return largest;
}

/// Facts are written by the models module as JSON and parsed again, so that both have the
/// same keys.
ordered_json json_of_record(const actors::model_record& record) {
  ordered_json out;
  out["tag"] = record.tag;
  out["facts"] = ordered_json::parse(models::json_of(record.facts));
  out["format"] = record.files == models::weight_files::gguf ? "gguf" : "safetensors";
  out["bytes"] = record.bytes;
  out["digest"] = hex64(record.digest);
  return out;
}

std::string line_of_record(const actors::model_record& record) {
  const models::stored_facts& f = record.facts;
  return fmt::format("{}: {}, {} of {}, {} ids, {}, digest {}\n", record.tag,
                     name_of(f.family), counted(f.layers, "layer"),
                     counted(f.width, "feature"), f.vocabulary, human_bytes(record.bytes),
                     hex64(record.digest));
}

/// Notes go to standard error.
void note_damaged_model(const std::string& tag, const error& problem) {
  fmt::print(stderr, "note: model \"{}\" is damaged: {}\n", tag, problem.message());
}

/// Stores the model of the options in an existing volume.
/// The index of the volume is written last, so that readers find the new tag without a
/// scan.
result<actors::model_record> import_into(const model_options& options) {
  WEIR_TRY(hn4_volume volume,
           hn4_volume::open(options.volume, storage::device_mode::writable));
  print_notes(volume.warnings());
  WEIR_TRY(auto record, actors::import_model(volume, options.source, options.tag,
                                             {.replace = options.replace}));
  WEIR_CHECK(volume.write_index());
  return record;
}

// Reads the option `--to`.
result<models::weight_files> files_named(const std::string& name) {
  if (name == "gguf") {
    return models::weight_files::gguf;
  }
  if (name == "safetensors") {
    return models::weight_files::safetensors;
  }
  return error(
      errc::unknown_key,
      fmt::format("cannot export to {}: expected safetensors or gguf", json_quote(name)));
}

// Reads the option `--type`. Without it, the types of the volume are kept.
result<actors::model_export_type> export_type_named(const std::string& name) {
  if (name.empty()) {
    return actors::model_export_type::stored;
  }
  if (name == "f32") {
    return actors::model_export_type::f32;
  }
  if (name == "q8_0") {
    return actors::model_export_type::q8_0;
  }
  return error(
      errc::unknown_key,
      fmt::format("cannot export type {}: expected f32 or q8_0", json_quote(name)));
}

/// Reads every weight of a model, and its panels if the volume has them.
/// Panels are weights that were stored a second time in the order in which kernels read
/// them. Loading them verifies the checksums of their blocks.
result<void> verify_model(const hn4_volume& volume,
                          const actors::model_in_volume& model) {
  WEIR_CHECK(model.verify());
  if (!model.record().panels.empty()) {
    WEIR_TRY(const auto weights, actors::model_weights::load(volume, model));
  }
  return {};
}

}  // namespace

result<hn4_volume> map_model_volume(const std::string& path) {
  WEIR_TRY(auto device, storage::open_mapped_device(path));
  WEIR_TRY(hn4_volume volume,
           hn4_volume::open(std::move(device), storage::device_mode::read_only));
  print_notes(volume.warnings());
  return volume;
}

// A volume that this command has made is removed again if the import fails. A volume that
// was there before is left as the failed import left it.
command_result model_import(const model_options& options, output& out) {
  // A volume is made only if there is none; it is never formatted again.
  const bool made = !posix_file_system().exists(options.volume);
  if (made) {
    WEIR_CHECK(make_model_volume(options.volume, bytes_of_source(options.source)));
  }
  const auto record = import_into(options);
  // The volume is closed by now.
  if (!record) {
    if (made) {
      (void)posix_file_system().remove(options.volume);
    }
    return record.error();
  }
  out.write(options.json ? json_text(json_of_record(*record)) + "\n"
                         : line_of_record(*record));
  return 0;
}

command_result model_ls(const model_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, map_model_volume(options.volume));
  WEIR_TRY(const auto listing, actors::list_models(volume));
  ordered_json list = ordered_json::array();
  for (const actors::model_record& record : listing.models) {
    // With `--json`, one array of all records is printed at the end.
    if (options.json) {
      list.push_back(json_of_record(record));
    } else {
      out.write(line_of_record(record));
    }
  }
  // Damaged records follow the whole ones.
  for (const storage::hn4_damaged_tag& t : listing.damaged) {
    note_damaged_model(t.name, t.problem);
  }
  if (options.json) {
    out.write(json_text(list) + "\n");
  }
  return listing.damaged.empty() ? 0 : 1;
}

// The tags are those of whole and of damaged records, or the one that was asked for. A
// tag without a record is an error; every other problem of a tag counts as damage.
command_result model_verify(const model_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, map_model_volume(options.volume));
  WEIR_TRY(const auto listing, actors::list_models(volume));
  std::vector<std::string> tags;
  for (const actors::model_record& record : listing.models) {
    tags.push_back(record.tag);
  }
  for (const storage::hn4_damaged_tag& t : listing.damaged) {
    tags.push_back(t.name);
  }
  if (!options.tag.empty()) {
    // A tag that the user has misspelt is an error and no damage.
    WEIR_TRY(const std::string chosen, actors::choose_model(volume, options.tag));
    tags = {chosen};
  }
  bool whole = true;
  ordered_json list = ordered_json::array();
  for (const std::string& tag : tags) {
    const auto model = actors::model_in_volume::open(volume, tag);
    const auto verified =
        model ? verify_model(volume, *model) : result<void>(model.error());
    // All tags are verified, also after a damaged one.
    whole = whole && verified;
    if (!verified) {
      note_damaged_model(tag, verified.error());
    }
    list.push_back({{"tag", tag}, {"whole", verified.has_value()}});
    if (!options.json && verified) {
      out.print("{}: {} verified, digest {}\n", tag,
                counted(model->weights().size(), "weight"),
                hex64(model->record().digest));
    }
  }
  if (options.json) {
    out.write(json_text(list) + "\n");
  }
  return whole ? 0 : 1;
}

// Names are checked before the volume is opened, because they are the likelier mistakes.
command_result model_export(const model_options& options, output& out) {
  WEIR_TRY(const auto to, files_named(options.to));
  WEIR_TRY(const auto type, export_type_named(options.type));
  WEIR_TRY(const hn4_volume volume, map_model_volume(options.volume));
  WEIR_TRY(const std::string tag, actors::choose_model(volume, options.tag));
  WEIR_TRY(const auto model, actors::model_in_volume::open(volume, tag));
  // Existing files are replaced only with `--force`.
  WEIR_TRY(const auto done,
           actors::export_model(model, options.out,
                                {.to = to, .type = type, .replace = options.force}));
  if (options.json) {
    ordered_json facts;
    facts["tag"] = tag;
    facts["files"] = done.files;
    facts["bytes"] = done.bytes;
    facts["digest"] = hex64(done.digest);
    out.write(json_text(facts) + "\n");
  } else {
    out.print("{}: {} in {}, digest {}\n", tag, human_bytes(done.bytes),
              done.files.back(), hex64(done.digest));
  }
  return 0;
}

}  // namespace weir::tools
