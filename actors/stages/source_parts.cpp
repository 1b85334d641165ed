// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parts that the sources and sinks of files have in common.
///
/// Sources keep a position with a digest of the last block that they have read, and sinks
/// an offset with a digest of the last one that they have written. The functions here
/// make and compare both, and convert attributes from and to metadata.
#include "stages/source_parts.hpp"

#include <algorithm>
#include <limits>

#include "weir/base/hash.hpp"

namespace weir::actors {

/// Returns the path of a setting; "-" stands for a standard stream and stays.
std::string path_of(const opening& run, const std::string& setting) {
  return setting == standard_stream ? setting : run.path(setting);
}

/// The hint is for users who have given a wrong path.
error something_else(const std::string& path, std::string_view content,
                     std::uint64_t size) {
  return error(errc::already_exists,
               fmt::format("cannot replace \"{}\": expected {}, found {} bytes of "
                           "something else",
                           path, content, size))
      .hint("remove the file, or choose another path");
}

/// A file of zeros may be one whose writing was interrupted, and an empty one belongs to
/// nobody, so both may be replaced. A shorter file must begin as one of `begins`.
result<void> check_ours(file& f, const std::string& path, std::string_view content,
                        std::span<const std::string_view> begins) {
  WEIR_TRY(const std::uint64_t size, f.size());
  // As many bytes as the longest begin has.
  byte_vector head(std::min<std::uint64_t>(size, message_magic.size()));
  WEIR_CHECK(read_exactly(f, 0, head));
  const std::string_view start = as_text(head);
  // A short file must be the begin of one, and a longer one begin with one.
  const bool fits = std::any_of(begins.begin(), begins.end(), [&](std::string_view one) {
    return one.starts_with(start.substr(0, one.size()));
  });
  if (fits || start.find_first_not_of('\0') == std::string_view::npos) {
    return {};
  }
  // A file of something else is never overwritten.
  return something_else(path, content, size);
}

/// Checks a file that is to be replaced. One that is missing is no error.
result<void> check_messages(file_system& fs, const std::string& path) {
  auto f = fs.open(path, open_mode::read);
  if (!f) {
    return f.error().code() == errc::not_found ? result<void>() : f.error();
  }
  return check_ours(**f, path, "Tensogram messages", {&message_magic, 1});
}

namespace {

/// Every attribute has a counterpart in CBOR.
formats::cbor_value cbor_of(const attribute& from) {
  // Numbers and texts keep their kind.
  return std::visit([](const auto& value) { return formats::cbor_value(value); }, from);
}

/// Returns a value that can be an attribute, or nothing. Booleans become 0 and 1.
std::optional<attribute> scalar_of(const formats::cbor_value& from) {
  // The order of the questions decides about the kind.
  if (const auto flag = from.boolean()) {
    return attribute(std::uint64_t{*flag});
  }
  // Numbers from 0 on are unsigned, whatever they were before.
  if (const auto whole = from.uint64()) {
    return attribute(*whole);
  }
  if (const auto whole = from.int64()) {
    return attribute(*whole);
  }
  if (const auto number = from.real()) {
    return attribute(*number);
  }
  if (const std::string* text = from.text()) {
    return attribute(*text);
  }
  return std::nullopt;
}

}  // namespace

/// Adds an attribute unless it exists or the space is used up. The size is that of its
/// encoding as metadata, which is how other programs see it.
void attribute_collector::add(const std::string& name, const attribute& value) {
  // Both encodings have their heads.
  const std::size_t bytes = formats::encode_cbor(formats::cbor_value(name)).size() +
                            formats::encode_cbor(cbor_of(value)).size();
  // What came first stays.
  if (bytes_ + bytes <= max_attribute_bytes && to_.try_emplace(name, value).second) {
    bytes_ += bytes;
  }
}

/// Adds the scalars of a map; other values are left out.
void attribute_collector::add_scalars(const formats::cbor_map& from) {
  for (const formats::cbor_entry& entry : from) {
    const std::string* name = entry.key.text();
    // Keys of CBOR need not be texts.
    auto value = scalar_of(entry.value);
    if (name != nullptr && value) {
      add(*name, *value);
    }
  }
}

/// Adds the scalars of a map and of the maps inside it.
void attribute_collector::add_object(const formats::cbor_map& from) {
  // The name of an object is no attribute, because the stage has one of its own.
  add_nested(from, "", 0);
}

/// Names of inner maps are put in front with a dot. Keys that begin with an underscore
/// are those of the format.
void attribute_collector::add_nested(const formats::cbor_map& from,
                                     const std::string& prefix, std::size_t depth) {
  constexpr std::size_t max_depth = 8;  // deeper names would not fit
  for (const formats::cbor_entry& entry : from) {
    const std::string* key = entry.key.text();
    // Deeper maps may have a key `name`.
    if (key == nullptr || key->starts_with('_') || (depth == 0 && *key == "name")) {
      continue;
    }
    const std::string name = prefix + *key;
    if (const auto value = scalar_of(entry.value)) {
      add(name, *value);
    } else if (const formats::cbor_map* inner = entry.value.map();
               inner != nullptr && depth < max_depth) {
      add_nested(*inner, name + ".", depth + 1);
    }
  }
}

/// The inverse of `add_scalars`.
formats::cbor_map metadata_of(const attributes& from) {
  formats::cbor_map out;
  // In the order of the names, so equal attributes give equal bytes.
  for (const auto& [name, value] : from) {
    out.set(name, cbor_of(value));
  }
  return out;
}

/// Facts that all sources have in common.
flow::stage_info source_info(std::string name, std::string documentation) {
  flow::stage_info info;
  info.name = std::move(name);
  info.documentation = std::move(documentation);
  info.face = flow::face::source;
  return info;
}

/// Rule of settings that name a type.
// For settings that can name every type.
bool is_port_type(const std::string& text) {
  return flow::port_type::parse(text).has_value();
}

/// @param thing  File, tag or tensor in which the difference is.
error other_data(std::string_view stage, std::string_view thing,
                 std::string_view expected, std::string_view found) {
  return error(errc::history_mismatch,
               fmt::format("cannot continue {} in \"{}\": expected {}, found {}", stage,
                           thing, expected, found))
      .hint("restore the data that the run has read before");
}

/// @param unit  Unit of both numbers.
error too_short(std::string_view stage, std::string_view thing, std::uint64_t expected,
                std::uint64_t found, std::string_view unit) {
  return error(errc::position_out_of_bounds,
               fmt::format("cannot continue {} in \"{}\": expected at least {} {}, found "
                           "{}",
                           stage, thing, expected, unit, found));
}

/// Compares the last block with its digest. The block is read in pieces, so its length
/// does not matter. `read` gets offsets from the beginning of the data.
result<void> verify_block(
    const read_block& last, std::uint64_t size, std::string_view stage,
    std::string_view thing,
    const std::function<result<void>(std::uint64_t, mutable_bytes)>& read) {
  // A cursor of the program always satisfies this; it may be damaged.
  if (last.length > last.end) {
    return error(errc::corrupt,
                 fmt::format("cannot use the stored cursor of {}: expected a block of at "
                             "most {} bytes, found {}",
                             stage, last.end, last.length));
  }
  // The data is shorter than when it was read.
  if (size < last.end) {
    return too_short(stage, thing, last.end, size);
  }
  // Blocks may have gigabytes; a piece has one MiB.
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  xxh3_stream digest;
  byte_vector bytes(static_cast<std::size_t>(std::min(piece, last.length)));
  for (std::uint64_t done = 0; done < last.length;) {
    // Less than a piece at the end.
    const auto part = mutable_bytes(bytes).first(
        static_cast<std::size_t>(std::min(piece, last.length - done)));
    WEIR_CHECK(read(last.end - last.length + done, part));
    digest.update(part);
    done += part.size();
  }
  // An empty block has nothing to compare.
  if (last.length != 0 && digest.digest() != last.digest) {
    return other_data(stage, thing,
                      fmt::format("the digest {} of {} bytes at {}", hex64(last.digest),
                                  last.length, last.end - last.length),
                      hex64(digest.digest()));
  }
  return {};
}

/// Makes an item of bytes and returns its memory.
result<mutable_bytes> fill_block(pull& p, std::uint64_t count) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
  // The flow refuses a block that the type of the outlet does not allow.
  WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, dtype::uint8, shape));
  return mutable_bytes(x.data(), static_cast<std::size_t>(count));
}

error shorter_than_offset(const std::string& path, std::uint64_t end,
                          std::uint64_t found) {
  // The checkpoint knows bytes that the file has lost.
  return error(errc::torn,
               fmt::format("cannot append to \"{}\": expected at least the {} bytes of "
                           "the checkpoint, found {}",
                           path, end, found))
      .hint("restore the file, or begin the run anew");
}

/// Errors are those of a sink: a shorter file is torn, another block is a mismatch.
result<void> check_appended(file& f, const std::string& path, const read_block& last,
                            std::string_view stage, std::string_view kind) {
  WEIR_TRY(const std::uint64_t size, f.size());
  if (size < last.end) {
    return shorter_than_offset(path, last.end, size);
  }
  // The text of this error is that of a source, so it becomes the cause of another.
  auto same =
      verify_block(last, size, stage, path, [&](std::uint64_t offset, mutable_bytes to) {
        return read_exactly(f, offset, to);
      });
  if (!same) {
    return error(
               errc::hash_mismatch,
               fmt::format("cannot append to \"{}\": expected the {} that the checkpoint "
                           "knows before {} bytes, found other bytes",
                           path, kind, last.end))
        .because(std::move(same.error()));
  }
  return {};
}

}  // namespace weir::actors
