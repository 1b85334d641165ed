// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir hn4`: the verbs that read volumes. Notes go to standard error, so that standard
/// output holds only what was asked for.
///
/// Every block is verified against its checksum when it is read. What a read had to work
/// around, such as a damaged copy, is a note. What it could not read is an error.
#include <algorithm>
#include <functional>

#include "hn4/verbs.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_async.hpp"
#include "weir/storage/hn4_code.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::tools {

namespace {

using storage::hn4_stream;
using storage::hn4_volume;

/// Prints why tags are not listed.
/// A tag is damaged if one of its shards may be missing. Other tags are not affected.
void note_damaged(const std::vector<storage::hn4_damaged_tag>& damaged) {
  for (const storage::hn4_damaged_tag& tag : damaged) {
    fmt::print(stderr, "note: tag \"{}\" is not whole and is not listed: {}\n", tag.name,
               tag.problem.message());
  }
}

/// Prints what reads of a stream had to work around.
/// Each place is noted once, as the stream remembers it.
void note_recoveries(const hn4_stream& stream) {
  for (const auto& r : stream.recoveries()) {
    fmt::print(stderr, "note: tag \"{}\", {}\n", stream.tag(), to_text(r));
  }
}

/// Opens a volume and prints its warnings.
result<hn4_volume> open_volume(const std::string& path, bool strict) {
  WEIR_TRY(auto device, storage::open_file_device(path, storage::device_mode::read_only));
  // A strict volume behaves exactly like the reference implementation, which knows fewer
  // ways to recover.
  auto volume =
      strict ? hn4_volume::open_strictly(std::move(device))
             : hn4_volume::open(std::move(device), storage::device_mode::read_only);
  // The volume may be readable although copies of its head are damaged.
  if (volume) {
    print_notes(volume->warnings());
  }
  return volume;
}

/// Opens the tag of the options and prints its warnings.
result<hn4_stream> open_stream(const hn4_volume& volume, const hn4_options& options) {
  storage::hn4_stream_options stream_options;
  // Shards have no numbers. Their order follows from the seed of their identity, or from
  // the time of their creation.
  if (options.order == "clock") {
    stream_options.order = storage::hn4_order::clock_then_seed;
  } else if (options.order != "seed") {
    return error(errc::unknown_key,
                 fmt::format("cannot order shards by \"{}\": expected seed or clock",
                             options.order));
  }
  // Without recovery, a tag that may have lost a shard is an error.
  stream_options.recover = options.recover;
  WEIR_TRY(hn4_stream stream, volume.stream(options.tag, stream_options));
  print_notes(stream.warnings());
  return stream;
}

/// Takes the next bytes of a range.
using sink = std::function<result<void>(bytes_view)>;

/// Passes a range on piece by piece. Pieces end at block borders, so that no block is
/// verified twice. Bytes before an error are passed on.
result<void> copy_range(const hn4_stream& stream, std::uint64_t offset,
                        std::uint64_t length, const sink& to) {
  // Bytes of data in one block, without its header.
  const std::uint64_t cap = stream.payload();
  const std::uint64_t piece =
      // About a megabyte, as a multiple of whole blocks, and one block at least.
      std::max<std::uint64_t>((std::uint64_t{1} << 20) / cap, 1) * cap;
  // A length beyond the end means: up to the end.
  const std::uint64_t end = offset + std::min(length, stream.size() - offset);
  byte_vector buffer(static_cast<std::size_t>(std::min(piece, end - offset)));
  std::uint64_t holes = 0;
  while (offset < end) {
    // The first piece is shorter if the range begins within a block. All later ones begin
    // at a border.
    const std::uint64_t step = std::min(piece - offset % cap, end - offset);
    const auto part = stream.read_partial(
        offset, mutable_bytes(buffer).first(static_cast<std::size_t>(step)));
    holes += part.holes;
    // The sound bytes in front of a damaged block are passed on first.
    WEIR_CHECK(to(bytes_view(buffer).first(part.bytes)));
    if (part.failure) {
      note_recoveries(stream);
      return *part.failure;
    }
    offset += part.bytes;
  }
  note_recoveries(stream);
  // A hole is a block that was never written. The format defines its content as zeros.
  if (holes != 0) {
    fmt::print(stderr, "note: tag \"{}\": holes read as zeros in {} ({})\n", stream.tag(),
               counted(holes, "block"), text_of(storage::hn4_code::sparse));
  }
  return {};
}

/// Writes a new file with the bytes that `fill` passes to its sink. Nothing is left of
/// the file after a failure.
result<void> write_new_file(const std::string& path, bool force,
                            const std::function<result<void>(const sink&)>& fill) {
  file_system& files = posix_file_system();
  // Checked before the volume is read. The check is no guard against a file that appears
  // meanwhile.
  if (!force && files.exists(path)) {
    return storage::hn4_error(
               storage::hn4_code::exists,
               fmt::format(
                   "cannot write \"{}\": expected no file of that name, found one", path))
        .hint("choose another name, or use --force");
  }
  WEIR_CHECK(storage::hn4_remove_leftovers(path));
  // The file gets its name only when all of it has been written.
  return write_file_atomically(files, path, [&](file& f) {
    std::uint64_t offset = 0;
    return fill([&](bytes_view bytes) -> result<void> {
      WEIR_CHECK(write_all(f, offset, bytes));
      offset += bytes.size();
      return {};
    });
  });
}

/// Prints the name and the size of a file as JSON.
void print_written(const std::string& path, std::uint64_t bytes, output& out) {
  out.print("{{\"file\": {}, \"bytes\": {}}}\n", json_quote(path), bytes);
}

/// Returns the description of a tensor as JSON.
/// The offset is that within the tag, so that `cat --offset` can read the tensor.
std::string shapes_json(const storage::stored_tensor& t) {
  return fmt::format(
      "{{\"name\": {}, \"type\": {}, \"dtype\": \"{}\", \"shape\": {}, \"offset\": {}, "
      "\"bytes\": {}}}",
      json_quote(t.name), json_quote(t.type_name), info_of(t.type).tensogram,
      shape_text(t.shape), t.offset, t.bytes);
}

/// Prints what a tag consists of.
command_result stat_tag(const hn4_options& options, const hn4_volume& volume,
                        output& out) {
  WEIR_TRY(const hn4_stream stream, open_stream(volume, options));
  // Containers such as safetensors are recognised by their header. Other content has no
  // tensors.
  WEIR_TRY(const auto directory, storage::tensor_directory::from_stream(stream));
  note_recoveries(stream);
  if (!options.json) {
    out.print("{}: {} in {}, format {}\n", stream.tag(), counted(stream.size(), "byte"),
              counted(stream.shards().size(), "shard"), name_of(directory.format()));
    // The seed is a number of 128 bits in two halves.
    for (const auto& s : stream.shards()) {
      out.print("  shard {:016x}{:016x}  {:>14} bytes at {:>14}  {}  generation {}\n",
                s.seed.hi, s.seed.lo, s.bytes, s.offset, counted(s.blocks, "block"),
                s.generation);
    }
    for (const auto& t : directory.tensors()) {
      out.print("  {:40} {:8} {}\n", t.name, t.type_name, shape_text(t.shape));
    }
    return 0;
  }
  out.print("{{\"tag\": {}, \"size\": {}, \"format\": \"{}\", \"shards\": [",
            json_quote(stream.tag()), stream.size(), name_of(directory.format()));
  const char* comma = "";
  for (const auto& s : stream.shards()) {
    out.print(
        "{}\n  {{\"seed\": \"{:016x}{:016x}\", \"offset\": {}, \"bytes\": {}, "
        "\"blocks\": {}, \"generation\": {}, \"create_clock\": {}, \"compressed\": "
        "{}}}",
        comma, s.seed.hi, s.seed.lo, s.offset, s.bytes, s.blocks, s.generation,
        s.create_clock, s.compressed);
    comma = ",";
  }
  // Extents are ranges of the device with consecutive blocks of the tag.
  out.write("], \"extents\": [");
  comma = "";
  for (const auto& e : stream.extents()) {
    out.print("{}\n  {{\"at\": {}, \"offset\": {}, \"bytes\": {}, \"blocks\": {}}}",
              comma, e.device_offset, e.offset, e.bytes, e.blocks);
    comma = ",";
  }
  out.write("], \"tensors\": [");
  comma = "";
  for (const auto& t : directory.tensors()) {
    out.print("{}\n  {}", comma, shapes_json(t));
    comma = ",";
  }
  out.write("]}\n");
  return 0;
}

}  // namespace

// Ends with 1 if a tag is not listed because it is not whole.
command_result hn4_ls(const hn4_options& options, output& out) {
  // The exit status 1 tells a script that the list is not the whole truth.
  WEIR_TRY(const hn4_volume volume, open_volume(options.volume, false));
  WEIR_TRY(const auto tags, volume.tags());
  WEIR_TRY(const auto damaged, volume.damaged_tags());
  if (!options.json) {
    for (const auto& tag : tags) {
      out.print("{:32} {:>14} bytes  {}  generation {}\n", tag.name, tag.bytes,
                counted(tag.shards, "shard"), tag.generation);
    }
  } else {
    out.write("[");
    for (std::size_t i = 0; i < tags.size(); ++i) {
      out.print("{}\n  {{\"tag\": {}, \"shards\": {}, \"size\": {}}}", i == 0 ? "" : ",",
                json_quote(tags[i].name), tags[i].shards, tags[i].bytes);
    }
    out.write("]\n");
  }
  // Behind the list, so that the notes are not lost above a long one.
  note_damaged(damaged);
  return damaged.empty() ? 0 : 1;
}

// A length of 0 is not an error at any offset; an offset behind the end is one.
command_result hn4_cat(const hn4_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, open_volume(options.volume, options.strict));
  WEIR_TRY(const hn4_stream stream, open_stream(volume, options));
  // Asked before the offset, so an empty tag can be read, too.
  if (options.length == 0) {
    return 0;
  }
  if (options.offset >= stream.size()) {
    return storage::hn4_error(
        storage::hn4_code::invalid_argument,
        fmt::format("cannot read tag \"{}\": expected an offset below {}, found {}",
                    options.tag, stream.size(), options.offset));
  }
  // Every piece goes to standard output as soon as it has been verified.
  WEIR_CHECK(copy_range(stream, options.offset, options.length,
                        [&](bytes_view bytes) -> result<void> {
                          out.write(bytes);
                          return {};
                        }));
  return 0;
}

// Facts as JSON need standard output, so they are refused if the bytes go there.
command_result hn4_get(const hn4_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, open_volume(options.volume, false));
  WEIR_TRY(const hn4_stream stream, open_stream(volume, options));
  // Without the option for a tensor, the whole tag is written.
  std::uint64_t offset = 0, length = stream.size();
  if (!options.tensor.empty()) {
    WEIR_TRY(const auto directory, storage::tensor_directory::from_stream(stream));
    const storage::stored_tensor* tensor = directory.find(options.tensor);
    if (tensor == nullptr) {
      std::vector<std::string> known;
      for (const auto& t : directory.tensors()) {
        // The names are collected for the suggestion alone.
        known.push_back(t.name);
      }
      return storage::hn4_error(
          storage::hn4_code::not_found,
          fmt::format("cannot find tensor \"{}\" in tag \"{}\": expected a tensor of the "
                      "tag, which has {}, found none of that name{}",
                      options.tensor, options.tag, known.size(),
                      did_you_mean(options.tensor, known)));
    }
    offset = tensor->offset;
    length = tensor->bytes;
  }
  // An empty tensor has no block, and its offset may be the end of the tag.
  const auto copy = [&](const sink& to) {
    return length == 0 ? result<void>() : copy_range(stream, offset, length, to);
  };
  // A file is written as a whole or not at all.
  if (options.file != "-") {
    WEIR_CHECK(write_new_file(options.file, options.force, copy));
    if (options.json) {
      print_written(options.file, length, out);
    }
    return 0;
  }
  if (options.json) {
    return error(errc::invalid_argument,
                 "cannot print facts as JSON: standard output takes the bytes")
        .hint("name a file");
  }
  // Standard output cannot be taken back. An error leaves the bytes in front of it there.
  WEIR_CHECK(copy([&](bytes_view bytes) -> result<void> {
    out.write(bytes);
    return {};
  }));
  return 0;
}

/// Writes a tag to a file, byte for byte as it was imported.
command_result hn4_export(const hn4_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, open_volume(options.volume, false));
  WEIR_TRY(const hn4_stream stream, open_stream(volume, options));
  WEIR_CHECK(write_new_file(options.file, options.force, [&](const sink& to) {
    return copy_range(stream, 0, stream.size(), to);
  }));
  if (options.json) {
    print_written(options.file, stream.size(), out);
  } else {
    out.print("{}: {}\n", options.file, counted(stream.size(), "byte"));
  }
  return 0;
}

/// Says what a volume is or, with a tag, what that tag consists of.
command_result hn4_stat(const hn4_options& options, output& out) {
  WEIR_TRY(const hn4_volume volume, open_volume(options.volume, false));
  if (!options.tag.empty()) {
    return stat_tag(options, volume, out);
  }
  WEIR_TRY(const auto tags, volume.tags());
  WEIR_TRY(const auto damaged, volume.damaged_tags());
  note_damaged(damaged);
  const auto& g = volume.geometry();
  if (options.json) {
    out.print(
        "{{\"volume\": {}, \"label\": {}, \"profile\": \"{}\", \"capacity\": {}, "
        "\"sector\": {}, \"block\": {}, \"payload\": {}, \"state\": \"{:#x}\", "
        // State and identity are printed as the format writes them, in hexadecimal.
        "\"uuid\": \"{:016x}{:016x}\", \"tags\": {}, \"damaged\": {}}}\n",
        json_quote(options.volume), json_quote(volume.label()), name_of(g.profile),
        g.capacity, g.sector, g.block, g.payload, volume.state(), volume.uuid().hi,
        volume.uuid().lo, tags.size(), damaged.size());
  } else {
    out.print(
        "{}: \"{}\", profile {}, {} in blocks of {}, sectors of {}, state {:#x}, "
        "{}\n",
        options.volume, volume.label(), name_of(g.profile), human_bytes(g.capacity),
        human_bytes(g.block), g.sector, volume.state(), counted(tags.size(), "tag"));
  }
  return 0;
}

// Reads the whole stream three times and reports the best rate.
// The best of three tells more about the program than the mean, which includes what else
// the machine did.
command_result hn4_bench(const hn4_options& options, output& out) {
  WEIR_TRY(auto device, options.direct
                            // Direct reads go past the page cache, so they measure the
                            // device.
                            ? storage::open_direct_device(options.volume)
                            : storage::open_file_device(options.volume,
                                                        storage::device_mode::read_only));
  WEIR_TRY(const hn4_volume volume,
           hn4_volume::open(std::move(device), storage::device_mode::read_only));
  print_notes(volume.warnings());
  WEIR_TRY(const hn4_stream stream, open_stream(volume, options));
  if (options.threads == 0) {
    return error(errc::invalid_argument,
                 "cannot measure: expected at least 1 thread, found --threads 0");
  }
  storage::hn4_parallel_options parallel;
  parallel.threads = options.threads;
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    // The buffer is made before the clock starts, but it is new in each round.
    byte_vector all(static_cast<std::size_t>(stream.size()));
    const std::int64_t start = now_ns();
    WEIR_CHECK(storage::read_parallel(stream, 0, all, parallel));
    // The time includes the verification of every block.
    best = std::max(best, static_cast<double>(all.size()) / seconds_since(start));
  }
  if (options.json) {
    out.print(
        "{{\"tag\": {}, \"bytes\": {}, \"threads\": {}, \"bytes_per_second\": "
        "{:.0f}}}\n",
        json_quote(options.tag), stream.size(), parallel.threads, best);
  } else {
    out.print("{}: {} verified in {} at {}/s (best of 3)\n", options.tag,
              human_bytes(stream.size()), counted(parallel.threads, "thread"),
              human_bytes(static_cast<std::uint64_t>(best)));
  }
  return 0;
}

}  // namespace weir::tools
