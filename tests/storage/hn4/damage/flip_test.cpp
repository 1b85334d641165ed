// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests damaged bits, bytes and sectors in volumes of both writers: every tag gives the
/// same bytes as before or an error with a place, and a check finds what is lost.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "storage/hn4/damage/foreign.hpp"
#include "storage/hn4/support.hpp"
#include "support/fixtures.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

/// A device that returns other bytes at some places.
class patched_device final : public borrowed_device {
 public:
  using patches = std::map<std::uint64_t, std::byte>;

  patched_device(block_device& to, const patches& p) : borrowed_device(to), patches_(p) {}

  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    WEIR_CHECK(borrowed_device::read(offset, to));
    for (auto p = patches_.lower_bound(offset);
         p != patches_.end() && p->first - offset < to.size(); ++p) {
      to[static_cast<std::size_t>(p->first - offset)] = p->second;
    }
    return {};
  }
  result<extent> next_data(std::uint64_t offset, std::uint64_t end) override {
    WEIR_TRY(const extent data, borrowed_device::next_data(offset, end));
    const auto p = patches_.lower_bound(offset);
    if (p == patches_.end() || p->first >= end ||
        (data.size != 0 && data.offset <= p->first)) {
      return data;
    }
    return extent{p->first, 1};
  }

 private:
  const patches& patches_;
};

/// A volume, its tags, and the places at which damage matters most.
struct subject {
  std::string name;
  std::unique_ptr<block_device> device;
  bool closed_cleanly = true;
  std::map<std::string, byte_vector> tags;  ///< contents of the readable tags
  std::set<std::string> names;              ///< names of all tags
  std::set<std::string> findings;
  std::vector<std::uint64_t> places;  ///< bytes whose change matters
  std::uint64_t size = 0;
};

/// Returns the findings of a check, or its error.
std::set<std::string> findings_of(std::unique_ptr<block_device> device) {
  std::set<std::string> texts;
  if (const auto report = hn4_check(std::move(device))) {
    for (const hn4_finding& f : report->findings) {
      texts.insert(f.kind + f.text);
    }
  } else {
    texts.insert(report.error().message());
  }
  return texts;
}

/// Adds places in directory entries, long names, blocks, bitmap, superblocks and epochs,
/// and some anywhere.
void add_places(subject& s, const philox& random) {
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*s.device)));
  const hn4_geometry& g = core->geometry;
  std::uint64_t draws = 0;
  const auto below = [&](std::uint64_t n) { return random.below(3 * draws++, n); };
  const auto add = [&](std::uint64_t begin, std::uint64_t bytes, int times) {
    for (int i = 0; i < times; ++i) {
      s.places.push_back(begin + below(bytes));
    }
  };
  for (const hn4::entry& e : core->entries) {
    add(core->slot_offset(e.slot), hn4::anchor_bytes, 12);
    if (e.a.has(hn4::class_bits::extended)) {
      const std::uint64_t offset = load_le<std::uint64_t>(e.a.name.data()) * g.sector;
      add(offset < s.size ? offset : 0, 80, 4);
    }
    const hn4::trajectory path(core->space, e.a);
    for (int i = 0; i < 4 && e.a.live() && e.a.mass != 0; ++i) {
      const auto block =
          path.block(below(std::min(g.blocks, hn4::blocks_for(g, e.a.mass))));
      if (block && *block < g.blocks) {
        add(*block * g.block, i % 2 == 0 ? hn4::header_bytes : g.block, 1);
        add(g.bitmap + *block / 8, 1, i % 2);
      }
    }
  }
  const hn4::copy_places copies = hn4::places_of_copies(g.capacity, g.block);
  for (const std::uint64_t offset : {std::uint64_t{0}, copies.east, copies.west}) {
    add(offset, 0x118, 3);
    add(offset, hn4::superblock_bytes, 1);
  }
  add(g.epoch, 4096, 4);
  add(g.bitmap, g.qmask - g.bitmap, 4);
  add(0, s.size, 10);
}

/// Reads all tags of a sound volume and chooses the places for faults.
subject examined(std::string name, std::unique_ptr<block_device> device) {
  subject s;
  s.name = std::move(name);
  s.device = std::move(device);
  s.size = s.device->size();
  const hn4_volume volume = or_throw(open_on(*s.device));
  s.closed_cleanly = volume.state() == 0x2001;
  for (const hn4_damaged_tag& tag : or_throw(volume.damaged_tags())) {
    s.names.insert(tag.name);
  }
  for (const hn4_tag& tag : or_throw(volume.tags())) {
    s.names.insert(tag.name);
    const auto bytes = or_throw(volume.stream(tag.name)).read_all();
    if (bytes) {
      s.tags[tag.name] = *bytes;
    }
  }
  s.findings = findings_of(std::make_unique<borrowed_device>(*s.device));
  add_places(s, philox(4, s.size));
  return s;
}

/// One fault: a changed bit or byte, or a sector of zeros or noise.
struct fault {
  patched_device::patches bytes;
  std::string text;
  bool is_sector = false;
};

/// Draws a fault at one of the places.
fault draw_fault(subject& s, const philox& random, std::uint64_t number) {
  const auto bits = [&](std::uint64_t i) { return random.bits(8 * number + i); };
  fault f;
  const std::uint64_t offset = s.places[bits(0) % s.places.size()];
  const std::uint64_t kind = bits(1) % 8;
  std::array<std::byte, 1> old{};
  or_throw(s.device->read(offset, old));
  if (kind < 4) {
    f.bytes[offset] = old[0] ^ static_cast<std::byte>(1U << (bits(2) % 8));
    f.text = fmt::format("a bit of byte {}", offset);
  } else if (kind < 6) {
    f.bytes[offset] = old[0] ^ static_cast<std::byte>(1 + bits(2) % 255);
    f.text = fmt::format("byte {}", offset);
  } else {
    f.is_sector = true;
    const byte_vector lost =
        kind == 6 ? byte_vector(sector_bytes) : noise(sector_bytes, bits(3));
    for (std::uint64_t i = 0; i < sector_bytes; ++i) {
      f.bytes[align_down(offset, sector_bytes) + i] = lost[static_cast<std::size_t>(i)];
    }
    f.text = fmt::format("the sector at byte {} is {}", align_down(offset, sector_bytes),
                         kind == 6 ? "zero" : "noise");
  }
  return f;
}

/// Expects that an unreadable tag is an error that names a place in the volume. It may be
/// "not found" only if nothing is left that shows the loss.
bool expect_same_or_error(const subject& s, const hn4_volume& volume,
                          const std::string& tag, const fault& f) {
  const auto stream = volume.stream(tag);
  const auto bytes = stream ? stream->read_all() : result<byte_vector>(stream.error());
  if (bytes) {
    EXPECT_TRUE(*bytes == s.tags.at(tag) || (f.is_sector && !s.closed_cleanly))
        << s.name << ", " << f.text << ": WRONG BYTES of " << tag << ", " << bytes->size()
        << " instead of " << s.tags.at(tag).size();
    return true;
  }
  EXPECT_NE(bytes.error().location().find(s.device->name() + ":"), std::string::npos)
      << s.name << ", " << f.text << ": " << bytes.error().message();
  EXPECT_TRUE(bytes.error().code() != errc::not_found || !s.closed_cleanly)
      << s.name << ", " << f.text << ": " << bytes.error().message();
  return false;
}

/// Expects that no name becomes readable that was not there before.
void expect_nothing_new(const subject& s, const hn4_volume& volume, const fault& f) {
  for (const hn4_tag& tag : or_throw(volume.tags())) {
    if (s.names.count(tag.name) == 0) {
      const auto stream = volume.stream(tag.name);
      EXPECT_FALSE(stream && stream->read_all())
          << s.name << ", " << f.text << ": a new tag " << tag.name;
    }
  }
}

/// Number of faults, and of those that made a tag unreadable.
struct fault_tally {
  std::uint64_t faults = 0, errors = 0;
};

/// Applies faults one by one and checks all tags under each.
void try_faults(subject& s, std::uint64_t count, std::uint64_t seed, fault_tally& t) {
  const philox random(seed, s.size);
  for (std::uint64_t i = 0; i < count && !testing::Test::HasFailure(); ++i, ++t.faults) {
    const fault f = draw_fault(s, random, i);
    SCOPED_TRACE(fmt::format("seed {}, fault {} of {}", seed, i, s.name));
    bool lost = false;
    const auto volume = hn4_volume::open(
        std::make_unique<patched_device>(*s.device, f.bytes), device_mode::read_only);
    if (!volume) {
      lost = true;
    } else {
      for (const auto& [tag, bytes] : s.tags) {
        lost = !expect_same_or_error(s, *volume, tag, f) || lost;
      }
      expect_nothing_new(s, *volume, f);
    }
    t.errors += lost ? 1 : 0;
    if (lost || i % 8 == 0) {
      const auto now = findings_of(std::make_unique<patched_device>(*s.device, f.bytes));
      EXPECT_TRUE(!lost || !std::includes(s.findings.begin(), s.findings.end(),
                                          now.begin(), now.end()))
          << s.name << ", " << f.text
          << ": a tag is lost, and a check finds nothing more";
    }
  }
}

/// Makes a volume with tags of this writer, one of them with a long name, and tags of
/// another writer.
std::unique_ptr<memory_device> mixed_volume() {
  auto device = formatted_small();
  for (const auto& [tag, shards] : std::vector<std::pair<std::string, std::uint32_t>>{
           {"one", 1},
           {"three", 3},
           {"foreign", 4},
           {"foreign alone", 1},
           {"a name that takes a block of its own", 2}}) {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    or_throw(volume.put(tag, noise(700, 3), fixed_put(shards)));
    or_throw(volume.put(tag, noise(6000, shards), fixed_put(shards)));
  }
  make_foreign(*device, "foreign");
  make_foreign(*device, "foreign alone");
  return device;
}

TEST(Hn4Flips, OfAVolumeOfOursGiveTheSameBytesOrAnError) {
  constexpr std::uint64_t seed = 11;
  subject s = examined("mixed", mixed_volume());
  ASSERT_EQ(s.tags.size(), 5U);
  ASSERT_TRUE(s.findings.empty()) << *s.findings.begin();
  fault_tally t;
  try_faults(s, number_of_tries("WEIR_TEST_FAULTS", 600), seed, t);
  EXPECT_GT(t.errors, t.faults / 6);
}

TEST(Hn4Flips, OfTheReferencesVolumesGiveTheSameBytesOrAnError) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  constexpr std::uint64_t seed = 12;
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  const nlohmann::json manifest = nlohmann::json::parse(as_text(text));
  fault_tally t;
  for (const nlohmann::json& image : manifest["images"]) {
    if (image.contains("extents")) {
      continue;  // each of its blocks has 64 MiB
    }
    subject s = examined(image["name"],
                         unpack_image(folder + "/" + image["file"].get<std::string>(),
                                      image["raw_bytes"]));
    try_faults(s, number_of_tries("WEIR_TEST_FAULTS", 25), seed, t);
  }
  EXPECT_GT(t.errors, t.faults / 6);
}

}  // namespace
}  // namespace weir::storage::test
