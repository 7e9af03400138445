// Which variant every layer of every network takes by rule, on GPUs of several sizes, as digests in tests/engine/plans:
// a change that is meant to change no plan is seen to. No GPU is needed.
//
// With MOBICUDA_PLANS=FOLDER the plans themselves are written there, and the digests as the snapshots have them: two
// builds' folders differ where their plans do, and a change that is meant takes its digests from there.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include <mobicuda/mobicuda.h>

#include "lower/lower.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "models/zoo/onnx_writer.h"
#include "support/catch.h"
#include "support/folders.h"
#include "support/texts.h"

namespace mobicuda {
namespace {

constexpr std::array<std::int64_t, 19> kBatches{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 24, 32, 48, 64, 96, 128, 192, 256};

// As Orin, T4, L4, RTX 4070 Ti SUPER, A100, half of an H100, H100, RTX 5090.
constexpr std::array<kernels::DeviceTraits, 8> kGpus{
    kernels::traits_of(87, 16),  kernels::traits_of(75, 40), kernels::traits_of(89, 58),  kernels::traits_of(89, 66),
    kernels::traits_of(80, 108), kernels::traits_of(90, 66), kernels::traits_of(90, 132), kernels::traits_of(120, 170)};

// An H100 and half of one that compile kernels for a model's own shapes.
std::array<kernels::DeviceTraits, 2> gpus_that_compile() {
  std::array<kernels::DeviceTraits, 2> gpus{kernels::traits_of(90, 66), kernels::traits_of(90, 132)};
  for (kernels::DeviceTraits& gpu : gpus) gpu.compiles = true;
  return gpus;
}

Graph read(const std::string& bytes) {
  return optimize(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "network"));
}

Graph network(const std::string& name) {
  return read(name == "mobilenet_v2" ? zoo::build_mobilenet_v2({}).SerializeAsString()
                                     : zoo::build_network(name, {}).SerializeAsString());
}

Graph mobilenet_v2(double width, std::int64_t pixels) {
  zoo::MobileNetV2Options options;
  options.width = width;
  options.height = options.picture_width = pixels;
  return read(zoo::build_mobilenet_v2(options).SerializeAsString());
}

std::string told(const std::vector<SavedChoice>& choices) {
  std::string text;
  for (const SavedChoice& choice : choices) text += ' ' + choice.kernel + '/' + choice.variant;
  return text;
}

// FNV-1a, 32 bits.
std::string digest(const std::string& text) {
  constexpr std::uint32_t kBasis = 0x811c9dc5U;
  constexpr std::uint32_t kPrime = 0x01000193U;
  std::uint32_t hash = kBasis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  std::ostringstream digits;
  digits << std::hex << hash;
  return digits.str();
}

struct Plans {
  std::string digests;  // a line for each precision and GPU: of each batch
  std::string texts;    // a line for each precision, GPU and batch
};

Plans plans_of(const std::string& name, const Graph& graph, std::span<const Precision> precisions,
               std::span<const kernels::DeviceTraits> gpus) {
  std::ostringstream digests;
  std::ostringstream texts;
  digests << name << ", batches";
  for (const std::int64_t batch : kBatches) digests << ' ' << batch;
  digests << '\n';
  for (const Precision precision : precisions) {
    for (const kernels::DeviceTraits& gpu : gpus) {
      std::ostringstream where;
      where << to_string(precision) << ", capability " << gpu.capability << ", " << gpu.multiprocessors
            << " multiprocessors";
      digests << where.str() << ':';
      for (const std::int64_t batch : kBatches) {
        EngineOptions options;
        options.precision = precision;
        options.max_batch = batch;
        const std::string plan = told(choose_layers(graph, options, gpu).choices);
        digests << ' ' << digest(plan);
        texts << where.str() << ", batch " << batch << ':' << plan << '\n';
      }
      digests << '\n';
    }
  }
  return {digests.str(), texts.str()};
}

// Lines of `found` that `expected` has otherwise, one for each.
std::string changed(const std::string& found, const std::string& expected) {
  std::istringstream is(found);
  std::istringstream was(expected);
  std::string text;
  std::string line;
  std::string before;
  while (std::getline(is, line)) {
    std::getline(was, before);
    if (line != before) text += "now  " + line + "\nwas  " + before + '\n';
  }
  return text;
}

void compare(const std::string& name, const Plans& plans) {
  if (const char* folder = std::getenv("MOBICUDA_PLANS")) {
    std::ofstream(std::filesystem::path(folder) / (name + ".txt")) << plans.digests;
    std::ofstream(std::filesystem::path(folder) / (name + ".plans")) << plans.texts;
  }
  const std::string expected = text_of(test::source_folder() / "tests/engine/plans" / (name + ".txt"));
  INFO("plans that changed (MOBICUDA_PLANS=FOLDER writes them out):\n" << changed(plans.digests, expected));
  CHECK((plans.digests == expected));
}

void compare(const std::string& name) {
  constexpr std::array kPrecisions{Precision::Fp16, Precision::Fp32, Precision::Fp64};
  compare(name, plans_of(name, network(name), kPrecisions, kGpus));
}

TEST_CASE("MobileNetV2's plans by rule are those of the snapshot") { compare("mobilenet_v2"); }

TEST_CASE("other networks' plans by rule are those of the snapshot") {
  for (const zoo::NetworkInfo& info : zoo::networks()) compare(std::string(info.name));
}

TEST_CASE("plans with kernels for a model's own shapes are those of the snapshot") {
  constexpr std::array kPrecisions{Precision::Fp16};
  const auto gpus = gpus_that_compile();
  Plans all;
  const auto add = [&](const std::string& name, const Graph& graph) {
    const Plans plans = plans_of(name, graph, kPrecisions, gpus);
    all.digests += plans.digests;
    all.texts += plans.texts;
  };
  for (const double width : {0.35, 0.5, 0.75, 1.0, 1.3, 1.4}) {
    for (const std::int64_t pixels : {96, 128, 160, 192, 224, 256, 320}) {
      std::ostringstream name;
      name << "mobilenet_v2 " << width << ", " << pixels << " pixels";
      add(name.str(), mobilenet_v2(width, pixels));
    }
  }
  for (const zoo::NetworkInfo& info : zoo::networks()) add(std::string(info.name), network(std::string(info.name)));
  compare("specialised", all);
}

TEST_CASE("a digest tells plans apart") {
  CHECK(digest("") == "811c9dc5");
  CHECK(digest("a") == "e40c292c");
  CHECK(told({{"gemm", "a", ""}, {"gemm", "b", ""}}) != told({{"gemm", "b", ""}, {"gemm", "a", ""}}));
}

}  // namespace
}  // namespace mobicuda
