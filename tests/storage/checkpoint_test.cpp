// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests checkpoints: round trips, damage to every byte, errors of restores, generations
/// and the lock.
#include <gtest/gtest.h>

#include "storage/checkpoint_support.hpp"
#include "weir/base/system/memory.hpp"
#include "weir/storage/run_history.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;
using store_role = checkpoint_store::role;
using names = std::vector<std::string>;

namespace {

/// Opens the store of a folder for writing.
checkpoint_store writer_in(const temp_folder& folder) {
  return or_throw(
      checkpoint_store::open(posix_file_system(), folder / "ck", store_role::writer));
}
/// Opens the store of a folder for reading.
checkpoint_store reader_in(const temp_folder& folder) {
  return or_throw(checkpoint_store::open(posix_file_system(), folder / "ck"));
}

/// Computes all hashes of a file again after its sections were changed in place. Such
/// damage is invisible to checksums.
void seal(byte_vector& bytes) {
  const auto table_bytes = load_le<std::uint64_t>(bytes.data() + 32);
  std::byte* const table = bytes.data() + 64;
  for (std::size_t record = 0; record < table_bytes;) {
    const auto name = load_le<std::uint16_t>(table + record);
    const auto dimensions = std::to_integer<std::size_t>(table[record + 3]);
    const auto offset = load_le<std::uint64_t>(table + record + 8);
    const auto length = load_le<std::uint64_t>(table + record + 16);
    store_le(table + record + 24, xxh3_64(bytes_view(bytes).subspan(offset, length)));
    record += 32 + 8 * dimensions + align_up<std::size_t>(name, 8);
  }
  store_le(bytes.data() + 48, xxh3_64(bytes_view(bytes).subspan(64, table_bytes)));
  store_le(bytes.data() + 56, xxh3_64(bytes_view(bytes).first(56)));
  store_le(bytes.data() + bytes.size() - 40,
           xxh3_64(bytes_view(bytes).first(64 + table_bytes)));
}

/// Returns the offset of a section in a file, or 0 if the table does not list it.
std::uint64_t offset_of(const byte_vector& bytes, std::string_view wanted) {
  const std::byte* const table = bytes.data() + 64;
  for (std::size_t record = 0; record < load_le<std::uint64_t>(bytes.data() + 32);) {
    const auto name = load_le<std::uint16_t>(table + record);
    const auto dimensions = std::to_integer<std::size_t>(table[record + 3]);
    if (as_text({table + record + 32 + 8 * dimensions, name}) == wanted) {
      return load_le<std::uint64_t>(table + record + 8);
    }
    record += 32 + 8 * dimensions + align_up<std::size_t>(name, 8);
  }
  return 0;
}

}  // namespace

TEST(Checkpoint, GivesBackWhatWasSaved) {
  const temp_folder folder;
  const small_model model(9);
  auto store = writer_in(folder);
  EXPECT_EQ(or_throw(store.save(model.sections(), 9)), 1U);
  const checkpoint ck = or_throw(reader_in(folder).load_newest());
  EXPECT_EQ(ck.header(), (checkpoint_header{1, 9}));
  EXPECT_EQ(ck.path(), folder / "ck/ck-1.weir");
  EXPECT_EQ(ck.cursor(), model.cursor);
  EXPECT_EQ(as_text(ck.conductor()), "budget 12");
  EXPECT_TRUE(ck.skipped().empty());
  const auto* const w = or_throw(ck.find("PARAM/w"));
  EXPECT_EQ(w->type, dtype::fp32);
  EXPECT_EQ(w->shape, (shape_vector{3, 5}));
  EXPECT_TRUE(std::equal(w->data.begin(), w->data.end(),
                         std::as_bytes(std::span(model.weights)).begin()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w->data.data()) % 64, 0U);
  EXPECT_EQ(ck.find("PARAM/none").error().code(), errc::not_found);
}

TEST(Checkpoint, EqualStatesGiveEqualBytes) {
  const temp_folder a;
  const temp_folder b;
  const small_model model(4);
  auto first = writer_in(a);
  auto second = writer_in(b);
  or_throw(first.save(model.sections(), 4));
  or_throw(second.save(small_model(4).sections(), 4));
  EXPECT_EQ(bytes_of(a / "ck/ck-1.weir"), bytes_of(b / "ck/ck-1.weir"));
}

TEST(Checkpoint, AnyFlippedByteIsAnErrorThatNamesFileAndSection) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  const std::string path = folder / "ck/ck-1.weir";
  const byte_vector bytes = bytes_of(path);
  const std::string flipped_path = folder / "flipped";
  replace(flipped_path, bytes);
  const auto f = or_throw(posix_file_system().open(flipped_path, open_mode::read_write));
  std::map<std::string, std::size_t> sections;
  for (std::size_t offset = 0; offset < bytes.size(); ++offset) {
    const std::byte flipped = bytes[offset] ^ static_cast<std::byte>(1U << offset % 8);
    or_throw(write_all(*f, offset, std::span(&flipped, 1)));
    const auto r = load_checkpoint(posix_file_system(), flipped_path);
    ASSERT_FALSE(r) << offset;
    const std::string& where = r.error().location();
    ASSERT_EQ(where.rfind(flipped_path, 0), 0U) << offset << ": " << r.error().message();
    const auto section = where.find("(section ");
    ASSERT_NE(section, std::string::npos) << offset << ": " << r.error().message();
    ++sections[where.substr(section)];
    or_throw(write_all(*f, offset, bytes_view(bytes).subspan(offset, 1)));
  }
  EXPECT_TRUE(load_checkpoint(posix_file_system(), flipped_path));
  for (const char* name :
       {"PREAMBLE", "TABLE", "FOOTER", "CONFIG", "CURSOR", "PARAM/w"}) {
    EXPECT_GT(sections["(section " + std::string(name) + ")"], 0U) << name;
  }
  // Padding belongs to the section before it.
  EXPECT_EQ(sections["(section PARAM/w)"], 4096U);
}

TEST(Checkpoint, EveryCutIsTornOrCorrupt) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  const byte_vector bytes = bytes_of(folder / "ck/ck-1.weir");
  std::vector<std::size_t> sizes = {
      0, 1, 63, 64, 127, 128, bytes.size() - 65, bytes.size() - 1};
  for (const char* name : {"CONFIG", "CONDUCTOR", "CURSOR", "SOURCE_STATE", "PARAM/w"}) {
    const std::size_t offset = offset_of(bytes, name);
    ASSERT_GT(offset, 0U);
    sizes.insert(sizes.end(), {offset - 1, offset, offset + 1});
  }
  for (const std::size_t size : sizes) {
    replace(folder / "cut", bytes_view(bytes).first(size));
    const auto r = load_checkpoint(posix_file_system(), folder / "cut");
    ASSERT_FALSE(r) << size;
    EXPECT_EQ(r.error().code(), errc::torn) << size << ": " << r.error().message();
  }
  byte_vector longer = bytes;
  longer.resize(bytes.size() + 1);
  replace(folder / "cut", longer);
  EXPECT_EQ(load_checkpoint(posix_file_system(), folder / "cut").error().code(),
            errc::corrupt);
}

TEST(Checkpoint, HugeLengthsAreRefusedBeforeAnythingIsAllocated) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  const byte_vector bytes = bytes_of(folder / "ck/ck-1.weir");
  // The offsets of the number of sections, of the length of the table and of the file,
  // and then of offset, length and a dimension of the first entry. The checksums are made
  // right again, so that only the check of the lengths can refuse them.
  for (const std::size_t offset : {12U, 32U, 40U, 64U + 8, 64U + 16, 64U + 32}) {
    for (const std::uint64_t value :
         {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{0}}) {
      byte_vector damaged = bytes;
      if (offset == 12) {
        store_le(damaged.data() + offset, static_cast<std::uint32_t>(value));
      } else {
        store_le(damaged.data() + offset, value);
      }
      if (offset >= 64) {
        store_le(damaged.data() + 48,
                 xxh3_64(bytes_view(damaged).subspan(
                     64, load_le<std::uint64_t>(damaged.data() + 32))));
      }
      store_le(damaged.data() + 56, xxh3_64(bytes_view(damaged).first(56)));
      replace(folder / "huge", damaged);
      EXPECT_FALSE(load_checkpoint(posix_file_system(), folder / "huge"))
          << offset << " " << value;
    }
  }
}

TEST(Checkpoint, AFileThatIsLargerThanTheMemoryOfTheMachineIsAnError) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  byte_vector bytes = bytes_of(folder / "ck/ck-1.weir");
  const std::uint64_t memory = memory_of_machine().total;
  // The file is sparse, and the hash of its preamble is right.
  store_le(bytes.data() + 40, 2 * memory);
  store_le(bytes.data() + 56, xxh3_64(bytes_view(bytes).first(56)));
  replace(folder / "sparse", bytes);
  std::filesystem::resize_file(folder / "sparse", 2 * memory);
  const auto loaded = load_checkpoint(posix_file_system(), folder / "sparse");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), errc::out_of_memory);
  EXPECT_NE(loaded.error().message().find("sparse"), std::string::npos);
}

TEST(RestoreErrors, MissingCursor) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  // The section is renamed in place and all hashes are computed again: every checksum is
  // right, but there is no cursor.
  byte_vector bytes = bytes_of(folder / "ck/ck-1.weir");
  const auto found = std::search(bytes.begin(), bytes.begin() + 4096,
                                 as_view("CURSOR").begin(), as_view("CURSOR").end());
  ASSERT_NE(found, bytes.begin() + 4096);
  *found = std::byte{'X'};
  seal(bytes);
  replace(folder / "x", bytes);
  const auto r = load_checkpoint(posix_file_system(), folder / "x");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::missing_cursor);
  EXPECT_NE(r.error().text().find("no valid checkpoint without a StreamCursor"),
            std::string::npos);
}

TEST(RestoreErrors, StreamModelMismatch) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  const byte_vector original = bytes_of(folder / "ck/ck-1.weir");
  // Changes the pulse of the model, of the stream, or of the file.
  for (const int which : {0, 1, 2}) {
    byte_vector bytes = original;
    if (which == 0) {
      store_le(bytes.data() + offset_of(bytes, "CONDUCTOR"), std::uint64_t{4});
    } else if (which == 1) {
      store_le(bytes.data() + offset_of(bytes, "CURSOR") + 32, std::uint64_t{4});
    } else {
      store_le(bytes.data() + 24, std::uint64_t{4});
      store_le(bytes.data() + bytes.size() - 56, std::uint64_t{4});
    }
    seal(bytes);
    replace(folder / "x", bytes);
    const auto r = load_checkpoint(posix_file_system(), folder / "x");
    ASSERT_FALSE(r) << which;
    EXPECT_EQ(r.error().code(), errc::stream_model_mismatch) << r.error().message();
    EXPECT_NE(r.error().text().find("out of sync, cannot resume"), std::string::npos);
    EXPECT_NE(r.error().text().find('3'), std::string::npos);
    EXPECT_NE(r.error().text().find('4'), std::string::npos);
  }
}

// The cursor section of another checkpoint replaces the right one, and all checksums are
// made right again.
TEST(RestoreErrors, ACursorOfAnotherCheckpointDoesNotPassTheGate) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  or_throw(store.save(small_model(4).sections(), 4));
  byte_vector bytes = bytes_of(folder / "ck/ck-1.weir");
  const byte_vector other = bytes_of(folder / "ck/ck-2.weir");
  const std::uint64_t offset = offset_of(bytes, "CURSOR");
  ASSERT_EQ(offset, offset_of(other, "CURSOR"));
  std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(offset), 72,
              bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  seal(bytes);
  replace(folder / "x", bytes);
  EXPECT_FALSE(load_checkpoint(posix_file_system(), folder / "x"));
}

TEST(RestoreErrors, UnsupportedVersionCorruptTornAndNotFound) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  byte_vector bytes = bytes_of(folder / "ck/ck-1.weir");
  auto& fs = posix_file_system();
  byte_vector version = bytes;
  version[8] = std::byte{3};
  replace(folder / "v", version);
  EXPECT_EQ(load_checkpoint(fs, folder / "v").error().code(), errc::unsupported_version);
  byte_vector damaged = bytes;
  damaged[offset_of(bytes, "PARAM/w") + 5] ^= std::byte{1};
  replace(folder / "d", damaged);
  const auto corrupt = load_checkpoint(fs, folder / "d");
  EXPECT_EQ(corrupt.error().code(), errc::corrupt);
  EXPECT_NE(corrupt.error().text().find("PARAM/w"), std::string::npos);
  bytes.pop_back();
  replace(folder / "t", bytes);
  EXPECT_EQ(load_checkpoint(fs, folder / "t").error().code(), errc::torn);
  EXPECT_EQ(load_checkpoint(fs, folder / "n").error().code(), errc::not_found);
}

TEST(CheckpointStore, KeepsTheTwoNewestGenerations) {
  const temp_folder folder;
  auto store = writer_in(folder);
  for (std::uint64_t pulse = 1; pulse <= 5; ++pulse) {
    EXPECT_EQ(or_throw(store.save(small_model(pulse).sections(), pulse)), pulse);
  }
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder / "ck"),
            (names{"ck-4.weir", "ck-5.weir"}));
  const auto entries = or_throw(store.verify());
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].header, (checkpoint_header{5, 5}));
  EXPECT_FALSE(entries[0].problem || entries[1].problem);
  EXPECT_EQ(entries[0].bytes, bytes_of(entries[0].path).size());
}

TEST(CheckpointStore, AnInvalidNewestFallsBackAndSaysSo) {
  const temp_folder folder;
  auto store = writer_in(folder);
  or_throw(store.save(small_model(1).sections(), 1));
  or_throw(store.save(small_model(2).sections(), 2));
  byte_vector bytes = bytes_of(folder / "ck/ck-2.weir");
  bytes[offset_of(bytes, "CONFIG")] ^= std::byte{4};
  replace(folder / "ck/ck-2.weir", bytes);
  const auto ck = or_throw(reader_in(folder).load_newest());
  EXPECT_EQ(ck.header().generation, 1U);
  ASSERT_EQ(ck.skipped().size(), 1U);
  EXPECT_NE(ck.skipped()[0].location().find("ck-2.weir"), std::string::npos);
  EXPECT_NE(ck.skipped()[0].location().find("CONFIG"), std::string::npos);
  const auto entries = or_throw(reader_in(folder).verify());
  EXPECT_TRUE(entries[0].problem);
  EXPECT_FALSE(entries[1].problem);
  // The list reads only preambles, so it does not see this damage.
  EXPECT_FALSE(or_throw(reader_in(folder).list())[0].problem);
}

TEST(CheckpointStore, TheGenerationInsideCountsNotNameOrTime) {
  const temp_folder folder;
  {
    auto store = writer_in(folder);
    or_throw(store.save(small_model(1).sections(), 1));
    or_throw(store.save(small_model(2).sections(), 2));
  }
  std::filesystem::rename(folder / "ck/ck-1.weir", folder / "ck/ck-90.weir");
  EXPECT_EQ(or_throw(reader_in(folder).load_newest()).header().generation, 2U);
  auto store = writer_in(folder);
  EXPECT_EQ(or_throw(store.save(small_model(3).sections(), 3)), 91U);
  EXPECT_EQ(or_throw(store.load_newest()).header().pulse_id, 3U);
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder / "ck"),
            (names{"ck-2.weir", "ck-91.weir"}));
}

TEST(CheckpointStore, PruningKeepsTwoThatAreWhole) {
  const temp_folder folder;
  {
    auto store = writer_in(folder);
    or_throw(store.save(small_model(1).sections(), 1));
    or_throw(store.save(small_model(2).sections(), 2));
  }
  byte_vector bytes = bytes_of(folder / "ck/ck-2.weir");
  bytes[5000] ^= std::byte{4};
  replace(folder / "ck/ck-2.weir", bytes);
  auto store = writer_in(folder);
  or_throw(store.save(small_model(3).sections(), 3));
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder / "ck"),
            (names{"ck-1.weir", "ck-2.weir", "ck-3.weir"}));
  or_throw(store.save(small_model(4).sections(), 4));
  EXPECT_EQ(checkpoints_in(posix_file_system(), folder / "ck"),
            (names{"ck-3.weir", "ck-4.weir"}));
}

TEST(CheckpointStore, WithoutAnyFileThereIsNothingAndWithBadOnesTheNewestIsNamed) {
  const temp_folder folder;
  EXPECT_EQ(checkpoint_store::open(posix_file_system(), folder / "ck").error().code(),
            errc::not_found);
  EXPECT_EQ(writer_in(folder).load_newest().error().code(), errc::not_found);
  replace(folder / "ck/ck-7.weir", as_view("rubbish"));
  replace(folder / "ck/ck-6.weir", as_view(""));
  auto store = writer_in(folder);
  const auto r = store.load_newest();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::torn);
  EXPECT_NE(r.error().location().find("ck-7.weir"), std::string::npos);
  EXPECT_EQ(or_throw(store.save(small_model(1).sections(), 1)), 8U);
}

TEST(CheckpointStore, RefusesASecondWriterAndSavingByAReader) {
  const temp_folder folder;
  auto store = writer_in(folder);
  const auto second =
      checkpoint_store::open(posix_file_system(), folder / "ck", store_role::writer);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), errc::locked);
  auto reader = reader_in(folder);
  EXPECT_EQ(reader.save(small_model(1).sections(), 1).error().code(),
            errc::invalid_argument);
}

TEST(CheckpointStore, CleansItsOwnLeftoversAndNothingElse) {
  const temp_folder folder;
  {
    auto store = writer_in(folder);
    or_throw(store.save(small_model(1).sections(), 1));
  }
  for (const char* name : {"ck-2.weir.tmp", "ck-x.weir.tmp", "notes.tmp", "ck-03.weir"}) {
    replace(folder / ("ck/" + std::string(name)), as_view("x"));
  }
  auto store = writer_in(folder);
  EXPECT_EQ(or_throw(posix_file_system().list(folder / "ck")),
            (names{"ck-03.weir", "ck-1.weir", "ck-x.weir.tmp", "lock", "notes.tmp"}));
}

TEST(CheckpointStore, RefusesToSaveWhatItWouldRefuseToLoad) {
  const temp_folder folder;
  auto store = writer_in(folder);
  const small_model model(3);
  const auto code_without = [&](std::string_view name) {
    auto sections = model.sections();
    sections.erase(std::remove_if(sections.begin(), sections.end(),
                                  [&](const auto& s) { return s.name == name; }),
                   sections.end());
    return store.save(sections, 3).error().code();
  };
  EXPECT_EQ(code_without("CURSOR"), errc::missing_cursor);
  for (const char* name : {"CONFIG", "CONDUCTOR", "SOURCE_STATE", "RNG", "PARAM/w"}) {
    EXPECT_EQ(code_without(name), errc::invalid_argument) << name;
  }
  EXPECT_EQ(store.save(model.sections(), 4).error().code(), errc::stream_model_mismatch);
  auto doubled = model.sections();
  doubled.push_back(doubled.back());
  EXPECT_EQ(store.save(doubled, 3).error().code(), errc::invalid_argument);
  auto shaped = model.sections();
  shaped.back().shape = {4, 5};
  EXPECT_EQ(store.save(shaped, 3).error().code(), errc::invalid_argument);
  EXPECT_TRUE(checkpoints_in(posix_file_system(), folder / "ck").empty());
}

TEST(CheckpointStore, RandomCursorsAndManySectionsSurvive) {
  const temp_folder folder;
  auto store = writer_in(folder);
  small_model model(7);
  model.cursor.rng = rng_state{1, 1, 2, 3, 4};
  model.cursor_parts = sections_of(model.cursor);
  auto sections = model.sections();
  std::vector<byte_vector> bodies;
  for (std::size_t i = 0; i < 100; ++i) {
    bodies.emplace_back(i * 83, static_cast<std::byte>(i));
  }
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    sections.push_back({"CTX/lane/" + std::to_string(i), bodies[i]});
  }
  or_throw(store.save(sections, 7));
  const auto ck = or_throw(store.load_newest());
  EXPECT_EQ(ck.cursor().rng, model.cursor.rng);
  EXPECT_EQ(ck.sections().size(), sections.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const auto* const s = or_throw(ck.find("CTX/lane/" + std::to_string(i)));
    EXPECT_TRUE(
        std::equal(s->data.begin(), s->data.end(), bodies[i].begin(), bodies[i].end()));
  }
}

TEST(History, HasOneEncodingAndRefusesEveryOther) {
  const std::vector<run_change> changes = {{12, 768, "phase.test.tokens", "300", "5000"},
                                           {13, 832, "stream.path", "", "a | b"}};
  const byte_vector bytes = encode_history(changes);
  EXPECT_EQ(or_throw(decode_history(bytes)), changes);
  EXPECT_TRUE(or_throw(decode_history({})).empty());
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_EQ(decode_history(bytes_view(bytes).first(length)).error().code(),
              errc::corrupt)
        << length;
  }
  byte_vector longer = bytes;
  longer.push_back({});
  EXPECT_EQ(decode_history(longer).error().code(), errc::corrupt);
  byte_vector later = bytes;
  later[0] = std::byte{2};
  EXPECT_EQ(decode_history(later).error().code(), errc::unsupported_version);
}
