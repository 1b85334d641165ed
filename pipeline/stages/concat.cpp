// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source that reads several sources one after another, under one numbering.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "stages/factories.hpp"
#include "stages/stage_text.hpp"

namespace weir::flow {
namespace {

struct concat_settings {
  std::vector<std::string> parts;
};

settings_table<concat_settings> concat_table() {
  settings_table<concat_settings> table("the source concat");
  table
      .add("parts", &concat_settings::parts,
           "sources in their order, each a line such as \"tgm.read path=a.tgm\"")
      .required()
      .single();
  return table;
}

class concat final : public stage_object {
 public:
  explicit concat(std::vector<std::unique_ptr<stage_object>> parts)
      : parts_(std::move(parts)) {}

  result<void> open(opening& run) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (auto opened = parts_[i]->open(run); !opened) {
        return at_part(i, std::move(opened.error()));
      }
    }
    return {};
  }
  result<bool> next(pull& p) override {
    for (; part_ < parts_.size(); ++part_) {
      auto more = parts_[part_]->next(p);
      if (!more) {
        return at_part(part_, std::move(more.error()));
      }
      if (*more) {
        return true;
      }
    }
    return false;
  }
  /// The record has the number of the source before the cursor of that source.
  [[nodiscard]] small_record position() const override {
    auto out = small_record::holding(std::uint64_t{part_});
    if (part_ < parts_.size()) {
      const small_record inner = parts_[part_]->position();
      WEIR_EXPECT(out.size + inner.size <= max_record);
      std::memcpy(out.data.data() + out.size, inner.data.data(), inner.size);
      out.size += inner.size;
    }
    return out;
  }
  result<void> seek(bytes_view cursor) override {
    constexpr std::size_t head = sizeof(std::uint64_t);
    if (cursor.size() < head) {
      return error(errc::corrupt,
                   fmt::format("cannot use the stored cursor of a concat: expected at "
                               "least {} bytes, found {}",
                               head, cursor.size()));
    }
    std::uint64_t part = 0;
    std::memcpy(&part, cursor.data(), head);
    if (part > parts_.size()) {
      return error(errc::position_out_of_bounds,
                   fmt::format("cannot continue a concat: expected at least {} sources, "
                               "found {}",
                               part, parts_.size()));
    }
    part_ = static_cast<std::size_t>(part);
    if (part_ == parts_.size()) {
      return {};
    }
    auto moved = parts_[part_]->seek(cursor.subspan(head));
    return moved ? std::move(moved) : at_part(part_, std::move(moved.error()));
  }

 private:
  static error at_part(std::size_t part, error cause) {
    const errc code = cause.code();
    return error(code, fmt::format("cannot read source {} of a concat", part))
        .because(std::move(cause));
  }

  std::vector<std::unique_ptr<stage_object>> parts_;
  std::size_t part_ = 0;
};

/// Sources of a concat have the same outlets, since the stages behind see them as one.
result<void> add_part(described_stage& whole, const stage_info& part,
                      std::string_view line) {
  if (part.face != face::source) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a concat: expected sources, found the stage {}",
                             part.name));
  }
  if (whole.info.ports.empty()) {
    whole.info.ports = part.ports;
  }
  const auto same = [](const port_info& a, const port_info& b) {
    return a.name == b.name && a.type == b.type;
  };
  if (!std::equal(part.ports.begin(), part.ports.end(), whole.info.ports.begin(),
                  whole.info.ports.end(), same)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a concat: expected the outlets of the first "
                             "source, found others in \"{}\"",
                             line))
        .hint("give all sources the same type");
  }
  whole.info.promise = std::min(whole.info.promise, part.promise);
  return {};
}

/// Further paragraphs of the reference of `concat`.
constexpr std::string_view concat_details =
    R"(The outlets are those of the first source, and all sources must have the same. With
several sources of one run, joins by number would otherwise put their items side by
side.

Each text is the name of a source and its settings: `tgm.read path="a b.tgm" index=1`.
Quotes keep spaces together and make any value a text; other values are integers,
numbers, `true`, `false` or texts. The cursor is the number of the source and the
cursor of that source. The outlet is `x` for all sources of this page.)";

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

}  // namespace

result<void> make_concat(described_stage& made, const catalog& known,
                         const given_settings& given) {
  made.info.name = "concat";
  made.info.documentation = "reads several sources one after another as one";
  made.info.face = face::source;
  made.info.details = concat_details;
  made.info.example = concat_example;
  WEIR_TRY(const concat_settings settings,
           read_settings(made.info, concat_table(), given));
  std::vector<std::unique_ptr<stage_object>> parts;
  for (const std::string& line : settings.parts) {
    WEIR_TRY(const stage_text text, parse_stage_text(line));
    auto part = known.make(text.name, text.settings);
    if (!part) {
      const errc code = part.error().code();
      return error(code, fmt::format("cannot make the source \"{}\" of a concat", line))
          .because(std::move(part.error()));
    }
    WEIR_CHECK(add_part(made, part->info, line));
    for (const auto& [key, value] : part->info.frozen) {
      made.info.frozen.emplace_back(fmt::format("parts.{}.{}", parts.size(), key), value);
    }
    for (path_setting one : part->info.paths) {
      one.setting = fmt::format("parts.{}.{}", parts.size(), one.setting);
      made.info.paths.push_back(std::move(one));
    }
    parts.push_back(std::move(part->object));
  }
  made.object = std::make_unique<concat>(std::move(parts));
  return {};
}

}  // namespace weir::flow
