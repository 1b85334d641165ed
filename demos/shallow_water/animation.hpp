// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes an animated picture of the depth: a PNG whose further frames are in chunks that
/// viewers without animations ignore. @source{PNG Specification, third edition}
#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weir/runtime/view.hpp"

namespace shallow_water {

/// Frames of one size, each a field whose values have colours from dark to light.
class animation {
 public:
  /// Makes an animation of fields of `rows` by `columns` values; `lowest` and `highest`
  /// have the colours at the ends of the scale. `step` by `step` values are one point.
  animation(std::int64_t rows, std::int64_t columns, std::int64_t step, double lowest,
            double highest)
      : height_(rows / step),
        width_(columns / step),
        step_(step),
        lowest_(lowest),
        highest_(highest) {}

  /// Adds a frame.
  void add(const weir::view<const double, 2>& field) {
    std::string lines;
    for (std::int64_t i = 0; i < height_; ++i) {
      lines += '\0';  // no filter
      for (std::int64_t j = 0; j < width_; ++j) {
        const double part = (mean(field, i, j) - lowest_) / (highest_ - lowest_);
        lines += static_cast<char>(std::lround(std::clamp(part, 0.0, 1.0) * last_colour));
      }
    }
    frames_.push_back(compressed(lines));
  }
  /// Writes the file. `frame_ms` is the time for which a frame is shown.
  /// @throws std::runtime_error if the file cannot be written
  void write(const std::string& path, int frame_ms) const {
    std::string out = "\x89PNG\r\n\x1a\n";
    put_chunk(out, "IHDR",
              number(width_) + number(height_) + std::string("\x08\x03\0\0\0", 5));
    put_chunk(out, "acTL", number(static_cast<std::int64_t>(frames_.size())) + number(0));
    put_chunk(out, "PLTE", palette());
    std::int64_t sequence = 0;
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      std::string control =
          number(sequence++) + number(width_) + number(height_) + number(0) + number(0);
      control += short_number(frame_ms) + short_number(1000) + std::string("\0\0", 2);
      put_chunk(out, "fcTL", control);
      if (i == 0) {
        put_chunk(out, "IDAT", frames_[i]);
      } else {
        put_chunk(out, "fdAT", number(sequence++) + frames_[i]);
      }
    }
    put_chunk(out, "IEND", "");
    std::ofstream file(path, std::ios::binary);
    file << out;
    if (!file.flush()) {
      throw std::runtime_error("cannot write the animation " + path);
    }
  }

 private:
  static constexpr int last_colour = 63;

  [[nodiscard]] double mean(const weir::view<const double, 2>& field, std::int64_t i,
                            std::int64_t j) const {
    double sum = 0;
    for (std::int64_t k = 0; k < step_ * step_; ++k) {
      sum += field(i * step_ + k / step_, j * step_ + k % step_);
    }
    return sum / static_cast<double>(step_ * step_);
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

  std::int64_t height_;
  std::int64_t width_;
  std::int64_t step_;
  double lowest_;
  double highest_;
  std::vector<std::string> frames_;  ///< compressed
};

}  // namespace shallow_water
