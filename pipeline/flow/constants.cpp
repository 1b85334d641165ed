// SPDX-License-Identifier: Apache-2.0
/// @file
/// Constants of stages: loading them, and comparing their digests with those of a
/// checkpoint.
///
/// Constants are loaded by `open` of a stage and stay for the run. Their digests are
/// stored in each image, so that a resumed run finds a file whose contents have changed.
#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/base/hash.hpp"

namespace weir {

/// Loads a tensor through the loader of the host and notes its digest. @param rank
/// Number of dimensions that the stage wants.
result<runtime::tensor> opening::constant_bytes(const std::string& file,
                                                const std::string& name, dtype type,
                                                std::size_t rank) {
  if (!run_.load) {
    return error(errc::unsupported,
                 fmt::format("cannot load the tensor \"{}\" of \"{}\": expected a host "
                             "with a loader of tensors, found none",
                             name, file));
  }
  // The host waits until the tensor is there.
  WEIR_TRY(const runtime::tensor loaded, run_.load(*run_.engine, file, name));
  flow::port_type found;
  found.element = loaded.type();
  for (const std::int64_t n : loaded.shape()) {
    found.shape.push_back({flow::extent::kind::fixed, n, '?'});
  }
  // A view with gaps could not be given to kernels as an array.
  if (loaded.type() != type || loaded.shape().size() != rank || !loaded.row_major()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use the tensor \"{}\" of \"{}\": expected {} with "
                             "{} dimensions, found {}",
                             name, file, flow::port_text(type), rank, found.text()));
  }
  WEIR_TRY(const std::int64_t bytes, byte_size(loaded.type(), loaded.count()));
  const bytes_view content(loaded.data(), static_cast<std::size_t>(bytes));
  // The contents are identified by type, shape and digest.
  constants_.push_back(
      {file, name, fmt::format("{} {}", found.text(), hex64(xxh3_64(content)))});
  return loaded;
}

}  // namespace weir

namespace weir::flow {

/// Name of the section of a constant, by the order in which they were loaded.
std::string stage_run::constant_section(std::size_t nth) const {
  return fmt::format("CONSTANT/{}/{}", name_, nth);
}

/// Adds a section per constant: its name and its digest.
void stage_run::add_constants() {
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    image_section& s = facts_.growing->sections.emplace_back();
    s.name = constant_section(i);
    append(s.data, as_view(constants_[i].tensor + "\n" + constants_[i].digest));
    s.shape = {static_cast<std::int64_t>(s.data.size())};
  }
}

/// Compares the loaded constants with those of an image.
result<void> stage_run::same_constants(const image& from) const {
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    const constant_info& one = constants_[i];
    const image_section* s = from.find(constant_section(i));
    const std::string_view stored = s == nullptr ? std::string_view() : as_text(s->data);
    if (stored == one.tensor + "\n" + one.digest) {
      continue;
    }
    // An image of a version without this constant has no section.
    const std::size_t end = stored.find('\n');
    const std::string expected =
        end == std::string_view::npos
            ? std::string("no constant")
            : fmt::format("the tensor \"{}\", {}", stored.substr(0, end),
                          stored.substr(end + 1));
    return error(errc::history_mismatch,
                 fmt::format("cannot continue with the tensor \"{}\" of \"{}\": expected "
                             "the contents of the checkpoint ({}), found {}",
                             one.tensor, one.file, expected, one.digest))
        .hint("restore the file, or begin the run anew");
  }
  return {};
}

}  // namespace weir::flow
