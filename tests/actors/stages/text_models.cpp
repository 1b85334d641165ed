// SPDX-License-Identifier: Apache-2.0
/// @file
/// Imports tiny models into a volume.
#include "actors/stages/text_models.hpp"

#include <filesystem>

#include "actors/models/made_models.hpp"

namespace weir::test {
namespace {

/// A volume that lives as long as the process.
class model_volume {
 public:
  model_volume() {
    namespace made = actors::made;
    made::make_volume(path());
    storage::hn4_volume volume = made::writable(path());
    const std::string folder = folder_.path();
    made::write_hf_folder(made::made_model(models::architecture::bert, 1, 3),
                          folder + "/encoder");
    made::write_hf_folder(made::made_model(models::architecture::llama),
                          folder + "/decoder");
    for (const std::string tag : {"encoder", "decoder"}) {
      or_throw(actors::import_model(volume, folder + "/" + tag, tag));
    }
  }
  [[nodiscard]] std::string path() const { return folder_.path() + "/models.hn4"; }

 private:
  temp_folder folder_;
};

}  // namespace

void link_text_models(const std::string& path) {
  static const model_volume volume;
  std::filesystem::create_symlink(volume.path(), path);
}

}  // namespace weir::test
