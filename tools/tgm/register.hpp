// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers the verbs of `weir tgm` and their options with the command line parser.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tgm/verbs.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

/// Adds the verbs to the group `tgm`. The verb that the command line names stores the
/// call that performs it in `chosen`. The object must live until that call has returned.
/// Most verbs have the same shapes of arguments, so small functions add each shape. All
/// verbs fill one structure of options, of which each uses a part.
class tgm_verbs {
 public:
  using action = std::function<command_result(output&)>;
  using command = command_result (*)(const tgm_verb_options&, output&);

  /// @param chosen  Receives the call; it must outlive this object.
  tgm_verbs(CLI::App& group, action& chosen) : group_(group), chosen_(chosen) {}
  tgm_verbs(const tgm_verbs&) = delete;
  tgm_verbs& operator=(const tgm_verbs&) = delete;

  /// Adds all verbs and the options of the group.
  void add_all() {
    // The verbs in the order in which the help lists them.
    add_shared();
    none_or_more("info", "Messages and size of files", "weir tgm info a.tgm b.tgm",
                 &tgm_info);
    auto* list =
        none_or_more("ls", "List messages and objects with digests, or values of keys",
                     "weir tgm ls runs/demo/curve.tgm", &tgm_list);
    keys(list);
    skip_damaged(list);
    auto* get = none_or_more("get", "Print values of keys, a line per message",
                             "weir tgm get -p name,extra.run a.tgm", &tgm_get);
    keys(get)->required();
    skip_damaged(get);
    add_dump();
    add_validate();
    where(sets(pair("set", "Write a copy with other values of keys",
                    "weir tgm set -s run=2 a.tgm b.tgm", &tgm_set)));
    add_copy();
    auto* merge = many("merge", "All objects of files in one message",
                       "weir tgm merge a.tgm b.tgm -o all.tgm", &tgm_merge);
    out(merge)->required();
    merge->add_option("-s,--strategy", o_.strategy,
                      "Of keys with two values: first (default), last or error");
    out(one("split", "A file per object", "weir tgm split a.tgm -o 'part_[index].tgm'",
            &tgm_split))
        ->required();
    out(one("reshuffle", "Write metadata and index to the front",
            "weir tgm reshuffle streamed.tgm -o whole.tgm", &tgm_reshuffle))
        ->required();
    add_object_verbs();
  }

 private:
  /// Adds the options of the group, which may be given before or behind a verb.
  void add_shared() {
    group_.set_version_flag("--version", std::string("weir tgm ") + WEIR_VERSION +
                                             ", Tensogram wire format 3");
    // Without this callback, CLI11 would read the environment variables of the group and
    // then check its requirements even if the command line names another command.
    group_.parse_complete_callback([] {});
    group_
        .add_option_function<std::string>(
            "--max-object-bytes",
            [this](const std::string& text) {
              const auto bytes = parse_size(text);
              if (!bytes) {
                throw CLI::ValidationError("--max-object-bytes", bytes.error().text());
              }
              o_.max_object_bytes = *bytes;
            },
            "Refuse to decode objects of more bytes (default " +
                human_bytes(o_.max_object_bytes) + ")")
        ->type_name("SIZE");
    group_
        .add_option("--threads", o_.encoding.threads,
                    "Threads that decode and encode, besides the first (default 0)")
        ->envname("TENSOGRAM_THREADS");
    group_
        .add_flag("--allow-nan", o_.encoding.allow_nan,
                  "Store NaN as zero and a mask where objects are written")
        ->envname("TENSOGRAM_ALLOW_NAN");
    group_
        .add_flag("--allow-inf", o_.encoding.allow_inf,
                  "Store infinities as zeros and masks where objects are written")
        ->envname("TENSOGRAM_ALLOW_INF");
    mask_method("--nan-mask-method", o_.encoding.nan_method, "TENSOGRAM_NAN_MASK_METHOD");
    mask_method("--pos-inf-mask-method", o_.encoding.positive_method,
                "TENSOGRAM_POS_INF_MASK_METHOD");
    mask_method("--neg-inf-mask-method", o_.encoding.negative_method,
                "TENSOGRAM_NEG_INF_MASK_METHOD");
    group_
        .add_option("--small-mask-threshold", o_.encoding.small_mask_bytes,
                    "Masks of up to so many bytes are stored as they are (default: as "
                    "it was, else 128)")
        ->envname("TENSOGRAM_SMALL_MASK_THRESHOLD");
  }
  // Adds an option for the method of one kind of mask.
  void mask_method(const char* flag, std::string& to, const char* environment) {
    group_
        .add_option(flag, to,
                    "How a mask is stored: none, rle, roaring, lz4 or zstd (default: as "
                    "it was, else roaring)")
        ->check(CLI::IsMember({"none", "rle", "roaring", "lz4", "zstd"}))
        ->envname(environment);
  }

  // Adds `validate`. The options for levels exclude each other.
  void add_validate() {
    auto* validate = many("validate", "Say everything that is wrong with files",
                          "weir tgm validate --full a.tgm", &tgm_check);
    auto* level = validate->add_option(
        "--level", o_.level, "structure, metadata, integrity (default) or fidelity");
    auto* quick = validate->add_flag("--quick", o_.quick, "Structure alone");
    auto* checksum = validate->add_flag("--checksum", o_.checksum,
                                        "Digests and structure, nothing is decoded");
    auto* full = validate->add_flag("--full", o_.full, "Values too");
    quick->excludes(level, checksum, full);
    checksum->excludes(level, full);
    full->excludes(level);
    // These two may be combined with every level.
    validate->add_flag("--canonical", o_.canonical, "Also CBOR that is not canonical");
    validate->add_flag("--legacy", o_.legacy, "Digests of writers 0.17 to 0.20");
  }

  // Adds `copy`. The name of the output may be a template.
  void add_copy() {
    auto* copy = pair("copy", "Copy messages, byte for byte or encoded again",
                      "weir tgm copy -w name=t2m a.tgm '[name].tgm'", &tgm_copy);
    where(copy);
    skip_damaged(copy);
    copy->add_flag("--recode", o_.recode, "Decode and encode every object again");
    copy->add_flag("--legacy", o_.legacy, "Accept packing keys as before 0.19");
  }

  // Adds the option with which damaged messages are left out.
  void skip_damaged(CLI::App* v) {
    v->add_flag(
        "--skip-damaged", o_.skip_damaged,
        "Leave damaged messages out, name each, and end with 4 if there were any");
  }

  // Adds the options that choose keys and messages.
  CLI::Option* keys(CLI::App* v) {
    where(v);
    return v->add_option("-p,--keys", o_.keys, "Keys, separated by commas");
  }

  /// Adds `dump`, which prints whole messages in the form of the reference
  /// implementation, or values of objects if one of the options for values is given.
  void add_dump() {
    auto* dump =
        none_or_more("dump", "Print messages, or values of objects, a JSON line each",
                     "weir tgm dump runs/demo/curve.tgm --object bits_per_byte --limit 0",
                     &tgm_describe);
    keys(dump);
    auto* object = dump->add_option("--object", o_.object,
                                    "Values of this object alone: a name or a number");
    auto* limit =
        dump->add_option("--limit", o_.limit, "Values per object (default 8, 0 for all)");
    auto* raw = dump->add_flag("--raw", o_.raw, "The bytes of the object instead");
    // Which function runs depends on the options that were given, so the callback that
    // `none_or_more` has set is replaced.
    dump->callback([this, object, limit, raw] {
      // The default of the object is meant for other verbs. Here, none means all objects.
      if (object->count() == 0) {
        o_.object.clear();
      }
      if (object->count() + limit->count() + raw->count() > 0) {
        chosen_ = [this](output& to) { return tgm_dump_values(o_, to); };
      } else if (!o_.keys.empty() && o_.json) {
        // Keys as JSON are a table of metadata, which the list prints.
        chosen_ = [this](output& to) { return tgm_list(o_, to); };
      } else {
        chosen_ = [this](output& to) { return tgm_describe(o_, to); };
      }
    });
  }

  // Adds a verb with the options of every verb. When it is chosen, `run` is called.
  CLI::App* verb(const char* name, const char* text, const char* example, command run) {
    CLI::App* v = group_.add_subcommand(name, text);
    v->footer(std::string("Options of every verb: weir tgm --help\nExample:\n  ") +
              example);
    // Options of the group may stand behind the verb, too.
    v->fallthrough();
    v->add_flag("-j,--json", o_.json, "Print facts as JSON");
    v->callback([this, run] {
      // Verbs with one file store it here, because CLI11 needs a place of the right type.
      if (!o_.file.empty()) {
        o_.files = {o_.file};
      }
      chosen_ = [this, run](output& to) { return run(o_, to); };
    });
    return v;
  }
  // Adds a verb that takes any number of files.
  CLI::App* none_or_more(const char* name, const char* text, const char* example,
                         command run) {
    CLI::App* v = verb(name, text, example, run);
    v->add_option("FILE", o_.files,
                  "Files, addresses of http, https or s3, or \"-\" for "
                  "standard input");
    return v;
  }
  // Adds a verb that takes at least one file.
  CLI::App* many(const char* name, const char* text, const char* example, command run) {
    CLI::App* v = none_or_more(name, text, example, run);
    v->get_option("FILE")->required();
    return v;
  }
  // Adds a verb that takes exactly one file.
  CLI::App* one(const char* name, const char* text, const char* example, command run) {
    CLI::App* v = verb(name, text, example, run);
    v->add_option("FILE", o_.file,
                  "File, address of http, https or s3, or \"-\" for "
                  "standard input")
        ->required();
    return v;
  }
  // Adds a verb that takes one file and the name of another to write.
  CLI::App* pair(const char* name, const char* text, const char* example, command run) {
    CLI::App* v = one(name, text, example, run);
    v->add_option("OUT", o_.out, "File to write")->required();
    return v;
  }
  // Adds the clause that chooses messages.
  CLI::App* where(CLI::App* v) {
    v->add_option("-w,--where", o_.where, "KEY=V1/V2 or KEY!=V1/V2");
    return v;
  }
  // Adds the assignments of `set`, of which at least one is needed.
  CLI::App* sets(CLI::App* v) {
    v->add_option("-s,--set", o_.sets, "KEY=VALUE, separated by commas")->required();
    return v;
  }
  // Adds the output file, which some callers make mandatory.
  CLI::Option* out(CLI::App* v) {
    return v->add_option("-o,--out,--output", o_.out, "File to write");
  }
  // Adds the verbs that deal with one object, and the self-test.
  void add_object_verbs() {
    auto* take = one("export", "Write an object as a NumPy file",
                     "weir tgm export a.tgm t2m t2m.npy --message 1", &tgm_export);
    take->add_option("OBJECT", o_.object, "Name or number")->required();
    take->add_option("OUT", o_.out, "File to write")->required();
    take->add_option("--message", o_.message, "Number of the message (default 0)");
    auto* show = one("show", "Draw an object in the terminal, and as a PNG",
                     "weir tgm show a.tgm --object t2m -o t2m.png", &tgm_show);
    show->add_option("--object", o_.object, "Name or number (default 0)");
    show->add_option("--message", o_.message, "Number of the message (default 0)");
    out(show);
    verb("doctor", "Try every codec", "weir tgm doctor --json", &tgm_doctor);
  }

  CLI::App& group_;     ///< the command `tgm`
  action& chosen_;      ///< receives the call for the verb of the command line
  tgm_verb_options o_;  ///< options of all verbs
};

}  // namespace weir::tools
