# --saveEngine, --loadEngine and --reload from the outside; they use one file, hence the fixture.
mobicuda_add_cli_test("--saveEngine writes a plan file" EXIT 0
                      ARGS --model tiny.onnx --impl cpu --batch 2 ${quick} --saveEngine tiny.plan --saveOutputs plan.npy
                      MATCH "saved as tiny.plan")
set_tests_properties("cli: --saveEngine writes a plan file" PROPERTIES FIXTURES_SETUP cli_plan)

function(mobicuda_add_plan_test name)
  mobicuda_add_cli_test(${name} ${ARGN})
  set_tests_properties("cli: ${name}" PROPERTIES FIXTURES_REQUIRED "cli_model;cli_plan")
endfunction()

mobicuda_add_plan_test("--loadEngine gives the outputs of the engine that was saved" EXIT 0 JSON plan.json
                       ARGS --loadEngine tiny.plan ${quick} --reload each --golden plan.npy --ulpThreshold 0
                            --accuracyThreshold 0 --json plan.json
                       MATCH "cpu fp32, batch 2: load" "Import of the plan file: read" "Model read anew for each batch")
mobicuda_add_plan_test("--loadEngine of another batch is wrong usage" EXIT 2 ARGS --loadEngine tiny.plan --batch 3
                       MATCH "its largest batch is 2, the command line asks for another")
mobicuda_add_plan_test("--loadEngine runs smaller batches" EXIT 0 JSON smaller.json
                       ARGS --loadEngine tiny.plan ${quick} --batch 1 --json smaller.json MATCH "cpu fp32, batch 1: load")
mobicuda_add_plan_test("--loadEngine of another implementation is wrong usage" EXIT 2
                       ARGS --loadEngine tiny.plan --impl custom MATCH "its implementation is cpu fp32")
mobicuda_add_plan_test("--loadEngine at another precision is wrong usage" EXIT 2 ARGS --loadEngine tiny.plan --fp16
                       MATCH "its precision is fp32")
mobicuda_add_plan_test("--loadEngine of floats with bytes is wrong usage" EXIT 2
                       ARGS --loadEngine tiny.plan --input uint8 MATCH "its input is fp32")
mobicuda_add_plan_test("--loadEngine with a model is wrong usage" EXIT 2
                       ARGS --loadEngine tiny.plan --model tiny.onnx MATCH "exclude each other")
mobicuda_add_cli_test("--loadEngine of a model file is refused" EXIT 1 ARGS --loadEngine tiny.onnx
                      MATCH "tiny.onnx: is no plan file.*plan_file::save..: --saveEngine; onnx_import::load..: --model")
mobicuda_add_cli_test("--loadEngine of an absent file is wrong usage" EXIT 2 ARGS --loadEngine absent.plan
                      MATCH "no such file: absent.plan")
mobicuda_add_cli_test("a plan file that cannot be written is a failure" EXIT 1
                      ARGS --model tiny.onnx --impl cpu ${quick} --saveEngine absent/t.plan MATCH "absent/t.plan: cannot be written")
