#include "stream/run_stream.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <map>
#include <sstream>
#include <thread>

#include <mobicuda/error.h>

#include <nlohmann/json.hpp>

#include "stream/assignment.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::stream;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr float kNotFinite = std::numeric_limits<float>::infinity();

/// Class and score follow from the item; every tenth picture is broken. Fails as it is told.
class FakeWorker : public Worker {
 public:
  std::function<void(Item)> before = [](Item) {};

  void classify(const Unit& unit, const Take& take, const std::stop_token& stop) override {
    for (const Item item : unit.items) {
      if (stop.stop_requested()) return;
      before(item);
      Outcome outcome{item, {}, {}};
      if (item % 10 == 9) {
        outcome.failure = "is broken\x1b";
      } else {
        outcome.best = {{item % 3, 0.5F}, {7, kNotFinite}};
      }
      take(std::span(&outcome, 1));
    }
  }
};

struct Setup {
  Config config;
  std::vector<std::string> pictures;
  std::vector<std::string> labels = {"tench", "a \"shark\""};
  std::vector<Processor> processors;
  std::stop_source stop;

  explicit Setup(const fs::path& results, std::size_t count = 50, std::size_t gpus = 2) {
    config.models = {{"one", "one.onnx", 1, false}, {"two", "two.onnx", 2, true}};
    config.result_dir = results;
    config.batchsize = 4;
    config.times = 3;
    for (std::size_t i = 0; i < count; ++i) pictures.push_back("p" + std::to_string(i) + ".jpg");
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      Processor& one = processors.emplace_back();
      one.name = "GPU " + std::to_string(gpu);
      one.gpu = static_cast<int>(gpu);
      for (int worker = 0; worker < 2; ++worker) one.workers.push_back(std::make_unique<FakeWorker>());
    }
  }

  FakeWorker& worker(std::size_t gpu, std::size_t number) {
    return dynamic_cast<FakeWorker&>(*processors.at(gpu).workers.at(number));
  }

  Summary run(bool resume = false, const std::function<void(Item)>& progress = {}) {
    Journal journal(config.result_dir, identity_of(config, pictures), items_of(config, pictures.size()), resume);
    Summary summary = run_stream({config, pictures, labels, journal, progress, stop.get_token()}, processors);
    for (const ModelConfig& model : config.models) summary.models.push_back({model.name, 1'000'000, 2'000'000});
    return summary;
  }
};

/// The results by item; fails where an item is there twice.
std::map<Item, Json> results(const fs::path& folder) {
  std::map<Item, Json> found;
  std::ifstream stream(folder / "results.jsonl");
  for (std::string line; std::getline(stream, line);) {
    const Json json = Json::parse(line);
    const bool is_new = found.emplace(json.at("item").get<Item>(), json).second;
    REQUIRE(is_new);
  }
  return found;
}

void require_all(const Setup& setup) {
  const std::map<Item, Json> found = results(setup.config.result_dir);
  const Item items = items_of(setup.config, setup.pictures.size());
  REQUIRE(found.size() == items);
  const Assignment assignment({1, 2}, setup.config.seed);
  for (const auto& [item, json] : found) {
    CHECK(json.at("picture") == setup.pictures[item % setup.pictures.size()]);
    CHECK(json.at("time") == item / setup.pictures.size());
    CHECK(json.at("model") == setup.config.models[assignment.model_of(item)].name);
    CHECK(json.contains("error") == (item % 10 == 9));
    if (json.contains("error")) {
      CHECK(json.at("error") == "is broken\\x1b");
      continue;
    }
    CHECK(json.at("top").at(0).at("class") == item % 3);
    CHECK(json.at("top").at(0).at("score") == 0.5);
    CHECK(json.at("top").at(0).contains("label") == (item % 3 < 2));
    if (item % 3 == 1) CHECK(json.at("top").at(0).at("label") == "a \"shark\"");
    CHECK(json.at("top").at(1).at("score").is_null());
  }
}

}  // namespace

TEST_CASE("stream: every picture once, on all processors", "[stream]") {
  const TemporaryFolder folder;
  Setup setup(folder.path());
  std::atomic<Item> told = 0;
  const Summary summary = setup.run(false, [&](Item done) { told = done; });
  require_all(setup);
  CHECK(summary.complete());
  CHECK_FALSE(summary.interrupted);
  CHECK(summary.done == 150);
  CHECK(summary.failed == 15);
  CHECK(told == 150);
  CHECK(summary.processors.at(0).items() + summary.processors.at(1).items() == 150);
  CHECK(summary.processors.at(0).lost.empty());

  const Json json = Json::parse(summary_json(summary, setup.config));
  CHECK(json.at("complete") == true);
  CHECK(json.at("models").at(0).at("pictures").get<Item>() + json.at("models").at(1).at("pictures").get<Item>() == 150);
  CHECK(json.at("processors").size() == 2);
  std::ostringstream text;
  print_summary(text, summary, setup.config);
  CHECK_THAT(text.str(), contains("150 pictures in"));
  CHECK_THAT(text.str(), contains("15 could not be classified"));
  CHECK_THAT(text.str(), !contains("--resume"));
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
}

TEST_CASE("stream: a GPU that fails leaves its pictures to the others", "[stream]") {
  const TemporaryFolder folder;
  Setup setup(folder.path());
  const ErrorCode code = GENERATE(ErrorCode::device_lost, ErrorCode::device_unavailable, ErrorCode::out_of_memory);
  const int fails_at = GENERATE(0, 1, 7);
  std::atomic<int> count = 0;
  for (std::size_t worker = 0; worker < 2; ++worker) {
    setup.worker(0, worker).before = [&count, code, fails_at](Item) {
      if (count++ >= fails_at) throw Error(code, "GPU 0", "is gone");
    };
  }
  // The other one waits until it has happened.
  for (std::size_t worker = 0; worker < 2; ++worker) {
    setup.worker(1, worker).before = [&count, fails_at](Item) {
      while (count <= fails_at) std::this_thread::yield();
    };
  }
  const Summary summary = setup.run();
  require_all(setup);
  CHECK(summary.complete());
  CHECK_THAT(summary.processors.at(0).lost, contains("GPU 0: is gone"));
  CHECK(summary.processors.at(0).items() <= static_cast<Item>(fails_at));
  CHECK(summary.processors.at(1).lost.empty());
  std::ostringstream text;
  print_summary(text, summary, setup.config);
  CHECK_THAT(text.str(), contains("stopped before the end, others took over"));
  CHECK(Json::parse(summary_json(summary, setup.config)).at("processors").at(0).at("lost").is_string());
}

TEST_CASE("stream: all GPUs fail, and a later run goes on", "[stream]") {
  const TemporaryFolder folder;
  Setup setup(folder.path());
  std::atomic<int> count = 0;
  for (std::size_t gpu = 0; gpu < 2; ++gpu) {
    for (std::size_t worker = 0; worker < 2; ++worker) {
      setup.worker(gpu, worker).before = [&count](Item) {
        if (count++ >= 20) throw Error(ErrorCode::device_lost, "GPU", "is gone");
      };
    }
  }
  CHECK_THROWS_WITH(setup.run(),
                    contains("no processor is left to go on") && contains("is gone") && contains("--resume"));
  CHECK(results(folder.path()).size() == 20);
  Setup again(folder.path());
  CHECK_THROWS_WITH(again.run(), contains("--resume"));
  const Summary summary = again.run(true);
  CHECK(summary.done_before == 20);
  CHECK(summary.done == 130);
  require_all(again);
}

TEST_CASE("stream: any other error ends it, with the results so far", "[stream]") {
  const TemporaryFolder folder;
  Setup setup(folder.path());
  std::atomic<int> count = 0;
  const bool own = GENERATE(true, false);
  for (std::size_t i = 0; i < 4; ++i) {
    setup.worker(i / 2, i % 2).before = [&count, own](Item) {
      if (++count != 10) return;  // one of the workers
      if (own) throw Error(ErrorCode::invalid_model, "one.onnx", "has changed");
      throw std::runtime_error("unexpected");
    };
  }
  CHECK_THROWS_WITH(setup.run(), contains(own ? "has changed" : "unexpected"));
  Setup again(folder.path());
  again.run(true);
  require_all(again);
}

TEST_CASE("stream: Ctrl-C ends it between two results", "[stream]") {
  const TemporaryFolder folder;
  Setup setup(folder.path());
  const Summary summary = setup.run(false, [&](Item done) {
    if (done == 30) setup.stop.request_stop();
  });
  CHECK(summary.interrupted);
  CHECK(summary.done >= 30);
  CHECK(summary.done < 150);
  CHECK(results(folder.path()).size() == summary.done);
  std::ostringstream text;
  print_summary(text, summary, setup.config);
  CHECK_THAT(text.str(), contains("--resume goes on"));
  Setup again(folder.path());
  CHECK(again.run(true).done == 150 - summary.done);
  require_all(again);
}

TEST_CASE("stream: kill -9, twenty times, and every picture exactly once", "[stream]") {
  const TemporaryFolder folder;
  std::size_t before = 0;
  for (int round = 0; round < 20; ++round) {
    int told[2];
    REQUIRE(pipe(told) == 0);
    const pid_t child = fork();
    if (child == 0) {
      close(told[0]);
      try {
        Setup setup(folder.path(), 400);
        std::atomic<int> count = 0;
        setup.run(true, [&](Item) {
          if (++count == 10 + round && write(told[1], "x", 1) != 1) _exit(2);
        });
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    close(told[1]);
    char byte = 0;
    const bool working = read(told[0], &byte, 1) == 1;  // it is in the midst of it
    close(told[0]);
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
    std::ifstream stream(folder.path() / "results.jsonl");
    const auto lines = static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(stream), {}, '\n'));
    CHECK(lines >= before);
    before = lines;
    if (!working) break;  // all was done
  }
  Setup setup(folder.path(), 400);
  CHECK(setup.run(true).complete());
  require_all(setup);
}

TEST_CASE("stream: more items than a stream has", "[stream]") {
  Config config;
  config.times = 1'000'000;
  CHECK_THROWS_WITH(items_of(config, 5000),
                    contains("'times': 1000000 times 5000 pictures are more than a stream has"));
  CHECK(items_of(config, 4294) == 4'294'000'000U);
}
