// SPDX-License-Identifier: Apache-2.0
/// @file
/// A random sample of the units of a source.
///
/// Each unit is kept or left out by its number alone. The state of a resume is the number
/// of a unit, its first token in the source and its first token in the sample.
///
/// A unit is a document or a run of tokens. The size is not known, because it would take
/// a pass over the whole source.
#include <fmt/core.h>

#include "context/mix/codec.hpp"
#include "context/mix/plan.hpp"
#include "context/mix/unit_source.hpp"
#include "context/source_states.hpp"
#include "weir/base/philox.hpp"

namespace weir::storage {

namespace {

/// Separates the random numbers of this use from others.
constexpr std::uint64_t sample_stream = 0x53414D50;
constexpr std::uint32_t sample_rule = 5;
constexpr std::uint32_t sample_version = 1;

/// Place of a unit.
struct sample_place {
  std::uint64_t number = 0;  ///< number of the unit
  std::uint64_t offset = 0;  ///< its first token in the source
  std::uint64_t index = 0;   ///< its first token in the sample, if it is kept
};

/// The units of a source that a sample keeps.
///
/// `locate` sets the members that describe the current unit.
class sampled_tokens final : public unit_source {
 public:
  sampled_tokens(std::unique_ptr<token_source> from, std::uint64_t keep,
                 std::uint64_t among, std::uint64_t seed, std::uint64_t run_tokens)
      : unit_source(std::move(from), run_tokens, sample_kind, seed),
        keep_(keep),
        among_(among) {
    // The numbers are part of the identity, so another share makes another source.
    identify(unknown_size, {keep, among, seed, run_tokens}, sample_rule);
    places_.keep(0, sample_place{});
  }

  std::uint64_t size() const noexcept override { return unknown_size; }
  // A read may go over several kept units, and over those that are left out between
  // them.
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      WEIR_TRY(const bool found, locate(index + done));
      if (!found) {
        break;
      }
      const std::uint64_t from = index + done - at_.index;
      const auto count = static_cast<std::size_t>(
          std::min<std::uint64_t>(to.size() - done, length_ - from));
      WEIR_CHECK(reader_.read(at_.offset + from, to.subspan(done, count)));
      done += count;
    }
    return done;
  }
  // Parts of the source count what was read of the source, left out or not.
  result<std::vector<part_share>> shares(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    return source().shares(at_.offset + (found ? index - at_.index : 0));
  }
  // The state also has the states of the source at the begin of the unit.
  result<byte_vector> state(std::uint64_t index) const override {
    WEIR_CHECK(locate(index));
    record_writer out;
    out.put(sample_version);
    out.put(at_.number);
    out.put(at_.offset);
    out.put(at_.index);
    WEIR_TRY(const byte_vector nested, pack_states(source(), {at_.offset}));
    out.put_bytes(nested);
    return std::move(out).take();
  }
  // The inequalities hold because units have at least one token and a sample is never
  // longer than its source.
  result<void> restore_state(std::uint64_t index, bytes_view state) override {
    record_reader from(state);
    const auto version = from.get<std::uint32_t>();
    sample_place stored;
    stored.number = from.get<std::uint64_t>();
    stored.offset = from.get<std::uint64_t>();
    stored.index = from.get<std::uint64_t>();
    if (from.failed() || version != sample_version || stored.index > index ||
        stored.index > stored.offset || stored.number > stored.offset ||
        stored.offset >= position_bound) {
      return error(errc::corrupt,
                   fmt::format("cannot read the state of a sample: expected a unit "
                               "before token {}, found {} bytes that are none",
                               index, state.size()));
    }
    WEIR_CHECK(unpack_states(source(), from.rest()));
    places_.keep(stored.index, stored);
    return {};
  }

 private:
  // Where ranges may be left out: not before the token that comes next.
  result<std::uint64_t> free_from(std::uint64_t index) const override {
    WEIR_TRY(const bool found, locate(index));
    return at_.offset + (found ? index - at_.index : 0);
  }
  // The current unit may have another extent now.
  result<void> forget() override {
    length_ = 0;
    return {};
  }
  std::uint64_t offset_of(std::uint64_t index) const override {
    const auto found = locate(index);
    return found && *found ? at_.offset + index - at_.index : at_.offset;
  }
  /// Goes to the kept unit that holds a token.
  /// @returns false if the sample ends before it
  result<bool> locate(std::uint64_t index) const {
    const auto& near = places_.before(index);
    // The nearest remembered place, unless the current one is nearer.
    if (length_ == 0 || index < at_.index || near.first > at_.index) {
      at_ = near.second;
      WEIR_CHECK(keep_next());
    }
    // Goes to the next kept unit.
    while (length_ > 0 && index >= at_.index + length_) {
      at_ = {at_.number + 1, at_.offset + length_, at_.index + length_};
      places_.note(at_.index, at_);
      WEIR_CHECK(keep_next());
    }
    return length_ > 0;
  }
  /// Goes over units that are left out. Sets `length_`, to 0 at the end of the source.
  result<void> keep_next() const {
    const philox random(seed(), sample_stream);
    length_ = 0;
    for (;;) {
      WEIR_TRY(const unit u, reader_.unit_at(at_.offset));
      // The same number decides in every run.
      if (u.length == 0 || random.below(at_.number, among_) < keep_) {
        length_ = u.length;
        return {};
      }
      at_.number += 1;
      at_.offset += u.length;
    }
  }

  std::uint64_t keep_;
  std::uint64_t among_;
  // The unit of the last read. It changes no result, only the time of the next read.
  mutable walk_memory<sample_place> places_;
  mutable sample_place at_;
  mutable std::uint64_t length_ = 0;  ///< tokens of the unit; 0 if none was found
};

}  // namespace

/// `keep` of `among` units are kept, on average.
result<std::unique_ptr<token_source>> sample_source(std::unique_ptr<token_source> source,
                                                    std::uint64_t keep,
                                                    std::uint64_t among,
                                                    std::uint64_t seed,
                                                    std::uint64_t run_tokens) {
  WEIR_CHECK(check_seekable(*source, "sample"));
  WEIR_CHECK(check_run(run_tokens));
  if (keep == 0 || keep > among) {
    return error(errc::invalid_argument,
                 fmt::format("cannot sample a source: expected 1 to {} units of {}, "
                             "found {}",
                             among, among, keep));
  }
  return std::unique_ptr<token_source>(
      std::make_unique<sampled_tokens>(std::move(source), keep, among, seed, run_tokens));
}

}  // namespace weir::storage
