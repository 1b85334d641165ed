// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `tgm.replace`: a file that holds the newest item as its only message.
///
/// The message itself is a part of the state, so a checkpoint needs no file. The file is
/// replaced when a checkpoint is made (`settle`), and again after a restart (`rewind`).
#include <algorithm>

#include "stages/factories.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view tgm_replace_name = "tgm.replace";
/// The part of the state that holds the newest message.
constexpr const char* message_part = "MESSAGE";

/// See the table.
struct replace_settings {
  std::string path;
  std::vector<std::string> objects = {"x"};
  std::vector<std::string> units;
  std::vector<std::string> about;
  bool must_write = true;
};

/// The lists belong together; see `check_lists`.
settings_table<replace_settings> replace_table() {
  settings_table<replace_settings> table("the sink tgm.replace");
  // The path may change, because the state holds the message.
  table.add("path", &replace_settings::path, "a file, which is created if it is missing")
      .required()
      .path(path_use::output)
      .may_change();
  table
      // Each name is an inlet.
      .add("objects", &replace_settings::objects,
           "names of the inlets, and of the objects of the message")
      .count(1, flow::max_ports)
      .single();
  table.add("units", &replace_settings::units, "unit of each object; none: no units");
  table
      .add("about", &replace_settings::about, "metadata of the message, each as key=text")
      .may_change();
  table
      .add("must_write", &replace_settings::must_write,
           "stop if the file cannot be written; false: warn, the checkpoint holds the "
           "message")
      .may_change();
  return table;
}

/// Position of the sink.
struct replace_offset {
  std::uint64_t items = 0;   ///< items of the run so far
  std::uint64_t digest = 0;  ///< XXH3-64 of the message in the file; 0 before the first
};

/// Belongs to the thread of its I/O host.
class tgm_replace final : public flow::stage_object {
 public:
  tgm_replace(replace_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  /// A file of something else is refused.
  result<void> open(opening& run) override {
    // Nothing is written before the first checkpoint.
    path_ = run.path(settings_.path);
    return tolerated(check_messages(fs_, path_));
  }
  /// Makes the message of an item and forgets the one before. The file changes later.
  result<void> put(taken& t) override {
    std::vector<formats::object_to_write> objects;
    // The objects refer to the memory of the items.
    for (std::size_t i = 0; i < settings_.objects.size(); ++i) {
      const runtime::tensor& x = t[any_in{static_cast<int>(i)}];
      WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
      formats::object_to_write& object = objects.emplace_back();
      object.descriptor.type = x.type();
      object.descriptor.shape.assign(x.shape().begin(), x.shape().end());
      object.metadata.set("name", settings_.objects[i]);
      if (!settings_.units.empty()) {
        object.metadata.set("units", settings_.units[i]);
      }
      object.data = {x.data(), static_cast<std::size_t>(bytes)};
    }
    formats::message_options options;
    // NaN and infinities are stored as they are.
    options.floats = formats::non_finite::store;
    for (const std::string& one : settings_.about) {
      const std::size_t end = one.find('=');
      // `check_lists` has made sure that there is a key.
      options.extra.set(one.substr(0, end), one.substr(end + 1));
    }
    // The bytes of the item are copied here, so it can go.
    WEIR_TRY(message_, formats::encode_message(objects, options));
    ++offset_.items;
    changed_ = true;
    return {};
  }
  /// Replaces the file, if the message has changed.
  result<flow::small_record> settle() override {
    if (changed_) {
      // By a rename, so a reader finds the old message or the new one.
      WEIR_CHECK(tolerated(write_file_atomically(fs_, path_, message_)));
      // Set even if the file could not be written and that is tolerated: the offset
      // describes the message.
      offset_.digest = xxh3_64(message_);
      changed_ = false;
    }
    return flow::small_record::holding(offset_);
  }
  /// The file may hold a later message, or may be lost; the image has the right one.
  result<void> rewind(bytes_view stored) override {
    WEIR_TRY(offset_, record_of<replace_offset>(stored, tgm_replace_name, "offset"));
    // No message was stored, so the file is left alone.
    if (offset_.items == 0) {
      return {};
    }
    // State and offset of an image belong together.
    if (xxh3_64(message_) != offset_.digest) {
      return error(
          errc::corrupt,
          fmt::format("cannot use the stored offset of {}: expected a message "
                      "of the digest {}, found {}",
                      tgm_replace_name, hex64(offset_.digest), hex64(xxh3_64(message_))));
    }
    // The file gets the message of the checkpoint, whatever it holds.
    return tolerated(write_file_atomically(fs_, path_, message_));
  }

  /// Compares the file with the message of the last item.
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    path_ = run.path(settings_.path);
    WEIR_TRY(offset_, record_of<replace_offset>(stored, tgm_replace_name, "offset"));
    if (offset_.items == 0 || !settings_.must_write) {
      return true;  // the checkpoint holds the message
    }
    auto content = read_file(fs_, path_);
    // A missing file is told apart, because its data can be had again.
    if (!content && content.error().code() != errc::not_found) {
      return std::move(content.error());
    }
    if (!content) {
      return error(errc::torn, fmt::format("cannot use the output \"{}\": expected the "
                                           "message of the last item, found no file",
                                           path_));
    }
    // Another program may have replaced it.
    if (xxh3_64(*content) != offset_.digest) {
      return error(
          errc::hash_mismatch,
          fmt::format("cannot use the output \"{}\": expected the message of the "
                      "last item, whose digest is {}, found the digest {}",
                      path_, hex64(offset_.digest), hex64(xxh3_64(*content))));
    }
    return true;
  }

  /// The message is empty before the first item.
  result<void> copy_state(flow::state_writer& to) override {
    // Part of the image, with the digest in the offset.
    std::copy(message_.begin(), message_.end(),
              to.add(message_part, message_.size()).begin());
    return {};
  }
  /// The message is compared with the offset in `rewind`.
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(const bytes_view message, from.part(message_part));
    message_.assign(message.begin(), message.end());
    return {};
  }
  /// The newest problem with the file, if it is tolerated.
  void report(figures& to) const override {
    if (!problem_.empty()) {
      to.problem(problem_);
    }
  }

 private:
  /// Notes the outcome of the newest use of the file, and forgives it unless the file
  /// must be written.
  result<void> tolerated(result<void> outcome) {
    if (settings_.must_write) {
      return outcome;
    }
    // A later success makes the problem go away.
    problem_ = outcome ? std::string() : outcome.error().message();
    return {};
  }

  replace_settings settings_;
  file_system& fs_;
  std::string path_;
  std::string problem_;   ///< why the file does not hold the message; may be empty
  byte_vector message_;   ///< message of the newest item; empty before the first
  bool changed_ = false;  ///< the file does not hold the message yet
  replace_offset offset_;
};

/// Checks the lists of the settings, which belong together.
// `units` has one for each object; every entry of `about` has a key.
result<void> check_lists(const replace_settings& settings) {
  if (!settings.units.empty() && settings.units.size() != settings.objects.size()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot use setting \"units\" of {}: expected one for each "
                    "of {} objects, found {}",
                    tgm_replace_name, settings.objects.size(), settings.units.size()));
  }
  for (const std::string& one : settings.about) {
    const std::size_t end = one.find('=');
    if (end == 0 || end == std::string::npos) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use setting \"about\" of {}: expected key=text, "
                               "found \"{}\"",
                               tgm_replace_name, one));
    }
  }
  return {};
}

/// Further paragraphs of the reference of `tgm.replace`.
constexpr std::string_view tgm_replace_details =
    R"(The file is replaced by a rename when a checkpoint is made, so a reader finds a
whole message at any time.

A file that holds something else than Tensogram messages is refused. The checkpoint
holds the newest message itself, so a resumed run writes exactly the file of the
checkpoint, even if the file is lost or holds a later message. Large messages make
large checkpoints.)";

/// A small pipeline with `tgm.replace`.
constexpr std::string_view tgm_replace_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "latest"
use = "tgm.replace"
path = "latest.tgm"
about = ["title=newest field"]
)";

}  // namespace

/// Makes the sink, with an inlet for each object.
result<void> make_tgm_replace(flow::described_stage& made, const given_settings& given,
                              file_system& fs) {
  made.info.name = tgm_replace_name;
  made.info.documentation =
      "keeps the newest item as the only Tensogram message of a file";
  made.info.face = flow::face::sink;
  made.info.details = tgm_replace_details;
  made.info.example = tgm_replace_example;
  made.info.state = {{message_part, false}};
  WEIR_TRY(replace_settings settings,
           flow::read_settings(made.info, replace_table(), given));
  WEIR_CHECK(check_lists(settings));
  // Every object is an inlet of any type.
  for (const std::string& name : settings.objects) {
    made.info.ports.push_back({name, {}, true});
  }
  made.info.state = {{message_part, false}};
  made.object = std::make_unique<tgm_replace>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
