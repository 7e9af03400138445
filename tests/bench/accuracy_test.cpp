#include "bench_engine/pictures/accuracy.h"

#include <mobicuda/cpu_backend.h>
#include <mobicuda/graph.h>

#include "support/catch.h"
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
  Labels labels;
  labels.synsets = {"red", "green", "blue"};
  labels.indices = {{"red", 0}, {"green", 1}, {"blue", 2}};
  set.labels_given = true;
  set.samples = list_samples(folder.path(), labels);
  set.preprocessing =
      Preprocessing::for_input({DType::F32, Shape{1, 3, kExtent, kExtent}, Layout::NCHW}, Normalization::Tf);
  return set;
}

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
    const ImageReport report =
        evaluate_images(set, classifiers, 0, static_cast<std::size_t>(batch), 3, [](std::size_t) { return false; });
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
  }
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
  const ImageReport report = evaluate_images(set, classifiers, 0, 2, 3, [](std::size_t) { return false; });
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
  const ImageReport report = evaluate_images(image_set(folder), classifiers, 0, 1, 3, [&](std::size_t pictures) {
    done.push_back(pictures);
    return done.size() > 1;
  });
  CHECK(done == std::vector<std::size_t>{0, 1});
  CHECK(report.evaluated == 1);
}
