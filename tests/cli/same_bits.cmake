# PROGRAM is run PROCESSES times with each of THREADS; all outputs must have the same bits.
set(first "")
foreach(threads IN LISTS THREADS)
  foreach(run RANGE 1 ${PROCESSES})
    file(REMOVE same_bits.f32)
    execute_process(COMMAND ${PROGRAM} --model tiny.onnx --impl cpu --threads ${threads} --warmUp 0 --duration 0 --iterations 1
                            --saveOutputs same_bits.f32
                    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "process ${run} with ${threads} threads ended with ${code}:\n${output}")
    endif()
    file(SHA256 same_bits.f32 bits)
    if(first STREQUAL "")
      set(first ${bits})
    elseif(NOT bits STREQUAL first)
      message(FATAL_ERROR "process ${run} with ${threads} threads gave other bits than the first")
    endif()
  endforeach()
endforeach()
