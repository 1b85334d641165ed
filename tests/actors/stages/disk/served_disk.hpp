// SPDX-License-Identifier: Apache-2.0
/// @file
/// One disk of a test that threads and child processes use together: operations of all of
/// them come one after another, so that a fault or a crash has one place in their order.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/messages.hpp"
#include "weir/base/file.hpp"
#include "weir/base/record.hpp"

namespace weir::test {

/// Lets several threads use a file system that belongs to one thread.
/// @threads{safe to call concurrently}
class locked_files final : public file_system {
 public:
  /// @param disk  Must outlive this object and all files that it opens.
  explicit locked_files(file_system& disk) : disk_(disk) {}

  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    const auto lock = begin(path);
    WEIR_TRY(auto opened, disk_.open(path, mode));
    return std::unique_ptr<file>(std::make_unique<handle>(*this, std::move(opened)));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    const auto lock = begin(from);
    return disk_.rename(from, to);
  }
  result<void> remove(const std::string& path) override {
    const auto lock = begin(path);
    return disk_.remove(path);
  }
  result<std::vector<std::string>> list(const std::string& folder) override {
    const auto lock = begin(folder);
    return disk_.list(folder);
  }
  result<void> make_folder(const std::string& path) override {
    const auto lock = begin(path);
    return disk_.make_folder(path);
  }
  result<void> sync_folder(const std::string& folder) override {
    const auto lock = begin(folder);
    return disk_.sync_folder(folder);
  }
  bool exists(const std::string& path) override {
    const auto lock = begin(path);
    return disk_.exists(path);
  }
  /// Returns the path of the operation that is under way.
  /// @pre The disk calls a function of the test now.
  [[nodiscard]] const std::string& current_path() const noexcept { return path_; }

 private:
  class handle final : public file {
   public:
    handle(locked_files& fs, std::unique_ptr<file> whole)
        : fs_(fs), whole_(std::move(whole)) {}
    result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
      const auto lock = fs_.begin(whole_->path());
      return whole_->read_some(offset, to);
    }
    result<std::size_t> write_some(std::uint64_t offset, bytes_view from) override {
      const auto lock = fs_.begin(whole_->path());
      return whole_->write_some(offset, from);
    }
    result<std::uint64_t> size() override {
      const auto lock = fs_.begin(whole_->path());
      return whole_->size();
    }
    result<void> resize(std::uint64_t bytes) override {
      const auto lock = fs_.begin(whole_->path());
      return whole_->resize(bytes);
    }
    result<void> sync() override {
      const auto lock = fs_.begin(whole_->path());
      return whole_->sync();
    }
    const std::string& path() const noexcept override { return whole_->path(); }

   private:
    locked_files& fs_;
    std::unique_ptr<file> whole_;
  };

  /// Begins an operation, which lasts as long as the result lives.
  [[nodiscard]] std::unique_lock<std::mutex> begin(const std::string& path) {
    std::unique_lock lock(mutex_);
    path_ = path;
    return lock;
  }

  file_system& disk_;
  std::mutex mutex_;
  std::string path_;
};

/// What a child process asks of the disk. Each request is one packet: the operation, a
/// file, two numbers, two texts, and bytes. Each answer is one packet: 0 and an error as
/// text, or 1, a number, and bytes.
enum class disk_request : std::uint8_t {
  open,
  close,
  read,
  write,
  size,
  resize,
  sync,
  rename,
  remove,
  list,
  make_folder,
  sync_folder,
  exists
};

/// Fields of a request.
struct disk_call {
  disk_request kind = disk_request::exists;
  std::uint64_t file = 0;
  std::uint64_t offset = 0;  ///< or the size of `resize`
  std::uint64_t count = 0;   ///< bytes of a read, or the mode of `open`
  std::string path;
  std::string to;
  byte_vector bytes;
};

/// Fields of an answer that is not an error.
struct disk_answer {
  std::uint64_t number = 0;
  byte_vector bytes;
};

/// Largest number of bytes that one read or write moves, so that a packet has an end.
inline constexpr std::size_t max_disk_bytes = 65536;

/// Sends a packet. Returns false if the other side is gone.
inline bool send_packet(int fd, bytes_view packet) {
  return ::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(packet.size());
}
/// Receives a packet; an empty one if the other side is gone.
inline byte_vector receive_packet(int fd) {
  byte_vector packet(2 * max_disk_bytes);
  ssize_t got = -1;
  do {
    got = ::recv(fd, packet.data(), packet.size(), 0);
  } while (got < 0 && errno == EINTR);
  packet.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return packet;
}
/// Returns the address of a socket.
inline sockaddr_un socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw std::length_error("the path of the socket of the disk is too long");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

/// Serves a file system to child processes, over a socket.
/// @threads{thread-compatible}
class served_disk {
 public:
  /// @param disk  Safe to call concurrently; must outlive this object.
  /// @param path  Path of the socket, which is removed with this object.
  served_disk(file_system& disk, std::string path)
      : disk_(disk),
        path_(std::move(path)),
        socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = socket_address(path_);
    if (socket_ < 0 ||
        ::bind(socket_, reinterpret_cast<const sockaddr*>(&address),  // NOLINT
               sizeof(address)) != 0 ||
        ::listen(socket_, SOMAXCONN) != 0) {
      throw std::runtime_error("cannot serve the disk: " + path_);
    }
    acceptor_ = std::thread([this] { accept_all(); });
  }
  served_disk(const served_disk&) = delete;
  served_disk& operator=(const served_disk&) = delete;
  /// Waits until all children have closed their connections.
  ~served_disk() {
    ::shutdown(socket_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& one : clients_) {
      one.join();
    }
    ::close(socket_);
    ::unlink(path_.c_str());
  }

  /// Returns the child process for which the calling thread performs an operation; 0 if
  /// it does so for no child.
  [[nodiscard]] static pid_t client() noexcept { return current_client(); }

 private:
  static pid_t& current_client() noexcept {
    static thread_local pid_t client = 0;
    return client;
  }
  void accept_all() {
    for (int fd = 0; (fd = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      clients_.emplace_back([this, fd] {
        ucred peer{};
        socklen_t bytes = sizeof(peer);
        ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
        current_client() = peer.pid;
        serve(fd);
        ::close(fd);
      });
    }
  }
  void serve(int fd) {
    std::map<std::uint64_t, std::unique_ptr<file>> files;
    while (true) {
      const byte_vector packet = receive_packet(fd);
      if (packet.empty()) {
        return;
      }
      const auto done = perform(packet, files);
      record_writer answer;
      answer.put(static_cast<std::uint8_t>(done ? 1 : 0));
      if (done) {
        answer.put(done->number);
        answer.put_bytes(done->bytes);
      } else {
        answer.put_bytes(as_view(actors::wire_text(done.error())));
      }
      if (!send_packet(fd, answer.view())) {
        return;
      }
    }
  }
  result<disk_answer> perform(bytes_view packet,
                              std::map<std::uint64_t, std::unique_ptr<file>>& files) {
    record_reader fields(packet);
    const auto kind = static_cast<disk_request>(fields.get<std::uint8_t>());
    const auto number = fields.get<std::uint64_t>();
    const auto offset = fields.get<std::uint64_t>();
    const auto count = fields.get<std::uint64_t>();
    const std::string path = fields.get_text();
    const std::string to = fields.get_text();
    disk_answer answer;
    if (kind >= disk_request::rename) {
      return perform_on_path(kind, path, to);
    }
    if (kind == disk_request::open) {
      WEIR_TRY(auto opened, disk_.open(path, static_cast<open_mode>(count)));
      answer.number = ++last_;
      files[answer.number] = std::move(opened);
      return answer;
    }
    file& f = *files.at(number);
    switch (kind) {
      case disk_request::read: {
        answer.bytes.resize(std::min<std::uint64_t>(count, max_disk_bytes));
        WEIR_TRY(const std::size_t got, f.read_some(offset, answer.bytes));
        answer.bytes.resize(got);
        break;
      }
      case disk_request::write: {
        WEIR_TRY(answer.number, f.write_some(offset, fields.rest()));
        break;
      }
      case disk_request::size: {
        WEIR_TRY(answer.number, f.size());
        break;
      }
      case disk_request::resize: WEIR_CHECK(f.resize(offset)); break;
      case disk_request::sync: WEIR_CHECK(f.sync()); break;
      default: files.erase(number);
    }
    return answer;
  }
  result<disk_answer> perform_on_path(disk_request kind, const std::string& path,
                                      const std::string& to) {
    disk_answer answer;
    switch (kind) {
      case disk_request::rename: WEIR_CHECK(disk_.rename(path, to)); break;
      case disk_request::remove: WEIR_CHECK(disk_.remove(path)); break;
      case disk_request::make_folder: WEIR_CHECK(disk_.make_folder(path)); break;
      case disk_request::sync_folder: WEIR_CHECK(disk_.sync_folder(path)); break;
      case disk_request::list: {
        WEIR_TRY(const auto names, disk_.list(path));
        record_writer all;
        for (const std::string& name : names) {
          all.put_text(name);
        }
        answer.bytes = std::move(all).take();
        break;
      }
      default: answer.number = disk_.exists(path) ? 1 : 0;
    }
    return answer;
  }

  file_system& disk_;
  std::string path_;
  int socket_;
  std::atomic<std::uint64_t> last_{0};  ///< number of the file that was opened last
  std::list<std::thread> clients_;
  std::thread acceptor_;
};

/// The disk of the test in a child process.
/// @threads{safe to call concurrently}
class remote_files final : public file_system {
 public:
  /// @param path  Path of the socket of a `served_disk`.
  explicit remote_files(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = socket_address(path);
    if (socket_ < 0 ||
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address),  // NOLINT
                  sizeof(address)) != 0) {
      throw std::runtime_error("cannot reach the disk of the test: " + path);
    }
  }
  remote_files(const remote_files&) = delete;
  remote_files& operator=(const remote_files&) = delete;
  ~remote_files() override { ::close(socket_); }

  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    WEIR_TRY(
        const auto opened,
        ask({disk_request::open, 0, 0, static_cast<std::uint64_t>(mode), path, "", {}}));
    return std::unique_ptr<file>(std::make_unique<handle>(*this, opened.number, path));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    return done({disk_request::rename, 0, 0, 0, from, to, {}});
  }
  result<void> remove(const std::string& path) override {
    return done({disk_request::remove, 0, 0, 0, path, "", {}});
  }
  result<std::vector<std::string>> list(const std::string& folder) override {
    WEIR_TRY(const auto found, ask({disk_request::list, 0, 0, 0, folder, "", {}}));
    std::vector<std::string> names;
    for (record_reader all(found.bytes); !all.rest().empty();) {
      names.push_back(all.get_text());
    }
    return names;
  }
  result<void> make_folder(const std::string& path) override {
    return done({disk_request::make_folder, 0, 0, 0, path, "", {}});
  }
  result<void> sync_folder(const std::string& folder) override {
    return done({disk_request::sync_folder, 0, 0, 0, folder, "", {}});
  }
  bool exists(const std::string& path) override {
    const auto found = ask({disk_request::exists, 0, 0, 0, path, "", {}});
    return found && found->number != 0;
  }

 private:
  class handle final : public file {
   public:
    handle(remote_files& fs, std::uint64_t number, std::string path)
        : fs_(fs), number_(number), path_(std::move(path)) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() override {
      static_cast<void>(fs_.ask({disk_request::close, number_, 0, 0, "", "", {}}));
    }
    result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
      WEIR_TRY(const auto got,
               fs_.ask({disk_request::read, number_, offset, to.size(), "", "", {}}));
      std::copy(got.bytes.begin(), got.bytes.end(), to.begin());
      return got.bytes.size();
    }
    result<std::size_t> write_some(std::uint64_t offset, bytes_view from) override {
      from = from.first(std::min(from.size(), max_disk_bytes));
      WEIR_TRY(const auto written, fs_.ask({disk_request::write, number_, offset, 0, "",
                                            "", byte_vector(from.begin(), from.end())}));
      return static_cast<std::size_t>(written.number);
    }
    result<std::uint64_t> size() override {
      WEIR_TRY(const auto found,
               fs_.ask({disk_request::size, number_, 0, 0, "", "", {}}));
      return found.number;
    }
    result<void> resize(std::uint64_t bytes) override {
      return fs_.done({disk_request::resize, number_, bytes, 0, "", "", {}});
    }
    result<void> sync() override {
      return fs_.done({disk_request::sync, number_, 0, 0, "", "", {}});
    }
    const std::string& path() const noexcept override { return path_; }

   private:
    remote_files& fs_;
    std::uint64_t number_;
    std::string path_;
  };

  result<disk_answer> ask(const disk_call& call) {
    record_writer request;
    request.put(static_cast<std::uint8_t>(call.kind));
    request.put(call.file);
    request.put(call.offset);
    request.put(call.count);
    request.put_text(call.path);
    request.put_text(call.to);
    request.put_bytes(call.bytes);
    const std::lock_guard lock(mutex_);
    const byte_vector answer =
        send_packet(socket_, request.view()) ? receive_packet(socket_) : byte_vector();
    record_reader fields(answer);
    const auto succeeded = fields.get<std::uint8_t>();
    if (answer.empty()) {
      return error(errc::abandoned, "the disk of the test does not answer");
    }
    if (succeeded == 0) {
      return actors::error_of(as_text(fields.rest()));
    }
    disk_answer out;
    out.number = fields.get<std::uint64_t>();
    out.bytes.assign(fields.rest().begin(), fields.rest().end());
    return out;
  }
  result<void> done(const disk_call& call) {
    WEIR_CHECK(ask(call));
    return {};
  }

  int socket_;
  std::mutex mutex_;
};

}  // namespace weir::test
