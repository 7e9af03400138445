#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <mobicuda/engine.h>
#include <mobicuda/error.h>
#include <mobicuda/mobicuda_c.h>

#include "c_api/last_error.h"

namespace mobicuda::c_api {

/// What a handle is, told by its first bytes: two kinds of pointers are easily confused where all are void*.
enum class HandleKind : std::uint32_t { Engine = 0x6d6f6265, Session = 0x6d6f6273 };

/// Calls `function`; what it throws becomes a status. `name` is the C function's, for errors that know no better place.
template <class Function>
mobicuda_status call(const char* name, Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return MOBICUDA_OK;
  } catch (const Error& error) {
    return remember(error);
  } catch (const std::bad_alloc&) {
    return remember(ErrorCode::out_of_memory, name, "no host memory");
  } catch (const std::exception& error) {
    return remember(ErrorCode::internal, name, error.what());
  } catch (...) {
    return remember(ErrorCode::internal, name, "an exception that is no std::exception: a log callback must not throw");
  }
}

/// Throws Error(invalid_argument) on NULL.
inline void require(const char* function, const void* pointer, const char* parameter) {
  if (pointer == nullptr) throw Error(ErrorCode::invalid_argument, function, std::string(parameter) + " is NULL");
}

/// Elements of a caller's buffer. Throws Error(invalid_argument) on NULL and on counts that no memory holds.
template <class T>
std::span<T> buffer(const char* function, T* elements, std::size_t count, const char* parameter) {
  require(function, elements, parameter);
  if (count > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T)) {
    throw Error(ErrorCode::invalid_argument, function,
                std::string(parameter) + ": no memory holds " + std::to_string(count) + " elements");
  }
  return {elements, count};
}

}  // namespace mobicuda::c_api

struct mobicuda_engine {
  mobicuda::c_api::HandleKind kind = mobicuda::c_api::HandleKind::Engine;
  std::shared_ptr<const mobicuda::Engine> engine;
};

struct mobicuda_session {
  mobicuda::c_api::HandleKind kind = mobicuda::c_api::HandleKind::Session;
  std::unique_ptr<mobicuda::Session> session;
};

namespace mobicuda::c_api {

/// What a handle stands for. Throws Error(invalid_argument) on NULL and on handles of the other kind.
inline const std::shared_ptr<const Engine>& engine_of(const char* function, const mobicuda_engine* handle) {
  require(function, handle, "engine");
  if (handle->kind != HandleKind::Engine) {
    throw Error(ErrorCode::invalid_argument, function, "engine is no handle of an engine, or one that was destroyed");
  }
  return handle->engine;
}

inline Session& session_of(const char* function, mobicuda_session* handle) {
  require(function, handle, "session");
  if (handle->kind != HandleKind::Session) {
    throw Error(ErrorCode::invalid_argument, function, "session is no handle of a session, or one that was destroyed");
  }
  return *handle->session;
}

}  // namespace mobicuda::c_api
