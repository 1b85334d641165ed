// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the squares of numbers: squares FOLDER. Kill it and start it again, and
/// FOLDER/squares ends with the same bytes.
#include <sys/stat.h>

#include <weir/actors/pipelines.hpp>
#include <weir/pipeline/append_file.hpp>

struct numbers {
  using cursor = std::uint64_t;
  weir::out<double, 1> x;
  cursor at = 0;
  static void describe(weir::stage_spec<numbers>& s) {
    s.name("demo.numbers", "item n is 64 times n").port("x", &numbers::x, "64");
  }
  weir::result<bool> next(weir::pull& p) {
    WEIR_TRY(auto v, p.fill(x, 64));
    std::fill(v.begin(), v.end(), static_cast<double>(at));
    return at++ < 20000;
  }
  cursor position() const { return at; }
  weir::result<void> seek(cursor c) { return at = c, weir::result<void>(); }
};

struct file {
  using offset = weir::append_file::offset;
  weir::in<double, 1> x;
  weir::append_file to;
  static void describe(weir::stage_spec<file>& s) {
    s.name("demo.file", "appends items").port("x", &file::x, "n");
  }
  weir::result<void> open(weir::opening& o, const weir::no_settings&) {
    return to.open(o, "squares");
  }
  weir::result<void> put(weir::taken& t) { return to.append(t[x]); }
  weir::result<offset> settle() { return to.settle(); }
  weir::result<void> rewind(offset o) { return to.rewind(o); }
  weir::result<bool> verify(weir::opening& run, const weir::no_settings&, offset o) {
    return weir::append_file::verify(run, "squares", o);
  }
};

int main(int, char** argv) {
  ::mkdir(argv[1], 0755);
  weir::pipeline p("squares");
  auto square = p.map("square", "f64[n]", "f64[n]",
                      [](weir::view<const double, 1> a, weir::view<double, 1> b) {
                        for (std::size_t i = 0; i < 64; ++i) b[i] = a[i] * a[i];
                      });
  p.add<numbers>("numbers") >> square >> p.add<file>("file");
  weir::run_options options{.folder = argv[1], .files = argv[1], .every_items = 500};
  std::puts(weir::or_throw(weir::resume(p, options)).ended.c_str());
}
