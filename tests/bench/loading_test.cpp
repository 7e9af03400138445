
#include <mobicuda/cpu_backend.h>
#include <mobicuda/plan_file.h>

#include "bench_engine/engines/engine_source.h"
#include "bench_engine/engines/reload.h"
#include "bench_engine/export/report_json.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_report.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/graphs.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

// A plan file of a small network.
class PlanInFolder {
 public:
  explicit PlanInFolder(const EngineOptions& options) {
    test::TestNetwork net(Shape{1, 3, 8, 8});
    net.conv(4, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6(), "stem");
    net.head(5);
    plan_file::save(*make_cpu_backend()->compile(std::move(net).build(), options), path());
  }
  std::filesystem::path path() const { return folder_.path() / "net.plan"; }

  /// What the command line leaves open is empty, as parse_command_line() leaves it.
  Options options() const {
    Options options;
    options.load_engine = path();
    options.precisions.clear();
    options.batches.clear();
    options.duration_s = 0;
    options.iterations = 2;
    return options;
  }

 private:
  TemporaryFolder folder_;
};

EngineOptions two_pictures() {
  EngineOptions options;
  options.max_batch = 2;
  options.threads = 1;
  return options;
}

std::string usage_error(Options options) {
  try {
    take_from_plan(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("what the command line leaves open is the plan file's", "[loading]") {
  EngineOptions engine = two_pictures();
  engine.precision = Precision::Fp64;
  engine.picture_input.emplace();
  const PlanInFolder plan(engine);
  Options options = plan.options();
  take_from_plan(options);
  CHECK(options.implementations == std::vector<std::string>{"cpu"});
  CHECK(options.precisions == std::vector{Precision::Fp64});
  CHECK(options.batches == std::vector<std::int64_t>{2});
  CHECK(options.pictures);
  take_from_plan(options);  // the same, given

  options.implementations = {"cpu:fp64"};
  CHECK(usage_error(options) == "no error");
  options.implementations = {"custom"};
  CHECK_THAT(usage_error(options), contains("its implementation is cpu fp64"));
  options.implementations = {"cpu"};
  options.precisions = {Precision::Fp32};
  CHECK_THAT(usage_error(options), contains("its precision is fp64"));
  options.precisions.clear();
  options.batches = {2, 3};
  CHECK_THAT(usage_error(options), contains("its largest batch is 2"));
}

TEST_CASE("bytes for a plan file of floats are wrong usage", "[loading]") {
  const PlanInFolder plan(two_pictures());
  Options options = plan.options();
  options.pictures = true;
  CHECK_THAT(usage_error(options), contains("its input is fp32"));
}

TEST_CASE("a model that is read anew each time is timed as often as asked for", "[loading]") {
  const PlanInFolder plan(two_pictures());
  Options options = plan.options();
  take_from_plan(options);
  EngineSource source(options, {});
  ModelInfo model;
  source.read(model);
  REQUIRE(model.plan);
  CHECK(model.import_ms >= model.plan->read_ms + model.plan->check_ms + model.plan->parse_ms);
  CHECK(model.classes() == 5);
  CHECK(model.flops > 0);
  TimedInput input(options, model);
  input.make(2);
  Case what{"cpu", Precision::Fp32, Processor::Cpu, make_cpu_backend, {}};
  const Samples samples = measure_reload(options, {}, what, two_pictures(), input, 10, [] { return false; });
  CHECK(samples.times_ms.size() >= 2);
  std::filesystem::remove(plan.path());
  CHECK_THROWS_AS(measure_reload(options, {}, what, two_pictures(), input, 10, [] { return false; }), Error);
}

TEST_CASE("the parts of loading are in the CSV", "[loading]") {
  const std::string csv = csv_report(profiled_report());
  CHECK_THAT(csv, contains(",reload_median_ms,"));
  CHECK_THAT(csv, contains(",9"));
}
