// SPDX-License-Identifier: Apache-2.0
#include <weir/actors/pipelines.hpp>

struct counting {
  struct settings {
    std::uint64_t count = 1000;
  };
  using cursor = std::uint64_t;
  weir::out<double, 1> x;
  std::uint64_t count = 0, at = 0;
  static void describe(weir::stage_spec<counting>& s) {
    s.name("demo.counting", "64 times n").port("x", &counting::x, "64");
    s.set("count", &settings::count, "number of items");
  }
  weir::result<void> open(weir::opening&, const settings& s) {
    return count = s.count, weir::result<void>();
  }
  weir::result<bool> next(weir::pull& p) {
    if (at == count)
      return false;
    WEIR_TRY(auto v, p.fill(x, 64));
    std::fill(v.begin(), v.end(), static_cast<double>(at++));
    return true;
  }
  cursor position() const { return at; }
  weir::result<void> seek(cursor c) { return at = c, weir::result<void>(); }
};

int main() {
  weir::add_standard_stages();
  weir::pipeline p("squares");
  auto numbers = p.add<counting>("numbers", {.count = 5000});
  auto square = p.map("square", "f64[n]", "f64[n]",
                      [](weir::view<const double, 1> a, weir::view<double, 1> b) {
                        for (std::size_t i = 0; i < 64; ++i) b[i] = a[i] * a[i];
                      });
  auto file = p.add("file", "tgm.write", {{"path", "squares.tgm"}});
  numbers >> square >> file;
  weir::or_throw(weir::run(p, {.folder = "runs/squares", .every_items = 500}));
}
