// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm copy`: copies messages to other files, as they are or encoded again.
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
        templated_(options.out.find('[') != options.out.npos) {
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
    if (options_.skip_damaged) {
      WEIR_CHECK(check_sound(file_, message, reader));
    }
    byte_vector bytes;
    if (options_.recode) {
      WEIR_TRY(bytes, recode_message(reader, message, options_.encoding));
    } else {
      WEIR_CHECK(file_.append_message(message, bytes));
    }
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
      if (templated_ && posix_file_system().exists(path)) {
        WEIR_TRY(whole, read_file(posix_file_system(), path));
      }
      append(whole, content);
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
  for (std::size_t m = 0; m < file.spans.size(); ++m) {
    if (const auto done = copier.copy(m, where); !done) {
      WEIR_CHECK(damage.leave_out(file, m, done.error()));
    }
  }
  WEIR_TRY(formats::cbor_array paths, copier.save_all());
  formats::cbor_map facts{{"out", std::move(paths)}, {"messages", copier.copied()}};
  if (options.skip_damaged) {
    facts.set("skipped", damage.skipped());
  }
  report(options, std::move(facts), "", out);
  return damage.exit_code();
}

}  // namespace weir::tools
