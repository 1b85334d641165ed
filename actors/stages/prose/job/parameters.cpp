// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parameters of a model: reading them from checkpoints, encoding them as Tensogram
/// messages, and storing them in HN4 volumes.
///
/// Parameters travel as one Tensogram message: an object per parameter with its name, and
/// the text of the model's settings in the metadata of the message. The digest over
/// names, shapes and bytes identifies them, wherever they are stored.
#include <fmt/core.h>

#include <algorithm>

#include "stages/prose/job/stored_config.hpp"
#include "stages/prose/job/stored_model.hpp"
#include "weir/actors/models.hpp"
#include "weir/actors/speak.hpp"
#include "weir/actors/system.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/storage/block_device.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::actors {

namespace {

/// Key of the message's metadata under which the text of the model's settings is stored.
constexpr const char* model_key = "model";

/// Copies the parameters of a model.
/// Contexts, moments and counters are no parameters and stay behind.
result<parameter_set> parameters_of(models::prose& model, std::string text) {
  parameter_set set;
  set.model = std::move(text);
  models::parameter_digest digest;
  for (const models::named_region& region : model.regions()) {
    if (region.kind != models::region_kind::parameter) {
      continue;
    }
    WEIR_TRY(const runtime::tensor t, model.parameter(region.name));
    // The message has the elements in row-major order.
    if (!t.row_major()) {
      return error(errc::internal,
                   fmt::format("copying parameter {} failed: expected rows in order",
                               region.name));
    }
    parameter_set::entry e;
    e.name = region.name;
    e.shape.assign(t.shape().begin(), t.shape().end());
    const auto bytes = static_cast<std::size_t>(t.count()) * sizeof(float);
    e.bytes.assign(t.data(), t.data() + bytes);
    digest.add(e.name, e.shape, e.bytes);
    set.entries.push_back(std::move(e));
  }
  set.hash = digest.value();
  return set;
}

/// Reads an object of the message. Its shape is compared later, by the model.
result<parameter_set::entry> decode_entry(const formats::message_reader& reader,
                                          std::size_t i) {
  parameter_set::entry e;
  const auto& descriptor = reader.descriptor(i);
  const formats::cbor_value* name = reader.metadata(i).find("name");
  if (name == nullptr || name->text() == nullptr) {
    return error(errc::corrupt,
                 fmt::format("reading object {} failed: expected a name, found none", i));
  }
  e.name = *name->text();
  if (descriptor.type != dtype::fp32) {
    return error(errc::corrupt,
                 fmt::format("reading parameter {} failed: expected fp32, found {}",
                             e.name, info_of(descriptor.type).tensogram));
  }
  e.shape = descriptor.shape;
  WEIR_TRY(e.bytes, reader.decode(i));
  return e;
}

/// Reads a whole tag of a volume through a volume reader.
/// The actor system exists for this call only.
result<byte_vector> read_tag(const std::string& volume, const std::string& tag) {
  WEIR_TRY(auto system, actor_system::start({std::chrono::seconds(60), {}}));
  WEIR_TRY(const auto reader, system.spawn_volume_reader({.workers = 1}));
  WEIR_TRY(const auto opened, reader.open({volume, {tag}, {}, 0}).get());
  const opened_stream& stream = opened.front();
  auto all = std::make_shared<byte_vector>(static_cast<std::size_t>(stream.bytes));
  WEIR_CHECK(reader.fill({stream.stream, 0, {mutable_bytes(*all), all, {}}}).get());
  return std::move(*all);
}

/// Refuses a tag that holds a model of another architecture, with the command that uses
/// it. A volume or a tag that cannot be opened is left to `read_tag`, which says why.
result<void> refuse_other_model(const std::string& volume, const std::string& tag) {
  auto device = storage::open_mapped_device(volume);
  if (!device) {
    return {};
  }
  const auto mapped =
      storage::hn4_volume::open(std::move(*device), storage::device_mode::read_only);
  const auto model = mapped ? model_in_volume::open(*mapped, tag)
                            : result<model_in_volume>(mapped.error());
  if (!model) {
    return {};
  }
  const models::architecture found = model->record().facts.family;
  return error(errc::unsupported,
               fmt::format("cannot load the parameters of tag {} from {}: expected those "
                           "of a run, which `weir store` stores, found a {} model",
                           json_quote(tag), json_quote(volume), name_of(found)))
      .hint(found == models::architecture::llama ? "`weir chat` speaks with it"
                                                 : "`weir embed` computes with it");
}

}  // namespace

/// Reads the parameters of the newest checkpoint of a run.
result<parameter_set> parameters_of_run(const std::string& folder) {
  WEIR_TRY(auto stored, open_stored_model(folder));
  return parameters_of(*stored.model, model_text(stored.model->config()));
}

/// Writes parameters as one Tensogram message: an object per parameter, with its name in
/// the metadata, and the text that describes the model's shape.
/// The objects refer to the bytes of `parameters`.
result<byte_vector> encode_parameters(const parameter_set& parameters) {
  std::vector<formats::object_to_write> objects;
  for (const parameter_set::entry& e : parameters.entries) {
    formats::object_to_write o;
    o.descriptor.type = dtype::fp32;
    o.descriptor.shape = e.shape;
    o.metadata.set("name", e.name);
    o.data = e.bytes;
    objects.push_back(std::move(o));
  }
  formats::message_options options;
  options.extra.set(model_key, parameters.model);
  return formats::encode_message(objects, options);
}

/// Reads parameters from a message, and computes their digest anew, so that it describes
/// what was read. All errors get the place the message came from.
result<parameter_set> decode_parameters(bytes_view message, const std::string& origin) {
  auto decode = [&]() -> result<parameter_set> {
    WEIR_TRY(const auto reader, formats::message_reader::open(message));
    parameter_set set;
    const formats::cbor_value* text = reader.metadata().extra.find(model_key);
    if (text == nullptr || text->text() == nullptr) {
      return error(errc::corrupt,
                   "reading the message failed: expected the model's shape, found none");
    }
    set.model = *text->text();
    models::parameter_digest digest;
    // The order of the objects counts for the digest.
    for (std::size_t i = 0; i < reader.object_count(); ++i) {
      WEIR_TRY(auto e, decode_entry(reader, i));
      digest.add(e.name, e.shape, e.bytes);
      set.entries.push_back(std::move(e));
    }
    set.hash = digest.value();
    return set;
  };
  auto set = decode();
  if (!set) {
    return error(set.error().code(), "reading the parameters failed")
        .located(origin)
        .because(set.error());
  }
  return set;
}

/// Writes the parameters of a run under a tag of a volume, which is created if it does
/// not exist. Returns the digest of the parameters.
result<std::uint64_t> store_parameters(const std::string& run_folder,
                                       const std::string& volume,
                                       const std::string& tag) {
  WEIR_TRY(const auto parameters, parameters_of_run(run_folder));
  WEIR_TRY(const auto message, encode_parameters(parameters));
  // A new volume gets space for several messages of this size.
  if (!posix_file_system().exists(volume)) {
    constexpr std::uint64_t block = 4096;
    storage::hn4_format_options options;
    options.capacity =
        std::max(options.capacity, align_up<std::uint64_t>(message.size() * 4, block));
    WEIR_CHECK(storage::hn4_format(volume, options));
  }
  WEIR_TRY(auto open, storage::hn4_volume::open(volume, storage::device_mode::writable));
  WEIR_CHECK(open.put(tag, message));
  return parameters.hash;
}

/// Errors name volume and tag.
result<parameter_set> load_parameters(const std::string& volume, const std::string& tag) {
  WEIR_CHECK(refuse_other_model(volume, tag));
  WEIR_TRY(const byte_vector message, read_tag(volume, tag));
  return decode_parameters(message, volume + ":" + tag);
}

}  // namespace weir::actors
