#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/record.h"

namespace mobicuda::bench::report {

/// The networks of models/zoo that a whole record has, MobileNetV2 aside, in the order of its table.
std::span<const std::string_view> recorded_networks();

/// In that order; others follow.
void sort_networks(std::vector<NetworkTime>& times);

/// Which ones the record lacks, as a sentence.
std::string lacking_text(const MachineRecord& record);

/// "mobilenet_v2" -> "MobileNetV2"; any other is returned as it is.
std::string network_title(const std::string& network);

}  // namespace mobicuda::bench::report
