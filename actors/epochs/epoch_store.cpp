// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion between images of pipelines and checkpoint files.
///
/// A checkpoint file of a pipeline has these sections: `config` with the text of the
/// pipeline, `epoch` with three numbers (epoch and next item, 8 bytes each, and 1 byte
/// that is 1 after the end), `history` with what earlier runs have recorded, and all
/// sections of the image under their own names.
#include "epochs/epoch_store.hpp"

#include <fmt/format.h>

#include "weir/base/record.hpp"
#include "weir/storage/run_history.hpp"

namespace weir::actors {
namespace {

namespace section = storage::section;

}  // namespace

/// Makes an image from a file. The sections are copied, so the file need not stay.
result<stored_epoch> epoch_in(const storage::checkpoint& file) {
  const auto epoch = file.find(section::epoch);
  if (!epoch) {
    // Checkpoints of the text model's first version have no such section.
    return error(errc::config_mismatch,
                 "cannot continue a pipeline: expected a checkpoint of a pipeline, found "
                 "one of another job")
        .located(file.path());
  }
  stored_epoch out;
  out.generation = file.header().generation;
  // Three numbers; bytes behind them are ignored.
  record_reader numbers((*epoch)->data);
  out.state.epoch = numbers.get<std::uint64_t>();
  out.state.next_item = numbers.get<std::uint64_t>();
  out.state.finished = numbers.get<std::uint8_t>() != 0;
  if (numbers.failed()) {
    return error(errc::corrupt,
                 fmt::format("cannot read checkpoint section {}: expected 17 bytes, "
                             "found {}",
                             section::epoch, (*epoch)->data.size()))
        .located(file.path());
  }
  // These two describe the run and are no part of the image.
  for (const auto& from : file.sections()) {
    if (from.name == section::epoch || from.name == section::history) {
      continue;
    }
    if (from.name == section::config) {
      out.description = std::string(as_text(from.data));
      continue;
    }
    // All other sections are those of stages.
    flow::image_section& to = out.state.sections.emplace_back();
    to.name = from.name;
    to.type = from.type;
    to.shape.assign(from.shape.begin(), from.shape.end());
    to.data.assign(from.data.begin(), from.data.end());
  }
  return out;
}

/// Takes the lock of the folder, which belongs to one writer. Fails if another run has
/// it.
// The lock is held until the store is destroyed.
result<epoch_store> epoch_store::open(file_system& fs, const std::string& folder,
                                      std::string description) {
  WEIR_TRY(auto store, storage::checkpoint_store::open(
                           fs, folder, storage::checkpoint_store::role::writer));
  return epoch_store(std::move(store), std::move(description));
}

/// Writes an image as the next generation. The numbers and texts only refer to memory of
/// this object and of the image, which live until the file is written.
result<void> epoch_store::save(const flow::image& one) {
  // Kept until the file is written.
  record_writer numbers;
  numbers.put(one.epoch);
  numbers.put(one.next_item);
  numbers.put(static_cast<std::uint8_t>(one.finished));
  std::vector<storage::checkpoint_section> sections;
  sections.push_back({std::string(section::config), as_view(description_)});
  sections.push_back({std::string(section::epoch), numbers.view()});
  if (!history_.empty()) {
    sections.push_back({std::string(section::history), history_});
  }
  for (const flow::image_section& s : one.sections) {
    storage::checkpoint_section& to = sections.emplace_back();
    // Refers to the image, which is not changed meanwhile.
    to.name = s.name;
    to.data = s.data;
    to.type = s.type;
    to.shape.assign(s.shape.begin(), s.shape.end());
  }
  // On failure, `generation_` keeps the number of the newest good checkpoint.
  WEIR_TRY(generation_, store_.save(sections, one.next_item));
  return {};
}

/// Generation 0 means the newest one that is whole. A chosen generation must be whole;
/// there is no fallback to another one.
result<storage::checkpoint> epoch_store::read(std::uint64_t generation) {
  // Damaged files in front of it are noted by the store.
  if (generation == 0) {
    return store_.load_newest();
  }
  WEIR_TRY(const auto all, store_.list());
  std::string known;
  for (const auto& one : all) {
    // A damaged file of that number is not offered.
    if (!one.problem && one.header.generation == generation) {
      return store_.load(one.path);
    }
    if (!one.problem) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.header.generation);
    }
  }
  return error(errc::not_found,
               fmt::format("cannot continue from generation {}: expected one of {}, "
                           "found none of that number",
                           generation, known.empty() ? "(no checkpoint)" : known))
      .located(store_.folder());
}

/// Only the image, for the check whether a run has ended.
result<flow::image> epoch_store::load_newest() {
  WEIR_TRY(const auto file, read(0));
  WEIR_TRY(auto newest, epoch_in(file));
  return std::move(newest.state);
}

/// A folder with damaged checkpoints is not empty.
result<bool> epoch_store::empty() {
  WEIR_TRY(const auto all, store_.list());
  return all.empty();
}

}  // namespace weir::actors
