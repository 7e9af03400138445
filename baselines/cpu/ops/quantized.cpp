// Operations on integers but for sums of products, which are in lower_int8.cpp.
#include <algorithm>
#include <cstdint>

#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/integer_types.h"
#include "baselines/cpu/ops/pool_window.h"
#include "graph/integer_arithmetic.h"

namespace mobicuda::cpu {
namespace {

// Calls body(Range) for the elements of a run.
template <class Body>
LoweredNode loop_elements(const NodeView& view, const char* kernel, Body body) {
  LoweredNode lowered;
  lowered.kernel = kernel;
  lowered.run = [elements = view.output_desc().shape.elements(), body](const StepContext& context) {
    context.pool.for_ranges(context.n * elements, kElementGrain, [&](std::int64_t first, std::int64_t last, int) {
      body(context, Range{first, last});
    });
  };
  return lowered;
}

template <class Real, class Y>
LoweredNode quantize_to(const Quantize& op, const NodeView& view) {
  return loop_elements(
      view, "quantize/int8",
      [rounding = rounding_of(op.result), scale = op.result.quantization.scale, from = view.inputs[Quantize::kInput],
       to = view.output](const StepContext& context, Range range) {
        const Real* const x = context.buffer<const Real>(from);
        Y* const y = context.buffer<Y>(to);
        for (std::int64_t i = range.first; i < range.last; ++i) {
          y[i] = static_cast<Y>(nearest_integer(static_cast<float>(x[i]) / scale, rounding));
        }
      });
}

template <class Real, class X>
LoweredNode dequantize_from(const NodeView& view) {
  return loop_elements(view, "dequantize/int8",
                       [as = view.desc(Dequantize::kInput).quantization, from = view.inputs[Dequantize::kInput],
                        to = view.output](const StepContext& context, Range range) {
                         const X* const x = context.buffer<const X>(from);
                         Real* const y = context.buffer<Real>(to);
                         for (std::int64_t i = range.first; i < range.last; ++i) {
                           y[i] = static_cast<Real>(dequantized(x[i] - as.zero_point, as.scale));
                         }
                       });
}

template <class X, class Y>
LoweredNode average(const QuantizedAveragePool& op, const NodeView& view) {
  const TensorDesc x_desc = view.desc(QuantizedAveragePool::kInput);
  const TensorDesc y_desc = view.output_desc();
  LoweredNode lowered;
  lowered.kernel = "pooling/int8";
  lowered.workspace_bytes = checked_multiply(x_desc.shape[1], static_cast<std::int64_t>(sizeof(std::int32_t)));
  lowered.run = [=, from = view.inputs[QuantizedAveragePool::kInput], to = view.output](const StepContext& context) {
    const Strides xs = strides_of(x_desc);
    const Strides ys = strides_of(y_desc);
    const Quantization& of_x = x_desc.quantization;
    const IntegerRounding rounding = rounding_of(op.result);
    const std::int64_t channels = x_desc.shape[1];
    const std::int64_t out_h = y_desc.shape[2];
    const auto row = [&](std::int64_t at, std::int32_t* sums) {
      const X* const image = context.buffer<const X>(from) + at / out_h * xs[0];
      const PoolWindow rows = pool_window_at(op.window, 0, at % out_h, x_desc.shape[2]);
      for (std::int64_t ox = 0; ox < y_desc.shape[3]; ++ox) {
        const PoolWindow columns = pool_window_at(op.window, 1, ox, x_desc.shape[3]);
        std::fill_n(sums, channels, 0);
        for (std::int64_t iy = rows.first; iy < rows.last; iy += rows.step) {
          for (std::int64_t ix = columns.first; ix < columns.last; ix += columns.step) {
            const X* const pixel = image + iy * xs[2] + ix * xs[3];
            for (std::int64_t c = 0; c < channels; ++c) {
              sums[c] += pixel[c * xs[1]] - of_x.zero_point;
            }
          }
        }
        const std::int64_t count = pool_divisor(op.window, rows, columns);
        const float multiplier =
            count == 0 ? 0.0F : average_multiplier(of_x.scale, count, op.result.quantization.scale);
        Y* const y = context.buffer<Y>(to) + at / out_h * ys[0] + at % out_h * ys[2] + ox * ys[3];
        for (std::int64_t c = 0; c < channels; ++c) {
          y[c * ys[1]] = static_cast<Y>(requantized(sums[c], multiplier, rounding));
        }
      }
    };
    context.pool.for_ranges(context.n * out_h, 1, [&](std::int64_t first, std::int64_t last, int worker) {
      for (std::int64_t at = first; at < last; ++at) row(at, reinterpret_cast<std::int32_t*>(context.scratch(worker)));
    });
  };
  return lowered;
}

}  // namespace

LoweredNode lower(const Quantize& op, const NodeView& view) {
  return with_integer(op.result.dtype, [&]<class Y>(Y) {
    return view.fp64 ? quantize_to<double, Y>(op, view) : quantize_to<float, Y>(op, view);
  });
}

LoweredNode lower(const Dequantize&, const NodeView& view) {
  return with_integer(view.desc(Dequantize::kInput).dtype, [&]<class X>(X) {
    return view.fp64 ? dequantize_from<double, X>(view) : dequantize_from<float, X>(view);
  });
}

LoweredNode lower(const Requantize& op, const NodeView& view) {
  const TensorDesc& x_desc = view.desc(Requantize::kInput);
  return with_integer(x_desc.dtype, [&]<class X>(X) {
    return with_integer(op.result.dtype, [&]<class Y>(Y) {
      return loop_elements(
          view, "requantize/int8",
          [rounding = rounding_of(op.result), zero_point = x_desc.quantization.zero_point,
           multiplier = x_desc.quantization.scale / op.result.quantization.scale,
           from = view.inputs[Requantize::kInput], to = view.output](const StepContext& context, Range range) {
            const X* const x = context.buffer<const X>(from);
            Y* const y = context.buffer<Y>(to);
            for (std::int64_t i = range.first; i < range.last; ++i) {
              y[i] = static_cast<Y>(requantized(x[i] - zero_point, multiplier, rounding));
            }
          });
    });
  });
}

LoweredNode lower(const QuantizedAdd& op, const NodeView& view) {
  const TensorDesc& left = view.desc(QuantizedAdd::kLeft);
  const TensorDesc& right = view.desc(QuantizedAdd::kRight);
  return with_integer(left.dtype, [&]<class A>(A) {
    return with_integer(right.dtype, [&]<class B>(B) {
      return with_integer(op.result.dtype, [&]<class Y>(Y) {
        return loop_elements(view, "elementwise/int8",
                             [rounding = rounding_of(op.result), of_a = left.quantization, of_b = right.quantization,
                              a_factor = left.quantization.scale / op.result.quantization.scale,
                              b_factor = right.quantization.scale / op.result.quantization.scale,
                              first = view.inputs[QuantizedAdd::kLeft], second = view.inputs[QuantizedAdd::kRight],
                              to = view.output](const StepContext& context, Range range) {
                               const A* const a = context.buffer<const A>(first);
                               const B* const b = context.buffer<const B>(second);
                               Y* const y = context.buffer<Y>(to);
                               for (std::int64_t i = range.first; i < range.last; ++i) {
                                 y[i] = static_cast<Y>(added(a[i] - of_a.zero_point, a_factor, b[i] - of_b.zero_point,
                                                             b_factor, rounding));
                               }
                             });
      });
    });
  });
}

LoweredNode lower(const QuantizedAveragePool& op, const NodeView& view) {
  return with_integer(view.desc(QuantizedAveragePool::kInput).dtype, [&]<class X>(X) {
    return with_integer(op.result.dtype, [&]<class Y>(Y) { return average<X, Y>(op, view); });
  });
}

}  // namespace mobicuda::cpu
