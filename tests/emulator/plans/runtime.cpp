// Functions of the CUDA runtime that the engine has but plans do not call when their steps are run one by one: all of
// them, as a unity build leaves no part of the engine out, and one that were missing would bring the whole runtime. The
// emulator has no streams, events or graphs.
#include <cstdio>
#include <cstdlib>

#define MOBICUDA_NEVER_CALLED(function)                              \
  extern "C" void function() {                                       \
    std::fputs(#function " is not there in the emulator\n", stderr); \
    std::abort();                                                    \
  }

// NOLINTBEGIN(readability-identifier-naming): the runtime's names
MOBICUDA_NEVER_CALLED(cudaDriverGetVersion)
MOBICUDA_NEVER_CALLED(cudaEventCreateWithFlags)
MOBICUDA_NEVER_CALLED(cudaEventDestroy)
MOBICUDA_NEVER_CALLED(cudaEventElapsedTime)
MOBICUDA_NEVER_CALLED(cudaEventRecord)
MOBICUDA_NEVER_CALLED(cudaEventRecordWithFlags)
MOBICUDA_NEVER_CALLED(cudaEventSynchronize)
MOBICUDA_NEVER_CALLED(cudaFreeHost)
MOBICUDA_NEVER_CALLED(cudaGetErrorName)
MOBICUDA_NEVER_CALLED(cudaGraphDestroy)
MOBICUDA_NEVER_CALLED(cudaGraphExecDestroy)
MOBICUDA_NEVER_CALLED(cudaGraphInstantiate)
MOBICUDA_NEVER_CALLED(cudaGraphLaunch)
MOBICUDA_NEVER_CALLED(cudaGraphUpload)
MOBICUDA_NEVER_CALLED(cudaHostAlloc)
MOBICUDA_NEVER_CALLED(cudaLaunchHostFunc)
MOBICUDA_NEVER_CALLED(cudaMemcpy2DAsync)
MOBICUDA_NEVER_CALLED(cudaMemsetAsync)
MOBICUDA_NEVER_CALLED(cudaPointerGetAttributes)
MOBICUDA_NEVER_CALLED(cudaStreamBeginCapture)
MOBICUDA_NEVER_CALLED(cudaStreamCreateWithFlags)
MOBICUDA_NEVER_CALLED(cudaStreamEndCapture)
MOBICUDA_NEVER_CALLED(cudaStreamGetId)
MOBICUDA_NEVER_CALLED(cudaStreamIsCapturing)
MOBICUDA_NEVER_CALLED(cudaStreamQuery)
MOBICUDA_NEVER_CALLED(cudaStreamSynchronize)
MOBICUDA_NEVER_CALLED(cudaStreamWaitEvent)
MOBICUDA_NEVER_CALLED(cudaThreadExchangeStreamCaptureMode)
// NOLINTEND(readability-identifier-naming)
