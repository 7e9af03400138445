"""scripts_test.py SOURCE_DIR SUBJECT [PROGRAM]: runs scripts in a copy of the tree, with stubs for what takes time."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPING_LOG = """\
1/4 Testing: gemm
Output:
skipped: no CUDA device
skipped: no CUDA device
2/4 Testing: conv2d
skipped: no CUDA device
3/4 Testing: real pictures
skipped: no pictures
Skip regular expression found in output. Regex=[skipped: ]
4/4 Testing: this one speaks of skipped: nothing
"""


def expect(condition, text):
    if not condition:
        sys.exit(f"not as expected:\n{text}")


def write(file, text, executable=False):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if executable:
        file.chmod(0o755)


class Tree:
    """scripts/ in a folder of its own, whose README and record may be written; nothing is installed or built."""

    def __init__(self, source, folder):
        self.root = pathlib.Path(folder) / "tree"
        shutil.copytree(source / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        with open(self.root / "scripts/common.sh", "a", encoding="utf-8") as common:
            common.write("\ninstall_dependencies() { :; }\ninstall_cuda_toolkit() { :; }\nconfigure() { :; }\n")
        self.stubs = pathlib.Path(folder) / "stubs"
        write(self.stubs / "cmake", "#!/bin/sh\n", executable=True)
        write(self.stubs / "apt-cache", "#!/bin/sh\nexit 1\n", executable=True)

    def run(self, script, *arguments):
        environment = {**os.environ, "PATH": f"{self.stubs}:{os.environ['PATH']}"}
        done = subprocess.run([self.root / "scripts" / script, *arguments], capture_output=True, text=True, check=False,
                              env=environment)
        return done.returncode, done.stdout + done.stderr


def check_demo(tree):
    for program in ("bench/bench_engine", "models/mobicuda_write_model"):
        write(tree.root / "build" / program, '#!/bin/sh\necho "$(basename "$0") $*"\n', executable=True)
    model = f"--model {tree.root}/models/generated/mobilenet_v2.onnx"
    for arguments, expected in (([], f"--impl all {model} --batch 1,8 --duration 1"),
                                (["--batch", "2"], f"--impl all {model} --batch 2"),
                                (["--impl", "cpu"], f"{model} --impl cpu"),
                                (["--batch", "2", "--impl=cpu"], f"{model} --batch 2 --impl=cpu")):
        code, text = tree.run("demo", *arguments)
        expect(code == 0 and text.splitlines()[-1] == f"bench_engine {expected}", text)


def check_test(tree):
    log = tree.root / "build/Testing/Temporary/LastTest.log"
    write(log, SKIPPING_LOG)
    write(tree.stubs / "ctest", "#!/bin/sh\nexit 0\n", executable=True)
    code, text = tree.run("test")
    expect(code == 0 and "skipped" not in text, "an old log counts:\n" + text)
    for status in (0, 8):
        write(tree.stubs / "log", SKIPPING_LOG)
        write(tree.stubs / "ctest", f"#!/bin/sh\ncp {tree.stubs}/log {log}\nexit {status}\n", executable=True)
        code, text = tree.run("test", "-R", "gemm")
        expect(code == status and text.splitlines() == ["== 2 skipped: no CUDA device",
                                                        "== 1 skipped: no pictures"], f"{code}\n{text}")


def check_readme_tables(tree):
    record = next(record for record in (json.loads(file.read_text(encoding="utf-8"))
                                        for file in sorted((SOURCE / "bench/results").glob("*.json")))
                  if "networks" in record)
    record.pop("options", None)
    record["networks"] = {name: network for name, network in record["networks"].items() if name != "resnet50"}
    graph = [{"network": "mobilenet_v2", "mode": "graph", "precision": "fp16", "batch": batch, "median_us": 400.0 + batch}
             for batch in (1, 8, 32)]
    absent = {"results": [], "absent": [{"mode": "", "reason": "none"}]}
    record["peers"] = {"tensorrt": absent, "onnxruntime": {"results": [], "absent": [{"mode": "cuda-graph"}]}, "pytorch": {"results": graph + [{**row, "mode": "compile"} for row in graph if row["batch"] != 8]}}
    record["requirements"] = [{"name": "stage bench of scripts/gpu_check", "met": True},
                              {"name": "stage sanitize of scripts/gpu_check", "met": False}]
    # Another network at the same batches must not take MobileNetV2's place.
    record["peers"]["pytorch"]["results"] += [{**row, "network": "vgg16", "median_us": 1e6} for row in graph]
    readme = tree.root / "README.md"
    results = tree.root / "bench/results/gpu.json"
    before = "before\n<!-- results:begin -->\n<!-- results:end -->\nafter\n"
    write(results, json.dumps(record))
    # Newer, but without times: it is named, and no more.
    write(tree.root / "bench/results/other.json", json.dumps({"gpu": "Other GPU", "date": "2999-12-31",
                                                              "stages": {"stress": "2999-12-31"}}))
    write(readme, before)
    write(tree.root / "models/zoo/networks.cpp", (SOURCE / "models/zoo/networks.cpp").read_text(encoding="utf-8"))
    for arguments, exit_code, expected in ((["--help"], 0, "usage: "), (["--nonsense"], 2, "--nonsense"),
                                           (["--check"], 1, "differ from bench/results")):
        code, text = tree.run("readme_tables", *arguments)
        expect(code == exit_code and expected in text, text)
        expect(readme.read_text(encoding="utf-8") == before, f"{arguments} wrote README.md")
    code, text = tree.run("readme_tables")
    written = readme.read_text(encoding="utf-8")
    expect(code == 0 and written.startswith("before\n") and written.endswith("\nafter\n"), text + written)
    row = next(row for row in graph if row["batch"] == 1)
    expect(f"| {row['median_us']:,.0f} µs (" in written and "1,000,000 µs" not in written, written)
    expect("Empty: not measured" in written, written)
    expect("without figures here: ONNX Runtime on CUDA, TensorRT.\n" in written, written)
    expect("Other GPU, 2999-12-31 ([bench/results/other.json](bench/results/other.json)): `stress`." in written, written)
    absent = next(line for line in written.splitlines() if line.startswith("Not in this record: "))
    expect("`resnet50`" in absent and "`vgg16`" not in absent, absent)
    expect("not all of it: `sanitize` (stages of" in written, written)
    expect("img/s with 3 sessions in flight" in written, written)
    expect(tree.run("readme_tables", "--check")[0] == 0, "--check differs from what was written")
    record["options"] = {"infStreams": 5}
    write(results, json.dumps(record))
    tree.run("readme_tables")
    expect("img/s with 5 sessions in flight" in readme.read_text(encoding="utf-8"), "infStreams is not read")


def check_gpu_check(tree):
    sys.path.insert(0, str(SOURCE / "scripts"))
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SOURCE / "scripts/gpu_check"))
    gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(gpu_check)
    check = gpu_check.Check(argparse.Namespace(build_dir=str(tree.root), out=str(tree.root / "out"), duration=0.5,
                                               shared=str(tree.root)))
    report = {"machine": {}, "version": "1.2.3", "gpuContextMs": 1.0, "results": [], "gpuStates": [],
              "options": {"commandLine": ["/a/build/bench_engine", "--json", "/b/out/bench.json", "--batch", "1,8"],
                          "durationS": 0.5, "infStreams": 3},
              "model": {"file": "/c/models/m.onnx", "bytes": 5, "graph": "net", "nodes": 2, "flopsPerPicture": 7,
                        "importMs": 1.5}}
    expect(set(gpu_check.STAGES) <= set(dir(gpu_check.Check)), gpu_check.STAGES)
    check.model = lambda: pathlib.Path("/c/models/m.onnx")
    check.bench_engine = lambda name, *options: json.loads(json.dumps(report)) if name == "bench" else None
    check.outside_clock = lambda: None
    check.bench()
    record = check.record
    expect(record["version"] == "1.2.3", record)
    expect(record["options"] == {"commandLine": ["bench_engine", "--json", "bench.json", "--batch", "1,8"],
                                 "durationS": 0.5, "infStreams": 3}, record)
    expect(record["model"] == {**report["model"], "file": "m.onnx"}, record)
    check_stress(tree, check)
    check_networks(check)
    check_peers(check)
    check_usage(tree)


def check_usage(tree):
    """What ends at once: a network that does not exist, and --prebuilt where nothing is built."""
    write_sources(tree)
    write(tree.stubs / "nvidia-smi", "#!/bin/sh\necho Some GPU\n", executable=True)
    write(tree.root / "models/zoo/networks.cpp", (SOURCE / "models/zoo/networks.cpp").read_text(encoding="utf-8"))
    code, text = tree.run("gpu_check", "--networks", "lenet,no_network")
    expect(code == 2 and "unknown network no_network; choose from lenet, " in text, f"{code}\n{text}")
    code, text = tree.run("gpu_check", "--prebuilt", "--build-dir", tree.root / "nothing", "--out", tree.root / "none",
                          "--stages", "build,accuracy,peers")
    expect(code == 2 and "has no bench/bench_engine, models/mobicuda_write_model, which these stages run" in text,
           f"{code}\n{text}")


STRESS_STUB = """#!/usr/bin/env python3
import json, pathlib, sys, time
engines = [word for word in sys.argv[1:] if "network=" in word]
seconds, seed, json_file = (sys.argv[sys.argv.index(flag) + 1] for flag in ("--seconds", "--seed", "--json"))
faulty = "faulty" in sys.argv[0] and "sessions=8" in " ".join(engines)
if not faulty and "faulty" in sys.argv[0]:
    time.sleep(3)  # to be ended
if "absent" in sys.argv[0]:
    sys.exit(127)
result = dict(seconds=float(seconds), fault="device_lost" if faulty else "",
              engines=[dict(engine=engine, runs=5, pictures=9, wrong=0) for engine in engines])
pathlib.Path(json_file).write_text(json.dumps(result))
sys.exit(1 if faulty else 0)
"""


def check_stress(tree, check):
    """Parts and requirements of the stage, with stubs for its programs."""
    import gpu_stress
    for folder in ("", "faulty/", "absent/"):
        write(tree.root / folder / gpu_stress.ENGINES, STRESS_STUB, executable=True)
    write(tree.root / gpu_stress.KERNELS, "#!/bin/sh\necho All tests passed\n", executable=True)
    gpu_stress.gpus = lambda: ["0", "1"]
    check.arguments.stress_seconds = 3
    check.arguments.stress_kernel_seconds = 0.1
    check.arguments.stress_beside = 8
    check.arguments.timeout = 60
    check.arguments.missing = False
    check.arguments.before = None
    check.arguments.time_limit = None
    gpu_stress.SCENARIO_SECONDS = gpu_stress.REPORT_SECONDS = 0.5
    gpu_stress.REPORTED = gpu_stress.REPORTED[:2]
    stress = gpu_stress.Stress(check)

    def rows():
        found = []
        gpu_stress.requirements(check.record, lambda *row: found.append(row))
        return {name: (measured, met) for name, _, measured, met in found}

    stress.mixed()
    mixed = next(iter(rows().values()))
    expect(not mixed[1] and "0 faults, 0 wrong" in mixed[0] and "resnet50 fp32 0" not in mixed[0], mixed)
    check.record["stress"]["mixed"][0]["seconds"] = 900
    expect(next(iter(rows().values()))[1], rows())
    check.record["stress"]["mixed"][0]["processes"][0]["engines"][0]["wrong"] = 1
    expect(not next(iter(rows().values()))[1], "a wrong output counts as right")
    stress.kernels()
    stress.reports()
    check.arguments.time_limit = 1
    check.record["stress"].pop("reports")
    stress.reports()
    expect(not check.record["stress"]["reports"], "a report is started that cannot end in time")
    check.arguments.time_limit = None
    stress.reports()
    expect(len(rows()) == 4 and all(met for _, met in list(rows().values())[1:]), rows())
    del check.record["stress"]["reports"][f"{gpu_stress.REPORTED[0][0]}, seed 2"]
    expect([met for _, met in list(rows().values())[2:]] == [False, True], rows())
    check.arguments.before = tree.root / "faulty"
    stress.times = lambda folder: {"fp16 batch 1": [[100, 101, 99], [102, 99, 101]], "fp32 batch 8": [[10, 10], [10.2, 10.3]]}
    stress.before()
    fault, times = list(rows().values())[-2:]
    expect(fault[1] and fault[0].startswith("in 10 of 10"), fault)
    expect(not times[1] and "+2.50 % (fp32 batch 8)" in times[0], times)
    check.arguments.before = tree.root / "absent"
    stress.before()
    fault = list(rows().values())[-2]
    expect(not fault[1] and fault[0].startswith("in 0 of 10"), fault)
    expect(not check.failures, check.failures)
    # One fault ends the load of a GPU.
    failures, check.failures = check.failures, []
    check.build_dir, built = tree.root / "faulty", check.build_dir
    check.record["stress"]["mixed"].clear()
    stress.mixed()
    expect(0 < len(check.record["stress"]["mixed"]) < 20 and check.failures, check.record["stress"]["mixed"])
    check.build_dir, check.failures = built, failures
    # A part that did not run leaves the stage open.
    check.arguments.stress = []
    for record, unfinished in (({}, True), ({"mixed": [1], "kernels": {"exit": 0}}, False),
                               ({"mixed": [1], "kernels": {"exit": 0}, "reports": {"some, seed 1": {}}}, True)):
        check.record["stress"], check.unfinished = record, []
        gpu_stress.run(check)
        expect(("stress" in check.unfinished) == unfinished, record)
    check.record["stress"], check.unfinished = {}, []


def check_networks(check):
    """--missing and --time-limit: what is measured, what is kept, and what is left to a later call."""
    network_check = importlib.import_module("network_check")
    network_check.names = lambda _: ["a", "b", "c"]
    network_check.expected_seconds = {"a": 10, "b": 1e6, "c": 10}.get
    network_check.measure = lambda _, name, model: {"results": [], "refused": {}, "name": name}
    check.run = lambda *_: (0, "")
    check.out.mkdir(parents=True, exist_ok=True)
    check.arguments.networks = None
    for missing, limit, expected, whole in ((False, 1000, ["a", "c"], False), (True, None, ["a", "b", "c"], True)):
        check.arguments.missing, check.arguments.time_limit = missing, limit
        check.unfinished = []
        network_check.run(check)
        networks = check.record["networks"]
        expect(list(networks) == expected and (not check.unfinished) == whole, f"{networks} {check.unfinished}")
        expect(all("seconds" in network for network in networks.values()), networks)
        networks["a"]["round"] = networks["a"].get("round", 0) + 1
    expect(networks["a"]["round"] == 2, f"a was measured again: {networks}")
    check.ran("networks")
    saved = json.loads((check.out / "record.json").read_text(encoding="utf-8"))
    expect(saved["networks"].keys() == networks.keys() and "networks" in saved["stages"], saved)


def check_peers(check):
    """--networks and --missing: what the peers measure, and what is kept of an earlier call."""
    network_check = importlib.import_module("network_check")
    asked, broken = [], {"resnet152"}

    def peer(script, *options):
        named = options[options.index("--networks") + 1].split(",") if "--networks" in options else ["mobilenet_v2"]
        asked.append((script, named))
        rows = [{"network": name, "batch": batch} for name in named for batch in network_check.BATCHES]
        return {"results": [row for row in rows if row["network"] not in broken],
                "failed": [row for row in rows if row["network"] in broken], "absent": []}

    def measure(networks, missing):
        """What was asked for, and the networks that are there and that failed."""
        asked.clear()
        check.arguments.networks, check.arguments.missing, check.arguments.compile_batches = networks, missing, "1"
        check.peers()
        document = check.record["peers"]["pytorchNetworks"]
        return list(asked), *(list(dict.fromkeys(row["network"] for row in document[key])) for key in ("results", "failed"))

    check.peer = peer
    everything = list(network_check.TORCHVISION)
    without = [name for name in everything if name not in broken]
    mobilenet = [(script, ["mobilenet_v2"]) for script in ("pytorch", "onnxruntime_peer", "jax_peer", "tensorrt_peer")]
    expect(measure(None, False) == (mobilenet + [("pytorch", everything)], without, ["resnet152"]), asked)
    expect(measure(["vgg16", "lenet"], False) == (mobilenet + [("pytorch", ["vgg16"])], without, ["resnet152"]), asked)
    broken.clear()
    expect(measure(None, True) == ([("pytorch", ["resnet152"])], everything, []), asked)
    expect(measure(None, True) == ([], everything, []), asked)
    check.record["peers"]["tensorrt"]["results"] = []  # absent at that time
    expect(measure(["lenet"], True) == (mobilenet[3:], everything, []), asked)


def module_of(tree, name):
    """A module of the tree's scripts."""
    sys.path.insert(0, str(tree.root / "scripts"))
    sys.dont_write_bytecode = True
    return importlib.import_module(name)


def check_gpu_pack(tree):
    write_sources(tree)
    build, folder = tree.root / "build", tree.root / "pack"
    programs = module_of(tree, "gpu_programs")
    wanted = "\n".join((SOURCE / "scripts" / script).read_text(encoding="utf-8") for script in ("gpu_check", "gpu_stress.py", "network_check.py"))
    named = set(re.findall(r'"((?:tests|bench|models)/[a-z_/]+_[a-z]+)"', wanted))
    everything = programs.programs_of(programs.STAGES)
    expect(named and named <= set(everything), f"{named} against {everything}")

    carried = [name for name in ("libc.so.6", "libstdc++.so.6", "libcudnn.so.9", "libcublasLt.so.13", "libcurl.so.4",
                                 "libprotobuf-lite.so.32", "libmobicuda.so.0") if not programs.LEFT_OUT.match(name)]
    expect(carried == ["libcurl.so.4", "libprotobuf-lite.so.32", "libmobicuda.so.0"], carried)

    def refused(said, *arguments, exit_code=1):
        code, text = tree.run("gpu_pack", *arguments)
        expect(code == exit_code and said in text, f"{code}\n{text}")

    refused("is no build folder of", folder)
    refused("required", exit_code=2)
    refused("unknown stage nonsense; choose from test, conformance", folder, "--stages", "bench,nonsense", exit_code=2)
    write(build / "CMakeCache.txt", f"CMAKE_HOME_DIRECTORY:INTERNAL={tree.root.resolve()}\n")
    refused("has no bench/bench_engine", folder, "--stages", "networks")
    for name in everything:
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/cat", build / name)
    refused("holds something else", build)
    write(tree.stubs / "cmake", "#!/bin/sh\nexit 1\n", executable=True)
    refused("building in", folder)
    write(tree.stubs / "cmake", "#!/bin/sh\n", executable=True)
    for _ in range(2):  # the second one replaces the first
        code, text = tree.run("gpu_pack", folder)
        expect(code == 0 and f"packed {len(everything)} programs" in text, text)
    unpacked = tree.root / "unpacked"
    some = tree.root / "some"
    code, text = tree.run("gpu_pack", some, "--stages", "sanitize,peers")
    expect(code == 0 and "packed 3 programs" in text and not (some / programs.TESTDATA_ARCHIVE).exists(), text)
    programs.unpack(some, unpacked)
    expect(not programs.absent_programs(["build", "sanitize", "peers"], unpacked), "sanitize and peers lack something")
    expect(programs.absent_programs(["accuracy"], unpacked) == ["bench/bench_engine"], "bench_engine is there")
    programs.unpack(folder, unpacked)
    expect(not programs.absent_programs(programs.STAGES, unpacked), "the pack of all stages lacks something")
    (unpacked / "tests/baselines/cudnn_tests").unlink()
    expect(not programs.absent_programs(["test"], unpacked), "a build without cuDNN is refused")
    programs.unpack(folder, unpacked)
    for name in everything:
        done = subprocess.run([unpacked / name], input="it runs", capture_output=True, text=True, check=False)
        expect(done.stdout == "it runs", f"{name}: {done}")
    for other, said in ((build, "is no pack"), (folder, "built from other sources")):
        write(tree.root / "engine/a.cpp", "int changed;\n")
        try:
            programs.unpack(other, unpacked)
            expect(False, f"{other} was unpacked")
        except programs.PackError as error:
            expect(said in str(error), error)


def write_sources(tree):
    for folder in ("engine", "kernels", "baselines", "onnx_import/ops", "bench/bench_engine", "models/zoo"):
        write(tree.root / folder / "a.cpp", "int a;\n")
    write(tree.root / "onnx_import/b.cpp", "int b;\n")


def check_no_arguments(tree, script):
    write_sources(tree)
    code, text = tree.run(script)
    expect(code == 0 and "usage" not in text, text)
    code, text = tree.run(script, "--help")
    expect(code == 0 and text.startswith(f"usage: scripts/{script}\n\n") and "recorded GPU results" in text, text)
    for argument in ("--nonsense", "file"):
        code, text = tree.run(script, argument)
        expect(code == 2 and f"{script} takes no arguments, got {argument}" in text, text)


def check_zoo(program):
    sys.path.insert(0, str(SOURCE / "scripts"))
    sys.dont_write_bytecode = True
    network_check = importlib.import_module("network_check")
    listed = subprocess.run([program, "--listNetworks"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split()[0] for line in listed[2:]]  # behind the header and MobileNetV2
    expect(names and network_check.zoo() == names, f"{network_check.zoo()}\n{names}")


def main():
    subject = sys.argv[2]
    if subject == "zoo":
        check_zoo(sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(SOURCE, folder)
        if subject in ("check_results", "source_hash"):
            check_no_arguments(tree, subject)
        else:
            globals()[f"check_{subject}"](tree)


SOURCE = pathlib.Path(sys.argv[1]).resolve()
if __name__ == "__main__":
    main()
