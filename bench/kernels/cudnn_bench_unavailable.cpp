#include "selection.h"

namespace mobicuda::bench {

bool has_cudnn() { return false; }
void register_cudnn(const Selection&) {}

}  // namespace mobicuda::bench
