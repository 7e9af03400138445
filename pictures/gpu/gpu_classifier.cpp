#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/error.h>

#include "pictures/classify/batch_classifier.h"
#include "pictures/classify/host_decoding.h"
#include "pictures/decode/jpeg_header.h"
#include "pictures/gpu/interrupted_cpus.h"
#include "pictures/gpu/nvjpeg.h"
#include "pictures/gpu/pixel_arena.h"
#include "pictures/gpu/plane_layout.h"
#include "pictures/gpu/planes_trial.h"
#include "pictures/gpu/resize_batch.h"
#include "pictures/prepare/channels.h"
#include "pictures/prepare/window.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "runtime/device_guard.h"

namespace mobicuda::pictures {
namespace {

constexpr std::int64_t kUsualPixelBytes = 768 << 10;  // of a picture; a batch of larger ones makes the arena grow

std::int64_t most_pixel_bytes(const ClassifierOptions& options, std::size_t batch) {
  constexpr std::int64_t kOfBatch = 256 << 20;
  constexpr std::int64_t kOfPicture = 4 << 20;
  return options.max_pixel_bytes.value_or(std::max(kOfBatch, static_cast<std::int64_t>(batch) * kOfPicture));
}

std::int64_t rounded_up(std::int64_t number, std::int64_t to) { return (number + to - 1) / to * to; }

// Records, and waits without taking a core where that is asked for.
class Mark {
 public:
  explicit Mark(bool waits_idly) : event_(waits_idly ? cudaEventBlockingSync : cudaEventDefault) {}
  void record(cudaStream_t stream) { cuda_check(cudaEventRecord(event_.get(), stream), "marking a stage"); }
  void wait() const { cuda_check(cudaEventSynchronize(event_.get()), "classifying a batch of pictures"); }
  void add_since(const Mark& start, Stopwatch& watch) const {
    watch.add(std::chrono::nanoseconds(static_cast<std::int64_t>(event_.since(start.event_) * 1e6)));
  }

 private:
  Event event_;
};

// Where pictures of a run lie in the network's input and output: in runs of at most max_batch, each of which begins at
// a multiple of 16 bytes.
class RunLayout {
 public:
  RunLayout(const Engine& engine, std::int64_t batch)
      : most_(std::min<std::int64_t>(engine.options().max_batch, batch)),
        picture_(engine.input().shape.elements() * size_of(engine.input().dtype)),
        scores_(engine.output().shape.elements() * static_cast<std::int64_t>(sizeof(float))),
        input_stride_(rounded_up(most_ * picture_, kAlignment)),
        output_stride_(rounded_up(most_ * scores_, kAlignment)),
        runs_((batch + most_ - 1) / most_) {}

  std::int64_t most() const { return most_; }
  std::int64_t input_bytes() const { return runs_ * input_stride_; }
  std::int64_t output_bytes() const { return runs_ * output_stride_; }
  std::int64_t input(std::int64_t picture) const {
    return picture / most_ * input_stride_ + picture % most_ * picture_;
  }
  std::int64_t output(std::int64_t picture) const {
    return picture / most_ * output_stride_ + picture % most_ * scores_;
  }
  /// Of the outputs of the first n pictures.
  std::int64_t output_end(std::int64_t n) const { return output(n - 1) + scores_; }

 private:
  static constexpr std::int64_t kAlignment = 256;

  std::int64_t most_;
  std::int64_t picture_;
  std::int64_t scores_;
  std::int64_t input_stride_;
  std::int64_t output_stride_;
  std::int64_t runs_;
};

// What a picture of a slot is, once it is loaded.
struct Place {
  std::uint8_t* pixels = nullptr;     // on the device, where nvJPEG decodes it; else it is in the slot's crops
  bool in_batch = false;              // nvJPEG has yet to decode it, with others of the slot
  std::optional<PlaneLayout> planes;  // of the pixels; nothing: interleaved
  int width = 0;                      // as stored
  int height = 0;
  ExifOrientation orientation = kUpright;
  CropGeometry crop;

  NvjpegOutput output() const { return planes ? NvjpegOutput::Planes : NvjpegOutput::Rgb; }
  int pitch() const { return width * kChannels; }  // of interleaved pixels
  std::int64_t bytes() const { return planes ? planes->bytes() : std::int64_t{pitch()} * height; }
  nvjpeg::Image image() const {
    if (planes) return planes->image(pixels);
    nvjpeg::Image image{};
    image.channel[0] = pixels;
    image.pitch[0] = static_cast<std::size_t>(pitch());
    return image;
  }
  MarkedPicture marked(const std::uint8_t* filled) const {
    if (planes) return planes->marked(filled, pixels);
    MarkedPicture marked{};
    marked.memory = filled;
    marked.planes[0] = {pixels, pitch(), height, pitch()};
    marked.count = 1;
    return marked;
  }
};

// Pictures of a slot that are decoded together, to one kind of output.
struct BatchWork {
  std::vector<std::size_t> places;
  std::vector<NvjpegPicture> pictures;
};

// What decodes the pictures of a slot together, and is not used again before that is over.
struct BatchDecoders {
  BatchDecoders(const std::shared_ptr<const Nvjpeg>& nvjpeg, NvjpegPart part)
      : planes(nvjpeg, part, NvjpegOutput::Planes), rgb(nvjpeg, part, NvjpegOutput::Rgb) {}

  BatchDecoder& of(NvjpegOutput output) { return output == NvjpegOutput::Planes ? planes : rgb; }

  BatchDecoder planes;
  BatchDecoder rgb;
};

// What a worker has: a session, and decoders for each batch in flight, in turns.
struct GpuWorker {
  GpuWorker(const Engine& engine, const std::shared_ptr<const Nvjpeg>& nvjpeg, NvjpegPart part, std::size_t in_flight)
      : session(engine.create_session()) {
    for (std::size_t i = 0; i < in_flight && nvjpeg && part != NvjpegPart::Sms; ++i) {
      decoders.push_back(std::make_unique<BatchDecoders>(nvjpeg, part));
    }
  }

  BatchDecoders& next_decoders() { return *decoders[turn++ % decoders.size()]; }

  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<BatchDecoders>> decoders;  // none where nothing is decoded in batches
  std::optional<PlacedThread> thread;                    // the run's, that works as this one
  std::size_t turn = 0;
};

// What decodes pictures in slots of `batch`, by the options; what that leaves is NvjpegPart::Sms's.
NvjpegPart part_for(const Nvjpeg& nvjpeg, const ClassifierOptions& options, std::size_t batch) {
  if (options.decode_on != DecodeOn::GpuSms) {
    return nvjpeg.has(NvjpegPart::Units) ? NvjpegPart::Units : NvjpegPart::Sms;
  }
  const bool in_batches = batch >= kFewestInBatches && nvjpeg.has(NvjpegPart::SmsInBatches);
  return in_batches ? NvjpegPart::SmsInBatches : NvjpegPart::Sms;
}

struct Slot {
  Slot(const Engine& engine, const RunLayout& layout, const Preprocessing& how,
       const BatchClassifier::Settings& settings, std::int64_t max_pixel_bytes, bool decodes)
      : places(settings.batch),
        arena(decodes ? static_cast<std::int64_t>(settings.batch) * kUsualPixelBytes : 0, max_pixel_bytes,
              settings.waits_idly),
        crop_bytes(static_cast<std::int64_t>(how.elements())),
        crops(static_cast<std::int64_t>(settings.batch) * crop_bytes, "prepared pictures"),
        scores(layout.output_bytes(), "scores"),
        tasks(batch_of<ResizeTask>(settings), "tasks"),
        marked(batch_of<MarkedPicture>(settings), "tasks"),
        missing(batch_of<std::uint32_t>(settings), "what was not decoded"),
        input(layout.input_bytes(), "the network's input"),
        output(layout.output_bytes(), "the network's output"),
        device_tasks(batch_of<ResizeTask>(settings), "tasks"),
        device_marked(batch_of<MarkedPicture>(settings), "tasks"),
        begun(settings.waits_idly),
        decoded(settings.waits_idly),
        resized(settings.waits_idly),
        done(settings.waits_idly) {
    if (engine.input().dtype != DType::U8) {
      device_crops = DeviceBuffer(static_cast<std::int64_t>(settings.batch) * crop_bytes, "prepared pictures");
    }
  }

  template <class T>
  static std::int64_t batch_of(const BatchClassifier::Settings& settings) {
    return static_cast<std::int64_t>(settings.batch * sizeof(T));
  }
  std::span<std::uint8_t> crop(std::size_t place) const {
    return {reinterpret_cast<std::uint8_t*>(crops.data()) + static_cast<std::int64_t>(place) * crop_bytes,
            static_cast<std::size_t>(crop_bytes)};
  }
  ResizeTask* host_tasks() const { return reinterpret_cast<ResizeTask*>(tasks.data()); }
  MarkedPicture* host_marked() const { return reinterpret_cast<MarkedPicture*>(marked.data()); }
  const std::uint32_t* host_missing() const { return reinterpret_cast<const std::uint32_t*>(missing.data()); }

  std::vector<Place> places;
  PixelArena arena;
  std::int64_t crop_bytes;
  PinnedBuffer crops;  // HWC, of pictures that the CPU decoded, by place
  PinnedBuffer scores;
  PinnedBuffer tasks;
  PinnedBuffer marked;
  PinnedBuffer missing;
  DeviceBuffer device_crops;  // for engines that take floats
  DeviceBuffer input;
  DeviceBuffer output;
  DeviceBuffer device_tasks;
  DeviceBuffer device_marked;
  Stream stream;
  Mark begun, decoded, resized, done;
  std::vector<std::size_t> in_network;  // places of the pictures of the run, in its order
  std::vector<std::size_t> by_nvjpeg;   // places of the pictures that nvJPEG decodes
  BatchWork to_planes, to_rgb;          // of these, those that are decoded together
};

class GpuClassifier final : public BatchClassifier {
 public:
  GpuClassifier(std::shared_ptr<const Engine> engine, const ClassifierOptions& options, const Preprocessing& how,
                std::shared_ptr<const Nvjpeg> nvjpeg, const Settings& settings)
      : BatchClassifier(settings),
        engine_(std::move(engine)),
        options_(options),
        how_(how),
        nvjpeg_(std::move(nvjpeg)),
        part_(nvjpeg_ ? part_for(*nvjpeg_, options_, settings.batch) : NvjpegPart::Sms),
        settings_(settings),
        device_(open_device(engine_->options().device)),
        layout_(*engine_, static_cast<std::int64_t>(settings.batch)),
        classes_(static_cast<std::size_t>(engine_->output().shape.elements())) {
    const DeviceGuard guard(device_);
    if (nvjpeg_) {
      for (const NvjpegPart part : {part_, NvjpegPart::Sms}) nvjpeg_->try_part(part);
    }
    try {
      for (std::size_t i = 0; i < settings.slots; ++i) {
        slots_.push_back(std::make_unique<Slot>(*engine_, layout_, how_, settings,
                                                most_pixel_bytes(options, settings.batch), nvjpeg_ != nullptr));
      }
      for (std::size_t i = 0; i < settings.workers; ++i) {
        workers_.push_back(std::make_unique<GpuWorker>(*engine_, nvjpeg_, part_, settings.in_flight));
      }
      for (std::size_t i = 0; i < settings.threads && nvjpeg_; ++i) {
        parsers_.push_back(std::make_unique<NvjpegParser>(nvjpeg_));
        sms_.push_back(std::make_unique<SmsDecoder>(nvjpeg_));
      }
      warm_up();
    } catch (...) {
      release();
      throw;
    }
  }

  ~GpuClassifier() override {
    const DeviceGuard guard(device_, std::nothrow);
    release();
  }

  void load(BatchLoader::Batch& batch, std::size_t place, std::size_t thread, StageTimes& times) override {
    Outcome& result = outcome(batch.slot, place);
    BatchLoader::Item& item = batch.items[place];
    Slot& slot = *slots_[batch.slot];
    slot.places[place] = {};
    if (!read_picture(item, options_.decode, result, times)) return;
    const std::span<const std::uint8_t> encoded = item.encoded.span();
    if (nvjpeg_ && give_to_nvjpeg(encoded, slot, place, thread, result, times)) return;
    decode_on_host(encoded, options_.decode, how_, slot.crop(place), result, times);
  }

  void enter(std::size_t worker) override { workers_[worker]->thread.emplace(); }

  void start(BatchLoader::Batch& batch, std::size_t worker, StageTimes& times) override {
    const DeviceGuard guard(device_);
    if (workers_[worker]->thread) workers_[worker]->thread->keep_off(interrupted_);
    Slot& slot = *slots_[batch.slot];
    decode(slot, batch, worker, times);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < batch.size; ++i) {
      if (outcome(batch.slot, i).failure.empty()) places.push_back(i);
    }
    run_network(slot, std::move(places), *workers_[worker]->session);
  }

  void finish(BatchLoader::Batch& batch, std::size_t worker, StageTimes& times) override {
    const DeviceGuard guard(device_);
    Slot& slot = *slots_[batch.slot];
    const auto collect = [&] {
      slot.done.wait();
      slot.decoded.add_since(slot.begun, times.units);
      slot.resized.add_since(slot.decoded, times.resize);
      slot.done.add_since(slot.resized, times.network);
      for (std::size_t i = 0; i < slot.in_network.size(); ++i) {
        const auto* const scores =
            reinterpret_cast<const float*>(slot.scores.data() + layout_.output(static_cast<std::int64_t>(i)));
        take_scores({scores, classes_}, options_, outcome(batch.slot, slot.in_network[i]));
      }
    };
    collect();
    std::vector<std::size_t> again;
    for (std::size_t i = 0; i < slot.by_nvjpeg.size(); ++i) {
      const std::size_t place = slot.by_nvjpeg[i];
      const bool undone = slot.places[place].pixels != nullptr && slot.host_missing()[i] > 0;
      if (undone && decode_again(batch, place, times)) again.push_back(place);
    }
    if (!again.empty()) {
      slot.begun.record(slot.stream.get());
      slot.decoded.record(slot.stream.get());
      run_network(slot, std::move(again), *workers_[worker]->session);
      collect();
    }
    slot.arena.reset();
  }

  void abandon(std::size_t slot) noexcept override {
    const DeviceGuard guard(device_, std::nothrow);
    static_cast<void>(cudaStreamSynchronize(slots_[slot]->stream.get()));
  }

  void reset() override {
    const DeviceGuard guard(device_);
    for (const auto& slot : slots_) slot->arena.reset();
  }

  Decoder decoder() const noexcept override {
    if (!nvjpeg_) return Decoder::Cpu;
    return decoder_of(part_);
  }

  ClassifierMemory memory() const override {
    ClassifierMemory memory;
    const auto batch = static_cast<std::int64_t>(settings_.batch);
    const auto slots = static_cast<std::int64_t>(slots_.size());
    const std::int64_t tasks = batch * static_cast<std::int64_t>(sizeof(ResizeTask) + sizeof(MarkedPicture));
    const Slot& slot = *slots_.front();
    memory.device_bytes = slots * (slot.input.bytes() + slot.output.bytes() + slot.device_crops.bytes() + tasks +
                                   (nvjpeg_ ? slot.arena.most() : 0));
    memory.host_bytes = slots * (batch * slot.crop_bytes + layout_.output_bytes() + tasks);
    memory.encoded_bytes = slots * batch * options_.decode.max_bytes;
    const MemoryReport session = engine_->memory();
    memory.session_bytes = static_cast<std::int64_t>(workers_.size()) * (session.total() - session.weight_bytes);
    return memory;
  }

 private:
  void release() noexcept {
    for (const auto& slot : slots_) static_cast<void>(cudaStreamSynchronize(slot->stream.get()));
    sms_.clear();
    parsers_.clear();
    workers_.clear();
    slots_.clear();
  }

  // False where the CPU is to decode the picture.
  bool give_to_nvjpeg(std::span<const std::uint8_t> encoded, Slot& slot, std::size_t place, std::size_t thread,
                      Outcome& result, StageTimes& times) {
    const Stopwatch::Span span(times.host_decode);
    const auto header = read_jpeg_header(encoded);
    if (!header || !fit_for_nvjpeg(*header)) return false;
    if (std::int64_t{header->width} * header->height > options_.decode.max_pixels) return false;
    Place where;
    where.width = header->width;
    where.height = header->height;
    where.orientation = options_.decode.orientation == Orientation::Exif ? header->orientation : kUpright;
    const PixelView view = oriented_view(nullptr, where.width, where.height, 0, where.orientation);
    try {
      where.crop = crop_geometry(view.width, view.height, how_);
    } catch (const PictureError&) {
      return false;  // the CPU says why
    }
    const Sampling sampling = sampling_of(*header);
    const NvjpegPart part = takes(encoded, sampling, thread) ? part_ : NvjpegPart::Sms;
    where.in_batch = part != NvjpegPart::Sms;
    if (takes_planes(part, sampling)) where.planes.emplace(where.width, where.height, sampling);
    where.pixels = slot.arena.reserve(where.bytes());
    if (where.pixels == nullptr) return false;
    if (!where.in_batch) {
      const DeviceGuard guard(device_);
      // The memory may still be filled, which must not overtake the decoder.
      slot.arena.wait_until_filled();
      if (!sms_[thread]->decode({encoded, where.image()}, where.output()).empty()) return false;
    }
    result.decoder = decoder_of(part);
    slot.places[place] = where;
    return true;
  }

  static Decoder decoder_of(NvjpegPart part) {
    return part == NvjpegPart::Units ? Decoder::NvjpegUnits : Decoder::NvjpegSms;
  }

  // Whether part_ takes a picture of the kind.
  bool takes(std::span<const std::uint8_t> encoded, Sampling sampling, std::size_t thread) {
    if (part_ == NvjpegPart::Units) return parsers_[thread]->units_take(encoded);
    return gives(part_, NvjpegOutput::Rgb, sampling) || gives(part_, NvjpegOutput::Planes, sampling);
  }

  bool gives(NvjpegPart part, NvjpegOutput output, Sampling sampling) const {
    return nvjpeg_->gives(part, output, sampling);
  }

  bool takes_planes(NvjpegPart part, Sampling sampling) const {
    return gives(part, NvjpegOutput::Planes, sampling) &&
           (options_.colours == Colours::Exact || !gives(part, NvjpegOutput::Rgb, sampling));
  }

  // What nvJPEG left undone. False where the picture failed.
  bool decode_again(BatchLoader::Batch& batch, std::size_t place, StageTimes& times) {
    Slot& slot = *slots_[batch.slot];
    Outcome& result = outcome(batch.slot, place);
    slot.places[place].pixels = nullptr;
    result = {};
    result.decoded_again = true;
    return decode_on_host(batch.items[place].encoded.span(), options_.decode, how_, slot.crop(place), result, times);
  }

  // What is decoded together is begun; what became of it, and of the others, is looked at.
  void decode(Slot& slot, BatchLoader::Batch& batch, std::size_t worker, StageTimes& times) {
    cudaStream_t const stream = slot.stream.get();
    slot.by_nvjpeg.clear();
    for (BatchWork* const work : {&slot.to_planes, &slot.to_rgb}) {
      work->places.clear();
      work->pictures.clear();
    }
    for (std::size_t i = 0; i < batch.size; ++i) {
      const Place& place = slot.places[i];
      if (place.pixels == nullptr) continue;
      slot.host_marked()[slot.by_nvjpeg.size()] = place.marked(slot.arena.memory());
      slot.by_nvjpeg.push_back(i);
      if (!place.in_batch) continue;
      BatchWork& work = place.planes ? slot.to_planes : slot.to_rgb;
      work.places.push_back(i);
      work.pictures.push_back({batch.items[i].encoded.span(), place.image()});
    }
    // The units do not wait for the stream: what they write to must be free, and filled, now.
    slot.arena.wait_until_filled();
    slot.begun.record(stream);
    if (!slot.to_planes.places.empty() || !slot.to_rgb.places.empty()) {
      BatchDecoders& decoders = workers_[worker]->next_decoders();
      decode_together(decoders.planes, slot.to_planes, slot, batch, times);
      decode_together(decoders.rgb, slot.to_rgb, slot, batch, times);
      if (workers_[worker]->thread) decoded(slot.to_planes.places.size() + slot.to_rgb.places.size());
    }
    upload(slot.device_marked, slot.marked, slot.by_nvjpeg.size() * sizeof(MarkedPicture), stream);
    cuda_check(check_marks(static_cast<int>(slot.by_nvjpeg.size()),
                           static_cast<const MarkedPicture*>(slot.device_marked.data()),
                           reinterpret_cast<std::uint32_t*>(slot.missing.data()), stream),
               "looking at decoded pictures");
    slot.decoded.record(stream);
  }

  void decoded(std::size_t pictures) {
    if (part_ == NvjpegPart::Units) interrupted_.decoded(pictures);
  }

  void decode_together(BatchDecoder& decoder, const BatchWork& work, Slot& slot, BatchLoader::Batch& batch,
                       StageTimes& times) {
    cudaStream_t const stream = slot.stream.get();
    if (work.places.empty() || decoder.decode(work.pictures, stream).empty()) return;
    // One of them is refused, it is not said which.
    for (std::size_t i = 0; i < work.places.size(); ++i) {
      const bool taken = decoder.decode(std::span(work.pictures).subspan(i, 1), stream).empty();
      cuda_check(cudaStreamSynchronize(stream), "decoding a picture by nvJPEG");
      if (!taken) decode_again(batch, work.places[i], times);
    }
  }

  // nvJPEG takes memory for a batch when it decodes one for the first time, which is slow, and which all of the GPU
  // waits for. It shows whom the units interrupt, too.
  void warm_up() {
    if (!nvjpeg_ || part_ == NvjpegPart::Sms) return;
    const std::vector<std::uint8_t> file = usual_file();
    const auto header = read_jpeg_header(file);
    if (!header || !fit_for_nvjpeg(*header)) return;
    const Sampling sampling = sampling_of(*header);
    Place place;
    place.width = header->width;
    place.height = header->height;
    if (takes_planes(part_, sampling)) place.planes.emplace(place.width, place.height, sampling);
    Slot& slot = *slots_.front();
    slot.arena.wait_until_filled();
    std::vector<NvjpegPicture> pictures;
    for (std::size_t i = 0; i < settings_.batch; ++i) {
      place.pixels = slot.arena.reserve(place.bytes());
      if (place.pixels == nullptr) break;
      pictures.push_back({file, place.image()});
    }
    for (const auto& worker : workers_) {
      for (std::size_t i = 0; i < worker->decoders.size() && !pictures.empty(); ++i) {
        static_cast<void>(worker->next_decoders().of(place.output()).decode(pictures, slot.stream.get()));
        cuda_check(cudaStreamSynchronize(slot.stream.get()), "preparing nvJPEG");
        decoded(pictures.size());
      }
    }
    interrupted_.look();
    slot.arena.reset();
  }

  // Resizes pictures into the network's input and enqueues the network on them.
  void run_network(Slot& slot, std::vector<std::size_t> places, Session& session) {
    cudaStream_t const stream = slot.stream.get();
    slot.in_network = std::move(places);
    const auto n = static_cast<std::int64_t>(slot.in_network.size());
    const bool bytes = engine_->input().dtype == DType::U8;
    ResizeParams params{};
    params.crop_width = how_.crop_width;
    params.crop_height = how_.crop_height;
    params.output = bytes                         ? ResizeOutput::Bytes
                    : how_.layout == Layout::NCHW ? ResizeOutput::FloatsNchw
                                                  : ResizeOutput::FloatsNhwc;
    params.scale = pixel_scale(how_.normalization);
    params.most_taps = most_taps(1, 1);
    auto* const input = static_cast<std::uint8_t*>(slot.input.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::size_t index = slot.in_network[static_cast<std::size_t>(i)];
      const Place& place = slot.places[index];
      std::uint8_t* const out = input + layout_.input(i);
      if (place.pixels == nullptr && bytes) {
        upload(out, slot.crop(index).data(), slot.crop_bytes, stream);
        continue;
      }
      slot.host_tasks()[params.tasks++] =
          place.pixels == nullptr ? task_of_crop(slot, index, out, stream) : task_of(place, out);
      if (place.pixels == nullptr) continue;
      const ResizeTask& task = slot.host_tasks()[params.tasks - 1];
      params.planar = params.planar || place.planes.has_value();
      params.most_taps = std::max(
          {params.most_taps, most_taps(task.source_width, task.width), most_taps(task.source_height, task.height)});
    }
    upload(slot.device_tasks, slot.tasks, static_cast<std::size_t>(params.tasks) * sizeof(ResizeTask), stream);
    cuda_check(resize_batch(params, static_cast<const ResizeTask*>(slot.device_tasks.data()), stream),
               "resizing pictures");
    slot.resized.record(stream);
    for (std::int64_t from = 0; from < n; from += layout_.most()) {
      const std::int64_t count = std::min(layout_.most(), n - from);
      auto* const output = reinterpret_cast<float*>(static_cast<std::byte*>(slot.output.data()) + layout_.output(from));
      const std::uint8_t* const pictures = input + layout_.input(from);
      if (bytes) {
        run_on_device(session, count, pictures, output, stream);
      } else {
        run_on_device(session, count, reinterpret_cast<const float*>(pictures), output, stream);
      }
    }
    if (n > 0) {
      cuda_check(cudaMemcpyAsync(slot.scores.data(), slot.output.data(),
                                 static_cast<std::size_t>(layout_.output_end(n)), cudaMemcpyDeviceToHost, stream),
                 "copying scores from the device");
    }
    slot.done.record(stream);
  }

  static ResizeTask task_of(const Place& place, void* out) {
    ResizeTask task{};
    if (place.planes) {
      task.planes = oriented_view(place.planes->planes(place.pixels), place.orientation);
      task.source_width = task.planes.width;
      task.source_height = task.planes.height;
    } else {
      const PixelView view = oriented_view(place.pixels, place.width, place.height, place.pitch(), place.orientation);
      task.origin = view.origin;
      task.step_x = view.step_x;
      task.step_y = view.step_y;
      task.source_width = view.width;
      task.source_height = view.height;
    }
    task.width = place.crop.width;
    task.height = place.crop.height;
    task.left = place.crop.left;
    task.top = place.crop.top;
    task.out = out;
    return task;
  }

  // Of a picture that is prepared already: its pixels stay as they are, and become floats.
  ResizeTask task_of_crop(const Slot& slot, std::size_t index, void* out, cudaStream_t stream) const {
    std::uint8_t* const crop =
        static_cast<std::uint8_t*>(slot.device_crops.data()) + static_cast<std::int64_t>(index) * slot.crop_bytes;
    upload(crop, slot.crop(index).data(), slot.crop_bytes, stream);
    ResizeTask task{};
    task.origin = crop;
    task.step_x = kChannels;
    task.step_y = std::int64_t{how_.crop_width} * kChannels;
    task.source_width = task.width = how_.crop_width;
    task.source_height = task.height = how_.crop_height;
    task.out = out;
    return task;
  }

  static void upload(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
    cuda_check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream),
               "copying pictures to the device");
  }
  static void upload(const DeviceBuffer& to, const PinnedBuffer& from, std::size_t bytes, cudaStream_t stream) {
    if (bytes > 0) upload(to.data(), from.data(), static_cast<std::int64_t>(bytes), stream);
  }

  std::shared_ptr<const Engine> engine_;
  const ClassifierOptions& options_;
  const Preprocessing how_;
  std::shared_ptr<const Nvjpeg> nvjpeg_;  // null where the CPU decodes
  const NvjpegPart part_;                 // that decodes pictures, together where it is not Sms
  const Settings settings_;
  const Device device_;
  const RunLayout layout_;
  const std::size_t classes_;
  InterruptedCpus interrupted_;  // by the units
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<GpuWorker>> workers_;
  std::vector<std::unique_ptr<NvjpegParser>> parsers_;  // by thread
  std::vector<std::unique_ptr<SmsDecoder>> sms_;        // by thread
};

void log(const ClassifierOptions& options, LogLevel level, const std::string& text) {
  if (options.log) options.log(level, text);
}

}  // namespace

std::shared_ptr<const Nvjpeg> find_nvjpeg(const Engine& engine, const ClassifierOptions& options) {
  if (options.decode_on == DecodeOn::Cpu) return nullptr;
  const Device device = open_device(engine.options().device);
  const DeviceGuard guard(device);
  try {
    auto nvjpeg = Nvjpeg::load(options.nvjpeg_library, device);
    if (!nvjpeg->has(NvjpegPart::Units)) {
      const std::string why = "this GPU has no JPEG units that nvJPEG " + nvjpeg->version() + " can use";
      if (options.decode_on == DecodeOn::GpuUnits) {
        throw Error(ErrorCode::device_unavailable, "ClassifierOptions::decode_on", why, "decode on Gpu or GpuSms");
      }
      if (options.decode_on != DecodeOn::GpuSms) {
        log(options, LogLevel::Info, why + ": pictures are decoded on its multiprocessors");
      }
    }
    const NvjpegPart part = part_for(*nvjpeg, options, static_cast<std::size_t>(options.batch));
    std::string without;
    for (const Sampling sampling : kAllSamplings) {
      const bool rgb = options.colours == Colours::Nvjpeg && nvjpeg->gives(part, NvjpegOutput::Rgb, sampling);
      if (rgb || nvjpeg->gives(part, NvjpegOutput::Planes, sampling)) continue;
      without += (without.empty() ? "" : ", ") + std::string(to_string(sampling));
    }
    if (!without.empty()) {
      log(options, LogLevel::Info,
          "nvJPEG " + nvjpeg->version() + " has its own ways with the colours of these pictures: " + without);
    }
    return nvjpeg;
  } catch (const Error& error) {
    if (options.decode_on != DecodeOn::Auto || error.code() != ErrorCode::device_unavailable) throw;
    log(options, LogLevel::Warning, std::string("pictures are decoded on the CPU: ") + error.what());
    return nullptr;
  }
}

std::unique_ptr<BatchClassifier> make_gpu_classifier(std::shared_ptr<const Engine> engine,
                                                     const ClassifierOptions& options, const Preprocessing& how,
                                                     std::shared_ptr<const Nvjpeg> nvjpeg,
                                                     const BatchClassifier::Settings& settings) {
  return std::make_unique<GpuClassifier>(std::move(engine), options, how, std::move(nvjpeg), settings);
}

}  // namespace mobicuda::pictures
