// SPDX-License-Identifier: Apache-2.0
/// @file
/// The property that every source has: the same ids give the same chunks, boundaries and
/// cursors, and a stream that goes on behind any chunk equals the one that did not
/// stop.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>

#include "storage/files/token_files_support.hpp"
#include "storage/live/live_support.hpp"
#include "support/case_count.hpp"
#include "weir/storage/mix_source.hpp"

using namespace weir;
using namespace weir::storage;
using namespace weir::test;

namespace {

constexpr std::size_t chunk_tokens = 24;

/// A source that can be opened again and again.
struct source_kind {
  std::string name;
  /// Opens the source. A pipe is given only what lies behind the first `taken` tokens.
  std::function<std::unique_ptr<token_source>(std::size_t taken)> open;
};

/// Writers of pipes and sockets. They end when the source has read everything.
struct writers {
  std::vector<int> descriptors;
  std::vector<std::jthread> threads;
  ~writers() {
    for (const int one : descriptors) {
      ::close(one);
    }
  }
};

/// Returns a cursor without what only some sources have: a place, an identity, an order.
stream_cursor bare(const stream_cursor& of_stream) {
  stream_cursor out = without_source(of_stream);
  out.rng.reset();
  return out;
}

/// Reads all chunks and compares them and the last cursor with those of the same ids in
/// memory.
void expect_chunks(context_stream& found, const tokens& ids, std::size_t from) {
  stream_config config;
  config.chunk = chunk_tokens;
  const auto expected = open_stream(config, ids);
  read_all(*expected, chunk_tokens, 0, from);
  const auto rest = read_all(*expected, chunk_tokens);
  const auto chunks = read_all(found, chunk_tokens);
  ASSERT_EQ(chunks.size(), rest.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    ASSERT_TRUE(same(chunks[i], rest[i])) << "chunk " << from + i;
  }
  EXPECT_EQ(bare(or_throw(found.cursor(7))), bare(or_throw(expected->cursor(7))));
}

/// Checks the property for a source.
void expect_property(const source_kind& kind, const tokens& ids) {
  SCOPED_TRACE(kind.name);
  const auto whole = stream_of(kind.open(0), chunk_tokens);
  std::vector<stream_cursor> cursors;
  for (;;) {
    const auto one = or_throw(whole->next_chunk(chunk_tokens));
    if (!one) {
      break;
    }
    cursors.push_back(or_throw(whole->cursor_at(one->mark, cursors.size() + 1)));
  }
  ASSERT_EQ(cursors.size(), (ids.size() + chunk_tokens - 1) / chunk_tokens);
  expect_chunks(*stream_of(kind.open(0), chunk_tokens), ids, 0);
  for (std::size_t i = 0; i + 1 < cursors.size(); i += case_step()) {
    SCOPED_TRACE(fmt::format("behind chunk {}", i));
    const auto again = stream_of(kind.open((i + 1) * chunk_tokens), chunk_tokens);
    or_throw(again->restore(cursors[i]));
    expect_chunks(*again, ids, i + 1);
  }
}

/// Returns token files of every format that hold the documents.
std::vector<source_kind> token_files_of(const std::vector<tokens>& documents) {
  std::vector<source_kind> out;
  for (const file_case& one : every_format()) {
    auto inner = std::make_shared<temp_folder>();
    const auto paths = one.write(*inner, documents);
    out.push_back({one.name, [inner, paths, options = one.options](std::size_t) {
                     return or_throw(
                         open_token_files(posix_file_system(), paths, options));
                   }});
  }
  return out;
}

source_kind in_memory(const tokens& ids) {
  return {"memory",
          [ids](std::size_t) { return or_throw(open_memory_tokens(tokens(ids))); }};
}

/// Returns a pipe that holds the rest of a text.
source_kind pipe_of(const std::string& text, writers& to) {
  return {"pipe", [&to, text](std::size_t taken) {
            int ends[2];
            EXPECT_EQ(::pipe(ends), 0);
            const std::string rest = text.substr(taken);
            EXPECT_EQ(::write(ends[1], rest.data(), rest.size()),
                      static_cast<ssize_t>(rest.size()));
            ::close(ends[1]);
            to.descriptors.push_back(ends[0]);
            return or_throw(open_pipe_source(ends[0], "stdin"));
          }};
}

/// Returns a socket whose writer sends from the byte on for which it is asked.
source_kind socket_of(const temp_folder& folder, const std::string& text, writers& to) {
  write_text(folder / "token", "secret\n");
  live_options options;
  options.token_file = folder / "token";
  return {"socket", [&to, text, options](std::size_t taken) {
            auto source = or_throw(open_socket_source("tcp:0", options));
            to.threads.emplace_back([address = address_of(*source), text, taken] {
              const peer one(address);
              one.send("secret\n");
              EXPECT_EQ(one.receive(), fmt::format("{{\"from\": {}}}\n", taken));
              one.send(text.substr(taken));
            });
            return source;
          }};
}

}  // namespace

TEST(EverySource, OfOneTextGivesItsChunksAndGoesOnBehindEachOfThem) {
  const tokens ids = random_tokens(700, 21);
  const std::string text = text_of(ids);
  const temp_folder folder;
  write_text(folder / "bytes", text);
  write_text(folder / "lines",
             fmt::format("{{\"ids\": [{}]}}\n{{\"state\": 2}}\n{{\"ids\": [{}]}}\n"
                         "{{\"end\": true}}\n",
                         fmt::join(ids.begin(), ids.begin() + 300, ","),
                         fmt::join(ids.begin() + 300, ids.end(), ",")));
  writers live;
  std::vector<source_kind> kinds = token_files_of({ids});
  kinds.push_back(in_memory(ids));
  kinds.push_back({"file", [&](std::size_t) {
                     return or_throw(
                         open_file_source(posix_file_system(), folder / "bytes"));
                   }});
  kinds.push_back(pipe_of(text, live));
  kinds.push_back(socket_of(folder, text, live));
  kinds.push_back({"child", [&](std::size_t) {
                     live_options options;
                     options.separate_documents = false;
                     return or_throw(
                         open_child_source(child_of(folder / "lines"), options));
                   }});
  for (const source_kind& kind : kinds) {
    expect_property(kind, ids);
  }
}

TEST(EverySource, OfDocumentsGivesTheirChunksAndGoesOnBehindEachOfThem) {
  const std::vector<tokens> documents = some_documents(5);
  tokens ids;
  tokens ended;  // with an end of text behind the last document, too
  std::string lines;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    ended.insert(ended.end(), documents[i].begin(), documents[i].end());
    ids = ended;
    ended.push_back(end_of_text);
    lines += fmt::format("{{\"ids\": [{}]}}\n{{\"state\": {}}}\n",
                         fmt::join(documents[i], ","), 2 * i + 2);
  }
  const temp_folder folder;
  write_text(folder / "lines", lines + "{\"end\": true}\n");
  std::vector<source_kind> kinds = token_files_of(documents);
  kinds.push_back({"chain", [&](std::size_t) {
                     std::vector<std::unique_ptr<token_source>> parts;
                     for (const tokens& one : documents) {
                       parts.push_back(or_throw(open_memory_tokens(tokens(one))));
                     }
                     return or_throw(chain_sources(std::move(parts)));
                   }});
  kinds.push_back({"child", [&](std::size_t) {
                     return or_throw(open_child_source(child_of(folder / "lines")));
                   }});
  for (const source_kind& kind : kinds) {
    expect_property(kind, ids);
  }
}

TEST(EverySource, ThatIsMixedShuffledOrSampledGivesTheChunksOfItsOrder) {
  const std::vector<tokens> documents = some_documents(5);
  tokens ids;
  tokens ended;
  for (const tokens& one : documents) {
    ended.insert(ended.end(), one.begin(), one.end());
    ids = ended;
    ended.push_back(end_of_text);
  }
  const auto whole = [ids] { return or_throw(open_memory_tokens(tokens(ids))); };
  const auto mixed = [&](std::unique_ptr<token_source> source) {
    std::vector<mix_part> parts(1);
    parts[0].source = std::move(source);
    parts[0].name = "all";
    parts[0].exhausted = exhaustion::drop;
    return or_throw(mix_sources(std::move(parts), {}));
  };
  const temp_folder folder;
  write_text(folder / "lines",
             fmt::format("{{\"ids\": [{}]}}\n{{\"end\": true}}\n", fmt::join(ids, ",")));
  for (const source_kind& kind : std::vector<source_kind>{
           {"mixture", [&](std::size_t) { return mixed(whole()); }},
           {"mixture of a child", [&](std::size_t) {
              live_options options;
              options.vocabulary = end_of_text + 1;
              options.separate_documents = false;
              return mixed(
                  or_throw(open_child_source(child_of(folder / "lines"), options)));
            }}}) {
    expect_property(kind, ended);
  }
  // The order of units is what the source says; the chunks are those of that order.
  for (const source_kind& kind : std::vector<source_kind>{
           {"shuffle",
            [&](std::size_t) { return or_throw(shuffle_source(whole(), 3, 5, 0)); }},
           {"shuffled runs",
            [&](std::size_t) { return or_throw(shuffle_source(whole(), 4, 5, 16)); }},
           {"sample",
            [&](std::size_t) { return or_throw(sample_source(whole(), 2, 3, 5, 0)); }}}) {
    const auto source = kind.open(0);
    tokens in_order(2 * ended.size());
    in_order.resize(or_throw(source->read(0, in_order)));
    ASSERT_GT(in_order.size(), 3 * chunk_tokens) << kind.name;
    EXPECT_NE(in_order, ended) << kind.name;
    expect_property(kind, in_order);
  }
}
