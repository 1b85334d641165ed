// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources that read several sources under one numbering: `concat` one after another,
/// `mix` in a random order.
///
/// Both sources own their parts and forward calls to them. A part is written as one line
/// of text, because settings cannot contain tables.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "stages/factories.hpp"
#include "stages/stage_text.hpp"
#include "weir/base/philox.hpp"
#include "weir/base/record.hpp"

namespace weir::flow {
namespace {

constexpr std::string_view concat_name = "concat";

/// See the table.
struct concat_settings {
  std::vector<std::string> parts;
};

/// Only a list of lines.
settings_table<concat_settings> concat_table() {
  settings_table<concat_settings> table("the source concat");
  table
      .add("parts", &concat_settings::parts,
           "sources in their order, each a line such as \"tgm.read path=a.tgm\"")
      .required()
      .single();
  return table;
}

/// Reads its parts in order.
class concat final : public stage_object {
 public:
  explicit concat(std::vector<std::unique_ptr<stage_object>> parts)
      : parts_(std::move(parts)) {}

  /// All parts are opened at the start, so that a wrong path is found early.
  result<void> open(opening& run) override {
    // A part sees the same facts as the whole.
    // Numbers in errors are those of the list.
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (auto opened = parts_[i]->open(run); !opened) {
        return at_part(i, std::move(opened.error()));
      }
      // The cursor of the part must fit behind the number of the part.
      if (const std::size_t size = parts_[i]->position().size; size > max_part_cursor) {
        return at_part(i, error(errc::unsupported,
                                fmt::format("cannot store the cursor of a source: "
                                            "expected at most {} bytes, found {}",
                                            max_part_cursor, size)));
      }
    }
    return {};
  }
  /// Goes to the next part at the end of one.
  result<bool> next(pull& p) override {
    // A part at its end is not asked again.
    for (; part_ < parts_.size(); ++part_) {
      auto more = parts_[part_]->next(p);
      if (!more) {
        return at_part(part_, std::move(more.error()));
      }
      // The part has an item, or nothing at the moment.
      if (*more) {
        return true;
      }
    }
    return false;
  }
  /// The record has the number of the source before the cursor of that source.
  [[nodiscard]] small_record position() const override {
    // Eight bytes for the number of the part.
    auto out = small_record::holding(std::uint64_t{part_});
    if (part_ < parts_.size()) {
      // The rest of the record is that of the part.
      const small_record inner = parts_[part_]->position();
      WEIR_EXPECT(inner.size <= max_part_cursor);
      std::memcpy(out.data.data() + out.size, inner.data.data(), inner.size);
      out.size += inner.size;
    }
    return out;
  }
  /// Moves the part of the cursor; earlier parts are not read again.
  result<void> seek(bytes_view cursor) override {
    constexpr std::size_t head = sizeof(std::uint64_t);
    // The number of the part comes first.
    if (cursor.size() < head) {
      return error(errc::corrupt,
                   fmt::format("cannot use the stored cursor of a concat: expected at "
                               "least {} bytes, found {}",
                               head, cursor.size()));
    }
    std::uint64_t part = 0;
    std::memcpy(&part, cursor.data(), head);
    // All parts may have ended, so the number itself is allowed.
    if (part > parts_.size()) {
      return error(errc::position_out_of_bounds,
                   fmt::format("cannot continue a concat: expected at least {} sources, "
                               "found {}",
                               part, parts_.size()));
    }
    // All parts before this one have ended.
    part_ = static_cast<std::size_t>(part);
    if (part_ == parts_.size()) {
      return {};
    }
    auto moved = parts_[part_]->seek(cursor.subspan(head));
    return moved ? std::move(moved) : at_part(part_, std::move(moved.error()));
  }

 private:
  /// Largest cursor of a part. @units{bytes}
  static constexpr std::size_t max_part_cursor = max_record - sizeof(std::uint64_t);

  /// Names the part in an error.
  static error at_part(std::size_t part, error cause) {
    const errc code = cause.code();
    return error(code, fmt::format("cannot read source {} of a concat", part))
        .because(std::move(cause));
  }

  // Opened all the time, also before their turn.
  std::vector<std::unique_ptr<stage_object>> parts_;
  std::size_t part_ = 0;
};

/// See the table.
struct mix_settings {
  std::vector<std::string> parts;
  std::vector<double> weights;
  std::uint64_t seed = 1;
};

/// Parts, their weights, and the seed of the order.
settings_table<mix_settings> mix_table() {
  settings_table<mix_settings> table("the source mix");
  table
      .add("parts", &mix_settings::parts,
           "sources, each a line such as \"tgm.read path=a.tgm\"")
      .required()
      .count(1, 64)
      .single();
  table
      .add("weights", &mix_settings::weights,
           "weight of each source; none: all have the same")
      .range(0, 1e9)
      .count(0, 64);
  table.add("seed", &mix_settings::seed, "seed of the order");
  return table;
}

/// The source of item n is drawn with random numbers of stream n, so the order does not
/// depend on how long a source takes.
class mix final : public stage_object {
 public:
  mix(std::vector<std::unique_ptr<stage_object>> parts, std::vector<double> weights,
      std::uint64_t seed)
      : parts_(std::move(parts)),
        weights_(std::move(weights)),
        ended_(parts_.size(), 0),
        seed_(seed) {}

  /// All parts are opened at the start. An error names the part.
  result<void> open(opening& run) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (auto opened = parts_[i]->open(run); !opened) {
        return at_part(i, std::move(opened.error()));
      }
    }
    return {};
  }
  /// Draws a part and lets it make the item. A part that ends is drawn no more, and
  /// another one is drawn for the same number.
  result<bool> next(pull& p) override {
    for (;;) {
      // The parts that have ended for this item give each draw another random number.
      // They are counted in the state, so the draws do not begin anew if a part has
      // nothing yet and `next` is called again, or if the run is resumed there.
      const auto attempt = std::count(ended_.begin(), ended_.end(), ended_now);
      const std::size_t part = draw(static_cast<std::uint64_t>(attempt));
      if (part == parts_.size()) {
        return false;
      }
      auto more = parts_[part]->next(p);
      // The error ends the run.
      if (!more) {
        return at_part(part, std::move(more.error()));
      }
      if (*more) {
        // A source that has nothing yet is asked again for the same item. Its position is
        // not asked for: that may take as long as reading the item.
        if (!p.has_nothing()) {
          ++made_;
          std::replace(ended_.begin(), ended_.end(), ended_now, ended_before);
        }
        return true;
      }
      // The part has ended, and another one is drawn.
      ended_[part] = ended_now;
    }
  }
  /// The number of items; the cursors of the parts are state.
  [[nodiscard]] small_record position() const override {
    return small_record::holding(made_);
  }
  /// The cursors of all sources do not fit into one record.
  result<void> copy_state(state_writer& to) override {
    record_writer all;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      // Every cursor takes the same space, so a part is found by its number.
      const small_record one = parts_[i]->position();
      // Ended, size and bytes of a cursor.
      all.put(ended_[i]);
      all.put(static_cast<std::uint64_t>(one.size));
      all.put_bytes(one.data);
    }
    const bytes_view bytes = all.view();
    std::copy(bytes.begin(), bytes.end(), to.add(cursors_part, bytes.size()).begin());
    return {};
  }
  /// The cursors are used by `seek`, which comes afterwards.
  result<void> restore_state(const state_reader& from) override {
    WEIR_TRY(const bytes_view bytes, from.part(cursors_part));
    cursors_.assign(bytes.begin(), bytes.end());
    return {};
  }
  /// Moves every part to its stored cursor.
  result<void> seek(bytes_view cursor) override {
    constexpr std::size_t one_size = 1 + sizeof(std::uint64_t) + max_record;
    // A state of another number of parts would move them to wrong places.
    if (cursor.size() != sizeof made_ || cursors_.size() != one_size * parts_.size()) {
      return error(
          errc::corrupt,
          fmt::format("cannot use the stored cursor of a mix: expected {} and {} "
                      "bytes, found {} and {}",
                      sizeof made_, one_size * parts_.size(), cursor.size(),
                      cursors_.size()));
    }
    std::memcpy(&made_, cursor.data(), sizeof made_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const bytes_view one = bytes_view(cursors_).subspan(i * one_size, one_size);
      // A part that has ended is moved as well, and not drawn.
      ended_[i] = std::to_integer<std::uint8_t>(one[0]);
      std::uint64_t size = 0;
      std::memcpy(&size, one.data() + 1, sizeof size);
      if (size > max_record) {
        return error(
            errc::corrupt,
            fmt::format("cannot use the stored cursor of a mix: expected at most "
                        "{} bytes for source {}, found {}",
                        max_record, i, size));
      }
      // The stored size says how much of the space counts.
      const bytes_view record = one.subspan(1 + sizeof size, size);
      if (auto moved = parts_[i]->seek(record); !moved) {
        return at_part(i, std::move(moved.error()));
      }
    }
    return {};
  }

 private:
  static constexpr const char* cursors_part = "CURSORS";
  // Values of `ended_` beside 0.
  static constexpr std::uint8_t ended_before = 1;  ///< at an earlier item
  static constexpr std::uint8_t ended_now = 2;     ///< at the item that is drawn

  /// Names the part in an error.
  static error at_part(std::size_t part, error cause) {
    const errc code = cause.code();
    return error(code, fmt::format("cannot read source {} of a mix", part))
        .because(std::move(cause));
  }
  /// Returns the source of the next item, among those that have not ended; the number of
  /// sources if all have.
  [[nodiscard]] std::size_t draw(std::uint64_t attempt) const {
    // Weights of parts that have ended do not count.
    double total = 0;
    std::size_t last = parts_.size();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (ended_[i] == 0) {
        total += weights_[i];
        last = i;
      }
    }
    // The draw has 53 random bits, as many as a number of this type holds.
    constexpr double step = 1.0 / 9007199254740992.0;  // 2^-53
    const auto bits = philox(seed_, made_).bits(attempt) >> 11U;
    // Below the sum of the weights.
    const double at = static_cast<double>(bits) * step * total;
    double sum = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      // Parts that have ended have no share.
      if (ended_[i] == 0) {
        sum += weights_[i];
        if (at < sum) {
          return i;
        }
      }
    }
    // Rounding can leave `at` at the end of the sum.
    return last;
  }

  std::vector<std::unique_ptr<stage_object>> parts_;
  std::vector<double> weights_;
  std::vector<std::uint8_t> ended_;  ///< 0 for sources that have not ended
  std::uint64_t seed_;
  std::uint64_t made_ = 0;  ///< items so far
  byte_vector cursors_;     ///< of all sources, as stored
};

/// Returns the outlets of a source for a message, such as "x of f32[4]".
std::string outlets_text(const std::vector<port_info>& outlets) {
  std::string text;
  for (const port_info& one : outlets) {
    text +=
        fmt::format("{}{} of {}", text.empty() ? "" : " and ", one.name, one.type.text());
  }
  return text.empty() ? "none" : text;
}

/// The sources have the same outlets, since the stages behind see them as one.
/// The weakest guarantee of the parts is that of the whole.
/// @param number  Number of the part. @param line  Its text in the settings.
result<void> add_part(described_stage& whole, const stage_info& part, std::size_t number,
                      std::string_view line) {
  const std::string& name = whole.info.name;
  if (part.face != face::source) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a {}: expected sources, found the stage {} "
                             "as source {}",
                             name, part.name, number));
  }
  // A combination stores the cursors of its parts and nothing else of them.
  if (!part.state.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a {}: expected sources that checkpoints "
                             "describe with a cursor alone, found the state \"{}\" of {} "
                             "as source {}",
                             name, part.state.front().name, part.name, number))
        .hint("use this source as a stage of its own");
  }
  // Each of them would put the number of its part in front of the cursor.
  if (name == concat_name && part.name == concat_name) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a concat: expected sources that are no concat, "
                             "found one as source {}",
                             number))
        .hint("write its sources into the outer one");
  }
  // The first part decides about the outlets.
  if (whole.info.ports.empty()) {
    whole.info.ports = part.ports;
  }
  const auto same = [](const port_info& a, const port_info& b) {
    return a.name == b.name && a.type == b.type;
  };
  if (!std::equal(part.ports.begin(), part.ports.end(), whole.info.ports.begin(),
                  whole.info.ports.end(), same)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a {}: expected the outlets of the first "
                             "source, {}, found {} at source {}, \"{}\"",
                             name, outlets_text(whole.info.ports),
                             outlets_text(part.ports), number, line))
        .hint(
            "give all sources the same names and types of outlets; the first source "
            "has the number 0");
  }
  // Items of every source must fit, and a limit that one source lacks is no limit.
  for (std::size_t i = 0; i < part.ports.size(); ++i) {
    std::int64_t& longest = whole.info.ports[i].longest;
    longest = longest == 0 || part.ports[i].longest == 0
                  ? 0
                  : std::max(longest, part.ports[i].longest);
  }
  // Guarantees are ordered from weak to strong.
  whole.info.promise = std::min(whole.info.promise, part.promise);
  return {};
}

/// Makes the sources of a combination, and adds what the check must know of them.
result<std::vector<std::unique_ptr<stage_object>>> make_parts(
    described_stage& made, const catalog& known, const std::vector<std::string>& lines) {
  std::vector<std::unique_ptr<stage_object>> parts;
  for (const std::string& line : lines) {
    // The line is read by a small grammar; see stage_text.cpp.
    WEIR_TRY(const stage_text text, parse_stage_text(line));
    // A part may be a combination itself.
    auto part = known.make(text.name, text.settings);
    if (!part) {
      const errc code = part.error().code();
      return error(code, fmt::format("cannot make the source \"{}\" of a {}", line,
                                     made.info.name))
          .because(std::move(part.error()));
    }
    WEIR_CHECK(add_part(made, part->info, parts.size(), line));
    // Settings and paths of parts count as those of the whole.
    // Frozen values belong to the identity of the run.
    for (const auto& [key, value] : part->info.frozen) {
      made.info.frozen.emplace_back(fmt::format("parts.{}.{}", parts.size(), key), value);
    }
    // Paths of parts are checked before the run.
    for (path_setting one : part->info.paths) {
      one.setting = fmt::format("parts.{}.{}", parts.size(), one.setting);
      made.info.paths.push_back(std::move(one));
    }
    parts.push_back(std::move(part->object));
  }
  return parts;
}

/// Further paragraphs of the reference of `concat`.
constexpr std::string_view concat_details =
    R"(The outlets are those of the first source, and all sources must have the same.
With several sources of one run, joins by number would otherwise put their items side by
side.

Each text is the name of a source and its settings: `tgm.read path="a b.tgm" index=1`.
Quotes keep spaces together and make any value a text; other values are integers,
numbers, `true`, `false` or texts. The cursor is the number of the source and the
cursor of that source. Sources with a state, such as `mix`, cannot be parts, and neither
can another `concat`. The outlet is `x` for all sources of this page.)";

/// A small pipeline with `concat`.
constexpr std::string_view concat_example = R"([[stage]]
name = "both"
use = "concat"
parts = ["tgm.read path=in.tgm", "tgm.read path=more.tgm"]

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

/// Further paragraphs of the reference of `mix`.
constexpr std::string_view mix_details =
    R"(Each item comes from a source that is drawn at random: a source with twice the
weight is drawn twice as often. The source of item n is a function of the seed and n
alone, so the order does not depend on how long a source takes. A source that has ended
is not drawn again, and the mix ends with the last one. Parts are written as those of
`concat`, and all have the same outlets. Sources with a state cannot be parts. The cursor
is the number of items, and the state holds the cursors of all sources.)";

/// A small pipeline with `mix`.
constexpr std::string_view mix_example = R"([[stage]]
name = "both"
use = "mix"
parts = ["generator count=9", "generator count=3 kind=philox"]
weights = [3, 1]

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// Makes the source from its settings.
result<void> make_concat(described_stage& made, const catalog& known,
                         const given_settings& given) {
  made.info.name = concat_name;
  made.info.documentation = "reads several sources one after another as one";
  made.info.face = face::source;
  made.info.details = concat_details;
  made.info.example = concat_example;
  WEIR_TRY(const concat_settings settings,
           read_settings(made.info, concat_table(), given));
  WEIR_TRY(auto parts, make_parts(made, known, settings.parts));
  made.object = std::make_unique<concat>(std::move(parts));
  return {};
}

/// Makes the source. Weights that are missing are all 1.
result<void> make_mix(described_stage& made, const catalog& known,
                      const given_settings& given) {
  made.info.name = "mix";
  made.info.documentation = "reads several sources in a random order with weights";
  made.info.face = face::source;
  made.info.details = mix_details;
  made.info.example = mix_example;
  WEIR_TRY(mix_settings settings, read_settings(made.info, mix_table(), given));
  WEIR_TRY(auto parts, make_parts(made, known, settings.parts));
  // Equal shares.
  if (settings.weights.empty()) {
    settings.weights.assign(parts.size(), 1);
  }
  // A negative weight is refused by the table.
  if (settings.weights.size() != parts.size() ||
      std::none_of(settings.weights.begin(), settings.weights.end(),
                   [](double one) { return one > 0; })) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a mix: expected a weight for each of {} "
                             "sources, one of them above 0, found {} weights",
                             parts.size(), settings.weights.size()));
  }
  // The cursors of the parts.
  made.info.state.push_back({"CURSORS", false});
  made.object =
      std::make_unique<mix>(std::move(parts), std::move(settings.weights), settings.seed);
  return {};
}

}  // namespace weir::flow
