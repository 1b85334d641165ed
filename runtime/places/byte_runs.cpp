// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocks of footprints, and blocks at equal distances gathered into footprints again.
///
/// A footprint describes bytes by nested progressions. The ledger works with plain
/// blocks and turns the result into few footprints, so that few copies are made.
#include "places/byte_runs.hpp"

#include <algorithm>

namespace weir::runtime {
namespace {

/// Blocks of equal length at equal distances. One progression.
struct row_of_runs {
  byte_run first;
  std::int64_t stride = 0;
  std::int64_t count = 1;

  /// Returns true if the rows have the same form.
  [[nodiscard]] bool alike(const row_of_runs& other) const noexcept {
    return first.hi - first.lo == other.first.hi - other.first.lo &&
           stride == other.stride && count == other.count;
  }
};

/// Returns the longest row that begins at block `begin`. A row of one block has no
/// distance yet.
row_of_runs row_from(std::span<const byte_run> runs, std::size_t begin) {
  row_of_runs row{runs[begin]};
  const std::int64_t length = row.first.hi - row.first.lo;
  for (std::size_t i = begin + 1; i < runs.size(); ++i) {
    const std::int64_t distance = runs[i].lo - runs[i - 1].lo;
    if (runs[i].hi - runs[i].lo != length || (row.count > 1 && distance != row.stride)) {
      break;
    }
    row.stride = distance;
    ++row.count;
  }
  return row;
}

}  // namespace

/// The blocks are sorted and do not touch. A footprint that is nested has them so
/// already.
std::vector<byte_run> runs_of(const footprint& bytes) {
  std::vector<byte_run> runs;
  for_each_run(bytes, [&](std::int64_t lo, std::int64_t hi) {
    runs.push_back({lo, hi});
  });
  if (bytes.nested) {
    return runs;
  }
  std::sort(runs.begin(), runs.end(),
            [](const byte_run& a, const byte_run& b) { return a.lo < b.lo; });
  std::size_t kept = 0;
  for (const byte_run& run : runs) {
    // Joins blocks that overlap or touch.
    if (kept != 0 && run.lo <= runs[kept - 1].hi) {
      runs[kept - 1].hi = std::max(runs[kept - 1].hi, run.hi);
    } else {
      runs[kept++] = run;
    }
  }
  runs.resize(kept);
  return runs;
}

/// Two levels: blocks become rows, and rows of the same form at equal distances become
/// one footprint.
void gather_runs(storage_id id, std::span<const byte_run> runs,
                 std::vector<footprint>& out) {
  std::vector<row_of_runs> rows;
  for (std::size_t i = 0; i < runs.size();
       i += static_cast<std::size_t>(rows.back().count)) {
    rows.push_back(row_from(runs, i));
  }
  for (std::size_t i = 0; i < rows.size();) {
    const row_of_runs& row = rows[i];
    std::int64_t stride = 0;
    std::size_t end = i + 1;
    // Extends the group as long as the distance is the same.
    for (; end < rows.size() && rows[end].alike(row); ++end) {
      const std::int64_t distance = rows[end].first.lo - rows[end - 1].first.lo;
      if (end > i + 1 && distance != stride) {
        break;
      }
      stride = distance;
    }
    const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(end - i),
                                            row.count};
    const std::array<std::int64_t, 2> strides{stride, row.stride};
    out.push_back(or_throw(footprint::of_view(id, row.first.lo, shape, strides,
                                              row.first.hi - row.first.lo)));
    i = end;
  }
}

/// Bytes of all blocks; nested footprints have no byte twice.
std::int64_t byte_count(const footprint& bytes) noexcept {
  return block_count(bytes) * bytes.run;
}

}  // namespace weir::runtime
