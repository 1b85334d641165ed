// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm copy`: copies messages to other files, as they are or encoded again.
///
/// All outputs are collected in memory and written at the end, each atomically. A damaged
/// message in the middle therefore leaves no half of a file behind.
#include <map>

#include "tgm/damage.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {

using formats::message_reader;

namespace {

/// Copies messages of one file to output files in memory. The name of an output may be a
/// template such as "[name].tgm", which gives one output for each value of the key.
class message_copier {
 public:
  message_copier(const tgm_verb_options& options, const message_file& file)
      : options_(options),
        file_(file),
        // A bracket is enough to tell a template.
        templated_(options.out.find('[') != options.out.npos) {
    // Without a template the output exists even if no message is selected. A template
    // gives names only for messages that are copied.
    if (!templated_) {
      outputs_[options.out];
    }
  }

  /// Copies a message if the clause of `-w` selects it.
  /// @error{corrupt, the message is damaged} Errors of encoding are passed on.
  result<void> copy(std::size_t message, const where_clause& where) {
    WEIR_TRY(const message_reader reader, file_.open(message, options_.reading()));
    if (!where.passes(reader.metadata())) {
      return {};
    }
    // A message that is copied as bytes is not decoded. When damaged messages are to be
    // left out, it must be checked, or the damage would be copied.
    if (options_.skip_damaged) {
      WEIR_CHECK(check_sound(file_, message, reader));
    }
    byte_vector bytes;
    // Encoding again decodes every object, so damage shows without a further check.
    if (options_.recode) {
      WEIR_TRY(bytes, recode_message(reader, message, options_.encoding));
    } else {
      WEIR_CHECK(file_.append_message(message, bytes));
    }
    // The key is made at its first use, so messages of one name end up behind each other
    // in the order of the input.
    append(outputs_[fill_template(options_.out, reader.metadata())], bytes);
    ++copied_;
    return {};
  }

  /// Writes the outputs and returns their paths. Outputs of a template are appended to
  /// existing files.
  result<formats::cbor_array> save_all() {
    formats::cbor_array paths;
    for (const auto& [path, content] : outputs_) {
      byte_vector whole;
      // The same template may be used for several inputs, one call after the other. With
      // a plain name the file is replaced instead.
      if (templated_ && posix_file_system().exists(path)) {
        WEIR_TRY(whole, read_file(posix_file_system(), path));
      }
      append(whole, content);
      // Together with the old content the whole file is written again, so that a crash
      // cannot leave half of a message at its end.
      WEIR_CHECK(save(path, whole));
      paths.emplace_back(path);
    }
    return paths;
  }
  std::size_t copied() const noexcept { return copied_; }

 private:
  const tgm_verb_options& options_;
  const message_file& file_;
  bool templated_;
  std::map<std::string, byte_vector> outputs_;
  std::size_t copied_ = 0;
};

}  // namespace

command_result tgm_copy(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  damage_report damage(options.skip_damaged);
  WEIR_TRY(const message_file file, damage.open(options.files.front()));
  message_copier copier(options, file);
  // Numbers of messages are those in the input, whether or not the clause selects them.
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    // Returns from here only if the error is no damage, or if damage ends the verb.
    if (const auto done = copier.copy(m, where); !done) {
      WEIR_CHECK(damage.leave_out(file, m, done.error()));
    }
  }
  WEIR_TRY(formats::cbor_array paths, copier.save_all());
  formats::cbor_map facts{{"out", std::move(paths)}, {"messages", copier.copied()}};
  // The key exists only with the option.
  if (options.skip_damaged) {
    facts.set("skipped", damage.skipped());
  }
  report(options, std::move(facts), "", out);
  return damage.exit_code();
}

}  // namespace weir::tools
