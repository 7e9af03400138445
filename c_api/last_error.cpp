#include "c_api/last_error.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace mobicuda::c_api {

namespace {

struct Texts {
  std::string where, message, hint, text;
};

// Neither has a destructor: one that is to run at a thread's end would keep the library mapped after dlclose().
thread_local mobicuda_status last_status = MOBICUDA_OK;
thread_local Texts* last_texts = nullptr;

// A program's own static objects may fail a call after those of this library were destroyed.
bool all_gone = false;

// The threads' texts. They go with their thread, or with the library.
class AllTexts {
 public:
  AllTexts() : usable_(pthread_key_create(&key_, [](void* texts) { forget(static_cast<Texts*>(texts)); }) == 0) {}
  ~AllTexts() {
    if (usable_) pthread_key_delete(key_);
    all_gone = true;
    last_texts = nullptr;
  }
  AllTexts(const AllTexts&) = delete;
  AllTexts& operator=(const AllTexts&) = delete;

  // The calling thread's. Null where they cannot be had.
  static Texts* mine();

 private:
  static void forget(Texts* texts);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Texts>> all_;
  pthread_key_t key_{};
  bool usable_;
};

AllTexts all_texts;

Texts* AllTexts::mine() {
  if (last_texts != nullptr) return last_texts;
  if (all_gone || !all_texts.usable_) return nullptr;
  const std::scoped_lock lock(all_texts.mutex_);
  all_texts.all_.push_back(std::make_unique<Texts>());
  Texts* texts = all_texts.all_.back().get();
  if (pthread_setspecific(all_texts.key_, texts) != 0) {
    all_texts.all_.pop_back();
    return nullptr;
  }
  last_texts = texts;
  return texts;
}

void AllTexts::forget(Texts* texts) {
  const std::scoped_lock lock(all_texts.mutex_);
  std::erase_if(all_texts.all_, [texts](const std::unique_ptr<Texts>& one) { return one.get() == texts; });
  last_texts = nullptr;
}

constexpr const char* kNoRoom = "no host memory for the text of the error";

}  // namespace

mobicuda_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return MOBICUDA_INVALID_ARGUMENT;
    case ErrorCode::invalid_model:
      return MOBICUDA_INVALID_MODEL;
    case ErrorCode::unsupported:
      return MOBICUDA_UNSUPPORTED;
    case ErrorCode::io:
      return MOBICUDA_IO;
    case ErrorCode::out_of_memory:
      return MOBICUDA_OUT_OF_MEMORY;
    case ErrorCode::device_unavailable:
      return MOBICUDA_DEVICE_UNAVAILABLE;
    case ErrorCode::device_lost:
      return MOBICUDA_DEVICE_LOST;
    case ErrorCode::internal:
      return MOBICUDA_INTERNAL;
  }
  return MOBICUDA_INTERNAL;
}

mobicuda_status remember(const Error& error) noexcept {
  last_status = status_of(error.code());
  try {
    if (Texts* texts = AllTexts::mine(); texts != nullptr) {
      Texts next{error.where(), error.message(), error.hint(), error.what()};
      std::swap(*texts, next);
    }
  } catch (const std::exception&) {
    if (last_texts != nullptr) *last_texts = Texts{};
  }
  return last_status;
}

mobicuda_status remember(ErrorCode code, std::string_view where, std::string_view message) noexcept {
  try {
    return remember(Error(code, std::string(where), std::string(message)));
  } catch (const std::exception&) {
    if (last_texts != nullptr) *last_texts = Texts{};
    last_status = status_of(code);
    return last_status;
  }
}

}  // namespace mobicuda::c_api

namespace {

using mobicuda::c_api::last_status;
using mobicuda::c_api::last_texts;

// A part of the last error. An error whose texts there was no memory for has none at all.
const char* part(std::string mobicuda::c_api::Texts::*member, const char* instead) {
  if (last_status == MOBICUDA_OK) return "";
  if (last_texts == nullptr || last_texts->text.empty()) return instead;
  return (last_texts->*member).c_str();
}

}  // namespace

mobicuda_status mobicuda_last_error_status() { return last_status; }
const char* mobicuda_last_error_where() { return part(&mobicuda::c_api::Texts::where, ""); }
const char* mobicuda_last_error_message() { return part(&mobicuda::c_api::Texts::message, mobicuda::c_api::kNoRoom); }
const char* mobicuda_last_error_hint() { return part(&mobicuda::c_api::Texts::hint, ""); }
const char* mobicuda_last_error_text() { return part(&mobicuda::c_api::Texts::text, mobicuda::c_api::kNoRoom); }

const char* mobicuda_status_name(mobicuda_status status) {
  constexpr mobicuda::ErrorCode kCodes[] = {
      mobicuda::ErrorCode::invalid_argument, mobicuda::ErrorCode::invalid_model,
      mobicuda::ErrorCode::unsupported,      mobicuda::ErrorCode::io,
      mobicuda::ErrorCode::out_of_memory,    mobicuda::ErrorCode::device_unavailable,
      mobicuda::ErrorCode::device_lost,      mobicuda::ErrorCode::internal};
  if (status == MOBICUDA_OK) return "ok";
  for (const mobicuda::ErrorCode code : kCodes) {
    if (mobicuda::c_api::status_of(code) == status) return to_string(code).data();  // literals: they end with NUL
  }
  return "unknown";
}
