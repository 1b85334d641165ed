// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adds the verbs of `weir hn4` and their options to the command line.
///
/// All verbs share one structure of options, since most options belong to several verbs.
/// A verb has only the options that it registers; the others keep their defaults.
#include "hn4/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "weir/storage/hn4_code.hpp"

namespace weir::tools {

namespace {

using action = std::function<command_result(output&)>;
using command = command_result (*)(const hn4_options&, output&);

/// Returns the error with the number of its result code, unless it has one.
/// Errors of HN4 have numbers of their own, by which users of the reference
/// implementation know them.
error numbered(error e) {
  const std::string number = text_of(storage::code_of(e));
  // An error that was made with its number has it in its message already.
  if (e.message().find(number) != std::string::npos) {
    return e;
  }
  const storage::hn4_code code = storage::code_of(e);
  // Errors cannot be changed, so a new one is built with all parts of the old one.
  error with =
      storage::hn4_error(code, e.text(), e.code()).located(e.location()).hint(e.hint());
  return e.cause() != nullptr ? std::move(with).because(*e.cause()) : std::move(with);
}

/// Adds verbs to the group; all of them share one set of options.
class verb_maker {
 public:
  verb_maker(CLI::App& group, std::shared_ptr<hn4_options> o, action& chosen)
      : group_(group), o_(std::move(o)), chosen_(chosen) {}

  /// Adds a verb. When it is chosen on the command line, `run` is called with the
  /// options.
  CLI::App* add(const char* name, const char* help, const char* example, command run) {
    CLI::App* v = group_.add_subcommand(name, help);
    v->footer(std::string("Example:\n  ") + example);
    v->add_option("VOLUME", o_->volume, "Image file or block device")->required();
    // The callback outlives this object. It holds the options by shared ownership, and
    // `chosen` lives in the main program.
    auto options = o_;
    action& chosen = chosen_;
    v->callback([options, &chosen, run, v] {
      // A seed of 0 is a valid seed, so it matters whether the option was given at all.
      const CLI::Option* seed = v->get_option_no_throw("--seed");
      options->seeded = seed != nullptr && seed->count() > 0;
      // Only errors are numbered here, at one place for all verbs.
      chosen = [options, run](output& out) -> command_result {
        auto code = run(*options, out);
        return code ? std::move(code) : numbered(std::move(code).error());
      };
    });
    return v;
  }
  /// Adds a verb that takes the name of a tag.
  CLI::App* tagged(const char* name, const char* help, const char* example, command run) {
    CLI::App* v = add(name, help, example, run);
    v->add_option("TAG", o_->tag, "Name of the stream")->required();
    return v;
  }
  /// Adds the option --json.
  void json(CLI::App* v) { v->add_flag("--json", o_->json, "Print facts as JSON"); }
  /// Adds the options of a verb that writes a file.
  CLI::Option* target(CLI::App* v, const char* help) {
    v->add_flag("--force", o_->force, "Replace an existing file");
    return v->add_option("FILE", o_->file, help);
  }

 private:
  CLI::App& group_;
  std::shared_ptr<hn4_options> o_;
  action& chosen_;
};

/// Adds the verb that makes a volume.
void add_mkfs(verb_maker& make, hn4_options& o) {
  auto* v = make.add("mkfs", "Make an empty volume",
                     "weir hn4 mkfs weights.hn4 --profile gaming --size 2GiB", &hn4_mkfs);
  v->add_option("--profile", o.profile,
                "generic (default), gaming, ai, archive, pico, system, usb, hyper_cloud");
  v->add_option("--size", o.size, "Capacity, such as 2GiB or 1TiB (default 128MiB)");
  v->add_option("--sector", o.sector, "512 (default) or 4096");
  v->add_option("--medium", o.medium, "ssd (default), rotational or tape");
  v->add_option("--label", o.label, "At most 31 bytes (default \"weir\")");
  v->add_option("--seed", o.seed, "Identity follows from it; without it, random");
  v->add_flag("--force", o.force, "Replace an existing file");
  make.json(v);
}

/// Adds the verbs that change a volume.
void add_writers(verb_maker& make, hn4_options& o) {
  // Options that `put` and `import` have in common.
  const auto storing = [&](CLI::App* v) {
    v->add_option("--shards", o.shards, "Number of shards (default: as few as fit)");
    v->add_flag("--compress", o.compress, "Compress blocks where that is shorter");
    make.json(v);
    // Returned, because only `put` has an option that excludes it.
    return v->add_flag("--replace", o.replace, "Replace what the tag holds");
  };
  auto* put = make.tagged("put", "Store a file or standard input under a tag",
                          "weir hn4 put weights.hn4 licence < LICENSE", &hn4_put);
  put->add_option("FILE", o.file, "What to store; \"-\" is standard input (default)");
  auto* replace = storing(put);
  // To replace and to append at once has no meaning.
  put->add_flag("--append", o.append, "Add to what the tag holds")->excludes(replace);
  // There is no --append: bytes behind an imported file would not be part of it.
  auto* import = make.tagged(
      "import", "Store a safetensors, GGUF or other file, its tensors by name",
      "weir hn4 import weights.hn4 model:small model.safetensors", &hn4_import);
  import->add_option("FILE", o.file, "What to store")->required();
  storing(import);
  make.json(
      make.tagged("rm", "Remove a tag", "weir hn4 rm weights.hn4 licence", &hn4_rm));
  // Compacting reads every block, and thereby finds damage.
  make.json(
      make.add("compact",
               "Move tags together, so that free space is in one piece; exit 1 if a "
               "tag cannot be read",
               "weir hn4 compact weights.hn4", &hn4_compact));
}

/// Adds the verbs that only read.
void add_readers(verb_maker& make, hn4_options& o) {
  // The same option for all verbs that read a tag.
  const auto recovering = [&o](CLI::App* verb) {
    verb->add_flag("--recover", o.recover,
                   "Read what is left of a tag that has lost shards, and list what is "
                   "missing; without this, a tag that may have lost one is an error");
  };
  auto* ls = make.add("ls", "List the tags that are whole; exit 1 if another one is not",
                      "weir hn4 ls weights.hn4", &hn4_ls);
  make.json(ls);
  auto* cat =
      make.tagged("cat", "Write a tag to standard output, every checksum verified",
                  "weir hn4 cat parameters.hn4 prose | weir tgm ls -", &hn4_cat);
  cat->add_option("--offset", o.offset, "First byte (default 0)");
  cat->add_option("--length", o.length, "Bytes (default: to the end)");
  cat->add_option("--order", o.order, "Of shards: seed (default) or clock");
  cat->add_flag(
      "--strict", o.strict,
      "Exactly what the reference implementation reads: a shard whose directory "
      "entry is damaged or gone is left out, holes are zeros, and the verb ends with 0");
  recovering(cat);
  auto* get =
      make.tagged("get", "Write a tag, or one tensor of it, to a file",
                  "weir hn4 get weights.hn4 model:small out.bin --tensor wq", &hn4_get);
  // Without a name for the file, the bytes go to standard output.
  make.target(get, "Where to; \"-\" is standard output (default)");
  get->add_option("--tensor", o.tensor, "Only this tensor of an imported file");
  recovering(get);
  make.json(get);
  auto* back = make.tagged("export", "Write an imported file back, byte for byte",
                           "weir hn4 export weights.hn4 model:small model.safetensors",
                           &hn4_export);
  // An export always names its file.
  make.target(back, "Where to")->required();
  recovering(back);
  make.json(back);
  auto* stat = make.add("stat", "Say what a volume is, or what a tag consists of",
                        "weir hn4 stat weights.hn4 model:small --json", &hn4_stat);
  // Optional here: without a tag, `stat` describes the volume.
  stat->add_option("TAG", o.tag, "Name of a stream: its shards and tensors");
  recovering(stat);
  make.json(stat);
  auto* bench =
      make.tagged("bench", "Read a tag again and again, and say how fast",
                  "weir hn4 bench weights.hn4 model:small --threads 2", &hn4_bench);
  bench->add_option("--threads", o.threads, "Threads that share the stream (default 1)");
  bench->add_flag("--direct", o.direct, "Past the page cache");
  make.json(bench);
}

}  // namespace

void add_hn4_verbs(CLI::App& app, action& chosen) {
  auto* group = app.add_subcommand("hn4", "Make, fill, read and check HN4 volumes");
  // The group does nothing by itself.
  group->require_subcommand(1);
  const auto options = std::make_shared<hn4_options>();
  verb_maker make(*group, options, chosen);
  add_mkfs(make, *options);
  add_writers(make, *options);
  add_readers(make, *options);
  // The check is neither a plain reader nor a writer: with --repair it makes a new image.
  auto* check =
      make.add("check", "Verify a whole volume; exit 1 if anything is wrong",
               "weir hn4 check weights.hn4 --map weights.svg", &hn4_check_command);
  check->add_option("--map", options->map, "Draw the volume into this SVG file");
  check->add_option("--repair", options->repair,
                    "Make this new image of everything that can be read");
  make.json(check);
}

}  // namespace weir::tools
