// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of token ids: text, raw integers, integers behind the header of llm.c, NumPy.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {

/// Form of a file of ids.
enum class token_format : std::uint8_t { text, bin, llmc, npy };

/// Returns the format of a name such as "bin", or the one that a path ends with.
[[nodiscard]] token_format token_format_of(const std::string& name,
                                           const std::string& path);

/// Writes ids in their order, with little memory.
/// @threads{thread-compatible}
class token_writer {
 public:
  using put = std::function<result<void>(token_writer&)>;

  /// Writes a file whole or not at all, or to standard output.
  /// @param path  "-" for standard output, which takes the formats text and bin.
  /// @param vocabulary  Ids are smaller than it; up to 65,536 they have 16 bits.
  /// @param fill  Adds all ids.
  /// @returns The number of ids.
  /// @error{invalid_argument, standard output cannot take the format}
  /// @error{out_of_range, llmc counts with 31 bits}
  /// @error{io, no_space, the file cannot be written}
  [[nodiscard]] static result<std::uint64_t> write(const std::string& path,
                                                   token_format format,
                                                   std::uint32_t vocabulary, output& out,
                                                   const put& fill);

  /// Adds ids. @error{io, no_space, the file cannot be written}
  [[nodiscard]] result<void> add(std::span<const std::uint32_t> ids);
  /// Returns the number of ids so far.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  token_writer(token_format format, bool narrow, file* to, output* out)
      : format_(format), narrow_(narrow), file_(to), out_(out) {}
  [[nodiscard]] byte_vector header() const;
  [[nodiscard]] result<void> flush();

  token_format format_;
  bool narrow_;              ///< 16 bits per id
  file* file_;               ///< null for standard output
  output* out_;              ///< used if `file_` is null
  std::uint64_t at_ = 0;     ///< bytes in the file
  std::uint64_t count_ = 0;  ///< ids so far
  byte_vector pending_;      ///< bytes that are not written yet
};

/// Reads all ids of a file.
/// @param name  Name for messages.
/// @error{corrupt, torn, the bytes do not have the format}
[[nodiscard]] result<std::vector<std::uint32_t>> read_tokens(bytes_view bytes,
                                                             token_format format,
                                                             std::uint32_t vocabulary,
                                                             const std::string& name);

}  // namespace weir::tools
