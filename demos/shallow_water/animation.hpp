// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes an animated picture of the depth: a PNG whose further frames are in chunks that
/// viewers without animations ignore. Each frame is in the file before the run goes on,
/// so that a run which is killed and resumed adds its frames to those from before.
/// @source{PNG Specification, third edition}
#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "weir/runtime/view.hpp"

namespace shallow_water {

/// Properties of all frames of an animation.
struct animation_setup {
  std::int64_t rows = 0;     ///< values of a column
  std::int64_t columns = 0;  ///< values of a row
  std::int64_t points = 1;   ///< `points` by `points` values are one point
  double lowest = 0;         ///< value with the darkest colour
  double highest = 1;        ///< value with the lightest colour
  int frame_ms = 80;         ///< time for which a frame is shown
  std::int64_t every = 1;    ///< steps between two frames
};

/// A file with frames of one size, each a field whose values have colours from dark to
/// light.
class animation {
 public:
  /// Makes an animation without frames. The file is written with the first one.
  animation(std::string path, const animation_setup& with)
      : path_(std::move(path)),
        with_(with),
        height_(with.rows / with.points),
        width_(with.columns / with.points) {}

  /// Adds the frame of a step. @throws std::runtime_error if the file cannot be written
  void add(const weir::view<const double, 2>& field, std::int64_t step) {
    std::string lines;
    for (std::int64_t i = 0; i < height_; ++i) {
      lines += '\0';  // no filter
      for (std::int64_t j = 0; j < width_; ++j) {
        const double part =
            (mean(field, i, j) - with_.lowest) / (with_.highest - with_.lowest);
        lines += static_cast<char>(std::lround(std::clamp(part, 0.0, 1.0) * last_colour));
      }
    }
    if (frames_ == 0) {
      const std::string head = header(step);
      std::ofstream(path_, std::ios::binary) << head;
      end_ = head.size();
    }
    append(frame_chunks(compressed(lines)));
  }
  /// Goes on with the frames of the steps before `step` that an earlier run has written.
  /// If the file has other frames, or lacks one of those from its first one up to `step`,
  /// the next frame begins a new file. Returns the step of the first frame.
  /// @throws std::runtime_error if the file cannot be written
  [[nodiscard]] std::int64_t go_on(std::int64_t step) {
    std::ifstream file(path_, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    const std::int64_t first = first_step(all);
    const std::int64_t next = (step + with_.every - 1) / with_.every * with_.every;
    if (first < 0 || first >= step) {
      return next;
    }
    const std::int64_t frames = (next - first) / with_.every;
    std::size_t end = header(first).size();
    for (std::int64_t i = 0; i < frames; ++i) {
      for (const std::string_view type : {"fcTL", i == 0 ? "IDAT" : "fdAT"}) {
        const std::size_t size = chunk_size(all, end, type);
        if (size == 0) {
          return next;
        }
        end += size;
      }
    }
    end_ = end;
    frames_ = frames;
    append("");
    return first;
  }

 private:
  static constexpr int last_colour = 63;
  /// Bytes of a chunk beside its content: length, type and checksum.
  static constexpr std::size_t chunk_frame = 12;
  static constexpr std::size_t count_at = 33;    ///< place of the number of frames
  static constexpr std::size_t count_size = 20;  ///< bytes of its chunk

  /// Returns all bytes before the first frame. The number of frames is 0.
  [[nodiscard]] std::string header(std::int64_t first) const {
    std::string out = "\x89PNG\r\n\x1a\n";
    put_chunk(out, "IHDR",
              number(width_) + number(height_) + std::string("\x08\x03\0\0\0", 5));
    put_chunk(out, "acTL", number(0) + number(0));
    put_chunk(out, "PLTE", palette());
    put_chunk(out, "tEXt", note() + std::to_string(first));
    return out;
  }
  /// Returns the begin of the comment that names the steps of the frames.
  [[nodiscard]] std::string note() const {
    using namespace std::string_literals;
    return "Comment\0a frame every "s + std::to_string(with_.every) +
           " steps, the first one of step ";
  }
  /// Returns the step of the first frame of a file; -1 if the file is none of a run with
  /// these frames.
  [[nodiscard]] std::int64_t first_step(const std::string& file) const {
    const std::size_t at = file.find(note());
    if (at == std::string::npos) {
      return -1;
    }
    const std::int64_t first =
        std::strtoll(file.c_str() + at + note().size(), nullptr, 10);
    const std::string expected = header(first);
    std::string found = file.substr(0, expected.size());
    if (found.size() == expected.size()) {
      found.replace(count_at, count_size, expected, count_at, count_size);
    }
    return found == expected ? first : -1;
  }
  /// Returns the bytes of the chunk at a place of a file; 0 if it is no complete chunk of
  /// this type.
  static std::size_t chunk_size(const std::string& file, std::size_t at,
                                std::string_view type) {
    if (file.size() < at + chunk_frame) {
      return 0;
    }
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length = length << 8 | static_cast<unsigned char>(file[at + i]);
    }
    if (file.size() - at - chunk_frame < length) {
      return 0;
    }
    std::string expected;
    put_chunk(expected, type, file.substr(at + 8, length));
    return file.compare(at, expected.size(), expected) == 0 ? expected.size() : 0;
  }
  /// Returns the chunks of the next frame.
  [[nodiscard]] std::string frame_chunks(const std::string& pixels) {
    std::int64_t sequence = frames_ == 0 ? 0 : 2 * frames_ - 1;
    std::string out;
    std::string control =
        number(sequence++) + number(width_) + number(height_) + number(0) + number(0);
    control += short_number(with_.frame_ms) + short_number(1000) + std::string("\0\0", 2);
    put_chunk(out, "fcTL", control);
    if (frames_ == 0) {
      put_chunk(out, "IDAT", pixels);
    } else {
      put_chunk(out, "fdAT", number(sequence) + pixels);
    }
    ++frames_;
    return out;
  }
  /// Writes chunks behind those of the file, which is a whole animation afterwards.
  void append(const std::string& chunks) {
    std::error_code cut;
    std::filesystem::resize_file(path_, end_, cut);
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    std::string end;
    put_chunk(end, "IEND", "");
    file.seekp(static_cast<std::streamoff>(end_));
    file << chunks << end << std::flush;
    std::string count;
    put_chunk(count, "acTL", number(frames_) + number(0));
    file.seekp(count_at);
    file << count << std::flush;
    if (cut || !file) {
      throw std::runtime_error("cannot write the animation " + path_);
    }
    end_ += chunks.size();
  }
  [[nodiscard]] double mean(const weir::view<const double, 2>& field, std::int64_t i,
                            std::int64_t j) const {
    double sum = 0;
    const std::int64_t n = with_.points;
    for (std::int64_t k = 0; k < n * n; ++k) {
      sum += field(i * n + k / n, j * n + k % n);
    }
    return sum / static_cast<double>(n * n);
  }
  static std::string number(std::int64_t value) {
    return short_number(value >> 16) + short_number(value);
  }
  static std::string short_number(std::int64_t value) {
    return {static_cast<char>(value >> 8 & 255), static_cast<char>(value & 255)};
  }
  /// Colours from dark blue over green to white.
  static std::string palette() {
    constexpr std::array<std::array<double, 3>, 4> marks{
        {{8, 29, 88}, {34, 94, 168}, {65, 182, 196}, {247, 252, 240}}};
    std::string out;
    for (int i = 0; i <= last_colour; ++i) {
      const double at = 3.0 * i / last_colour;
      const auto left = std::min<std::size_t>(static_cast<std::size_t>(at), 2);
      for (std::size_t c = 0; c < 3; ++c) {
        const double part = at - static_cast<double>(left);
        out += static_cast<char>(std::lround(marks.at(left).at(c) * (1 - part) +
                                             marks.at(left + 1).at(c) * part));
      }
    }
    return out;
  }
  static std::string compressed(const std::string& bytes) {
    uLongf size = ::compressBound(static_cast<uLong>(bytes.size()));
    std::string out(size, '\0');
    if (::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                    reinterpret_cast<const Bytef*>(bytes.data()),
                    static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION) != Z_OK) {
      throw std::runtime_error("cannot compress a frame of the animation");
    }
    out.resize(size);
    return out;
  }
  static void put_chunk(std::string& out, std::string_view type,
                        const std::string& bytes) {
    out += number(static_cast<std::int64_t>(bytes.size()));
    const std::string all = std::string(type) + bytes;
    out += all;
    out += number(static_cast<std::int64_t>(::crc32(
        0, reinterpret_cast<const Bytef*>(all.data()), static_cast<uInt>(all.size()))));
  }

  std::string path_;
  animation_setup with_;
  std::int64_t height_;
  std::int64_t width_;
  std::int64_t frames_ = 0;
  std::size_t end_ = 0;  ///< place of the next frame in the file
};

}  // namespace shallow_water
