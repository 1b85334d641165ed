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

#include "stages/stage_inputs.hpp"
#include "stages/stage_table.hpp"

namespace weir::test {
namespace {

given_value extents(std::vector<std::int64_t> all) {
  setting_value::list list;
  for (const std::int64_t one : all) {
    list.push_back({one});
  }
  return given_value(setting_value{std::move(list)});
}
std::string floats(const stage_trial& t) {
  return fmt::format("f32[{}]", t.extent);
}
given_settings numbers_of(const stage_trial& t) {
  return {{"count", t.items}, {"shape", extents({t.extent})}};
}
node numbers_into(pipeline& p, const stage_trial& t) {
  return add_stage(p, "source", "generator", numbers_of(t)).window(2);
}
/// Items u8[3,3], which are no items of any typed stage.
node other_numbers(pipeline& p) {
  return add_stage(p, "source", "generator",
                   {{"shape", extents({3, 3})}, {"element", "u8"}});
}
node message_file_of(pipeline& p, const stage_trial& t,
                     const std::string& name = "sink") {
  return add_stage(p, name, "tgm.write", {{"path", t.out(name + ".tgm")}}).window(2);
}

/// A stage between the generator and a file.
stage_entry between(const std::string& stage,
                    std::function<given_settings(const stage_trial&)> settings,
                    std::string refusal = "expected") {
  stage_entry out;
  out.stage = stage;
  out.build = [=](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> add_stage(p, "stage", stage, settings(t)) >>
        message_file_of(p, t);
  };
  out.wrong = [=](pipeline& p, const stage_trial& t) {
    other_numbers(p) >> add_stage(p, "stage", stage, settings(t)) >>
        message_file_of(p, t);
  };
  out.refusal = std::move(refusal);
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
    numbers_into(p, t) >> add_stage(p, "sink", stage, all).window(2);
  };
  return out;
}
/// A source of a file before a sink. The wrong type is u8[3,3].
stage_entry source_entry(const std::string& stage,
                         std::function<void(const stage_trial&)> prepare,
                         std::function<given_settings(const stage_trial&)> settings) {
  stage_entry out;
  out.stage = stage;
  out.prepare = std::move(prepare);
  out.build = [=](pipeline& p, const stage_trial& t) {
    add_stage(p, "source", stage, settings(t)) >> message_file_of(p, t);
  };
  out.wrong = [=](pipeline& p, const stage_trial& t) {
    given_settings other = settings(t);
    other.insert_or_assign("type", "u8[3,3]");
    add_stage(p, "source", stage, other) >> message_file_of(p, t);
  };
  out.refusal = "expected";
  return out;
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
  all.push_back(source_entry("hn4.tensors", volume, [](const stage_trial& t) {
    return given_settings{{"path", t.in("v.hn4")}};
  }));
  all.push_back(source_entry("hn4.rows", volume, [](const stage_trial& t) {
    return given_settings{{"path", t.in("v.hn4")}, {"tensor", "w"}};
  }));
  stage_entry bytes = source_entry("hn4.read", raw_volume, [](const stage_trial& t) {
    return given_settings{{"path", t.in("v.hn4")}, {"tag", "t"}, {"block", 4 * t.extent}};
  });
  bytes.wrong = [](pipeline& p, const stage_trial& t) {
    add_stage(p, "source", "hn4.read", {{"path", t.in("v.hn4")}, {"tag", "t"}}) >>
        add_stage(p, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  bytes.empty_refusal = "expected";
  all.push_back(std::move(bytes));
  all.push_back(sink_entry("hn4.put", "v.hn4"));
}

void add_arrays(std::vector<stage_entry>& all) {
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
        return given_settings{{"path", t.in("images")},
                              {"type", fmt::format("u8[{},4,1]", t.extent / 4)}};
      }));
  all.back().wrong = [](pipeline& p, const stage_trial& t) {
    add_stage(p, "source", "png.read",
              {{"path", t.in("images")}, {"type", "u8[1,4,3]"}}) >>
        message_file_of(p, t);
  };
  stage_entry images = sink_entry("png.write", "{item}.png");
  images.build = [=](pipeline& p, const stage_trial& t) {
    add_stage(p, "source", "generator",
              {{"count", t.items}, {"shape", image_size(t)}, {"element", "u8"}}) >>
        add_stage(p, "sink", "png.write", {{"path", t.out("{item}.png")}});
  };
  images.wrong = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >>
        add_stage(p, "sink", "png.write", {{"path", t.out("{item}.png")}});
  };
  images.refusal = "expected";
  all.push_back(std::move(images));
  all.push_back(source_entry(
      "raw.read",
      [](const stage_trial& t) {
        std::filesystem::create_directory(t.in("raw"));
        written_by("raw.write", "raw/{item}.raw")(t);
      },
      [](const stage_trial& t) {
        return given_settings{{"path", t.in("raw")}, {"type", floats(t)}};
      }));
  all.push_back(sink_entry("raw.write", "{item}.raw"));
  all.push_back(source_entry(
      "npy.read", written_by("npy.write", "in.npy"), [](const stage_trial& t) {
        return given_settings{
            {"path", t.in("in.npy")}, {"items", "rows"}, {"type", floats(t)}};
      }));
  all.back().empty_refusal = "expected at least";  // an empty file has no header
  all.push_back(sink_entry("npy.write", "a.npy"));
  all.push_back(source_entry(
      "json.read", written_by("json.write", "in.jsonl"), [](const stage_trial& t) {
        return given_settings{
            {"path", t.in("in.jsonl")}, {"type", floats(t)}, {"longest", 1 << 26}};
      }));
  all.push_back(sink_entry("json.write", "a.jsonl"));
}

void add_messages(std::vector<stage_entry>& all) {
  all.push_back(source_entry(
      "tgm.read", written_by("tgm.write", "in.tgm"), [](const stage_trial& t) {
        return given_settings{{"path", t.in("in.tgm")}, {"type", floats(t)}};
      }));
  all.push_back(sink_entry("tgm.write", "a.tgm", {{"compression", "zstd"}}));
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
        return given_settings{{"path", t.out("log.tgm")}, {"live", t.in("fifo")}};
      });
  // Messages of another type are not accepted, so they are no items.
  log.wrong = {};
  log.refusal = "";
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
        return given_settings{{"files", texts({t.in("a.txt")})}, {"chunk", t.extent}};
      });
  text.wrong = [](pipeline& p, const stage_trial& t) {
    add_stage(p, "source", "text.chunks", {{"files", texts({t.in("a.txt")})}}) >>
        add_stage(p, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  all.push_back(std::move(text));
}

void add_routes(std::vector<stage_entry>& all) {
  stage_entry null = sink_entry("null", "");
  null.build = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> add_stage(p, "sink", "null");
  };
  null.writes = false;
  all.push_back(std::move(null));
  stage_entry select;
  select.stage = "select";
  select.build = [](pipeline& p, const stage_trial& t) {
    auto s = add_stage(p, "stage", "select", {{"modulo", 2}});
    numbers_into(p, t) >> s;
    s["y0"] >> message_file_of(p, t, "even")["x"];
    s["y1"] >> message_file_of(p, t, "odd")["x"];
  };
  all.push_back(std::move(select));
  stage_entry merge;
  merge.stage = "merge";
  merge.build = [](pipeline& p, const stage_trial& t) {
    auto s = add_stage(p, "parity", "select", {{"modulo", 2}});
    auto m = add_stage(p, "stage", "merge");
    numbers_into(p, t) >> s;
    s["y0"] >> m["b"];
    s["y1"] >> m["a"];
    m["y"] >> message_file_of(p, t)["x"];
  };
  all.push_back(std::move(merge));
  stage_entry zip;
  zip.stage = "zip";
  const auto zipped = [](const std::string& second) {
    return [second](pipeline& p, const stage_trial& t) {
      auto z = add_stage(p, "stage", "zip", {{"first", "f32[n]"}, {"second", second}});
      auto n = numbers_into(p, t);
      n["x"] >> z["first"];
      n["x"] >> z["second"];
      z["a"] >> message_file_of(p, t, "first")["x"];
      z["b"] >> message_file_of(p, t, "second")["x"];
    };
  };
  zip.build = zipped("f32[n]");
  zip.wrong = zipped("u8[n]");
  zip.refusal = "expected";
  all.push_back(std::move(zip));
  all.push_back(between("split", [](const stage_trial&) {
    return given_settings{
        {"attribute", "kind"}, {"outlets", texts({"kept"})}, {"other", "rest"}};
  }));
  all.back().build = [](pipeline& p, const stage_trial& t) {
    auto s = add_stage(
        p, "stage", "split",
        {{"attribute", "kind"}, {"outlets", texts({"kept"})}, {"other", "rest"}});
    numbers_into(p, t) >> s;
    s["rest"] >> message_file_of(p, t)["x"];
  };
  all.back().wrong = {};
}

void add_numbers(std::vector<stage_entry>& all) {
  stage_entry generator;
  generator.stage = "generator";
  generator.build = [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> message_file_of(p, t);
  };
  generator.wrong = [](pipeline& p, const stage_trial& t) {
    other_numbers(p) >>
        add_stage(p, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  generator.refusal = "expected";
  all.push_back(std::move(generator));
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
      add_stage(p, "source", stage, {{"parts", parts(t, "f32")}}) >>
          message_file_of(p, t);
    };
    combined.wrong = [=](pipeline& p, const stage_trial& t) {
      add_stage(p, "source", stage, {{"parts", parts(t, "u8")}}) >> message_file_of(p, t);
    };
    combined.refusal = "expected the outlets of the first source";
    combined.empty_refusal = "expected at least";
    all.push_back(std::move(combined));
  }
  all.push_back(between("elementwise", [](const stage_trial&) {
    return given_settings{{"type", "f32[n]"}, {"op", "negate"}};
  }));
  all.push_back(between("batch", [](const stage_trial& t) {
    return given_settings{{"type", floats(t)}, {"size", 4}};
  }));
  all.push_back(between("unbatch", [](const stage_trial&) {
    return given_settings{{"type", "f32[]"}, {"size", 4096}};
  }));
  all.push_back(between("window", [](const stage_trial& t) {
    return given_settings{{"type", floats(t)}, {"count", 3}, {"step", 2}};
  }));
  all.push_back(between("reduce", [](const stage_trial& t) {
    return given_settings{{"type", floats(t)}, {"size", 3}};
  }));
  all.push_back(between("rate", [](const stage_trial&) {
    return given_settings{{"type", "f32[n]"}, {"items_per_second", 1e6}};
  }));
  all.push_back(between("deadline", [](const stage_trial&) { return given_settings(); }));
  all.back().wrong = {};
}

/// Returns the entry of the sink of predictions: that of the model, with a Stream phase.
stage_entry predictions_of(const stage_entry& learn, given_settings model) {
  stage_entry predictions = learn;
  predictions.stage = "prose.predictions";
  model.emplace("predictions", true);
  predictions.build = [=](pipeline& p, const stage_trial& t) {
    auto l = add_stage(p, "learn", "prose.learn", model);
    add_stage(p, "source", "text.pulses",
              {{"files", texts({t.in("a.txt")})},
               {"build_tokens", 16},
               {"stream_tokens", 100'000},
               {"chunk", 16}}) >>
        l;
    l["score"] >> message_file_of(p, t)["x"];
    l["predictions"] >>
        add_stage(p, "stage", "prose.predictions", {{"path", t.out("p.tgm")}});
  };
  predictions.wrong = [=](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >>
        add_stage(p, "stage", "prose.predictions", {{"path", t.out("p.tgm")}});
  };
  return predictions;
}

void add_text_model(std::vector<stage_entry>& all) {
  const auto text = [](const stage_trial& t) {
    std::string content;
    for (int n = 0; n < t.items; ++n) {
      content += fmt::format("line {:08} of {:08} in a text of many lines and words\n", n,
                             t.extent);
    }
    write_text(t.in("a.txt"), content);
  };
  const auto pulses = [](pipeline& p, const stage_trial& t) {
    return add_stage(
        p, "source", "text.pulses",
        {{"files", texts({t.in("a.txt")})}, {"build_tokens", "all"}, {"chunk", 16}});
  };
  const given_settings model{{"vocab", 257},
                             {"width", 32},
                             {"blocks", 1},
                             {"heads", 1},
                             {"hidden", 32},
                             {"max_chunk", 16},
                             {"frequencies", extents({1, 8})}};
  stage_entry pulse_entry;
  pulse_entry.stage = "text.pulses";
  pulse_entry.prepare = text;
  pulse_entry.build = [=](pipeline& p, const stage_trial& t) {
    pulses(p, t) >> message_file_of(p, t);
  };
  pulse_entry.wrong = [=](pipeline& p, const stage_trial& t) {
    pulses(p, t) >>
        add_stage(p, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  pulse_entry.refusal = "expected";
  pulse_entry.empty_refusal = "expected";
  stage_entry learn = pulse_entry;
  learn.stage = "prose.learn";
  learn.build = [=](pipeline& p, const stage_trial& t) {
    pulses(p, t) >> add_stage(p, "stage", "prose.learn", model) >> message_file_of(p, t);
  };
  learn.wrong = [=](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> add_stage(p, "stage", "prose.learn", model) >>
        message_file_of(p, t);
  };
  stage_entry accounts = learn;
  accounts.stage = "prose.accounts";
  accounts.build = [=](pipeline& p, const stage_trial& t) {
    auto a = add_stage(p, "stage", "prose.accounts");
    pulses(p, t) >> add_stage(p, "learn", "prose.learn", model) >> a;
    a["tokens"] >> message_file_of(p, t, "tokens")["x"];
    a["bits_per_byte"] >> message_file_of(p, t, "bits")["x"];
  };
  accounts.wrong = [=](pipeline& p, const stage_trial& t) {
    auto a = add_stage(p, "stage", "prose.accounts");
    numbers_into(p, t) >> a;
    a["tokens"] >> message_file_of(p, t, "tokens")["x"];
    a["bits_per_byte"] >> message_file_of(p, t, "bits")["x"];
  };
  all.push_back(std::move(pulse_entry));
  all.push_back(predictions_of(learn, model));
  all.push_back(std::move(learn));
  all.push_back(std::move(accounts));
}

node model_stage(pipeline& p, const stage_trial& t, const std::string& name,
                 const std::string& stage, const std::string& tag,
                 given_settings settings = {}) {
  settings.emplace("volume", t.in("models.hn4"));
  settings.emplace("tag", tag);
  return add_stage(p, name, stage, settings);
}
node token_stage(pipeline& p, const stage_trial& t, const std::string& tag) {
  return model_stage(p, t, "tokens", "text.tokens", tag, {{"truncate", true}});
}
node text_lines_of(pipeline& p, const stage_trial& t) {
  return add_stage(p, "lines", "text.lines",
                   {{"files", texts({t.in("a.txt")})}, {"lines", 1}});
}
void build_embedding(pipeline& p, const stage_trial& t) {
  auto tokens = token_stage(p, t, "encoder");
  text_lines_of(p, t) >> tokens;
  auto first =
      model_stage(p, t, "first", "bert.layers", "encoder", {{"layers", 1}, {"rows", 64}});
  auto second =
      model_stage(p, t, "second", "bert.layers", "encoder", {{"first", 1}, {"rows", 64}});
  auto pool = add_stage(p, "pool", "bert.pool");
  auto write = add_stage(p, "write", "tgm.embeddings", {{"path", t.out("e.tgm")}});
  tokens["texts"] >> first["texts"];
  tokens["texts"] >> second["texts"];
  first["y"] >> second["rows"];
  tokens["texts"] >> pool["texts"];
  second["y"] >> pool["rows"];
  tokens["texts"] >> write["texts"];
  pool["y"] >> write["rows"];
}

/// The stages that process texts with models.
void add_text_processing(std::vector<stage_entry>& all) {
  stage_entry embed;
  embed.prepare = [](const stage_trial& t) {
    link_text_models(t.in("models.hn4"));
    std::string content;
    for (int n = 0; n < t.items; ++n) {
      content += fmt::format("line {} {}\n", n,
                             std::string(static_cast<std::size_t>(t.extent), 'x'));
    }
    write_text(t.in("a.txt"), content);
  };
  embed.build = build_embedding;
  embed.refusal = "expected";
  const auto add = [&](const std::string& stage, const trial_builder& wrong) {
    all.push_back(embed);
    all.back().stage = stage;
    all.back().wrong = wrong;
  };
  add("text.lines", [](pipeline& p, const stage_trial& t) {
    text_lines_of(p, t) >>
        add_stage(p, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  });
  add("text.tokens", [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> token_stage(p, t, "encoder") >> message_file_of(p, t);
  });
  add("bert.layers", [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> model_stage(p, t, "stage", "bert.layers", "encoder") >>
        message_file_of(p, t);
  });
  for (const char* stage : {"bert.pool", "tgm.embeddings"}) {
    add(stage, [stage](pipeline& p, const stage_trial& t) {
      const given_settings path{{"path", t.out("e.tgm")}};
      auto s = add_stage(p, "stage", stage,
                         stage == std::string("bert.pool") ? given_settings() : path);
      auto numbers = numbers_into(p, t);
      numbers["x"] >> s["texts"];
      numbers["x"] >> s["rows"];
    });
  }
  embed.build = [](pipeline& p, const stage_trial& t) {
    text_lines_of(p, t) >> token_stage(p, t, "decoder") >>
        model_stage(p, t, "answers", "llama.answers", "decoder", {{"max_tokens", 2}}) >>
        add_stage(p, "sink", "json.write",
                  {{"path", t.out("a.jsonl")}, {"form", "lines"}});
  };
  add("llama.answers", [](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> model_stage(p, t, "answers", "llama.answers", "decoder") >>
        message_file_of(p, t);
  });
}

}  // namespace

std::vector<stage_entry> stage_table() {
  std::vector<stage_entry> all;
  add_volumes(all);
  add_arrays(all);
  add_messages(all);
  add_routes(all);
  add_numbers(all);
  add_text_model(all);
  add_text_processing(all);
  std::sort(all.begin(), all.end(),
            [](const stage_entry& a, const stage_entry& b) { return a.stage < b.stage; });
  return all;
}

}  // namespace weir::test
