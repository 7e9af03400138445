#pragma once

#include <string>
#include <string_view>

#include <mobicuda/error.h>
#include <mobicuda/mobicuda_c.h>

namespace mobicuda::c_api {

mobicuda_status status_of(ErrorCode code) noexcept;

/// Keeps the error for the thread's mobicuda_last_error_...() and returns its status. Where there is no memory for its
/// texts, others say so.
mobicuda_status remember(const Error& error) noexcept;
mobicuda_status remember(ErrorCode code, std::string_view where, std::string_view message) noexcept;

}  // namespace mobicuda::c_api
