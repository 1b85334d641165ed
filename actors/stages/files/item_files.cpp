// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sink that writes one file for each item.
#include "stages/files/item_files.hpp"

#include <algorithm>
#include <set>

#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

/// Files that are made durable together at the latest.
/// Durability costs an operation of the disk per file, hence not after each one.
constexpr std::size_t max_written = 256;

}  // namespace

/// The path of the setting is a pattern, so the folder of the pipeline's file is found
/// with a name that stands for it.
result<void> item_files::open(opening& run) {
  prefix_ = run.path("x");  // an absolute path, or one beside the pipeline's file
  // The character is taken off again: only the folder is wanted.
  prefix_.pop_back();
  return {};
}

/// An absolute pattern needs no folder.
std::string item_files::path_of_name(const std::string& name) const {
  return name.starts_with('/') ? name : prefix_ + name;
}

/// Writes the file of an item. The offset describes it, so that a resumed run can check
/// it.
result<void> item_files::put(taken& t) {
  // Each item has a name of its own, because the pattern has the number in it.
  WEIR_TRY(const std::string name, pattern_.file_of(t.seq(), t.about()));
  WEIR_TRY(const byte_vector content, encode(t));
  WEIR_CHECK(write(path_of_name(name), content));
  ++at_.items;
  at_.size = content.size();
  at_.digest = xxh3_64(content);
  last_ = name;
  return written_.size() < max_written ? result<void>() : sync_written();
}

/// Makes the folder if necessary. It is not looked for again as long as items go to the
/// same folder.
result<void> item_files::write(const std::string& path, bytes_view content) {
  const std::string folder = folder_of(path);
  // The folder of the item before exists.
  if (folder != known_folder_) {
    if (!fs_.exists(folder)) {
      WEIR_CHECK(fs_.make_folder(folder));
    }
    known_folder_ = folder;
  }
  // A reader of the folder never sees a file that is written in part.
  const std::string temporary = path + ".tmp";
  const auto fill = [&]() -> result<void> {
    WEIR_TRY(const auto f, fs_.open(temporary, open_mode::create_or_open));
    // A temporary file of a run that was killed may exist.
    WEIR_CHECK(f->resize(0));
    return write_all(*f, 0, content);
  };
  auto done = fill();
  if (done) {
    done = fs_.rename(temporary, path);
  }
  // A failed write leaves no temporary file behind.
  if (!done) {
    static_cast<void>(fs_.remove(temporary));
    return error(done.error().code(), fmt::format("cannot write \"{}\"", path))
        .because(std::move(done.error()));
  }
  written_.push_back(path);
  return {};
}

/// Makes all files durable that were written since the last time, and then the entries of
/// their folders, which a rename has changed.
result<void> item_files::sync_written() {
  std::set<std::string> folders;
  for (const std::string& path : written_) {
    WEIR_TRY(const auto f, fs_.open(path, open_mode::read_write));
    // The content first: an entry without it would be a broken file.
    WEIR_CHECK(f->sync());
    folders.insert(folder_of(path));
  }
  for (const std::string& folder : folders) {
    WEIR_CHECK(fs_.sync_folder(folder));
  }
  written_.clear();
  return {};
}

/// A checkpoint may count on the files before it.
result<flow::small_record> item_files::settle() {
  WEIR_CHECK(sync_written());
  return flow::small_record::holding(at_);
}

/// Files behind the offset stay; they will be written again with the same bytes.
result<void> item_files::rewind(bytes_view stored) {
  WEIR_TRY(at_, record_of<offset>(stored, name_, "offset"));
  return check_last();
}

/// Opens nothing for writing: the last file is compared and nothing else.
result<bool> item_files::verify(opening& run, bytes_view stored,
                                const flow::state_reader& state) {
  WEIR_CHECK(open(run));
  WEIR_CHECK(restore_state(state));
  WEIR_CHECK(rewind(stored));
  return true;
}

/// The last file before the checkpoint must be there, and have its bytes.
/// The other files are not read again, because that could take as long as the run itself.
result<void> item_files::check_last() const {
  // No file was written before this checkpoint.
  if (at_.items == 0) {
    return {};
  }
  const std::string path = path_of_name(last_);
  if (!fs_.exists(path)) {
    return error(errc::torn,
                 fmt::format("cannot continue {}: expected the file \"{}\" of the last "
                             "item before the checkpoint, found none",
                             name_, path))
        .hint("restore the file, or begin the run anew");
  }
  WEIR_TRY(const byte_vector found, read_file(fs_, path));
  // Size and digest are those of the last item.
  if (found.size() != at_.size || xxh3_64(found) != at_.digest) {
    return error(errc::hash_mismatch,
                 fmt::format("cannot continue {}: expected {} bytes that the checkpoint "
                             "knows in \"{}\", found other bytes",
                             name_, at_.size, path));
  }
  return {};
}

/// The offset has a fixed size, and a name has not, so the name is a part of the state.
result<void> item_files::copy_state(flow::state_writer& to) {
  const bytes_view name = as_view(last_);
  std::copy(name.begin(), name.end(), to.add(last_file_part, name.size()).begin());
  return {};
}

result<void> item_files::restore_state(const flow::state_reader& from) {
  WEIR_TRY(const bytes_view name, from.part(last_file_part));
  last_ = as_text(name);
  return {};
}

}  // namespace weir::actors
