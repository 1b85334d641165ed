// SPDX-License-Identifier: Apache-2.0
/// @file
/// The plug-in for one MPI library: compiled once with the headers of each library. The
/// C++ interface of MPI is not used.
///
/// It has no state but `state`, no C++ exceptions, and knows nothing of channels or
/// ranks over MPI: it only passes calls on. All calls are made under the lock of the
/// transport.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <numeric>
#include <vector>

#include "calls.hpp"

namespace weir::mpi {
namespace {

/// An operation that has begun.
struct open_operation {
  MPI_Request request = MPI_REQUEST_NULL;
  void* owner = nullptr;  ///< null after its end
};

/// The operations of a communicator whose tags have the same number of a channel, in the
/// order of their beginnings.
struct operation_group {
  int communicator = 0;
  int channel = 0;
  std::deque<open_operation> open;
  std::size_t next_far = 0;  ///< first one that is tested next, beside the oldest
};

/// What the plug-in knows in this process.
struct plugin_state {
  std::vector<MPI_Comm> communicators;
  /// Has the barriers of the end, so that they are not taken for the copies that a rank
  /// which has not ended makes of the first communicator.
  MPI_Comm ends = MPI_COMM_NULL;
  std::vector<operation_group> groups;  ///< those with operations
  unsigned polls = 0;
  std::vector<open_operation*> tested;  ///< memory of `poll`, as the next three
  std::vector<MPI_Request> requests;
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  MPI_Comm all =
      MPI_COMM_NULL;  ///< communicator of the program, of which copies are made
  std::vector<MPI_Request> greetings;  ///< from each rank, while communicator 0 is made
  std::vector<char> greeted;           ///< memory of the greetings
  std::vector<int> counts;             ///< bytes for each rank, all 1
  std::vector<int> places;             ///< offset of the byte for each rank
  MPI_Comm copy = MPI_COMM_NULL;       ///< communicator that is being made
  MPI_Request copying = MPI_REQUEST_NULL;
  MPI_Request barrier = MPI_REQUEST_NULL;
  bool started_here = false;
};
/// The only state. Calls come one at a time, so it needs no lock.
plugin_state state;

/// Returns the name of a level of threads. The numbers differ between libraries.
const char* name_of_level(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "an unknown level";
  }
}

/// Lets OpenMPI copy messages of up to 16 KiB between ranks of one machine through shared
/// memory. By default, it does so up to 4 KiB with the header of the message, and larger
/// messages cost a system call that takes longer than the copy. Limits that the
/// environment or `mpirun --mca` sets stay; those of OpenMPI's parameter files are
/// overridden. The names are those of OpenMPI 4 and 5; other libraries do not read them.
/// MPI_Init changes the environment as well, so no thread may read it meanwhile. The
/// limit is `small_bytes` of `ranks_over_mpi.cpp`.
void prefer_copies() {
  for (const char* name :
       {"OMPI_MCA_btl_vader_eager_limit", "OMPI_MCA_btl_sm_eager_limit"}) {
    setenv(name, "16384", 0);
  }
}

/// `communicator` points to an MPI_Comm of the program, or is null.
int start(const void* communicator, start_facts* facts) {
  int begun = 0;
  int ended = 0;
  int code = MPI_Initialized(&begun);
  if (code != MPI_SUCCESS || (code = MPI_Finalized(&ended)) != MPI_SUCCESS) {
    return code;
  }
  // Other functions of MPI end the process in these states.
  facts->is_active = ended == 0 && (begun != 0 || communicator == nullptr);
  if (!facts->is_active) {
    return MPI_SUCCESS;
  }
  MPI_Comm all = MPI_COMM_WORLD;
  // The structure is copied, as its type is not known to the caller.
  // The program has started MPI itself and gives a communicator of its own.
  if (communicator != nullptr) {
    std::memcpy(&all, communicator, sizeof all);
    // Processes that are no members of a communicator have this one, and copying it
    // would end the process.
    code = all == MPI_COMM_NULL ? MPI_ERR_COMM : MPI_Query_thread(&facts->thread_level);
  } else if (begun != 0) {
    code = MPI_Query_thread(&facts->thread_level);
  } else {
    prefer_copies();
    code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &facts->thread_level);
    state.started_here = code == MPI_SUCCESS;
  }
  if (code != MPI_SUCCESS) {
    return code;
  }
  facts->needed_level = MPI_THREAD_SERIALIZED;
  facts->level = name_of_level(facts->thread_level);
  facts->started_here = state.started_here;
  state.all = all;
  if ((code = MPI_Comm_rank(all, &facts->rank)) != MPI_SUCCESS ||
      (code = MPI_Comm_size(all, &facts->ranks)) != MPI_SUCCESS) {
    return code;
  }
  // Only MPI_COMM_WORLD has this attribute in all libraries; 32767 is guaranteed.
  void* value = nullptr;
  int present = 0;
  code =
      MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &present);
  facts->max_tag = present != 0 ? *static_cast<int*>(value) : 32767;
  return code;
}

/// Largest number of ranks that greet each other.
constexpr int max_greeted = 1024;

/// Begins to send a byte to each rank and to receive one from each, so that a rank which
/// waits for communicator 0 knows who has come. These are collective operations, since
/// usual messages would meet those of the program in its communicator. The bytes of one
/// rank come without a third rank in the libraries that there are plug-ins for.
int begin_greetings() {
  int rank = 0;
  int ranks = 0;
  int code = MPI_Comm_rank(state.all, &rank);
  if (code != MPI_SUCCESS || (code = MPI_Comm_size(state.all, &ranks)) != MPI_SUCCESS ||
      ranks > max_greeted) {
    return code;
  }
  const auto size = static_cast<std::size_t>(ranks);
  state.greeted.assign(2 * size, '\0');
  state.counts.assign(size, 1);
  state.places.resize(size);
  std::iota(state.places.begin(), state.places.end(), 0);
  state.greetings.assign(size, MPI_REQUEST_NULL);
  for (int from = 0; from < ranks && code == MPI_SUCCESS; ++from) {
    const auto at = static_cast<std::size_t>(from);
    code = MPI_Iscatterv(&state.greeted[size], state.counts.data(), state.places.data(),
                         MPI_BYTE, &state.greeted[at], 1, MPI_BYTE, from, state.all,
                         &state.greetings[at]);
  }
  return code;
}

/// Copying is collective, so it runs in the background until all ranks take part. Copies
/// keep messages apart from those of the program. The first one is made of its
/// communicator, and the others of the first one.
int begin_copy() {
  if (!state.communicators.empty()) {
    return MPI_Comm_idup(state.communicators.front(), &state.copy, &state.copying);
  }
  // OpenMPI copies in several steps, each a collective operation that begins when the one
  // before has ended. Operations between them would have another order on each rank.
  const int code = begin_greetings();
  return code == MPI_SUCCESS ? MPI_Comm_idup(state.all, &state.copy, &state.copying)
                             : code;
}

/// `*ready` tells whether the copy has been made. Behind communicator 0, that of the
/// barriers is made.
int copy_ready(bool* ready) {
  int done = 0;
  *ready = false;
  int code = MPI_Testall(static_cast<int>(state.greetings.size()), state.greetings.data(),
                         &done, MPI_STATUSES_IGNORE);
  if (code != MPI_SUCCESS || done == 0 ||
      (code = MPI_Test(&state.copying, &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS ||
      done == 0) {
    return code;
  }
  state.greetings.clear();
  // Errors are returned and do not end the process.
  if ((code = MPI_Comm_set_errhandler(state.copy, MPI_ERRORS_RETURN)) != MPI_SUCCESS) {
    return code;
  }
  const bool is_first = state.communicators.empty();
  if (is_first || state.ends != MPI_COMM_NULL) {
    state.communicators.push_back(state.copy);
  } else {
    state.ends = state.copy;
  }
  *ready = !is_first;
  return is_first ? begin_copy() : code;
}

/// A greeting that has come is a request without an operation.
int absent_rank() {
  for (std::size_t from = 0; from < state.greetings.size(); ++from) {
    int done = 0;
    if (MPI_Test(&state.greetings[from], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        done == 0) {
      return static_cast<int>(from);
    }
  }
  return -1;
}

/// Notes an operation that has begun.
/// A group is found by a linear search, since there are only as many as channels in use.
int note(int code, int communicator, int tag, MPI_Request request, void* owner) {
  if (code != MPI_SUCCESS) {
    return code;
  }
  const int channel = tag >> number_bits;
  auto group = std::find_if(
      state.groups.begin(), state.groups.end(), [&](const operation_group& one) {
        return one.communicator == communicator && one.channel == channel;
      });
  if (group == state.groups.end()) {
    group = state.groups.insert(group, operation_group{communicator, channel, {}, 0});
  }
  group->open.push_back({request, owner});
  return code;
}

/// A synchronous send ends only when its receive has begun.
/// Most small messages have left when MPI_Isend returns, and the test sees it without a
/// look at the network.
int send(int communicator, int to, int tag, const void* bytes, int count,
         bool synchronous, bool* ended, void* owner) {
  MPI_Comm over = state.communicators[static_cast<std::size_t>(communicator)];
  MPI_Request request = MPI_REQUEST_NULL;
  int code = synchronous ? MPI_Issend(bytes, count, MPI_BYTE, to, tag, over, &request)
                         : MPI_Isend(bytes, count, MPI_BYTE, to, tag, over, &request);
  if (code == MPI_SUCCESS && ended != nullptr) {
    int done = 0;
    code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    *ended = done != 0;
    if (*ended) {
      return code;
    }
  }
  return note(code, communicator, tag, request, owner);
}

/// The buffer must stay until the operation has ended.
int receive(int communicator, int from, int tag, void* into, int count, void* owner) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Irecv(into, count, MPI_BYTE, from, tag,
                state.communicators[static_cast<std::size_t>(communicator)], &request);
  return note(code, communicator, tag, request, owner);
}

/// The operation ends later, cancelled or not.
int cancel(void* owner) {
  for (operation_group& group : state.groups) {
    for (open_operation& one : group.open) {
      if (one.owner == owner) {
        return MPI_Cancel(&one.request);
      }
    }
  }
  return MPI_SUCCESS;
}

/// Fills the end of one operation.
/// A cancelled receive may still have got its message; MPI_Test_cancelled tells. On an
/// error, the number of bytes is not known.
void fill_end(operation_end& end, void* owner, MPI_Status& status, int code) {
  end = {};
  end.owner = owner;
  end.code = code;
  int cancelled = 0;
  int count = 0;
  // A cancelled receive has no bytes.
  if (code == MPI_SUCCESS && MPI_Test_cancelled(&status, &cancelled) == MPI_SUCCESS &&
      cancelled == 0) {
    MPI_Get_count(&status, MPI_BYTE, &count);
  } else if (code != MPI_SUCCESS) {
    int kind = 0;
    MPI_Error_class(code, &kind);
    end.truncated = kind == MPI_ERR_TRUNCATE;
  }
  end.cancelled = cancelled != 0;
  end.bytes = count > 0 ? static_cast<std::size_t>(count) : 0;
}

/// Number of operations of a group that a poll tests: of the oldest ones, and of the
/// others.
constexpr std::size_t looked_at = 8;
/// Polls until one tests others than the oldest operations.
constexpr unsigned polls_between_far = 4;

/// Adds the operations at [first, last) of a group to those that `poll` tests.
void add_tested(operation_group& group, std::size_t first, std::size_t last) {
  auto one = group.open.begin() + static_cast<std::ptrdiff_t>(first);
  for (std::size_t i = first; i < last; ++i, ++one) {
    if (one->owner != nullptr) {
      state.tested.push_back(&*one);
      state.requests.push_back(one->request);
    }
  }
}

/// Chooses the operations that a poll tests. A rank may have begun receives for hundreds
/// of steps, and the library takes time for each that it tests, so the oldest are tested
/// each time and the others in turn.
void choose_tested() {
  state.tested.clear();
  state.requests.clear();
  // The tests of all other operations are spread over several polls.
  const bool far = ++state.polls % polls_between_far == 0;
  for (operation_group& group : state.groups) {
    const std::size_t size = group.open.size();
    const std::size_t near = std::min(size, looked_at);
    add_tested(group, 0, near);
    if (!far || size == near) {
      continue;
    }
    const std::size_t first = std::max(near, group.next_far);
    const std::size_t last = std::min(first + looked_at, size);
    add_tested(group, std::min(first, size), last);
    group.next_far = last >= size ? 0 : last;
  }
}

/// Removes the operations that have ended and stand among the oldest of their groups.
/// Ended operations behind the oldest ones stay as empty entries until they become old:
/// removing them from the middle of a deque would cost more.
void remove_ended() {
  for (operation_group& group : state.groups) {
    const std::size_t near = std::min(group.open.size(), looked_at);
    std::size_t to = near;
    for (std::size_t from = near; from-- > 0;) {
      if (group.open[from].owner != nullptr) {
        group.open[--to] = group.open[from];
      }
    }
    // The operations that have not ended were moved to [to, near), in their order.
    group.open.erase(group.open.begin(),
                     group.open.begin() + static_cast<std::ptrdiff_t>(to));
    group.next_far -= std::min(group.next_far, to);
  }
  std::erase_if(state.groups,
                [](const operation_group& one) { return one.open.empty(); });
}

/// The statuses have error codes of their own only if the call as a whole returns
/// MPI_ERR_IN_STATUS.
int poll(operation_end* ends, int capacity) {
  choose_tested();
  const std::size_t tested = state.tested.size();
  if (tested == 0) {
    remove_ended();
    return 0;
  }
  if (tested > static_cast<std::size_t>(capacity)) {
    return -1;
  }
  state.indices.resize(tested);
  state.statuses.resize(tested);
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(tested), state.requests.data(), &count,
                                state.indices.data(), state.statuses.data());
  // MPI_UNDEFINED says that no request of the list is active.
  if (count == MPI_UNDEFINED || count <= 0) {
    return 0;
  }
  for (int i = 0; i < count; ++i) {
    open_operation& one = *state.tested[static_cast<std::size_t>(
        state.indices[static_cast<std::size_t>(i)])];
    MPI_Status& status = state.statuses[static_cast<std::size_t>(i)];
    fill_end(ends[i], one.owner, status,
             code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS);
    // The entry stays until `remove_ended`; its owner is null from now on.
    one = {};
  }
  remove_ended();
  return count;
}

/// Looks for a control message with a tag. These use the first communicator only.
int probe(int tag, bool* found, int* from, int* count) {
  int flag = 0;
  MPI_Status status;
  const int code =
      MPI_Iprobe(MPI_ANY_SOURCE, tag, state.communicators.front(), &flag, &status);
  *found = code == MPI_SUCCESS && flag != 0;
  if (*found) {
    *from = status.MPI_SOURCE;
    MPI_Get_count(&status, MPI_BYTE, count);
  }
  return code;
}

/// Takes a message that was probed; it is there, so the call does not wait.
int take(int from, int tag, void* into, int count) {
  return MPI_Recv(into, count, MPI_BYTE, from, tag, state.communicators.front(),
                  MPI_STATUS_IGNORE);
}

/// Barriers are used at the end only.
int begin_barrier() {
  return MPI_Ibarrier(state.ends, &state.barrier);
}

/// After the end of the barrier its request is null, and the test says that it is done.
int barrier_ready(bool* ready) {
  int done = 0;
  const int code = MPI_Test(&state.barrier, &done, MPI_STATUS_IGNORE);
  *ready = done != 0;
  return code;
}

/// Receives the messages of a communicator that nobody wants.
void drop_messages(MPI_Comm over) {
  std::vector<char> rest;
  for (;;) {
    int flag = 0;
    int count = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, over, &flag, &status) != MPI_SUCCESS ||
        // No message is left.
        flag == 0) {
      return;
    }
    MPI_Get_count(&status, MPI_BYTE, &count);
    rest.resize(static_cast<std::size_t>(std::max(count, 1)));
    MPI_Recv(rest.data(), count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, over,
             MPI_STATUS_IGNORE);
  }
}

/// Messages of all channels are in the communicators, those of control channels in the
/// first.
void drop() {
  for (MPI_Comm const one : state.communicators) {
    drop_messages(one);
  }
}

/// MPI is ended only if it was started here. All operations have ended, so the next start
/// begins with an empty state.
int finish() {
  state.communicators.push_back(state.ends);
  for (MPI_Comm& one : state.communicators) {
    // A start that was refused has made none.
    if (one != MPI_COMM_NULL) {
      MPI_Comm_free(&one);
    }
  }
  const bool started_here = state.started_here;
  state = {};
  return started_here ? MPI_Finalize() : MPI_SUCCESS;
}

/// The text is cut to the memory of the caller.
void explain(int code, char* text, std::size_t size) {
  char words[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, words, &length);
  std::snprintf(text, size, "%s", words);
}

/// Enough for the version of any library: the one that answers may be another than the
/// one whose headers were included, and the limits of OpenMPI and MPICH are 256 and 8192.
constexpr std::size_t max_version = 65536;

/// Writes the version of the library, and the file from which it was loaded.
void describe(char* version, char* path, std::size_t size) {
  static char words[max_version];
  int length = 0;
  MPI_Get_library_version(words, &length);
  // MPICH describes its build on further lines.
  words[std::strcspn(words, "\n")] = '\0';
  std::snprintf(version, size, "%s", words);
  Dl_info facts{};
  // The address of a function tells the file.
  const bool known = dladdr(reinterpret_cast<void*>(&MPI_Comm_dup), &facts) != 0;
  std::snprintf(path, size, "%s", known ? facts.dli_fname : "unknown");
}

/// The order is that of `calls`.
constexpr calls all_calls{calls_version,
                          WEIR_MPI_LIBRARY,
                          sizeof(MPI_Comm),
                          start,
                          begin_copy,
                          copy_ready,
                          absent_rank,
                          send,
                          receive,
                          cancel,
                          poll,
                          probe,
                          take,
                          begin_barrier,
                          barrier_ready,
                          drop,
                          finish,
                          explain,
                          describe};

}  // namespace
}  // namespace weir::mpi

/// Returns the calls of this plug-in.
extern "C" __attribute__((visibility("default"))) const weir::mpi::calls*
weir_mpi_calls() {
  return &weir::mpi::all_calls;
}
