// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the index of Megatron's token files: the sequences and documents of a data file.
///
/// The index holds a header of 34 bytes, then the length (i32) and the byte offset (i64)
/// of every sequence, then for each document the number of its first sequence (i64), and
/// may end with a mode (i8) for every sequence. Document numbers end with the number of
/// sequences.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "context/files/layout.hpp"

/// A run is a part of the data file with the ids of one document, or of a part of one.
/// `ends` says that a document ends behind it.
namespace weir::storage {

namespace {

constexpr std::size_t index_header = 34;

/// An index of a known size. Its header is compared with the size before memory is taken
/// for the tables.
///
/// The methods must be called in order: header first.
class index_reader {
 public:
  index_reader(file& f, std::uint64_t size) : file_(f), size_(size) {}

  // `at` is the byte of the index.
  [[nodiscard]] error wrong(errc code, std::string_view expected, std::string_view found,
                            std::uint64_t at) const {
    return error(code, fmt::format("cannot read the index \"{}\": expected {}, found {}",
                                   file_.path(), expected, found))
        .located(fmt::format("{}:{}", file_.path(), at));
  }
  /// Reads `count` numbers of the type T from `offset` on.
  ///
  /// The range was checked before.
  template <class T>
  [[nodiscard]] result<std::vector<T>> numbers(std::uint64_t offset,
                                               std::uint64_t count) {
    WEIR_EXPECT(count <= (size_ - offset) / sizeof(T));
    byte_vector bytes(static_cast<std::size_t>(count) * sizeof(T));
    if (auto read = read_exactly(file_, offset, bytes); !read) {
      return error(errc::source_unavailable,
                   fmt::format("cannot read the index \"{}\"", file_.path()))
          .located(fmt::format("{}:{}", file_.path(), offset))
          .because(std::move(read).error());
    }
    std::vector<T> out(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] =
          static_cast<T>(load_le<std::make_unsigned_t<T>>(bytes.data() + i * sizeof(T)));
    }
    return out;
  }

  /// Reads the header. Counts are compared with the size of the index before anything is
  /// read for them.
  [[nodiscard]] result<void> read_header() {
    if (size_ < index_header) {
      return wrong(errc::torn, fmt::format("a header of {} bytes", index_header),
                   fmt::format("{}", size_), 0);
    }
    WEIR_TRY(const auto head, numbers<std::uint8_t>(0, index_header));
    const auto* const bytes = reinterpret_cast<const std::byte*>(head.data());
    if (as_text(bytes_view(bytes, megatron_magic.size())) != megatron_magic) {
      return wrong(errc::corrupt, "the magic number of Megatron", "other bytes", 0);
    }
    if (const auto version = load_le<std::uint64_t>(bytes + 9); version != 1) {
      return wrong(errc::unsupported, "version 1", fmt::format("{}", version), 9);
    }
    WEIR_TRY(ids, encoding_of(head[17]));
    sequences = load_le<std::uint64_t>(bytes + 18);
    documents = load_le<std::uint64_t>(bytes + 26);
    const std::uint64_t rest = size_ - index_header;
    // The products cannot overflow, as each count is limited by the bytes that are
    // there.
    if (sequences > rest / 12 || documents > (rest - 12 * sequences) / 8) {
      return wrong(errc::torn,
                   fmt::format("{} sequences and {} documents", sequences, documents),
                   fmt::format("{} bytes behind the header", rest), 18);
    }
    // Behind the tables nothing or one mode per sequence may follow.
    const std::uint64_t left = rest - 12 * sequences - 8 * documents;
    if (left != 0 && left != sequences) {
      return wrong(errc::corrupt,
                   fmt::format("no byte or {} modes behind the documents", sequences),
                   fmt::format("{} bytes", left), size_ - left);
    }
    return {};
  }

  id_encoding ids;
  std::uint64_t sequences = 0;
  std::uint64_t documents = 0;

 private:
  // The codes are those of the data types of Megatron; 6 and 7 are floating-point types.
  [[nodiscard]] result<id_encoding> encoding_of(std::uint8_t code) const {
    switch (code) {
      case 1: return id_encoding{1, false};
      case 2: return id_encoding{1, true};
      case 3: return id_encoding{2, true};
      case 4: return id_encoding{4, true};
      case 5: return id_encoding{8, true};
      case 8: return id_encoding{2, false};
      default:
        return wrong(errc::unsupported, "a code of integers: 1 to 5 or 8",
                     fmt::format("{}", code), 17);
    }
  }

  file& file_;
  std::uint64_t size_;
};

/// Makes the runs of all documents. Sequences of a document that follow each other in the
/// data file are one run.
result<std::vector<token_run>> runs_of(index_reader& index, std::uint64_t data_size) {
  WEIR_TRY(const auto lengths,
           index.numbers<std::int32_t>(index_header, index.sequences));
  WEIR_TRY(const auto offsets, index.numbers<std::int64_t>(
                                   index_header + 4 * index.sequences, index.sequences));
  // Numbers of documents: the first is 0, the last is the number of sequences.
  WEIR_TRY(
      const auto documents,
      index.numbers<std::int64_t>(index_header + 12 * index.sequences, index.documents));
  const auto sequences = static_cast<std::int64_t>(index.sequences);
  const std::uint64_t at_documents = index_header + 12 * index.sequences;
  if (documents.empty() || documents.front() != 0 || documents.back() != sequences ||
      !std::is_sorted(documents.begin(), documents.end())) {
    return index.wrong(errc::corrupt,
                       fmt::format("rising numbers from 0 to {}", sequences),
                       "other numbers of documents", at_documents);
  }
  std::vector<token_run> runs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    // A document ends where the next one begins; an empty one ends nothing.
    while (next < documents.size() && documents[next] <= static_cast<std::int64_t>(i)) {
      if (!runs.empty()) {
        runs.back().ends = true;
      }
      ++next;
    }
    // Negative numbers are refused below; the maximum only avoids a conversion of them.
    const auto length = static_cast<std::uint64_t>(std::max(lengths[i], 0));
    const auto begin = static_cast<std::uint64_t>(std::max<std::int64_t>(offsets[i], 0));
    // The sequence must lie inside the data file.
    if (lengths[i] < 0 || offsets[i] < 0 || begin > data_size ||
        length > (data_size - begin) / index.ids.bytes) {
      return index.wrong(
          lengths[i] < 0 || offsets[i] < 0 ? errc::corrupt : errc::torn,
          fmt::format("sequence {} within the {} bytes of the data", i, data_size),
          fmt::format("{} ids at byte {}", lengths[i], offsets[i]), index_header + 4 * i);
    }
    if (length == 0) {
      continue;
    }
    // It continues the run before it.
    if (!runs.empty() && !runs.back().ends &&
        runs.back().byte + runs.back().tokens * index.ids.bytes == begin) {
      runs.back().tokens += length;
    } else {
      runs.push_back({begin, length, false});
    }
  }
  // The last document ends with the file, whatever the index says.
  if (!runs.empty()) {
    runs.back().ends = true;
  }
  return runs;
}

}  // namespace

/// Empty if the name does not end with ".bin".
std::string megatron_index_of(const std::string& data) {
  constexpr std::string_view end = ".bin";
  return data.ends_with(end) ? data.substr(0, data.size() - end.size()) + ".idx"
                             : std::string();
}

/// `size` is the size of the data file.
result<leaf_layout> read_megatron_index(file_system& fs, const std::string& data,
                                        std::uint64_t size) {
  const std::string path = megatron_index_of(data);
  if (path.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot read \"{}\" as tokens: expected a name that ends "
                             "with .bin, found another one",
                             data))
        .located(data);
  }
  auto opened = fs.open(path, open_mode::read);
  if (!opened) {
    return error(errc::source_unavailable,
                 fmt::format("cannot open the index \"{}\" of \"{}\"", path, data))
        .located(path)
        .because(std::move(opened).error());
  }
  WEIR_TRY(const std::uint64_t index_size, (*opened)->size());
  index_reader index(**opened, index_size);
  WEIR_CHECK(index.read_header());
  leaf_layout out;
  out.format = token_format::megatron;
  // Wide or signed ids do not imply a vocabulary.
  out.ids = index.ids;
  out.vocabulary = index.ids.is_signed ? 0 : index.ids.bytes == 1 ? 256 : 65536;
  WEIR_TRY(out.runs, runs_of(index, size));
  return out;
}

}  // namespace weir::storage
