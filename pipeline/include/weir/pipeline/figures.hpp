// SPDX-License-Identifier: Apache-2.0
/// @file
/// Figures that a stage tells about itself: for the line of progress, the metrics and the
/// report of a run. They are no part of its results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weir {

/// A number, a text or a list of texts.
using figure_value =
    std::variant<std::uint64_t, double, std::string, std::vector<std::string>>;

/// The figures of one stage. A stage that has any defines `void report(weir::figures& to)
/// const`, which the host calls ten times a second and at the end.
/// @threads{a value}
class figures {
 public:
  /// A curve that the report of a run shows as a picture.
  struct curve {
    std::string title;  ///< text above the picture
    std::string x;      ///< name and unit of the first numbers
    std::string y;      ///< name and unit of the second ones
    std::vector<std::pair<double, double>> points;  ///< ascending by their first number
  };

  /// Adds a figure. @param name  Unique in the stage, such as `tokens`.
  void set(std::string name, figure_value value) {
    values_.emplace_back(std::move(name), std::move(value));
  }
  /// Adds a curve.
  void draw(curve one) { curves_.push_back(std::move(one)); }
  /// Says that something failed that the run survives. It becomes a warning at the end.
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  /// Returns the value of a name if it has this type; else a null pointer.
  template <class T>
  [[nodiscard]] const T* find(std::string_view name) const noexcept {
    for (const auto& [known, value] : values_) {
      if (known == name) {
        return std::get_if<T>(&value);
      }
    }
    return nullptr;
  }
  /// Returns all values by name, in the order in which they were set.
  [[nodiscard]] const std::vector<std::pair<std::string, figure_value>>& values()
      const noexcept {
    return values_;
  }
  /// Returns all curves.
  [[nodiscard]] const std::vector<curve>& curves() const noexcept { return curves_; }
  /// Returns all problems.
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept {
    return problems_;
  }
  /// Returns whether the stage has told nothing.
  [[nodiscard]] bool empty() const noexcept {
    return values_.empty() && curves_.empty() && problems_.empty();
  }

 private:
  std::vector<std::pair<std::string, figure_value>> values_;
  std::vector<curve> curves_;
  std::vector<std::string> problems_;
};

}  // namespace weir
