#include "pictures/gpu/nvjpeg.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include <mobicuda/error.h>

#include "pictures/gpu/planes_trial.h"
#include "runtime/cuda_check.h"

namespace mobicuda::pictures {
namespace {

constexpr const char* kRemedy =
    "install the CUDA Toolkit's nvJPEG or the Python package nvidia-nvjpeg, or name the file in "
    "ClassifierOptions::nvjpeg_library";

[[noreturn]] void unavailable(const std::string& why) {
  throw Error(ErrorCode::device_unavailable, "nvJPEG", why, kRemedy);
}

std::string said(nvjpeg::Status status) {
  constexpr std::array kNames{"success",
                              "not initialised",
                              "invalid parameter",
                              "bad JPEG",
                              "JPEG not supported",
                              "allocation failed",
                              "execution failed",
                              "not on this GPU",
                              "internal error",
                              "implementation not supported",
                              "incomplete bit stream"};
  const bool known = status >= 0 && status < static_cast<int>(kNames.size());
  return known ? kNames[static_cast<std::size_t>(status)] : "status " + std::to_string(status);
}

// It stays loaded: the next classifier needs it again, and unloading it while CUDA lives is asking for trouble.
void* open_library(const std::filesystem::path& library) {
  std::vector<std::string> tried;
  if (!library.empty()) {
    tried.push_back(library.string());
  } else {
    for (const char* const name : {"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"}) {
      tried.emplace_back(name);
      tried.push_back(std::string(MOBICUDA_TOOLKIT_FOLDER) + "/" + name);
    }
  }
  std::string why;
  for (const std::string& file : tried) {
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return handle;
    const char* const message = dlerror();
    if (why.empty()) why = message != nullptr ? message : file + " cannot be opened";
  }
  unavailable(why);
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) unavailable(std::string("the library lacks ") + name);
}

int code_of(NvjpegOutput output) {
  return output == NvjpegOutput::Planes ? nvjpeg::kOutputPlanes : nvjpeg::kOutputRgbInterleaved;
}

}  // namespace

std::shared_ptr<const Nvjpeg> Nvjpeg::load(const std::filesystem::path& library, const Device& device) {
  struct Known {
    std::weak_ptr<const Nvjpeg> nvjpeg;  // where it is in use
    std::shared_ptr<TriedParts> tried = std::make_shared<TriedParts>();
  };
  static std::mutex mutex;
  static std::map<std::pair<std::filesystem::path, int>, Known> all;
  const std::scoped_lock lock(mutex);
  Known& known = all[{library, device.index}];
  if (auto nvjpeg = known.nvjpeg.lock()) return nvjpeg;
  const std::shared_ptr<Nvjpeg> nvjpeg = load_anew(library, device);
  nvjpeg->tried_ = known.tried;
  known.nvjpeg = nvjpeg;
  return nvjpeg;
}

void Nvjpeg::try_part(NvjpegPart part) const {
  Tried& tried = (*tried_)[static_cast<std::size_t>(part)];
  std::call_once(tried.once, [&] {
    if (!has(part)) return;
    tried.rgb = try_output(shared_from_this(), part, NvjpegOutput::Rgb);
    tried.planes = try_output(shared_from_this(), part, NvjpegOutput::Planes);
  });
}

bool Nvjpeg::gives(NvjpegPart part, NvjpegOutput output, Sampling sampling) const {
  try_part(part);
  const Tried& tried = (*tried_)[static_cast<std::size_t>(part)];
  return (output == NvjpegOutput::Planes ? tried.planes : tried.rgb).test(static_cast<std::size_t>(sampling));
}

std::shared_ptr<Nvjpeg> Nvjpeg::load_anew(const std::filesystem::path& library, const Device& device) {
  std::shared_ptr<Nvjpeg> result(new Nvjpeg(device));
  result->library_ = open_library(library);
  nvjpeg::Api& api = result->api_;
  find(result->library_, "nvjpegGetProperty", api.get_property);
  find(result->library_, "nvjpegCreateEx", api.create);
  find(result->library_, "nvjpegDestroy", api.destroy);
  find(result->library_, "nvjpegJpegStateCreate", api.state_create);
  find(result->library_, "nvjpegJpegStateDestroy", api.state_destroy);
  find(result->library_, "nvjpegDecode", api.decode);
  find(result->library_, "nvjpegDecodeBatchedInitialize", api.batch_initialize);
  find(result->library_, "nvjpegDecodeBatched", api.batch_decode);
  find(result->library_, "nvjpegDecodeBatchedSupported", api.batch_supported);
  find(result->library_, "nvjpegJpegStreamCreate", api.stream_create);
  find(result->library_, "nvjpegJpegStreamDestroy", api.stream_destroy);
  find(result->library_, "nvjpegJpegStreamParseHeader", api.stream_parse_header);
  const auto create = [&](int backend, NvjpegPart part) {
    nvjpeg::Handle& handle = result->handles_[static_cast<std::size_t>(part)];
    // Versions that do not know the flag take the nearest chroma.
    nvjpeg::Status status = api.create(backend, nullptr, nullptr, nvjpeg::kSmoothChroma, &handle);
    if (status != nvjpeg::kSuccess) status = api.create(backend, nullptr, nullptr, 0, &handle);
    if (status != nvjpeg::kSuccess) handle = nullptr;
    return status;
  };
  create(nvjpeg::kBackendHardware, NvjpegPart::Units);  // most GPUs have none
  create(nvjpeg::kBackendGpuHybrid, NvjpegPart::SmsInBatches);
  const nvjpeg::Status status = create(nvjpeg::kBackendDefault, NvjpegPart::Sms);
  if (status != nvjpeg::kSuccess) {
    unavailable(said(status));
  }
  return result;
}

Nvjpeg::~Nvjpeg() {
  if (std::all_of(handles_.begin(), handles_.end(), [](nvjpeg::Handle handle) { return handle == nullptr; })) return;
  const DeviceGuard guard(device_, std::nothrow);
  for (nvjpeg::Handle const handle : handles_) {
    if (handle != nullptr) api_.destroy(handle);
  }
}

std::string Nvjpeg::version() const {
  int major = 0;
  int minor = 0;
  if (api_.get_property(0, &major) != nvjpeg::kSuccess || api_.get_property(1, &minor) != nvjpeg::kSuccess) return {};
  return std::to_string(major) + "." + std::to_string(minor);
}

NvjpegParser::NvjpegParser(std::shared_ptr<const Nvjpeg> nvjpeg) : nvjpeg_(std::move(nvjpeg)) {
  if (!nvjpeg_->has(NvjpegPart::Units)) return;
  if (const nvjpeg::Status status = nvjpeg_->api().stream_create(nvjpeg_->handle(NvjpegPart::Units), &stream_);
      status != nvjpeg::kSuccess) {
    unavailable(said(status));
  }
}

NvjpegParser::~NvjpegParser() {
  if (stream_ != nullptr) nvjpeg_->api().stream_destroy(stream_);
}

bool NvjpegParser::units_take(std::span<const std::uint8_t> file) {
  if (stream_ == nullptr) return false;
  int refused = 1;
  const nvjpeg::Api& api = nvjpeg_->api();
  nvjpeg::Handle const units = nvjpeg_->handle(NvjpegPart::Units);
  return api.stream_parse_header(units, file.data(), file.size(), stream_) == nvjpeg::kSuccess &&
         api.batch_supported(units, stream_, &refused) == nvjpeg::kSuccess && refused == 0;
}

BatchDecoder::~BatchDecoder() { reset(); }

void BatchDecoder::reset() noexcept {
  if (state_ != nullptr) nvjpeg_->api().state_destroy(std::exchange(state_, nullptr));
  batch_ = 0;
}

std::string BatchDecoder::decode(std::span<const NvjpegPicture> pictures, cudaStream_t stream) {
  const nvjpeg::Api& api = nvjpeg_->api();
  nvjpeg::Handle const handle = nvjpeg_->handle(part_);
  const int batch = static_cast<int>(pictures.size());
  data_.clear();
  lengths_.clear();
  images_.clear();
  for (const NvjpegPicture& picture : pictures) {
    data_.push_back(picture.encoded.data());
    lengths_.push_back(picture.encoded.size());
    images_.push_back(picture.pixels);
  }
  nvjpeg::Status status = nvjpeg::kSuccess;
  if (state_ == nullptr) status = api.state_create(handle, &state_);
  if (status == nvjpeg::kSuccess && batch != batch_) {
    status = api.batch_initialize(handle, state_, batch, 1, code_of(output_));
  }
  if (status == nvjpeg::kSuccess) {
    batch_ = batch;
    status = api.batch_decode(handle, state_, data_.data(), lengths_.data(), images_.data(), stream);
  }
  if (status == nvjpeg::kSuccess) return {};
  // What a batch that failed leaves in the state is not said anywhere.
  cudaStreamSynchronize(stream);
  reset();
  return said(status);
}

SmsDecoder::SmsDecoder(std::shared_ptr<const Nvjpeg> nvjpeg) : nvjpeg_(std::move(nvjpeg)) {
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

SmsDecoder::~SmsDecoder() {
  if (state_ != nullptr) nvjpeg_->api().state_destroy(state_);
  cudaStreamDestroy(stream_);
}

std::string SmsDecoder::decode(const NvjpegPicture& picture, NvjpegOutput output) {
  const nvjpeg::Api& api = nvjpeg_->api();
  nvjpeg::Handle const handle = nvjpeg_->handle(NvjpegPart::Sms);
  nvjpeg::Status status = nvjpeg::kSuccess;
  if (state_ == nullptr) status = api.state_create(handle, &state_);
  nvjpeg::Image image = picture.pixels;
  if (status == nvjpeg::kSuccess) {
    status =
        api.decode(handle, state_, picture.encoded.data(), picture.encoded.size(), code_of(output), &image, stream_);
  }
  cuda_check(cudaStreamSynchronize(stream_), "decoding a picture by nvJPEG");
  if (status == nvjpeg::kSuccess) return {};
  if (state_ != nullptr) api.state_destroy(std::exchange(state_, nullptr));
  return said(status);
}

}  // namespace mobicuda::pictures
