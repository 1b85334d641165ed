// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that uses CAF: an actor of its own pulls the messages
/// of a file, FILE, and the program prints their number.
#include <cstdio>
#include <weir/actors/handles.hpp>

namespace {

using namespace weir::actors;

/// Pulls messages until the end, and prints their number.
void count(caf::event_based_actor* self, const message_reader_actor& reader,
           int messages) {
  self->request(reader, std::chrono::seconds(60), pull_atom_v)
      .then(
          [=](const local<message_delivery>& next) {
            if (next->message) {
              count(self, reader, messages + 1);
            } else {
              std::printf("%d\n", messages);
            }
          },
          [](const caf::error& e) {
            std::puts(from_caf(e, "pulling a message").message().c_str());
          });
}

}  // namespace

int main(int, char** argv) {
  auto system = weir::or_throw(actor_system::start());
  const auto reader = weir::or_throw(system.spawn_message_reader({.path = argv[1]}));
  {
    caf::scoped_actor self(*weir::or_throw(caf_system_of(system)));
    const auto counter =
        self->spawn([typed = weir::or_throw(actor_of(reader))](
                        caf::event_based_actor* own) { count(own, typed, 0); });
    self->wait_for(counter);
  }
  weir::or_throw(system.stop());
}
