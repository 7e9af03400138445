#include "bench_engine/pictures/accuracy.h"

#include <algorithm>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/graph.h>

#include "bench_engine/pictures/per_class.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

constexpr std::int64_t kExtent = 4;

// Answers with the mean of each channel: class 0 is red, 1 green, 2 blue.
std::unique_ptr<Session> colour_classifier(std::int64_t max_batch) {
  GraphBuilder builder("colours");
  const ValueId input = builder.set_input("pixels", {DType::F32, Shape{1, 3, kExtent, kExtent}, Layout::NCHW});
  const ValueId mean = builder.add_node(GlobalAveragePool{}, {input}, {}, "mean");
  const ValueId flat = builder.add_node(Reshape{Shape{1, 3}}, {mean}, {}, "logits");
  EngineOptions options;
  options.max_batch = max_batch;
  options.threads = 1;
  return make_cpu_backend()->compile(std::move(builder).build(flat), options)->create_session();
}

// A picture of one colour, larger than the crop.
std::string ppm(char red, char green, char blue) {
  std::string text = "P6\n8 8\n255\n";
  for (int i = 0; i < 8 * 8; ++i) text += {red, green, blue};
  return text;
}

ImageSet image_set(const TemporaryFolder& folder) {
  ImageSet set;
  set.folder = folder.path();
  set.labels.synsets = {"red", "green", "blue"};
  set.labels.names = {"a red one", "a green one", "a blue one"};
  set.labels.indices = {{"red", 0}, {"green", 1}, {"blue", 2}};
  set.labels_given = true;
  set.samples = list_samples(folder.path(), set.labels);
  set.preprocessing =
      pictures::Preprocessing::for_input({DType::F32, Shape{1, 3, kExtent, kExtent}, Layout::NCHW}, Normalization::Tf);
  return set;
}

ImageRun run_of(std::size_t batch, std::size_t decode_threads = 0) {
  ImageRun run;
  run.batch = batch;
  run.classes = 3;
  run.decode_threads = decode_threads;
  run.measure_rates = false;
  return run;
}

bool never(std::size_t /*done*/) { return false; }

}  // namespace

TEST_CASE("accuracy over a folder counts labels, broken pictures and hits", "[accuracy]") {
  const TemporaryFolder folder;
  folder.write("red/1.ppm", ppm(100, 0, 0));
  folder.write("red/2.ppm", ppm(0, 100, 50));  // looks green
  folder.write("green/broken.ppm", "P6\n8 8\n255\nshort");
  folder.write("green/fine.ppm", ppm(0, 100, 0));
  folder.write("blue/fine.ppm", ppm(0, 0, 100));
  folder.write("grey/fine.ppm", ppm(9, 9, 9));  // no class of that name
  const ImageSet set = image_set(folder);
  for (const std::int64_t batch : {1, 2, 8}) {
    CAPTURE(batch);
    const auto session = colour_classifier(batch);
    const std::vector<Classifier> classifiers{{"cpu", Precision::Fp32, {}, session.get()}};
    const ImageReport report = evaluate_images(set, classifiers, run_of(static_cast<std::size_t>(batch)), never);
    CHECK(report.found == 6);
    CHECK(report.evaluated == 5);
    CHECK(report.labelled == 4);
    REQUIRE(report.broken.size() == 1);
    CHECK(report.broken[0].first == "green/broken.ppm");
    CHECK(report.unlabelled == std::vector<std::string>{"grey/fine.ppm"});
    REQUIRE(report.results.size() == 1);
    CHECK(report.results[0].top1 == 3);
    CHECK(report.results[0].top5 == 4);
    CHECK_FALSE(report.results[0].with_reference.has_value());
    REQUIRE(report.classes.size() == 3);
    REQUIRE(report.results[0].by_class.size() == 3);
    CHECK(report.classes[0].name == "a red one");
    CHECK(report.classes[0].pictures == 2);
    CHECK(report.results[0].by_class[0].top1 == 1);
    CHECK(report.results[0].by_class[0].top5 == 2);
    CHECK(report.classes[1].pictures == 1);  // the broken one has no part in it
  }
}

TEST_CASE("an entry that is no file is left out, counted and named", "[accuracy]") {
  const TemporaryFolder folder;
  folder.write("red/1.ppm", ppm(100, 0, 0));
  std::filesystem::create_symlink("loop.ppm", folder.path() / "red" / "loop.ppm");
  const auto session = colour_classifier(2);
  const std::vector<Classifier> classifiers{{"cpu", Precision::Fp32, {}, session.get()}};
  const ImageReport report = evaluate_images(image_set(folder), classifiers, run_of(2), never);
  CHECK(report.found == 2);
  CHECK(report.evaluated == 1);
  REQUIRE(report.broken.size() == 1);
  CHECK(report.broken[0].first == "red/loop.ppm");
  CHECK(report.broken[0].second == "Too many levels of symbolic links");
}

TEST_CASE("a folder without a picture that can be decoded is an error", "[accuracy]") {
  const TemporaryFolder folder;
  folder.write("a.ppm", "broken");
  folder.write("b.txt", "text");
  const auto session = colour_classifier(2);
  const std::vector<Classifier> classifiers{{"cpu", Precision::Fp32, {}, session.get()}};
  const auto judge = [&] { require_decoded(evaluate_images(image_set(folder), classifiers, run_of(2), never)); };
  CHECK_THROWS_WITH(judge(),
                    contains(folder.path().string() + ": none of its 2 files can be decoded; the first, a.ppm: "));
  folder.write("c.ppm", ppm(1, 2, 3));
  CHECK_NOTHROW(judge());
}

TEST_CASE("reference logits are compared row by row, past broken pictures", "[accuracy]") {
  const TemporaryFolder folder;
  folder.write("a.ppm", "broken");
  folder.write("b.ppm", ppm(127, 0, 0));
  ImageSet set = image_set(folder);
  const float red = 127.0F / 127.5F - 1.0F;
  set.reference_rows = {9, 9, 9, red + 0.5F, -1, -1};
  const auto session = colour_classifier(2);
  const std::vector<Classifier> classifiers{{"cpu", Precision::Fp32, {}, session.get()},
                                            {"cpu again", Precision::Fp32, {}, session.get()}};
  const ImageReport report = evaluate_images(set, classifiers, run_of(2), never);
  REQUIRE(report.results[0].with_reference_file.has_value());
  const Comparison& file = *report.results[0].with_reference_file;
  CHECK(file.pictures == 1);
  // The mean of 16 equal numbers of this size is exact up to the sum's rounding.
  CHECK(file.max_abs == Approx(0.5));
  CHECK(file.top1_equal == 1);
  REQUIRE(report.results[1].with_reference.has_value());
  CHECK(report.results[1].with_reference->max_abs == 0);
}

TEST_CASE("classifying stops when told to", "[accuracy]") {
  const TemporaryFolder folder;
  folder.write("a.ppm", ppm(1, 2, 3));
  folder.write("b.ppm", ppm(1, 2, 3));
  const auto session = colour_classifier(1);
  const std::vector<Classifier> classifiers{{"cpu", Precision::Fp32, {}, session.get()}};
  std::vector<std::size_t> done;
  const ImageReport report = evaluate_images(image_set(folder), classifiers, run_of(1), [&](std::size_t pictures) {
    done.push_back(pictures);
    return done.size() > 1;
  });
  CHECK(done == std::vector<std::size_t>{0, 1});
  CHECK(report.evaluated == 1);
}

TEST_CASE("classes that differ from the reference's are counted in pairs", "[accuracy]") {
  Labels labels;
  labels.names = {"cat", "dog", "fox"};
  const std::vector<float> reference{1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0};
  const std::vector<float> own{0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0};
  ConfusionCounter counter;
  counter.add(std::span(own).first(9), std::span(reference).first(9), 3);
  counter.add(std::span(own).last(3), std::span(reference).last(3), 3);
  const std::vector<Confusion> pairs = counter.result(labels);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].reference_name == "cat");
  CHECK(pairs[0].own_name == "dog");
  CHECK(pairs[0].pictures == 2);
  CHECK(pairs[1].reference_name == "fox");
  CHECK(pairs[1].own_name == "cat");
  CHECK(pairs[1].pictures == 1);
  CHECK(counter.result(Labels())[0].own_name == "class 1");
}

TEST_CASE("a stream of pictures is the same for any number of threads, and bounded", "[accuracy]") {
  const TemporaryFolder folder;
  constexpr int kPictures = 40;
  for (int i = 0; i < kPictures; ++i) {
    const std::string name = std::to_string(10 + i) + ".ppm";
    folder.write(name, i % 7 == 3 ? "broken" : ppm(static_cast<char>(i), 1, 2));
  }
  const ImageSet set = image_set(folder);
  for (const std::size_t threads : {1, 2, 5, 64}) {
    for (const std::size_t batch : {1, 3, 8, 64}) {
      CAPTURE(threads, batch);
      SampleStream stream(set, batch, threads);
      CHECK(stream.batches_in_memory() <= std::max<std::size_t>(3, 2 * threads / batch + 2));
      std::vector<std::string> paths;
      std::vector<float> reds;
      std::size_t broken = 0;
      while (const PictureBatch* pictures = stream.next()) {
        CHECK(pictures->samples.size() <= batch);
        const std::size_t elements = set.preprocessing.elements();
        REQUIRE(pictures->input.size() == pictures->samples.size() * elements);
        for (std::size_t i = 0; i < pictures->samples.size(); ++i) {
          paths.push_back(pictures->samples[i].path);
          reds.push_back(pictures->input[i * elements]);
        }
        broken += pictures->broken.size();
      }
      CHECK(stream.next() == nullptr);
      CHECK(broken == 6);
      REQUIRE(paths.size() == kPictures - broken);
      CHECK(std::is_sorted(paths.begin(), paths.end()));
      for (std::size_t i = 0; i < paths.size(); ++i) {
        CHECK(reds[i] == Approx(static_cast<float>(std::stoi(paths[i]) - 10) / 127.5F - 1.0F));
      }
    }
  }
}

TEST_CASE("a stream that is left early ends", "[accuracy]") {
  const TemporaryFolder folder;
  for (int i = 0; i < 30; ++i) folder.write(std::to_string(i) + ".ppm", ppm(1, 2, 3));
  const ImageSet set = image_set(folder);
  { const SampleStream untouched(set, 2, 3); }
  SampleStream begun(set, 2, 3);
  CHECK(begun.next() != nullptr);
}

TEST_CASE("rates from files to logits are measured for each implementation", "[accuracy]") {
  const TemporaryFolder folder;
  folder.write("red/a.ppm", ppm(1, 2, 3));
  folder.write("red/b.ppm", "broken");
  folder.write("red/c.ppm", ppm(1, 2, 3));
  const auto session = colour_classifier(2);
  const std::vector<Classifier> classifiers{{"cpu", Precision::Fp32, {}, session.get()},
                                            {"cpu again", Precision::Fp32, {}, session.get()}};
  ImageRun run = run_of(2, 1);
  run.measure_rates = true;
  const ImageReport report = evaluate_images(image_set(folder), classifiers, run, never);
  CHECK(report.decode_threads == 1);
  CHECK(report.decode_rate > 0);
  for (const AccuracyResult& result : report.results) {
    CHECK(result.inference_rate > 0);
    CHECK(result.pipeline_rate > 0);
    CHECK(result.pipeline_decoder == "cpu");
  }
  CHECK(report.results[1].confusion.empty());
}
