// SPDX-License-Identifier: Apache-2.0
/// @file
/// Options of demos on the command line, as in `--ranks 2 --size 512`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

namespace demo {

/// The options of a program and their values.
class options {
 public:
  /// Reads the words behind the name of the program. `values` has all options with the
  /// values that they have if they are not given.
  /// @throws std::invalid_argument for an option that does not exist or has no value
  options(std::span<char*> words, std::map<std::string, std::string> values)
      : values_(std::move(values)) {
    for (std::size_t i = 1; i < words.size(); i += 2) {
      const std::string word = words[i];
      const auto found =
          word.starts_with("--") ? values_.find(word.substr(2)) : values_.end();
      if (found == values_.end() || i + 1 == words.size()) {
        throw std::invalid_argument("cannot read the option " + word +
                                    ": expected a name and a value, among " + names());
      }
      found->second = words[i + 1];
    }
  }
  /// Returns the text of an option.
  [[nodiscard]] const std::string& text(const std::string& name) const {
    return values_.at(name);
  }
  /// Returns the number of an option.
  /// @throws std::invalid_argument for a text that is no number of at least `smallest`
  [[nodiscard]] std::int64_t number(const std::string& name,
                                    std::int64_t smallest = 1) const {
    char* end = nullptr;
    const std::string& word = text(name);
    const std::int64_t value = std::strtoll(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || value < smallest) {
      throw std::invalid_argument("cannot read the option --" + name +
                                  ": expected a number of at least " +
                                  std::to_string(smallest) + ", found " + word);
    }
    return value;
  }

 private:
  [[nodiscard]] std::string names() const {
    std::string all;
    for (const auto& [name, value] : values_) {
      all += (all.empty() ? "--" : " --") + name;
    }
    return all;
  }
  std::map<std::string, std::string> values_;
};

}  // namespace demo
