// SPDX-License-Identifier: Apache-2.0
/// @file
/// The basic stages by name.
///
/// `mix` and `concat` make other stages by name, so they keep a reference to the catalog.
#include "weir/pipeline/catalog.hpp"

#include "stages/factories.hpp"
#include "stages/null.hpp"

namespace weir::flow {

result<void> add_basic_stages(catalog& to) {
  WEIR_CHECK(to.add<null_sink>());
  WEIR_CHECK(to.add("generator", make_generator));
  WEIR_CHECK(to.add("select", make_select));
  WEIR_CHECK(to.add("split", make_split));
  WEIR_CHECK(to.add("merge", make_merge));
  WEIR_CHECK(to.add("zip", make_zip));
  WEIR_CHECK(to.add("batch", make_batch));
  WEIR_CHECK(to.add("unbatch", make_unbatch));
  WEIR_CHECK(to.add("window", make_window));
  WEIR_CHECK(to.add("reduce", make_reduce));
  WEIR_CHECK(to.add("deadline", make_deadline));
  WEIR_CHECK(to.add("rate", make_rate));
  WEIR_CHECK(to.add("elementwise", make_elementwise));
  WEIR_CHECK(to.add("mix", [&to](described_stage& made, const given_settings& given) {
    return make_mix(made, to, given);
  }));
  return to.add("concat", [&to](described_stage& made, const given_settings& given) {
    return make_concat(made, to, given);
  });
}

}  // namespace weir::flow
