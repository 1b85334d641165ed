// SPDX-License-Identifier: Apache-2.0
/// @file
/// The context streams of a run: that of the run, and those of other sources that phases
/// read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stages/prose/chunk_plan.hpp"
#include "stages/prose/corpus.hpp"

namespace weir::actors {

/// Name of the part of a state that holds the cursor of a stream.
/// @param source  Name of its source; empty for the stream of the run.
[[nodiscard]] std::string cursor_part_of(const std::string& source);

/// Streams over several sources, which share the lanes. A lane has one position in each
/// of them; the sum is its clock, which the model counts too.
/// @threads{thread-compatible}
class text_streams {
 public:
  /// Returns the bytes of a cursor by the name of its part; nothing if there is none.
  using stored_cursors =
      std::function<result<std::optional<bytes_view>>(const std::string& part)>;

  /// @param main   The stream of the run.
  /// @param names  Sources of the other streams, each once; `main.sources` has them.
  text_streams(corpus_order main, std::vector<std::string> names);

  /// Opens all streams at their first tokens. Also returns the errors of `open_corpus`.
  [[nodiscard]] result<void> open(file_system& fs);
  /// Opens all streams behind their cursors, and those without a cursor at their first
  /// tokens. Also returns the errors of `continue_corpus`.
  /// @error{not_found, there is no cursor of the stream of the run}
  /// @returns the number of lanes of the cursors
  [[nodiscard]] result<std::uint32_t> restore(file_system& fs,
                                              const stored_cursors& stored);

  /// Returns whether a chunk can be read without waiting, see `context_stream::ready`.
  [[nodiscard]] result<bool> ready(const chunk_order& order, int wait_ms);
  /// Reads the next chunk of a lane from a stream.
  [[nodiscard]] result<std::optional<storage::token_chunk>> read(
      const chunk_order& order);
  /// Notes that a pulse has the chunks, and sets their positions to the clocks of the
  /// lanes.
  void commit(pulse_chunks& pulse);

  /// Makes the cursors of all streams behind the chunks that were committed.
  [[nodiscard]] result<void> make_cursors(std::uint64_t pulse_id);
  /// Calls a function with the part and the bytes of every cursor that was made.
  template <class F>
  void for_each_cursor(const F& f) const {
    for (const stream& one : streams_) {
      f(cursor_part_of(one.name), bytes_view(one.cursor));
    }
  }
  /// Returns the number of tokens of a stream's source; 0 if it is not known.
  [[nodiscard]] std::uint64_t tokens_of(std::size_t number) const {
    return streams_[number].corpus.tokens;
  }
  /// Returns the id that ends documents in a stream's source.
  [[nodiscard]] std::uint32_t separator_of(std::size_t number) const {
    return streams_[number].corpus.stream->source().separator();
  }
  /// Returns the corpus of the run.
  [[nodiscard]] const opened_corpus& main() const { return streams_.front().corpus; }

 private:
  struct stream {
    std::string name;  ///< of its source
    corpus_order order;
    opened_corpus corpus{};
    std::vector<std::uint64_t> positions{};  ///< by lane, behind the last committed chunk
    /// Last chunk of each lane; empty if the lane had none since the stream was opened.
    std::vector<std::optional<storage::chunk_mark>> marks{};
    byte_vector cursor{};
  };
  [[nodiscard]] result<void> open(file_system& fs, stream& one);

  std::vector<stream> streams_;
  std::uint32_t lanes_;
};

}  // namespace weir::actors
