// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the squares of numbers: squares FOLDER. Kill it and start it again, and
/// FOLDER/squares ends with the same bytes.
#include <filesystem>
#include <weir/actors/pipelines.hpp>
#include <weir/pipeline/append_file.hpp>

using namespace weir;

struct numbers {
  using cursor = std::uint64_t;
  out<double, 1> x;
  cursor at = 0;
  static void describe(stage_spec<numbers>& s) {
    s.name("demo.numbers", "item n is 64 times n").port("x", &numbers::x, "64");
  }
  result<bool> next(pull& p) {
    WEIR_TRY(auto v, p.fill(x, 64));
    return std::fill(v.begin(), v.end(), static_cast<double>(at)), at++ < 20000;
  }
  cursor position() const { return at; }
  result<void> seek(cursor c) { return at = c, result<void>(); }
};

struct disk : append_file {
  in<double, 1> x;
  static void describe(stage_spec<disk>& s) {
    s.name("demo.disk", "appends items").port("x", &disk::x, "n");
  }
  auto open(opening& o, const no_settings&) { return append_file::open(o, "squares"); }
  result<void> put(taken& t) { return append(t[x]); }
  auto verify(opening& o, const no_settings&, offset at) {
    return append_file::verify(o, "squares", at);
  }
};

int main(int, char** argv) {
  std::filesystem::create_directories(argv[1]);
  pipeline p("squares");
  const auto f = [](view<const double, 1> a, view<double, 1> b) {
    for (std::size_t i = 0; i < 64; ++i) b[i] = a[i] * a[i];
  };
  p.add<numbers>("in") >> p.map("square", "f64[n]", "f64[n]", f) >> p.add<disk>("out");
  run_options options{.folder = argv[1], .files = argv[1], .every_items = 500};
  std::puts(or_throw(resume(p, options)).ended.c_str());
}
