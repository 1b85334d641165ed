// SPDX-License-Identifier: Apache-2.0
/// @file
/// Payloads as JSON, and sections as bytes.
///
/// The start, the constants, the figures and errors are JSON, because they are small and
/// rare. Items never pass through here: their tensors and attributes stand in the shared
/// memory. The state of a stage may be large and has a binary form (`put_sections`).
#include "process/messages.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "process/wire.hpp"

namespace weir::actors {
namespace {

using nlohmann::json;

/// Returns JSON as text. Bytes that are no UTF-8 are replaced.
// A payload must be valid UTF-8, or the other side refuses it.
std::string dump(const json& one) {
  return one.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Returns the error for a payload that is not the JSON that its kind of message has.
// The text after "found" is that of the JSON library.
error no_message(const std::string& found) {
  return error(errc::corrupt,
               fmt::format("cannot read a message of the process host: expected JSON as "
                           "in docs/formats/stage-wire.md, found {}",
                           found));
}

/// Calls a function that reads JSON. Its exceptions become errors.
/// Errors that the function returns pass unchanged.
template <class T, class Function>
result<T> reading(Function read) {
  try {
    return read();
  } catch (const json::exception& e) {
    return no_message(e.what());
  }
}

/// Returns a setting as JSON. A value of a foreign type, such as a function of Python, is
/// sent as its description, because only the process that made it can use it.
json json_of(const setting_value& v) {
  // The type decides, so 2 and 2.0 stay different.
  return std::visit(
      [](const auto& one) -> json {
        using type = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<type, setting_value::list>) {
          json all = json::array();
          for (const setting_value& item : one) {
            all.push_back(json_of(item));
          }
          return all;
        } else if constexpr (std::is_same_v<type, setting_value::foreign>) {
          return one.description;
        } else {
          return one;
        }
      },
      v.data);
}

/// Returns the setting that `json_of` has written. Integers stay integers, so that a
/// setting of type float which was given as `2` is still accepted as a number later.
/// A value that is nothing else must be text, or the conversion throws.
setting_value value_of(const json& j) {
  setting_value v;
  // Booleans come first, because JSON keeps them apart from numbers.
  if (j.is_boolean()) {
    v.data = j.get<bool>();
  } else if (j.is_number_integer()) {
    v.data = j.get<std::int64_t>();
  } else if (j.is_number()) {
    v.data = j.get<double>();
  } else if (j.is_array()) {
    setting_value::list all;
    for (const json& one : j) {
      all.push_back(value_of(one));
    }
    v.data = std::move(all);
  } else {
    v.data = j.get<std::string>();
  }
  return v;
}

/// Names of the faces on the wire. They are part of the version of the wire.
constexpr std::array<std::pair<flow::face, const char*>, 6> faces{
    {{flow::face::task, "task"},
     {flow::face::late, "late"},
     {flow::face::looping, "looping"},
     {flow::face::source, "source"},
     {flow::face::sink, "sink"},
     {flow::face::blocking, "blocking"}}};

/// Returns the name of a face. Every face has one.
const char* face_text(flow::face f) {
  for (const auto& [known, text] : faces) {
    if (known == f) {
      return text;
    }
  }
  return "";
}

/// Returns the face of a name.
result<flow::face> face_of(const std::string& text) {
  // Another build may know faces that this one does not have.
  for (const auto& [known, name] : faces) {
    if (text == name) {
      return known;
    }
  }
  return no_message("the face " + text);
}

/// Returns the offsets and sizes of the shared memory. The run computes them, and the
/// child takes them as they are, so that both sides cannot disagree.
json json_of(const flow::shared_layout& l) {
  // All values are offsets from the begin of the memory, counts, or sizes.
  return {{"bytes", l.bytes},
          {"calls", l.calls},
          {"inputs", l.inputs},
          {"attributes", l.attributes},
          {"made", l.made},
          {"outputs", l.outputs},
          {"in", l.in},
          {"made_attributes", l.made_attributes},
          {"out", l.out},
          {"made_records", l.made_records},
          {"in_bytes", l.in_bytes},
          {"out_bytes", l.out_bytes},
          {"slots", l.slots},
          {"slot_bytes", l.slot_bytes}};
}

/// Reads what `json_of` of a layout has written. A missing key is an exception, which
/// `reading` turns into an error.
flow::shared_layout layout_from(const json& j) {
  flow::shared_layout l;
  // The order does not matter, because every value has a name.
  for (const auto& [key, to] : {std::pair{"bytes", &l.bytes},
                                {"calls", &l.calls},
                                {"inputs", &l.inputs},
                                {"attributes", &l.attributes},
                                {"made", &l.made},
                                {"outputs", &l.outputs},
                                {"made_attributes", &l.made_attributes},
                                {"made_records", &l.made_records},
                                {"in", &l.in},
                                {"in_bytes", &l.in_bytes},
                                {"out", &l.out},
                                {"out_bytes", &l.out_bytes},
                                {"slots", &l.slots},
                                {"slot_bytes", &l.slot_bytes}}) {
    *to = j.at(key).get<std::uint64_t>();
  }
  return l;
}

/// Returns an error with its causes, outermost first.
json json_of(const error& e) {
  return {{"code", static_cast<int>(e.code())},
          {"text", e.text()},
          {"location", e.location()},
          {"hint", e.hint()},
          {"cause", e.cause() != nullptr ? json_of(*e.cause()) : json()}};
}

/// Returns the text under a key, or an empty text if there is none of that type.
std::string text_at(const json& j, const char* key) {
  const auto found = j.find(key);
  // A key of another type counts as missing.
  return found != j.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Reads an error and its causes, of which a child could send any number.
error error_from(const json& j, int depth) {
  constexpr int max_depth = 16;
  // A code that this build does not know becomes `kernel_failed`, so that the text of the
  // error still arrives.
  const auto number = j.contains("code") && j["code"].is_number_integer()
                          ? j["code"].get<std::int64_t>()
                          : std::int64_t{0};
  auto code = errc::kernel_failed;
  if (number > 0 && number < 1000 && name_of(static_cast<errc>(number)) != "unknown") {
    code = static_cast<errc>(number);
  }
  error e(code, text_at(j, "text"));
  // Empty texts are left out, as in the error that was sent.
  if (const std::string where = text_at(j, "location"); !where.empty()) {
    static_cast<void>(std::move(e).located(where));
  }
  if (const std::string hint = text_at(j, "hint"); !hint.empty()) {
    static_cast<void>(std::move(e).hint(hint));
  }
  // Deeper causes are dropped, because every level is a call of this function.
  if (const auto cause = j.find("cause");
      cause != j.end() && cause->is_object() && depth < max_depth) {
    static_cast<void>(std::move(e).because(error_from(*cause, depth + 1)));
  }
  return e;
}

}  // namespace

// The start message carries names and settings, not objects: the child looks the stage up
// in its own catalog and makes it anew. It also carries what the run has decided about
// the stage, so that the child does not plan again.
std::string wire_text(const start_message& one) {
  // What the stage is: its name in the run, and how the catalog finds it.
  const flow::stage_info& info = one.stage.info;
  json j;
  j["version"] = wire::version;
  j["name"] = one.stage.name;
  j["use"] = one.stage.origin.use;
  j["file"] = one.stage.origin.home.file;
  j["face"] = face_text(info.face);
  j["settings"] = json::array();
  for (const auto& [key, value] : one.stage.origin.settings) {
    j["settings"].push_back(json::array({key, json_of(value)}));
  }
  // What it may use: plug-ins to load, random numbers, memory patterns, kernels and its
  // folder.
  j["plugins"] = one.plugins;
  j["seed"] = one.seed;
  j["fill"] = one.fill_slots;
#ifdef NDEBUG
  j["debug"] = false;
#else
  j["debug"] = true;  // a stage of Python that keeps a view behind its call is found
#endif
  j["kernels"] = one.kernels;
  j["folder"] = one.folder;
  j["resuming"] = one.resuming;
  // What the plan has decided: batch sizes, slots, the window behind it, and failures.
  j["takes"] = info.takes;
  j["gives"] = info.gives;
  j["slots"] = one.planned.slots;
  j["budget"] = one.budget;
  j["skips_failures"] = one.stage.on_failure != flow::failure_policy::stop;
  j["own_numbering"] = info.own_numbering;
  j["accepts_gaps"] = info.gaps == flow::gap_policy::pass;
  // The types are those of the plan, which has found them along the edges.
  j["ports"] = json::array();
  for (std::size_t i = 0; i < info.ports.size(); ++i) {
    const flow::port_info& p = info.ports[i];
    j["ports"].push_back({{"name", p.name},
                          {"inlet", p.inlet},
                          {"dead_letter", p.dead_letter},
                          {"type", one.planned.types[i].text()},
                          {"longest", p.longest}});
  }
  j["memory"] = json_of(one.layout);
  return dump(j);
}

// The version is compared first, because a child of another build may find any other key
// missing, and the version names the reason.
result<start_message> start_of(std::string_view text) {
  // Exceptions for missing keys and wrong types become errors here.
  return reading<start_message>([&]() -> result<start_message> {
    const json j = json::parse(text);
    if (j.at("version").get<std::uint32_t>() != wire::version) {
      return error(errc::unsupported_version,
                   fmt::format("cannot serve a stage: expected version {} of the wire, "
                               "found {}",
                               wire::version, j.at("version").dump()));
    }
    start_message m;
    m.stage.name = j.at("name").get<std::string>();
    // Where the stage comes from; `serve_stage` looks it up by these values.
    m.stage.origin.use = j.at("use").get<std::string>();
    m.stage.origin.home.file = j.at("file").get<std::string>();
    for (const json& one : j.at("settings")) {
      m.stage.origin.settings.emplace_back(one.at(0).get<std::string>(),
                                           value_of(one.at(1)));
    }
    // The other facts are needed before the stage exists, for the size of its batches.
    flow::stage_info& info = m.stage.info;
    WEIR_TRY(info.face, face_of(j.at("face").get<std::string>()));
    info.takes = j.at("takes").get<std::uint32_t>();
    info.gives = j.at("gives").get<std::uint32_t>();
    info.own_numbering = j.at("own_numbering").get<bool>();
    m.stage.on_failure = j.at("skips_failures").get<bool>() ? flow::failure_policy::skip
                                                            : flow::failure_policy::stop;
    m.planned.slots = j.at("slots").get<std::uint32_t>();
    m.budget = j.at("budget").get<std::int64_t>();
    m.plugins = j.at("plugins").get<std::vector<std::string>>();
    m.seed = j.at("seed").get<std::uint64_t>();
    m.fill_slots = j.value("fill", -1);
    m.kernels = j.value("kernels", "auto");
    m.folder = j.at("folder").get<std::string>();
    m.resuming = j.at("resuming").get<bool>();
    // `planned.types` gets an entry per port, in the same order.
    for (const json& one : j.at("ports")) {
      flow::port_info p;
      p.name = one.at("name").get<std::string>();
      p.inlet = one.at("inlet").get<bool>();
      p.dead_letter = one.at("dead_letter").get<bool>();
      p.longest = one.at("longest").get<std::int64_t>();
      WEIR_TRY(p.type, flow::port_type::parse(one.at("type").get<std::string>()));
      m.planned.types.push_back(p.type);
      info.ports.push_back(std::move(p));
    }
    m.layout = layout_from(j.at("memory"));
    return m;
  });
}

/// An error as JSON.
std::string wire_text(const error& e) {
  return dump(json_of(e));
}

/// Never fails: what cannot be read is part of the error.
error error_of(std::string_view text) {
  // Parsing without exceptions: an error that cannot be read is still reported as text.
  const json j = json::parse(text, nullptr, false);
  if (j.is_object()) {
    return error_from(j, 0);
  }
  // A child may have died in the middle of a text.
  return error(errc::kernel_failed,
               fmt::format("the child process has reported an error that is not JSON: {}",
                           text.substr(0, 200)));
}

/// The constants that a stage has opened, for the comparison of a resumed run.
std::string wire_text(const std::vector<constant_info>& constants) {
  json j;
  j["constants"] = json::array();
  for (const constant_info& one : constants) {
    j["constants"].push_back(
        {{"file", one.file}, {"tensor", one.tensor}, {"digest", one.digest}});
  }
  return dump(j);
}

/// The counterpart of `wire_text`.
result<std::vector<constant_info>> constants_of(std::string_view text) {
  using all = std::vector<constant_info>;
  return reading<all>([&]() -> result<all> {
    all found;
    // A stage without constants sends an empty payload.
    if (text.empty()) {
      return found;
    }
    const json j = json::parse(text);
    for (const json& one : j.at("constants")) {
      found.push_back({one.at("file").get<std::string>(),
                       one.at("tensor").get<std::string>(),
                       one.at("digest").get<std::string>()});
    }
    return found;
  });
}

/// Figures are sent at the end and on request.
std::string wire_text(const figures& all) {
  json j;
  j["values"] = json::array();
  // A value is a number, a text, or a list of texts.
  for (const auto& [name, value] : all.values()) {
    j["values"].push_back(json::array(
        {name, std::visit([](const auto& one) { return json(one); }, value)}));
  }
  // Curves are for the report.
  j["curves"] = json::array();
  for (const figures::curve& one : all.curves()) {
    j["curves"].push_back(
        {{"title", one.title}, {"x", one.x}, {"y", one.y}, {"points", one.points}});
  }
  j["problems"] = all.problems();
  return dump(j);
}

/// Adds the figures of a child to those of the stage.
result<void> add_figures(std::string_view text, figures& to) {
  return reading<void>([&]() -> result<void> {
    // A stage without figures sends an empty payload.
    const json j = text.empty() ? json::object() : json::parse(text);
    for (const json& one : j.value("values", json::array())) {
      const std::string name = one.at(0).get<std::string>();
      const json& value = one.at(1);
      // An integer that is negative becomes a real number.
      if (value.is_number_unsigned()) {
        to.set(name, value.get<std::uint64_t>());
      } else if (value.is_number()) {
        to.set(name, value.get<double>());
      } else if (value.is_array()) {
        to.set(name, value.get<std::vector<std::string>>());
      } else {
        to.set(name, value.get<std::string>());
      }
    }
    // Points are pairs.
    for (const json& one : j.value("curves", json::array())) {
      to.draw({one.at("title").get<std::string>(), one.at("x").get<std::string>(),
               one.at("y").get<std::string>(),
               one.at("points").get<std::vector<std::pair<double, double>>>()});
    }
    // Problems are texts that the report shows.
    for (const json& one : j.value("problems", json::array())) {
      to.problem(one.get<std::string>());
    }
    return {};
  });
}

// A section is stored as five numbers (bytes of the name, type, rank, 0, bytes of the
// data), its extents, its name and its data; docs/formats/stage-wire.md has the table.
void put_sections(byte_vector& to, const std::vector<flow::image_section>& all) {
  // Numbers are in the order of bytes of the machine, because both processes run on it.
  const auto put = [&](const auto& number) {
    append(to, bytes_view(std::as_bytes(std::span(&number, 1))));
  };
  // The number of sections comes first.
  put(static_cast<std::uint32_t>(all.size()));
  for (const flow::image_section& one : all) {
    put(static_cast<std::uint32_t>(one.name.size()));
    put(static_cast<std::uint32_t>(one.type));
    put(static_cast<std::uint32_t>(one.shape.size()));
    // Makes the numbers behind it aligned to 8 bytes.
    put(std::uint32_t{0});
    put(static_cast<std::uint64_t>(one.data.size()));
    for (const std::int64_t extent : one.shape) {
      put(extent);
    }
    // Bytes of the name and of the data have no padding.
    append(to, as_view(one.name));
    append(to, one.data);
  }
}

// `take` and `get` remember the first missing byte in `failed` and give empty parts from
// then on, so that the loop below needs one check and never reads behind the end.
result<std::vector<flow::image_section>> sections_of(bytes_view from) {
  bool failed = false;
  const auto take = [&](std::uint64_t bytes) {
    // Compares before it adds, so that a large number cannot overflow.
    failed = failed || bytes > from.size();
    const bytes_view one = from.first(failed ? 0 : static_cast<std::size_t>(bytes));
    from = from.subspan(one.size());
    return one;
  };
  // The argument only gives the type.
  const auto get = [&](auto number) {
    const bytes_view one = take(sizeof(number));
    if (!failed) {
      std::memcpy(&number, one.data(), sizeof(number));
    }
    return number;
  };
  std::vector<flow::image_section> all;
  // The count is not trusted: the loop ends with the bytes.
  const auto count = get(std::uint32_t{});
  for (std::uint32_t i = 0; i < count && !failed; ++i) {
    flow::image_section one;
    const auto name_bytes = get(std::uint32_t{});
    const auto type = get(std::uint32_t{});
    const auto rank = get(std::uint32_t{});
    static_cast<void>(get(std::uint32_t{}));
    const auto bytes = get(std::uint64_t{});
    // The rank is checked before the loop that reads the extents, which would else be
    // long.
    failed = failed || rank > wire::max_rank || !info_of(static_cast<int>(type % 256)) ||
             type > 255;
    for (std::uint32_t e = 0; e < rank && !failed; ++e) {
      one.shape.push_back(get(std::int64_t{}));
    }
    // Name and data follow the numbers without padding.
    one.name = as_text(take(name_bytes));
    const bytes_view data = take(bytes);
    one.type = static_cast<dtype>(type);
    // A copy, because the payload is used again.
    one.data.assign(data.begin(), data.end());
    all.push_back(std::move(one));
  }
  // Bytes behind the last section mean that both sides disagree about the form.
  if (failed || !from.empty()) {
    return error(errc::corrupt,
                 fmt::format("cannot read the state of a stage in a child process: "
                             "expected sections, found {}",
                             failed ? "fewer bytes" : "more bytes"));
  }
  return all;
}

}  // namespace weir::actors
