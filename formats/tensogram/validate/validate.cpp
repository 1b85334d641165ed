// SPDX-License-Identifier: Apache-2.0
/// @file
/// Validation of messages and of the bytes between them.
///
/// Validation uses the same walk and the same checks as the reader, so both agree on
/// every message. It goes on after a fault where that makes sense, up to the level that
/// the options choose: structure, metadata, integrity (digests and trial decoding),
/// fidelity (values).
#include <fmt/core.h>

#include <algorithm>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/contents.hpp"
#include "tensogram/write/finite.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {

namespace {

/// Validates one message.
/// Issues are collected in one list, whatever their level, and sorted out at the end. The
/// codes of the reader are those of the validation.
class message_validation {
 public:
  message_validation(const byte_source& source, message_span span,
                     const validation_options& options)
      : source_(source), options_(options), pieces_(source) {
    report_.span = span;
  }

  /// Runs the levels in order. Each level uses what the one below it has found: contents
  /// need a complete layout, and payloads need their descriptors.
  result<message_report> run() {
    WEIR_TRY(layout_, read_layout(pieces_, report_.span, issues_));
    const bool beyond_structure = options_.level >= validation_level::metadata;
    // A descriptor in front of its payload is needed even for the lowest level, because
    // only its CBOR shows where the payload begins.
    if (layout_.complete && (beyond_structure || has_leading_descriptor())) {
      const content_checks checks{options_.level >= validation_level::integrity,
                                  // At the lower levels no digest is verified.
                                  options_.legacy_hashes, options_.canonical};
      WEIR_TRY(contents_, read_contents(pieces_, layout_, checks, issues_));
    }
    report_.object_count = layout_.descriptor_offsets.size();
    for (std::size_t i = 0; i < contents_.objects.size(); ++i) {
      WEIR_CHECK(check_object(i));
    }
    // The lowest level reports faults of the structure only, although a descriptor may
    // have shown others.
    for (const found_issue& found : issues_.all()) {
      if (beyond_structure || found.issue.level == validation_level::structure) {
        report_.issues.push_back(found.issue);
      }
    }
    report_.hash_verified =
        verified_ > 0 && verified_ == report_.object_count && report_.ok();
    return std::move(report_);
  }

 private:
  /// Returns whether the descriptor of some object precedes its payload.
  /// A walk over the frames cannot check where such a payload begins.
  bool has_leading_descriptor() const {
    return std::any_of(
        layout_.frames.begin(), layout_.frames.end(), [](const frame_info& frame) {
          return frame.type == frame_type::object && !descriptor_last(frame);
        });
  }

  /// Adds an issue of an object.
  void add(const char* code, validation_level level, issue_severity severity,
           std::size_t object, std::string text) {
    issues_.add({{code, level, severity, object, contents_.objects[object].frame.offset,
                  std::move(text)},
                 errc::corrupt});
  }

  /// Checks one object as far as the level demands.
  result<void> check_object(std::size_t i) {
    const object_place& place = contents_.objects[i];
    if (place.usable) {
      check_names(place.descriptor, i);
    }
    if (options_.level < validation_level::integrity) {
      return {};
    }
    WEIR_TRY(const bool good, check_digest(place, i));
    if (place.usable && good && options_.trial_decode) {
      return check_payload(place, i);
    }
    return {};
  }

  /// Checks the names of the stages one by one, so that each unknown one is an issue. A
  /// stage that the format has but this build lacks is no fault of the message.
  void check_names(const object_descriptor& descriptor, std::size_t i) {
    // `probe` has one name of the descriptor and otherwise the names of a raw object.
    const auto check = [&](std::string_view stage, const char* code,
                           object_descriptor probe) {
      if (support_of(probe) == pipeline_support::unknown) {
        add(code, validation_level::metadata, issue_severity::error, i,
            fmt::format("cannot run {}: expected a name of Tensogram v3, found another",
                        stage));
      }
    };
    object_descriptor probe;
    probe.encoding = descriptor.encoding;
    check("encoding", "unknown_encoding", probe);
    probe = {};
    probe.filter = descriptor.filter;
    check("filter", "unknown_filter", probe);
    probe = {};
    probe.compression = descriptor.compression;
    check("compression", "unknown_compression", probe);
  }

  /// Returns true if the object may be decoded: its digest agrees or it has none.
  result<bool> check_digest(const object_place& place, std::size_t i) {
    // A digest that was announced and is missing is an error; none at all is a warning.
    const bool announced = (layout_.head.flags & preamble_flag::hashes_present) != 0;
    if (!has_digest(place.frame, layout_.head, options_.legacy_hashes)) {
      add(announced ? "hash_verification_error" : "no_hash_available",
          validation_level::integrity,
          announced ? issue_severity::error : issue_severity::warning, i,
          announced ? "cannot verify object: expected a digest as the preamble "
                      "announces, found "
                      "none marked"
                    : "object: expected a digest, found none");
      return true;
    }
    WEIR_TRY(const std::uint64_t actual,
             digest_of(source_, report_.span.offset, place.frame));
    if (actual != place.frame.digest) {
      add("hash_mismatch", validation_level::integrity, issue_severity::error, i,
          fmt::format("cannot trust object: expected digest {}, found {}",
                      hex64(place.frame.digest), hex64(actual)));
      return false;
    }
    ++verified_;
    return true;
  }

  /// Decodes the payload as a trial, and at the highest level checks its values. A
  /// failure of the source is an error of the call; a failure of decoding is an issue of
  /// the message.
  result<void> check_payload(const object_place& place, std::size_t i) {
    const object_descriptor& descriptor = place.descriptor;
    const pipeline_support support = support_of(descriptor);
    // The format has the codec, so the message may be sound.
    if (support == pipeline_support::known) {
      add("pipeline_not_built", validation_level::integrity, issue_severity::warning, i,
          check_readable(descriptor).error().text());
    }
    // Raw elements decode by being copied, so a trial would show nothing.
    const bool raw = descriptor.encoding == "none" && descriptor.filter == "none" &&
                     descriptor.compression == "none" && descriptor.masks.empty();
    if (support != pipeline_support::built ||
        (raw && options_.level < validation_level::fidelity)) {
      return {};
    }
    if (raw && place.payload_length != place.decoded) {
      return {};  // already an issue of the descriptor
    }
    // A plan that fails is told apart from a payload that fails.
    if (auto plan = plan_reading(descriptor, place.payload_length, trial()); !plan) {
      add("pipeline_config_failed", validation_level::integrity, issue_severity::error, i,
          plan.error().text());
      return {};
    }
    const bool values = options_.level >= validation_level::fidelity;
    byte_vector elements;
    const auto done =
        values ? decode(place, elements)
               : formats::check_object(source_, report_.span.offset, place, trial());
    if (!done) {
      // A failure to read is no fault of the message.
      if (source_failed(done.error())) {
        return done;
      }
      add("decode_pipeline_failed", validation_level::integrity, issue_severity::error, i,
          done.error().text());
      return {};
    }
    if (values) {
      check_values(descriptor, elements, i);
    }
    return {};
  }

  /// Returns the options of trial decoding. Digests have been checked before, and masked
  /// values stay zeros, so that they are not reported as non-finite.
  read_options trial() const {
    read_options out;
    out.hashes = hash_check::none;
    out.native_order = false;
    out.restore_non_finite = false;
    out.max_object_bytes = options_.max_object_bytes;
    out.threads = options_.threads;
    return out;
  }

  /// Decodes elements and masks into memory.
  result<void> decode(const object_place& place, byte_vector& elements) const {
    const auto memory = [&](std::uint64_t bytes) -> result<mutable_bytes> {
      try {
        elements.resize(bytes);
      } catch (const std::exception&) {
        return error(errc::out_of_memory,
                     "cannot decode: expected enough memory, found too little");
      }
      return mutable_bytes(elements);
    };
    WEIR_CHECK(decode_object(source_, report_.span.offset, layout_.head, place, trial(),
                             memory));
    // Masks must decode too, even if their values are not looked at.
    WEIR_CHECK(read_masks(source_, report_.span.offset, place, trial()));
    return {};
  }

  /// Reports the first value that is not finite.
  void check_values(const object_descriptor& descriptor, bytes_view elements,
                    std::size_t i) {
    const auto found = find_non_finite(elements, descriptor.type, descriptor.order);
    if (found) {
      add(found->nan ? "nan_detected" : "inf_detected", validation_level::fidelity,
          issue_severity::error, i,
          fmt::format("element {}: expected a finite value or a mask, found {}",
                      found->index, found->nan ? "NaN" : "an infinity"));
    }
  }

  const byte_source& source_;  ///< of the message
  const validation_options& options_;
  piece_reader pieces_;        ///< for small reads
  issue_list issues_;          ///< of all levels
  message_layout layout_;      ///< frames
  message_contents contents_;  ///< metadata and descriptors
  message_report report_;
  std::size_t verified_ = 0;  ///< objects whose digest agreed
};

/// Adds an issue for bytes that belong to no message.
/// `where` says what the bytes lie between.
void note_gap(file_report& report, std::uint64_t from, std::uint64_t to,
              std::string_view where) {
  if (to > from) {
    report.file_issues.push_back(
        {from, to - from,
         fmt::format("{} bytes {} at offset {}", to - from, where, from)});
  }
}

}  // namespace

/// Warnings do not count.
bool message_report::ok() const noexcept {
  return std::none_of(issues.begin(), issues.end(), [](const validation_issue& issue) {
    return issue.severity == issue_severity::error;
  });
}

/// A file without messages is not valid: it may have been cut to nothing.
bool file_report::ok() const noexcept {
  return file_issues.empty() && !messages.empty() &&
         std::all_of(messages.begin(), messages.end(),
                     [](const message_report& m) { return m.ok(); });
}

message_report validate_message(bytes_view message, const validation_options& options) {
  const memory_byte_source source(message);
  auto report = message_validation(source, {0, message.size()}, options).run();
  // Other failures are issues of the report.
  WEIR_EXPECT(report.has_value());  // reading memory cannot fail
  return std::move(*report);
}

result<message_report> validate_message(const byte_source& source, message_span span,
                                        const validation_options& options) {
  return message_validation(source, span, options).run();
}

/// Scans, validates each message, and reports every byte that belongs to none.
result<file_report> validate(const byte_source& source,
                             const validation_options& options) {
  WEIR_TRY(const std::vector<message_span> spans, scan(source));
  file_report report;
  std::uint64_t end = 0;
  for (const message_span& span : spans) {
    note_gap(report, end, span.offset,
             end == 0 ? "before the first message" : "between messages");
    WEIR_TRY(message_report message, validate_message(source, span, options));
    report.messages.push_back(std::move(message));
    end = span.offset + span.length;
  }
  note_gap(report, end, source.size(),
           spans.empty() ? "with no valid messages" : "after the last message");
  // An empty file has no gap that could be noted.
  if (source.size() == 0) {
    report.file_issues.push_back({0, 0, "0 bytes with no valid messages"});
  }
  return report;
}

file_report validate(bytes_view bytes, const validation_options& options) {
  auto report = validate(memory_byte_source(bytes), options);
  WEIR_EXPECT(report.has_value());
  return std::move(*report);
}

}  // namespace weir::formats
