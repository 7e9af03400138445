#include "baselines/cpu/cpu_engine.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include <mobicuda/tensor.h>

#include "baselines/cpu/aligned_buffer.h"
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
      buffers_.push_back(base + buffer.offset);
    }
    // An execute() before any set_input() is legal, and must not read indeterminate values.
    std::fill_n(input_.data(), input_.bytes(), std::byte{0});
  }

 private:
  void do_set_input(std::span<const std::byte> input, std::int64_t n) override {
    T* target = reinterpret_cast<T*>(buffers_[index(plan_.input)]);
    if (plan_.picture) {
      convert_pictures(*plan_.picture, reinterpret_cast<const std::uint8_t*>(input.data()), n, target);
    } else {
      std::copy_n(reinterpret_cast<const float*>(input.data()), input.size() / sizeof(float), target);
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

  void do_execute(std::int64_t n) override {
    const StepContext context = context_for(n);
    for (const Step& step : plan_.steps) step.run(context);
  }

  void do_get_output(std::span<float> output, std::int64_t) override {
    const T* source = reinterpret_cast<const T*>(buffers_[index(plan_.output)]);
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
    const StepContext context = context_for(n);
    std::vector<std::vector<double>> times(plan_.steps.size());
    std::vector<double> wholes;
    for (int i = 0; i < iterations; ++i) {
      const Clock::time_point whole_start = Clock::now();
      do_execute(n);
      wholes.push_back(milliseconds_since(whole_start));
      for (std::size_t step = 0; step < plan_.steps.size(); ++step) {
        const Clock::time_point start = Clock::now();
        plan_.steps[step].run(context);
        times[step].push_back(milliseconds_since(start));
      }
    }
    LayerTimes result;
    for (std::vector<double>& step_times : times) result.layers.push_back(median(step_times));
    result.whole = median(wholes);
    return result;
  }

  void do_execute_layer(std::int64_t n, std::size_t layer) override { plan_.steps[layer].run(context_for(n)); }

  void do_get_layer_output(std::int64_t n, std::size_t layer, std::span<float> output) override {
    const Step& step = plan_.steps[layer];
    const auto bytes = output.size() * static_cast<std::size_t>(size_of(step.output_desc.dtype));
    to_logical_floats({buffers_[index(step.output)], bytes}, step.output_desc, n, output);
  }

  static std::size_t index(int buffer) { return static_cast<std::size_t>(buffer); }

  StepContext context_for(std::int64_t n) {
    return {n, pool_, buffers_.data(), workspace_.data(), plan_.workspace_bytes};
  }

  const Plan& plan_;  // the engine's, which Session keeps alive
  ThreadPool pool_;
  AlignedBuffer arena_;
  AlignedBuffer input_;
  AlignedBuffer output_;
  AlignedBuffer workspace_;
  AlignedBuffer staged_input_;  // empty until the first staged run
  AlignedBuffer staged_output_;
  std::vector<std::byte*> buffers_;
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
