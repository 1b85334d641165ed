// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places: memories in which tasks run and between which their data is copied. A layer
/// above the task engine: a task names its place, and the copies that it needs become
/// tasks before it. The result is that of running all tasks in one memory.
/// @source{docs/places.md}
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "weir/runtime/copy_ledger.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Number of a place.
using place_id = holder_id;
/// Place of the memory that the processor addresses.
inline constexpr place_id machine_memory = 0;

/// A copy between two places. The bytes have the same offsets on both sides.
struct copy_order {
  footprint bytes;                  ///< bytes to copy, from the start of the storage
  place_id from_place = 0;          ///< place of the source
  const std::byte* from = nullptr;  ///< first byte of the storage at the source
  place_id to_place = 0;            ///< place of the destination
  std::byte* to = nullptr;          ///< first byte of the storage at the destination
};

/// Allocates memory at places and copies between them.
/// @threads{`allocate` and `free`: the submitter; `copy`: any worker, several at a time}
class mover {
 public:
  virtual ~mover() = default;
  /// Returns memory at a place other than 0, aligned to 64 bytes. Its content is
  /// undefined. @units{bytes} @error{out_of_memory; the place is full}
  [[nodiscard]] virtual result<std::byte*> allocate(place_id place,
                                                    std::int64_t bytes) = 0;
  /// Takes back memory that `allocate` returned. @units{bytes}
  virtual void free(place_id place, std::byte* base, std::int64_t bytes) noexcept = 0;
  /// Copies bytes and returns when they have arrived. It runs as the kernel of a task
  /// that reads the source and writes the destination.
  /// @error{io; the bytes have not arrived; the task fails and poisons the destination}
  [[nodiscard]] virtual result<void> copy(const copy_order& order) = 0;

 protected:
  mover() = default;
  mover(const mover&) = default;
  mover& operator=(const mover&) = default;
};

/// Copies bytes between two memories that the processor addresses.
/// @threads{safe for disjoint destinations}
void copy_bytes(const footprint& bytes, const std::byte* from, std::byte* to) noexcept;

/// An access of a task at a place. A write may leave bytes as they were, so old bytes are
/// copied to the place first. `overwrites` says that none is left.
struct placed_access : access {
  /// True if the kernel writes every byte and reads none. It counts for plain writes
  /// alone.
  bool whole = false;

  placed_access() = default;
  /// Takes an access as the engine knows it.
  placed_access(const access& a) : access(a) {}  // NOLINT: implicit on purpose
};
/// Declares that a task writes every byte of the tensor, so that no old byte is copied.
[[nodiscard]] placed_access overwrites(const tensor& t);

/// Counters of copies since the places were made.
struct place_counters {
  std::uint64_t copies = 0;  ///< copy tasks
  std::int64_t bytes = 0;    ///< bytes that they copy
};

/// Submits tasks that run at places. Tensors are named by their storage in the memory of
/// the machine, which the engine has allocated or adopted; its bytes are valid there at
/// first. A storage that has been used at another place is used through this object
/// alone. Not for storages of scopes, and not while the engine records a capture.
///
/// A failed task poisons the bytes that it should have written at every place. A copy
/// whose source is poisoned in part does not run, so that all its bytes are poisoned.
/// After a failure the bytes of poisoned writes are undefined until they are written
/// again; all other bytes keep their values, and are copied once more where they are
/// needed, since copies may have failed.
/// @threads{thread-compatible; belongs to the submitter of the engine}
class places {
 public:
  /// Makes `count` places above an engine. Both references outlive this object.
  /// @pre 1 <= count <= copy_ledger::max_holders
  places(engine& tasks, mover& copies, place_id count);
  /// Waits for the tasks that use copies, and frees the copies.
  ~places();
  places(const places&) = delete;
  places& operator=(const places&) = delete;

  /// Returns the same view of the copy of its storage at a place, for the kernels of that
  /// place. The first call for a storage allocates the copy. `t` lies in place 0.
  /// @error{out_of_range; no such place} @error{out_of_memory; the place is full}
  [[nodiscard]] result<tensor> copy_in(const tensor& t, place_id place);
  /// Submits a task that runs at a place, after the copies that it needs. `accesses` name
  /// bytes of storages in place 0; see `engine::submit` for `kernel` and `name`. Returns
  /// the number of the task.
  /// @error{out_of_range; no such place} @error{not_found; a storage without a copy at
  /// the place} @error{invalid_argument; see `engine::submit`}
  template <class Kernel>
  [[nodiscard]] result<task_id> submit(place_id place, const char* name,
                                       std::span<const placed_access> accesses,
                                       const Kernel& kernel,
                                       const submit_options& options = {}) {
    WEIR_CHECK(prepare(place, accesses));
    WEIR_TRY(const task_id id, tasks_->submit(name, translated_, kernel, options));
    note_writes(place, accesses);
    return id;
  }
  /// Submits the copies that a place needs to have the tensor's bytes. Does not wait.
  /// @error{out_of_range; no such place} @error{out_of_memory; the place is full}
  [[nodiscard]] result<void> bring(const tensor& t, place_id place);
  /// Brings the tensor to the memory of the machine and waits for it.
  /// @error{kernel_failed; a copy or a task that wrote it failed}
  /// @error{upstream_failed; one of them did not run}
  [[nodiscard]] result<void> wait(const tensor& t);
  /// Waits for the tasks of a storage in place 0, and frees it and its copies.
  /// @error{not_found; no such storage}
  [[nodiscard]] result<void> release(storage_id id);

  /// Returns the number of places.
  [[nodiscard]] place_id count() const noexcept { return count_; }
  /// Returns the counters.
  [[nodiscard]] const place_counters& counters() const noexcept { return counters_; }

 private:
  /// The copies of one storage. An entry without an id has no memory.
  struct copies_of_storage {
    copies_of_storage(const storage& first, place_id places)
        : ledger(first.size, machine_memory), at(places) {
      at[machine_memory] = first;
    }
    copy_ledger ledger;
    std::vector<storage> at;
  };
  using table = std::unordered_map<std::uint64_t, copies_of_storage>;

  [[nodiscard]] static std::uint64_t key_of(storage_id id) noexcept {
    return (std::uint64_t{id.generation} << 32U) | id.index;
  }
  [[nodiscard]] result<void> check_place(place_id place) const;
  [[nodiscard]] result<void> prepare(place_id place,
                                     std::span<const placed_access> accesses);
  void note_writes(place_id place, std::span<const placed_access> accesses);
  [[nodiscard]] result<void> translate(place_id place, const placed_access& a);
  [[nodiscard]] result<void> fetch(copies_of_storage& s, const footprint& bytes,
                                   place_id place);
  [[nodiscard]] result<void> copy_piece(copies_of_storage& s, const footprint& bytes,
                                        place_id from, place_id to);
  void forget_failed_copies() noexcept;
  void free_copies(copies_of_storage& s) noexcept;

  engine* tasks_;
  mover* mover_;
  place_id count_;
  table storages_;
  place_counters counters_;
  std::uint64_t failures_seen_;  ///< failures of the engine, see `forget_failed_copies`
  std::vector<access> translated_;      ///< accesses of the task that is submitted
  std::vector<missing_piece> missing_;  ///< scratch memory of `fetch`
};

}  // namespace weir::runtime
