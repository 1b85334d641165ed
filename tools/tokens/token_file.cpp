// SPDX-License-Identifier: Apache-2.0
/// @file
/// Headers of token files, and ids of 16 and 32 bits.
///
/// Four formats: ids as text, ids alone, ids behind the header of llm.c, and ids as a
/// NumPy array. The last two have the number of ids in front, which is known only at the
/// end, so their header is written twice.
/// @source{llm.c, the header of its data files; NumPy, format 1.0 of npy files}
#include "tokens/token_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <limits>
#include <optional>

namespace weir::tools {

namespace {

/// Up to this size of the vocabulary every id fits into 16 bits.
constexpr std::uint32_t narrow_vocabulary = 65'536;
/// 256 words of 32 bits, most of them unused.
constexpr std::size_t llmc_header = 256 * 4;
/// A fixed size leaves room for any number of ids and aligns the ids.
constexpr std::size_t npy_header = 128;
/// Bytes that are collected before a write.
constexpr std::size_t flush_bytes = 256 * 1024;

// Magic numbers and versions of llm.c: ids of 16 bits, and of 32 bits.
constexpr std::uint32_t llmc_magic_16 = 20240520;
constexpr std::uint32_t llmc_magic_32 = 20240801;

/// Returns the bytes in front of the ids.
std::size_t header_bytes(token_format format) {
  return format == token_format::llmc  ? llmc_header
         : format == token_format::npy ? npy_header
                                       : 0;
}

/// Makes the error for bytes that do not have the format.
/// @param at  Offset of the first wrong byte.
error not_ids(const std::string& name, std::string_view expected, std::string found,
              std::size_t at) {
  return error(errc::corrupt, fmt::format("cannot read token ids: expected {}, found {}",
                                          expected, found))
      .located(fmt::format("{}:{}", name, at));
}

/// Reads ids as text. Commas and square brackets count as spaces, so a list of JSON or of
/// Python can be read as well.
result<std::vector<std::uint32_t>> read_ids(std::string_view text,
                                            const std::string& name) {
  std::vector<std::uint32_t> ids;
  const std::string_view spaces = " \t\r\n,[]";
  // Each round begins at a character that is no space.
  for (std::size_t at = text.find_first_not_of(spaces); at != std::string_view::npos;
       at = text.find_first_not_of(spaces, at)) {
    std::uint32_t id = 0;
    const auto [end, failed] =
        // A number that exceeds 32 bits fails here.
        std::from_chars(text.data() + at, text.data() + text.size(), id);
    const auto behind = static_cast<std::size_t>(end - text.data());
    // A number must end at a space, which refuses "12x" and "1.5".
    if (failed != std::errc() ||
        (behind < text.size() && spaces.find(text[behind]) == std::string_view::npos)) {
      return not_ids(name, "whole numbers between spaces",
                     // The first characters are enough for a message.
                     fmt::format("{:?}", text.substr(at, 20)), at);
    }
    ids.push_back(id);
    at = behind;
  }
  return ids;
}

/// Reads integers of two or four bytes from an offset to the end.
result<std::vector<std::uint32_t>> read_integers(bytes_view bytes, std::size_t from,
                                                 std::size_t width,
                                                 const std::string& name) {
  // A part of an id at the end means that the file was cut.
  if ((bytes.size() - from) % width != 0) {
    return error(errc::torn,
                 fmt::format("cannot read token ids: expected ids of {} bytes, found {} "
                             "bytes",
                             width, bytes.size() - from))
        .located(fmt::format("{}:{}", name, from));
  }
  std::vector<std::uint32_t> ids((bytes.size() - from) / width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::byte* at = bytes.data() + from + i * width;
    ids[i] = width == 2 ? load_le<std::uint16_t>(at) : load_le<std::uint32_t>(at);
  }
  return ids;
}

/// Reads a file of llm.c. Magic number and version tell the width of an id.
result<std::vector<std::uint32_t>> read_llmc(bytes_view bytes, const std::string& name) {
  if (bytes.size() < llmc_header) {
    return not_ids(name, "a header of 1024 bytes", fmt::format("{} bytes", bytes.size()),
                   0);
  }
  const std::uint32_t magic = load_le<std::uint32_t>(bytes.data());
  const std::uint32_t version = load_le<std::uint32_t>(bytes.data() + 4);
  const std::uint32_t count = load_le<std::uint32_t>(bytes.data() + 8);
  const bool narrow = magic == llmc_magic_16 && version == 1;
  if (!narrow && !(magic == llmc_magic_32 && version == 7)) {
    return not_ids(name, "magic 20240520 version 1, or magic 20240801 version 7",
                   fmt::format("magic {} version {}", magic, version), 0);
  }
  const std::size_t width = narrow ? 2 : 4;
  // The header has the number of ids, so a file that was cut is recognised.
  if ((bytes.size() - llmc_header) / width != count) {
    return not_ids(name, fmt::format("{} ids", count),
                   fmt::format("{} bytes behind the header", bytes.size() - llmc_header),
                   8);
  }
  return read_integers(bytes, llmc_header, width, name);
}

/// Returns the extent of an array of one axis from the header of a NumPy file, or nothing
/// for another shape. A shape of one axis ends with a comma and a bracket.
std::optional<std::uint64_t> npy_extent(std::string_view header) {
  constexpr std::string_view begin = "'shape': (";
  const std::size_t at = header.find(begin);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view text = header.substr(at + begin.size());
  std::uint64_t count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  const auto digits = static_cast<std::size_t>(read.ptr - text.data());
  return read.ec == std::errc() && text.substr(digits).starts_with(",)")
             ? std::optional(count)
             : std::nullopt;
}

/// Reads a NumPy array. Only the two forms that `weir tokens` and NumPy write for
/// unsigned ids are known.
result<std::vector<std::uint32_t>> read_npy(bytes_view bytes, const std::string& name) {
  constexpr std::string_view magic("\x93NUMPY\x01\x00", 8);
  if (bytes.size() < 10 || as_text(bytes.first(8)) != magic) {
    return not_ids(name, "a NumPy file of version 1.0", "other bytes", 0);
  }
  // Length of the header, which is a Python dictionary as text.
  const std::size_t size = load_le<std::uint16_t>(bytes.data() + 8);
  if (bytes.size() - 10 < size) {
    return not_ids(name, fmt::format("a header of {} bytes", size),
                   fmt::format("{} bytes", bytes.size() - 10), 8);
  }
  const std::string_view header = as_text(bytes.subspan(10, size));
  // The text is searched and not parsed.
  const std::optional<std::uint64_t> count = npy_extent(header);
  for (const std::size_t width : {std::size_t{2}, std::size_t{4}}) {
    if (count &&
        header.find(fmt::format("'descr': '<u{}'", width)) != std::string_view::npos) {
      const std::size_t found = bytes.size() - 10 - size;
      // The header has the number of ids, so a file that was cut is recognised.
      if (found % width != 0 || found / width != *count) {
        return not_ids(name, fmt::format("{} ids of {} bytes", *count, width),
                       fmt::format("{} bytes behind the header", found), 10);
      }
      return read_integers(bytes, 10 + size, width, name);
    }
  }
  return not_ids(name, "one axis of type <u2 or <u4",
                 fmt::format("{:?}", header.substr(0, 60)), 10);
}

}  // namespace

token_format token_format_of(const std::string& name, const std::string& path) {
  // A given name decides. Without one, the extension of the path does.
  const auto is = [&](const char* format) {
    return name.empty() ? path.ends_with(std::string(".") + format) : name == format;
  };
  return is("bin")    ? token_format::bin
         : is("npy")  ? token_format::npy
         : is("llmc") ? token_format::llmc
                      : token_format::text;
}

/// At the beginning the number of ids is zero. The final header replaces this one.
byte_vector token_writer::header() const {
  byte_vector out(header_bytes(format_));
  if (format_ == token_format::llmc) {
    store_le<std::uint32_t>(out.data(), narrow_ ? llmc_magic_16 : llmc_magic_32);
    store_le<std::uint32_t>(out.data() + 4, narrow_ ? 1 : 7);
    store_le<std::uint32_t>(out.data() + 8, static_cast<std::uint32_t>(count_));
  } else if (format_ == token_format::npy) {
    std::string text =
        fmt::format("{{'descr': '<u{}', 'fortran_order': False, 'shape': ({},), }}",
                    narrow_ ? 2 : 4, count_);
    // Spaces fill the header up to the line feed at its end.
    text.resize(npy_header - 11, ' ');
    text += '\n';
    // Magic number, version 1.0, and a length of 118 bytes in two bytes.
    const std::string_view magic("\x93NUMPY\x01\x00\x76\x00", 10);
    std::memcpy(out.data(), magic.data(), magic.size());
    std::memcpy(out.data() + magic.size(), text.data(), text.size());
  }
  return out;
}

/// Passes on what is pending.
result<void> token_writer::flush() {
  if (file_ == nullptr) {
    out_->write(bytes_view(pending_));
  } else {
    WEIR_CHECK(write_all(*file_, at_, pending_));
  }
  at_ += pending_.size();
  pending_.clear();
  return {};
}

result<void> token_writer::add(std::span<const std::uint32_t> ids) {
  for (const std::uint32_t id : ids) {
    std::array<std::byte, 4> bytes{};
    if (format_ == token_format::text) {
      // Enough for ten digits.
      std::array<char, 12> text{};
      const auto end = std::to_chars(text.data(), text.data() + text.size(), id).ptr;
      // A space stands between two ids, not behind the last one.
      if (count_ > 0) {
        pending_.push_back(std::byte{' '});
      }
      append(pending_, std::as_bytes(std::span(text.data(), end)));
    } else if (narrow_) {
      store_le<std::uint16_t>(bytes.data(), static_cast<std::uint16_t>(id));
      append(pending_, bytes_view(bytes).first(2));
    } else {
      store_le<std::uint32_t>(bytes.data(), id);
      append(pending_, bytes);
    }
    ++count_;
    // Writes are few and large, however many ids come at once.
    if (pending_.size() >= flush_bytes) {
      WEIR_CHECK(flush());
    }
  }
  return {};
}

result<std::uint64_t> token_writer::write(const std::string& path, token_format format,
                                          std::uint32_t vocabulary, output& out,
                                          const put& fill) {
  std::uint64_t count = 0;
  const auto run = [&](file* to) -> result<void> {
    // One function serves files and standard output.
    token_writer writer(format, vocabulary <= narrow_vocabulary, to, &out);
    // Leaves room for the header. Formats without one begin with no bytes.
    writer.pending_ = writer.header();
    WEIR_CHECK(fill(writer));
    // A text ends with a line.
    if (format == token_format::text) {
      writer.pending_.push_back(std::byte{'\n'});
    }
    WEIR_CHECK(writer.flush());
    count = writer.count_;
    // The number of llm.c is a signed one of 32 bits.
    if (format == token_format::llmc &&
        count > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      return error(errc::out_of_range,
                   fmt::format("cannot write \"{}\": expected fewer than 2^31 ids in the "
                               "format llmc, found {}",
                               path, count))
          .hint("use the format bin or npy");
    }
    // The header has the number of ids, which is known now.
    if (to != nullptr && header_bytes(format) > 0) {
      return write_all(*to, 0, writer.header());
    }
    return {};
  };
  if (path == "-") {
    // A pipe cannot be written at its beginning again.
    if (header_bytes(format) > 0) {
      return error(errc::invalid_argument,
                   "cannot write to standard output: expected the format text or bin, "
                   "found one whose header has the number of ids")
          .hint("name a file with -o");
    }
    WEIR_CHECK(run(nullptr));
    return count;
  }
  // After an error, also of `fill`, no file with this name appears.
  WEIR_CHECK(write_file_atomically(posix_file_system(), path,
                                   [&](file& to) { return run(&to); }));
  return count;
}

result<std::vector<std::uint32_t>> read_tokens(bytes_view bytes, token_format format,
                                               std::uint32_t vocabulary,
                                               const std::string& name) {
  switch (format) {
    case token_format::text: return read_ids(as_text(bytes), name);
    case token_format::bin:
      // Raw ids have no header, so only the vocabulary tells their width.
      return read_integers(bytes, 0, vocabulary <= narrow_vocabulary ? 2 : 4, name);
    case token_format::llmc: return read_llmc(bytes, name);
    case token_format::npy: return read_npy(bytes, name);
  }
  // Reached only by a number that is no format.
  return std::vector<std::uint32_t>();
}

}  // namespace weir::tools
