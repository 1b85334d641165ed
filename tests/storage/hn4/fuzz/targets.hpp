// SPDX-License-Identifier: Apache-2.0
/// @file
/// Fuzz targets for volumes. Whatever bytes come in, there may be no crash, no report of
/// a sanitizer, and no wrong bytes without an error. A target ends the process if that is
/// not so.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "../../../../storage/hn4/directory/directory.hpp"
#include "storage/hn4/fuzz/volumes.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::storage::test::fuzz {

/// Ends the process with a text if a promise of the library is broken.
inline void promise(bool holds, const char* text) {
  if (!holds) {
    std::fprintf(stderr, "broken promise: %s\n", text);
    std::abort();
  }
}

/// Calls everything that reads a device, with little memory.
inline void ask_everything(block_device& device, std::string_view tag) {
  byte_vector part(40'000);
  for (const bool strict : {false, true}) {
    auto through = std::make_unique<borrowed_device>(device);
    const auto volume =
        strict ? hn4_volume::open_strictly(std::move(through))
               : hn4_volume::open(std::move(through), device_mode::read_only);
    if (!volume) {
      promise(!volume.error().text().empty(), "an error has a text");
      continue;
    }
    (void)volume->tags();
    if (const auto stream = volume->stream(tag)) {
      (void)stream->read_partial(0, part);
      (void)stream->read_partial(stream->size() - 1, part);
      (void)stream->read_partial(stream->size() / 2, part);
    }
  }
}

/// Reads a volume whose superblock has arbitrary fields and a right checksum.
inline void superblock(bytes_view input) {
  if (input.empty()) {
    return;
  }
  // Bit 0 of the first byte decides whether the input is laid over a sound superblock or
  // over zeros.
  byte_vector bytes(hn4::superblock_bytes);
  volume_for_fuzzing& v = shared_volume();
  if ((std::to_integer<unsigned>(input[0]) & 1U) != 0) {
    or_throw(v.device().read(0, bytes));
  }
  const bytes_view over =
      input.subspan(1, std::min<std::size_t>(input.size() - 1, 0x200));
  std::copy(over.begin(), over.end(), bytes.begin() + 8);
  store_le(bytes.data(), hn4::superblock_magic);
  const std::size_t end = bytes.size() - 4;
  store_le(bytes.data() + end, crc32(0, bytes_view(bytes).first(end)));
  hn4::superblock sb;
  if (!hn4::load_superblock(bytes, sb)) {
    byte_vector again(hn4::superblock_bytes);
    hn4::store_superblock(sb, again);
    (void)hn4::places_of_copies(sb.capacity, sb.block);
    if (const auto g = hn4::geometry_of(sb)) {
      promise(g->block > 48 && g->sector > 0, "a layout that is accepted makes sense");
      promise(g->cortex <= g->bitmap && g->bitmap <= g->qmask && g->qmask <= g->flux &&
                  g->flux <= g->capacity,
              "the regions of a layout that is accepted are in order");
    }
  }
  const overlaid_bytes patch(v.device(), 0, bytes);
  ask_everything(v.device(), v.tag());
  (void)hn4_check(std::make_unique<borrowed_device>(v.device()));
}

/// Reads a volume with arbitrary directory entries beside sound ones; most have right
/// checksums.
inline void anchors(bytes_view input) {
  volume_for_fuzzing& v = shared_volume();
  std::vector<std::unique_ptr<overlaid_bytes>> patches;
  for (std::uint64_t i = 0; i < 8 && !input.empty(); ++i) {
    byte_vector entry(hn4::anchor_bytes);
    const bytes_view part = input.first(std::min(input.size(), entry.size()));
    input = input.subspan(part.size());
    std::copy(part.begin(), part.end(), entry.begin());
    hn4::anchor a;
    (void)hn4::load_anchor(entry, a);
    (void)hn4::group_of(a);
    (void)hn4::trajectory(v.core().space, a).block(a.gravity % 300);
    if ((a.permissions & 1U) == 0) {
      hn4::store_anchor(a, entry);  // makes the checksum right
    }
    patches.push_back(std::make_unique<overlaid_bytes>(
        v.device(), v.core().slot_offset(v.free_slot() + i), entry));
  }
  ask_everything(v.device(), "t");
  (void)hn4_check(std::make_unique<borrowed_device>(v.device()));
  const auto volume = open_on(v.device());
  const auto ours = volume ? volume->stream(v.tag()) : result<hn4_stream>(volume.error());
  const auto now = ours ? ours->read_all() : result<byte_vector>(ours.error());
  promise(!now || *now == v.bytes() || !ours->warnings().empty(),
          "other entries do not change a stream in silence");
}

/// Reads a volume with an arbitrary block. Byte 0 of the input selects the block, byte 1
/// the fields that are made right.
inline void blocks(bytes_view input) {
  if (input.size() < 3) {
    return;
  }
  volume_for_fuzzing& v = shared_volume();
  const std::uint64_t n = std::to_integer<unsigned>(input[0]) % v.block_count();
  const unsigned mend = std::to_integer<unsigned>(input[1]);
  byte_vector block(v.core().geometry.block);
  or_throw(v.device().read(v.block_offset(n), block));
  const bytes_view over = input.subspan(2);
  const std::size_t offset = (mend & 4U) != 0 ? hn4::header_bytes : 0;
  const std::size_t size = std::min(over.size(), block.size() - offset);
  std::copy_n(over.begin(), size, block.begin() + static_cast<std::ptrdiff_t>(offset));
  if ((mend & 1U) != 0) {
    hn4::block_header h = hn4::load_header(block);
    h.data_crc = crc32(0, bytes_view(block).subspan(hn4::header_bytes));
    if ((mend & 2U) != 0) {
      h = v.header_of(n, h);
    }
    hn4::store_header(h, block);
  }
  const overlaid_bytes patch(v.device(), v.block_offset(n), block);
  ask_everything(v.device(), v.tag());
  const auto volume = or_throw(open_on(v.device()));
  const auto stream = or_throw(volume.stream(v.tag()));
  const auto now = stream.read_all();
  promise((mend & 1U) != 0 || !now || *now == v.bytes(),
          "a block whose checksum was not forged gives its bytes or an error");
}

/// Decodes a compressed payload, which must stay in bounds, and encodes the input, which
/// must decode to itself.
inline void tcc(bytes_view input) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{464}, std::size_t{4048}}) {
    byte_vector out(size);
    const auto made = hn4::tcc_decode(input, out);
    promise(!made || *made <= size, "a decoder says how much it made");
  }
  byte_vector packed(input.size() * 2 + 16), again(input.size());
  if (const auto size = hn4::tcc_encode(input, packed)) {
    const auto made = hn4::tcc_decode(bytes_view(packed).first(*size), again);
    promise(made && *made == input.size() &&
                std::equal(again.begin(), again.end(), input.begin()),
            "what was encoded decodes to what it was");
  }
}

/// Takes the input as the name of a tag that is stored, and as the block of a long name.
inline void names(bytes_view input) {
  volume_for_fuzzing& v = shared_volume();
  (void)hn4::tag_mask(as_text(input));
  {
    const overlaid_bytes patch(
        v.device(), v.long_name_offset(),
        input.first(std::min<std::size_t>(input.size(), v.core().geometry.block)));
    ask_everything(v.device(), v.long_tag());
    const auto volume = or_throw(open_on(v.device()));
    promise(or_throw(or_throw(volume.stream(v.tag())).read_all()) == v.bytes(),
            "a damaged name leaves other tags alone");
  }
  const std::unique_ptr<memory_device> copy = v.device().clone();
  auto writable = or_throw(open_on(*copy, device_mode::writable));
  const bytes_view content = bytes_view(v.bytes()).first(100);
  if (writable.put(as_text(input), content, fixed_put())) {
    const auto back = read_tag(*copy, as_text(input));
    promise(
        back && std::equal(back->begin(), back->end(), content.begin(), content.end()),
        "a name that was accepted finds what was stored");
  }
}

/// Takes the input as a stored file and finds the tensors in its header.
inline void directory(bytes_view input) {
  const auto d = tensor_directory::from_bytes(input);
  for (const stored_tensor& t : d ? d->tensors() : std::span<const stored_tensor>()) {
    promise(t.offset <= input.size() && t.bytes <= input.size() - t.offset,
            "a tensor that is accepted lies in its file");
  }
}

}  // namespace weir::storage::test::fuzz
