#include "report/report_layers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "report/html.h"
#include "report/layer_names.h"
#include "report/report_activities.h"
#include "report/svg_chart.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {
namespace {

constexpr std::size_t kNumbered = 5;  // layers that the roofline names

// Data sheets, dense: CUDA cores where fp32 is exact, tensor cores else.
struct GpuPeaks {
  std::string_view name;  // how the device's name begins
  double bytes_per_second;
  double fp32;
  double tf32;
  double fp16;
  double fp64;
};
constexpr std::array<GpuPeaks, 2> kPeaks{{
    {"NVIDIA H100 80GB HBM3", 3.35e12, 66.9e12, 494.7e12, 989.4e12, 66.9e12},
    {"NVIDIA H200", 4.8e12, 66.9e12, 494.7e12, 989.4e12, 66.9e12},
}};

struct TimedLayer {
  std::size_t index;  // in the network
  const Layer* layer;
  double ms;
  double share;
  double flops;
  double bytes;

  double flops_per_second() const { return ms > 0 ? flops / ms * 1e3 : 0; }
  double bytes_per_second() const { return ms > 0 ? bytes / ms * 1e3 : 0; }
};

// Slowest first.
std::vector<TimedLayer> timed_layers(const CaseResult& result, const LayerProfile& profile) {
  const double total = profile.sum_ms();
  const auto batch = static_cast<double>(result.batch);
  std::vector<TimedLayer> layers;
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const Layer& layer = result.layers[i];
    const double bytes = static_cast<double>(layer.activation_bytes) * batch + static_cast<double>(layer.weight_bytes);
    layers.push_back({i, &layer, profile.layer_ms[i], total > 0 ? profile.layer_ms[i] / total : 0,
                      static_cast<double>(layer.flops) * batch, bytes});
  }
  std::stable_sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
  return layers;
}

struct NamedRoof {
  Roof roof;
  std::string source;
};

NamedRoof roof_of(const CaseResult& result, const Machine& machine, const std::vector<TimedLayer>& layers) {
  for (const GpuPeaks& peaks : kPeaks) {
    if (result.implementation == "cpu" || !machine.gpu.starts_with(peaks.name)) continue;
    const double flops = result.precision == "fp16"         ? peaks.fp16
                         : result.precision == "tf32"       ? peaks.tf32
                         : result.precision == "fp64"       ? peaks.fp64
                         : result.precision == "fp32_split" ? peaks.fp16 / 3
                                                            : peaks.fp32;
    return {{peaks.bytes_per_second, flops},
            "Roof: data sheet, " + compact(peaks.bytes_per_second, "B/s") + " and " + compact(flops, "FLOP/s") +
                ". "
                "Layers whose data stays in the L2 cache may lie above its slope."};
  }
  Roof best;
  for (const TimedLayer& layer : layers) {
    best.bytes_per_second = std::max(best.bytes_per_second, layer.bytes_per_second());
    best.flops_per_second = std::max(best.flops_per_second, layer.flops_per_second());
  }
  return {best, "Roof: the best that a layer reached, " + compact(best.bytes_per_second, "B/s") + " and " +
                    compact(best.flops_per_second, "FLOP/s") + ", as the peak of this processor is not known."};
}

std::string roofline(const CaseResult& result, const Machine& machine, const std::vector<TimedLayer>& layers,
                     const std::string& name) {
  std::vector<RooflinePoint> points;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TimedLayer& one = layers[i];
    if (one.flops <= 0 || one.bytes <= 0 || one.ms <= 0) {
      ++left_out;
      continue;
    }
    points.push_back({one.layer->name + " (" + one.layer->kernel + "): " + microseconds(one.ms) + " us, " +
                          compact(one.flops_per_second(), "FLOP/s") + ", " + compact(one.bytes_per_second(), "B/s"),
                      i < kNumbered ? std::to_string(i + 1) : "", one.flops / one.bytes, one.flops_per_second(),
                      one.share});
  }
  const NamedRoof roof = roof_of(result, machine, layers);
  const std::string chart = roofline_chart("Roofline of " + name, roof.roof, points);
  if (chart.empty()) return {};
  std::string note =
      "Each dot is a layer, its area the share of time, numbers as in the table of layers. " + roof.source;
  if (left_out > 0) note += " Without FLOPs, bytes or time, and so not shown: " + std::to_string(left_out) + " layers.";
  return "<div>" + chart + element("p", note) + "</div>\n";
}

// Time by kernel; those that make 90 % are marked.
std::string kernel_table(const std::vector<TimedLayer>& layers) {
  struct Kernel {
    std::string name;
    double ms = 0;
    double share = 0;
    std::size_t layers = 0;
  };
  std::vector<Kernel> kernels;
  for (const TimedLayer& one : layers) {
    auto found = std::find_if(kernels.begin(), kernels.end(),
                              [&](const Kernel& kernel) { return kernel.name == one.layer->kernel; });
    if (found == kernels.end()) found = kernels.insert(found, {one.layer->kernel});
    found->ms += one.ms;
    found->share += one.share;
    ++found->layers;
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const Kernel& a, const Kernel& b) { return a.ms > b.ms; });
  HtmlTable table({"kernel", "90 %", "layers", "us", "share", "sum"}, 1);
  double sum = 0;
  for (const Kernel& kernel : kernels) {
    const bool hot = sum < kHotShare;
    sum += kernel.share;
    table.add_row({kernel.name, hot ? "\xE2\x97\x8F" : "", std::to_string(kernel.layers), microseconds(kernel.ms),
                   percent(kernel.share, 1), percent(sum, 1)},
                  hot ? "hot" : "");
  }
  return "<div><h4>Kernels</h4>\n" + element("p", "Marked: those that make 90 % of the time.") + table.str("wide") +
         "</div>\n";
}

std::string layer_table(const std::vector<TimedLayer>& layers, const LayerNames& names) {
  HtmlTable table({"layer", "kernel", "90 %", "#", "place", "us", "share", "sum", "FLOP", "bytes", "FLOP/s", "B/s"}, 2);
  double sum = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TimedLayer& one = layers[i];
    const bool hot = sum < kHotShare;
    sum += one.share;
    table.add_row(
        {names.shortened(one.layer->name), one.layer->kernel, hot ? "\xE2\x97\x8F" : "", std::to_string(i + 1),
         std::to_string(one.index + 1), microseconds(one.ms), percent(one.share, 1), percent(sum, 1),
         compact(one.flops), compact(one.bytes), compact(one.flops_per_second()), compact(one.bytes_per_second())},
        hot ? "hot" : "", one.layer->name);
  }
  return "<h4>Layers, slowest first</h4>\n" + table.str();
}

}  // namespace

std::string layers_section(const CaseResult& result, const LayerProfile& profile, const Machine& machine) {
  if (profile.empty()) return {};
  const std::vector<TimedLayer> layers = timed_layers(result, profile);
  const std::string name = result.label() + ", batch " + std::to_string(result.batch);
  return "<summary>" + escaped(name) + ": " + std::to_string(layers.size()) + " layers, " +
         escaped(layers_sum(profile)) + "</summary>\n<div class=\"charts\">\n" +
         roofline(result, machine, layers, name) + kernel_table(layers) + "</div>\n" +
         layer_table(layers, LayerNames(result.layers));
}

}  // namespace mobicuda::bench::report
