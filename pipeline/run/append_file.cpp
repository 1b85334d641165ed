// SPDX-License-Identifier: Apache-2.0
/// @file
/// Appending to a file and cutting it to an offset.
///
/// A sink that appends can continue behind any durable offset: `rewind` cuts what came
/// later. Cuts are noted, so that the report of a run can say what was lost.
#include "weir/pipeline/append_file.hpp"

#include <utility>

#include <fmt/format.h>

namespace weir {
namespace {

/// Scope of this thread that was opened last.
thread_local cut_scope* innermost = nullptr;

}  // namespace

// Scopes of a thread end in the reverse order.
cut_scope::cut_scope() : outer_(std::exchange(innermost, this)) {}

cut_scope::~cut_scope() {
  innermost = outer_;
}

/// Adds a cut to all open scopes of this thread.
void note_cut(output_cut one) {
  // Outer scopes see the cuts of inner ones.
  for (cut_scope* s = innermost; s != nullptr; s = s->outer_) {
    s->cuts_.push_back(one);
  }
}

/// Sets the length of an output; bytes that are cut off are noted.
result<void> cut_output(file& output, std::uint64_t length) {
  // Asked of the file, which another program may have changed.
  WEIR_TRY(const std::uint64_t size, output.size());
  // The length is right already.
  if (size == length) {
    return {};
  }
  WEIR_CHECK(output.resize(length));
  // A file that grows has lost nothing.
  if (size > length) {
    note_cut({output.path(), size - length});
  }
  return {};
}

/// Adds the cuts to the figures of a stage, as bytes in all and as texts.
void add_cuts(const std::vector<output_cut>& cuts, figures& to) {
  std::uint64_t bytes = 0;
  std::vector<std::string> texts;
  for (const output_cut& one : cuts) {
    bytes += one.bytes;
    texts.push_back(fmt::format("{} bytes of {}", one.bytes, one.file));
  }
  // Without cuts the figures do not exist.
  if (!cuts.empty()) {
    to.set("cut_bytes", bytes);
    to.set("cut", std::move(texts));
  }
}

/// A new run begins with an empty file. A resumed one is cut by `rewind`.
result<void> append_file::open(const opening& run, const std::string& path,
                               file_system& fs) {
  fs_ = &fs;
  // The file is made if it is missing.
  WEIR_TRY(file_, fs.open(run.path(path), open_mode::create_or_open));
  return run.resuming() ? result<void>() : file_->resize(0);
}

/// `end_` moves only after everything was written.
result<void> append_file::append(bytes_view bytes) {
  WEIR_CHECK(write_all(*file_, end_, bytes));
  end_ += bytes.size();
  return {};
}

/// The entry in the folder is made durable once.
result<append_file::offset> append_file::settle() {
  // The bytes first, and then the name.
  WEIR_CHECK(file_->sync());
  if (!entry_durable_) {
    WEIR_CHECK(fs_->sync_folder(folder_of(file_->path())));
    entry_durable_ = true;
  }
  return offset{end_};
}

namespace {

/// Error of a file that has lost durable bytes.
error shorter(const std::string& path, std::uint64_t expected, std::uint64_t found) {
  return error(errc::torn,
               fmt::format("cannot continue \"{}\": expected at least {} durable bytes, "
                           "found {}",
                           path, expected, found))
      .hint("continue from an older checkpoint, or begin the run anew");
}

}  // namespace

/// Compares lengths only; the contents are not known here.
result<bool> append_file::verify(const opening& run, const std::string& path,
                                 offset durable, file_system& fs) {
  // A file that does not exist has the length 0.
  const std::string full = run.path(path);
  std::uint64_t size = 0;
  if (fs.exists(full)) {
    WEIR_TRY(const auto f, fs.open(full, open_mode::read));
    WEIR_TRY(size, f->size());
  }
  return size < durable.bytes ? result<bool>(shorter(full, durable.bytes, size))
                              : result<bool>(true);
}

/// Cuts what was appended behind the offset.
result<void> append_file::rewind(offset durable) {
  WEIR_TRY(const std::uint64_t size, file_->size());
  if (size < durable.bytes) {
    return shorter(file_->path(), durable.bytes, size);
  }
  // Appending goes on here.
  end_ = durable.bytes;
  return cut_output(*file_, end_);
}

}  // namespace weir
