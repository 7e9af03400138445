/** The C interface of libmobicuda, for C99, C++98 and the foreign function interfaces of other languages. It has what a
 * program needs to load a network and run it; every function does what the C++ function of the same name does (engine.h
 * has more words), and computes the same bits.
 *
 *  Status. Every function that can fail returns a mobicuda_status: MOBICUDA_OK (0) or what went wrong. No C++ exception
 * leaves the library. NULL where something is needed, a number out of range and a handle of the wrong kind are
 *  MOBICUDA_INVALID_ARGUMENT, never a crash. What cannot be found out: that a handle was destroyed, that a pointer
 * leads nowhere, and that a buffer is shorter than its count says. After an error what the function would have written
 * through its pointers is as it was, if nothing else is said.
 *
 *  Handles. mobicuda_engine_load_...() and mobicuda_session_create() give handles, which ..._destroy() ends. A session
 * keeps its engine's network alive: the two may be destroyed in either order.
 *
 *  Options. A structure of options begins with `struct_size`, and 0 (NULL) in any field means its default. Fill it with
 * zeros, set struct_size to its sizeof, then set what you need: mobicuda_engine_options options = {0};
 *      options.struct_size = sizeof options;
 *      options.max_batch = 8;
 *  So callers and libraries of different versions work together. A field that an older caller does not know has its
 * default. A field that an older library does not know must be 0: anything else is MOBICUDA_UNSUPPORTED, and the
 * message names the structure and the bytes. NULL instead of a structure of options stands for defaults. Structures
 * that the library fills begin with struct_size too, set by the caller: no more than that is written, and what the
 * library does not know becomes 0.
 *
 *  Threads. An engine may be used by several threads at once. A session belongs to one thread at a time: a call on a
 * session that another thread is using is MOBICUDA_INVALID_ARGUMENT. Destroy a handle when no other thread uses it. The
 * last error is the thread's own; where a language moves its tasks between threads, read it before the task can move.
 *
 *  Texts are UTF-8, end with NUL, and belong to the library. Paths are bytes as the system takes them.
 *
 *  The library may be unloaded (dlclose) when all engines and sessions are destroyed and no thread is inside a call. */
#ifndef MOBICUDA_C_H
#define MOBICUDA_C_H

#include <stddef.h>
#include <stdint.h>

#include <mobicuda/export.h>

/* NOLINTBEGIN(modernize-use-using, readability-identifier-naming): C has typedefs and no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status and errors ----------------------------------------------------------------------------------------------
 */

typedef int32_t mobicuda_status;
enum {
  MOBICUDA_OK = 0,
  MOBICUDA_INVALID_ARGUMENT = 1,   /**< the caller passed something that can never work */
  MOBICUDA_INVALID_MODEL = 2,      /**< the file contradicts itself, or the ONNX specification */
  MOBICUDA_UNSUPPORTED = 3,        /**< valid, but this build, version, implementation or precision does not do it */
  MOBICUDA_IO = 4,                 /**< a file could not be opened, read or written */
  MOBICUDA_OUT_OF_MEMORY = 5,      /**< host or device memory was not available, or is more than a limit */
  MOBICUDA_DEVICE_UNAVAILABLE = 6, /**< no usable GPU, driver or library */
  MOBICUDA_DEVICE_LOST = 7,        /**< the GPU context is gone; the process must be restarted */
  MOBICUDA_INTERNAL = 8            /**< a bug in mobicuda */
};

/** The code's name as it stands in messages, e.g. "invalid_model", "ok"; "unknown" for a number that is none. Never
 * NULL. */
MOBICUDA_API const char* mobicuda_status_name(mobicuda_status status);

/** What the last call of this thread that failed has to say; calls that succeed leave it. MOBICUDA_OK and empty texts
 * where none has failed. Texts are never NULL, free of control characters, and stay until the thread's next call that
 * fails, or its end. mobicuda_last_error_text() is all of them as one: "<status>: <where>: <message>; <hint>", an
 * absent part left out. */
MOBICUDA_API mobicuda_status mobicuda_last_error_status(void);
MOBICUDA_API const char* mobicuda_last_error_where(void);   /**< file, node, attribute; or the function */
MOBICUDA_API const char* mobicuda_last_error_message(void); /**< what, with the value */
MOBICUDA_API const char* mobicuda_last_error_hint(void);    /**< what to do about it; often empty */
MOBICUDA_API const char* mobicuda_last_error_text(void);

/* ---- version --------------------------------------------------------------------------------------------------------
 */

/** Version of the library that runs, "0.1.0". mobicuda/version.h has that of the headers. */
MOBICUDA_API const char* mobicuda_version(void);
/** The same as a number that rises: major * 10000 + minor * 100 + patch. */
MOBICUDA_API int32_t mobicuda_version_number(void);
/** 1 where the library was built with CUDA, else 0: then the CPU engine alone runs. Says nothing about the machine. */
MOBICUDA_API int32_t mobicuda_has_cuda(void);

/* ---- options --------------------------------------------------------------------------------------------------------
 */

/** An implementation of all operations. */
enum {
  MOBICUDA_BACKEND_DEFAULT = 0, /**< for an ONNX file custom; for a plan that which made it */
  MOBICUDA_BACKEND_CUSTOM = 1,  /**< hand-written CUDA kernels */
  MOBICUDA_BACKEND_CPU = 2
};

/** Arithmetic of an engine. */
enum {
  MOBICUDA_PRECISION_DEFAULT = 0, /**< for an ONNX file fp32; for a plan that which it was compiled with */
  MOBICUDA_PRECISION_FP32 = 1,    /**< IEEE single precision, never TF32 */
  MOBICUDA_PRECISION_TF32 = 2,    /**< of the cuDNN baseline only, which this interface does not have: refused */
  MOBICUDA_PRECISION_FP16 = 3,    /**< activations and weights in half precision, sums in fp32 */
  MOBICUDA_PRECISION_FP64 = 4,
  MOBICUDA_PRECISION_FP32_SPLIT = 5 /**< custom engine: fp32 of which pointwise products are three of halves */
};

/** How a GPU engine's staged runs move data between host and device. */
enum {
  MOBICUDA_TRANSFER_AUTO = 0,  /**< COPY for inputs, DIRECT for small outputs */
  MOBICUDA_TRANSFER_COPY = 1,  /**< copies before the first and after the last kernel */
  MOBICUDA_TRANSFER_DIRECT = 2 /**< the first kernel reads the host's memory, the last one writes it */
};

/** Whether kernels are compiled for a network's own shapes when an engine is made (custom engine). */
enum {
  MOBICUDA_SPECIALISE_AUTO = 0,  /**< where NVRTC is found; else the library's own kernels run, and the log says so */
  MOBICUDA_SPECIALISE_NEVER = 1, /**< the library's own kernels */
  MOBICUDA_SPECIALISE_ALWAYS = 2 /**< MOBICUDA_DEVICE_UNAVAILABLE where a kernel is wanted and there is no NVRTC */
};

enum { MOBICUDA_LOG_INFO = 0, MOBICUDA_LOG_WARNING = 1 };

/** Receives what the library has to say, on the thread that calls into the library; the library prints nothing.
 * `message` ends with NUL and is gone after the call. Must return: no longjmp, no exception. May call functions of this
 * header, but none on the session whose call it is told from. */
typedef void (*mobicuda_log_callback)(int32_t level, const char* message, void* user_data);

/** A kernel and the name of its variant that is to run, e.g. "gemm" and "mma_64x64x64". */
typedef struct mobicuda_kernel_variant {
  const char* kernel;
  const char* variant;
} mobicuda_kernel_variant;

/** How a network is compiled. What the library keeps of it, it copies; only log_user_data must outlive engine and
 * sessions. */
typedef struct mobicuda_engine_options {
  size_t struct_size;
  int32_t backend;   /**< MOBICUDA_BACKEND_... */
  int32_t precision; /**< MOBICUDA_PRECISION_... */
  int64_t max_batch; /**< a session runs any n in 1..max_batch; default 1, for a plan what it was compiled with */
  /** Custom engine: the batch sizes that have a plan of their own, rising, from 1 to max_batch, which always has one.
   * NULL: by rule. Not NULL and a count of 0: the plan for max_batch only. */
  const int64_t* plan_batches;
  size_t plan_batch_count;
  int32_t threads;       /**< CPU engine: worker threads; default one for each core */
  int32_t device;        /**< GPU engines: CUDA device index; default 0 */
  int32_t no_cuda_graph; /**< not 0: GPU engines enqueue kernel by kernel instead of replaying a captured CUDA graph */
  int32_t no_programmatic_launch; /**< not 0: no programmatic dependent launch (sm_90 and later) */
  int32_t guarded_arena;          /**< not 0: one allocation for each tensor, so that memory checkers see overruns */
  int32_t host_transfer;          /**< MOBICUDA_TRANSFER_... */
  /** Not 0: sessions take images in bytes, HWC, instead of floats; the network reads byte * picture_scale +
   * picture_shift of each channel. The network's input must be an image of 3 channels. All three scales must be set: 0
   * is a scale like any other. For a plan: 0 takes what it was compiled with. */
  int32_t picture_input;
  int32_t specialise; /**< MOBICUDA_SPECIALISE_... */
  float picture_scale[3];
  float picture_shift[3];
  /** Custom engine: kernels whose variant is named; the planner chooses the others. Each kernel at most once. */
  const mobicuda_kernel_variant* kernel_variants;
  size_t kernel_variant_count;
  /** Custom engine: file of measured times that kernels are chosen by; what it lacks is measured, and added. NULL or
   * "": by rule. */
  const char* timing_cache;
  /** Folder where compiled kernels are kept. NULL: mobicuda/code in the user's cache folder. "": none. */
  const char* code_cache;
  /** File of NVRTC. NULL or "": as the dynamic linker finds it, or that of the toolkit that built the library. */
  const char* nvrtc_library;
  int64_t max_memory_bytes;     /**< the most that the engine and one session may hold; default no limit */
  int32_t require_timing_cache; /**< not 0: a time that timing_cache lacks is an error, and nothing is measured */
  int32_t reserved;             /**< 0 */
  mobicuda_log_callback log;    /**< NULL: nothing is told */
  void* log_user_data;
} mobicuda_engine_options;

/** Caps on what an ONNX file may ask for, and what it leaves open. The defaults of the caps admit every classifier we
 * know of. */
typedef struct mobicuda_import_options {
  size_t struct_size;
  /** Extents of dimensions that the file leaves open, other than the batch: (C, H, W) or (H, W, C) in the file's order.
   * NULL: the file must fix them. */
  const int64_t* picture_shape;
  size_t picture_shape_count;
  /** mobicuda_engine_load_onnx_bytes(): folder that external data is read from. NULL: external data is refused. A
   * file's external data is read from its own folder, and this must be NULL. */
  const char* external_data_folder;
  int64_t file_bytes;
  int64_t nodes;
  int64_t initializers;
  int64_t elements_per_tensor;
  int64_t weight_bytes;
  int64_t memory_bytes;       /**< all constants of the network, while it is imported */
  int64_t generated_elements; /**< of all constants that nodes make, such as weights of a ConstantOfShape */
  int64_t name_bytes;
  int64_t attribute_entries;
  int64_t window; /**< kernel, stride, dilation, padding along an axis, in pixels */
} mobicuda_import_options;

/* ---- engines --------------------------------------------------------------------------------------------------------
 */

/** A compiled network with its weights in place. */
typedef struct mobicuda_engine mobicuda_engine;

/** Reads an ONNX file and compiles it. `import` and `options` may be NULL. On success *engine is the caller's to
 * destroy; after an error it is NULL. */
MOBICUDA_API mobicuda_status mobicuda_engine_load_onnx(const char* path, const mobicuda_import_options* import,
                                                       const mobicuda_engine_options* options,
                                                       mobicuda_engine** engine);
/** The same from memory: `size` bytes, which are not needed after the call. `name` stands in errors; NULL: "ONNX
 * bytes". */
MOBICUDA_API mobicuda_status mobicuda_engine_load_onnx_bytes(const void* bytes, size_t size, const char* name,
                                                             const mobicuda_import_options* import,
                                                             const mobicuda_engine_options* options,
                                                             mobicuda_engine** engine);

/** Reads a plan file and makes the engine that it was saved from, on a machine like that where it was compiled.
 * Implementation, precision, max_batch, plan_batches, kernel_variants and pictures come from the plan; where `options`
 * has another than the plan, that is MOBICUDA_INVALID_ARGUMENT. A plan may hold machine code: load it from where you
 * would load programs from. */
MOBICUDA_API mobicuda_status mobicuda_engine_load_plan(const char* path, const mobicuda_engine_options* options,
                                                       mobicuda_engine** engine);
/** The same from memory: `size` bytes, which are not needed after the call. `name` stands in errors; NULL: "plan
 * bytes". */
MOBICUDA_API mobicuda_status mobicuda_engine_load_plan_bytes(const void* bytes, size_t size, const char* name,
                                                             const mobicuda_engine_options* options,
                                                             mobicuda_engine** engine);

/** Writes the engine to a plan file, in place of what was there. */
MOBICUDA_API mobicuda_status mobicuda_engine_save_plan(const mobicuda_engine* engine, const char* path);
/** The plan file's bytes: *size of them from *bytes on, the caller's to free by mobicuda_free_bytes(). */
MOBICUDA_API mobicuda_status mobicuda_engine_serialize(const mobicuda_engine* engine, void** bytes, size_t* size);
/** Frees what mobicuda_engine_serialize() gave. NULL: nothing. */
MOBICUDA_API void mobicuda_free_bytes(void* bytes);

/** Ends the handle; the network goes with the last of its sessions. NULL: nothing. */
MOBICUDA_API void mobicuda_engine_destroy(mobicuda_engine* engine);

/** What an engine is. */
typedef struct mobicuda_engine_info {
  size_t struct_size;
  const char* backend; /**< "custom" or "cpu"; stays */
  int32_t precision;   /**< MOBICUDA_PRECISION_... */
  int32_t device;      /**< CUDA device index; 0 for the CPU engine */
  int64_t max_batch;
  double upload_ms; /**< milliseconds that the copy of the weights to the device took; 0 where there was none */
} mobicuda_engine_info;
MOBICUDA_API mobicuda_status mobicuda_engine_get_info(const mobicuda_engine* engine, mobicuda_engine_info* info);

enum { MOBICUDA_F32 = 1, MOBICUDA_U8 = 2 };
enum { MOBICUDA_NCHW = 1, MOBICUDA_NHWC = 2 };
#define MOBICUDA_MAX_RANK 8

/** Type, shape and order in memory of an engine's input or output, for one image. */
typedef struct mobicuda_tensor_info {
  size_t struct_size;
  int32_t dtype;  /**< MOBICUDA_F32 or MOBICUDA_U8 */
  int32_t layout; /**< of rank 4: MOBICUDA_NCHW or MOBICUDA_NHWC, the order in memory */
  size_t rank;
  int64_t shape[MOBICUDA_MAX_RANK]; /**< logical: (1, C, H, W) in either layout; 0 beyond the rank */
  int64_t elements;                 /**< of one image: the product */
} mobicuda_tensor_info;
MOBICUDA_API mobicuda_status mobicuda_engine_get_input(const mobicuda_engine* engine, mobicuda_tensor_info* info);
MOBICUDA_API mobicuda_status mobicuda_engine_get_output(const mobicuda_engine* engine, mobicuda_tensor_info* info);

/** Bytes that an engine and one of its sessions hold: device memory for GPU engines, host memory for the CPU's. */
typedef struct mobicuda_memory_report {
  size_t struct_size;
  int64_t weight_bytes;    /**< packed weights, shared by all sessions of an engine */
  int64_t arena_bytes;     /**< activations of one session */
  int64_t workspace_bytes; /**< scratch of one session */
  int64_t io_bytes;        /**< input and output buffers of one session */
} mobicuda_memory_report;
MOBICUDA_API mobicuda_status mobicuda_engine_get_memory(const mobicuda_engine* engine, mobicuda_memory_report* report);

/** One step of a compiled network. Texts stay as long as the engine's handle. */
typedef struct mobicuda_layer_info {
  size_t struct_size;
  const char* name;   /**< source node names, "a+b+c" where fused */
  const char* kernel; /**< what runs it, e.g. "gemm/mma_64x64x64" */
  const char* reason; /**< why this kernel; empty where there was no choice */
  const char* value;  /**< the model's tensor that the layer finishes; empty where it finishes none */
  size_t rank;
  int64_t shape[MOBICUDA_MAX_RANK]; /**< of the output, for one image; 0 beyond the rank */
  int64_t flops;                    /**< for one image */
  int64_t activation_bytes;         /**< read and written, for one image */
  int64_t weight_bytes;             /**< read once for a batch */
} mobicuda_layer_info;
/** How many layers a run of n images (1 to max_batch) has, and each of them, `layer` from 0. */
MOBICUDA_API mobicuda_status mobicuda_engine_get_layer_count(const mobicuda_engine* engine, int64_t n, size_t* count);
MOBICUDA_API mobicuda_status mobicuda_engine_get_layer(const mobicuda_engine* engine, int64_t n, size_t layer,
                                                       mobicuda_layer_info* info);

/* ---- sessions -------------------------------------------------------------------------------------------------------
 */

/** Runs one engine; has its activations and stream. Inputs are floats, or bytes where the engine takes pictures; the
 * functions for the other type are MOBICUDA_INVALID_ARGUMENT. Outputs are floats. n images stand one after the other,
 * in the layouts of mobicuda_engine_get_input() and mobicuda_engine_get_output(). Counts are of elements, not of bytes,
 * and give n. */
typedef struct mobicuda_session mobicuda_session;

/** Allocates a session's memory. On success *session is the caller's to destroy; after an error it is NULL. */
MOBICUDA_API mobicuda_status mobicuda_session_create(const mobicuda_engine* engine, mobicuda_session** session);
/** Waits for what was enqueued, and ends the session. NULL: nothing. */
MOBICUDA_API void mobicuda_session_destroy(mobicuda_session* session);

/** Host to host, blocking. */
MOBICUDA_API mobicuda_status mobicuda_session_run(mobicuda_session* session, const float* input, size_t input_count,
                                                  float* output, size_t output_count);
MOBICUDA_API mobicuda_status mobicuda_session_run_bytes(mobicuda_session* session, const uint8_t* pictures,
                                                        size_t picture_count, float* output, size_t output_count);

/** The three parts of a run: copy to the session's input buffer, one inference of its first n images (GPU engines do
 * not wait), copy of the outputs. The input buffer keeps its images for any number of executions. */
MOBICUDA_API mobicuda_status mobicuda_session_set_input(mobicuda_session* session, const float* input, size_t count);
MOBICUDA_API mobicuda_status mobicuda_session_set_input_bytes(mobicuda_session* session, const uint8_t* pictures,
                                                              size_t count);
MOBICUDA_API mobicuda_status mobicuda_session_execute(mobicuda_session* session, int64_t n);
MOBICUDA_API mobicuda_status mobicuda_session_get_output(mobicuda_session* session, float* output, size_t count);
/** Waits for what was enqueued. */
MOBICUDA_API mobicuda_status mobicuda_session_synchronize(mobicuda_session* session);

/** Staged runs are the fast way from host to host: fill the session's own input memory, run, read its output memory.
 * The memory is for max_batch images (page-locked for GPU engines), allocated at the first call, and stays in place
 * until the session is destroyed. Leave it alone between mobicuda_session_enqueue_staged() and
 * mobicuda_session_synchronize(). n: 1 to max_batch. */
MOBICUDA_API mobicuda_status mobicuda_session_staged_input(mobicuda_session* session, int64_t n, float** input);
MOBICUDA_API mobicuda_status mobicuda_session_staged_pictures(mobicuda_session* session, int64_t n, uint8_t** pictures);
MOBICUDA_API mobicuda_status mobicuda_session_staged_output(mobicuda_session* session, int64_t n, const float** output);
/** GPU engines do not wait. */
MOBICUDA_API mobicuda_status mobicuda_session_enqueue_staged(mobicuda_session* session, int64_t n);
/** mobicuda_session_enqueue_staged() and mobicuda_session_synchronize(). */
MOBICUDA_API mobicuda_status mobicuda_session_run_staged(mobicuda_session* session, int64_t n);

/** Makes ready for runs of these numbers of images, so that none of them takes longer because it is the first. */
MOBICUDA_API mobicuda_status mobicuda_session_warm_up(mobicuda_session* session, const int64_t* batches, size_t count);

/** Enqueues one inference of n images on `stream`, a cudaStream_t (NULL: the device's legacy default stream), between
 * buffers that the caller owns, and returns without waiting. Buffers are in memory of the engine's device, managed, or
 * page-locked, from a multiple of 16 bytes on, and stay as they are until the run has ended; on a stream that is being
 * captured, the kernels become part of that graph. cuda_interop.h has the rest. MOBICUDA_UNSUPPORTED where the library
 * was built without CUDA, MOBICUDA_INVALID_ARGUMENT on a CPU engine. */
MOBICUDA_API mobicuda_status mobicuda_session_run_on_device(mobicuda_session* session, int64_t n, const float* input,
                                                            float* output, void* stream);
MOBICUDA_API mobicuda_status mobicuda_session_run_on_device_bytes(mobicuda_session* session, int64_t n,
                                                                  const uint8_t* pictures, float* output, void* stream);

/** `count` times of a run of n images on the data already in the input buffer, in milliseconds, without transfers. Each
 * is the mean of `runs` in a row. */
MOBICUDA_API mobicuda_status mobicuda_session_time_executions(mobicuda_session* session, int64_t n, int32_t runs,
                                                              double* milliseconds, size_t count);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-use-using, readability-identifier-naming) */

#endif /* MOBICUDA_C_H */
