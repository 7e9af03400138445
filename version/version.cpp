#include <mobicuda/version.h>

namespace mobicuda {

std::string_view version() noexcept { return MOBICUDA_VERSION_STRING; }

}  // namespace mobicuda
