// How fast pictures become labels on this GPU, as JSON on standard output; a few lines of it on standard error:
//
//   pictures_bench MODEL.onnx FOLDER [--preprocess torch|tf] [--precision fp16] [--batch 64] [--threads 2]
//   [--gpu-threads 2] [--seconds 5] [--rounds 1] [--labels synsets.txt] [--large 500x375] [--colours nvjpeg|exact]
//   [--decode gpu|gpu-units|gpu-sms]
//   [--blocking-sync]
//   [--parts
//   nvjpeg,memory,...]
//
//   planes, rgb       of which pictures nvJPEG gives planes, whose colours are converted here, and RGB that is near
//   enough nvjpeg            nvJPEG alone on the same files in memory, to planes and to RGB, with one and two host
//   threads, each
//                     with batches under way: img/s, cores; the most of all is what `againstNvjpeg` of the others is of
//   resizeUs          the resizing kernel alone, a picture, in planes and interleaved
//   memory, files     encoded pictures in memory, or in files that were read before, to the best classes: img/s, cores
//                     that the process kept busy and which threads did, the run's Report
//   cpuDecoding       the same as `files` with all cores decoding on the CPU
//   onePicture        classify_one(): milliseconds
//   large             nvJPEG alone, memory and one picture with the pictures resized to --large and encoded anew
//   agreement         the best class by nvJPEG and by the CPU's decoders, on each picture once; with --labels how many
//                     of either are the picture's folder's
//   cutShort          JPEG files cut in the middle, an end marker put behind: how many were not noticed to be damaged
//
// --rounds: nvjpeg, memory and files are measured so many times in turns, as a rate goes up and down by a tenth from
// one second to the next; of each the run with the median rate is shown, and all rates (`imagesPerSecondOfRounds`).
//
// --blocking-sync: threads of this process sleep where they wait for the GPU (cudaDeviceScheduleBlockingSync), those of
// nvJPEG's own waits too.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

#include "pictures/decode/jpeg_header.h"
#include "pictures/gpu/interrupted_cpus.h"
#include "pictures/gpu/nvjpeg.h"
#include "pictures/gpu/plane_layout.h"
#include "pictures/gpu/resize_batch.h"
#include "pictures/picture_support.h"
#include "pictures/prepare/channels.h"
#include "pictures/prepare/resize.h"
#include "pictures/prepare/window.h"
#include "pictures/source/reader.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "runtime/device_guard.h"

namespace {

using namespace mobicuda;
using namespace mobicuda::pictures;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

const std::map<std::string, DecodeOn> kDecode{
    {"gpu", DecodeOn::Auto}, {"gpu-units", DecodeOn::GpuUnits}, {"gpu-sms", DecodeOn::GpuSms}};
constexpr const char* kParts[] = {"nvjpeg", "resize", "memory", "files", "cpu", "one", "large", "agreement", "cut"};

struct Options {
  std::string model;
  std::string folder;
  std::string preprocess = "torch";
  std::string precision = "fp16";
  std::string nvjpeg;
  std::string labels;
  std::string large;
  std::vector<std::string> parts{std::begin(kParts), std::end(kParts)};
  int batch = 64;
  int threads = 2;
  int gpu_threads = 0;
  bool blocking_sync = false;
  std::string colours = "nvjpeg";
  std::string decode = "gpu";
  double seconds = 5;
  int rounds = 1;

  bool wants(const char* part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
};

// Pictures as files and in memory.
struct Files {
  std::vector<PictureFile> files;
  std::vector<std::vector<std::uint8_t>> bytes;

  explicit Files(const std::string& folder) {
    for (PictureFile& file : list_folder(folder)) {
      Entry entry;
      entry.path = file.path;
      entry.unreadable = file.unreadable;
      EncodedBytes read;
      read.read(entry, DecodeOptions().max_bytes);
      bytes.emplace_back(read.span().begin(), read.span().end());
      files.push_back(std::move(file));
    }
    if (files.empty()) throw Error(ErrorCode::io, folder, "holds no file");
  }

  // The same pictures resized and cropped, as JPEG files of good quality, 4:2:0; in memory only.
  Files resized(int width, int height) const {
    Preprocessing how;
    how.crop_width = width;
    how.crop_height = height;
    how.resize_to = std::max(width, height);
    test::JpegOptions jpeg;
    jpeg.quality = 95;
    Files result = *this;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      Picture picture{width, height, std::vector<std::uint8_t>(how.elements())};
      preprocess(decode_picture(bytes[i]), how, std::span(picture.rgb));
      result.bytes[i] = test::bytes_of(test::jpeg_file(picture, jpeg));
    }
    return result;
  }

  double mean_bytes() const {
    const auto add = [](std::size_t sum, const auto& one) { return sum + one.size(); };
    return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}, add)) /
           static_cast<double>(bytes.size());
  }

  PictureSource in_memory(std::size_t count) const {
    std::vector<EncodedPicture> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back({files[i % files.size()].name, bytes[i % files.size()]});
    return PictureSource::memory(std::move(all));
  }
  PictureSource on_disk(std::size_t count) const {
    std::vector<PictureFile> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(files[i % files.size()]);
    return PictureSource::files(std::move(all));
  }
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Of the whole process: user and system time.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Of the threads that live, by their names: user and system time.
std::map<std::string, double> cpu_seconds_by_name() {
  std::map<std::string, double> seconds;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream file(task.path() / "stat");
    std::ostringstream text;
    text << file.rdbuf();
    const std::string line = text.str();
    const std::size_t begin = line.find('(');
    const std::size_t end = line.rfind(')');
    if (begin == std::string::npos || end == std::string::npos) continue;  // it has ended
    std::istringstream rest(line.substr(end + 1));
    constexpr int kBefore = 11;  // fields between the name and the times
    std::string skipped;
    for (int i = 0; i < kBefore; ++i) rest >> skipped;
    long user = 0;
    long system = 0;
    rest >> user >> system;
    seconds[line.substr(begin + 1, end - begin - 1)] +=
        static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return seconds;
}

Json json_of(const Report& report) {
  return {{"pictures", report.pictures},    {"failed", report.failed},
          {"byCpu", report.by_cpu},         {"byUnits", report.by_units},
          {"bySms", report.by_sms},         {"decodedAgain", report.decoded_again},
          {"readMs", report.read_ms},       {"hostDecodeMs", report.host_decode_ms},
          {"unitsMs", report.units_ms},     {"resizeMs", report.resize_ms},
          {"networkMs", report.network_ms}, {"wallMs", report.wall_ms}};
}

// Runs a source of about `seconds`, whose pictures are given by their number, after one that warms up.
template <class Source>
Json measure_run(Classifier& classifier, const Source& source, std::size_t set, double seconds) {
  Json by_name = Json::object();
  const auto run = [&](std::size_t count, Report& report) {
    // Threads that have ended are seen no more: between these two all are at work.
    const std::size_t early = count / 10;
    const std::size_t late = count - early;
    std::map<std::string, double> before;
    Clock::time_point since;
    const auto start = Clock::now();
    Run running = classifier.classify(source(count));
    for (const Result& result : running) {
      if (result.index == early) {
        before = cpu_seconds_by_name();
        since = Clock::now();
      } else if (result.index == late) {
        by_name = Json::object();
        for (const auto& [name, cpu] : cpu_seconds_by_name()) {
          const double cores = (cpu - before[name]) / seconds_since(since);
          if (cores >= 0.005) by_name[name] = cores;
        }
      }
    }
    report = running.report();
    return seconds_since(start);
  };
  Report report;
  run(set, report);
  const double once = run(set, report);
  const auto count_of = [&](double of_seconds) {
    return std::max(set, static_cast<std::size_t>(static_cast<double>(set) * of_seconds / once));
  };
  run(count_of(seconds / 4), report);  // until what nvJPEG has of memory grows no more
  const std::size_t count = count_of(seconds);
  const double cpu_before = cpu_seconds();
  const double wall = run(count, report);
  const double cpu = cpu_seconds() - cpu_before;
  return {{"imagesPerSecond", static_cast<double>(report.pictures) / wall},
          {"coresBusy", cpu / wall},
          {"coresBusyByThread", by_name},
          {"report", json_of(report)}};
}

nvjpeg::Image image_of(const JpegHeader& header, std::uint8_t* pixels, NvjpegOutput output) {
  if (output == NvjpegOutput::Planes)
    return PlaneLayout(header.width, header.height, sampling_of(header)).image(pixels);
  nvjpeg::Image image{};
  image.channel[0] = pixels;
  image.pitch[0] = static_cast<std::size_t>(header.width) * kChannels;
  return image;
}

// nvJPEG alone: each host thread has a few batches under way, in memory of its own, and begins the next one as soon as
// the oldest is there; off the CPU that the units interrupt, as the library's. What comes before, memory, states and
// first batches, is not timed.
Json nvjpeg_alone(const Files& files, const Options& options, const std::shared_ptr<const Nvjpeg>& nvjpeg,
                  const Device& device, NvjpegPart part, int threads, NvjpegOutput output) {
  // One more makes the threads wait inside nvJPEG where the multiprocessors decode, which keeps cores busy.
  const std::size_t in_flight = part == NvjpegPart::Units ? 3 : 2;
  constexpr std::size_t kWarmUp = 2;  // batches of each
  struct Fit {
    std::span<const std::uint8_t> bytes;
    JpegHeader header;
  };
  std::vector<Fit> fit;
  std::int64_t most = 0;  // bytes of a picture
  NvjpegParser parser(nvjpeg);
  for (const auto& bytes : files.bytes) {
    const auto header = read_jpeg_header(bytes);
    if (!header || !fit_for_nvjpeg(*header) || (part == NvjpegPart::Units && !parser.units_take(bytes))) continue;
    const Sampling sampling = sampling_of(*header);
    if (output == NvjpegOutput::Planes && !nvjpeg->gives(part, output, sampling)) continue;
    fit.push_back({bytes, *header});
    most = std::max({most, std::int64_t{kChannels} * header->width * header->height,
                     PlaneLayout(header->width, header->height, sampling).bytes()});
  }
  if (fit.empty()) return {};
  const auto batch = static_cast<std::size_t>(options.batch);
  struct InFlight {
    InFlight(const std::shared_ptr<const Nvjpeg>& nvjpeg, NvjpegPart part, NvjpegOutput output, std::size_t batch,
             std::int64_t bytes)
        : memory(static_cast<std::int64_t>(batch) * bytes, "decoded pictures"),
          decoder(nvjpeg, part, output),
          pictures(batch) {}
    DeviceBuffer memory;
    Stream stream;
    Event done{cudaEventBlockingSync};
    BatchDecoder decoder;
    std::vector<NvjpegPicture> pictures;
  };
  std::atomic<std::size_t> decoded{0};
  std::vector<double> batch_ms;  // of the first thread's warm-up: states are made, and sized, as they are first used
  std::mutex mutex;
  std::exception_ptr failure;
  Clock::time_point start;
  double cpu_before = 0;
  double wall = 0;
  double cpu = 0;
  InterruptedCpus interrupted;
  std::barrier ready(threads, [&]() noexcept {
    interrupted.look();
    start = Clock::now();
    cpu_before = cpu_seconds();
  });
  std::barrier over(threads, [&]() noexcept {
    wall = seconds_since(start);
    cpu = cpu_seconds() - cpu_before;
  });
  {
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread) {
      workers.emplace_back([&, thread] {
        const DeviceGuard guard(device);
        PlacedThread placed;
        std::vector<std::unique_ptr<InFlight>> ring;
        std::size_t next = static_cast<std::size_t>(thread) * fit.size() / static_cast<std::size_t>(threads);
        const auto begin = [&](InFlight& one) {
          for (std::size_t i = 0; i < batch; ++i, ++next) {
            const Fit& of = fit[next % fit.size()];
            auto* const pixels = static_cast<std::uint8_t*>(one.memory.data()) + static_cast<std::int64_t>(i) * most;
            one.pictures[i] = {of.bytes, image_of(of.header, pixels, output)};
          }
          const std::string refused = one.decoder.decode(one.pictures, one.stream.get());
          if (!refused.empty()) throw std::runtime_error("nvJPEG alone: " + refused);
          cuda_check(cudaEventRecord(one.done.get(), one.stream.get()), "decoding by nvJPEG alone");
          interrupted.decoded(batch);
          placed.keep_off(interrupted);
        };
        const auto wait = [](const InFlight& one) {
          cuda_check(cudaEventSynchronize(one.done.get()), "decoding by nvJPEG alone");
        };
        bool failed = false;
        const auto guarded = [&](const auto& work) {
          try {
            if (!failed) work();
          } catch (...) {
            failed = true;
            const std::scoped_lock lock(mutex);
            if (!failure) failure = std::current_exception();
          }
        };
        guarded([&] {
          for (std::size_t i = 0; i < in_flight; ++i)
            ring.push_back(std::make_unique<InFlight>(nvjpeg, part, output, batch, most));
          for (std::size_t i = 0; i < kWarmUp * in_flight; ++i) {
            const auto before = Clock::now();
            begin(*ring[i % in_flight]);
            wait(*ring[i % in_flight]);
            if (thread == 0) batch_ms.push_back(1e3 * seconds_since(before));
          }
        });
        ready.arrive_and_wait();
        guarded([&] {
          std::size_t at = 0;
          for (; at < in_flight; ++at) begin(*ring[at]);
          for (; seconds_since(start) < options.seconds / 2; ++at) {
            wait(*ring[at % in_flight]);
            decoded += batch;
            begin(*ring[at % in_flight]);
          }
          for (std::size_t i = 0; i < in_flight; ++i, ++at) {
            wait(*ring[at % in_flight]);
            decoded += batch;
          }
        });
        over.arrive_and_wait();
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
  return {{"threads", threads},
          {"by", part == NvjpegPart::Units ? "units" : "sms"},
          {"output", output == NvjpegOutput::Planes ? "planes" : "rgb"},
          {"batch", options.batch},
          {"files", fit.size()},
          {"imagesPerSecond", static_cast<double>(decoded) / wall},
          {"coresBusy", cpu / wall},
          {"firstBatchesMs", batch_ms}};
}

// The run with the median rate, and the rates of all.
Json median_run(std::vector<Json> runs) {
  const auto rate = [](const Json& run) { return run["imagesPerSecond"].get<double>(); };
  Json rates = Json::array();
  for (const Json& run : runs) rates.push_back(rate(run));
  std::sort(runs.begin(), runs.end(), [&](const Json& a, const Json& b) { return rate(a) < rate(b); });
  Json median = runs[(runs.size() - 1) / 2];
  if (runs.size() > 1) median["imagesPerSecondOfRounds"] = rates;
  return median;
}

// nvJPEG alone, to planes and to RGB, with one and two host threads; in rounds.
class NvjpegRates {
 public:
  NvjpegRates(const Options& options, std::shared_ptr<const Nvjpeg> nvjpeg, const Device& device, NvjpegPart part)
      : options_(options), nvjpeg_(std::move(nvjpeg)), device_(device), part_(part) {}

  void measure(const Files& files) {
    std::size_t way = 0;
    for (const NvjpegOutput output : {NvjpegOutput::Rgb, NvjpegOutput::Planes}) {
      for (const int threads : {1, 2}) {
        Json run = nvjpeg_alone(files, options_, nvjpeg_, device_, part_, threads, output);
        if (run.is_object()) ways_[way].push_back(std::move(run));
        ++way;
      }
    }
  }

  // The most of all ways.
  Json json() const {
    Json runs = Json::array();
    double most = 0;
    for (const std::vector<Json>& way : ways_) {
      if (way.empty()) continue;
      runs.push_back(median_run(way));
      most = std::max(most, runs.back()["imagesPerSecond"].get<double>());
    }
    return {{"runs", runs}, {"imagesPerSecond", most}};
  }

 private:
  const Options& options_;
  const std::shared_ptr<const Nvjpeg> nvjpeg_;
  const Device device_;
  const NvjpegPart part_;
  std::array<std::vector<Json>, 4> ways_;
};

void set_ratio(Json& run, const Json& nvjpeg) {
  if (!nvjpeg.is_object() || nvjpeg["imagesPerSecond"] == 0.0) return;
  run["againstNvjpeg"] = run["imagesPerSecond"].get<double>() / nvjpeg["imagesPerSecond"].get<double>();
}

// Microseconds of the resizing kernel for each picture of a batch of the set's sizes.
double resize_us(const Files& files, const Options& options, const Preprocessing& how, NvjpegOutput form) {
  std::vector<DeviceBuffer> memory;
  std::vector<ResizeTask> tasks;
  ResizeParams params{};
  params.crop_width = how.crop_width;
  params.crop_height = how.crop_height;
  params.output = ResizeOutput::Bytes;
  params.scale = pixel_scale(how.normalization);
  params.planar = form == NvjpegOutput::Planes;
  for (const auto& bytes : files.bytes) {
    const auto header = read_jpeg_header(bytes);
    if (!header || !fit_for_nvjpeg(*header) || params.tasks == options.batch) continue;
    const CropGeometry crop = crop_geometry(header->width, header->height, how);
    const PlaneLayout layout(header->width, header->height, sampling_of(*header));
    memory.emplace_back(std::max(layout.bytes(), std::int64_t{kChannels} * header->width * header->height),
                        "a picture");
    const auto* const pixels = static_cast<const std::uint8_t*>(memory.back().data());
    memory.emplace_back(static_cast<std::int64_t>(how.elements()), "a crop");
    ResizeTask task{};
    if (params.planar) {
      task.planes = oriented_view(layout.planes(pixels), kUpright);
    } else {
      task.origin = pixels;
      task.step_x = kChannels;
      task.step_y = std::int64_t{kChannels} * header->width;
    }
    task.source_width = header->width;
    task.source_height = header->height;
    task.width = crop.width;
    task.height = crop.height;
    task.left = crop.left;
    task.top = crop.top;
    task.out = memory.back().data();
    tasks.push_back(task);
    params.most_taps = std::max({params.most_taps, most_taps(1, 1), most_taps(header->width, crop.width),
                                 most_taps(header->height, crop.height)});
    ++params.tasks;
  }
  if (params.tasks == 0) return 0;
  DeviceBuffer device_tasks(static_cast<std::int64_t>(tasks.size() * sizeof(ResizeTask)), "tasks");
  device_tasks.upload(std::as_bytes(std::span(tasks)));
  const Stream stream;
  const Event start;
  const Event end;
  constexpr int kRuns = 200;
  const auto* const on_device = static_cast<const ResizeTask*>(device_tasks.data());
  for (int i = 0; i <= kRuns; ++i) {
    if (i == 1) cuda_check(cudaEventRecord(start.get(), stream.get()), "timing");
    cuda_check(resize_batch(params, on_device, stream.get()), "resizing");
  }
  cuda_check(cudaEventRecord(end.get(), stream.get()), "timing");
  cuda_check(cudaStreamSynchronize(stream.get()), "resizing");
  return end.since(start) * 1e3 / kRuns / params.tasks;
}

Json one_picture(Classifier& classifier, const Files& files, double seconds) {
  std::vector<double> ms;
  const auto start = Clock::now();
  for (std::size_t i = 0; seconds_since(start) < seconds || i < 100; ++i) {
    const auto before = Clock::now();
    classifier.classify_one(files.bytes[i % files.bytes.size()]);
    if (i >= 20) ms.push_back(seconds_since(before) * 1e3);
  }
  std::sort(ms.begin(), ms.end());
  return {{"calls", ms.size()}, {"medianMs", ms[ms.size() / 2]}, {"p99Ms", ms[ms.size() * 99 / 100]}};
}

std::vector<Result> results_of(Classifier& classifier, PictureSource source) {
  std::vector<Result> results;
  for (const Result& result : classifier.classify(std::move(source))) results.push_back(result);
  return results;
}

// The class of each picture, after the name of its folder; -1 where that is none.
std::vector<std::ptrdiff_t> classes_of(const Files& files, const std::string& labels) {
  std::ifstream file(labels);
  if (!file) throw Error(ErrorCode::io, labels, "cannot be opened");
  std::map<std::string, std::ptrdiff_t> classes;
  std::string line;
  for (std::ptrdiff_t i = 0; std::getline(file, line); ++i) classes.emplace(line.substr(0, line.find(' ')), i);
  std::vector<std::ptrdiff_t> result;
  for (const PictureFile& picture : files.files) {
    const auto found = classes.find(picture.path.parent_path().filename().string());
    result.push_back(found == classes.end() ? -1 : found->second);
  }
  return result;
}

Json agreement(Classifier& gpu, Classifier& cpu, const Files& files, const std::string& labels) {
  const std::vector<Result> a = results_of(gpu, files.in_memory(files.files.size()));
  const std::vector<Result> b = results_of(cpu, files.in_memory(files.files.size()));
  std::size_t both = 0;
  std::size_t equal = 0;
  std::size_t verdicts = 0;
  double largest = 0;
  double squares = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    verdicts += a[i].ok() == b[i].ok() ? 1 : 0;
    if (!a[i].ok() || !b[i].ok()) continue;
    ++both;
    equal += a[i].best[0].index == b[i].best[0].index ? 1 : 0;
    for (std::size_t c = 0; c < a[i].outputs.size(); ++c) {
      const double difference = static_cast<double>(a[i].outputs[c]) - b[i].outputs[c];
      largest = std::max(largest, std::abs(difference));
      squares += difference * difference;
      norm += static_cast<double>(b[i].outputs[c]) * b[i].outputs[c];
    }
  }
  Json json = {{"pictures", a.size()},
               {"bothClassified", both},
               {"sameVerdict", verdicts},
               {"top1Equal", equal},
               {"relativeL2", norm > 0 ? std::sqrt(squares / norm) : 0},
               {"largestDifference", largest}};
  if (labels.empty()) return json;
  const std::vector<std::ptrdiff_t> classes = classes_of(files, labels);
  const auto right = [&](const std::vector<Result>& results) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      count += results[i].ok() && static_cast<std::ptrdiff_t>(results[i].best[0].index) == classes[i] ? 1 : 0;
    }
    return count;
  };
  json["rightByNvjpeg"] = right(a);
  json["rightByCpu"] = right(b);
  return json;
}

Json cut_short(Classifier& classifier, const Files& files) {
  constexpr std::size_t kMost = 20;
  std::size_t cut = 0;
  std::size_t unnoticed = 0;
  for (const auto& whole : files.bytes) {
    if (!is_jpeg(whole) || cut == kMost) continue;
    std::vector<std::uint8_t> file(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2));
    file.insert(file.end(), {0xFF, 0xD9});
    ++cut;
    unnoticed += classifier.classify_one(file).ok() ? 1 : 0;
  }
  return {{"files", cut}, {"unnoticed", unnoticed}};
}

std::pair<int, int> extents_of(const std::string& text) {
  std::istringstream words(text);
  int width = 0;
  int height = 0;
  char between = 0;
  if (!(words >> width >> between >> height) || between != 'x' || !words.eof()) {
    throw Error(ErrorCode::invalid_argument, "--large", "must be WIDTHxHEIGHT, got '" + text + "'");
  }
  return {width, height};
}

// What people look for first.
void tell(const Json& json) {
  const auto rate = [](const char* what, const Json& run) {
    std::cerr << what << ": " << std::llround(run["imagesPerSecond"].get<double>()) << " img/s";
    if (run.contains("coresBusy")) std::cerr << ", cores " << run["coresBusy"].get<double>();
    if (run.contains("againstNvjpeg")) std::cerr << ", against nvJPEG alone " << run["againstNvjpeg"].get<double>();
    std::cerr << '\n';
  };
  const auto all = [&](const Json& of) {
    if (of.contains("nvjpeg")) {
      for (const Json& run : of["nvjpeg"]["runs"]) {
        if (run.is_object()) rate("nvJPEG alone", run);
      }
    }
    for (const char* const what : {"memory", "files", "cpuDecoding"}) {
      if (of.contains(what)) rate(what, of[what]);
    }
    if (of.contains("onePicture")) std::cerr << "one picture: " << of["onePicture"]["medianMs"] << " ms\n";
  };
  all(json);
  if (json.contains("large")) {
    std::cerr << json["large"]["width"] << "x" << json["large"]["height"] << ":\n";
    all(json["large"]);
  }
  if (json.contains("agreement")) {
    std::cerr << "same best class: " << json["agreement"]["top1Equal"] << " of " << json["agreement"]["bothClassified"]
              << '\n';
  }
}

void run(const Options& options) {
  if (options.blocking_sync) cuda_check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "asking to sleep");
  const Files files(options.folder);
  const Normalization normalization = options.preprocess == "tf" ? Normalization::Tf : Normalization::Torch;
  EngineOptions engine_options;
  engine_options.precision = options.precision == "fp32" ? Precision::Fp32 : Precision::Fp16;
  engine_options.max_batch = options.batch;
  engine_options.picture_input = picture_input(normalization);
  const auto engine = make_custom_backend()->compile(onnx_import::load(options.model), engine_options);

  Json json;
  ClassifierOptions classifier_options;
  classifier_options.normalization = normalization;
  classifier_options.batch = options.batch;
  classifier_options.threads = options.threads;
  classifier_options.gpu_threads = options.gpu_threads;
  classifier_options.decode_on = kDecode.at(options.decode);
  classifier_options.colours = options.colours == "nvjpeg" ? Colours::Nvjpeg : Colours::Exact;
  classifier_options.nvjpeg_library = options.nvjpeg;
  Json log = Json::array();
  classifier_options.log = [&](LogLevel, std::string_view line) { log.push_back(std::string(line)); };
  Classifier classifier(engine, classifier_options);
  classifier_options.outputs = true;
  Classifier with_outputs(engine, classifier_options);
  classifier_options.decode_on = DecodeOn::Cpu;
  classifier_options.threads = 0;
  Classifier by_cpu(engine, classifier_options);

  const std::size_t set = files.files.size();
  json["pictures"] = set;
  json["batch"] = options.batch;
  json["threads"] = options.threads;
  json["gpuThreads"] = options.gpu_threads;
  json["colours"] = options.colours;
  json["decode"] = options.decode;
  json["blockingSync"] = options.blocking_sync;
  json["decoder"] = std::string(to_string(classifier.decoder()));
  json["log"] = log;
  const Device device = open_device(engine_options.device);
  const DeviceGuard guard(device);
  json["device"] = device_description(engine_options.device);
  std::shared_ptr<const Nvjpeg> nvjpeg;
  const NvjpegPart part = classifier.decoder() == Decoder::NvjpegUnits ? NvjpegPart::Units : NvjpegPart::SmsInBatches;
  if (classifier.decoder() != Decoder::Cpu) {
    nvjpeg = Nvjpeg::load(options.nvjpeg, device);
    json["nvjpegVersion"] = nvjpeg->version();
    for (const Sampling sampling : kAllSamplings) {
      json["planes"][std::string(to_string(sampling))] = nvjpeg->gives(part, NvjpegOutput::Planes, sampling);
      json["rgb"][std::string(to_string(sampling))] = nvjpeg->gives(part, NvjpegOutput::Rgb, sampling);
    }
  }
  if (options.wants("resize")) {
    json["resizeUs"] = {{"planes", resize_us(files, options, classifier.preprocessing(), NvjpegOutput::Planes)},
                        {"rgb", resize_us(files, options, classifier.preprocessing(), NvjpegOutput::Rgb)}};
  }
  const auto on_disk = [&](std::size_t count) { return files.on_disk(count); };
  const auto in_memory = [](const Files& from) { return [&from](std::size_t count) { return from.in_memory(count); }; };
  NvjpegRates alone(options, nvjpeg, device, part);
  std::map<std::string, std::vector<Json>> runs;
  for (int round = 0; round < options.rounds; ++round) {
    if (nvjpeg && options.wants("nvjpeg")) alone.measure(files);
    if (options.wants("memory")) {
      runs["memory"].push_back(measure_run(classifier, in_memory(files), set, options.seconds));
    }
    if (options.wants("files")) runs["files"].push_back(measure_run(classifier, on_disk, set, options.seconds));
  }
  if (nvjpeg && options.wants("nvjpeg")) json["nvjpeg"] = alone.json();
  for (auto& [what, all] : runs) {
    json[what] = median_run(std::move(all));
    set_ratio(json[what], json.value("nvjpeg", Json()));
  }
  if (options.wants("cpu")) json["cpuDecoding"] = measure_run(by_cpu, on_disk, set, options.seconds);
  if (options.wants("one")) {
    json["onePicture"] = one_picture(classifier, files, options.seconds / 2);
    json["onePictureCpuDecoding"] = one_picture(by_cpu, files, options.seconds / 2);
  }
  if (options.wants("large") && !options.large.empty()) {
    const auto [width, height] = extents_of(options.large);
    const Files large = files.resized(width, height);
    Json& of = json["large"] = {{"width", width}, {"height", height}, {"meanBytes", large.mean_bytes()}};
    NvjpegRates alone_large(options, nvjpeg, device, part);
    std::vector<Json> memory;
    for (int round = 0; round < options.rounds; ++round) {
      if (nvjpeg && options.wants("nvjpeg")) alone_large.measure(large);
      memory.push_back(measure_run(classifier, in_memory(large), set, options.seconds));
    }
    if (nvjpeg && options.wants("nvjpeg")) of["nvjpeg"] = alone_large.json();
    of["memory"] = median_run(std::move(memory));
    set_ratio(of["memory"], of.value("nvjpeg", Json()));
    of["onePicture"] = one_picture(classifier, large, options.seconds / 2);
  }
  if (options.wants("agreement")) json["agreement"] = agreement(with_outputs, by_cpu, files, options.labels);
  if (options.wants("cut")) json["cutShort"] = cut_short(classifier, files);
  const ClassifierMemory memory = classifier.memory();
  json["memoryBytes"] = {
      {"device", memory.device_bytes}, {"host", memory.host_bytes}, {"sessions", memory.session_bytes}};
  std::cout << json.dump(2) << '\n';
  tell(json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Rates, latency and agreement of classifying pictures on a GPU, as JSON");
  app.add_option("model", options.model, "ONNX file")->required();
  app.add_option("folder", options.folder, "pictures")->required();
  app.add_option("--preprocess", options.preprocess)->check(CLI::IsMember({"torch", "tf"}));
  app.add_option("--precision", options.precision)->check(CLI::IsMember({"fp16", "fp32"}));
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 1024));
  app.add_option("--threads", options.threads, "that read files, 0: one for each core")->check(CLI::Range(0, 1024));
  app.add_option("--gpu-threads", options.gpu_threads, "that hand batches to the GPU, 0: as the library chooses")
      ->check(CLI::Range(0, 8));
  app.add_option("--colours", options.colours, "who converts them")->check(CLI::IsMember({"exact", "nvjpeg"}));
  app.add_option("--decode", options.decode, "by what of nvJPEG")
      ->check(CLI::IsMember({"gpu", "gpu-units", "gpu-sms"}));
  app.add_flag("--blocking-sync", options.blocking_sync, "threads sleep where they wait for the GPU");
  app.add_option("--seconds", options.seconds, "of each measurement")->check(CLI::Range(0.1, 600.0));
  app.add_option("--rounds", options.rounds, "in which nvjpeg, memory and files are measured, in turns")
      ->check(CLI::Range(1, 100));
  app.add_option("--labels", options.labels, "file that names a class a line, as the pictures' folders are named")
      ->check(CLI::ExistingFile);
  app.add_option("--large", options.large, "WIDTHxHEIGHT: measures with the pictures resized to it too");
  app.add_option("--parts", options.parts, "what is measured, by default all")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kParts), std::end(kParts))));
  app.add_option("--nvjpeg", options.nvjpeg, "libnvjpeg.so.13, where the dynamic linker does not find it");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "pictures_bench: " << error.what() << '\n';
    return 1;
  }
}
