// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `json.write`: items as lines of JSON.
///
/// The lines of all items follow each other in one file, which grows. The offset holds
/// the last line with its digest, so a resumed run can cut the file exactly behind the
/// items of its checkpoint. The last line is the one before the cut; what is behind it is
/// written again.
#include <algorithm>
#include <chrono>

#include "stages/files/factories.hpp"
#include "stages/files/json_line.hpp"
#include "stages/source_parts.hpp"
#include "tensogram/byte_pipe.hpp"
#include "weir/base/hash.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view json_write_name = "json.write";
/// Time for which a write waits for the reader of a pipe.
constexpr std::chrono::seconds reader_wait{30};

/// What a line holds.
enum class line_form : std::uint8_t { object, array, lines };
/// What becomes of NaN and infinities.
enum class non_finite : std::uint8_t { refuse, null };

/// See the table.
struct json_write_settings {
  std::string path;
  line_form form = line_form::object;
  std::string field = "x";
  actors::non_finite non_finite = actors::non_finite::refuse;
};

/// The path, what a line holds, and what becomes of numbers that JSON lacks.
settings_table<json_write_settings> json_write_table() {
  settings_table<json_write_settings> table("the sink json.write");
  table
      .add(
          "path", &json_write_settings::path,
          "a file of lines of JSON, which begins empty, a pipe, or - for standard output")
      .required()
      .path(path_use::output);
  table.add("form", &json_write_settings::form,
            {{"object", line_form::object},
             {"array", line_form::array},
             {"lines", line_form::lines}},
            "object: attributes and numbers by name; array: the numbers alone; lines: u8 "
            "elements are the bytes of whole lines");
  table.add("field", &json_write_settings::field, "name of the numbers in an object")
      .rule("that is not empty", [](const std::string& text) { return !text.empty(); });
  table.add("non_finite", &json_write_settings::non_finite,
            {{"refuse", non_finite::refuse}, {"null", non_finite::null}},
            "NaN and infinities, which JSON lacks: refuse: an error; null: null");
  return table;
}

/// What the file holds, for messages.
constexpr std::string_view json_content = "lines of JSON with numbers";
/// Bytes of a file that are looked at before it is emptied. @units{bytes}
constexpr std::uint64_t looked_at = std::uint64_t{64} << 10;

/// Refuses a file that belongs to somebody else: it has lines that no sink of this form
/// writes. A crash can leave a part of the first line, or zeros in its place.
result<void> check_json_lines(file& f, const std::string& path, line_form form) {
  WEIR_TRY(const std::uint64_t size, f.size());
  byte_vector head(std::min(size, looked_at));
  WEIR_CHECK(read_exactly(f, 0, head));
  const std::string_view text = as_text(head);
  // An empty file and one of zeros belong to nobody.
  if (text.find_first_not_of('\0') == std::string_view::npos ||
      begins_as_json_lines(text, form == line_form::lines)) {
    return {};
  }
  return something_else(path, json_content, size);
}

/// Position of the sink.
struct json_offset {
  std::uint64_t lines = 0;
  read_block last;  ///< the last line; `end` is the end of the file
};

/// Belongs to the thread of its I/O host.
class json_write final : public flow::stage_object {
 public:
  json_write(json_write_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  /// Begins with an empty file. A resumed run leaves the file as it is until `rewind`.
  result<void> open(opening& run) override {
    path_ = path_of(run, settings_.path);
    // A pipe is known by its path, before it is opened.
    pipe_ = is_pipe(path_);
    if (pipe_) {
      WEIR_TRY(file_, open_pipe_to_write(path_, reader_wait));
      return {};
    }
    // The file may exist; what it holds is looked at before it is emptied.
    WEIR_TRY(file_, fs_.open(path_, open_mode::create_or_open));
    if (run.resuming()) {
      return {};
    }
    WEIR_CHECK(check_json_lines(*file_, path_, settings_.form));
    return file_->resize(0);
  }
  /// Appends an item. It may have several lines if another stage has made them.
  result<void> put(taken& t) override {
    std::string line;
    if (settings_.form == line_form::lines) {
      WEIR_CHECK(copy_lines(t[any_in{0}], line));
      // An item without lines leaves no trace, and the offset stays.
      if (line.empty()) {
        return {};
      }
    } else {
      // The form of the setting decides what surrounds the numbers.
      json_form form;
      form.field = settings_.form == line_form::object ? settings_.field : "";
      form.non_finite_is_null = settings_.non_finite == non_finite::null;
      WEIR_CHECK(append_json_line(line, t[any_in{0}], t.about(), form));
    }
    // At the end of what was written, also behind a crash.
    WEIR_CHECK(write_all(*file_, written_, as_view(line)));
    written_ += line.size();
    // The number of lines is only for people.
    at_.lines += static_cast<std::uint64_t>(std::count(line.begin(), line.end(), '\n'));
    at_.last = {at_.last.end + line.size(), line.size(), xxh3_64(as_view(line))};
    return {};
  }
  /// A pipe has nothing that could be made durable.
  result<flow::small_record> settle() override {
    // The reader of a pipe has what it has.
    if (!pipe_) {
      WEIR_CHECK(file_->sync());
      // The entry in the folder is made durable once.
      if (!entry_durable_) {
        WEIR_CHECK(fs_.sync_folder(folder_of(path_)));
        entry_durable_ = true;
      }
    }
    return flow::small_record::holding(at_);
  }
  /// Cuts the file behind the last durable line, after it was compared.
  result<void> rewind(bytes_view stored) override {
    WEIR_TRY(at_, record_of<json_offset>(stored, json_write_name, "offset"));
    // A pipe goes on with the next line, which may be one that its reader has seen.
    if (pipe_) {
      return {};
    }
    WEIR_CHECK(check(*file_));
    // Nothing proves that an empty offset belongs to this file, so its lines have to.
    if (at_.last.end == 0) {
      WEIR_CHECK(check_json_lines(*file_, path_, settings_.form));
    }
    // Writing goes on where the file was cut.
    written_ = at_.last.end;
    return cut_output(*file_, at_.last.end);
  }
  /// A pipe keeps nothing that could be compared.
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    WEIR_TRY(at_, record_of<json_offset>(stored, json_write_name, "offset"));
    path_ = path_of(run, settings_.path);
    // A pipe cannot be compared; the run warns about it.
    if (is_pipe(path_)) {
      return false;
    }
    // Without lines there need not be a file.
    if (!fs_.exists(path_)) {
      return at_.last.end == 0
                 ? result<bool>(true)
                 : result<bool>(shorter_than_offset(path_, at_.last.end, 0));
    }
    // Nothing is written by a comparison.
    WEIR_TRY(const auto f, fs_.open(path_, open_mode::read));
    WEIR_CHECK(check(*f));
    return true;
  }

 private:
  /// Copies lines that another stage has made.
  static result<void> copy_lines(const runtime::tensor& x, std::string& to) {
    // Elements of one byte each.
    const auto count = static_cast<std::size_t>(x.count());
    // Lines of another stage must be complete, so that the next ones begin at a line.
    if (x.type() != dtype::uint8 || (count != 0 && x.as<char>()[count - 1] != '\n')) {
      return error(errc::invalid_argument,
                   fmt::format("cannot write an item as lines: expected u8 elements that "
                               "end with LF, found {} elements {}",
                               count, flow::port_text(x.type())));
    }
    to.assign(x.as<char>(), count);
    return {};
  }
  /// Compares the last line with the digest of the offset.
  result<void> check(file& f) const {
    return check_appended(f, path_, at_.last, json_write_name, "line");
  }

  json_write_settings settings_;
  file_system& fs_;
  std::string path_;
  bool pipe_ = false;
  std::unique_ptr<file> file_;
  std::uint64_t written_ = 0;  ///< bytes that this process has written, or the file has
  json_offset at_;
  /// See `settle`.
  bool entry_durable_ = false;
};

/// Further paragraphs of the reference of `json.write`.
constexpr std::string_view json_write_details =
    R"(Inlet `x` has elements f32, f64, i8 to i64 or u8 to u64. Arrays are nested as
deep as the tensor has dimensions. Numbers have as many digits as are needed to read the
same number again, so `json.read` gives the same bits. Attributes of the item become
scalars of the object, sorted by name, before the numbers. With `form = "lines"` an item
has lines that another stage has made, and is appended as it is.

When the run begins, a file is emptied if each whole line of its first 64 KiB is an
object, an array, a number or null; with `form = "lines"`, strings, true and false count
as well. Any other file is refused, because it holds something else, such as a table with
quoted names. The offset holds the number of lines, the length of the file and the XXH3
digest of the last line. A resumed run cuts the file to exactly the offset; a shorter
file is `torn`, another last line is `hash_mismatch`. A pipe cannot be cut, so its
guarantee is "at least once".)";

/// A small pipeline with `json.write`.
constexpr std::string_view json_write_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [2, 2]

[[stage]]
name = "lines"
use = "json.write"
path = "out.jsonl"
)";

}  // namespace

/// Makes the stage from its settings.
result<void> make_json_write(flow::described_stage& made, const given_settings& given,
                             file_system& fs) {
  made.info.name = json_write_name;
  made.info.documentation = "appends each item to a file as a line of JSON";
  made.info.face = flow::face::sink;
  made.info.details = json_write_details;
  made.info.example = json_write_example;
  WEIR_TRY(json_write_settings settings,
           flow::read_settings(made.info, json_write_table(), given));
  made.info.ports = {{"x", {}, true}};
  // A resumed run repeats the lines behind its checkpoint.
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::at_least_once;
  }
  made.object = std::make_unique<json_write>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
