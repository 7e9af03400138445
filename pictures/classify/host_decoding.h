#pragma once

#include <cstdint>
#include <new>
#include <span>

#include "pictures/classify/batch_classifier.h"
#include "pictures/decode/decode.h"
#include "pictures/decode/picture_error.h"
#include "pictures/prepare/resize.h"

namespace mobicuda::pictures {

/// Reads a picture of a batch. False where that failed: the outcome has the reason.
inline bool read_picture(BatchLoader::Item& item, const DecodeOptions& options, Outcome& outcome, StageTimes& times) {
  const Stopwatch::Span span(times.read);
  outcome = {};
  try {
    item.encoded.read(item.entry, options.max_bytes);
    return true;
  } catch (const PictureError& error) {
    outcome.failure = error.what();
  } catch (const std::bad_alloc&) {
    outcome.failure = "no host memory to read it";
  }
  return false;
}

/// Decodes and prepares a picture on the CPU. False where that failed: the outcome has the reason.
template <class T>
bool decode_on_host(std::span<const std::uint8_t> encoded, const DecodeOptions& options, const Preprocessing& how,
                    std::span<T> out, Outcome& outcome, StageTimes& times) {
  const Stopwatch::Span span(times.host_decode);
  outcome.decoder = Decoder::None;
  try {
    prepare(decode(encoded, options).view(), how, out);
    outcome.decoder = Decoder::Cpu;
    return true;
  } catch (const PictureError& error) {
    outcome.failure = error.what();
  } catch (const std::bad_alloc&) {
    outcome.failure = "no host memory to decode it";
  }
  return false;
}

}  // namespace mobicuda::pictures
