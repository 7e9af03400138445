#include "stream/config.h"

#include <string>

#include <mobicuda/error.h>

#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::stream;

namespace {

const std::string kLeast = R"("img_dir": "photos", "result_dir": "out")";

Config parsed(const std::string& text) { return parse_config(text, "c.json", "/home/user"); }

/// The error of a configuration.
std::string refused(const std::string& text) {
  try {
    parsed(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("stream config: what is not said has its usual value", "[stream]") {
  const Config config = parsed("{" + kLeast + R"(, "models": ["mobilenet_v2"]})");
  REQUIRE(config.models.size() == 1);
  CHECK(config.models[0].name == "mobilenet_v2");
  CHECK(config.models[0].file == "/home/user/mobilenet_v2.onnx");
  CHECK(config.models[0].share == 1);
  CHECK_FALSE(config.models[0].zero_centred);
  CHECK(config.img_dir == "/home/user/photos");
  CHECK(config.result_dir == "/home/user/out");
  CHECK_FALSE(config.gpu_num);
  CHECK(config.batchsize == 64);
  CHECK(config.times == 1);
  CHECK_FALSE(config.precision);
  CHECK(config.preload);
  CHECK(config.top == 5);
  CHECK(config.labels.empty());
  CHECK(config.decode == Decode::Auto);
}

TEST_CASE("stream config: every key", "[stream]") {
  const Config config =
      parsed(R"({"models": ["a.plan", {"file": "/abs/b", "name": "B", "share": 2.5, "preprocess": "torch"}],
    "img_dir": "/photos", "result_dir": "r", "model_dir": "m", "gpu_num": 2, "batchsize": 128, "times": 3, "precision": "fp32",
    "preload": false, "seed": 7, "top": 1, "labels": "l.txt", "decode": "cpu", "preprocess": "tf"})");
  REQUIRE(config.models.size() == 2);
  CHECK(config.models[0].file == "/home/user/m/a.plan");
  CHECK(config.models[0].name == "a");
  CHECK(config.models[0].zero_centred);
  CHECK(config.models[1].file == "/abs/b.onnx");
  CHECK(config.models[1].name == "B");
  CHECK(config.models[1].share == 2.5);
  CHECK_FALSE(config.models[1].zero_centred);
  CHECK(config.img_dir == "/photos");
  CHECK(config.gpu_num == 2);
  CHECK(config.batchsize == 128);
  CHECK(config.times == 3);
  CHECK(config.precision == Precision::Fp32);
  CHECK_FALSE(config.preload);
  CHECK(config.seed == 7);
  CHECK(config.top == 1);
  CHECK(config.labels == "/home/user/l.txt");
  CHECK(config.decode == Decode::Cpu);
}

TEST_CASE("stream config: mistakes are named", "[stream]") {
  const std::string models = R"(, "models": ["m"])";
  CHECK_THAT(refused("{"), contains("c.json: is no JSON"));
  CHECK_THAT(refused("[]"), contains("c.json: must be an object"));
  CHECK_THAT(refused("{" + kLeast + "}"), contains("c.json: 'models': is missing"));
  CHECK_THAT(refused(R"({"models": ["m"], "result_dir": "out"})"), contains("'img_dir': is missing"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "gpus": 1})"),
             contains("'gpus': is not a known key; known are: batchsize"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "top": 1, "top": 2})"), contains("'top': is there twice"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "batchsize": 0})"),
             contains("'batchsize': must be a whole number from 1 to 1024, got 0"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "batchsize": 1.5})"), contains("got 1.5"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "times": 99999999999999999999})"),
             contains("'times': must be a whole number"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "times": 18446744073709551615})"),
             contains("got 18446744073709551615"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "gpu_num": -1})"), contains("from 0 to 64, got -1"));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "preload": "yes"})"), contains("must be true or false, got \"yes\""));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "precision": "int8"})"),
             contains("must be one of \"fp16\", \"fp32\", \"fp32_split\", \"fp64\""));
  CHECK_THAT(refused("{" + kLeast + models + R"(, "decode": 1})"), contains("got 1"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": []})"), contains("1 to 256 models"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": [""]})"), contains("'models[0]': must not be empty"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": ["/"]})"), contains("'models[0]': must name a file"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": ["m", {"file": "x/"}]})"),
             contains("'models[1].file': must name a file"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": [3]})"), contains("'models[0]': must be an object"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": ["m", "x/m.onnx"]})"),
             contains("'models[1]': is another model named \"m\""));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": [{"share": 1}]})"), contains("'models[0].file': is missing"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": [{"file": "m", "share": 0}]})"),
             contains("'models[0].share': must be a number above 0"));
  CHECK_THAT(refused("{" + kLeast + R"(, "models": [{"file": "m", "weight": 1}]})"),
             contains("'models[0].weight': is not a known key"));
  CHECK_THAT(refused(R"({"img_dir": "", "result_dir": "r", "models": ["m"]})"),
             contains("'img_dir': must not be empty"));
  CHECK_THAT(refused(R"({"img_dir": "a\u0000b", "result_dir": "r", "models": ["m"]})"), contains("zero byte"));
  CHECK_THAT(refused("{" + kLeast + R"(, "top": )" + std::string(100'000, '[')), contains("nests values too deeply"));
}

TEST_CASE("stream config: files", "[stream]") {
  const TemporaryFolder folder;
  folder.write("c.json", "{" + kLeast + R"(, "models": ["m"]})");
  CHECK(load_config(folder.path() / "c.json").img_dir == folder.path() / "photos");
  CHECK_THROWS_WITH(load_config(folder.path() / "none.json"), contains("none.json: cannot be read: No such file"));
  CHECK_THROWS_WITH(load_config(folder.path()), contains("cannot be read"));
  folder.write("empty.json", "");
  CHECK_THROWS_WITH(load_config(folder.path() / "empty.json"), contains("or is empty"));
  folder.write("large.json", std::string(2 << 20, ' '));
  CHECK_THROWS_WITH(load_config(folder.path() / "large.json"), contains("larger than a configuration may be"));
}
