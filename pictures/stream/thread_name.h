#pragma once

#include <pthread.h>

namespace mobicuda::pictures {

/// Names the calling thread, in 15 letters at most, for those who look at what a process does (top, perf, debuggers).
inline void name_thread(const char* name) noexcept { pthread_setname_np(pthread_self(), name); }

}  // namespace mobicuda::pictures
