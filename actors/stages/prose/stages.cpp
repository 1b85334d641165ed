// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of the text model by name.
#include "stages/factories.hpp"
#include "stages/prose/factories.hpp"

namespace weir::actors {

result<void> add_model_stages(flow::catalog& to) {
  WEIR_CHECK(
      to.add("text.pulses", [](flow::described_stage& made, const given_settings& given) {
        return make_text_pulses(made, given);
      }));
  WEIR_CHECK(to.add("prose.learn", make_prose_learn));
  WEIR_CHECK(to.add("prose.predictions",
                    [](flow::described_stage& made, const given_settings& given) {
                      return make_prose_predictions(made, given);
                    }));
  return to.add("prose.accounts", make_prose_accounts);
}

}  // namespace weir::actors
