// The plans that an engine has for several batch sizes, and the weights that they share. No GPU is needed.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "lower/choose_plans.h"
#include "lower/lower.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "models/zoo/onnx_writer.h"
#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda {
namespace {

using Batches = std::vector<std::int64_t>;

constexpr std::int64_t kMaxBatch = 256;

const kernels::DeviceTraits& h200() {
  static const kernels::DeviceTraits traits = kernels::traits_of(90, 132);
  return traits;
}

Graph network(const std::string& name) {
  const std::string bytes = name == "mobilenet_v2" ? zoo::build_mobilenet_v2({}).SerializeAsString()
                                                   : zoo::build_network(name, {}).SerializeAsString();
  return optimize(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), name));
}

EngineOptions options_for(Precision precision, std::int64_t max_batch = kMaxBatch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  return options;
}

std::vector<SavedPlan> plans_of(const Graph& graph, const EngineOptions& options) {
  return choose_plans(graph, options, h200(), input_desc(graph, options));
}

std::vector<std::string> kernels_of(const std::vector<SavedChoice>& choices) {
  std::vector<std::string> names;
  for (const SavedChoice& choice : choices) names.push_back(choice.kernel + '/' + choice.variant);
  return names;
}

std::vector<std::string> kernels_at(const Graph& graph, const EngineOptions& options, std::int64_t n) {
  EngineOptions of_batch = options;
  of_batch.max_batch = n;
  return kernels_of(choose_layers(graph, of_batch, h200()).choices);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Lowered {
  std::vector<CudaPlan> plans;
  WeightPieces weights;
};

Lowered lowered(const Graph& graph, const EngineOptions& options, const std::vector<SavedPlan>& plans,
                WeightPieces weights = {}) {
  Lowered all{{}, std::move(weights)};
  for (const SavedPlan& plan : plans) all.plans.push_back(lower(graph, options, h200(), plan, all.weights, nullptr));
  return all;
}

std::span<const std::byte> bytes_of(const WeightPieces& weights, const SavedPiece& piece) {
  return weights.bytes().subspan(static_cast<std::size_t>(piece.offset), static_cast<std::size_t>(piece.bytes));
}

TEST_CASE("batch plans: the sizes that are considered") {
  EngineOptions options = options_for(Precision::Fp16, 1);
  CHECK(considered_batches(options) == Batches{1});
  options.max_batch = 5;
  CHECK(considered_batches(options) == Batches{1, 2, 3, 4, 5});
  options.max_batch = 40;
  CHECK(considered_batches(options) ==
        Batches{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40});
  options.max_batch = 37;
  CHECK(considered_batches(options).back() == 37);
  options.max_batch = 65536;
  const Batches all = considered_batches(options);
  CHECK(all.size() == 16 + 8 * 12);
  for (std::int64_t power = 1; power <= options.max_batch; power *= 2) CHECK(std::ranges::binary_search(all, power));

  options.timing_cache = "times";
  options.max_batch = 12;
  CHECK(considered_batches(options) == Batches{1, 2, 4, 8, 12});
  options.max_batch = 16;
  CHECK(considered_batches(options) == Batches{1, 2, 4, 8, 16});
  options.plan_batches = Batches{3, 7};
  CHECK(considered_batches(options) == Batches{3, 7, 16});
  options.plan_batches = Batches{3, 16};
  CHECK(considered_batches(options) == Batches{3, 16});
  options.plan_batches = Batches{};
  CHECK(considered_batches(options) == Batches{16});
}

TEST_CASE("batch plans: each has the kernels of an engine for that batch") {
  const std::string name = GENERATE("mobilenet_v2", "mobilenet_v3_large", "resnet50");
  const Precision precision = GENERATE(Precision::Fp16, Precision::Fp32, Precision::Fp64);
  CAPTURE(name, to_string(precision));
  const Graph graph = network(name);
  const EngineOptions options = options_for(precision);
  const std::vector<SavedPlan> plans = plans_of(graph, options);
  REQUIRE_FALSE(plans.empty());
  CHECK(plans.back().batch == kMaxBatch);
  // A size without a plan of its own runs what it would have had.
  for (const std::int64_t n : considered_batches(options)) {
    CAPTURE(n);
    const auto plan = std::ranges::find_if(plans, [&](const SavedPlan& one) { return one.batch >= n; });
    REQUIRE(plan != plans.end());
    CHECK(kernels_of(plan->choices) == kernels_at(graph, options, n));
  }
  for (std::size_t i = 0; i + 1 < plans.size(); ++i) {
    CHECK(plans[i].batch < plans[i + 1].batch);
    CHECK(kernels_of(plans[i].choices) != kernels_of(plans[i + 1].choices));
  }
}

TEST_CASE("batch plans: a plan's steps are those of an engine for its batch") {
  const Precision precision = GENERATE(Precision::Fp16, Precision::Fp32);
  CAPTURE(to_string(precision));
  const Graph graph = network("mobilenet_v2");
  const EngineOptions options = options_for(precision);
  const std::vector<SavedPlan> plans = plans_of(graph, options);
  const Lowered all = lowered(graph, options, plans);
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CAPTURE(plans[i].batch);
    EngineOptions alone = options_for(precision, plans[i].batch);
    alone.plan_batches.emplace();
    const Lowered own = lowered(graph, alone, plans_of(graph, alone));
    const CudaPlan& plan = all.plans[i];
    const CudaPlan& expected = own.plans.front();
    CHECK(plan.batch == plans[i].batch);
    CHECK(plan.arena_bytes == expected.arena_bytes);
    REQUIRE(plan.steps.size() == expected.steps.size());
    for (std::size_t step = 0; step < plan.steps.size(); ++step) {
      CHECK(plan.steps[step].info.kernel == expected.steps[step].info.kernel);
      CHECK(plan.steps[step].info.name == expected.steps[step].info.name);
      CHECK(plan.steps[step].info.weight_bytes == expected.steps[step].info.weight_bytes);
    }
    // What it packs, byte for byte.
    for (const auto& [key, piece] : own.weights.by_key()) {
      CAPTURE(key.packing);
      REQUIRE(all.weights.by_key().contains(key));
      CHECK(std::ranges::equal(bytes_of(all.weights, all.weights.by_key().at(key)), bytes_of(own.weights, piece)));
    }
    largest = std::max(largest, plan.arena_bytes);
  }
  CHECK(largest == all.plans.back().arena_bytes);
}

TEST_CASE("batch plans: no bytes of weights are held twice") {
  const Precision precision = GENERATE(Precision::Fp16, Precision::Fp32);
  CAPTURE(to_string(precision));
  const Graph graph = network("mobilenet_v2");
  const EngineOptions options = options_for(precision);
  const WeightPieces weights = lowered(graph, options, plans_of(graph, options)).weights;
  std::map<std::int64_t, std::int64_t> places;  // bytes by offset
  for (const auto& [key, piece] : weights.by_key()) {
    CHECK(piece.offset % kWeightAlignment == 0);
    const auto [place, is_new] = places.emplace(piece.offset, piece.bytes);
    CHECK((is_new || place->second == piece.bytes));
  }
  std::int64_t end = 0;
  std::vector<std::string> contents;
  for (const auto& [offset, bytes] : places) {
    CHECK(offset == end);
    end = (offset + bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
    const auto content = bytes_of(weights, {offset, bytes});
    contents.emplace_back(reinterpret_cast<const char*>(content.data()), content.size());
  }
  CHECK(end == static_cast<std::int64_t>(weights.bytes().size()));
  std::ranges::sort(contents);
  CHECK(std::ranges::adjacent_find(contents) == contents.end());
  CHECK(weights.pieces().size() == weights.by_key().size());
  CHECK(places.size() == weights.by_key().size());  // nothing is packed twice
}

TEST_CASE("batch plans: what they hold beside the one plan's weights is bounded") {
  struct Bound {
    Precision precision;
    double ratio;
  };
  const Bound bound = GENERATE(Bound{Precision::Fp16, 1.541}, Bound{Precision::Fp32, 1.65});
  const Graph graph = network("mobilenet_v2");
  EngineOptions options = options_for(bound.precision);
  const auto several = static_cast<double>(lowered(graph, options, plans_of(graph, options)).weights.bytes().size());
  options.plan_batches.emplace();
  const auto one = static_cast<double>(lowered(graph, options, plans_of(graph, options)).weights.bytes().size());
  CAPTURE(to_string(bound.precision), several, one);
  CHECK(several / one <= bound.ratio);
}

TEST_CASE("batch plans: saved ones are lowered to the same steps and pieces") {
  const Precision precision = GENERATE(Precision::Fp16, Precision::Fp32);
  CAPTURE(to_string(precision));
  const Graph graph = network("mobilenet_v2");
  const EngineOptions options = options_for(precision);
  const std::vector<SavedPlan> plans = plans_of(graph, options);
  const Lowered all = lowered(graph, options, plans);
  SavedEngine saved{"custom", "a GPU", options, without_constants(graph), plans, all.weights.pieces(), {}};
  saved.weights = WeightBytes(static_cast<std::int64_t>(all.weights.bytes().size()));
  std::ranges::copy(all.weights.bytes(), saved.weights.span().begin());

  const std::vector<std::byte> file = plan_file::save_to_memory(saved);
  const SavedEngine read = plan_file::read_from_memory(file, "plan");
  CHECK(plan_file::save_to_memory(read) == file);
  require_plans(read);
  CHECK(read.pieces == saved.pieces);
  REQUIRE(read.plans.size() == plans.size());
  const Lowered again = lowered(read.graph, options, read.plans, WeightPieces(read));
  CHECK(again.weights.pieces() == saved.pieces);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CHECK(read.plans[i].batch == plans[i].batch);
    REQUIRE(again.plans[i].steps.size() == all.plans[i].steps.size());
    for (std::size_t step = 0; step < all.plans[i].steps.size(); ++step) {
      CHECK(again.plans[i].steps[step].info.kernel == all.plans[i].steps[step].info.kernel);
      CHECK(again.plans[i].steps[step].info.reason == all.plans[i].steps[step].info.reason);
    }
  }

  SECTION("a plan whose choices are another's is refused, and so is one without them") {
    SavedEngine damaged = read;
    damaged.plans.front().choices.pop_back();
    CHECK_THROWS_AS(lowered(damaged.graph, options, damaged.plans, WeightPieces(damaged)), Error);
    damaged = read;
    damaged.plans.front().choices.front().variant = "imaginary";
    CHECK_THROWS_AS(lowered(damaged.graph, options, damaged.plans, WeightPieces(damaged)), Error);
    damaged = read;
    damaged.plans.resize(1);
    std::string said;
    try {
      lowered(damaged.graph, options, damaged.plans, WeightPieces(damaged)).weights.on_device();
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(has(said, "of them belong to its layers"));  // those of the other plans are left
  }
  SECTION("batches that do not rise to max_batch are refused") {
    const auto says = [](const SavedEngine& damaged) -> std::string {
      try {
        require_plans(damaged);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_model);
        return error.what();
      }
      return "";
    };
    SavedEngine damaged = read;
    damaged.plans.clear();
    CHECK(has(says(damaged), "has no plan for its max_batch, 256"));
    damaged = read;
    damaged.plans.pop_back();
    CHECK(has(says(damaged), "has no plan for its max_batch, 256"));
    damaged = read;
    damaged.plans.front().batch = 0;
    CHECK(has(says(damaged), "has a plan for a batch of 0"));
    damaged = read;
    damaged.plans[1].batch = damaged.plans[0].batch;
    CHECK(has(says(damaged), "after one of 1"));
    damaged = read;
    damaged.plans.back().batch = kMaxBatch + 1;
    CHECK(has(says(damaged), "but up to 257"));
  }
}

TEST_CASE("batch plans: blocks with windows of 5x5 take two launches for few images, in half") {
  const Graph graph = optimize(test::wide_window_blocks());
  const auto pairs = [&](Precision precision, std::int64_t n) {
    const auto names = kernels_at(graph, options_for(precision, n), n);
    return std::ranges::count(names, "block/expand_depthwise");
  };
  CHECK(pairs(Precision::Fp16, 1) == 3);
  CHECK(pairs(Precision::Fp16, 256) == 0);
  CHECK(pairs(Precision::Fp32, 1) == 0);
  const EngineOptions options = options_for(Precision::Fp16);
  const auto plans = plans_of(graph, options);
  const Lowered made = lowered(graph, options, plans);
  const auto& layers = made.plans.front().steps;
  CHECK(std::ranges::count_if(
            layers, [](const CudaStep& step) { return step.info.kernel.starts_with("expand_depthwise/"); }) == 3);
}

TEST_CASE("batch plans: a variant that a plan takes runs smaller batches") {
  const std::string name = GENERATE("mobilenet_v2", "efficientnet_b0", "resnet50");
  const Precision precision = GENERATE(Precision::Fp16, Precision::Fp32);
  CAPTURE(name, to_string(precision));
  const Graph graph = network(name);
  const EngineOptions options = options_for(precision);
  WeightPieces weights;
  std::int64_t above = 0;
  for (const SavedPlan& plan : plans_of(graph, options)) {
    // Choices are replayed only where supports() says that the variant runs the shape.
    SavedPlan smaller = plan;
    for (smaller.batch = above + 1; smaller.batch <= plan.batch; ++smaller.batch) {
      CAPTURE(plan.batch, smaller.batch);
      CHECK_NOTHROW(lower(graph, options, h200(), smaller, weights, nullptr));
    }
    above = plan.batch;
  }
}

}  // namespace
}  // namespace mobicuda
