#pragma once

#include <string>

#include "bench_engine/model/results.h"

/// A case with two layers, every run of which took `ms`.
mobicuda::bench::CaseResult case_of(const std::string& implementation, double ms);

/// custom and cpu at batch 2, the second compared with the first.
mobicuda::bench::Report report_of_two();

/// Two tensors against "cpu fp32", the second beyond its threshold and not finite, and a layer that was left out.
mobicuda::bench::LayerComparison layers_that_diverge();

/// The same with a histogram for each case, at batches 2 and 8.
mobicuda::bench::Report profiled_report();

/// Four pictures of two classes, of which the second implementation gets fewer right.
mobicuda::bench::ImageReport classified_pictures();

/// Everything of the above, as tests/report/run.json has it.
mobicuda::bench::Report report_of_everything();
