// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of Weir by name.
///
/// The stages are added once per process, at the first call, from any thread.
#include <mutex>

#include "stages/factories.hpp"
#include "stages/files/factories.hpp"
#include "stages/texts/factories.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir {

void add_standard_stages() {
  static std::once_flag once;
  std::call_once(once, [] {
    flow::catalog& all = flow::stages();
    or_throw(flow::add_basic_stages(all));
    or_throw(
        all.add("tgm.read", [](flow::described_stage& made, const given_settings& given) {
          return actors::make_tgm_read(made, given);
        }));
    or_throw(all.add("tgm.write",
                     [](flow::described_stage& made, const given_settings& given) {
                       return actors::make_tgm_write(made, given);
                     }));
    or_throw(all.add("log", [](flow::described_stage& made, const given_settings& given) {
      return actors::make_log(made, given);
    }));
    or_throw(all.add("hn4.tensors", actors::make_hn4_tensors));
    or_throw(all.add("hn4.rows", actors::make_hn4_rows));
    or_throw(all.add("hn4.read", actors::make_hn4_read));
    or_throw(
        all.add("hn4.put", [](flow::described_stage& made, const given_settings& given) {
          return actors::make_hn4_put(made, given);
        }));
    or_throw(all.add("text.chunks",
                     [](flow::described_stage& made, const given_settings& given) {
                       return actors::make_text_chunks(made, given);
                     }));
    or_throw(all.add("tgm.replace",
                     [](flow::described_stage& made, const given_settings& given) {
                       return actors::make_tgm_replace(made, given);
                     }));
    or_throw(actors::add_file_stages(all));
    or_throw(actors::add_model_stages(all));
    or_throw(actors::add_text_stages(all));
  });
}

}  // namespace weir
