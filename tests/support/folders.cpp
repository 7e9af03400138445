// The one file that is told where the checkout lies: all others compile to the same in every checkout, which a compiler
// cache makes use of.
#include "support/folders.h"

namespace mobicuda::test {

std::filesystem::path source_folder() { return MOBICUDA_SOURCE_DIR; }

std::filesystem::path shared_folder() { return MOBICUDA_SHARED_DIR; }

}  // namespace mobicuda::test
