// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the cache of modules and measurements: keys, damage, rights, and use by several
/// threads and processes.
#include "weir/tessera/module/cache.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "module_support.hpp"
#include "support/temp_folder.hpp"

namespace weir::tessera {
namespace {

namespace fs = std::filesystem;
using weir::test::temp_folder;

/// Returns a key that differs from others in the kernel's name only.
cache_key key_of(std::string kernel) {
  cache_key key;
  key.kind = cache_kind::tuning;
  key.kernel = std::move(kernel);
  key.shape = {128, 1, 1};
  key.dtypes = {5};
  key.arch = "x86-64-v3";
  return key;
}

/// Opens a cache whose environment has the given driver version.
std::unique_ptr<module_cache> open_cache(const std::string& folder, bool strict = false,
                                         std::string_view driver = "") {
  cache_options options;
  options.folder = folder;
  options.strict = strict;
  options.environment = environment_digest("cpu", driver);
  return or_throw(module_cache::open(std::move(options)));
}

/// Returns bytes that count up from `first`.
byte_vector content_of(std::size_t bytes, std::uint8_t first = 0) {
  byte_vector out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(first + i);
  }
  return out;
}

/// Returns the paths of the files in a folder whose names end with `suffix`.
std::vector<std::string> files_of(const std::string& folder, std::string_view suffix) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(suffix)) {
      out.push_back(entry.path().string());
    }
  }
  return out;
}

/// Returns the path of the only entry in a cache folder.
std::string only_entry(const std::string& folder) {
  const auto files = files_of(folder, ".entry");
  EXPECT_EQ(files.size(), 1U);
  return files.empty() ? "" : files[0];
}

/// Replaces the contents of a file.
void overwrite(const std::string& path, const byte_vector& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Runs `body` in another process, whose exit code is its result. An exception ends that
// process with code 99, so that it cannot go on with the tests, perhaps under another
// user.
template <class Body>
pid_t in_process(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(body());
    } catch (...) {
      ::_exit(99);
    }
  }
  return child;
}

/// Waits for the process and returns its exit code, or -1 if a signal ended it.
int exit_code_of_process(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Cache, GivesBackWhatWasPut) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "a/b/cache");
  EXPECT_FALSE(or_throw(cache->get(key_of("k"))));
  for (const std::size_t bytes : {0U, 1U, 100000U}) {
    ASSERT_TRUE(cache->put(key_of("k"), content_of(bytes)));
    EXPECT_EQ(or_throw(cache->get(key_of("k"))), content_of(bytes));
  }
  const auto file = or_throw(cache->open_entry(key_of("k")));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->bytes(), 100000U);
  std::byte last{};
  EXPECT_EQ(::pread(file->descriptor(), &last, 1, 99999), 1);
  EXPECT_EQ(last, content_of(100000).back());
  const cache_stats stats = cache->stats();
  EXPECT_EQ(stats.hits, 4U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.writes, 3U);
  EXPECT_EQ(stats.entries, 1U);
  EXPECT_GT(stats.bytes, 100000U);
}

TEST(Cache, KeepsFilesAndFolderForTheirUserAlone) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache");
  ASSERT_TRUE(cache->put(key_of("k"), content_of(9)));
  struct stat facts {};
  ASSERT_EQ(::stat((folder / "cache").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat(only_entry(folder / "cache").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

TEST(Cache, DistinguishesEveryPartOfAKey) {
  const cache_key key = key_of("k");
  std::vector<cache_key> others(8, key);
  others[0].kind = cache_kind::collective_tuning;
  others[1].kernel = "l";
  others[2].module_hash[31] = std::byte(1);
  others[3].shape = {128, 1};
  others[4].dtypes = {6};
  others[5].arch = "x86-64-v4";
  others[6].policy[0] = std::byte(1);  // a different numerics policy
  others[7].shape = {128, 1, 1, 5};    // a number that was among the dtypes
  others[7].dtypes = {};
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache");
  ASSERT_TRUE(cache->put(key, content_of(3)));
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(others[i].digest(), key.digest()) << i;
    EXPECT_FALSE(or_throw(cache->get(others[i]))) << i;
  }
  EXPECT_TRUE(or_throw(cache->get(key)));
}

TEST(Cache, DropsWhatAnotherDriverHasMade) {
  const temp_folder folder;
  ASSERT_TRUE(open_cache(folder / "cache", false, "1")->put(key_of("k"), content_of(3)));
  const auto cache = open_cache(folder / "cache", true, "2");
  EXPECT_TRUE(cache->verify());
  EXPECT_FALSE(or_throw(cache->get(key_of("k"))));
  EXPECT_EQ(cache->stats().stale, 1U);
  EXPECT_EQ(cache->stats().entries, 0U);
  EXPECT_TRUE(files_of(folder / "cache", ".bad").empty());
}

/// Two builds of Weir can have the same compiler and the same machine. The entries of one
/// must not be used by the other, because the code that wrote them may differ.
TEST(Cache, DropsWhatAnotherBuildOfTheLibraryHasWritten) {
  const temp_folder folder;
  cache_options options;
  options.folder = folder / "cache";
  options.environment = environment_digest("cpu", "", "0123");
  const auto older = or_throw(module_cache::open(options));
  or_throw(older->put(key_of("k"), content_of(10)));
  const auto cache = open_cache(folder / "cache");
  EXPECT_FALSE(or_throw(cache->get(key_of("k"))).has_value());
  EXPECT_EQ(cache->stats().stale, 1U);
  EXPECT_EQ(environment_digest("cpu"), environment_digest("cpu", "", library_build()));
}

TEST(Cache, KnowsTheBuildIdOfTheProgramThatItIsLinkedInto) {
  const std::string id = library_build();
  ASSERT_EQ(id.size(), 40U) << "the linker's SHA-1 note: " << id;
  std::string bytes;
  for (std::size_t i = 0; i < id.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  }
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(program.find(bytes), std::string::npos);
}

TEST(Cache, SetsAsideAnEntryThatIsCutAtAnyLength) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache");
  ASSERT_TRUE(cache->put(key_of("k"), content_of(50)));
  const std::string path = only_entry(folder / "cache");
  const byte_vector whole = test::bytes_of_file(path);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    overwrite(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    ::chmod(path.c_str(), 0600);
    ASSERT_FALSE(or_throw(cache->get(key_of("k")))) << bytes;
    ASSERT_TRUE(fs::exists(path + ".bad")) << bytes;
    ASSERT_FALSE(fs::exists(path)) << bytes;
  }
  EXPECT_EQ(cache->stats().quarantined, whole.size());
  ASSERT_TRUE(cache->put(key_of("k"), content_of(50)));
  EXPECT_TRUE(or_throw(cache->get(key_of("k"))));
}

TEST(Cache, FindsAnyByteOfAnEntryThatHasChanged) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache", true);
  ASSERT_TRUE(cache->put(key_of("k"), content_of(50)));
  const std::string path = only_entry(folder / "cache");
  byte_vector bytes = test::bytes_of_file(path);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte(0x10);
    overwrite(path, bytes);
    ASSERT_EQ(cache->get(key_of("k")).error().code(), errc::cache_corrupt) << i;
    bytes[i] ^= std::byte(0x10);
  }
  EXPECT_EQ(cache->verify().has_value(), false);
  overwrite(path, bytes);
  EXPECT_TRUE(or_throw(cache->get(key_of("k"))));
  EXPECT_TRUE(cache->verify());
}

TEST(Cache, TakesNoEntryUnderAnotherName) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache");
  ASSERT_TRUE(cache->put(key_of("k"), content_of(50)));
  const std::string name = to_hex(key_of("l").digest()) + ".entry";
  fs::rename(only_entry(folder / "cache"), folder / ("cache/" + name));
  EXPECT_FALSE(cache->verify());
  EXPECT_FALSE(or_throw(cache->get(key_of("l"))));
  EXPECT_EQ(cache->stats().quarantined, 1U);
}

TEST(Cache, TakesNoLinkAndNoFileThatOthersCanWrite) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache", true);
  ASSERT_TRUE(cache->put(key_of("k"), content_of(50)));
  const std::string path = only_entry(folder / "cache");
  ::chmod(path.c_str(), 0620);
  EXPECT_EQ(cache->get(key_of("k")).error().code(), errc::cache_corrupt);
  ::chmod(path.c_str(), 0600);
  EXPECT_TRUE(or_throw(cache->get(key_of("k"))));
  fs::rename(path, folder / "elsewhere");
  fs::create_symlink(folder / "elsewhere", path);
  EXPECT_EQ(cache->get(key_of("k")).error().code(), errc::cache_corrupt);
  EXPECT_FALSE(cache->verify());
}

TEST(Cache, UsesNoFolderThatOthersCanWrite) {
  const temp_folder folder;
  const auto opened = [&](const std::string& path) {
    cache_options options;
    options.folder = path;
    return module_cache::open(options).has_value();
  };
  const std::string shared = folder / "shared";
  fs::create_directory(shared);
  ::chmod(shared.c_str(), 0777);
  EXPECT_FALSE(opened(shared));
  ::chmod(shared.c_str(), 0770);
  EXPECT_FALSE(opened(shared));
  ::chmod(shared.c_str(), 01777);
  EXPECT_TRUE(opened(shared));
  ::chmod(shared.c_str(), 0755);
  EXPECT_TRUE(opened(shared));
  std::ofstream(folder / "file");
  EXPECT_FALSE(opened(folder / "file"));
  EXPECT_FALSE(opened(folder / "file/below"));
  EXPECT_FALSE(opened(""));
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(shared.c_str(), 65534, 65534), 0);
    EXPECT_FALSE(opened(shared));
  }
}

TEST(Cache, ThatIsReadOnlyStillGivesWhatItHas) {
  const temp_folder folder;
  const std::string path = folder / "cache";
  ::chmod(folder.path().c_str(), 0755);
  const pid_t child = in_process([&] {
    if (::geteuid() == 0) {  // root may write everywhere, so give up its rights
      fs::create_directory(path);
      if (::chown(path.c_str(), 65534, 65534) != 0 || ::setuid(65534) != 0) {
        return 10;
      }
    }
    {
      const auto cache = open_cache(path);
      if (!cache->put(key_of("k"), content_of(5))) {
        return 11;
      }
    }
    ::chmod(path.c_str(), 0555);
    const auto cache = open_cache(path);
    const auto written = cache->put(key_of("l"), content_of(5));
    if (written || written.error().code() != errc::io ||
        cache->stats().failed_writes != 1) {
      return 12;
    }
    return or_throw(cache->get(key_of("k"))) ? 0 : 13;
  });
  EXPECT_EQ(exit_code_of_process(child), 0);
}

TEST(Cache, KeepsTheOldEntryWhereTheNewOneHasNoSpace) {
  const temp_folder folder;
  const std::string path = folder / "cache";
  ASSERT_TRUE(open_cache(path)->put(key_of("k"), content_of(100)));
  const pid_t child = in_process([&path] {
    const rlimit little{1000, 1000};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &little);
    const auto cache = open_cache(path, true);
    const auto put = cache->put(key_of("k"), content_of(5000));
    if (put || put.error().code() != errc::io || cache->stats().failed_writes != 1) {
      return 1;
    }
    return or_throw(cache->get(key_of("k"))) == content_of(100) ? 0 : 2;
  });
  EXPECT_EQ(exit_code_of_process(child), 0);
  EXPECT_TRUE(files_of(path, ".tmp").empty());
}

TEST(Cache, VerifiesAndClears) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(cache->put(key_of(std::to_string(i)), content_of(5)));
  }
  EXPECT_TRUE(cache->verify());
  overwrite(files_of(folder / "cache", ".entry")[2], content_of(5));
  EXPECT_EQ(cache->verify().error().code(), errc::cache_corrupt);
  std::ofstream(folder / "cache/old.entry.bad");
  std::ofstream(folder / "cache/notes.txt");
  EXPECT_TRUE(cache->clear());
  EXPECT_TRUE(cache->verify());
  EXPECT_EQ(cache->stats().entries, 0U);
  EXPECT_TRUE(files_of(folder / "cache", ".bad").empty());
  EXPECT_TRUE(fs::exists(folder / "cache/notes.txt"));
}

TEST(Cache, IsWholeForReadersWhileProcessesWriteOneKey) {
  const temp_folder folder;
  const std::string path = folder / "cache";
  const auto cache = open_cache(path, true);
  std::vector<pid_t> writers;
  for (std::uint8_t w = 0; w < 2; ++w) {
    writers.push_back(in_process([&path, w] {
      const auto own = open_cache(path);
      for (int i = 0; i < 40; ++i) {
        if (!own->put(key_of("k"), content_of(20000U + 100U * w, w))) {
          return 1;
        }
      }
      return 0;
    }));
  }
  std::size_t seen = 0;
  for (int i = 0; i < 300; ++i) {
    const auto got = cache->get(key_of("k"));
    ASSERT_TRUE(got) << got.error().message();
    if (*got) {
      ++seen;
      const auto first = std::to_integer<std::uint8_t>((**got)[0]);
      ASSERT_EQ(**got, content_of(20000U + 100U * first, first));
    }
  }
  for (const pid_t writer : writers) {
    EXPECT_EQ(exit_code_of_process(writer), 0);
  }
  EXPECT_TRUE(or_throw(cache->get(key_of("k"))));
  EXPECT_TRUE(files_of(path, ".tmp").empty());
}

/// Whoever opens the cache looks for files that killed writers have left.
TEST(Cache, KeepsAnEntryThatIsWrittenWhileOthersOpenTheCache) {
  const temp_folder folder;
  const std::string path = folder / "cache";
  const auto cache = open_cache(path);
  std::atomic<bool> over{false};
  std::thread opens([&] {
    while (!over) {
      open_cache(path);
    }
  });
  int failures = 0;
  for (int i = 0; i < 1000; ++i) {
    failures += cache->put(key_of("k"), content_of(64)) ? 0 : 1;
  }
  over = true;
  opens.join();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(files_of(path, ".tmp").empty());
}

TEST(Cache, IsReadableAfterItsWriterWasKilled) {
  const temp_folder folder;
  const std::string path = folder / "cache";
  for (int round = 0; round < 12; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t writer = in_process([&path, &pipe] {
      const auto own = open_cache(path);
      for (int i = 0;; ++i) {
        const auto put = own->put(key_of(std::to_string(i % 7)), content_of(200000));
        if (!put || ::write(pipe[1], "x", 1) != 1) {
          return 1;
        }
      }
    });
    // The process is killed in the middle of the write after this one.
    for (int written = 0; written <= round; ++written) {
      char byte = 0;
      ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
    }
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    ::close(pipe[0]);
    ::close(pipe[1]);
    const auto cache = open_cache(path, true);
    EXPECT_TRUE(cache->verify()) << "round " << round;
    EXPECT_TRUE(files_of(path, ".tmp").empty()) << "round " << round;
    const auto got = cache->get(key_of("0"));
    ASSERT_TRUE(got) << "round " << round;
    ASSERT_TRUE(*got) << "round " << round;
    EXPECT_EQ(**got, content_of(200000)) << "round " << round;
  }
}

TEST(Cache, IsSharedByThreads) {
  const temp_folder folder;
  const auto cache = open_cache(folder / "cache", true);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint8_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 30; ++i) {
        const cache_key key = key_of(std::to_string((t + i) % 5));
        const std::size_t bytes = 100 + (t + i) % 5;
        if (!cache->put(key, content_of(bytes))) {
          ++wrong;
        }
        const auto got = cache->get(key);
        if (!got || !*got || **got != content_of(bytes)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache->stats().entries, 5U);
}

TEST(Cache, FolderComesFromTheEnvironment) {
  ::unsetenv("TESS_CACHE_DIR");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_folder_from_environment(), "");
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_folder_from_environment(), "/somewhere/tessera");
  ::setenv("TESS_CACHE_DIR", "/else", 1);
  EXPECT_EQ(cache_folder_from_environment(), "/else");
  ::setenv("TESS_CACHE_DIR", "", 1);
  EXPECT_EQ(cache_folder_from_environment(), "");
  ::unsetenv("TESS_CACHE_DIR");
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace weir::tessera
