// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `hn4.put`: each item becomes a tag of an HN4 volume.
///
/// A tag is durable when `put` returns, because HN4 writes it at once. There is therefore
/// nothing to cut after a crash: tags of items behind the checkpoint are left in place,
/// and a resumed run stores the same bytes under the same names. `again_` is true as long
/// as the run may meet such tags; equal ones are not written a second time.
#include <algorithm>

#include "stages/factories.hpp"
#include "stages/name_pattern.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view hn4_put_name = "hn4.put";
/// The part of the state that holds the name of the last tag.
constexpr const char* tag_part = "TAG";

/// How a tag holds an item.
enum class tag_format : std::uint8_t { safetensors, raw };

/// See the table for the meaning of each.
struct put_settings {
  std::string path;
  std::string tag = "{item:8}";
  std::string tensor = "x";
  std::string type = "any";
  tag_format format = tag_format::safetensors;
  bool compress = false;
  std::uint64_t capacity = storage::hn4_format_options().capacity;
};

/// Rule of settings with names in braces.
bool is_pattern(const std::string& text) {
  return name_pattern::parse(text).has_value();
}

settings_table<put_settings> put_table() {
  // The limits are those of the usual profile.
  const storage::hn4_limits limits = storage::limits_of(storage::hn4_profile::generic);
  settings_table<put_settings> table("the sink hn4.put");
  table
      .add("path", &put_settings::path,
           "the volume: a block device, or an image file, which is made if it is missing")
      .required()
      .path(path_use::output);
  table
      .add("tag", &put_settings::tag,
           "name of the tag of an item; {item} stands for the number of the item, "
           "{item:8} for the number with at least 8 digits, {NAME} for an attribute")
      .rule("with names in braces", is_pattern);
  table
      .add("tensor", &put_settings::tensor,
           "name of the tensor in its tag, with the same names in braces")
      .rule("with names in braces", is_pattern);
  table
      .add("type", &put_settings::type,
           "type of the tensors, such as f32[n,4]; any: every type")
      .rule("that is a type of a port", is_port_type);
  table.add("format", &put_settings::format,
            {{"safetensors", tag_format::safetensors}, {"raw", tag_format::raw}},
            "safetensors: a file with type and shape, which hn4.tensors reads; raw: the "
            "elements alone");
  table.add("compress", &put_settings::compress,
            "true to compress the blocks that become shorter");
  // A volume may be larger than the items need, for later runs.
  table.add("capacity", &put_settings::capacity, "size of a volume that is made")
      .range(static_cast<std::int64_t>(limits.min), std::int64_t{1} << 50)
      .multiple_of(512)
      .unit("bytes");
  return table;
}

/// Position of the sink; the name of the last tag belongs to it.
struct put_offset {
  std::uint64_t items = 0;   ///< items of the run so far
  std::uint64_t digest = 0;  ///< XXH3-64 of the bytes of the last tag
};

/// Owns the volume from the opening on. No other stage of the pipeline may write to it.
class hn4_put final : public flow::stage_object {
 public:
  hn4_put(put_settings settings, name_pattern tag, name_pattern tensor,
          device_opener open_device)
      : settings_(std::move(settings)),
        tag_(std::move(tag)),
        tensor_(std::move(tensor)),
        open_device_(std::move(open_device)) {}

  /// A resumed run opens the volume in `rewind`, which knows whether it must exist.
  result<void> open(opening& run) override {
    path_ = run.path(settings_.path);
    seed_ = run.seed();
    return run.resuming() ? result<void>() : open_or_make();
  }
  /// The name of the tag may be a new one even if the item fails, for the message.
  result<void> put(taken& t) override {
    auto stored = store(t);
    if (!stored) {
      const errc code = stored.error().root().code();
      return error(code, fmt::format("cannot store the tag \"{}\" in the volume \"{}\"",
                                     last_tag_, path_))
          .because(std::move(stored.error()));
    }
    ++offset_.items;
    // Without a change, an error of the volume keeps its code in the message.
    return {};
  }
  /// Every tag is durable when `put` returns.
  result<flow::small_record> settle() override {
    return flow::small_record::holding(offset_);
  }
  /// Tags of later items stay: the resumed run stores the same bytes under the same names
  /// again.
  /// The state has the name of the last tag, so it can be looked for.
  result<void> rewind(bytes_view stored) override {
    WEIR_TRY(offset_, record_of<put_offset>(stored, hn4_put_name, "offset"));
    // Before the first item, the volume may still be missing.
    if (offset_.items == 0) {
      return open_or_make();
    }
    auto opened = open_volume();
    // A volume that is missing now has lost the tags of the checkpoint.
    if (!opened && opened.error().root().code() == errc::not_found) {
      return lost(std::move(opened.error()));
    }
    WEIR_CHECK(opened);
    return check_last();
  }

  /// The volume is opened for reading only, so a finished run changes nothing.
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& state) override {
    WEIR_CHECK(restore_state(state));
    WEIR_TRY(offset_, record_of<put_offset>(stored, hn4_put_name, "offset"));
    if (offset_.items == 0) {
      return true;
    }
    // Opening for reading does not repair or change the volume.
    path_ = run.path(settings_.path);
    auto opened = open_volume(storage::device_mode::read_only);
    if (!opened && opened.error().root().code() == errc::not_found) {
      return lost(std::move(opened.error()));
    }
    WEIR_CHECK(opened);
    WEIR_CHECK(check_last());
    return true;
  }

  /// The name is of any length, hence a part of the state and not of the offset.
  result<void> copy_state(flow::state_writer& to) override {
    const bytes_view name = as_view(last_tag_);
    std::copy(name.begin(), name.end(), to.add(tag_part, name.size()).begin());
    return {};
  }
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(const bytes_view name, from.part(tag_part));
    // The name may be empty, before the first item.
    last_tag_ = as_text(name);
    return {};
  }

 private:
  /// Tests open devices of their own.
  result<void> open_volume(storage::device_mode mode = storage::device_mode::writable) {
    WEIR_TRY(auto device,
             open_device_ ? open_device_(path_) : storage::open_file_device(path_, mode));
    WEIR_TRY(auto volume, storage::hn4_volume::open(std::move(device), mode));
    volume_.emplace(std::move(volume));
    return {};
  }
  /// Opens the volume. One that is missing is made; its bytes depend on the settings and
  /// the seed of the run alone.
  /// The identity of the volume comes from the seed, and its time is 0, so that two runs
  /// make equal volumes.
  result<void> open_or_make() {
    auto opened = open_volume();
    // Any other error than a missing volume is not answered by making one.
    if (opened || opened.error().root().code() != errc::not_found) {
      return opened;
    }
    storage::hn4_format_options options;
    options.capacity = settings_.capacity;
    // Two stages with volumes of their own get different identities.
    options.uuid_seed = seed_ ^ xxh3_64(as_view(settings_.path + '\n' + settings_.tag));
    options.time_ns = 0;
    WEIR_CHECK(storage::hn4_format(path_, options));
    return open_volume();
  }

  /// Stores an item under its tag. From the first difference on, tags are always written.
  result<void> store(const taken& t) {
    WEIR_TRY(last_tag_, tag_.name_of(t.seq(), t.about()));
    WEIR_TRY(const byte_vector content, encode(t));
    offset_.digest = xxh3_64(content);
    // A tag of a run before that is equal needs no second copy.
    if (again_ && holds(content)) {
      return {};
    }
    again_ = false;
    // The time of a tag is 0, so that two runs make the same bytes.
    storage::hn4_put_options options;
    options.compress = settings_.compress;
    options.time_ns = 0;
    return volume_->put(last_tag_, content, options);
  }
  /// Returns the bytes of a tag: a safetensors file of one tensor, or the elements.
  [[nodiscard]] result<byte_vector> encode(const taken& t) const {
    const runtime::tensor& x = t[any_in{0}];
    WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
    const bytes_view data(x.data(), static_cast<std::size_t>(bytes));
    // Raw elements have neither name nor type.
    if (settings_.format == tag_format::raw) {
      return byte_vector(data.begin(), data.end());
    }
    WEIR_TRY(const std::string name, tensor_.name_of(t.seq(), t.about()));
    return storage::make_safetensors(name, x.type(), x.shape(), data);
  }
  /// Returns whether the tag is there with exactly these bytes, as a run before has left
  /// it. It is then not stored again, which would need space for a second copy.
  /// Reading is cheaper than writing, and verifies the blocks as well.
  [[nodiscard]] bool holds(bytes_view content) const {
    const auto stream = volume_->stream(last_tag_);
    // A tag that is damaged or has another size differs.
    if (!stream || stream->size() != content.size()) {
      return false;
    }
    const auto found = stream->read_all();
    return found && std::equal(found->begin(), found->end(), content.begin());
  }
  /// The last tag before the checkpoint must be there. Its bytes can be compared unless a
  /// later item may have the same name.
  /// A name without the number of the item can be used by several items.
  [[nodiscard]] result<void> check_last() const {
    // The tag may have been removed, or damaged.
    const auto stream = volume_->stream(last_tag_);
    if (!stream) {
      return lost(stream.error());
    }
    if (!tag_.is_unique()) {
      return {};
    }
    WEIR_TRY(const byte_vector found, stream->read_all());
    // The digest is that of the whole tag.
    if (xxh3_64(found) != offset_.digest) {
      return error(errc::hash_mismatch,
                   fmt::format("cannot continue to store in the volume \"{}\": expected "
                               "the bytes that the checkpoint knows under the tag "
                               "\"{}\", found other bytes",
                               path_, last_tag_));
    }
    return {};
  }

  /// Error of a tag that the checkpoint counts on.
  [[nodiscard]] error lost(error cause) const {
    return error(
               errc::torn,
               fmt::format("cannot continue to store in the volume \"{}\": expected the "
                           "tag \"{}\" of the last item, found none that is whole",
                           path_, last_tag_))
        .hint("restore the volume, or begin the run anew")
        .because(std::move(cause));
  }

  put_settings settings_;
  name_pattern tag_;
  /// Pattern of the name of the tensor in a safetensors file.
  name_pattern tensor_;
  device_opener open_device_;
  std::string path_;
  /// Seed of the run.
  std::uint64_t seed_ = 1;
  /// Empty until the volume is open.
  std::optional<storage::hn4_volume> volume_;
  put_offset offset_;
  std::string last_tag_;  ///< of the last item; empty before the first
  bool again_ = true;     ///< tags so far were those of a run before
};

/// Further paragraphs of the reference of `hn4.put`.
constexpr std::string_view hn4_put_details =
    R"(The inlet has the type of the setting.

In a name, `{item}` stands for the number of the item, `{item:8}` for the number with
at least 8 digits, so that the order of the names is that of the items, and `{NAME}`
for the attribute NAME; an item without the attribute fails. If several items have one
name, the last one counts. Other tags of the volume stay. `weir hn4 mkfs` makes
volumes of other profiles, also smaller ones.

Each tag is durable before the next item is taken, and a crash leaves it whole or
absent. The offset holds the number of items and the XXH3 digest of the last tag, and
the state holds its name. A resumed run must find that tag: a missing one is `torn`,
and other bytes are `hash_mismatch` if the name is made of `{item}` and no attribute.
A finished run that is resumed compares the same and changes nothing. One stage of a
pipeline may write to a volume. Tags of later items stay, because the run stores the
same bytes under the same names again. From its first item on, a run leaves tags in
place that have the right bytes already, until the first one that is missing or
differs. No stage asks a clock, so a tag has the creation time 0, or that of the tag
which it replaces. A source of the same pipeline should read another volume: a tag
that is replaced while it is read is an error of the source.)";

/// A small pipeline with `hn4.put`.
constexpr std::string_view hn4_put_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "store"
use = "hn4.put"
path = "fields.hn4"
tag = "run7/{item:6}"
tensor = "temperature"
)";

}  // namespace

/// Makes the sink. Both patterns are read again here, after the rules have accepted them.
result<void> make_hn4_put(flow::described_stage& made, const given_settings& given,
                          device_opener open_device) {
  made.info.name = hn4_put_name;
  made.info.documentation = "stores each item under a tag of an HN4 volume";
  made.info.face = flow::face::sink;
  made.info.details = hn4_put_details;
  made.info.example = hn4_put_example;
  made.info.state = {{tag_part, false}};
  WEIR_TRY(put_settings settings, flow::read_settings(made.info, put_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", std::move(type), true}};
  WEIR_TRY(auto tag, name_pattern::parse(settings.tag));
  WEIR_TRY(auto tensor, name_pattern::parse(settings.tensor));
  made.object = std::make_unique<hn4_put>(std::move(settings), std::move(tag),
                                          std::move(tensor), std::move(open_device));
  return {};
}

}  // namespace weir::actors
