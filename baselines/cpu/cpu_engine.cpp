#include "baselines/cpu/cpu_engine.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include <mobicuda/tensor.h>

#include "baselines/cpu/aligned_buffer.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/strides.h"
#include "graph/logical_floats.h"
#include "graph/memory_errors.h"

namespace mobicuda::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

std::int64_t bytes_at(const Plan& plan, Buffer::Place place) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.place == place) bytes += buffer.bytes;
  }
  return bytes;
}

template <class T>
class CpuSession final : public Session {
 public:
  CpuSession(std::shared_ptr<const Engine> engine, const Plan& plan)
      : Session(std::move(engine)),
        plan_(plan),
        pool_(plan.threads),
        arena_(plan.arena_bytes, "activations of a CPU session"),
        input_(bytes_at(plan, Buffer::Place::Input), "input of a CPU session"),
        output_(bytes_at(plan, Buffer::Place::Output), "output of a CPU session"),
        workspace_(plan.workspace_bytes * plan.threads, "workspace of a CPU session") {
    for (const Buffer& buffer : plan.buffers) {
      std::byte* base = buffer.place == Buffer::Place::Input    ? input_.data()
                        : buffer.place == Buffer::Place::Output ? output_.data()
                                                                : arena_.data();
      layer_buffers_.push_back(base + buffer.layer_offset);
      run_buffers_.push_back(base + buffer.run_offset);
    }
    slot_buffers_.resize(static_cast<std::size_t>(plan.threads), run_buffers_);
    for (const Stretch& stretch : plan.stretches) {
      for (int slot = 0; slot < stretch.slots; ++slot) {
        std::byte* const base = arena_.data() + stretch.offset + slot * stretch.slot_bytes;
        for (const int inner : stretch.inner) {
          slot_buffers_[index(slot)][index(inner)] = base + plan.buffers[index(inner)].run_offset;
        }
      }
    }
    // An execute() before any set_input() is legal, and must not read indeterminate values.
    std::fill_n(input_.data(), input_.bytes(), std::byte{0});
  }

 private:
  void do_set_input(std::span<const std::byte> input, std::int64_t n) override {
    T* target = reinterpret_cast<T*>(run_buffers_[index(plan_.input)]);
    if (plan_.picture) {
      convert_pictures(*plan_.picture, reinterpret_cast<const std::uint8_t*>(input.data()), n, target);
    } else {
      // By all threads, each of which begins with what it will read in the first layer.
      const auto* const source = reinterpret_cast<const float*>(input.data());
      const auto elements = static_cast<std::int64_t>(input.size() / sizeof(float));
      pool_.for_ranges(elements, kElementGrain, [&](std::int64_t first, std::int64_t last, int) {
        std::copy(source + first, source + last, target + first);
      });
    }
  }

  // In float, as every engine does.
  static void convert_pictures(const PictureConversion& how, const std::uint8_t* pictures, std::int64_t n, T* target) {
    constexpr std::int64_t kChannels = 3;
    for (std::int64_t i = 0; i < n * how.pixels * kChannels; ++i) {
      const auto c = static_cast<std::size_t>(i % kChannels);
      const std::int64_t pixel = i / kChannels;
      const std::int64_t picture = pixel / how.pixels;
      const std::int64_t planar = (picture * kChannels + i % kChannels) * how.pixels + pixel % how.pixels;
      target[how.layout == Layout::NHWC ? i : planar] =
          static_cast<T>(static_cast<float>(pictures[i]) * how.input.scale[c] + how.input.shift[c]);
    }
  }

  void do_execute(std::int64_t n) override { execute(n, nullptr); }

  using StepTimes = std::vector<std::vector<double>>;  // of each slot, milliseconds of each step

  void execute(std::int64_t n, StepTimes* times) {
    for (const Stretch& stretch : plan_.stretches) run_stretch(stretch, n, times);
  }

  // By parts of as many images as the steps take together. While there is a part for each thread, each runs one by
  // itself, so that they do not wait for each other after every step; what is left they run together.
  void run_stretch(const Stretch& stretch, std::int64_t n, StepTimes* times) {
    const std::int64_t parts = (n + stretch.images - 1) / stretch.images;
    const std::int64_t apart = stretch.slots == 1 ? 0 : parts / stretch.slots * stretch.slots;
    const auto images = [&](std::int64_t part) {
      return Range{part * stretch.images, std::min((part + 1) * stretch.images, n)};
    };
    pool_.for_ranges(apart, 1, [&](std::int64_t first, std::int64_t last, int worker) {
      for (std::int64_t part = first; part < last; ++part) run_images(stretch, images(part), no_pool_, worker, times);
    });
    for (std::int64_t part = apart; part < parts; ++part) run_images(stretch, images(part), pool_, 0, times);
  }

  void run_images(const Stretch& stretch, Range images, ThreadPool& pool, int slot, StepTimes* times) {
    std::vector<std::byte*>& buffers = slot_buffers_[index(slot)];
    for (const int i : stretch.crossing) {
      buffers[index(i)] = run_buffers_[index(i)] + images.first * plan_.buffers[index(i)].image_bytes;
    }
    const StepContext context{images.last - images.first, pool, buffers.data(),
                              workspace_.data() + slot * plan_.workspace_bytes, plan_.workspace_bytes};
    for (std::size_t step = stretch.first_step; step < stretch.last_step; ++step) {
      if (times == nullptr) {
        plan_.steps[step].run(context);
        continue;
      }
      const Clock::time_point start = Clock::now();
      plan_.steps[step].run(context);
      // A part of the run's time, where other threads run other images in it.
      (*times)[index(slot)][step] += milliseconds_since(start) * pool.threads() / plan_.threads;
    }
  }

  void do_get_output(std::span<float> output, std::int64_t) override {
    const T* source = reinterpret_cast<const T*>(run_buffers_[index(plan_.output)]);
    std::transform(source, source + output.size(), output.begin(), [](T value) { return static_cast<float>(value); });
  }

  void do_synchronize() override {}

  std::byte* do_staged_input() override {
    allocate_staging();
    return staged_input_.data();
  }

  float* do_staged_output() override {
    allocate_staging();
    return reinterpret_cast<float*>(staged_output_.data());
  }

  void do_enqueue_staged(std::int64_t n) override {
    allocate_staging();
    const TensorDesc& input = engine().input();
    do_set_input({staged_input_.data(), static_cast<std::size_t>(n * input.shape.elements() * size_of(input.dtype))},
                 n);
    do_execute(n);
    do_get_output({do_staged_output(), static_cast<std::size_t>(n * engine().output().shape.elements())}, n);
  }

  void allocate_staging() {
    if (staged_input_.data() != nullptr) return;
    const auto bytes = [&](const TensorDesc& picture) {
      return engine().options().max_batch * picture.shape.elements() * size_of(picture.dtype);
    };
    AlignedBuffer input(bytes(engine().input()), "staged inputs");
    staged_output_ = AlignedBuffer(bytes(engine().output()), "staged outputs");
    staged_input_ = std::move(input);
    std::fill_n(staged_input_.data(), staged_input_.bytes(), std::byte{0});
    std::fill_n(staged_output_.data(), staged_output_.bytes(), std::byte{0});
  }

  std::vector<double> do_time_executions(std::int64_t n, int iterations, int runs) override {
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(iterations));
    for (int i = 0; i < iterations; ++i) {
      const Clock::time_point start = Clock::now();
      for (int run = 0; run < runs; ++run) do_execute(n);
      times.push_back(milliseconds_since(start) / runs);
    }
    return times;
  }

  LayerTimes do_profile(std::int64_t n, int iterations, ProfileMode) override {
    std::vector<std::vector<double>> times(plan_.steps.size());
    std::vector<double> wholes;
    for (int i = 0; i < iterations; ++i) {
      const Clock::time_point whole_start = Clock::now();
      do_execute(n);
      wholes.push_back(milliseconds_since(whole_start));
      StepTimes of_slots(index(plan_.threads), std::vector<double>(plan_.steps.size()));
      execute(n, &of_slots);
      for (std::size_t step = 0; step < plan_.steps.size(); ++step) {
        double sum = 0;
        for (const std::vector<double>& slot : of_slots) sum += slot[step];
        times[step].push_back(sum);
      }
    }
    LayerTimes result;
    for (std::vector<double>& step_times : times) result.layers.push_back(median(step_times));
    result.whole = median(wholes);
    return result;
  }

  void do_execute_layer(std::int64_t n, std::size_t layer) override {
    plan_.steps[layer].run({n, pool_, layer_buffers_.data(), workspace_.data(), plan_.workspace_bytes});
  }

  void do_get_layer_output(std::int64_t n, std::size_t layer, std::span<float> output) override {
    const Step& step = plan_.steps[layer];
    const auto bytes = output.size() * static_cast<std::size_t>(size_of(step.output_desc.dtype));
    const std::byte* const stored = layer_buffers_[index(step.output)];
    if (step.output_stride == 0) return to_logical_floats({stored, bytes}, step.output_desc, n, output);
    const auto channels = static_cast<std::size_t>(step.output_desc.shape[1]);
    const AlignedBuffer alone(static_cast<std::int64_t>(bytes), "the output of a layer");
    const T* from = reinterpret_cast<const T*>(stored) + step.output_first;
    T* to = reinterpret_cast<T*>(alone.data());
    for (std::size_t pixel = 0; pixel < output.size() / channels; ++pixel, from += step.output_stride) {
      to = std::copy_n(from, channels, to);
    }
    to_logical_floats({alone.data(), bytes}, step.output_desc, n, output);
  }

  static std::size_t index(int buffer) { return static_cast<std::size_t>(buffer); }

  const Plan& plan_;  // the engine's, which Session keeps alive
  ThreadPool pool_;
  ThreadPool no_pool_{1};  // for steps that one thread runs by itself
  AlignedBuffer arena_;
  AlignedBuffer input_;
  AlignedBuffer output_;
  AlignedBuffer workspace_;
  AlignedBuffer staged_input_;  // empty until the first staged run
  AlignedBuffer staged_output_;
  std::vector<std::byte*> layer_buffers_;              // when layers are executed one by one
  std::vector<std::byte*> run_buffers_;                // in a run: those between stretches, and input and output
  std::vector<std::vector<std::byte*>> slot_buffers_;  // in a run: what the steps of a slot use
};

}  // namespace

template <class T>
CpuEngine<T>::CpuEngine(EngineOptions options, TensorDesc input, TensorDesc output, Plan plan)
    : Engine(std::move(options), input, output), plan_(std::move(plan)) {
  for (const Step& step : plan_.steps) layers_.push_back(step.info);
}

template <class T>
MemoryReport CpuEngine<T>::memory() const noexcept {
  return {plan_.weight_bytes, plan_.arena_bytes, plan_.workspace_bytes * plan_.threads,
          bytes_at(plan_, Buffer::Place::Input) + bytes_at(plan_, Buffer::Place::Output)};
}

template <class T>
SavedEngine CpuEngine<T>::saved() const {
  return with_memory_errors("saved engine", [&] {
    SavedEngine saved = *plan_.recipe;
    saved.pieces.clear();
    std::int64_t total = 0;
    for (const PackedWeights& piece : plan_.weights) {
      saved.pieces.push_back({total, piece.bytes()});
      total += (piece.bytes() + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
    }
    saved.weights = WeightBytes(total);
    std::ranges::fill(saved.weights.span(), std::byte{0});
    for (std::size_t i = 0; i < saved.pieces.size(); ++i) {
      const auto* source = reinterpret_cast<const std::byte*>(plan_.weights[i].data());
      std::copy_n(source, plan_.weights[i].bytes(), saved.weights.span().data() + saved.pieces[i].offset);
    }
    return saved;
  });
}

template <class T>
std::unique_ptr<Session> CpuEngine<T>::do_create_session() const {
  return std::make_unique<CpuSession<T>>(shared_from_this(), plan_);
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace mobicuda::cpu
