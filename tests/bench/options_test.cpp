#include "bench_engine/command_line/parse_command_line.h"

#include <sys/stat.h>
#include <sstream>

#include "bench_engine/command_line/check_effects.h"
#include "bench_engine/engines/implementations.h"
#include "bench_engine/model/exit_codes.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

struct Parsed {
  ParsedCommandLine result;
  std::string out;
  std::string err;
};

Parsed parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench_engine");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  ParsedCommandLine result = parse_command_line(static_cast<int>(argv.size()), argv.data(), out, err);
  return {std::move(result), out.str(), err.str()};
}

// A command line with an existing model in front.
Parsed parse_with_model(std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  folder.write("m.onnx", "x");
  arguments.insert(arguments.begin(), {"--model", (folder.path() / "m.onnx").string()});
  return parse(std::move(arguments));
}

std::vector<Implementation> machine_without_gpu() {
  return {{"custom", Processor::Gpu, {Precision::Fp32, Precision::Fp16}, "no CUDA device", nullptr},
          {"cpu", Processor::Cpu, {Precision::Fp32, Precision::Fp64}, {}, nullptr}};
}

std::vector<Implementation> machine_with_gpu() {
  auto implementations = machine_without_gpu();
  implementations[0].unavailable.clear();
  return implementations;
}

Options options_of(std::vector<std::string> arguments) {
  const Parsed parsed = parse_with_model(std::move(arguments));
  REQUIRE_FALSE(parsed.result.exit_code.has_value());
  return parsed.result.options;
}

std::vector<std::string> labels_of(const Selection& selection) {
  std::vector<std::string> labels;
  for (const Case& one : selection.cases) labels.push_back(one.label());
  return labels;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("options are spelt --a=b and --a b, lists with commas or repeated", "[options]") {
  const Options a = options_of({"--impl=custom,cpu", "--batch=1,8", "--precision", "fp32,fp16", "--duration=0.5"});
  CHECK(a.implementations == Strings{"custom", "cpu"});
  CHECK(a.batches == std::vector<std::int64_t>{1, 8});
  CHECK(a.precisions == std::vector<Precision>{Precision::Fp32, Precision::Fp16});
  CHECK(a.duration_s == 0.5);
  const Options b =
      options_of({"--batch", "1", "--batch", "4", "--fp16", "--kernelVariant", "gemm=mma_64,conv2d=direct"});
  CHECK(b.batches == std::vector<std::int64_t>{1, 4});
  CHECK(b.precisions == std::vector<Precision>{Precision::Fp16});
  CHECK(b.kernel_variants.at("gemm") == "mma_64");
  CHECK(b.kernel_variants.at("conv2d") == "direct");
}

TEST_CASE("the timing cache has trtexec's flags", "[options]") {
  const Options options = options_of({"--timingCacheFile=times.txt", "--errorOnTimingCacheMiss"});
  CHECK(options.timing_cache == "times.txt");
  CHECK(options.require_timing_cache);
  CHECK(options_of({}).timing_cache.empty());
  CHECK_FALSE(options_of({"--timingCacheFile", "times.txt"}).require_timing_cache);
}

TEST_CASE("batches, threads and numbers of pictures are lists of numbers and ranges", "[options]") {
  CHECK(options_of({"--batch", "1:16:*4,5"}).batches == std::vector<std::int64_t>{1, 4, 16, 5});
  CHECK(options_of({"--threads", "0"}).threads == std::vector<int>{0});
  CHECK(options_of({"--threads", "1,3:5"}).threads == std::vector<int>{1, 3, 4, 5});
  CHECK(options_of({}).threads == std::vector<int>{0});
  CHECK(options_of({"--images", "/tmp", "--preprocess", "tf", "--maxImages", "10:1000:*10"}).max_images ==
        std::vector<std::size_t>{10, 100, 1000});
  CHECK(options_of({"--images", "/tmp", "--preprocess", "tf", "--imagesCount", "7"}).max_images ==
        std::vector<std::size_t>{7});
}

TEST_CASE("the sample interval is 0 or at least a millisecond", "[options]") {
  CHECK(options_of({}).sample_interval_ms == 50);
  CHECK(options_of({"--sampleInterval", "0"}).sample_interval_ms == 0);
  CHECK(options_of({"--sampleInterval=10"}).sample_interval_ms == 10);
  CHECK_THAT(parse_with_model({"--sampleInterval", "0.5"}).err, contains("must be 0 or at least 1 ms"));
  CHECK_THAT(parse_with_model({"--sampleInterval", "-1"}).err, contains("--sampleInterval"));
}

TEST_CASE("the shapes option gives batch and extents", "[options]") {
  const Options options = options_of({"--shapes=input:4x3x96x128"});
  CHECK(options.batches == std::vector<std::int64_t>{4});
  CHECK(options.picture_shape == std::vector<std::int64_t>{3, 96, 128});
  CHECK(options_of({"--shapes=4x3x96x128", "--batch=2"}).batches == std::vector<std::int64_t>{2});
  CHECK(!options.generated_elements);
  CHECK(options_of({"--generatedElements=268435456"}).generated_elements == std::int64_t{1} << 28);
}

TEST_CASE("mistakes end in exit code 2 with a message", "[options]") {
  const auto mistake = [](std::vector<std::string> arguments, const std::string& message) {
    CAPTURE(arguments);
    const Parsed parsed = parse_with_model(std::move(arguments));
    CHECK(parsed.result.exit_code == std::optional<int>(kExitUsage));
    CHECK_THAT(parsed.err, contains(message));
  };
  mistake({"--noSuchFlag"}, "--noSuchFlag");
  mistake({"--generatedElements", "0"}, "--generatedElements: must be a number of at least 1, got '0'");
  mistake({"--batch", "0"}, "at least 1");
  mistake({"--threads", "-1"}, "--threads: must be at least 0");
  mistake({"--threads", "5000"}, "at most 4096");
  mistake({"--images", "/tmp", "--preprocess", "tf", "--maxImages", "0"}, "--maxImages: must be at least 1");
  mistake({"--maxImages", "3"}, "need --images");
  mistake({"--golden", "/nonexistent.npy"}, "--golden: no such file");
  mistake({"--ulpThreshold", "4"}, "need --golden");
  mistake({"--compareThreshold", "1"}, "--compareThreshold needs --compare");
  mistake({"--compare", "cpu", "--compareThreshold", "-1"}, "--compareThreshold");
  mistake({"--precision", "fp8"}, "fp8");
  mistake({"--iterations", "0"}, "--iterations");
  mistake({"--kernelVariant", "gemm"}, "KERNEL=NAME");
  mistake({"--errorOnTimingCacheMiss"}, "needs --timingCacheFile");
  mistake({"--labels", "/nonexistent"}, "no such file");
  mistake({"--images", "/nonexistent", "--preprocess", "tf"}, "no such folder");
  mistake({"--images", "/tmp"}, "--preprocess");
  mistake({"--images", "/tmp", "--preprocess", "tf", "--top1Threshold", "50"}, "--labels");
  mistake({"--top1Threshold", "50"}, "--images");
  mistake({"--decodeThreads", "2"}, "need --images");
  mistake({"--timeImages"}, "need --images");
  mistake({"--sustained", "-1"}, "--sustained");
  const Parsed parsed = parse({"--model", "/nonexistent.onnx"});
  CHECK(parsed.result.exit_code == std::optional<int>(kExitUsage));
  CHECK_THAT(parsed.err, contains("no such file: /nonexistent.onnx"));
  CHECK(parse({}).result.exit_code == std::optional<int>(kExitUsage));
}

TEST_CASE("what is named as a file and is none is told apart", "[options]") {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const char* option : {"--model", "--loadEngine"}) {
    CAPTURE(option);
    const Parsed of_folder = parse({option, folder.path().string()});
    CHECK(of_folder.result.exit_code == std::optional<int>(kExitUsage));
    CHECK_THAT(of_folder.err, contains(option + (": " + folder.path().string()) + " is a folder, not a file"));
    CHECK_THAT(parse({option, pipe}).err, contains(option + (": " + pipe) + " is not a regular file"));
  }
  CHECK_THAT(parse_with_model({"--labels", "/"}).err, contains("--labels: / is a folder"));
  CHECK_THAT(parse_with_model({"--images", pipe, "--preprocess", "tf"}).err, contains("--images: not a folder: "));
}

TEST_CASE("help and version answer and end well", "[options]") {
  const Parsed help = parse({"--help"});
  CHECK(help.result.exit_code == std::optional<int>(kExitOk));
  for (const char* part : {"--impl", "--warmUp", "--images", "--exportTimes", "Examples", "Exit codes"}) {
    CHECK_THAT(help.out, contains(part));
  }
  const Parsed version = parse({"--version"});
  CHECK(version.result.exit_code == std::optional<int>(kExitOk));
  CHECK_THAT(version.out, contains("bench_engine "));
}

TEST_CASE("all takes what the machine can run and notes the rest", "[implementations]") {
  const Selection selection = select_cases(options_of({"--impl", "all"}), machine_without_gpu());
  CHECK(labels_of(selection) == Strings{"cpu fp32"});
  REQUIRE(selection.notes.size() == 1);
  CHECK(selection.notes[0] == "custom: no CUDA device");
  CHECK(labels_of(select_cases(options_of({}), machine_with_gpu())) == Strings{"custom fp32", "cpu fp32"});
}

TEST_CASE("a list of threads is a case each for the CPU alone", "[implementations]") {
  const Selection selection = select_cases(options_of({"--threads", "1,3,0"}), machine_with_gpu());
  CHECK(labels_of(selection) ==
        Strings{"custom fp32", "cpu fp32, 1 thread", "cpu fp32, 3 threads", "cpu fp32, all cores"});
  CHECK_THROWS_WITH(select_cases(options_of({"--threads", "2,2"}), machine_with_gpu()),
                    contains("cpu fp32, 2 threads twice"));
}

TEST_CASE("a named implementation must run", "[implementations]") {
  CHECK_THROWS_WITH(select_cases(options_of({"--impl", "custom,cpu"}), machine_without_gpu()),
                    contains("device_unavailable") && contains("no CUDA device"));
  CHECK_THROWS_WITH(select_cases(options_of({"--impl", "tpu"}), machine_with_gpu()),
                    "--impl: unknown implementation 'tpu': custom, cpu, or all");
  CHECK_THROWS_WITH(named_case("all", Precision::Fp32, machine_with_gpu(), "--compare"),
                    "--compare: unknown implementation 'all': custom, cpu");
  CHECK_THROWS_AS(select_cases(options_of({"--impl", "cpu", "--fp16"}), machine_with_gpu()), UsageError);
  CHECK_THROWS_AS(select_cases(options_of({"--impl", "cpu,cpu"}), machine_with_gpu()), UsageError);
}

TEST_CASE("when nothing is left to run, the error tells whether a device would help", "[implementations]") {
  CHECK_THROWS_AS(select_cases(options_of({"--impl", "all", "--fp16"}), machine_without_gpu()), Error);
  CHECK_THROWS_AS(select_cases(options_of({"--impl", "cpu", "--fp16"}), machine_without_gpu()), UsageError);
  const Selection fewer = select_cases(options_of({"--impl", "custom,cpu", "--fp16"}), machine_with_gpu());
  CHECK(labels_of(fewer) == Strings{"custom fp16"});
  CHECK(fewer.notes.size() == 1);
}

TEST_CASE("an option that nothing which runs has is wrong usage", "[implementations]") {
  const auto judge = [](std::vector<std::string> arguments, const std::vector<Implementation>& implementations) {
    const Options options = options_of(std::move(arguments));
    require_effects(options, select_cases(options, implementations));
  };
  const std::vector<Strings> of_custom{
      {"--kernelVariant", "gemm=foo"}, {"--timingCacheFile", "t"}, {"--noCudaGraph"},
      {"--noProgrammaticLaunch"},      {"--device", "1"},          {"--infStreams", "2"},
      {"--hostTransfer", "copy"},      {"--singleCalls"}};
  for (const Strings& arguments : of_custom) {
    CAPTURE(arguments.front());
    Strings with_cpu = arguments;
    with_cpu.insert(with_cpu.end(), {"--impl", "cpu"});
    CHECK_THROWS_AS(judge(with_cpu, machine_with_gpu()), UsageError);
    CHECK_THROWS_WITH(judge(with_cpu, machine_with_gpu()),
                      contains(arguments.front() + " is an option of custom") &&
                          contains("what runs here is cpu: leave it out, or name custom"));
    CHECK_NOTHROW(judge(arguments, machine_with_gpu()));
    CHECK_THROWS_WITH(judge(arguments, machine_without_gpu()), contains("cpu (custom: no CUDA device): leave it out"));
    with_cpu.insert(with_cpu.end(), {"--compare", "custom:fp16"});
    CHECK_NOTHROW(judge(with_cpu, machine_with_gpu()));
  }
  CHECK_THROWS_WITH(judge({"--impl", "custom", "--threads", "2"}, machine_with_gpu()), contains("an option of cpu"));
  CHECK_NOTHROW(judge({"--impl", "custom,cpu", "--threads", "2"}, machine_with_gpu()));
  CHECK_NOTHROW(judge({"--impl", "cpu", "--device", "0", "--infStreams", "3"}, machine_with_gpu()));
}

TEST_CASE("a name in front of shapes or an input is that of the model's input", "[options]") {
  const TemporaryFolder folder;
  folder.write("a:b.npy", "x");
  const std::string file = (folder.path() / "a:b.npy").string();
  const auto judge = [](std::vector<std::string> arguments) {
    require_input_name(options_of(std::move(arguments)), "pixels");
  };
  CHECK_THROWS_WITH(judge({"--shapes", "foo:1x3x8x8"}),
                    "--shapes: the model has no input 'foo', its input is 'pixels'");
  CHECK_THROWS_AS(judge({"--loadInputs", "foo:" + file}), UsageError);
  CHECK_NOTHROW(judge({"--shapes", "pixels:1x3x8x8", "--loadInputs", "pixels:" + file}));
  CHECK_NOTHROW(judge({"--shapes", "1x3x8x8", "--loadInputs", file}));
}

TEST_CASE("precisions go with those that have them, a case may name its own", "[implementations]") {
  const Selection lists =
      select_cases(options_of({"--impl", "custom,cpu", "--precision", "fp16,fp32"}), machine_with_gpu());
  CHECK(labels_of(lists) == Strings{"custom fp16", "custom fp32", "cpu fp32"});
  CHECK(lists.notes.size() == 1);
  const Selection own =
      select_cases(options_of({"--impl", "custom:fp16,cpu:fp64", "--reference", "cpu"}), machine_with_gpu());
  CHECK(labels_of(own) == Strings{"custom fp16", "cpu fp64"});
  CHECK(own.reference == 1);
  CHECK_THROWS_AS(select_cases(options_of({"--impl", "cpu", "--reference", "custom"}), machine_with_gpu()), UsageError);
}
