#pragma once

#include <string>

namespace mobicuda::bench {

/// C++ name of a mangled one; what is none is left as it is.
std::string demangle(const std::string& mangled);

/// "void a::b<(a::Kind)1, float>(a::Params, float const*)" -> "b<(Kind)1, float>": neither result nor parameters nor
/// namespaces.
std::string short_name(const std::string& demangled);

/// "cudaGraphLaunch_v10000" -> "cudaGraphLaunch".
std::string without_version(const std::string& function);

}  // namespace mobicuda::bench
