// How fast pictures become labels on this GPU, as JSON on standard output:
//
//   pictures_bench MODEL.onnx FOLDER [--preprocess torch|tf] [--precision fp16] [--batch 64] [--threads 2] [--seconds
//   5]
//
//   nvjpeg            nvJPEG alone on the same files, decoded to RGB on the device: img/s with one and two host threads
//   resize_us         the resizing kernel alone, a picture
//   memory, files     encoded pictures in memory, or in files that were read before, to the best classes: img/s, cores
//                     that the process kept busy, the run's Report
//   cpu_decoding      the same as `files` with all cores decoding on the CPU
//   one_picture       classify_one(): milliseconds
//   agreement         the best class by nvJPEG and by the CPU's decoders, on each picture once
//   cut_short         JPEG files cut in the middle, an end marker put behind: how many were not noticed to be damaged
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

#include "pictures/decode/jpeg_header.h"
#include "pictures/gpu/nvjpeg.h"
#include "pictures/gpu/resize_batch.h"
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

struct Options {
  std::string model;
  std::string folder;
  std::string preprocess = "torch";
  std::string precision = "fp16";
  std::string nvjpeg;
  int batch = 64;
  int threads = 2;
  double seconds = 5;
};

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
  const auto run = [&](std::size_t count, Report& report) {
    const auto start = Clock::now();
    Run running = classifier.classify(source(count));
    for (const Result& result : running) static_cast<void>(result);
    report = running.report();
    return seconds_since(start);
  };
  Report report;
  run(set, report);
  const double once = run(set, report);
  const auto count = std::max(set, static_cast<std::size_t>(static_cast<double>(set) * seconds / once));
  const double cpu_before = cpu_seconds();
  const double wall = run(count, report);
  const double cpu = cpu_seconds() - cpu_before;
  return {{"imagesPerSecond", static_cast<double>(report.pictures) / wall},
          {"coresBusy", cpu / wall},
          {"report", json_of(report)}};
}

// nvJPEG alone, batch after batch.
double nvjpeg_rate(const Files& files, const Options& options, const std::shared_ptr<const Nvjpeg>& nvjpeg,
                   const Device& device, int threads) {
  struct Fit {
    std::span<const std::uint8_t> bytes;
    JpegHeader header;
  };
  std::vector<Fit> fit;
  NvjpegParser parser(nvjpeg);
  for (const auto& bytes : files.bytes) {
    const auto header = read_jpeg_header(bytes);
    if (header && fit_for_nvjpeg(*header) && parser.units_take(bytes)) fit.push_back({bytes, *header});
  }
  if (fit.empty()) return 0;
  std::atomic<std::size_t> done{0};
  const auto start = Clock::now();
  {
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread) {
      workers.emplace_back([&, thread] {
        const DeviceGuard guard(device);
        const Stream stream;
        UnitsDecoder decoder(nvjpeg);
        const auto batch = static_cast<std::size_t>(options.batch);
        std::vector<DeviceBuffer> memory(batch);
        std::vector<NvjpegPicture> pictures(batch);
        std::size_t next = static_cast<std::size_t>(thread) * batch;
        while (seconds_since(start) < options.seconds / 2) {
          for (std::size_t i = 0; i < batch; ++i, ++next) {
            const Fit& one = fit[next % fit.size()];
            const std::int64_t bytes = std::int64_t{3} * one.header.width * one.header.height;
            if (memory[i].bytes() < bytes) memory[i] = DeviceBuffer(2 * bytes, "decoded pictures");
            pictures[i] = {one.bytes, static_cast<std::uint8_t*>(memory[i].data()), one.header.width};
          }
          const std::string refused = decoder.decode(pictures, stream.get());
          cuda_check(cudaStreamSynchronize(stream.get()), "decoding by nvJPEG alone");
          if (!refused.empty()) throw std::runtime_error(refused);
          done += batch;
        }
      });
    }
  }
  return static_cast<double>(done) / seconds_since(start);
}

// Microseconds of the resizing kernel for each picture of a batch of the set's sizes.
double resize_us(const Files& files, const Options& options, const Preprocessing& how) {
  std::vector<DeviceBuffer> memory;
  std::vector<ResizeTask> tasks;
  ResizeParams params{0, how.crop_width, how.crop_height, ResizeOutput::Bytes, pixel_scale(how.normalization), 3};
  for (const auto& bytes : files.bytes) {
    const auto header = read_jpeg_header(bytes);
    if (!header || params.tasks == options.batch) continue;
    const CropGeometry crop = crop_geometry(header->width, header->height, how);
    memory.emplace_back(std::int64_t{3} * header->width * header->height, "a picture");
    const auto* const pixels = static_cast<const std::uint8_t*>(memory.back().data());
    memory.emplace_back(static_cast<std::int64_t>(how.elements()), "a crop");
    tasks.push_back({pixels, 3, 3 * header->width, header->width, header->height, crop.width, crop.height, crop.left,
                     crop.top, memory.back().data()});
    params.most_taps =
        std::max({params.most_taps, most_taps(header->width, crop.width), most_taps(header->height, crop.height)});
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

Json agreement(Classifier& gpu, Classifier& cpu, const Files& files) {
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
  return {{"pictures", a.size()},
          {"bothClassified", both},
          {"sameVerdict", verdicts},
          {"top1Equal", equal},
          {"relativeL2", norm > 0 ? std::sqrt(squares / norm) : 0},
          {"largestDifference", largest}};
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

void run(const Options& options) {
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
  json["decoder"] = std::string(to_string(classifier.decoder()));
  json["log"] = log;
  const Device device = open_device(engine_options.device);
  const DeviceGuard guard(device);
  json["device"] = device_description(engine_options.device);
  if (classifier.decoder() == Decoder::NvjpegUnits) {
    const auto nvjpeg = Nvjpeg::load(options.nvjpeg, device);
    json["nvjpegVersion"] = nvjpeg->version();
    json["nvjpeg"] = {{"imagesPerSecondOneThread", nvjpeg_rate(files, options, nvjpeg, device, 1)},
                      {"imagesPerSecondTwoThreads", nvjpeg_rate(files, options, nvjpeg, device, 2)}};
  }
  json["resizeUs"] = resize_us(files, options, classifier.preprocessing());
  const auto in_memory = [&](std::size_t count) { return files.in_memory(count); };
  const auto on_disk = [&](std::size_t count) { return files.on_disk(count); };
  json["memory"] = measure_run(classifier, in_memory, set, options.seconds);
  json["files"] = measure_run(classifier, on_disk, set, options.seconds);
  json["cpuDecoding"] = measure_run(by_cpu, on_disk, set, options.seconds);
  json["onePicture"] = one_picture(classifier, files, options.seconds / 2);
  json["onePictureCpuDecoding"] = one_picture(by_cpu, files, options.seconds / 2);
  json["agreement"] = agreement(with_outputs, by_cpu, files);
  json["cutShort"] = cut_short(classifier, files);
  const ClassifierMemory memory = classifier.memory();
  json["memoryBytes"] = {
      {"device", memory.device_bytes}, {"host", memory.host_bytes}, {"sessions", memory.session_bytes}};
  std::cout << json.dump(2) << '\n';
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
  app.add_option("--seconds", options.seconds, "of each measurement")->check(CLI::Range(0.1, 600.0));
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
