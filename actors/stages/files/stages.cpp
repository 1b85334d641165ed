// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of images, arrays and lines by name.
///
/// Programs get these stages through `add_standard_stages`. Tests make single stages with
/// a file system of their own.
#include "stages/files/factories.hpp"

namespace weir::actors {
namespace {

/// A function that makes a stage of this folder.
using maker = result<void> (*)(flow::described_stage&, const given_settings&,
                               file_system&);

/// Adds a stage that uses the file system of the machine.
result<void> add(flow::catalog& to, const char* name, maker make) {
  return to.add(name, [make](flow::described_stage& made, const given_settings& given) {
    return make(made, given, posix_file_system());
  });
}

}  // namespace

result<void> add_file_stages(flow::catalog& to) {
  WEIR_CHECK(add(to, "png.read", make_png_read));
  // The order is that of the reference.
  WEIR_CHECK(add(to, "png.write", make_png_write));
  WEIR_CHECK(add(to, "raw.read", make_raw_read));
  WEIR_CHECK(add(to, "raw.write", make_raw_write));
  WEIR_CHECK(add(to, "npy.read", make_npy_read));
  WEIR_CHECK(add(to, "npy.write", make_npy_write));
  WEIR_CHECK(add(to, "json.read", make_json_read));
  return add(to, "json.write", make_json_write);
}

}  // namespace weir::actors
