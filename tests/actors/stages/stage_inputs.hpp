// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small files for the examples and the tests of all stages.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "actors/stages/text_models.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {

/// Runs a pipeline that only sources and sinks of the catalog make up.
inline void fill_by(const std::string& folder, const std::string& source,
                    const given_settings& from, const std::string& sink,
                    const given_settings& to) {
  pipeline p("inputs");
  p.add("source", source, from) >> p.add("sink", sink, to);
  flow::here_options options;
  options.folder = folder;
  or_throw(flow::run_here(p, options));
}

/// Returns a message with an object f32[4] whose elements are n, and with metadata.
inline byte_vector float_message(int n, const formats::cbor_map& extra = {}) {
  const std::vector<float> elements(4, static_cast<float>(n));
  formats::object_to_write object;
  object.descriptor.type = dtype::fp32;
  object.descriptor.shape = {4};
  object.data = std::as_bytes(std::span(elements));
  object.metadata.set("name", std::string("x"));
  formats::message_options options;
  options.extra = extra;
  return or_throw(formats::encode_message({&object, 1}, options));
}

/// Writes bytes to a file.
inline void put_bytes(const std::string& path, bytes_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),  // NOLINT
            static_cast<std::streamsize>(bytes.size()));
}

/// Makes the files that the examples of stages read: messages, images, arrays, lines,
/// texts, volumes and a pipe.
inline void make_stage_inputs(const std::string& folder) {
  add_standard_stages();
  byte_vector messages;
  for (int n = 0; n < 6; ++n) {
    formats::cbor_map extra;
    extra.set("level", std::int64_t{n % 2 == 0 ? 850 : 500});
    append(messages, float_message(n, extra));
  }
  put_bytes(folder + "/in.tgm", messages);
  put_bytes(folder + "/more.tgm", messages);
  std::string text;
  for (int n = 0; n < 200; ++n) {
    text += "line " + std::to_string(n) + " of a text that a model can learn from\n";
  }
  put_bytes(folder + "/a.txt", as_view(text));
  put_bytes(folder + "/b.txt", as_view(text).first(1000));
  put_bytes(folder + "/in.jsonl", as_view("[1, 2, 3, 4]\n{\"level\": 3, \"x\": [5, 6, "
                                          "7.5, 8]}\n"));
  const auto list = [](std::vector<std::int64_t> extents) {
    setting_value::list all;
    for (const std::int64_t one : extents) {
      all.push_back({one});
    }
    return given_value(setting_value{std::move(all)});
  };
  const given_settings floats{{"count", 3}, {"shape", list({4, 4})}};
  fill_by(folder, "generator",
          {{"count", 3}, {"shape", list({8, 6, 3})}, {"element", "u8"}}, "png.write",
          {{"path", "images/{item:2}.png"}});
  fill_by(folder, "generator", floats, "raw.write", {{"path", "raw/{item:2}.raw"}});
  fill_by(folder, "generator", {{"count", 6}, {"shape", list({4})}}, "npy.write",
          {{"path", "in.npy"}});
  fill_by(folder, "generator", {{"count", 1}, {"shape", list({4, 4})}}, "hn4.put",
          {{"path", "model.hn4"}, {"tag", "model"}, {"tensor", "layer0.weight"}});
  fill_by(folder, "generator", {{"count", 1}, {"shape", list({300})}, {"element", "u8"}},
          "hn4.put", {{"path", "model.hn4"}, {"tag", "text"}, {"format", "raw"}});
  link_text_models(folder + "/models.hn4");
  or_throw(::mkfifo((folder + "/sensor.fifo").c_str(), 0600) == 0
               ? result<void>()
               : result<void>(error(errc::io, "cannot make a pipe")));
}

}  // namespace weir::test
