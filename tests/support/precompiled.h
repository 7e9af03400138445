#pragma once

// What most tests include of libraries, for -DMOBICUDA_PRECOMPILED_HEADERS=ON. No file relies on it: scripts/tidy reads each
// without it.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "support/catch.h"
