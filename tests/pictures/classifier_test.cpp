#include <mobicuda/pictures.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "pictures/classify/top_classes.h"
#include "pictures/mixed_pictures.h"
#include "pictures/picture_support.h"
#include "pictures/source/reader.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

constexpr std::int64_t kExtent = 4;

std::shared_ptr<const Engine> engine_for(std::int64_t max_batch, bool bytes = false, int threads = 1) {
  EngineOptions options;
  options.max_batch = max_batch;
  options.threads = threads;
  if (bytes) options.picture_input = picture_input(Normalization::Tf);
  return make_cpu_backend()->compile(test::colour_network(kExtent), options);
}

ClassifierOptions options_of(int batch, int threads = 2) {
  ClassifierOptions options;
  options.normalization = Normalization::Tf;
  options.batch = batch;
  options.threads = threads;
  options.top = 2;
  return options;
}

using test::Mixed;

void check_result(const Result& result, std::size_t i) {
  CAPTURE(i);
  CHECK(result.index == i);
  CHECK(result.name == "picture " + std::to_string(i));
  CHECK(result.ok() != Mixed::broken(i));
  if (Mixed::broken(i)) {
    CHECK(result.best.empty());
    CHECK(result.decoder == Decoder::None);
    return;
  }
  REQUIRE(result.best.size() == 2);
  CHECK(result.best[0].index == i % 3);
  CHECK(result.best[0].score == Approx(static_cast<float>(100 + i % 100) / 127.5F - 1.0F).margin(0.03));
  CHECK(result.decoder == Decoder::Cpu);
}

}  // namespace

TEST_CASE("results come in order, with names, best classes and reasons", "[classifier]") {
  const Mixed mixed(100);
  for (const bool bytes : {false, true}) {
    for (const std::int64_t max_batch : {1, 3, 64}) {
      for (const int batch : {1, 7, 64}) {
        CAPTURE(bytes, max_batch, batch);
        Classifier classifier(engine_for(max_batch, bytes), options_of(batch));
        CHECK(classifier.decoder() == Decoder::Cpu);
        for (int repeat = 0; repeat < 2; ++repeat) {
          std::size_t next = 0;
          Run run = classifier.classify(mixed.source());
          for (const Result& result : run) check_result(result, next++);
          CHECK(next == mixed.size());
          const Report report = run.report();
          CHECK(report.pictures == 100);
          CHECK(report.failed == 5);
          CHECK(report.by_cpu == 95);
          CHECK_FALSE(report.stopped);
          CHECK(report.wall_ms > 0);
          CHECK_FALSE(run.next().has_value());
        }
      }
    }
  }
}

TEST_CASE("sessions of a CPU engine share the cores, and results do not depend on how", "[classifier]") {
  const Mixed mixed(60);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const auto& [threads, sessions] : {std::pair{0, 1}, {1, cores}, {2, std::max(1, cores / 2)}, {cores + 1, 1}}) {
    CAPTURE(threads);
    const auto engine = engine_for(8, false, threads);
    Classifier classifier(engine, options_of(8));
    std::size_t next = 0;
    for (const Result& result : classifier.classify(mixed.source())) check_result(result, next++);
    CHECK(next == mixed.size());
    const MemoryReport session = engine->memory();
    CHECK(classifier.memory().session_bytes == sessions * (session.total() - session.weight_bytes));
  }
}

TEST_CASE("ten thousand pictures with broken ones among them are all accounted for", "[classifier]") {
  const Mixed mixed(10000);
  Classifier classifier(engine_for(64), options_of(64, 3));
  std::size_t next = 0;
  std::size_t failed = 0;
  for (const Result& result : classifier.classify(mixed.source())) {
    REQUIRE(result.index == next++);
    failed += result.ok() ? 0 : 1;
    if (result.ok()) REQUIRE(result.best[0].index == result.index % 3);
  }
  CHECK(next == 10000);
  CHECK(failed == 500);
}

TEST_CASE("a source without pictures has no results", "[classifier]") {
  Classifier classifier(engine_for(2), options_of(4));
  Run run = classifier.classify(PictureSource::memory({}));
  CHECK_FALSE(run.next().has_value());
  CHECK(run.report().pictures == 0);
  CHECK_FALSE(run.report().stopped);
}

TEST_CASE("one picture by itself", "[classifier]") {
  Classifier classifier(engine_for(2), options_of(4));
  const std::string file = test::ppm_file(test::plain_picture(9, 9, 10, 200, 30));
  const Result result = classifier.classify_one(test::span_of(file), "green");
  CHECK(result.name == "green");
  CHECK(result.best.at(0).index == 1);
  const Result broken = classifier.classify_one(test::span_of(file.substr(0, 20)), "broken");
  CHECK(broken.failure == "ends early");
  CHECK(broken.best.empty());
  // Beside a run.
  const Mixed mixed(50);
  Run run = classifier.classify(mixed.source());
  std::size_t next = 0;
  for (const Result& one : run) {
    check_result(one, next++);
    CHECK(classifier.classify_one(test::span_of(file)).best.at(0).index == 1);
  }
}

TEST_CASE("outputs are the scores of all classes", "[classifier]") {
  ClassifierOptions options = options_of(4);
  options.outputs = true;
  Classifier classifier(engine_for(2), options);
  const Result result = classifier.classify_one(test::span_of(test::ppm_file(test::plain_picture(9, 9, 255, 0, 51))));
  REQUIRE(result.outputs.size() == 3);
  CHECK(result.outputs[0] == Approx(1));
  CHECK(result.outputs[1] == Approx(-1));
  CHECK(result.outputs[2] == Approx(-0.6));
}

TEST_CASE("the best classes are in order, equals by index, NaN last", "[classifier]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> scores{kNan, 1, 3, kNan, 3, -kInfinity, 2};
  const auto indices = [&](std::size_t count) {
    std::vector<std::size_t> result;
    for (const ClassScore& one : top_classes(scores, count)) result.push_back(one.index);
    return result;
  };
  CHECK(indices(3) == std::vector<std::size_t>{2, 4, 6});
  CHECK(indices(99) == std::vector<std::size_t>{2, 4, 6, 1, 5, 0, 3});
}

TEST_CASE("the best classes are the first of all in order, whatever the scores", "[classifier]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::array kRare{std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 0.0F, -0.0F};
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto before = [](const ClassScore& a, const ClassScore& b) {
    const bool a_number = !std::isnan(a.score);
    const bool b_number = !std::isnan(b.score);
    if (a_number != b_number) return a_number;
    return a_number && a.score != b.score ? a.score > b.score : a.index < b.index;
  };
  for (int repeat = 0; repeat < 3000; ++repeat) {
    std::vector<float> scores(1 + below(120));
    const std::size_t values = 1 + below(40);       // few: many are equal
    const std::size_t rare = below(4) * below(40);  // of 100
    std::vector<ClassScore> all;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = below(100) < rare ? kRare[below(kRare.size())] : static_cast<float>(below(values)) - 10.0F;
      all.push_back({i, scores[i]});
    }
    std::sort(all.begin(), all.end(), before);
    const std::size_t count = below(25);
    const std::vector<ClassScore> found = top_classes(scores, count);
    CAPTURE(repeat, scores.size(), count);
    REQUIRE(found.size() == std::min(count, scores.size()));
    for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(found[i].index == all[i].index);
  }
}

TEST_CASE("one run at a time, and the next after it", "[classifier]") {
  const Mixed mixed(30);
  Classifier classifier(engine_for(2), options_of(4));
  {
    Run run = classifier.classify(mixed.source());
    CHECK_THROWS_WITH(classifier.classify(mixed.source()), contains("another run"));
    run.next();
  }
  PictureSource used_up = mixed.source();
  used_up.take();
  CHECK_THROWS_WITH(classifier.classify(std::move(used_up)), contains("is used up"));
  Run run = classifier.classify(mixed.source());
  std::size_t next = 0;
  for (const Result& result : run) check_result(result, next++);
  CHECK(next == 30);
}

TEST_CASE("a run that is left at any point ends, and the next one is right", "[classifier]") {
  const Mixed mixed(40);
  Classifier classifier(engine_for(2), options_of(4, 3));
  for (std::size_t taken = 0; taken <= mixed.size(); ++taken) {
    Run run = classifier.classify(mixed.source());
    for (std::size_t i = 0; i < taken; ++i) check_result(*run.next(), i);
  }
}

TEST_CASE("a run is stopped by itself, by a token and from another thread", "[classifier]") {
  const Mixed mixed(200);
  std::stop_source stop;
  ClassifierOptions options = options_of(4);
  options.stop = stop.get_token();
  Classifier classifier(engine_for(2), options);
  {
    Run run = classifier.classify(mixed.source());
    run.next();
    run.stop();
    CHECK_FALSE(run.next().has_value());
    CHECK(run.report().stopped);
    CHECK(run.report().pictures == 1);
  }
  {
    Run run = classifier.classify(mixed.source());
    std::jthread other([&] { run.stop(); });
    while (run.next()) {
    }
  }
  {
    Run run = classifier.classify(mixed.source());
    run.next();
    stop.request_stop();
    CHECK_FALSE(run.next().has_value());
  }
  Run run = classifier.classify(mixed.source());  // stopped before it began
  CHECK_FALSE(run.next().has_value());
  CHECK(run.report().stopped);
}

TEST_CASE("progress is told after each batch, and what it throws ends the run", "[classifier]") {
  const Mixed mixed(50);
  std::vector<std::size_t> done;
  bool throws = false;
  ClassifierOptions options = options_of(8);
  options.progress = [&](const Progress& progress) {
    done.push_back(progress.done);
    if (throws && progress.done == 16) throw std::runtime_error("enough");
  };
  Classifier classifier(engine_for(2), options);
  for (const Result& result : classifier.classify(mixed.source())) static_cast<void>(result);
  CHECK(done == std::vector<std::size_t>{8, 16, 24, 32, 40, 48, 50});
  throws = true;
  Run run = classifier.classify(mixed.source());
  for (int i = 0; i < 16; ++i) REQUIRE(run.next().has_value());
  CHECK_THROWS_WITH(run.next(), "enough");
  CHECK_FALSE(run.next().has_value());
}

TEST_CASE("no more is read ahead than the batches in memory hold", "[classifier]") {
  // A source that counts what is taken from it.
  class Counting final : public PictureSource::Reader {
   public:
    Counting(std::span<const std::uint8_t> bytes, std::atomic<std::size_t>& taken) : bytes_(bytes), taken_(taken) {}
    bool next(Entry& entry) override {
      entry.memory = bytes_;
      ++taken_;
      return true;
    }

   private:
    std::span<const std::uint8_t> bytes_;
    std::atomic<std::size_t>& taken_;
  };
  const std::string file = test::ppm_file(test::plain_picture(8, 8, 200, 1, 2));
  constexpr int kBatch = 4;
  Classifier classifier(engine_for(2, false, 0), options_of(kBatch, 2));
  std::atomic<std::size_t> taken{0};
  Run run = classifier.classify(PictureSource(std::make_unique<Counting>(test::span_of(file), taken)));
  constexpr std::size_t kSlots = 3;
  for (std::size_t i = 1; i <= 40; ++i) {
    REQUIRE(run.next().has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // room for what must not happen
    // The batch that results come from, and those behind it.
    CHECK(taken <= (i + kBatch - 1) / kBatch * kBatch + (kSlots - 1) * kBatch);
  }
}

TEST_CASE("a classifier refuses what cannot work", "[classifier]") {
  const auto engine = engine_for(2);
  const auto refuses = [&](const char* what, auto change) {
    ClassifierOptions options = options_of(4);
    change(options);
    CHECK_THROWS_WITH(Classifier(engine, options), contains(what));
  };
  refuses("ClassifierOptions::top", [](auto& options) { options.top = 0; });
  refuses("ClassifierOptions::batch", [](auto& options) { options.batch = 0; });
  refuses("ClassifierOptions::batch", [](auto& options) { options.batch = 1025; });
  refuses("threads", [](auto& options) { options.threads = -1; });
  refuses("ClassifierOptions::gpu_threads", [](auto& options) { options.gpu_threads = -1; });
  refuses("ClassifierOptions::gpu_threads", [](auto& options) { options.gpu_threads = 9; });
  refuses("ClassifierOptions::max_pixel_bytes", [](auto& options) { options.max_pixel_bytes = -1; });
  refuses("DecodeOptions::max_bytes", [](auto& options) { options.decode.max_bytes = 0; });
  refuses("Preprocessing::resize_to", [](auto& options) { options.resize_to = 3; });
  refuses("the engine is of the CPU", [](auto& options) { options.decode_on = DecodeOn::Gpu; });
  CHECK_THROWS_WITH(Classifier(nullptr), contains("the engine is null"));
}

TEST_CASE("memory is reported, and does not grow with the source", "[classifier]") {
  Classifier classifier(engine_for(2), options_of(8));
  const ClassifierMemory memory = classifier.memory();
  CHECK(memory.device_bytes == 0);
  CHECK(memory.host_bytes >= 3 * 8 * 3 * kExtent * kExtent * 4);
  CHECK(memory.session_bytes > 0);
}

TEST_CASE("a folder and a tar archive give the same results", "[classifier]") {
  const TemporaryFolder folder;
  folder.write("photos/a.ppm", test::ppm_file(test::plain_picture(9, 9, 200, 1, 1)));
  folder.write("photos/sub/b.jpg", test::jpeg_file(test::plain_picture(9, 9, 1, 200, 1)));
  Classifier classifier(engine_for(2), options_of(8));
  std::vector<std::string> names;
  for (const Result& result : classifier.classify(PictureSource::folder(folder.path() / "photos"))) {
    names.push_back(result.name + "=" + std::to_string(result.best.at(0).index));
  }
  CHECK(names == std::vector<std::string>{"a.ppm=0", "sub/b.jpg=1"});
}
