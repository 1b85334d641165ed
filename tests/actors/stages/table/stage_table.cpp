// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of all stages.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "stages/table/parts.hpp"

namespace weir::test {
namespace {

/// Items u8[3,3], which are no items of any typed stage.
node other_numbers(pipeline& p, const stage_trial& t) {
  return stage_in(p, t, "source", "generator",
                  {{"shape", extents({3, 3})}, {"element", "u8"}});
}
/// Returns the bytes of an item of f32.
std::int64_t bytes_of_item(const stage_trial& t) {
  return 4 * std::int64_t{t.extent};
}
std::int64_t items_of(const stage_trial& t) {
  return t.items;
}
/// Returns the bytes of a file of the input.
std::function<std::int64_t(const stage_trial&)> bytes_of(const std::string& name) {
  return [=](const stage_trial& t) {
    return static_cast<std::int64_t>(std::filesystem::file_size(t.in(name)));
  };
}

/// Returns the parts of the message about an edge whose ends have different types.
std::vector<std::string> clash(const std::string& from, const std::string& to,
                               const std::string& expected, const std::string& found) {
  return {fmt::format("cannot connect \"{}\" to \"{}\": expected {}, found {}", from, to,
                      expected, found)};
}
/// Adds a source of items of elements bf16, which few formats have.
node rare_numbers(pipeline& p, const stage_trial& t) {
  std::filesystem::create_directory(t.in("rare"));
  write_text(t.in("rare/0.raw"), "12345678");
  return stage_in(p, t, "source", "raw.read",
                  {{"path", t.in("rare")}, {"type", "bf16[4]"}});
}

/// A stage between the generator and a file.
/// @param expected  Type of its inlet for items of 4 elements.
stage_entry between(const std::string& stage,
                    std::function<given_settings(const stage_trial&)> settings,
                    const std::string& expected) {
  stage_entry out;
  out.stage = stage;
  out.build = [=](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> stage_in(p, t, "stage", stage, settings(t)) >>
        message_file_of(p, t);
  };
  out.wrong = [=](pipeline& p, const stage_trial& t) {
    other_numbers(p, t) >> stage_in(p, t, "stage", stage, settings(t)) >>
        message_file_of(p, t);
  };
  out.refusal = clash("source.x", "stage.x", expected, "u8[3,3]");
  return out;
}
/// A sink behind the generator.
stage_entry sink_entry(const std::string& stage, const std::string& name,
                       given_settings settings = {}) {
  stage_entry out;
  out.stage = stage;
  out.build = [=](pipeline& p, const stage_trial& t) {
    given_settings all = settings;
    all.emplace("path", t.out(name));
    numbers_into(p, t) >> stage_in(p, t, "sink", stage, all);
  };
  return out;
}
/// A source of a file before a sink. The wrong type is u8[3,3].
/// @param refusal  Parts of the message about the wrong type.
stage_entry source_entry(const std::string& stage,
                         std::function<void(const stage_trial&)> prepare,
                         std::function<given_settings(const stage_trial&)> settings,
                         std::vector<std::string> refusal = {}) {
  stage_entry out;
  out.stage = stage;
  out.prepare = std::move(prepare);
  out.build = [=](pipeline& p, const stage_trial& t) {
    stage_in(p, t, "source", stage, settings(t)) >> message_file_of(p, t);
  };
  out.wrong = [=](pipeline& p, const stage_trial& t) {
    given_settings other = settings(t);
    other.insert_or_assign("type", "u8[3,3]");
    stage_in(p, t, "source", stage, other) >> message_file_of(p, t);
  };
  out.refusal_code = errc::corrupt;
  out.refusal = std::move(refusal);
  return out;
}
/// Returns the parts of the message about an item of a source that has another type.
std::vector<std::string> other_item(const std::string& expected,
                                    const std::string& found) {
  return {
      fmt::format("cannot make an item of \"source\": expected a tensor of type {}, "
                  "found {}",
                  expected, found)};
}
std::function<void(const stage_trial&)> written_by(const std::string& stage,
                                                   const std::string& name) {
  return [=](const stage_trial& t) {
    fill_by(t.folder, "generator", numbers_of(t), stage, {{"path", t.in(name)}});
  };
}

void add_volumes(std::vector<stage_entry>& all) {
  // A volume with a tensor f32[items,extent].
  const auto volume = [](const stage_trial& t) {
    fill_by(t.folder, "generator",
            {{"count", 1}, {"shape", extents({t.items, t.extent})}}, "hn4.put",
            {{"path", t.in("v.hn4")}, {"tag", "t"}, {"tensor", "w"}});
  };
  const auto raw_volume = [](const stage_trial& t) {
    if (t.items == 0) {  // a volume stores no empty tags
      fill_by(t.folder, "generator", {{"count", 1}}, "hn4.put",
              {{"path", t.in("v.hn4")}, {"tag", "other"}});
      return;
    }
    fill_by(t.folder, "generator",
            {{"count", 1}, {"shape", extents({t.items, t.extent})}}, "hn4.put",
            {{"path", t.in("v.hn4")}, {"tag", "t"}, {"format", "raw"}});
  };
  all.push_back(source_entry(
      "hn4.tensors", volume,
      [](const stage_trial& t) {
        return given_settings{{"path", t.in("v.hn4")}};
      },
      other_item("u8[3,3]", "f32[2,4]")));
  all.push_back(source_entry(
      "hn4.rows", volume,
      [](const stage_trial& t) {
        return given_settings{{"path", t.in("v.hn4")}, {"tensor", "w"}};
      },
      other_item("u8[3,3]", "f32[1,4]")));
  stage_entry bytes = source_entry("hn4.read", raw_volume, [](const stage_trial& t) {
    return limited(t, "block",
                   {{"path", t.in("v.hn4")}, {"tag", "t"}, {"block", 4 * t.extent}});
  });
  bytes.needed = bytes_of_item;
  bytes.wrong = [](pipeline& p, const stage_trial& t) {
    stage_in(p, t, "source", "hn4.read", {{"path", t.in("v.hn4")}, {"tag", "t"}}) >>
        stage_in(p, t, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  bytes.refusal_code = errc::invalid_argument;
  bytes.refusal = clash("source.x", "stage.x", "f32[4]", "u8[?]");
  bytes.empty_code = errc::not_found;
  bytes.empty_refusal = "tag \"t\"";
  all.push_back(std::move(bytes));
  all.push_back(sink_entry("hn4.put", "v.hn4"));
  all.back().wrong = [](pipeline& p, const stage_trial& t) {
    other_numbers(p, t) >>
        stage_in(p, t, "sink", "hn4.put", {{"path", t.out("v.hn4")}, {"type", "f32[n]"}});
  };
  all.back().refusal = clash("source.x", "sink.x", "f32[n]", "u8[3,3]");
}

void add_images(std::vector<stage_entry>& all) {
  const auto image_size = [](const stage_trial& t) {
    return extents({t.extent / 4, 4, 1});
  };
  all.push_back(source_entry(
      "png.read",
      [=](const stage_trial& t) {
        std::filesystem::create_directory(t.in("images"));
        fill_by(t.folder, "generator",
                {{"count", t.items}, {"shape", image_size(t)}, {"element", "u8"}},
                "png.write", {{"path", t.in("images/{item}.png")}});
      },
      [](const stage_trial& t) {
        return limited(t, "max_bytes",
                       {{"path", t.in("images")},
                        {"type", fmt::format("u8[{},4,1]", t.extent / 4)}});
      }));
  // The limit is for the file and for the image.
  all.back().needed = [](const stage_trial& t) {
    return std::max(bytes_of("images/0.png")(t), std::int64_t{t.extent});
  };
  all.back().wrong = [](pipeline& p, const stage_trial& t) {
    stage_in(p, t, "source", "png.read",
             {{"path", t.in("images")}, {"type", "u8[1,4,3]"}}) >>
        message_file_of(p, t);
  };
  all.back().refusal = other_item("u8[1,4,3]", "u8[1,4,1]");
  stage_entry images = sink_entry("png.write", "{item}.png");
  images.build = [=](pipeline& p, const stage_trial& t) {
    stage_in(p, t, "source", "generator",
             {{"count", t.items}, {"shape", image_size(t)}, {"element", "u8"}}) >>
        stage_in(p, t, "sink", "png.write", {{"path", t.out("{item}.png")}});
  };
  images.wrong = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >>
        stage_in(p, t, "sink", "png.write", {{"path", t.out("{item}.png")}});
  };
  images.refusal = clash("source.x", "sink.x", "u8[?,?,?]", "f32[4]");
  all.push_back(std::move(images));
}

void add_arrays(std::vector<stage_entry>& all) {
  all.push_back(source_entry(
      "raw.read",
      [](const stage_trial& t) {
        std::filesystem::create_directory(t.in("raw"));
        written_by("raw.write", "raw/{item}.raw")(t);
      },
      [](const stage_trial& t) {
        return limited(t, "max_bytes", {{"path", t.in("raw")}, {"type", floats(t)}});
      },
      {"\"source\"", "raw/0.raw",
       "cannot read a raw file as u8[3,3]: expected 9 bytes, found 16"}));
  all.back().needed = bytes_of_item;
  all.push_back(sink_entry("raw.write", "{item}.raw"));
  all.push_back(source_entry(
      "npy.read", written_by("npy.write", "in.npy"),
      [](const stage_trial& t) {
        return limited(
            t, "max_bytes",
            {{"path", t.in("in.npy")}, {"items", "rows"}, {"type", floats(t)}});
      },
      other_item("u8[3,3]", "f32[4]")));
  all.back().needed = bytes_of_item;  // of a row
  all.back().empty_code = errc::torn;
  all.back().empty_refusal = "expected at least";  // an empty file has no header
  all.push_back(sink_entry("npy.write", "a.npy"));
  all.back().wrong = [](pipeline& p, const stage_trial& t) {
    rare_numbers(p, t) >> stage_in(p, t, "sink", "npy.write", {{"path", t.out("a.npy")}});
  };
  all.back().refusal_code = errc::unsupported;
  all.back().refusal = {"\"sink\"",
                        "expected an element type that NumPy has, found "
                        "bfloat16"};
  all.push_back(source_entry(
      "json.read", written_by("json.write", "in.jsonl"),
      [](const stage_trial& t) {
        return limited(
            t, "longest",
            {{"path", t.in("in.jsonl")}, {"type", floats(t)}, {"longest", 1 << 26}});
      },
      {"\"source\"", "in.jsonl:0",
       "cannot read a line of JSON: expected numbers for u8[3,3], found the shape [4]"}));
  all.back().needed = bytes_of("in.jsonl");
  all.push_back(sink_entry("json.write", "a.jsonl"));
  all.back().wrong = [](pipeline& p, const stage_trial& t) {
    rare_numbers(p, t) >>
        stage_in(p, t, "sink", "json.write", {{"path", t.out("a.jsonl")}});
  };
  all.back().refusal_code = errc::unsupported;
  all.back().refusal = {"\"sink\"", "expected numbers, found elements bf16"};
}

void add_messages(std::vector<stage_entry>& all) {
  all.push_back(source_entry(
      "tgm.read", written_by("tgm.write", "in.tgm"),
      [](const stage_trial& t) {
        return given_settings{{"path", t.in("in.tgm")}, {"type", floats(t)}};
      },
      other_item("u8[3,3]", "f32[4]")));
  all.push_back(sink_entry("tgm.write", "a.tgm", {{"compression", "zstd"}}));
  all.back().wrong = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >>
        stage_in(p, t, "sink", "tgm.write",
                 {{"path", t.out("a.tgm")}, {"encoding", "simple_packing"}});
  };
  all.back().refusal = {"\"sink\"",
                        "cannot pack an item: expected f64 elements, found f32"};
  all.push_back(sink_entry("tgm.replace", "a.tgm"));
  stage_entry log = source_entry(
      "log",
      [](const stage_trial& t) {
        written_by("tgm.write", "in.tgm")(t);
        or_throw(::mkfifo(t.in("fifo").c_str(), 0600) == 0
                     ? result<void>()
                     : result<void>(error(errc::io, "cannot make a pipe")));
      },
      [](const stage_trial& t) {
        return limited(t, "max_bytes",
                       {{"path", t.out("log.tgm")}, {"live", t.in("fifo")}});
      });
  log.needed = bytes_of("in.tgm");
  // Messages of another type are not accepted, so they are no items. The type of the
  // items is checked at the stage behind.
  log.wrong = [](pipeline& p, const stage_trial& t) {
    stage_in(p, t, "source", "log",
             {{"path", t.out("log.tgm")}, {"live", t.in("fifo")}, {"type", floats(t)}}) >>
        stage_in(p, t, "stage", "elementwise", {{"type", "f64[n]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  log.refusal_code = errc::invalid_argument;
  log.refusal = clash("source.x", "stage.x", "f64[n]", "f32[4]");
  log.beside = [](const stage_trial& t, bool resuming) {
    return std::thread([t, resuming] {
      int pipe = -1;
      for (int i = 0; pipe < 0 && i < 1000; ++i) {
        pipe = ::open(t.in("fifo").c_str(), O_WRONLY | O_NONBLOCK);
        std::this_thread::sleep_for(std::chrono::milliseconds(pipe < 0 ? 2 : 0));
      }
      const byte_vector content = resuming ? byte_vector() : content_of(t.in("in.tgm"));
      for (std::size_t at = 0; at < content.size();) {
        const ::ssize_t sent = ::write(pipe, content.data() + at, content.size() - at);
        if (sent < 0 && errno != EAGAIN) {
          break;
        }
        at += sent < 0 ? 0 : static_cast<std::size_t>(sent);
        std::this_thread::sleep_for(std::chrono::microseconds(sent < 0 ? 200 : 0));
      }
      ::close(pipe);
    });
  };
  all.push_back(std::move(log));
  stage_entry text = source_entry(
      "text.chunks",
      [](const stage_trial& t) {
        write_text(t.in("a.txt"),
                   std::string(static_cast<std::size_t>(t.items * t.extent), 'x'));
      },
      [](const stage_trial& t) {
        return limited(t, "chunk",
                       {{"files", texts({t.in("a.txt")})}, {"chunk", t.extent}});
      });
  text.needed = bytes_of("a.txt");
  text.wrong = [](pipeline& p, const stage_trial& t) {
    stage_in(p, t, "source", "text.chunks", {{"files", texts({t.in("a.txt")})}}) >>
        stage_in(p, t, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  text.refusal_code = errc::invalid_argument;
  text.refusal = clash("source.x", "stage.x", "f32[4]", "u8[?]");
  all.push_back(std::move(text));
}

void add_routes(std::vector<stage_entry>& all) {
  stage_entry null = sink_entry("null", "");
  null.build = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> stage_in(p, t, "sink", "null");
  };
  null.writes = false;
  all.push_back(std::move(null));
  stage_entry select;
  select.stage = "select";
  select.build = [](pipeline& p, const stage_trial& t) {
    auto s = stage_in(p, t, "stage", "select", {{"modulo", 2}});
    numbers_into(p, t) >> s;
    s["y0"] >> message_file_of(p, t, "even")["x"];
    s["y1"] >> message_file_of(p, t, "odd")["x"];
  };
  all.push_back(std::move(select));
  stage_entry merge;
  merge.stage = "merge";
  merge.build = [](pipeline& p, const stage_trial& t) {
    auto s = stage_in(p, t, "parity", "select", {{"modulo", 2}});
    auto m = stage_in(p, t, "stage", "merge");
    numbers_into(p, t) >> s;
    s["y0"] >> m["b"];
    s["y1"] >> m["a"];
    m["y"] >> message_file_of(p, t)["x"];
  };
  merge.wrong = [](pipeline& p, const stage_trial& t) {
    auto m = stage_in(p, t, "stage", "merge");
    numbers_into(p, t)["x"] >> m["a"];
    stage_in(p, t, "other", "generator",
             {{"count", t.items}, {"shape", extents({3, 3})}, {"element", "u8"}})["x"] >>
        m["b"];
    m["y"] >> message_file_of(p, t)["x"];
  };
  merge.refusal = {
      "cannot connect \"other.x\" to \"stage.b\": expected f32[?], found u8[3,3]; "
      "\"stage.b\" is declared as any, \"stage.b\" and \"stage.a\" have one type, and "
      "\"stage.a\" gets f32[4] from \"source.x\""};
  all.push_back(std::move(merge));
  stage_entry zip;
  zip.stage = "zip";
  const auto zipped = [](const std::string& second) {
    return [second](pipeline& p, const stage_trial& t) {
      auto z = stage_in(p, t, "stage", "zip", {{"first", "f32[n]"}, {"second", second}});
      auto n = numbers_into(p, t);
      n["x"] >> z["first"];
      n["x"] >> z["second"];
      z["a"] >> message_file_of(p, t, "first")["x"];
      z["b"] >> message_file_of(p, t, "second")["x"];
    };
  };
  zip.build = zipped("f32[n]");
  zip.wrong = zipped("u8[n]");
  zip.refusal = clash("source.x", "stage.second", "u8[n]", "f32[4]");
  all.push_back(std::move(zip));
  all.push_back(between(
      "split",
      [](const stage_trial&) {
        return given_settings{
            {"attribute", "kind"}, {"outlets", texts({"kept"})}, {"other", "rest"}};
      },
      ""));
  all.back().build = [](pipeline& p, const stage_trial& t) {
    auto s = stage_in(
        p, t, "stage", "split",
        {{"attribute", "kind"}, {"outlets", texts({"kept"})}, {"other", "rest"}});
    numbers_into(p, t) >> s;
    s["rest"] >> message_file_of(p, t)["x"];
  };
  all.back().wrong = {};
}

/// The sources that combine others.
void add_combined(std::vector<stage_entry>& all) {
  for (const char* stage : {"concat", "mix"}) {
    stage_entry combined;
    combined.stage = stage;
    const auto parts = [](const stage_trial& t, const std::string& element) {
      return texts(
          {fmt::format("npy.read path={} items=rows type={}", t.in("in.npy"), floats(t)),
           fmt::format("npy.read path={} items=rows type={}[{}]", t.in("in.npy"), element,
                       t.extent)});
    };
    combined.prepare = written_by("npy.write", "in.npy");
    combined.build = [=](pipeline& p, const stage_trial& t) {
      stage_in(p, t, "source", stage, {{"parts", parts(t, "f32")}}) >>
          message_file_of(p, t);
    };
    combined.wrong = [=](pipeline& p, const stage_trial& t) {
      stage_in(p, t, "source", stage, {{"parts", parts(t, "u8")}}) >>
          message_file_of(p, t);
    };
    combined.refusal = {
        "\"source\"",
        fmt::format("cannot make a {}: expected the outlets of the first source, x of "
                    "f32[4], found x of u8[4] at source 1, \"npy.read",
                    stage),
        "type=u8[4]\"; give all sources the same names and types of outlets; the first "
        "source has the number 0"};
    combined.empty_code = errc::torn;
    combined.empty_refusal = "expected at least";
    all.push_back(std::move(combined));
  }
}

void add_numbers(std::vector<stage_entry>& all) {
  stage_entry generator;
  generator.stage = "generator";
  generator.build = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> message_file_of(p, t);
  };
  generator.wrong = [](pipeline& p, const stage_trial& t) {
    other_numbers(p, t) >>
        stage_in(p, t, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  generator.refusal = clash("source.x", "stage.x", "f32[4]", "u8[3,3]");
  all.push_back(std::move(generator));
  add_combined(all);
  all.push_back(between(
      "elementwise",
      [](const stage_trial&) {
        return given_settings{{"type", "f32[n]"}, {"op", "negate"}};
      },
      "f32[n]"));
  all.push_back(between(
      "batch",
      [](const stage_trial& t) {
        return limited(t, "size", {{"type", floats(t)}, {"size", 4}});
      },
      "f32[4]"));
  all.push_back(between(
      "unbatch",
      [](const stage_trial& t) {
        return limited(t, "size", {{"type", "f32[]"}, {"size", 4096}});
      },
      "f32[?]"));
  all.back().needed = [](const stage_trial& t) { return std::int64_t{t.extent}; };
  all.push_back(between(
      "window",
      [](const stage_trial& t) {
        return limited(t, "count", {{"type", floats(t)}, {"count", 3}, {"step", 2}});
      },
      "f32[4]"));
  all.push_back(between(
      "reduce",
      [](const stage_trial& t) {
        return limited(t, "size", {{"type", floats(t)}, {"size", 3}});
      },
      "f32[4]"));
  // These make one item of as many as their setting allows.
  for (stage_entry& one : all) {
    if (one.stage == "batch" || one.stage == "window" || one.stage == "reduce") {
      one.needed = items_of;
      one.limited_items = 4096;
    }
  }
  all.push_back(between(
      "rate",
      [](const stage_trial&) {
        return given_settings{{"type", "f32[n]"}, {"items_per_second", 1e6}};
      },
      "f32[n]"));
  all.push_back(between(
      "deadline", [](const stage_trial&) { return given_settings(); }, ""));
  all.back().wrong = {};
}

}  // namespace

std::vector<stage_entry> stage_table() {
  std::vector<stage_entry> all;
  add_volumes(all);
  add_images(all);
  add_arrays(all);
  add_messages(all);
  add_routes(all);
  add_numbers(all);
  add_text_stages(all);
  std::sort(all.begin(), all.end(),
            [](const stage_entry& a, const stage_entry& b) { return a.stage < b.stage; });
  return all;
}

}  // namespace weir::test
