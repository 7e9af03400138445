# Mistakes on the command line: each is told before anything is measured, in words that say what to change.
mobicuda_add_cli_test("--help tells types in a word" EXIT 0 ARGS --help
                      MATCH "--reload never.each=never" "--duration S=3" "--decodeThreads N=0" "--precision NAME.,...=fp32"
                      NOT_MATCH "FLOAT" "NONNEGATIVE" " in .0 - " "->" "TEXT")
mobicuda_add_cli_test("--help breaks its descriptions" EXIT 0 ARGS --help
                      MATCH "an engine of custom or cpu that\n                              --saveEngine wrote")
string(REPEAT "[^\n]" 101 cli_long_line)
mobicuda_add_cli_test("--help has no long line" EXIT 0 ARGS --help MATCH "Examples:" NOT_MATCH "${cli_long_line}")
mobicuda_add_cli_test("report: --help shows that two files may be given" EXIT 0 ARGS report --help
                      MATCH "report .OPTIONS. FILE .FILE.")
mobicuda_add_cli_test("a mistake is told under the program's name" EXIT 2 ARGS --noSuchFlag MATCH "^bench_engine: .*--noSuchFlag")
mobicuda_add_cli_test("report: a mistake is told under the program's name" EXIT 2 ARGS report
                      MATCH "^bench_engine report: FILE is required")
mobicuda_add_cli_test("an option that is given twice is told so" EXIT 2 ARGS --model tiny.onnx --model tiny.onnx
                      MATCH "--model: given more than once")
mobicuda_add_cli_test("a batch that is named twice is wrong usage" EXIT 2 ARGS --model tiny.onnx --batch 2,1:3
                      MATCH "--batch: names 2 twice")
mobicuda_add_cli_test("--reload takes its two words" EXIT 2 ARGS --model tiny.onnx --reload 1 MATCH "--reload: 1 not in .never,each.")
mobicuda_add_cli_test("a range's number is told with the range" EXIT 2 ARGS --model tiny.onnx --infStreams 17
                      MATCH "--infStreams: must be a number from 1 to 16, got '17'")

# A threshold of NaN would never be missed, a pause of NaN never end.
foreach(value nan inf -1 junk 1e308 60001)
  mobicuda_add_cli_test("--idleTime ${value} is wrong usage" EXIT 2 ARGS --model tiny.onnx --impl cpu --idleTime ${value}
                        MATCH "--idleTime: must be a number from 0 to 60000, got '${value}'")
endforeach()
foreach(option duration warmUp accuracyThreshold compareThreshold meanThreshold ulpThreshold)
  foreach(value nan inf -1 junk)
    mobicuda_add_cli_test("--${option} ${value} is wrong usage" EXIT 2 ARGS --model tiny.onnx --impl cpu --${option} ${value}
                          MATCH "--${option}: must be a number of at least 0, got '${value}'")
  endforeach()
endforeach()
mobicuda_add_cli_test("--sampleInterval nan is wrong usage" EXIT 2 ARGS --model tiny.onnx --sampleInterval nan
                      MATCH "must be a number from 0 to 60000, got 'nan'")
mobicuda_add_cli_test("--seed -1 is wrong usage" EXIT 2 ARGS --model tiny.onnx --seed -1 MATCH "--seed: must be a number of at least 0")
foreach(value 1.5 2147483648)
  mobicuda_add_cli_test("--iterations ${value} is wrong usage" EXIT 2 ARGS --model tiny.onnx --iterations ${value}
                        MATCH "--iterations: must be a whole number, at most 2147483647, got '${value}'")
endforeach()
mobicuda_add_cli_test("a seed that is cut is wrong usage" EXIT 2 ARGS --model tiny.onnx --seed 18446744073709551616
                      MATCH "--seed: must be a whole number, at most 18446744073709551615, got '18446744073709551616'")
mobicuda_add_cli_test("--decodeThreads 0 is one for each core" EXIT 0
                      ARGS --model tiny.onnx --impl cpu ${quick} --images pictures --preprocess tf --decodeThreads 0
                      MATCH "3 evaluated" "[1-9][0-9]* decoding threads")

# An option that nothing which runs has.
set(cli_ignored "kernelVariant gemm=foo" "timingCacheFile times.txt" "noProgrammaticLaunch" "noCudaGraph" "device 7"
                "hostTransfer copy" "infStreams 2")
foreach(arguments IN LISTS cli_ignored)
  string(REPLACE " " ";" arguments "--${arguments}")
  list(GET arguments 0 option)
  mobicuda_add_cli_test("${option} for cpu alone is wrong usage" EXIT 2
                        ARGS --model tiny.onnx --impl cpu ${quick} ${arguments}
                        MATCH "bench_engine: ${option} is an option of custom.*what runs here is cpu: leave it out"
                        NOT_MATCH "loading cpu")
endforeach()
mobicuda_add_cli_test("an option that nothing has which all can run is told with the reason" UNLESS_GPU EXIT 2
                      ARGS --model tiny.onnx ${quick} --noCudaGraph MATCH "what runs here is cpu .custom: .*: leave it out")
mobicuda_add_cli_test("--decodeThreads without pictures is wrong usage" EXIT 2
                      ARGS --model tiny.onnx --impl cpu --decodeThreads 2 MATCH "--decodeThreads, .* need --images")
mobicuda_add_cli_test("--shapes of another input is wrong usage" EXIT 2
                      ARGS --model tiny.onnx --impl cpu ${quick} --shapes foo:1x3x96x96
                      MATCH "--shapes: the model has no input 'foo', its input is 'input'" NOT_MATCH "loading cpu")
mobicuda_add_cli_test("--loadInputs of another input is wrong usage" EXIT 2
                      ARGS --model tiny.onnx --impl cpu ${quick} --loadInputs foo:input.txt
                      MATCH "--loadInputs: the model has no input 'foo'")
mobicuda_add_cli_test("--compare all is told what there is" EXIT 2
                      ARGS --model tiny.onnx --impl cpu ${quick} --compare all
                      MATCH "--compare: unknown implementation 'all': custom, cudnn, cpu\n")
mobicuda_add_cli_test("a folder is no model" EXIT 2 ARGS --model . MATCH "--model: . is a folder, not a file")
mobicuda_add_cli_test("report: a folder is no file" EXIT 2 ARGS report . MATCH "report: . is a folder, not a file")
mobicuda_add_cli_test("shapes that do not fit are told with both names" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --shapes 1x3x96
                      MATCH "ImportOptions::picture_shape: --shapes, the batch in front")

# A copy, so that a failing test damages nothing that others need.
file(WRITE ${cli_folder}/precious.onnx "stands for a model\n")
foreach(option json csv exportTimes exportProfile exportLayerInfo exportOutput saveOutputs saveEngine)
  mobicuda_add_cli_test("--${option} does not overwrite the model" EXIT 2
                        ARGS --model precious.onnx --impl cpu ${quick} --${option} ./precious.onnx
                        MATCH "--${option}: ./precious.onnx is an input, given as --model, and would be overwritten")
endforeach()
mobicuda_add_cli_test("two outputs into one file are wrong usage" EXIT 2
                      ARGS --model tiny.onnx --impl cpu ${quick} --json both.json --csv ./both.json
                      MATCH "--json and --csv name the same file")
mobicuda_add_cli_test("an output's absent folder is told before the timing" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --exportTimes absent/times.json
                      MATCH "absent/times.json: cannot be written: no such folder: absent" NOT_MATCH "Steady latency" "loading cpu")
mobicuda_add_cli_test("an output that no file can become is told before the timing" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --json /proc/x.json
                      MATCH "/proc/x.json: cannot be written: " NOT_MATCH "loading cpu")
execute_process(COMMAND sh -c "test -p pipe || mkfifo pipe" WORKING_DIRECTORY ${cli_folder})
mobicuda_add_cli_test("an output that is a pipe is told before the timing" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --json pipe
                      MATCH "pipe: cannot be written: it is a pipe" NOT_MATCH "loading cpu")
mobicuda_add_cli_test("a pipe is no input" EXIT 2 ARGS --model pipe MATCH "--model: pipe is not a regular file")
mobicuda_add_cli_test("--saveEngine into a pipe is told before the timing" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --saveEngine pipe
                      MATCH "pipe: cannot be written: a plan file must be a regular file" NOT_MATCH "loading cpu")
mobicuda_add_cli_test("/dev/null is an output" EXIT 0 ARGS --model tiny.onnx --impl cpu ${quick} --json /dev/null
                      MATCH "Steady latency")
add_test(NAME "cli: a pipe that is read already is an output" WORKING_DIRECTORY ${cli_folder}
         COMMAND sh -c "$<TARGET_FILE:bench_engine> --model tiny.onnx --impl cpu --warmUp 0 --duration 0 --iterations 2 \
                        --json /dev/fd/3 3>&1 >/dev/null | grep -q '\"program\": \"bench_engine\"'")
set_tests_properties("cli: a pipe that is read already is an output" PROPERTIES FIXTURES_REQUIRED cli_model LABELS cpu TIMEOUT 300)
mobicuda_add_cli_test("an output that is a folder is told before the timing" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --saveEngine . MATCH "cannot be written: it is a folder"
                      NOT_MATCH "loading cpu")
mobicuda_add_cli_test("report: a page does not overwrite its file" EXIT 2 ARGS report measured.json --html ./measured.json
                      MATCH "--html: ./measured.json is an input, given as FILE or --peers, and would be overwritten")
set_tests_properties("cli: report: a page does not overwrite its file" PROPERTIES FIXTURES_REQUIRED cli_report)
mobicuda_add_cli_test("memory that is not there is told as such" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --batch 1000000000000 MATCH "out of memory: a smaller --batch")

if(EXISTS /dev/full)
  mobicuda_add_cli_test("a report that does not fit is a failure" EXIT 1
                        ARGS --model tiny.onnx --impl cpu ${quick} --json /dev/full MATCH "/dev/full: cannot be written: No space left on device")
  add_test(NAME "cli: a standard output that cannot be written is a failure"
           COMMAND sh -c "$<TARGET_FILE:bench_engine> --listOps > /dev/full; test $? -eq 1")
  set_tests_properties("cli: a standard output that cannot be written is a failure" PROPERTIES LABELS cpu)
endif()
