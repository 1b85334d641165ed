// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions of faces that a stage does not have, and types of ports of stage classes.
///
/// A stage has the functions of one face only. The others fail with an error of the
/// program, because a host calls only functions of the face in the description.
#include "weir/pipeline/stage_object.hpp"

#include "weir/pipeline/faces.hpp"

namespace weir::flow {
namespace {

/// @param function  Name of the function that the stage lacks.
error not_of_this_face(const char* function) {
  return error(errc::internal,
               std::string("call of a stage: expected a stage that has ") + function +
                   ", found one of another face");
}

}  // namespace

result<void> stage_object::open(opening&) {
  return {};
}
result<void> stage_object::on_item(step&) {
  return not_of_this_face("on_item");
}
result<void> stage_object::on_done(step&) {
  return not_of_this_face("on_done");
}
result<bool> stage_object::on_step(step&) {
  return not_of_this_face("on_step");
}
result<void> stage_object::on_ready(taken&, pull&) {
  return not_of_this_face("on_ready");
}
result<bool> stage_object::next(pull&) {
  return not_of_this_face("next");
}
/// A source that does not override it has no position.
small_record stage_object::position() const {
  return {};
}
result<void> stage_object::seek(bytes_view) {
  return not_of_this_face("seek");
}
result<void> stage_object::put(taken&) {
  return not_of_this_face("put");
}
result<small_record> stage_object::settle() {
  return not_of_this_face("settle");
}
/// A sink that does not override it cannot tell whether its output is complete.
result<bool> stage_object::verify(opening& /*run*/, bytes_view /*offset*/,
                                  const state_reader& /*state*/) {
  return false;
}
result<void> stage_object::rewind(bytes_view) {
  return not_of_this_face("rewind");
}
/// Stages without state need none of the following functions.
std::vector<state_part> stage_object::state() {
  return {};
}
result<void> stage_object::copy_state(state_writer&) {
  return {};
}
result<void> stage_object::restore_state(const state_reader&) {
  return {};
}
void stage_object::report(figures&) const {}

/// Returns the type of a port whose element and rank the class fixes. A mistake in the
/// text of the extents ends the program at its start.
port_type static_type(dtype element, int rank, std::string_view extents) {
  WEIR_EXPECT(element != dtype{});
  port_type type = or_throw(port_type::parse(std::string(port_text(element)) + "[" +
                                             std::string(extents) + "]"));
  WEIR_EXPECT(type.shape.size() == static_cast<std::size_t>(rank));
  return type;
}

}  // namespace weir::flow
