#pragma once

/// Everything a program needs to load a network and run it. CUDA interoperation (cuda_interop.h) and
/// the cuDNN baseline (cudnn_backend.h) are separate headers, for those who have these libraries.

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>
#include <mobicuda/engine.h>
#include <mobicuda/error.h>
#include <mobicuda/graph.h>
#include <mobicuda/onnx_import.h>
#include <mobicuda/plan_file.h>
#include <mobicuda/saved_engine.h>
#include <mobicuda/tensor.h>
#include <mobicuda/types.h>
