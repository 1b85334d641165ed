// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that encode, decode, find and judge messages.
#include <cstdlib>
#include <span>

#include "capi/handles.hpp"
#include "weir/base/file.hpp"
#include "weir/formats/tensogram_packing.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {

namespace {

result<tgm_bytes> encode(const char* json, const void* const* data,
                         const std::size_t* lengths, std::size_t count,
                         const tgm_encode_options* options, bool stored) {
  WEIR_TRY(const json_message message, parse_message(json));
  WEIR_TRY(message_options how, options_of(options));
  how.extra = message.extra;
  if (message.descriptors.size() != count || message.base.size() > count) {
    return error(
        errc::unknown_key,
        "cannot encode: expected a descriptor per object and no more base entries "
        "than objects, found " +
            std::to_string(message.descriptors.size()) + " and " +
            std::to_string(message.base.size()) + " for " + std::to_string(count));
  }
  std::vector<object_to_write> objects;
  for (std::size_t i = 0; i < count; ++i) {
    objects.push_back({message.descriptors[i],
                       i < message.base.size() ? message.base[i] : cbor_map(),
                       view_of(data[i], lengths[i]), stored});
  }
  const auto bytes = encode_message(objects, how);
  return bytes ? hand_out(*bytes) : refused(bytes.error(), objects);
}

result<byte_vector> decode_one(bytes_view message, std::size_t object,
                               const read_options& options) {
  WEIR_TRY(const auto reader, message_reader::open(message, options));
  return reader.decode(object);
}

/// The one thing that the reference calls a failure of compression: ranges of an szip
/// object without the offsets of its intervals.
bool lacks_offsets(const message_reader& reader, std::size_t object) {
  if (object >= reader.object_count()) {
    return false;
  }
  const object_descriptor& d = reader.descriptor(object);
  return d.compression == "szip" && d.filter == "none" &&
         d.parameters.find("szip_block_offsets") == nullptr;
}

/// A range beyond the object is a wrong request, as the reference sees it.
result<byte_vector> decode_ranges(const message_reader& reader, std::size_t object,
                                  std::span<const std::uint64_t> firsts,
                                  std::span<const std::uint64_t> counts) {
  byte_vector all;
  for (std::size_t r = 0; r < firsts.size(); ++r) {
    const auto part = reader.decode_range(object, firsts[r], counts[r]);
    if (!part) {
      const error& e = part.error();
      return e.code() == errc::out_of_range
                 ? error(errc::invalid_argument, e.text()).at(e.where())
                 : e;
    }
    append(all, *part);
  }
  return all;
}

byte_vector copy_of(bytes_view bytes) {
  return {bytes.begin(), bytes.end()};
}

result<validation_options> level_of(const char* level, int canonical) {
  validation_options out;
  out.canonical = canonical != 0;
  const std::string name = level == nullptr ? "default" : level;
  if (name == "quick") {
    out.level = validation_level::structure;
  } else if (name == "metadata") {
    out.level = validation_level::metadata;
  } else if (name == "full") {
    out.level = validation_level::fidelity;
  } else if (name == "checksum") {
    out.trial_decode = false;
  } else if (name != "default") {
    return error(errc::invalid_argument,
                 "cannot validate: expected quick, metadata, default, checksum or full, "
                 "found \"" +
                     name + "\"");
  }
  return out;
}

result<void> judge(bytes_view bytes, const char* name, const char* level, int canonical,
                   tgm_bytes* json) {
  WEIR_TRY(const validation_options options, level_of(level, canonical));
  return give(hand_out(as_view(to_json(validate(bytes, options), name))), json);
}

result<std::shared_ptr<const byte_source>> open_source(const std::string& path) {
  WEIR_TRY(auto file, posix_file_system().open(path, open_mode::read));
  WEIR_TRY(std::shared_ptr<const byte_source> out, file_source::open(std::move(file)));
  return out;
}

}  // namespace

result<byte_vector> read_span(const byte_source& source, message_span span) {
  byte_vector out(span.length);
  WEIR_CHECK(source.read(span.offset, out));
  return out;
}

}  // namespace weir::formats

using namespace weir::formats;  // NOLINT: the functions below are C

extern "C" {

tgm_error tgm_encode(const char* json, const void* const* data, const size_t* lengths,
                     size_t count, tgm_bytes* out) {
  return tgm_encode_with_options(json, data, lengths, count, nullptr, out);
}
tgm_error tgm_encode_with_options(const char* json, const void* const* data,
                                  const size_t* lengths, size_t count,
                                  const tgm_encode_options* options, tgm_bytes* out) {
  return guarded(given(json, out) && (count == 0 || given(data, lengths)), [&] {
    return give(encode(json, data, lengths, count, options, false), out);
  });
}
tgm_error tgm_encode_pre_encoded(const char* json, const void* const* data,
                                 const size_t* lengths, size_t count,
                                 const tgm_encode_options* options, tgm_bytes* out) {
  return guarded(given(json, out) && (count == 0 || given(data, lengths)), [&] {
    return give(encode(json, data, lengths, count, options, true), out);
  });
}

tgm_error tgm_decode(const void* data, size_t length, tgm_message** out) {
  return tgm_decode_with_options(data, length, nullptr, out);
}
tgm_error tgm_decode_with_options(const void* data, size_t length,
                                  const tgm_decode_options* options, tgm_message** out) {
  return guarded(given(out) && held(data, length), [&] {
    return give(make_message(copy_of(view_of(data, length)), options_of(options), true),
                out);
  });
}
tgm_error tgm_decode_metadata(const void* data, size_t length, tgm_message** out) {
  return guarded(given(out) && held(data, length), [&] {
    return give(make_message(copy_of(view_of(data, length)), {}, false), out);
  });
}
tgm_error tgm_decode_object(const void* data, size_t length, size_t object,
                            const tgm_decode_options* options, tgm_bytes* out) {
  return guarded(given(out) && held(data, length), [&]() -> weir::result<void> {
    const auto elements = decode_one(view_of(data, length), object, options_of(options));
    if (!elements) {
      return of_kind(elements.error(), view_of(data, length));
    }
    return give(hand_out(*elements), out);
  });
}
tgm_error tgm_decode_range(const void* data, size_t length, size_t object,
                           const uint64_t* firsts, const uint64_t* counts, size_t ranges,
                           tgm_bytes* out) {
  bool compression = false;
  const tgm_error code = guarded(
      given(out) && held(data, length) && held(firsts, ranges) && held(counts, ranges),
      [&]() -> weir::result<void> {
        const auto all = [&]() -> weir::result<weir::byte_vector> {
          WEIR_TRY(const auto reader, message_reader::open(view_of(data, length)));
          compression = lacks_offsets(reader, object);
          return decode_ranges(reader, object, {firsts, ranges}, {counts, ranges});
        }();
        if (!all) {
          return of_kind(all.error(), view_of(data, length));
        }
        return give(hand_out(*all), out);
      });
  return code == TGM_ENCODING && compression ? TGM_COMPRESSION : code;
}
void tgm_message_free(tgm_message* message) {
  delete message;
}
size_t tgm_message_num_objects(const tgm_message* message) {
  return message->elements.size();
}

tgm_error tgm_scan(const void* data, size_t length, tgm_span** out, size_t* count) {
  return guarded(given(out, count) && held(data, length), [&]() -> weir::result<void> {
    const auto spans = scan(view_of(data, length));
    auto* made = static_cast<tgm_span*>(std::malloc((spans.size() + 1) * sizeof **out));
    if (made == nullptr) {
      return weir::error(weir::errc::out_of_memory,
                         "cannot scan: expected memory for the places, found too little");
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
      made[i] = {spans[i].offset, spans[i].length};
    }
    *out = made;
    *count = spans.size();
    return {};
  });
}

tgm_error tgm_file_open(const char* path, tgm_file** out) {
  return guarded(given(path, out), [&]() -> weir::result<void> {
    auto made = std::make_unique<tgm_file>();
    made->path = path;
    WEIR_TRY(made->source, open_source(made->path));
    WEIR_TRY(made->spans, scan(*made->source));
    *out = made.release();
    return {};
  });
}
size_t tgm_file_message_count(const tgm_file* file) {
  return file->spans.size();
}
tgm_error tgm_file_read_message(const tgm_file* file, size_t index, tgm_bytes* out) {
  if (given(file) && index >= file->spans.size()) {
    return keep_error(TGM_OBJECT, "no such message in " + file->path);
  }
  return guarded(given(file, out), [&]() -> weir::result<void> {
    WEIR_TRY(const auto bytes, read_span(*file->source, file->spans[index]));
    return give(hand_out(bytes), out);
  });
}
tgm_error tgm_file_decode_message(const tgm_file* file, size_t index,
                                  const tgm_decode_options* options, tgm_message** out) {
  if (given(file) && index >= file->spans.size()) {
    return keep_error(TGM_OBJECT, "no such message in " + file->path);
  }
  return guarded(given(file, out), [&]() -> weir::result<void> {
    WEIR_TRY(auto bytes, read_span(*file->source, file->spans[index]));
    return give(make_message(std::move(bytes), options_of(options), true), out);
  });
}
tgm_error tgm_file_append(tgm_file* file, const void* message, size_t length) {
  return guarded(given(file) && held(message, length), [&]() -> weir::result<void> {
    {
      WEIR_TRY(auto to,
               weir::posix_file_system().open(file->path, weir::open_mode::read_write));
      WEIR_TRY(const std::uint64_t end, to->size());
      WEIR_CHECK(weir::write_all(*to, end, view_of(message, length)));
    }
    WEIR_TRY(file->source, open_source(file->path));
    WEIR_TRY(file->spans, scan(*file->source));
    return {};
  });
}
void tgm_file_close(tgm_file* file) {
  delete file;
}

tgm_error tgm_buffer_iterator(const void* data, size_t length, tgm_iterator** out) {
  return guarded(given(out) && held(data, length), [&]() -> weir::result<void> {
    auto made = std::make_unique<tgm_iterator>();
    made->source = std::make_shared<memory_source>(view_of(data, length));
    WEIR_TRY(made->spans, scan(*made->source));
    *out = made.release();
    return {};
  });
}
tgm_error tgm_file_iterator(const char* path, tgm_iterator** out) {
  return guarded(given(path, out), [&]() -> weir::result<void> {
    auto made = std::make_unique<tgm_iterator>();
    WEIR_TRY(made->source, open_source(path));
    WEIR_TRY(made->spans, scan(*made->source));
    *out = made.release();
    return {};
  });
}
tgm_error tgm_iterator_next(tgm_iterator* iterator, const tgm_decode_options* options,
                            tgm_message** out) {
  if (given(iterator) && iterator->next == iterator->spans.size()) {
    return TGM_END_OF_ITER;
  }
  return guarded(given(iterator, out), [&]() -> weir::result<void> {
    WEIR_TRY(auto bytes, read_span(*iterator->source, iterator->spans[iterator->next++]));
    return give(make_message(std::move(bytes), options_of(options), true), out);
  });
}
void tgm_iterator_free(tgm_iterator* iterator) {
  delete iterator;
}

tgm_error tgm_validate(const void* data, size_t length, const char* level, int canonical,
                       tgm_bytes* json) {
  return guarded(given(json) && held(data, length), [&] {
    return judge(view_of(data, length), "memory", level, canonical, json);
  });
}
tgm_error tgm_validate_file(const char* path, const char* level, int canonical,
                            tgm_bytes* json) {
  return guarded(given(path, json), [&]() -> weir::result<void> {
    WEIR_TRY(const auto bytes, weir::read_file(weir::posix_file_system(), path));
    return judge(bytes, path, level, canonical, json);
  });
}
tgm_error tgm_doctor(tgm_bytes* json) {
  bool good = true;
  const tgm_error code = guarded(given(json), [&] {
    const self_test_report report = self_test();
    good = report.good;
    return give(hand_out(weir::as_view(to_json(report.facts))), json);
  });
  return code != TGM_OK || good
             ? code
             : keep_error(TGM_INVALID_ARG,
                          "the self test failed: expected every codec to give back what "
                          "it was given, found others in its report");
}
tgm_error tgm_compute_packing(const double* values, size_t count, unsigned bits,
                              int32_t decimal, double* reference, int32_t* binary) {
  return guarded(
      given(reference, binary) && held(values, count), [&]() -> weir::result<void> {
        WEIR_TRY(const packing p, compute_packing({values, count}, bits, decimal));
        *reference = p.reference;
        *binary = p.binary;
        return {};
      });
}

}  // extern "C"
