// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir hn4 check`: prints findings as text or JSON, draws the volume, and makes a new
/// image of what can be read.
///
/// The library finds what is wrong. This file only shows it: as text, as JSON with the
/// same facts, or as a picture in which each square stands for a range of the volume.
#include <array>
#include <optional>

#include "hn4/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/svg.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::tools {

namespace {

using storage::hn4_check_report;
using storage::hn4_finding;
using storage::hn4_lost_range;
using storage::hn4_use;

/// Prints findings as elements of a JSON array.
/// The caller prints the brackets, since the lists stand under several keys.
void print_list(const std::vector<hn4_finding>& list, output& out) {
  const char* comma = "";
  for (const hn4_finding& f : list) {
    out.print("{}\n  {{\"kind\": {}, \"offset\": {}, \"text\": {}}}", comma,
              json_quote(f.kind), f.offset, json_quote(f.text));
    comma = ",";
  }
}

/// Returns a number as JSON, or null.
std::string json_number(const std::optional<std::uint64_t>& n) {
  return n ? std::to_string(*n) : "null";
}

/// Describes a range, as far as it is known: "12 bytes from byte 4048 on".
/// Damage to the directory may hide where a range was, or how long it was.
std::string range_text(const hn4_lost_range& l) {
  const std::string bytes =
      l.bytes ? counted(*l.bytes, "byte") : "an unknown number of bytes";
  return l.offset ? fmt::format("{} from byte {} on", bytes, *l.offset)
                  : bytes + " at an unknown place";
}

/// Prints the report as JSON.
void print_check_json(const hn4_options& options, const hn4_check_report& r,
                      const std::vector<storage::hn4_saved_tag>& saved, output& out) {
  // `clean` says the same as an empty list, for scripts that want one value.
  out.print(
      "{{\"volume\": {}, \"clean\": {}, \"label\": {}, \"profile\": \"{}\", "
      "\"tags\": {}, \"shards\": {}, \"blocks\": {}, \"compressed\": {}, \"bytes\": "
      "{}, \"findings\": [",
      json_quote(options.volume), r.findings.empty(), json_quote(r.label),
      name_of(r.geometry.profile), r.tags, r.shards, r.blocks, r.compressed, r.bytes);
  print_list(r.findings, out);
  out.write("], \"notes\": [");
  print_list(r.notes, out);
  out.write("], \"lost\": [");
  const char* comma = "";
  // Lost ranges are known by the tag that they belong to.
  for (const hn4_lost_range& l : r.lost) {
    out.print("{}\n  {{\"tag\": {}, \"offset\": {}, \"bytes\": {}}}", comma,
              json_quote(l.tag), json_number(l.offset), json_number(l.bytes));
    comma = ",";
  }
  out.write("]");
  // The key exists only for a repair, even if nothing could be saved.
  if (!options.repair.empty()) {
    out.write(", \"saved\": [");
    comma = "";
    for (const auto& tag : saved) {
      out.print("{}\n  {{\"tag\": {}, \"size\": {}, \"problem\": {}}}", comma,
                json_quote(tag.name), tag.bytes, json_quote(tag.problem));
      comma = ",";
    }
    out.write("]");
  }
  out.write("}\n");
}

/// Prints the report as text.
void print_check_text(const hn4_options& options, const hn4_check_report& r,
                      const std::vector<storage::hn4_saved_tag>& saved, output& out) {
  // Findings come first. They decide the exit status, and notes do not.
  for (const hn4_finding& f : r.findings) {
    out.print("finding {:16} byte {:>14}  {}\n", f.kind, f.offset, f.text);
  }
  for (const hn4_finding& f : r.notes) {
    out.print("note    {:16} byte {:>14}  {}\n", f.kind, f.offset, f.text);
  }
  for (const hn4_lost_range& l : r.lost) {
    out.print("lost    {}: {}\n", l.tag, range_text(l));
  }
  for (const auto& tag : saved) {
    out.print("saved   {}: {}\n", tag.name,
              // A tag that could not be copied has the reason in place of its size.
              tag.problem.empty() ? counted(tag.bytes, "byte") : tag.problem);
  }
  // The summary is the last line, so that it stays in view.
  out.print("{}: {}, {}; {}, {}, {}, {}\n", options.volume,
            counted(r.findings.size(), "finding"), counted(r.notes.size(), "note"),
            counted(r.tags, "tag"), counted(r.shards, "shard"),
            counted(r.blocks, "block"), counted(r.bytes, "byte"));
}

/// Draws one square per cell of the map, 128 in a row.
std::string check_picture(const hn4_check_report& r) {
  constexpr std::size_t columns = 128, edge = 7, legend = 24;
  // One colour and one name for each state, in the order of the enumeration.
  constexpr std::array<const char*, 5> state_colours{"#eeeeee", "#9aa7b5", "#2f7fd1",
                                                     "#e0b13c", "#d13f2f"};
  constexpr std::array<const char*, 5> names{"free", "the volume's own", "data",
                                             "allocated, of no shard", "damaged"};
  // Rounded up, so that a part of a row gets one.
  const std::size_t rows = (r.map.size() + columns - 1) / columns;
  const auto pixels = [](std::size_t count) { return static_cast<double>(count); };
  const auto fill = [&](std::size_t state) {
    return fmt::format("fill=\"{}\"", state_colours[state]);
  };
  // The size is given in pixels, because the picture is looked at by itself.
  svg out(
      fmt::format("xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
                  "font-family=\"sans-serif\" font-size=\"12\"",
                  columns * edge, rows * edge + legend));
  for (std::size_t i = 0; i < r.map.size(); ++i) {
    // Squares are a pixel smaller than their cells, which leaves a grid of gaps.
    out.rect(pixels(i % columns * edge), pixels(i / columns * edge), edge - 1, edge - 1,
             fill(static_cast<std::size_t>(r.map[i])));
  }
  // The legend stands below the squares.
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.rect(pixels(i * 160), pixels(rows * edge + 8), 10, 10, fill(i));
    out.text(pixels(i * 160 + 14), pixels(rows * edge + 17), "", names[i]);
  }
  return std::move(out).finish();
}

}  // namespace

/// Checks a volume without changing it. Repairing means to copy every tag that can be
/// read completely into another volume. The exit status is 1 if there are findings.
command_result hn4_check_command(const hn4_options& options, output& out) {
  WEIR_TRY(auto device,
           storage::open_file_device(options.volume, storage::device_mode::read_only));
  // The device is only read, so a volume that is in use is not disturbed.
  WEIR_TRY(const hn4_check_report report, storage::hn4_check(std::move(device)));
  std::vector<storage::hn4_saved_tag> saved;
  // Repair reads the volume once more, through the ordinary ways of reading. So what it
  // copies has been verified.
  if (!options.repair.empty()) {
    WEIR_TRY(saved, storage::hn4_repair(options.volume, options.repair));
  }
  if (!options.map.empty()) {
    // An earlier process may have been killed while it wrote this picture.
    WEIR_CHECK(storage::hn4_remove_leftovers(options.map));
    WEIR_CHECK(write_file_atomically(posix_file_system(), options.map,
                                     as_view(check_picture(report))));
  }
  if (options.json) {
    print_check_json(options, report, saved, out);
  } else {
    print_check_text(options, report, saved, out);
  }
  // Damage is an outcome of a check and no failure of the verb, hence no error.
  return report.findings.empty() ? 0 : 1;
}

}  // namespace weir::tools
