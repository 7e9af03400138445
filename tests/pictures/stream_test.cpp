#include <mobicuda/picture_stream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <mobicuda/error.h>

#include "pictures/picture_support.h"
#include "pictures/source/reader.h"
#include "pictures/stream/batch_loader.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

struct Encoded {
  std::vector<std::string> files;
  PictureSource source() const {
    std::vector<EncodedPicture> pictures;
    for (std::size_t i = 0; i < files.size(); ++i) pictures.push_back({std::to_string(i), test::span_of(files[i])});
    return PictureSource::memory(std::move(pictures));
  }
};

// Of red level i; every seventh is broken.
Encoded some_pictures(int count) {
  Encoded encoded;
  for (int i = 0; i < count; ++i) {
    encoded.files.push_back(i % 7 == 3 ? "broken"
                                       : test::ppm_file(test::plain_picture(8, 8, static_cast<std::uint8_t>(i), 1, 2)));
  }
  return encoded;
}

StreamOptions options_of(std::size_t batch, int threads) {
  StreamOptions options;
  options.preprocessing.normalization = Normalization::Tf;
  options.preprocessing.resize_to = options.preprocessing.crop_width = options.preprocessing.crop_height = 4;
  options.batch = batch;
  options.threads = threads;
  return options;
}

}  // namespace

TEST_CASE("a stream of pictures is the same for any number of threads, and bounded", "[stream]") {
  for (const int count : {0, 1, 40, 64}) {
    const Encoded encoded = some_pictures(count);
    for (const int threads : {1, 2, 5, 64}) {
      for (const std::size_t batch : {1, 3, 8, 64}) {
        CAPTURE(count, threads, batch);
        const bool bytes = threads == 2;
        StreamOptions options = options_of(batch, threads);
        options.bytes = bytes;
        PictureStream stream(encoded.source(), options);
        CHECK(stream.batches_in_memory() <=
              std::max<std::size_t>(3, 2 * static_cast<std::size_t>(threads) / batch + 2));
        std::size_t next = 0;
        std::map<std::size_t, std::string> failed;
        const std::size_t elements = options.preprocessing.elements();
        while (const PreparedBatch* pictures = stream.next()) {
          CHECK(pictures->indices.size() + pictures->failed.size() <= batch);
          REQUIRE((bytes ? pictures->bytes.size() : pictures->input.size()) == pictures->indices.size() * elements);
          for (const FailedPicture& one : pictures->failed) failed[one.index] = one.name;
          for (std::size_t i = 0; i < pictures->indices.size(); ++i) {
            while (next % 7 == 3) ++next;
            CHECK(pictures->indices[i] == next);
            if (bytes) {
              CHECK(pictures->bytes[i * elements] == next);
            } else {
              CHECK(pictures->input[i * elements] == Approx(static_cast<float>(next) / 127.5F - 1.0F));
            }
            ++next;
          }
        }
        CHECK(stream.next() == nullptr);
        CHECK(failed.size() == static_cast<std::size_t>((count + 3) / 7));
        for (const auto& [index, name] : failed) CHECK(name == std::to_string(index));
      }
    }
  }
}

TEST_CASE("each picture is worked on once, of pictures that take long and of such that take no time", "[stream]") {
  constexpr std::size_t kCount = 3000;
  const std::vector<std::uint8_t> byte(1);
  for (const std::size_t threads : {1, 2, 5, 16}) {
    for (const std::size_t batch : {1, 3, 64}) {
      for (const bool slow_taker : {false, true}) {
        CAPTURE(threads, batch, slow_taker);
        std::vector<std::atomic<int>> worked(kCount);
        std::vector<EncodedPicture> pictures(kCount, {"", byte});
        BatchLoader loader(PictureSource::memory(std::move(pictures)), {batch, 4, threads},
                           [&](BatchLoader::Batch& of, std::size_t place, std::size_t) {
                             const std::size_t picture = of.first + place;
                             ++worked[picture];
                             // Hundreds without work, then some with, so that what was measured is wrong.
                             if (picture % 700 < 20) std::this_thread::sleep_for(std::chrono::microseconds(200));
                           });
        std::size_t next = 0;
        while (const BatchLoader::Batch* const taken = loader.take()) {
          REQUIRE(taken->first == next);
          REQUIRE(taken->size >= 1);
          for (std::size_t i = 0; i < taken->size; ++i) REQUIRE(worked[next + i] == 1);
          next += taken->size;
          if (slow_taker && taken->sequence % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
          loader.release(*taken);
        }
        CHECK(next == kCount);
      }
    }
  }
}

TEST_CASE("a stream that is left early ends", "[stream]") {
  const Encoded encoded = some_pictures(30);
  { const PictureStream untouched(encoded.source(), options_of(2, 3)); }
  PictureStream begun(encoded.source(), options_of(2, 3));
  CHECK(begun.next() != nullptr);
}

TEST_CASE("a stream refuses options out of range, and a source that is used up", "[stream]") {
  const Encoded encoded = some_pictures(1);
  CHECK_THROWS_WITH(PictureStream(encoded.source(), options_of(0, 1)), contains("StreamOptions::batch"));
  CHECK_THROWS_WITH(PictureStream(encoded.source(), options_of(1, -1)), contains("threads"));
  PictureSource source = encoded.source();
  source.take();
  CHECK_THROWS_WITH(PictureStream(std::move(source), options_of(1, 1)), contains("is used up"));
}
