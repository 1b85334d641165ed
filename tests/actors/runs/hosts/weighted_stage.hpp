// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage with a constant that comes from a volume.
#pragma once

#include <string>

#include "pipeline/support/number_stages.hpp"

namespace weir::test {

/// y = x * w, with w of a volume; every item whose number is in `fails_at` fails.
struct weighted {
  struct settings {
    std::string file = "w.hn4";
    std::string tensor = "layer.w";
    std::uint64_t fails_at = ~std::uint64_t{0} >> 1;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  tensor<std::uint64_t, 2> w;
  std::uint64_t fails_at = 0;
  static void describe(stage_spec<weighted>& s) {
    s.name("test.weighted", "multiplies by a constant").stateless();
    s.port("x", &weighted::x, "3").port("y", &weighted::y, "3");
    s.set("file", &settings::file, "volume that holds w");
    s.set("tensor", &settings::tensor, "name of w in it");
    s.set("fails_at", &settings::fails_at, "number of the item").may_change();
  }
  result<void> open(opening& o, const settings& s) {
    fails_at = s.fails_at;
    WEIR_TRY(w, o.constant<std::uint64_t, 2>(o.path(s.file), s.tensor));
    return {};
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "weigh",
        [fails = s.seq() == fails_at](auto a, auto b, auto out) -> result<void> {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = a[i] * b(0, i);
          }
          return fails ? result<void>(error(errc::corrupt, "planted failure"))
                       : result<void>();
        },
        read(s[x]), read(w), write(to));
    return s.emit();
  }
};

}  // namespace weir::test
