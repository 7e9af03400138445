// Decoding, resizing and the network on a GPU, against the CPU.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

#include "pictures/mixed_pictures.h"
#include "pictures/picture_support.h"
#include "pictures/source/reader.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::pictures;
using test::Mixed;

namespace {

constexpr std::int64_t kExtent = 32;

// Answers with what it sees: means of squares of 4 x 4 pixels.
Graph seeing_network(Layout layout = Layout::NCHW) {
  GraphBuilder builder("seeing");
  const ValueId input = builder.set_input("pixels", {DType::F32, Shape{1, 3, kExtent, kExtent}, layout});
  Pool2d pool;
  pool.kind = PoolKind::Average;
  pool.kernel = pool.strides = {4, 4};
  const ValueId means = builder.add_node(pool, {input}, {}, "means");
  const ValueId flat = builder.add_node(Reshape{Shape{1, 3 * kExtent * kExtent / 16}}, {means}, {}, "logits");
  return std::move(builder).build(flat);
}

EngineOptions engine_options(std::int64_t max_batch, bool bytes) {
  EngineOptions options;
  options.max_batch = max_batch;
  if (bytes) options.picture_input = picture_input(Normalization::Tf);
  return options;
}

ClassifierOptions options_of(DecodeOn decode, int batch = 16) {
  ClassifierOptions options;
  options.normalization = Normalization::Tf;
  options.decode_on = decode;
  options.batch = batch;
  options.threads = 3;
  options.top = 2;
  options.resize_to = 40;
  options.outputs = true;
  options.colours = Colours::Exact;
  return options;
}

bool has_nvjpeg(const std::shared_ptr<const Engine>& engine) {
  try {
    const Classifier classifier(engine, options_of(DecodeOn::Gpu, 1));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device_unavailable) throw;
    return false;
  }
}

#define MOBICUDA_SKIP_WITHOUT_NVJPEG(engine) \
  if (!has_nvjpeg(engine)) MOBICUDA_SKIP("no nvJPEG on this machine")

// Of many sizes, kinds and orientations.
std::vector<std::string> good_files() {
  std::vector<std::string> files;
  for (const auto& [width, height] :
       {std::pair{500, 375}, {375, 500}, {64, 64}, {40, 40}, {33, 200}, {1600, 1200}, {48, 31}}) {
    Picture picture{width, height, {}};
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {  // smooth, so that decoders may differ little
        picture.rgb.push_back(static_cast<std::uint8_t>(x * 255 / width));
        picture.rgb.push_back(static_cast<std::uint8_t>(y * 255 / height));
        picture.rgb.push_back(static_cast<std::uint8_t>((x + y) * 255 / (width + height)));
      }
    }
    for (const int subsampling : {0, 1, 2, 3, 4, 5}) {
      test::JpegOptions options;
      options.subsampling = subsampling;
      options.quality = 95;
      const std::string file = test::jpeg_file(picture, options);
      files.push_back(file);
      if (subsampling != 2) continue;
      for (int orientation = 1; orientation <= 8; ++orientation) {
        files.push_back(test::with_exif(file, test::exif_of(orientation)));
      }
      options.progressive = true;
      files.push_back(test::jpeg_file(picture, options));
      files.push_back(test::ppm_file(picture));
    }
  }
  return files;
}

// Ways to decode: batches of 16 are too small for nvJPEG to read the codes on the multiprocessors, those of 64 are not.
struct Way {
  const char* name;
  DecodeOn decode;
  int batch;
  bool in_batches;  // on the multiprocessors
};
constexpr Way kWays[] = {{"cpu", DecodeOn::Cpu, 16, false},
                         {"auto", DecodeOn::Auto, 16, false},
                         {"multiprocessors", DecodeOn::GpuSms, 16, false},
                         {"multiprocessors, in batches", DecodeOn::GpuSms, 64, true}};

PictureSource source_of(const std::vector<std::string>& files) {
  std::vector<EncodedPicture> pictures;
  for (std::size_t i = 0; i < files.size(); ++i)
    pictures.push_back({"picture " + std::to_string(i), test::span_of(files[i])});
  return PictureSource::memory(std::move(pictures));
}

std::vector<Result> results_of(Classifier& classifier, PictureSource source) {
  std::vector<Result> results;
  for (const Result& result : classifier.classify(std::move(source))) results.push_back(result);
  return results;
}

// The largest difference of two pictures' outputs.
float difference(const Result& a, const Result& b) {
  REQUIRE(a.outputs.size() == b.outputs.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.outputs.size(); ++i) largest = std::max(largest, std::abs(a.outputs[i] - b.outputs[i]));
  return largest;
}

std::vector<Result> expected_of(const std::vector<std::string>& files) {
  Classifier classifier(make_cpu_backend()->compile(seeing_network(), engine_options(16, false)),
                        options_of(DecodeOn::Cpu));
  return results_of(classifier, source_of(files));
}

}  // namespace

TEST_CASE("the GPU sees what the CPU sees, whoever decodes", "[gpu_classifier]") {
  const std::vector<std::string> files = good_files();
  const std::vector<Result> expected = expected_of(files);
  const bool nvjpeg = has_nvjpeg(make_custom_backend()->compile(seeing_network(), engine_options(1, true)));
  for (const bool bytes : {false, true}) {
    for (const Layout layout : {Layout::NCHW, Layout::NHWC}) {
      for (const std::int64_t max_batch : {5, 16}) {
        const auto engine = make_custom_backend()->compile(seeing_network(layout), engine_options(max_batch, bytes));
        for (const Way way : kWays) {
          CAPTURE(bytes, layout == Layout::NHWC, max_batch, way.name, nvjpeg);
          if (way.decode == DecodeOn::GpuSms && !nvjpeg) continue;
          const bool on_gpu = nvjpeg && way.decode != DecodeOn::Cpu;
          Classifier classifier(engine, options_of(way.decode, way.batch));
          if (way.decode == DecodeOn::GpuSms) CHECK(classifier.decoder() == Decoder::NvjpegSms);
          const std::vector<Result> results = results_of(classifier, source_of(files));
          REQUIRE(results.size() == files.size());
          std::size_t by_cpu = 0;
          for (std::size_t i = 0; i < files.size(); ++i) {
            CAPTURE(i, to_string(results[i].decoder), results[i].failure);
            CHECK(results[i].ok());
            CHECK(results[i].name == "picture " + std::to_string(i));
            const bool cpu = results[i].decoder == Decoder::Cpu;
            by_cpu += cpu ? 1 : 0;
            // The first size's files of 4:2:0, with all orientations, then progressive and PNM.
            constexpr std::size_t kFirst420 = 2;
            constexpr std::size_t kProgressive = 11;
            constexpr std::size_t kPnm = 12;
            if (on_gpu && i >= kFirst420 && i <= kPnm) CHECK(cpu == (i >= kProgressive));
            // The same bytes, and sums of 16 floats; or samples that differ by a level where decoders round the DCT
            // otherwise, which makes 1 + 1.772 levels of blue, of 127.5.
            CHECK(difference(results[i], expected[i]) < (cpu ? 1e-5F : 3 / 127.5F));
            const Result one = classifier.classify_one(test::span_of(files[i]));
            // In batches the multiprocessors round the DCT otherwise.
            const bool alike =
                one.decoder == results[i].decoder && !(way.in_batches && one.decoder == Decoder::NvjpegSms);
            CHECK(difference(one, results[i]) < (alike ? 1e-5F : 3 / 127.5F));
          }
          // Of a size's 16 files 4:1:1, progressive and PNM are the CPU's in any case, small ones where the GPU refuses
          // them.
          if (on_gpu) CHECK(by_cpu >= files.size() * 3 / 16);
          if (way.decode == DecodeOn::Cpu) CHECK(by_cpu == files.size());
        }
      }
    }
  }
}

TEST_CASE("colours that nvJPEG converts differ a little", "[gpu_classifier]") {
  const std::vector<std::string> files = good_files();
  const std::vector<Result> expected = expected_of(files);
  const auto engine = make_custom_backend()->compile(seeing_network(), engine_options(16, true));
  const bool nvjpeg = has_nvjpeg(engine);
  for (const Way way : kWays) {
    if (way.decode == DecodeOn::GpuSms && !nvjpeg) continue;
    ClassifierOptions options = options_of(way.decode, way.batch);
    options.colours = Colours::Nvjpeg;
    Classifier classifier(engine, options);
    const std::vector<Result> results = results_of(classifier, source_of(files));
    REQUIRE(results.size() == files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      CAPTURE(way.name, i, to_string(results[i].decoder), results[i].failure);
      // Of smooth pictures: 4 levels of 127.5.
      CHECK(difference(results[i], expected[i]) < (results[i].decoder == Decoder::Cpu ? 1e-5F : 4 / 127.5F));
    }
  }
}

TEST_CASE("ten thousand pictures with broken ones among them, on the GPU", "[gpu_classifier]") {
  const Mixed mixed(10000);
  const auto engine = make_custom_backend()->compile(test::colour_network(kExtent), engine_options(64, true));
  ClassifierOptions options = options_of(DecodeOn::Auto, 64);
  if (has_nvjpeg(engine)) options.decode_on = GENERATE(DecodeOn::Gpu, DecodeOn::GpuSms);
  CAPTURE(options.decode_on == DecodeOn::GpuSms);
  Classifier classifier(engine, options);
  std::size_t next = 0;
  std::size_t failed = 0;
  Run run = classifier.classify(mixed.source());
  for (const Result& result : run) {
    REQUIRE(result.index == next++);
    REQUIRE(result.name == "picture " + std::to_string(result.index));
    REQUIRE(result.ok() != Mixed::broken(result.index));
    failed += result.ok() ? 0 : 1;
    if (result.ok()) REQUIRE(result.best.at(0).index == result.index % 3);
  }
  CHECK(next == 10000);
  CHECK(failed == 500);
  const Report report = run.report();
  CHECK(report.by_cpu + report.by_units + report.by_sms == 9500);
  if (classifier.decoder() != Decoder::Cpu) CHECK(report.by_units + report.by_sms >= 4000);
}

TEST_CASE("pictures that do not fit into the memory for pixels are the CPU's, and memory grows for the next",
          "[gpu_classifier]") {
  const auto engine = make_custom_backend()->compile(seeing_network(), engine_options(16, true));
  MOBICUDA_SKIP_WITHOUT_NVJPEG(engine);
  test::JpegOptions jpeg;
  jpeg.subsampling = 0;
  const std::vector<std::string> files(32, test::jpeg_file(test::plain_picture(1000, 1000, 200, 100, 50), jpeg));
  const auto by_cpu = [&](std::int64_t most) {
    ClassifierOptions options = options_of(DecodeOn::Gpu);
    options.max_pixel_bytes = most;
    Classifier classifier(engine, options);
    results_of(classifier, source_of(files));  // each of its slots has met such pictures by then, or by the next run
    results_of(classifier, source_of(files));
    results_of(classifier, source_of(files));
    Run run = classifier.classify(source_of(files));
    for (const Result& result : run) CHECK(result.ok());
    return run.report().by_cpu;
  };
  CHECK(by_cpu(0) == 32);
  CHECK(by_cpu(8 << 20) == 28);  // two of 3 MB in each of two batches
  CHECK(by_cpu(std::int64_t{256} << 20) == 0);
}

TEST_CASE("a run on the GPU is left at any point, stopped, and ended by a callback", "[gpu_classifier]") {
  const Mixed mixed(100);
  const auto engine = make_custom_backend()->compile(test::colour_network(kExtent), engine_options(8, true));
  bool throws = false;
  ClassifierOptions options = options_of(DecodeOn::Auto, 8);
  options.progress = [&](const Progress& progress) {
    if (throws && progress.done == 24) throw std::runtime_error("enough");
  };
  Classifier classifier(engine, options);
  for (std::size_t taken = 0; taken <= mixed.size(); taken += 3) {
    Run run = classifier.classify(mixed.source());
    for (std::size_t i = 0; i < taken; ++i) {
      const auto result = run.next();
      REQUIRE(result.has_value());
      REQUIRE(result->ok() != Mixed::broken(i));
      if (result->ok()) REQUIRE(result->best.at(0).index == i % 3);
    }
  }
  {
    Run run = classifier.classify(mixed.source());
    std::jthread other([&] { run.stop(); });
    while (run.next()) {
    }
  }
  throws = true;
  Run run = classifier.classify(mixed.source());
  for (int i = 0; i < 24; ++i) REQUIRE(run.next().has_value());
  CHECK_THROWS_WITH(run.next(), "enough");
  CHECK_FALSE(run.next().has_value());
}

TEST_CASE("two classifiers share an engine, side by side", "[gpu_classifier]") {
  const Mixed mixed(1000);
  const auto engine = make_custom_backend()->compile(test::colour_network(kExtent), engine_options(16, false));
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        Classifier classifier(engine, options_of(DecodeOn::Auto));
        std::size_t next = 0;
        for (const Result& result : classifier.classify(mixed.source())) {
          wrong += result.index != next++ || result.ok() == Mixed::broken(result.index) ? 1 : 0;
          wrong += result.ok() && result.best[0].index != result.index % 3 ? 1 : 0;
        }
        wrong += next != mixed.size() ? 1 : 0;
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("without nvJPEG the CPU decodes, and one line says so", "[gpu_classifier]") {
  const auto engine = make_custom_backend()->compile(test::colour_network(kExtent), engine_options(16, false));
  ClassifierOptions options = options_of(DecodeOn::Auto);
  options.nvjpeg_library = "/nonexistent/libnvjpeg.so";
  std::vector<std::string> lines;
  options.log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  Classifier classifier(engine, options);
  CHECK(classifier.decoder() == Decoder::Cpu);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], contains("decoded on the CPU") && contains("/nonexistent/libnvjpeg.so"));
  const Mixed mixed(40);
  for (const Result& result : classifier.classify(mixed.source())) CHECK(result.ok() != Mixed::broken(result.index));
  CHECK(lines.size() == 1);
  for (const DecodeOn named : {DecodeOn::GpuSms, DecodeOn::GpuUnits, DecodeOn::Gpu}) {
    options.decode_on = named;
    CHECK_THROWS_WITH(Classifier(engine, options), contains("ClassifierOptions::nvjpeg_library"));
  }
  options.nvjpeg_library = "libm.so.6";
  CHECK_THROWS_WITH(Classifier(engine, options), contains("the library lacks nvjpeg"));
}

TEST_CASE("memory on the GPU is reported, and is not exceeded", "[gpu_classifier]") {
  const auto engine = make_custom_backend()->compile(test::colour_network(kExtent), engine_options(16, false));
  Classifier classifier(engine, options_of(DecodeOn::Auto));
  const ClassifierMemory memory = classifier.memory();
  CHECK(memory.device_bytes >= 6 * 16 * 3 * kExtent * kExtent * 4);
  CHECK(memory.host_bytes >= 6 * 16 * 3 * kExtent * kExtent);
  CHECK(memory.session_bytes > 0);
}
