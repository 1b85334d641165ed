// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `hn4.rows`: rows of one tensor that a volume stores.
///
/// Rows are elements of the slowest dimension of one tensor, whose place in the stream
/// follows from the directory of its file. `rows` of them make an item.
#include <algorithm>

#include "stages/factories.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view hn4_rows_name = "hn4.rows";

/// See the table for the meaning of each.
struct rows_settings {
  std::string path;
  std::string tag;
  std::string name;
  std::uint64_t rows = 1;
  std::string type = "any";
};

/// The volume, the tensor, and the rows of an item.
settings_table<rows_settings> rows_table() {
  settings_table<rows_settings> table("the source hn4.rows");
  table.add("path", &rows_settings::path, "the volume: an image file or a block device")
      .required()
      .path(path_use::input);
  table.add("tag", &rows_settings::tag,
            "tag of the stored file; empty: the only one with a tensor of the name");
  table.add("tensor", &rows_settings::name, "name of the tensor").required();
  table
      .add("rows", &rows_settings::rows,
           "elements of the slowest dimension in an item; the last item may have fewer")
      .range(1, std::int64_t{1} << 40)
      .unit("rows");
  table
      .add("type", &rows_settings::type,
           "type of the items, such as f32[?,4]; any: as the stages behind it need")
      .rule("that is a type of a port", is_port_type);
  return table;
}

/// Position of the source.
struct rows_cursor {
  std::uint64_t rows = 0;  ///< rows so far
  std::uint64_t form = 0;  ///< digest of the description of the tensor
  read_block last;         ///< the last item, as bytes of the tensor
};

/// Reads one tensor forward.
class hn4_rows final : public flow::stage_object {
 public:
  explicit hn4_rows(rows_settings settings) : settings_(std::move(settings)) {}

  /// Finds the tensor: in the tag of the setting, or in exactly one of all tags.
  result<void> open(opening& run) override {
    const std::string path = path_of(run, settings_.path);
    // Opening for reading does not change the volume.
    WEIR_TRY(const auto volume, storage::hn4_volume::open(path));
    std::vector<std::string> tags{settings_.tag};
    // Without a tag, every tag is a candidate.
    if (settings_.tag.empty()) {
      WEIR_TRY(const auto all, volume.tags());
      tags.clear();
      for (const storage::hn4_tag& one : all) {
        tags.push_back(one.name);
      }
    }
    // All tags are looked at, so that a name in two tags is an error and no choice.
    for (const std::string& tag : tags) {
      WEIR_CHECK(look_in(volume, tag, path));
    }
    // The message has the most similar name.
    if (!stream_) {
      return error(errc::not_found,
                   fmt::format("cannot read rows of \"{}\": expected the tensor \"{}\" "
                               "among {}, found none of that name{}",
                               path, settings_.name, known_.size(),
                               did_you_mean(settings_.name, known_)));
    }
    // Rows are elements of the slowest dimension, so a scalar has none.
    if (tensor_.shape.empty() || tensor_.shape.size() > runtime::max_dims) {
      return error(errc::unsupported,
                   fmt::format("cannot read rows of the tensor \"{}\": expected 1 to {} "
                               "dimensions, found {}",
                               settings_.name, runtime::max_dims, tensor_.shape.size()));
    }
    // A tensor has whole rows, so the division leaves no rest.
    row_bytes_ = tensor_.shape[0] == 0 ? 0
                                       : static_cast<std::uint64_t>(tensor_.bytes) /
                                             static_cast<std::uint64_t>(tensor_.shape[0]);
    return {};
  }
  /// Reads the next rows into an item; the last item may have fewer.
  result<bool> next(pull& p) override {
    // Zero rows are possible; then there is no item.
    const std::uint64_t left = static_cast<std::uint64_t>(tensor_.shape[0]) - at_.rows;
    // All rows have been read.
    if (left == 0) {
      return false;
    }
    const std::uint64_t count = std::min(left, settings_.rows);
    // The item has the shape of the tensor, but for the slowest dimension.
    std::vector<std::int64_t> shape(tensor_.shape.begin(), tensor_.shape.end());
    shape[0] = static_cast<std::int64_t>(count);
    WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, tensor_.type, shape));
    const mutable_bytes to(x.data(), static_cast<std::size_t>(count * row_bytes_));
    WEIR_CHECK(read(at_.rows * row_bytes_, to));
    // Attributes come after the elements, because adding them cannot fail.
    attribute_collector about(p.emitted());
    about.add("row", at_.rows);
    at_.rows += count;
    // The cursor describes the tensor as well as the last item.
    at_.form = form();
    at_.last = {at_.rows * row_bytes_, to.size(), xxh3_64(to)};
    return true;
  }
  /// The rows so far, the tensor, and the last item.
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(at_);
  }
  /// Continues behind the rows of the cursor, if the tensor is the same.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto where, record_of<rows_cursor>(stored, hn4_rows_name, "cursor"));
    // No item was read before this cursor.
    if (where.rows == 0) {
      return {};
    }
    // The tensor has fewer rows than were read.
    if (where.rows > static_cast<std::uint64_t>(tensor_.shape[0])) {
      return too_short(hn4_rows_name, settings_.name, where.rows,
                       static_cast<std::uint64_t>(tensor_.shape[0]), "rows");
    }
    // The tensor was replaced by one of another form.
    if (where.form != form()) {
      return other_data(hn4_rows_name, settings_.name,
                        "the type and the shape that the run has read before", "others");
    }
    // The last item is compared, at its place inside the tensor.
    WEIR_CHECK(verify_block(
        where.last, static_cast<std::uint64_t>(tensor_.bytes), hn4_rows_name,
        settings_.name,
        [&](std::uint64_t offset, mutable_bytes to) { return read(offset, to); }));
    at_ = where;
    return {};
  }

 private:
  /// Looks for the tensor in a tag. Tags without tensors are left out if no tag is named.
  // The stream is kept only for the tag that has the tensor.
  result<void> look_in(const storage::hn4_volume& volume, const std::string& tag,
                       const std::string& path) {
    WEIR_TRY(auto stream, volume.stream(tag));
    const auto directory = storage::tensor_directory::from_stream(stream);
    if (!directory) {
      // Without a name, tags that hold other things are no error.
      return settings_.tag.empty() ? result<void>() : result<void>(directory.error());
    }
    for (const storage::stored_tensor& one : directory->tensors()) {
      known_.push_back(one.name);
      if (one.name != settings_.name) {
        continue;
      }
      // The name was found in an earlier tag, or twice in this one.
      if (stream_) {
        return error(errc::invalid_argument,
                     fmt::format("cannot read rows of \"{}\": expected the tensor \"{}\" "
                                 "in one tag, found it in several",
                                 path, settings_.name))
            .hint("set tag");
      }
      // The search goes on, to find a second tensor of the name.
      tensor_ = one;
      stream_ = stream;
    }
    return {};
  }
  /// Reads bytes of the tensor; `offset` counts from its first byte.
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const {
    WEIR_TRY(const std::size_t count, stream_->read(tensor_.offset + offset, to));
    if (count != to.size()) {
      // The block ends before the tensor does.
      return error(errc::torn,
                   fmt::format("cannot read rows of the tensor \"{}\": expected {} bytes "
                               "at {}, found {}",
                               settings_.name, to.size(), offset, count));
    }
    return {};
  }
  /// Digest of type, shape and size, for the cursor.
  // As text, so that it can be computed on any machine.
  [[nodiscard]] std::uint64_t form() const {
    return xxh3_64(as_view(fmt::format("{} [{}] {}", tensor_.type_name,
                                       fmt::join(tensor_.shape, ","), tensor_.bytes)));
  }

  rows_settings settings_;
  std::optional<storage::hn4_stream> stream_;
  storage::stored_tensor tensor_;
  std::vector<std::string> known_;  ///< names of tensors, for messages
  std::uint64_t row_bytes_ = 0;
  rows_cursor at_;
};

/// Further paragraphs of the reference of `hn4.rows`.
constexpr std::string_view hn4_rows_details =
    R"(Outlet `x` has the type of the setting: the tensor with fewer elements in its
slowest dimension. Bytes are read straight into the memory of the item. The tensor is
one of a safetensors or GGUF file in the volume.

Attributes: `row` is the number of the first row of the item. The cursor holds the number
of rows, a digest of type and shape, and the XXH3 digest of the last item.)";

/// A small pipeline with `hn4.rows`.
constexpr std::string_view hn4_rows_example = R"([[stage]]
name = "rows"
use = "hn4.rows"
path = "model.hn4"
tensor = "layer0.weight"
rows = 2

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// Makes the source from its settings.
result<void> make_hn4_rows(flow::described_stage& made, const given_settings& given) {
  made.info = source_info(std::string(hn4_rows_name),
                          "reads rows of one tensor in an HN4 volume");
  made.info.details = hn4_rows_details;
  made.info.example = hn4_rows_example;
  WEIR_TRY(rows_settings settings, flow::read_settings(made.info, rows_table(), given));
  // The rule of the setting has accepted it already.
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", std::move(type), false}};
  made.object = std::make_unique<hn4_rows>(std::move(settings));
  return {};
}

}  // namespace weir::actors
