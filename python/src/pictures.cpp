// Pictures to classes: libmobicuda_pictures.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>
#include <mobicuda/pictures.h>

#include "bindings.h"
#include "engine_object.h"
#include "errors.h"
#include "log_sink.h"

namespace mobicuda::python {
namespace {

namespace nb = nanobind;
using pictures::Classifier;
using pictures::ClassifierOptions;
using pictures::DecodeOn;
using pictures::PictureSource;
using pictures::Report;
using pictures::Result;
using pictures::Run;

DecodeOn decode_on(const std::string& where) {
  if (where == "gpu") return DecodeOn::Gpu;
  if (where == "gpu-units") return DecodeOn::GpuUnits;
  if (where == "gpu-sms") return DecodeOn::GpuSms;
  return where == "cpu" ? DecodeOn::Cpu : DecodeOn::Auto;
}

/// Paths and names of files as Python has them: bytes of the file system.
std::filesystem::path to_path(const nb::bytes& path) { return std::string(path.c_str(), path.size()); }

/// (name, [(class, score)], failure, decoder)
nb::tuple to_tuple(const Result& result) {
  nb::list best;
  for (const pictures::ClassScore& one : result.best) best.append(nb::make_tuple(one.index, one.score));
  return nb::make_tuple(nb::bytes(result.name.data(), result.name.size()), best, to_text(printable(result.failure)),
                        to_text(to_string(result.decoder)));
}

nb::dict to_dict(const Report& report) {
  nb::dict told;
  told["pictures"] = report.pictures;
  told["failed"] = report.failed;
  told["by_cpu"] = report.by_cpu;
  told["by_units"] = report.by_units;
  told["by_sms"] = report.by_sms;
  told["decoded_again"] = report.decoded_again;
  told["read_ms"] = report.read_ms;
  told["host_decode_ms"] = report.host_decode_ms;
  told["units_ms"] = report.units_ms;
  told["resize_ms"] = report.resize_ms;
  told["network_ms"] = report.network_ms;
  told["wall_ms"] = report.wall_ms;
  return told;
}

std::shared_ptr<Classifier> make_classifier(const EngineObject& engine, const nb::dict& given, nb::object log) {
  ClassifierOptions options;
  options.top = nb::cast<int>(given["top_k"]);
  options.batch = nb::cast<int>(given["batch"]);
  options.threads = nb::cast<int>(given["threads"]);
  options.decode_on = decode_on(nb::cast<std::string>(given["decode"]));
  if (nb::cast<std::string>(given["preprocess"]) == "tf") options.normalization = pictures::Normalization::Tf;
  options.nvjpeg_library = to_path(nb::cast<nb::bytes>(given["nvjpeg_library"]));
  LogSink sink(std::move(log));
  options.log = sink.callback();
  std::shared_ptr<const Engine> shared = engine.engine();
  std::shared_ptr<Classifier> made;
  {
    const nb::gil_scoped_release no_gil;
    made = std::make_shared<Classifier>(std::move(shared), std::move(options));
  }
  sink.finish();
  return made;
}

class ClassifierObject {
 public:
  ClassifierObject(const EngineObject& engine, const nb::dict& options, nb::object log)
      : classifier_(make_classifier(engine, options, std::move(log))) {}

  std::shared_ptr<Classifier> get() const { return classifier_.get("classifier"); }
  bool closed() const noexcept { return classifier_.empty(); }
  void close() {
    std::shared_ptr<Classifier> last = classifier_.take();
    const nb::gil_scoped_release no_gil;
    last.reset();  // waits for its threads
  }

 private:
  ProcessBound<Classifier> classifier_;
};

/// A run as Python holds it, which keeps its classifier and the memory of its pictures.
class RunObject {
 public:
  RunObject(std::shared_ptr<Classifier> classifier, PictureSource source, nb::object kept)
      : kept_(std::move(kept)), run_(start(std::move(classifier), std::move(source))) {}

  std::shared_ptr<Run> get() const { return run_.get("classification"); }
  void close() {
    std::shared_ptr<Run> last = run_.take();
    {
      const nb::gil_scoped_release no_gil;
      last.reset();  // waits for its threads
    }
    kept_.reset();
  }

 private:
  /// A Run whose owner also owns its classifier, which must outlive it.
  static std::shared_ptr<Run> start(std::shared_ptr<Classifier> classifier, PictureSource source) {
    struct Both {
      std::shared_ptr<Classifier> classifier;
      Run run;
    };
    const nb::gil_scoped_release no_gil;
    Run run = classifier->classify(std::move(source));
    auto both = std::make_shared<Both>(Both{std::move(classifier), std::move(run)});
    return {both, &both->run};
  }

  nb::object kept_;  ///< null where there is none
  ProcessBound<Run> run_;
};

RunObject classify_folder(const ClassifierObject& self, const nb::bytes& folder) {
  const std::filesystem::path path = to_path(folder);
  std::optional<PictureSource> source;
  {
    const nb::gil_scoped_release no_gil;
    source = PictureSource::folder(path);
  }
  return {self.get(), std::move(*source), nb::object()};
}

RunObject classify_tar(const ClassifierObject& self, const nb::bytes& archive) {
  return {self.get(), PictureSource::tar(to_path(archive)), nb::object()};
}

RunObject classify_files(const ClassifierObject& self, const std::vector<nb::bytes>& files) {
  std::vector<std::filesystem::path> paths;
  for (const nb::bytes& file : files) paths.push_back(to_path(file));
  return {self.get(), PictureSource::files(paths), nb::object()};
}

/// [(name, encoded)], which the run keeps.
RunObject classify_memory(const ClassifierObject& self, const nb::list& encoded) {
  std::vector<pictures::EncodedPicture> entries;
  for (const nb::handle entry : encoded) {
    const auto [name, bytes] = nb::cast<std::pair<nb::bytes, nb::bytes>>(entry);
    entries.push_back({std::string(name.c_str(), name.size()),
                       std::span(reinterpret_cast<const std::uint8_t*>(bytes.c_str()), bytes.size())});
  }
  return {self.get(), PictureSource::memory(std::move(entries)), encoded};
}

nb::tuple classify_one(const ClassifierObject& self, const nb::bytes& encoded) {
  const auto classifier = self.get();
  Result result;
  {
    const nb::gil_scoped_release no_gil;
    result =
        classifier->classify_one(std::span(reinterpret_cast<const std::uint8_t*>(encoded.c_str()), encoded.size()));
  }
  return to_tuple(result);
}

/// None after the last.
nb::object next(const RunObject& self) {
  const auto run = self.get();
  std::optional<Result> result;
  {
    const nb::gil_scoped_release no_gil;
    result = run->next();
  }
  return result ? nb::object(to_tuple(*result)) : nb::none();
}

}  // namespace

void bind_pictures(nb::module_& module) {
  nb::class_<ClassifierObject>(module, "Classifier")
      .def(nb::init<const EngineObject&, const nb::dict&, nb::object>(), nb::arg("engine"), nb::arg("options"),
           nb::arg("log").none())
      .def("classify_folder", &classify_folder)
      .def("classify_tar", &classify_tar)
      .def("classify_files", &classify_files)
      .def("classify_memory", &classify_memory)
      .def("classify_one", &classify_one)
      .def("decoder", [](const ClassifierObject& self) { return to_text(to_string(self.get()->decoder())); })
      .def("close", &ClassifierObject::close)
      .def_prop_ro("closed", &ClassifierObject::closed);
  nb::class_<RunObject>(module, "Classification")
      .def("next", &next)
      .def("report", [](const RunObject& self) { return to_dict(self.get()->report()); })
      .def("close", &RunObject::close);
}

}  // namespace mobicuda::python
