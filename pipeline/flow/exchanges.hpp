// SPDX-License-Identifier: Apache-2.0
/// @file
/// Items in the hands of sources, sinks and blocking stages, which work on other threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "epoch/source_mark.hpp"
#include "flow/item_memory.hpp"
#include "weir/pipeline/item.hpp"

namespace weir::flow {

class stage_run;
struct call;

/// An empty item that a source or a blocking stage fills.
/// Its memory is granted with it: the slots are taken when the blank is handed out.
class blank {
 public:
  stage_run* stage = nullptr;            ///< stage that granted it
  std::uint64_t seq = 0;                 ///< number that the item will have
  attributes about;                      ///< attributes of the item
  std::array<slot*, max_ports> slots{};  ///< by outlet
  std::array<bool, max_ports> filled{};  ///< outlets that the source has filled
  std::int64_t granted_ns = 0;           ///< as `call::taken_ns`
  bool nothing_yet = false;              ///< the source has no item at the moment
  bool about_final = false;              ///< `about` counts even if it is empty
  bool skipped = false;                  ///< the blocking stage has called `skip`
  bool wants_mark = false;               ///< the source is joined with others
  source_mark mark;                      ///< position behind the item, if it is wanted
};

/// An item that a sink or a blocking stage takes.
class ready {
 public:
  /// The call stays open, and its input valid, until the item comes back.
  const call* holder = nullptr;  ///< call that holds the item
};

/// An item in the hands of a blocking stage, with the empty item that it fills.
class exchange {
 public:
  ready input;   ///< item that the stage takes
  blank output;  ///< item that the stage makes, or the first of several
  std::vector<std::unique_ptr<blank>> further;  ///< the others
  std::int64_t source_ns = 0;                   ///< see `step::source_time`
  std::int64_t turn_ns = 0;                     ///< see `step::turn_time`
  std::size_t made = 1;  ///< items that a stage with numbers of its own has made
  bool partial = false;  ///< there are more, and the exchange is handed out again

  /// Returns an item that the stage makes.
  [[nodiscard]] blank& item(std::size_t nth) {
    return nth == 0 ? output : *further[nth - 1];
  }
};

}  // namespace weir::flow
