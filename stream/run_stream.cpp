#include "stream/run_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <mobicuda/error.h>

#include <nlohmann/json.hpp>

#include "stream/schedule.h"

namespace mobicuda::stream {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Most names need no escapes.
bool is_plain(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

std::string quoted(const std::string& text) {
  if (is_plain(text)) return '"' + text + '"';
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The fewest digits that are read back as the same float; null where it is not finite.
void append(std::string& text, float score) {
  constexpr std::size_t kMost = 32;
  std::array<char, kMost> digits{};
  if (!std::isfinite(score)) {
    text += "null";
    return;
  }
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), score);
  text.append(digits.data(), error == std::errc() ? end : digits.data());
}

bool is_lost(ErrorCode code) {
  return code == ErrorCode::device_lost || code == ErrorCode::device_unavailable || code == ErrorCode::out_of_memory;
}

/// Reads what a GPU does, again and again, while it lives.
class LoadSampler {
 public:
  explicit LoadSampler(std::function<Load()> read) : read_(std::move(read)) {
    if (read_) thread_ = std::jthread([this](const std::stop_token& stop) { sample(stop); });
  }

  /// Ends it: the means, where there were readings.
  Load finish() {
    if (!read_) return {};
    thread_.request_stop();
    thread_.join();
    return {mean(percents_), mean(watts_)};
  }

 private:
  void sample(const std::stop_token& stop) {
    constexpr auto kInterval = std::chrono::milliseconds(200);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const Load load = read_();
      if (load.percent) percents_.push_back(*load.percent);
      if (load.power_w) watts_.push_back(*load.power_w);
      wake_.wait_for(lock, stop, kInterval, [] { return false; });
    }
  }

  static std::optional<double> mean(const std::vector<double>& values) {
    if (values.empty()) return {};
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }

  std::function<Load()> read_;
  std::vector<double> percents_, watts_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

/// What the workers' threads share.
class Workers {
 public:
  Workers(const Stream& stream, Schedule& schedule, std::vector<Processor>& processors, Summary& summary)
      : stream_(stream), schedule_(schedule), processors_(processors), summary_(summary) {
    for (const ModelConfig& model : stream.config.models) models_.push_back(quoted(model.name));
  }

  /// A worker's thread: `number` among all.
  void work(std::size_t processor, std::size_t worker, std::size_t number) {
    while (!stream_.stop.stop_requested() && !failed_) {
      std::optional<Unit> unit = schedule_.next(number);
      if (!unit) return;
      if (!classify(*unit, processor, worker, number)) return;
    }
  }

  void require_success() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Whether the worker can go on.
  bool classify(Unit& unit, std::size_t processor, std::size_t worker, std::size_t number) {
    const Processor& on = processors_[processor];
    const auto start = Clock::now();
    std::size_t done = 0;
    bool handing_over = false;
    std::string lost;
    try {
      on.workers[worker]->classify(
          unit,
          [&](std::span<const Outcome> outcomes) {
            handing_over = true;
            take(unit, outcomes, processor);
            done += outcomes.size();
            handing_over = false;
          },
          stream_.stop);
    } catch (const Error& error) {
      if (handing_over || !is_lost(error.code())) {
        fail(std::current_exception());
      } else {
        lost = error.what();
      }
    } catch (...) {
      fail(std::current_exception());
    }
    add_seconds(processor, unit.model, since(start), lost);
    if (done == unit.items.size()) {
      schedule_.finish(number, unit, since(start));
      return lost.empty() && !failed_;
    }
    unit.items.erase(unit.items.begin(), unit.items.begin() + static_cast<std::ptrdiff_t>(done));
    schedule_.leave(std::move(unit));
    return false;
  }

  void take(const Unit& unit, std::span<const Outcome> outcomes, std::size_t processor) {
    const Processor& on = processors_[processor];
    const Item pictures = stream_.pictures.size();
    std::string lines;
    Item failed = 0;
    for (const Outcome& outcome : outcomes) {
      // The journal finds an item by how its line begins.
      lines += "{\"item\":" + std::to_string(outcome.item) +
               ",\"picture\":" + quoted(stream_.pictures[outcome.item % pictures]) +
               ",\"time\":" + std::to_string(outcome.item / pictures) + ",\"model\":" + models_[unit.model] +
               ",\"gpu\":" + (on.gpu ? std::to_string(*on.gpu) : "null");
      if (outcome.failure.empty()) {
        append_top(lines, outcome);
      } else {
        lines += ",\"error\":" + quoted(printable(outcome.failure));
        ++failed;
      }
      lines += "}\n";
    }
    stream_.journal.append(lines);
    const std::scoped_lock lock(mutex_);
    Share& share = summary_.processors[processor].models[unit.model];
    share.items += outcomes.size();
    share.failed += failed;
    summary_.done += outcomes.size();
    summary_.failed += failed;
    if (stream_.progress) stream_.progress(summary_.done_before + summary_.done);
  }

  void append_top(std::string& line, const Outcome& outcome) const {
    line += ",\"top\":[";
    bool first = true;
    for (const auto& [index, score] : outcome.best) {
      if (!std::exchange(first, false)) line += ',';
      line += "{\"class\":" + std::to_string(index);
      if (index < stream_.labels.size()) line += ",\"label\":" + quoted(stream_.labels[index]);
      line += ",\"score\":";
      append(line, score);
      line += '}';
    }
    line += ']';
  }

  void add_seconds(std::size_t processor, std::size_t model, double seconds, const std::string& lost) {
    const std::scoped_lock lock(mutex_);
    ProcessorSummary& one = summary_.processors[processor];
    one.models[model].worker_seconds += seconds;
    if (one.lost.empty()) one.lost = lost;
  }

  void fail(std::exception_ptr error) {
    {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::move(error);
    }
    failed_ = true;
    schedule_.stop();
  }

  const Stream& stream_;
  Schedule& schedule_;
  std::vector<Processor>& processors_;
  std::vector<std::string> models_;  // their names, quoted
  std::mutex mutex_;                 // of the next two
  Summary& summary_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
};

std::string digest(const std::vector<std::string>& names) {
  // FNV-1a, 64 bits: a list that was changed, not one that was forged.
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::string& name : names) {
    for (const char c : name + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return std::to_string(names.size()) + " pictures, " + std::to_string(hash);
}

}  // namespace

Item items_of(const Config& config, std::size_t pictures) {
  const auto times = static_cast<Item>(config.times);
  if (pictures > kMostItems / times) {
    throw Error(ErrorCode::invalid_argument, "'times'",
                std::to_string(config.times) + " times " + std::to_string(pictures) +
                    " pictures are more than a stream has, " + std::to_string(kMostItems));
  }
  return times * pictures;
}

Identity identity_of(const Config& config, const std::vector<std::string>& pictures) {
  Json models = Json::array();
  for (const ModelConfig& model : config.models) {
    models.push_back({model.name, model.file.string(), model.share, model.zero_centred ? "tf" : "torch"});
  }
  const auto text = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); };
  return {{"models", text(models)},
          {"img_dir", config.img_dir.string() + ": " + digest(pictures)},
          {"times", std::to_string(config.times)},
          {"seed", std::to_string(config.seed)},
          {"top", std::to_string(config.top)},
          {"precision", config.precision ? std::string(to_string(*config.precision)) : "by processor"}};
}

Summary run_stream(const Stream& stream, std::vector<Processor>& processors) {
  const Config& config = stream.config;
  Summary summary;
  summary.items = items_of(config, stream.pictures.size());
  summary.done_before = stream.journal.done_before();
  std::vector<double> shares;
  for (const ModelConfig& model : config.models) shares.push_back(model.share);
  std::size_t workers = 0;
  for (const Processor& one : processors) {
    summary.processors.push_back(
        {one.name, one.gpu, one.workers.size(), std::vector<Share>(config.models.size()), {}, {}, {}});
    workers += one.workers.size();
  }
  Schedule schedule({summary.items, static_cast<std::size_t>(config.batchsize), !config.preload, workers,
                     [&stream](Item item) { return stream.journal.was_done(item); }},
                    config.models.size(), Assignment(shares, config.seed));
  // A worker that waits for others' items does not see it by itself.
  const std::stop_callback wake(stream.stop, [&schedule] { schedule.stop(); });

  Workers all(stream, schedule, processors, summary);
  std::deque<LoadSampler> samplers;
  for (const Processor& one : processors) samplers.emplace_back(one.load);
  const auto start = Clock::now();
  {
    std::vector<std::jthread> threads;
    std::size_t number = 0;
    for (std::size_t p = 0; p < processors.size(); ++p) {
      for (std::size_t w = 0; w < processors[p].workers.size(); ++w, ++number) {
        threads.emplace_back([&all, p, w, number] { all.work(p, w, number); });
      }
    }
  }
  summary.seconds = since(start);
  for (std::size_t p = 0; p < processors.size(); ++p) {
    const Load load = samplers[p].finish();
    summary.processors[p].load_percent = load.percent;
    summary.processors[p].power_w = load.power_w;
  }
  all.require_success();
  stream.journal.flush();
  summary.interrupted = stream.stop.stop_requested() && !summary.complete();
  if (!summary.complete() && !summary.interrupted) {
    throw Error(ErrorCode::device_lost, summary.processors.front().name,
                "no processor is left to go on; the first one ended with: " + summary.processors.front().lost,
                "--resume goes on with what is left");
  }
  return summary;
}

}  // namespace mobicuda::stream
