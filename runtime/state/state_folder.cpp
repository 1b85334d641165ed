// SPDX-License-Identifier: Apache-2.0
/// @file
/// A generation exists while its manifest does, so a manifest is removed before its
/// parts.
///
/// Names are "state-<generation>.manifest" and "state-<generation>.rank-<rank>.part".
/// Parts may lie in other folders of other machines. Several states may have such a
/// folder in common, so a part in it also names the state to which it belongs:
/// "state-<generation>.rank-<rank>.of-<identity>.part".
#include "state/state_folder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "state/manifest.hpp"

namespace weir::runtime {
namespace {

constexpr std::string_view state_prefix = "state-";
constexpr std::string_view manifest_ending = ".manifest";
constexpr std::string_view rank_infix = ".rank-";
constexpr std::string_view identity_infix = ".of-";
constexpr std::string_view part_ending = ".part";
/// Length of an identity: hexadecimal digits of 64 bits.
constexpr std::size_t identity_digits = 16;

/// Returns true if a text is an identity.
bool is_identity(std::string_view text) {
  return text.size() == identity_digits &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// Reads a number at the begin of a text and removes it from there.
/// Returns no number if there is none, or if it is too large; the text stays as it is
/// then.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Returns the generation of the name of a manifest. Nothing for other names.
std::optional<std::uint64_t> generation_of_manifest(std::string_view name) {
  if (!name.starts_with(state_prefix)) {
    return std::nullopt;
  }
  name.remove_prefix(state_prefix.size());
  const auto generation = take_number(name);
  return name == manifest_ending ? generation : std::nullopt;
}

/// Numbers in the name of a part.
struct part_of_name {
  std::uint64_t generation = 0;
  std::string_view identity;  ///< of its state; empty in the folder of the manifests
};

/// Decodes the name of a part. The rank must be a number, too.
std::optional<part_of_name> part_of(std::string_view name) {
  if (!name.starts_with(state_prefix)) {
    return std::nullopt;
  }
  name.remove_prefix(state_prefix.size());
  const auto generation = take_number(name);
  if (!generation || !name.starts_with(rank_infix)) {
    return std::nullopt;
  }
  name.remove_prefix(rank_infix.size());
  if (!take_number(name) || !name.ends_with(part_ending)) {
    return std::nullopt;
  }
  name.remove_suffix(part_ending.size());
  if (name.empty()) {
    return part_of_name{*generation, {}};
  }
  if (!name.starts_with(identity_infix)) {
    return std::nullopt;
  }
  name.remove_prefix(identity_infix.size());
  return is_identity(name) ? std::optional(part_of_name{*generation, name})
                           : std::nullopt;
}

}  // namespace

/// The manifest lies in the common folder.
std::string manifest_name(std::uint64_t generation) {
  return fmt::format("{}{}{}", state_prefix, generation, manifest_ending);
}
std::string part_name(std::uint64_t generation, rank_id rank,
                      const std::string& identity) {
  return fmt::format("{}{}{}{}{}{}{}", state_prefix, generation, rank_infix, rank,
                     identity.empty() ? std::string_view() : identity_infix, identity,
                     part_ending);
}

/// The identity is the content of the lock file, which exists as long as the folder. It
/// is a random number, because the path of a folder is not the same on all machines and
/// may change.
result<std::string> state_identity(const std::string& lock_path) {
  file_system& files = posix_file_system();
  WEIR_TRY(const byte_vector known, read_file(files, lock_path));
  if (is_identity(as_text(known))) {
    return std::string(as_text(known));
  }
  // The lock is new, or a process was killed before it had written the number.
  std::random_device entropy;
  std::string identity;
  try {
    identity = fmt::format("{:08x}{:08x}", entropy(), entropy());
  } catch (const std::exception& e) {
    return error(errc::io,
                 fmt::format("cannot give a state its identity: expected a random number "
                             "of the system, found: {}",
                             e.what()))
        .located(lock_path);
  }
  WEIR_TRY(const auto file, files.open(lock_path, open_mode::read_write));
  WEIR_CHECK(file->resize(0));
  WEIR_CHECK(write_all(*file, 0, as_view(identity)));
  WEIR_CHECK(file->sync());
  return identity;
}

/// Parts in a folder of their own have absolute paths.
std::string path_of(const part_entry& part, const std::string& folder) {
  return part.path.starts_with('/') ? part.path : join_path(folder, part.path);
}

/// In ascending order.
result<std::vector<std::uint64_t>> list_generations(file_system& files,
                                                    const std::string& folder) {
  WEIR_TRY(const auto names, files.list(folder));
  std::vector<std::uint64_t> out;
  for (const std::string& name : names) {
    if (const auto generation = generation_of_manifest(name)) {
      out.push_back(*generation);
    }
  }
  // Names sort as texts, in which 10 comes before 9.
  std::sort(out.begin(), out.end());
  return out;
}

/// Parts without a manifest come from saves that were interrupted. `complete` is sorted.
/// Parts of other states in the same folder stay.
result<void> remove_lonely_parts(file_system& files, const std::string& folder,
                                 const std::string& identity,
                                 const std::vector<std::uint64_t>& complete) {
  WEIR_TRY(const auto names, files.list(folder));
  for (const std::string& name : names) {
    const auto part = part_of(name);
    if (!part || part->identity != identity ||
        std::binary_search(complete.begin(), complete.end(), part->generation)) {
      continue;
    }
    // Another rank may have removed it meanwhile.
    if (auto removed = files.remove(join_path(folder, name));
        !removed && removed.error().code() != errc::not_found) {
      return removed;
    }
  }
  return {};
}

/// The manifest is read before it is removed, because it lists the parts. A failure
/// leaves parts that the next start removes.
void remove_generation(file_system& files, const std::string& folder,
                       std::uint64_t generation) {
  const std::string path = join_path(folder, manifest_name(generation));
  const auto bytes = read_file(files, path);
  const auto manifest =
      bytes ? decode_manifest(*bytes, path) : result<state_manifest>(bytes.error());
  // Parts are removed only when the manifest is gone for good.
  if (!files.remove(path) || !files.sync_folder(folder) || !manifest) {
    return;
  }
  for (const part_entry& part : manifest->parts) {
    // The name is checked, so that a damaged manifest cannot remove other files.
    const std::size_t name = part.path.rfind('/') + 1;  // 0 if there is no folder
    // A part in the common folder has no folder in its path, and one in a folder of its
    // own has an absolute path. Any other path could leave the common folder.
    const bool has_place = name == 0 || part.path.starts_with('/');
    const auto known = part_of(std::string_view(part.path).substr(name));
    if (has_place && known && known->generation == generation) {
      static_cast<void>(files.remove(path_of(part, folder)));
    }
  }
}

}  // namespace weir::runtime
