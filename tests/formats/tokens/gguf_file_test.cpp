// SPDX-License-Identifier: Apache-2.0
/// @file
/// GGUF files as tokenizers: the ids of the `tokenizer.json` with the same vocabulary,
/// and errors for files that are cut or have wrong values.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "made.hpp"
#include "support/temp_folder.hpp"
#include "tokens/unicode.hpp"
#include "weir/base/container/gguf_walker.hpp"
#include "weir/formats/tokenizer_forms.hpp"

namespace weir::formats {

namespace {

using made::byte_level;
using made::ids_of;
using made::ids_vector;
using made::json;

/// Writes the header of a GGUF file. The number of entries is filled in at the end.
class header_maker {
 public:
  header_maker() {
    append(bytes_, as_view("GGUF"));
    put(std::uint32_t{3}).put(std::uint64_t{0}).put(std::uint64_t{0});
  }
  template <std::unsigned_integral T>
  header_maker& put(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store_le(bytes_.data() + bytes_.size() - sizeof(T), value);
    return *this;
  }
  header_maker& text(std::string_view t) {
    put(std::uint64_t{t.size()});
    append(bytes_, as_view(t));
    return *this;
  }
  header_maker& key(std::string_view name, gguf_value type) {
    ++entries_;
    return text(name).put(static_cast<std::uint32_t>(type));
  }
  header_maker& list(std::string_view name, gguf_value item, std::uint64_t count) {
    return key(name, gguf_value::list).put(static_cast<std::uint32_t>(item)).put(count);
  }
  header_maker& texts(std::string_view name, const std::vector<std::string>& items) {
    list(name, gguf_value::text, items.size());
    for (const std::string& item : items) {
      text(item);
    }
    return *this;
  }
  [[nodiscard]] byte_vector done() const {
    byte_vector out = bytes_;
    store_le(out.data() + 16, entries_);
    return out;
  }

 private:
  byte_vector bytes_;
  std::uint64_t entries_ = 0;
};

const std::string ggml = "tokenizer.ggml.";

/// Begins a header with model, pre-tokenizer and a few keys that no tokenizer uses.
header_maker begun(const std::string& model, const std::string& pre) {
  header_maker to;
  to.key("general.architecture", gguf_value::text).text("llama");
  to.list("general.tags", gguf_value::text, 2).text("a").text("");
  to.list("numbers", gguf_value::uint16, 3).put(std::uint32_t{1}).put(std::uint16_t{2});
  to.key(ggml + "model", gguf_value::text).text(model);
  if (!pre.empty()) {
    to.key(ggml + "pre", gguf_value::text).text(pre);
  }
  return to;
}

/// Adds the vocabulary of a BPE tokenizer, whose last token is a special one.
void add_vocabulary(header_maker& to, const tokenizer& with) {
  std::vector<std::string> tokens, merges;
  for (std::uint32_t id = 0; id < with.vocabulary_size(); ++id) {
    tokens.emplace_back(*with.token(id));
  }
  for (const auto& [left, right] : made::some_merges()) {
    merges.push_back(left + " " + right);
  }
  to.texts(ggml + "tokens", tokens);
  to.list(ggml + "token_type", gguf_value::int32, tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    to.put(std::uint32_t{id + 1 == tokens.size() ? 3U : 1U});
  }
  to.texts(ggml + "merges", merges);
}

json split_by(const std::string& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", pattern}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

/// Returns a description whose parts are those of a name of tokenizer.ggml.pre.
json description_of(const std::string& pre) {
  json out = byte_level(made::some_merges());
  const std::string head =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}";
  const std::string tail =
      "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  if (pre == "smollm" || pre == "starcoder") {
    out["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Digits"}, {"individual_digits", true}}, out["pre_tokenizer"]}}};
  } else if (pre == "llama-bpe") {
    out["pre_tokenizer"] = split_by(head + "{1,3}" + tail);
    out["model"]["ignore_merges"] = true;
    const std::string end = "<|end|>";
    const std::size_t id = out["added_tokens"][0]["id"];
    out["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", end}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", json::array()},
        {"special_tokens", {{end, {{"id", end}, {"ids", {id}}, {"tokens", {end}}}}}}};
  } else if (pre == "qwen2") {
    out["pre_tokenizer"] = split_by(head + tail);
    out["normalizer"] = {{"type", "NFC"}};
  }
  return out;
}

/// Returns a text of characters of all of Unicode and of parts of English text.
std::string unicode_text(std::mt19937_64& random) {
  std::string out;
  for (int i = 0; i < 12; ++i) {
    const std::uint64_t kind = random() % 4;
    if (kind == 0) {
      out += made::random_text(random, 3);
      continue;
    }
    auto code = static_cast<char32_t>(random() % (kind == 1 ? 0x110000 : 0x800));
    tokens::append_character(out, code >= 0xD800 && code < 0xE000 ? U'\x130' : code);
  }
  return out;
}

byte_vector header_of(const std::string& pre, const tokenizer& with) {
  header_maker to = begun("gpt2", pre);
  to.key(ggml + "bos_token_id", gguf_value::uint32).put(with.vocabulary_size() - 1);
  to.key(ggml + "eos_token_id", gguf_value::uint32).put(with.vocabulary_size() - 1);
  add_vocabulary(to, with);
  return to.done();
}

/// Expects that bytes are refused with a code and a part of the message.
void expect_refused(const header_maker& header, errc code, std::string_view part) {
  const auto made = tokenizer::from_bytes(header.done(), "model.gguf");
  ASSERT_FALSE(made) << part;
  EXPECT_EQ(made.error().code(), code) << made.error().message();
  EXPECT_NE(made.error().message().find(part), std::string::npos)
      << made.error().message();
  EXPECT_NE(made.error().message().find("model.gguf"), std::string::npos);
}

}  // namespace

TEST(GgufTokenizer, FilesGiveTheIdsOfTheJsonForEveryPreTokenizer) {
  std::mt19937_64 random(40);
  for (const std::string pre : {"gpt-2", "smollm", "starcoder", "llama-bpe", "qwen2"}) {
    const tokenizer with = made::read(description_of(pre));
    const byte_vector header = header_of(pre, with);
    const auto same = tokenizer::from_bytes(header, "model.gguf");
    ASSERT_TRUE(same) << pre << ": " << same.error().message();
    EXPECT_EQ(same->vocabulary_size(), with.vocabulary_size());
    for (int i = 0; i < 300; ++i) {
      const std::string text = unicode_text(random);
      ASSERT_EQ(ids_of(*same, text), ids_of(with, text)) << pre << ": " << text;
      ASSERT_EQ(*same->decode(ids_of(*same, text)), *with.decode(ids_of(with, text)));
    }
  }
}

TEST(GgufTokenizer, BertHasTheIdsOfTheJson) {
  json description = made::wordpiece();
  description["model"]["max_input_chars_per_word"] = 100;
  const tokenizer with = made::read(description);
  std::vector<std::string> tokens;
  for (std::uint32_t id = 0; id < with.vocabulary_size(); ++id) {
    const std::string token(*with.token(id));
    const bool inner = token.starts_with("##");
    tokens.push_back(id < 4 ? token : inner ? token.substr(2) : "\xE2\x96\x81" + token);
  }
  header_maker to = begun("bert", "jina-v2-en");
  to.texts(ggml + "tokens", tokens);
  to.list(ggml + "token_type", gguf_value::int32, tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    to.put(std::uint32_t{id < 4 ? 3U : 1U});
  }
  to.key(ggml + "unknown_token_id", gguf_value::uint32).put(*with.id("[UNK]"));
  expect_refused(to, errc::corrupt, "tokenizer.ggml.cls_token_id");
  to.key(ggml + "cls_token_id", gguf_value::uint32).put(*with.id("[CLS]"));
  expect_refused(to, errc::corrupt, "tokenizer.ggml.seperator_token_id");
  to.key(ggml + "seperator_token_id", gguf_value::uint32).put(*with.id("[SEP]"));
  const auto same = tokenizer::from_bytes(to.done(), "model.gguf");
  ASSERT_TRUE(same) << same.error().message();
  std::mt19937_64 random(41);
  for (int i = 0; i < 300; ++i) {
    const std::string text = unicode_text(random);
    ASSERT_EQ(ids_of(*same, text), ids_of(with, text)) << text;
  }
  to.key(ggml + "add_bos_token", gguf_value::boolean).put(std::uint8_t{0});
  to.key(ggml + "add_eos_token", gguf_value::boolean).put(std::uint8_t{0});
  const auto plain = tokenizer::from_bytes(to.done(), "model.gguf");
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_TRUE(plain->prefix().empty() && plain->suffix().empty());
}

// GGUF has no keys for these properties, and each of them changes the ids of some text.
TEST(GgufTokenizer, PropertiesThatGgufCannotKeepAreRefusedByTheirNames) {
  const auto refused = [](const json& description, const std::string& part) {
    const auto keys =
        tokenizer_keys_of_json(as_view(description.dump()), "tokenizer.json");
    ASSERT_FALSE(keys) << part;
    EXPECT_EQ(keys.error().code(), errc::unsupported);
    EXPECT_NE(keys.error().message().find(part), std::string::npos)
        << keys.error().message();
  };
  json bert = made::wordpiece();
  refused(bert, "expected max_input_chars_per_word 100, found 20");
  bert["model"]["max_input_chars_per_word"] = 100;
  EXPECT_TRUE(tokenizer_keys_of_json(as_view(bert.dump()), "tokenizer.json"));
  json marked = bert;
  marked["model"]["vocab"]["##\xE2\x96\x81x"] = marked["model"]["vocab"].size();
  refused(marked, "expected no U+2581 behind the mark of a continuation");
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
    json other = bert;
    other["added_tokens"][3][flag] = true;
    refused(other, "found such a flag of \"[SEP]\"");
  }
  json bytes = byte_level(made::some_merges());
  bytes["model"]["unk_token"] = "a";
  // Without a normalizer, a normalized token is matched as it is.
  bytes["added_tokens"][0]["normalized"] = true;
  EXPECT_TRUE(tokenizer_keys_of_json(as_view(bytes.dump()), "tokenizer.json"));
  json mixed = bytes;
  mixed["added_tokens"].push_back(
      made::added(mixed["model"]["vocab"].size() + 1, "<|end|><", {}));
  refused(mixed, "expected normalized for all added tokens or for none, found \"");
  refused(mixed, "\" with normalized and \"<|end|><\" without normalized");
  json ignoring = bytes;
  ignoring["model"]["ignore_merges"] = true;
  refused(ignoring, "the normalizer and pre-tokenizer");
  // The token of byte 0 gets another spelling, so that the byte has none.
  json without = bytes;
  without["model"]["vocab"].erase(made::spelled(0));
  without["model"]["vocab"]["<none>"] = 0;
  refused(without, "found none for byte 0");
}

TEST(GgufTokenizer, FlagsChooseTheIdsAroundAText) {
  const tokenizer with = made::read(byte_level(made::some_merges()));
  header_maker to = begun("gpt2", "gpt-2");
  to.key(ggml + "bos_token_id", gguf_value::uint32).put(std::uint32_t{7});
  to.key(ggml + "eos_token_id", gguf_value::uint32).put(std::uint32_t{8});
  to.key(ggml + "add_bos_token", gguf_value::boolean).put(std::uint8_t{1});
  to.key(ggml + "add_eos_token", gguf_value::boolean).put(std::uint8_t{1});
  add_vocabulary(to, with);
  const auto made = tokenizer::from_bytes(to.done(), "model.gguf");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(ids_of(*made, "b"), (ids_vector{7, 'b', 8}));
}

TEST(GgufTokenizer, AFileIsReadWithoutItsTensors) {
  const tokenizer with = made::read(byte_level(made::some_merges()));
  const test::temp_folder folder;
  const auto write = [&](const std::string& name, bytes_view bytes, std::size_t more) {
    std::ofstream out(folder / name, std::ios::binary);
    out << as_text(bytes) << std::string(more, 'x');
  };
  const byte_vector header = header_of("gpt-2", with);
  write("small.gguf", header, 3 << 20);
  // The key before the vocabulary is longer than the first read.
  header_maker large;
  large.key("tokenizer.chat_template", gguf_value::text).text(std::string(3 << 20, 't'));
  large.key(ggml + "model", gguf_value::text).text("gpt2");
  large.key(ggml + "pre", gguf_value::text).text("gpt-2");
  add_vocabulary(large, with);
  write("large.gguf", large.done(), 17);
  write("t.json", as_view(byte_level(made::some_merges()).dump()), 0);
  std::mt19937_64 random(42);
  const std::string text = made::random_text(random, 50);
  for (const char* name : {"small.gguf", "large.gguf", "t.json"}) {
    const auto made = tokenizer::from_file(posix_file_system(), folder / name);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(ids_of(*made, text), ids_of(with, text)) << name;
  }
  EXPECT_EQ(tokenizer::from_file(posix_file_system(), folder / "none").error().code(),
            errc::not_found);
  write("empty", {}, 0);
  EXPECT_EQ(tokenizer::from_file(posix_file_system(), folder / "empty").error().code(),
            errc::corrupt);
}

TEST(GgufTokenizer, EveryCutIsRefusedWithItsPlace) {
  const tokenizer with = made::read(byte_level(made::some_merges()));
  const byte_vector whole = header_of("gpt-2", with);
  for (std::size_t size = 4; size < whole.size(); ++size) {
    const auto made = tokenizer::from_bytes(bytes_view(whole).first(size), "model.gguf");
    ASSERT_FALSE(made) << size;
    ASSERT_EQ(made.error().code(), errc::corrupt) << made.error().message();
    ASSERT_TRUE(made.error().location().starts_with("model.gguf:"));
  }
}

TEST(GgufTokenizer, WrongValuesAreRefusedByTheirKeys) {
  const tokenizer with = made::read(byte_level(made::some_merges()));
  const auto refused = [&](const std::string& pre, errc code, std::string_view part,
                           const std::function<void(header_maker&)>& change) {
    header_maker to = begun("gpt2", pre);
    change(to);
    add_vocabulary(to, with);
    expect_refused(to, code, part);
  };
  const auto nothing = [](header_maker&) {};
  refused("", errc::unsupported, "tokenizer.ggml.pre: expected gpt-2, smollm", nothing);
  refused("default", errc::unsupported, "found \"default\"", nothing);
  refused("gpt-4o", errc::unsupported, "found \"gpt-4o\"", nothing);
  refused("gpt-2", errc::corrupt, "tokenizer.ggml.model: expected one value, found two",
          [](header_maker& to) { to.key(ggml + "model", gguf_value::text).text("t5"); });
  refused("", errc::corrupt, "expected a text, found type uint32", [](header_maker& to) {
    to.key(ggml + "pre", gguf_value::uint32).put(std::uint32_t{1});
  });
  refused("gpt-2", errc::corrupt, "expected a number of type uint32, found type int32",
          [](header_maker& to) {
            to.key(ggml + "bos_token_id", gguf_value::int32).put(std::uint32_t{1});
          });
  refused("gpt-2", errc::corrupt, "expected an id below", [](header_maker& to) {
    to.key(ggml + "unknown_token_id", gguf_value::uint32).put(std::uint32_t{9999});
  });
  refused("gpt-2", errc::corrupt,
          "tokenizer.ggml.add_bos_token: expected 0 or 1, found 2", [](header_maker& to) {
            to.key(ggml + "add_bos_token", gguf_value::boolean).put(std::uint8_t{2});
          });
  refused("gpt-2", errc::corrupt, "expected a list of text, found a list of int32",
          [](header_maker& to) { to.list(ggml + "merges", gguf_value::int32, 0); });
  refused(
      "gpt-2", errc::corrupt, "expected a list of int32, found type text",
      [](header_maker& to) { to.key(ggml + "token_type", gguf_value::text).text(""); });
  refused("gpt-2", errc::out_of_range, "expected at most 16777216 items",
          [](header_maker& to) { to.list(ggml + "merges", gguf_value::text, 1 << 25); });
  refused("gpt-2", errc::corrupt, "\"x\": expected a value of a known type",
          [](header_maker& to) { to.key("x", gguf_value{77}); });
  header_maker none;
  none.key("general.name", gguf_value::text).text("weights alone");
  expect_refused(none, errc::corrupt, "tokenizer.ggml.model: expected the name");
  header_maker other = begun("t5", "");
  add_vocabulary(other, with);
  expect_refused(other, errc::unsupported, "found \"t5\"");
  byte_vector version = header_of("gpt-2", with);
  store_le(version.data() + 4, std::uint32_t{1});
  EXPECT_EQ(tokenizer::from_bytes(version, "v").error().code(),
            errc::unsupported_version);
}

}  // namespace weir::formats
