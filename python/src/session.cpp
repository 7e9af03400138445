// Sessions: runs between arrays of the host and of CUDA devices.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#if MOBICUDA_HAS_CUDA
#include <mobicuda/cuda_interop.h>
#endif
#include <mobicuda/engine.h>
#include <mobicuda/error.h>

#include "arrays.h"
#include "bindings.h"
#include "engine_object.h"
#include "errors.h"

namespace mobicuda::python {
namespace {

namespace nb = nanobind;

/// Throws Error(invalid_argument) unless a session of the engine runs n images.
void require_batch(const Engine& engine, std::int64_t n) { static_cast<void>(engine.layers(n)); }

/// Throws ValueError unless there is room for the output of exactly n images.
void require_room(const Wanted& wanted, const AnyArray& output, std::int64_t n) {
  const std::int64_t room = require_images(wanted, output);
  require_dense(wanted, output);
  if (room == n) return;
  raise_value_error("out must be of as many images as input, " + std::to_string(n) + ", got " + std::to_string(room));
}

nb::object numpy() { return nb::module_::import_("numpy"); }

nb::object empty_array(const TensorDesc& desc, std::int64_t n) {
  nb::list shape;
  shape.append(n);
  for (const std::int64_t extent : image_extents(desc)) shape.append(extent);
  return numpy().attr("empty")(nb::tuple(shape), dtype_name(desc.dtype));
}

/// From host to host. Returns `out`, or where that is None an array of its own.
nb::object run_host(const SessionObject& self, nb::object given, nb::object out) {
  const auto session = self.session();
  const Engine& engine = self.engine();
  const Wanted wanted_input = wanted("input", engine.input());
  const Wanted wanted_output = wanted("out", engine.output());
  AnyArray input = to_array(wanted_input, given);
  require_host(wanted_input, input);
  const std::int64_t n = require_images(wanted_input, input);
  require_batch(engine, n);
  if (!is_dense(input)) input = to_array(wanted_input, numpy().attr("ascontiguousarray")(given));
  if (out.is_none()) out = empty_array(engine.output(), n);
  const WritableArray output = to_writable_array(wanted_output, out);
  require_host(wanted_output, AnyArray(output));
  require_room(wanted_output, AnyArray(output), n);
  const std::span<float> logits(static_cast<float*>(output.data()), output.size());
  const nb::gil_scoped_release no_gil;
  if (engine.input().dtype == DType::U8) {
    session->run(std::span(static_cast<const std::uint8_t*>(input.data()), input.size()), logits);
  } else {
    session->run(std::span(static_cast<const float*>(input.data()), input.size()), logits);
  }
  return out;
}

/// Enqueues on the CUDA stream of that handle, and waits for nothing.
#if MOBICUDA_HAS_CUDA
void run_device(const SessionObject& self, nb::handle given, nb::handle out, std::uintptr_t stream) {
  const auto session = self.session();
  const Engine& engine = self.engine();
  const Wanted wanted_input = wanted("input", engine.input());
  const Wanted wanted_output = wanted("out", engine.output());
  const AnyArray input = to_array(wanted_input, given);
  const WritableArray output = to_writable_array(wanted_output, out);
  require_cuda(wanted_input, input, engine.options().device);
  require_cuda(wanted_output, AnyArray(output), engine.options().device);
  const std::int64_t n = require_images(wanted_input, input);
  require_dense(wanted_input, input);
  require_room(wanted_output, AnyArray(output), n);
  auto* const logits = static_cast<float*>(output.data());
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python's frameworks tell streams as numbers
  auto* const handle = reinterpret_cast<cudaStream_t>(stream);
  const nb::gil_scoped_release no_gil;
  if (engine.input().dtype == DType::U8) {
    run_on_device(*session, n, static_cast<const std::uint8_t*>(input.data()), logits, handle);
  } else {
    run_on_device(*session, n, static_cast<const float*>(input.data()), logits, handle);
  }
}

/// The same, with nothing to look at: the caller knows that the tensors are as they must be.
void run_pointers(const SessionObject& self, std::uintptr_t input, std::uintptr_t output, std::int64_t n,
                  std::uintptr_t stream) {
  const auto session = self.session();
  // NOLINTBEGIN(performance-no-int-to-ptr): Python's frameworks tell addresses and streams as numbers
  const auto* const given = reinterpret_cast<const void*>(input);
  auto* const logits = reinterpret_cast<float*>(output);
  auto* const handle = reinterpret_cast<cudaStream_t>(stream);
  // NOLINTEND(performance-no-int-to-ptr)
  const nb::gil_scoped_release no_gil;
  if (self.engine().input().dtype == DType::U8) {
    run_on_device(*session, n, static_cast<const std::uint8_t*>(given), logits, handle);
  } else {
    run_on_device(*session, n, static_cast<const float*>(given), logits, handle);
  }
}
#else
void run_pointers(const SessionObject& /*self*/, std::uintptr_t /*input*/, std::uintptr_t /*output*/,
                  std::int64_t /*n*/, std::uintptr_t /*stream*/) {
  throw Error(ErrorCode::device_unavailable, "run", "this libmobicuda was built without CUDA");
}

void run_device(const SessionObject& /*self*/, nb::handle /*given*/, nb::handle /*out*/, std::uintptr_t /*stream*/) {
  throw Error(ErrorCode::device_unavailable, "run", "this libmobicuda was built without CUDA");
}
#endif

/// A NumPy view of memory that the session owns; it keeps that memory, also beyond close().
template <class T>
nb::object view(const std::shared_ptr<Session>& session, const TensorDesc& desc, std::span<T> memory) {
  const std::vector<std::int64_t> image = image_extents(desc);
  std::vector<std::size_t> shape{memory.size() / static_cast<std::size_t>(desc.shape.elements())};
  shape.insert(shape.end(), image.begin(), image.end());
  const nb::capsule owner(new std::shared_ptr<Session>(session),
                          [](void* kept) noexcept { delete static_cast<std::shared_ptr<Session>*>(kept); });
  return nb::cast(nb::ndarray<nb::numpy, T>(memory.data(), shape.size(), shape.data(), owner));
}

nb::object staged_input(const SessionObject& self, std::int64_t n) {
  const auto session = self.session();
  const TensorDesc& desc = self.engine().input();
  if (desc.dtype == DType::U8) return view(session, desc, session->staged_pictures(n));
  return view(session, desc, session->staged_input(n));
}

nb::object staged_output(const SessionObject& self, std::int64_t n) {
  const auto session = self.session();
  return view(session, self.engine().output(), session->staged_output(n));
}

/// Calls a function of the session without the GIL.
template <auto kFunction, class... Args>
auto released(const SessionObject& self, Args... args) {
  const auto session = self.session();
  const nb::gil_scoped_release no_gil;
  return (session.get()->*kFunction)(args...);
}

void warm_up(const SessionObject& self, const std::vector<std::int64_t>& batches) {
  const auto session = self.session();
  const nb::gil_scoped_release no_gil;
  session->warm_up(batches);
}

/// (layers, whole, boundary)
nb::tuple profile(const SessionObject& self, std::int64_t n, int iterations, bool serialized) {
  const auto session = self.session();
  LayerTimes times;
  {
    const nb::gil_scoped_release no_gil;
    times = session->profile(n, iterations, serialized ? ProfileMode::Serialized : ProfileMode::AsRun);
  }
  return nb::make_tuple(times.layers, times.whole, times.boundary);
}

void close(SessionObject& self) {
  std::shared_ptr<Session> last = self.take();
  const nb::gil_scoped_release no_gil;
  last.reset();  // which may wait for a GPU
}

/// Memory that the caller names by its address, as a DLPack capsule; it must outlive the capsule.
nb::object capsule_of_pointer(std::uintptr_t address, const std::vector<std::size_t>& shape, const std::string& dtype,
                              int device_type, int device) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as the caller names it
  auto* const data = reinterpret_cast<void*>(address);
  const nb::dlpack::dtype type = dtype == "uint8" ? nb::dtype<std::uint8_t>() : nb::dtype<float>();
  return nb::cast(nb::ndarray<>(data, shape.size(), shape.data(), nb::handle(), nullptr, type, device_type, device),
                  nb::rv_policy::reference);
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<SessionObject>(module, "Session")
      .def(nb::init<const EngineObject&>(), nb::call_guard<nb::gil_scoped_release>())
      .def("require_batch", [](const SessionObject& self, std::int64_t n) { require_batch(self.engine(), n); })
      .def("run_device", &run_device, nb::arg("input"), nb::arg("out"), nb::arg("stream"))
      .def("run_pointers", &run_pointers, nb::arg("input"), nb::arg("output"), nb::arg("n"), nb::arg("stream"))
      .def("run_host", &run_host, nb::arg("input"), nb::arg("out").none())
      .def("staged_input", &staged_input)
      .def("staged_output", &staged_output)
      .def("run_staged", &released<&Session::run_staged, std::int64_t>)
      .def("enqueue_staged", &released<&Session::enqueue_staged, std::int64_t>)
      .def("synchronize", &released<&Session::synchronize>)
      .def("warm_up", &warm_up)
      .def("time", &released<&Session::time_executions, std::int64_t, int, int>)
      .def("profile", &profile)
      .def("close", &close)
      .def_prop_ro("closed", &SessionObject::closed);
  module.def("capsule_of_pointer", &capsule_of_pointer);
}

}  // namespace mobicuda::python
