// SPDX-License-Identifier: Apache-2.0
/// @file
/// Batches of range requests: which of them run at the same time, which are repeated or
/// redirected, and when the call must end.
///
/// Each call runs its own loop over a multi handle of libcurl on the calling thread.
/// Handles are kept between calls, because they hold open connections.
///
///   range -> request -> answer: done | part | repeat | redirect | failed
///
/// A range that arrives in part asks for the rest, a range whose request failed waits for
/// its pause, and a redirected range goes to its new address. The call ends with the
/// first failure that a repeat cannot help, and its other requests are then dropped.
#include "tensogram/remote/client.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weir::formats {

namespace {

using std::chrono::milliseconds;

/// Largest number of requests of one batch that run at the same time.
/// Browsers use the same number for one server.
constexpr std::size_t max_in_flight = 6;
/// Largest number of unused multi handles that are kept.
constexpr std::size_t max_idle_handles = 4;
/// As many redirects as are followed for one range.
constexpr unsigned max_redirects = 5;
/// The pause between repetitions doubles up to this limit.
constexpr milliseconds longest_pause{10000};
/// A request is not repeated if the server asks for a longer wait than this.
constexpr std::chrono::seconds longest_retry_after{60};
/// A connection that breaks after this many bytes does not count as a failed attempt, so
/// that a long range over an unreliable line arrives in the end.
constexpr std::uint64_t good_progress = 64 << 10;

/// Initialises libcurl once per process; the call is not safe on several threads.
/// Every client calls this before its first request.
void start_libcurl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

/// Returns true if a status means that the target of an earlier redirect no longer serves
/// the file.
bool no_longer_served(long status) {
  return status == 401 || status == 403 || status == 404 || status == 410;
}

}  // namespace

/// The ranges of one call, each with the state of its requests. Runs on the thread of the
/// caller. @threads{one thread at a time; a stop request may come from any thread}
class range_batch {
 public:
  range_batch(range_client& client, const call_end& end)
      : client_(client), end_(end), multi_(client.take_handle()) {}
  range_batch(const range_batch&) = delete;
  range_batch& operator=(const range_batch&) = delete;
  // Requests that still run are removed before the handle goes back.
  ~range_batch() {
    for (job& j : jobs_) {
      release(j);
    }
    client_.give_handle(std::move(multi_));
  }

  /// Adds a range. @pre run() has not been called
  void add(const range_wanted& wanted) {
    job j;
    j.wanted = wanted;
    j.offset = wanted.offset;
    // The offset and the size are kept for messages, while `wanted` shrinks.
    j.size = wanted.to.size();
    j.url = client_.current_url();
    jobs_.push_back(std::move(j));
  }

  /// Runs all requests until every range has arrived, or until the first failure. A stop
  /// request wakes the loop.
  result<void> run() {
    // curl_multi_wakeup() is the only function of a handle that another thread may call.
    const std::stop_callback wake(end_.stop, [this] { curl_multi_wakeup(multi_.get()); });
    while (done_ < jobs_.size()) {
      WEIR_CHECK(check_limits());
      const steady_time now = std::chrono::steady_clock::now();
      // The order of the ranges is the order in which their requests start.
      for (job& j : jobs_) {
        if (!j.done && j.running == nullptr && j.not_before <= now &&
            in_flight_ < max_in_flight) {
          WEIR_CHECK(start(j, now));
        }
      }
      int running = 0;
      curl_multi_perform(multi_.get(), &running);
      WEIR_CHECK(take_answers());
      if (done_ < jobs_.size()) {
        wait();
      }
    }
    return {};
  }

  /// Returns the version of the file, and whether all of it was sent. Both are known
  /// after the first request of a file.
  [[nodiscard]] const file_version& version() const noexcept { return version_; }
  [[nodiscard]] bool got_whole() const noexcept { return got_whole_; }

 private:
  /// A range and the state of its requests.
  struct job {
    range_wanted wanted;                ///< the part that has not arrived yet
    std::uint64_t offset = 0;           ///< offset of the whole range, for errors
    std::uint64_t size = 0;             ///< size of the whole range, for errors
    std::string url;                    ///< of the next request
    unsigned requests = 0;              ///< requests that were sent, for errors
    unsigned repeats = 0;               ///< repetitions since the last progress
    unsigned redirects = 0;             ///< followed for this range
    bool started_over = false;          ///< went back to the original address once
    bool done = false;                  ///< all bytes have arrived
    steady_time not_before{};           ///< end of the pause before the next request
    std::unique_ptr<transfer> running;  ///< the request under way; null between requests
  };

  /// Returns the error for a range, without secrets and with the number of requests.
  error failure(const job& j, errc code, const std::string& reason,
                const std::string& hint = {}) const {
    const std::string attempts =
        j.requests > 1 ? fmt::format(" after {} requests", j.requests) : "";
    const range_client& c = client_;
    error out = error(code, c.settings().without_secrets(
                                fmt::format("cannot read {} bytes of \"{}\": {}{}",
                                            j.size, c.address().name, reason, attempts)))
                    .located(fmt::format("{}:{}", c.address().name, j.offset));
    return hint.empty() ? out : std::move(out).hint(hint);
  }

  /// Returns the first range that has not arrived; an error of the whole call names it.
  /// There is one, because the loop runs while `done_` is smaller than the number of
  /// ranges.
  const job& unfinished() const {
    return *std::find_if(jobs_.begin(), jobs_.end(),
                         [](const job& j) { return !j.done; });
  }

  /// Returns an error if the call was cancelled or its time is over.
  result<void> check_limits() const {
    if (end_.stop.stop_requested()) {
      return failure(unfinished(), errc::interrupted,
                     "expected the call to run to its end, found it cancelled");
    }
    if (std::chrono::steady_clock::now() >= end_.deadline) {
      return failure(unfinished(), errc::timeout,
                     "expected an answer within the time of the call, found none");
    }
    return {};
  }

  /// Returns the time limit of a request: its own one, or the rest of the call's time if
  /// that is shorter.
  milliseconds time_limit(steady_time now) const {
    const milliseconds own = client_.settings().timeout;
    if (end_.deadline == steady_time::max()) {
      return own;
    }
    // Never 0, which libcurl takes for "no limit".
    const auto left =
        std::max(milliseconds(1), std::chrono::ceil<milliseconds>(end_.deadline - now));
    // A limit of 0 in the settings means that a request has none of its own.
    return own.count() == 0 ? left : std::min(own, left);
  }

  /// Starts the next request of a range.
  result<void> start(job& j, steady_time now) {
    const request_target target{client_.address(), client_.settings(), j.url,
                                // A request to another server carries no secrets; see
                                // transfer::sign().
                                same_server(client_.address().url, j.url)};
    j.running = std::make_unique<transfer>(target, j.wanted, time_limit(now));
    if (j.running->handle() == nullptr ||
        curl_multi_add_handle(multi_.get(), j.running->handle()) != CURLM_OK) {
      return failure(j, errc::out_of_memory,
                     "expected memory for a request, found too little");
    }
    ++in_flight_;
    ++j.requests;
    client_.requests_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }

  /// Ends the request of a range and counts the bytes that it has received.
  void release(job& j) {
    if (j.running == nullptr) {
      return;
    }
    client_.bytes_.fetch_add(j.running->received(), std::memory_order_relaxed);
    if (j.running->handle() != nullptr) {
      curl_multi_remove_handle(multi_.get(), j.running->handle());
    }
    j.running.reset();
    --in_flight_;
  }

  /// Takes the finished requests from libcurl.
  /// libcurl reports every finished request once.
  result<void> take_answers() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) {
        continue;
      }
      const CURLcode code = message->data.result;
      CURL* handle = message->easy_handle;
      // The handle belongs to a job, since only jobs add handles.
      const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const job& j) {
        return j.running != nullptr && j.running->handle() == handle;
      });
      auto done = finish(*found, code);
      release(*found);
      WEIR_CHECK(std::move(done));
    }
    return {};
  }

  /// Decides what follows a finished request. If a redirect of an earlier call led to a
  /// server that no longer has the file, the range starts over once at the original
  /// address.
  result<void> finish(job& j, CURLcode code) {
    transfer& t = *j.running;
    switch (t.finish(code)) {
      case transfer::outcome::done:
        keep_version(j, t);
        j.done = true;
        ++done_;
        // Later calls go straight to the server that had the file.
        if (j.redirects > 0) {
          client_.remember_url(j.url);
        }
        return {};
      case transfer::outcome::part: keep_part(j, t); return repeat(j, t);
      case transfer::outcome::repeat: return repeat(j, t);
      case transfer::outcome::redirect: return redirect(j, t);
      case transfer::outcome::failed: break;
    }
    if (no_longer_served(t.status()) && !j.started_over && j.redirects == 0 &&
        j.url != client_.address().url) {
      j.url = client_.address().url;
      j.started_over = true;
      client_.remember_url(j.url);
      return {};
    }
    return failure(j, t.code(), t.reason(), t.hint());
  }

  /// The first answer of a file determines the version that all other answers must have.
  void keep_version(job& j, const transfer& t) {
    if (j.wanted.version == nullptr) {
      version_ = t.version();
      got_whole_ = t.got_whole();
    }
  }

  /// Keeps the bytes that have arrived, so that the next request asks for the others
  /// only. The version is then fixed, even in the first request of a file.
  void keep_part(job& j, const transfer& t) {
    if (j.wanted.version == nullptr) {
      version_ = t.version();
      j.wanted.version = &version_;
      j.wanted.whole = nullptr;
      // The first request asks for more bytes than a small file has.
      j.wanted.to =
          j.wanted.to.first(std::min<std::uint64_t>(j.wanted.to.size(), version_.size));
    }
    // Progress makes up for earlier failures.
    j.repeats = t.received() >= good_progress ? 0 : j.repeats;
    j.wanted.offset += t.received();
    j.wanted.to = j.wanted.to.subspan(t.received());
  }

  /// Schedules another request after a pause that doubles with each repetition, and is at
  /// least as long as the server asks for.
  result<void> repeat(job& j, const transfer& t) {
    if (j.repeats >= client_.repeats_) {
      return failure(j, t.timed_out() ? errc::timeout : errc::source_unavailable,
                     t.reason(), t.hint());
    }
    if (t.retry_after() > longest_retry_after) {
      return failure(
          j, errc::source_unavailable,
          fmt::format("{} and Retry-After {} s", t.reason(), t.retry_after().count()));
    }
    // 0.1 s, 0.2 s, 0.4 s and so on, with the default settings.
    milliseconds pause =
        std::min(longest_pause, client_.first_pause_ * (1U << std::min(j.repeats, 16U)));
    pause = std::max(pause, std::chrono::duration_cast<milliseconds>(t.retry_after()));
    ++j.repeats;
    client_.repeated_.fetch_add(1, std::memory_order_relaxed);
    j.not_before = std::chrono::steady_clock::now() + pause;
    // Waiting beyond the end of the call would be useless.
    if (j.not_before >= end_.deadline) {
      return failure(j, errc::timeout,
                     fmt::format("{} and no time for another request", t.reason()));
    }
    return {};
  }

  /// Follows a redirect. One from https to http is refused, because the content would
  /// then not be protected.
  result<void> redirect(job& j, const transfer& t) {
    if (++j.redirects > max_redirects) {
      return failure(
          j, errc::source_unavailable,
          fmt::format("expected at most {} redirects, found one more to \"{}\"",
                      max_redirects, public_part(t.location())));
    }
    if (is_https(j.url) && !is_https(t.location())) {
      return failure(j, errc::source_unavailable,
                     fmt::format("expected a redirect to https, found one to \"{}\"",
                                 public_part(t.location())));
    }
    j.url = t.location();
    return {};
  }

  /// Waits until bytes arrive, a pause ends, the time of the call is over, or the call is
  /// cancelled, and for a second at most.
  void wait() {
    // Pauses matter only while another request may start.
    steady_time until = end_.deadline;
    for (const job& j : jobs_) {
      if (!j.done && j.running == nullptr && in_flight_ < max_in_flight) {
        until = std::min(until, j.not_before);
      }
    }
    const auto left = until - std::chrono::steady_clock::now();
    // A second at most, so that a wake-up that got lost delays the call little.
    const auto bounded = std::min<std::chrono::steady_clock::duration>(
        std::max<std::chrono::steady_clock::duration>(left, milliseconds(0)),
        milliseconds(1000));
    const auto rounded = std::chrono::ceil<milliseconds>(bounded).count();
    curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(rounded), nullptr);
  }

  range_client& client_;              ///< of the file
  const call_end& end_;               ///< when the call must end
  range_client::multi_handle multi_;  ///< for this call alone
  std::vector<job> jobs_;             ///< in the order of add()
  std::size_t done_ = 0;              ///< jobs that are done
  std::size_t in_flight_ = 0;         ///< requests under way
  file_version version_;              ///< of the first answer
  bool got_whole_ = false;            ///< the first answer was the whole file
};

/// The first request goes to the address itself.
range_client::range_client(remote_address address, remote_settings settings,
                           const remote_options& options)
    : address_(std::move(address)),
      settings_(std::move(settings)),
      repeats_(options.repeats),
      first_pause_(options.first_pause),
      whole_file_bytes_(options.whole_file_bytes),
      url_(address_.url) {
  start_libcurl();
}

/// The counters are independent of each other, so relaxed order suffices.
remote_traffic range_client::traffic() const noexcept {
  return {requests_.load(std::memory_order_relaxed),
          repeated_.load(std::memory_order_relaxed),
          bytes_.load(std::memory_order_relaxed)};
}

std::string range_client::current_url() const {
  const std::scoped_lock lock(mutex_);
  return url_;
}
void range_client::remember_url(std::string url) {
  const std::scoped_lock lock(mutex_);
  url_ = std::move(url);
}

/// A handle is used by one call at a time.
range_client::multi_handle range_client::take_handle() {
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) {
    return multi_handle(curl_multi_init());
  }
  multi_handle out = std::move(idle_.back());
  idle_.pop_back();
  return out;
}
/// Takes a handle back for the next call, with its open connections. A limited number is
/// kept; the others are closed.
void range_client::give_handle(multi_handle multi) {
  const std::scoped_lock lock(mutex_);
  if (multi != nullptr && idle_.size() < max_idle_handles) {
    idle_.push_back(std::move(multi));
  }
}

/// Asks for a range. A server that ignores ranges answers with the whole file, which is
/// taken up to a limit.
result<range_client::opened> range_client::open(std::uint64_t bytes,
                                                const call_end& end) {
  opened out;
  // The memory for the answer; a shorter file leaves its end unused.
  out.first.resize(bytes);
  byte_vector whole;
  range_batch batch(*this, end);
  // Without a version, the answer may have any; with `whole`, it may be the whole file.
  batch.add({0, out.first, nullptr, &whole, whole_file_bytes_});
  WEIR_CHECK(batch.run());
  version_ = batch.version();
  out.size = version_.size;
  out.whole = batch.got_whole();
  if (out.whole) {
    out.first = std::move(whole);
  } else {
    out.first.resize(std::min<std::uint64_t>(bytes, out.size));
  }
  return out;
}

/// Runs one batch on the calling thread.
result<void> range_client::fetch(std::span<const range_request> ranges,
                                 const call_end& end) {
  range_batch batch(*this, end);
  // An empty range would become a request for a range that does not exist.
  for (const range_request& range : ranges) {
    if (!range.to.empty()) {
      batch.add({range.offset, range.to, &version_, nullptr, 0});
    }
  }
  return batch.run();
}

}  // namespace weir::formats
