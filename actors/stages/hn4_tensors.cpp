// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `hn4.tensors`: tensors of the files that a volume stores.
///
/// The tensors are collected when the source is opened: all those of the chosen tags,
/// then by name or by pattern. The position is a number in this list, with a digest over
/// the descriptions of all tensors before it.
#include <algorithm>

#include "stages/factories.hpp"
#include "stages/source_parts.hpp"
#include "stages/text_match.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view hn4_tensors_name = "hn4.tensors";

/// See the table.
struct tensors_settings {
  std::string path;
  std::string tag;
  std::vector<std::string> names;
  std::string pattern = "*";
  std::string type = "any";
};

/// The volume, and which of its tensors.
settings_table<tensors_settings> tensors_table() {
  settings_table<tensors_settings> table("the source hn4.tensors");
  table
      .add("path", &tensors_settings::path, "the volume: an image file or a block device")
      .required()
      .path(path_use::input);
  table.add("tag", &tensors_settings::tag,
            "tag of the stored file; empty: all tags in the order of their names");
  table
      .add("names", &tensors_settings::names,
           "tensors in the order in which they are read; none: by pattern")
      .single();
  table.add("pattern", &tensors_settings::pattern,
            "tensors in the order of the stored file whose names match; * stands for any "
            "text, ? for one character");
  table
      .add("type", &tensors_settings::type,
           "type of the tensors, such as f32[n,4]; any: as the stages behind it need")
      .rule("that is a type of a port", is_port_type);
  return table;
}

/// A tensor that the source will read.
struct entry {
  std::size_t stream = 0;  ///< index of the stream of its tag
  storage::stored_tensor tensor;
};

/// Position of the source.
struct tensors_cursor {
  std::uint64_t next = 0;      ///< tensors so far
  std::uint64_t identity = 0;  ///< digest of the descriptions of these tensors
  std::uint64_t digest = 0;    ///< digest of the bytes of the last one
};

/// Owns the streams of all tags that it reads from.
class hn4_tensors final : public flow::stage_object {
 public:
  explicit hn4_tensors(tensors_settings settings) : settings_(std::move(settings)) {}

  /// Collects the tensors. Nothing of their elements is read yet.
  result<void> open(opening& run) override {
    const std::string path = path_of(run, settings_.path);
    // Opening for reading does not change the volume.
    WEIR_TRY(const auto volume, storage::hn4_volume::open(path));
    std::vector<entry> all;
    // The tags are read in the order of their names.
    if (!settings_.tag.empty()) {
      WEIR_CHECK(add_tag(volume, settings_.tag, all));
    } else {
      WEIR_TRY(const auto tags, volume.tags());
      for (const storage::hn4_tag& tag : tags) {
        WEIR_CHECK(add_tag(volume, tag.name, all));
      }
    }
    // Names give the order; a pattern keeps that of the volume.
    if (!settings_.names.empty()) {
      return choose_by_name(all, path);
    }
    // A pattern keeps all tensors that match.
    std::copy_if(
        all.begin(), all.end(), std::back_inserter(entries_),
        [&](const entry& e) { return text_matches(settings_.pattern, e.tensor.name); });
    if (entries_.empty()) {
      return error(errc::not_found,
                   fmt::format("cannot read tensors of \"{}\": expected names that match "
                               "\"{}\", found none among {}",
                               path, settings_.pattern, all.size()));
    }
    return {};
  }
  /// Reads the next tensor into an item of its type and shape.
  // The list is fixed since `open`.
  result<bool> next(pull& p) override {
    if (next_ == entries_.size()) {
      return false;
    }
    const entry& e = entries_[next_];
    // A tensor of a file can have more dimensions than an item.
    if (e.tensor.shape.size() > runtime::max_dims) {
      return error(errc::unsupported,
                   fmt::format("cannot read the tensor \"{}\": expected at most {} "
                               "dimensions, found {}",
                               e.tensor.name, runtime::max_dims, e.tensor.shape.size()));
    }
    // Type and shape of an item are those of the tensor.
    WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, e.tensor.type, e.tensor.shape));
    const mutable_bytes to(x.data(), static_cast<std::size_t>(e.tensor.bytes));
    WEIR_CHECK(read(e, 0, to));
    attribute_collector about(p.emitted());
    about.add("name", e.tensor.name);
    about.add("tag", streams_[e.stream].tag());
    // The digest of this tensor is part of the position.
    digest_ = xxh3_64(to);
    ++next_;
    return true;
  }
  /// The tensors so far, their descriptions, and the last one.
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(tensors_cursor{next_, identity(next_), digest_});
  }
  /// Continues behind the tensors that the cursor counts, if their descriptions are the
  /// same and the last one has the same bytes.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto cursor,
             record_of<tensors_cursor>(stored, hn4_tensors_name, "cursor"));
    // The volume has fewer tensors than were read.
    if (cursor.next > entries_.size()) {
      return too_short(hn4_tensors_name, settings_.path, cursor.next, entries_.size(),
                       "tensors");
    }
    // A tensor before the cursor has changed its description.
    if (identity(cursor.next) != cursor.identity) {
      return other_data(hn4_tensors_name, settings_.path,
                        "the tensors that the run has read before", "others");
    }
    if (cursor.next != 0) {
      const entry& last = entries_[cursor.next - 1];
      // The last tensor is one block as far as the comparison is concerned.
      WEIR_CHECK(verify_block({last.tensor.bytes, last.tensor.bytes, cursor.digest},
                              last.tensor.bytes, hn4_tensors_name, last.tensor.name,
                              [&](std::uint64_t offset, mutable_bytes to) {
                                return read(last, offset, to);
                              }));
    }
    // The next tensor is behind the last one that was read.
    next_ = cursor.next;
    digest_ = cursor.digest;
    return {};
  }

 private:
  /// Adds the tensors of a tag. A tag without a directory of tensors is an error here.
  result<void> add_tag(const storage::hn4_volume& volume, const std::string& tag,
                       std::vector<entry>& all) {
    // Each tag has a stream, and each tensor refers to it by number.
    WEIR_TRY(auto stream, volume.stream(tag));
    // A stored file that is neither safetensors nor GGUF.
    WEIR_TRY(const auto directory, storage::tensor_directory::from_stream(stream));
    for (const storage::stored_tensor& one : directory.tensors()) {
      all.push_back({streams_.size(), one});
    }
    streams_.push_back(std::move(stream));
    return {};
  }
  /// A name must belong to exactly one tensor.
  result<void> choose_by_name(const std::vector<entry>& all, const std::string& path) {
    for (const std::string& name : settings_.names) {
      const auto has_name = [&](const entry& e) { return e.tensor.name == name; };
      const auto found = std::find_if(all.begin(), all.end(), has_name);
      // The message suggests the most similar name.
      if (found == all.end()) {
        std::vector<std::string> known;
        known.reserve(all.size());
        for (const entry& e : all) {
          known.push_back(e.tensor.name);
        }
        return error(errc::not_found,
                     fmt::format("cannot read the tensor \"{}\" of \"{}\": expected it "
                                 "among {} tensors, found none of that name{}",
                                 name, path, all.size(), did_you_mean(name, known)));
      }
      // The name occurs a second time, in another tag or in the same one.
      if (std::any_of(found + 1, all.end(), has_name)) {
        return error(
                   errc::invalid_argument,
                   fmt::format("cannot read the tensor \"{}\" of \"{}\": expected it in "
                               "one tag, found it in several",
                               name, path))
            .hint("set tag");
      }
      entries_.push_back(*found);
    }
    return {};
  }
  /// Reads bytes of a tensor; `offset` counts from its first byte.
  [[nodiscard]] result<void> read(const entry& e, std::uint64_t offset,
                                  mutable_bytes to) const {
    WEIR_TRY(const std::size_t count,
             streams_[e.stream].read(e.tensor.offset + offset, to));
    // The stream ends before the tensor.
    if (count != to.size()) {
      return error(
          errc::torn,
          fmt::format("cannot read the tensor \"{}\": expected {} bytes, found {}",
                      e.tensor.name, to.size(), count));
    }
    return {};
  }
  /// Digest of the descriptions of the first `count` tensors. Names, types, shapes and
  /// sizes count; elements do not.
  [[nodiscard]] std::uint64_t identity(std::uint64_t count) const {
    xxh3_stream digest;
    // The text of a description is fixed, so digests of older runs stay valid.
    for (std::uint64_t i = 0; i < count; ++i) {
      const entry& e = entries_[i];
      digest.update(as_view(fmt::format("{}\n{}\n{} [{}] {}\n", streams_[e.stream].tag(),
                                        e.tensor.name, e.tensor.type_name,
                                        fmt::join(e.tensor.shape, ","), e.tensor.bytes)));
    }
    return digest.digest();
  }

  tensors_settings settings_;
  std::vector<storage::hn4_stream> streams_;
  std::vector<entry> entries_;
  std::uint64_t next_ = 0;
  std::uint64_t digest_ = 0;  ///< of the bytes of the last tensor
};

/// Further paragraphs of the reference of `hn4.tensors`.
constexpr std::string_view hn4_tensors_details =
    R"(Outlet `x` has the type of the setting. Bytes are read straight into the memory
of the item. Tensors of quantised types are bytes.

Attributes: `name` and `tag`. The cursor holds the number of tensors, a digest of
their descriptions, and the XXH3 digest of the last one.)";

/// A small pipeline with `hn4.tensors`.
constexpr std::string_view hn4_tensors_example = R"([[stage]]
name = "weights"
use = "hn4.tensors"
path = "model.hn4"
pattern = "layer*"

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

/// Makes the source. Names and a pattern exclude each other.
result<void> make_hn4_tensors(flow::described_stage& made, const given_settings& given) {
  made.info = source_info(std::string(hn4_tensors_name),
                          "reads tensors of safetensors and GGUF files in an HN4 volume");
  made.info.details = hn4_tensors_details;
  made.info.example = hn4_tensors_example;
  WEIR_TRY(tensors_settings settings,
           flow::read_settings(made.info, tensors_table(), given));
  // A pattern is only wrong beside names if the user has set it.
  if (!settings.names.empty() && given.find("pattern") != given.end()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make hn4.tensors: expected names or a pattern, found "
                    "{} and \"{}\"",
                    counted(settings.names.size(), "name"), settings.pattern));
  }
  // The rule of the setting has accepted it already.
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", std::move(type), false}};
  made.object = std::make_unique<hn4_tensors>(std::move(settings));
  return {};
}

}  // namespace weir::actors
