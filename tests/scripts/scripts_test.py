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
import time
import types

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
        with open(self.root / "scripts/lib/common.sh", "a", encoding="utf-8") as common:
            common.write("\ninstall_dependencies() { :; }\ninstall_cuda_toolkit() { :; }\nconfigure() { :; }\npython_environment() { :; }\nserving_environment() { :; }\nray_environment() { :; }\n")
        self.stubs = pathlib.Path(folder) / "stubs"
        write(self.stubs / "cmake", "#!/bin/sh\n", executable=True)
        write(self.stubs / "apt-cache", "#!/bin/sh\nexit 1\n", executable=True)

    def run(self, script, *arguments):
        environment = {**os.environ, "PATH": f"{self.stubs}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.root / "cache")}
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


def check_lint(tree):
    """Files that git has or would take are looked at, and what a tool finds fails."""
    subprocess.run(["git", "init", "-q", tree.root], check=True)
    for file in ("kernels/a.cu", "kernels/b.txt", "ignored/c.cpp", "bench/d.py"):
        write(tree.root / file, "")
    write(tree.root / ".gitignore", "ignored/\n")
    tool = '#!/bin/sh\n[ "$1" = --version ] && echo version 14.0 && exit\necho "$(basename "$0") $*" >> {0}/called\nexit {1}\n'
    for name, other in (("clang-format-14", "pyflakes3"), ("pyflakes3", "clang-format-14")):
        for status in (1, 0):
            (tree.stubs / "called").unlink(missing_ok=True)
            write(tree.stubs / name, tool.format(tree.stubs, status), executable=True)
            write(tree.stubs / other, tool.format(tree.stubs, 0), executable=True)
            code, text = tree.run("lint")
            called = (tree.stubs / "called").read_text(encoding="utf-8")
            expect(code == status, f"{name}: {code}\n{text}")
            expect("clang-format-14 --dry-run --Werror kernels/a.cu\n" in called, called)
            expect("bench/d.py" in called and "scripts/gpu_check" in called and "scripts/test" not in called, called)
    code, text = tree.run("lint", "--fix")
    called = (tree.stubs / "called").read_text(encoding="utf-8")
    expect(code == 0 and "clang-format-14 -i kernels/a.cu" in called, text + called)
    code, text = tree.run("lint", "--nonsense")
    expect(code == 2 and "--nonsense" in text, text)


def check_tidy(tree):
    """Every source of the build is looked at, once as long as nothing changes; a finding fails, and is told once."""
    root = tree.root
    with open(root / "scripts/lib/common.sh", "a", encoding="utf-8") as common:
        common.write(f"\ninstall_clang_tidy() {{ :; }}\nclang_tidy() {{ echo {tree.stubs}/tidy; }}\ngenerate_sources() {{ :; }}\n")
    for file in (".clang-tidy", "engine/a.cpp", "kernels/b.cu", "kernels/b.cuh", "build/made.cpp", "build/build.ninja"):
        write(root / file, "")
    commands = [f"c++ -DX -O3 -Wall -Werror -c {root}/engine/a.cpp -o a.o", f"nvcc -O3 -x cu -c {root}/kernels/b.cu -o b.o",
                f"c++ -c {root}/build/made.cpp -o made.o"]
    write(root / "build/compile_commands.json", json.dumps(
        [{"directory": str(root / "build"), "command": command, "file": command.split()[-3]} for command in commands]))
    # Includes b.cuh, whose content it reports.
    write(tree.stubs / "tidy", f"""#!/bin/sh
[ "$1" = --version ] && echo version 1.2.3 && exit
echo "$*" >> {tree.stubs}/called
echo ". {root}/kernels/b.cuh" >&2
[ ! -s {root}/kernels/b.cuh ] || ! echo "{root}/engine/../kernels/b.cuh:1:2: error: wrong [check]" || exit 1
""", executable=True)
    os.environ["XDG_CACHE_HOME"] = str(tree.stubs)

    def look(*arguments):
        (tree.stubs / "called").unlink(missing_ok=True)
        for file in root.glob("*/*"):
            os.utime(file, (1e9, 1e9))  # what is edited during a run is not remembered
        code, text = tree.run("tidy", *arguments)
        called = tree.stubs / "called"
        return code, text, called.read_text(encoding="utf-8").splitlines() if called.exists() else []

    code, text, called = look()
    expect(code == 0 and len(called) == 2 and "2 sources (1 of CUDA), 2 of them to look at" in text, text)
    expect(any(f"{root}/engine/a.cpp -- -H -DX -Wall" in line and "-x cuda" not in line for line in called), called)
    expect(any(f"{root}/kernels/b.cu -- -H -x cuda" in line for line in called), called)
    expect(look()[2] == [], "looked at again")
    expect(len(look("--deep")[2]) == 2 and look("--deep", str(root / "kernels"))[2] == [], "--deep has its own results")
    write(root / "kernels/b.cuh", "wrong")
    for _ in range(2):
        code, text, called = look()
        expect(code == 1 and len(called) == 2 and text.count("kernels/b.cuh:1:2: error: wrong [check]") == 1, text)
    expect(len(look(str(root / "kernels"))[2]) == 1, "a path chooses")
    write(root / "kernels/b.cuh", "")
    expect(look()[2] == [], "what was known is forgotten")
    write(root / ".clang-tidy", "other")
    expect(len(look()[2]) == 2, "other checks, same results")
    write(tree.stubs / "tidy", "#!/bin/sh\n[ \"$1\" = --version ] && echo version 1.2.4 && exit\necho broken >&2\nexit 139\n",
          executable=True)
    code, text, _ = look()
    expect(code == 1 and "broken" in text, text)
    for arguments in (["--nonsense"], ["--build-dir"], ["--since"]):
        expect(tree.run("tidy", *arguments)[0] == 2, arguments)


def git(root, *words):
    return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=root, check=True, capture_output=True,
                          text=True).stdout.strip()


def first_commit(root):
    """Of all files in a new repository."""
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "whole")
    return git(root, "rev-parse", "HEAD")


def check_tidy_since(tree):
    """With --since, what is as it was at a commit is not looked at, unless what it includes or how it is built is not."""
    root = tree.root
    with open(root / "scripts/lib/common.sh", "a", encoding="utf-8") as common:
        common.write(f"\ninstall_clang_tidy() {{ :; }}\nclang_tidy() {{ echo {tree.stubs}/tidy; }}\ngenerate_sources() {{ :; }}\n")
    for file, text in ((".clang-tidy", ""), (".gitignore", "/build/\n/cache/\n"), ("CMakeLists.txt", ""), ("build/build.ninja", ""),
                       ("engine/CMakeLists.txt", ""), ("engine/a.cpp", '#include "a.h"\n#include <vector>\n'),
                       ("engine/a.h", "#include <mobicuda/b.h>\n"), ("engine/include/mobicuda/b.h", ""),
                       ("kernels/c.cpp", '#include "d/d.h"\n'), ("kernels/box/d.h", "")):
        write(root / file, text)
    (root / "build/roots").mkdir()
    (root / "build/roots/d").symlink_to(root / "kernels/box")
    write(root / "build/compile_commands.json", json.dumps(
        [{"directory": str(root / "build"), "command": f"c++ -I{root}/engine/include -I{root}/build/roots -c {root}/{name} -o x.o", "file": f"{root}/{name}"}
         for name in ("engine/a.cpp", "kernels/c.cpp")]))
    write(tree.stubs / "tidy", f"""#!/bin/sh
[ "$1" = --version ] && echo version 1.2.3 && exit
echo "$*" >> {tree.stubs}/called
exit 1
""", executable=True)

    def look(commit):
        (tree.stubs / "called").unlink(missing_ok=True)
        text = tree.run("tidy", "--since", commit)[1]
        called = tree.stubs / "called"
        lines = called.read_text(encoding="utf-8").splitlines() if called.exists() else []
        return text, {name for name in ("engine/a.cpp", "kernels/c.cpp") for line in lines if f"{root}/{name}" in line}

    commit = first_commit(root)
    both = {"engine/a.cpp", "kernels/c.cpp"}
    expect(look(commit)[1] == set(), "nothing has changed")
    for file, chosen in (("engine/a.cpp", {"engine/a.cpp"}), ("engine/include/mobicuda/b.h", {"engine/a.cpp"}),
                         ("engine/CMakeLists.txt", {"engine/a.cpp"}), ("kernels/c.cpp", {"kernels/c.cpp"}), ("kernels/box/d.h", {"kernels/c.cpp"}), ("README.md", set()),
                         (".clang-tidy", both), ("CMakeLists.txt", both), ("cmake/new.cmake", both)):
        write(root / file, "changed\n")
        git(root, "add", file)
        text, looked = look(commit)
        expect(looked == chosen, f"{file}: {looked}\n{text}")
        expect(look("HEAD")[1] == chosen, f"{file}, not committed yet")
        git(root, "commit", "--quiet", "--message", file)
        expect(look(commit)[1] == chosen and look("HEAD")[1] == set(), f"{file}, committed")
        git(root, "reset", "--quiet", "--hard", commit)
    write(root / "engine/include/mobicuda/b.h", "edited\n")
    expect(look(commit)[1] == {"engine/a.cpp"}, "edited only")
    text, looked = look("0" * 40)
    expect(looked == both and "not in the history" in text, text)


def check_readme_tables(tree):
    record = next(record for record in (json.loads(file.read_text(encoding="utf-8"))
                                        for file in sorted((SOURCE / "bench/results").glob("*.json")))
                  if "networks" in record)
    for key in ("options", "gpuStates"):
        record.pop(key, None)
    record["networks"] = {name: network for name, network in record["networks"].items() if name != "resnet50"}
    graph = [{"network": "mobilenet_v2", "mode": "graph", "precision": "fp16", "batch": batch, "median_us": 400.0 + batch}
             for batch in (1, 8, 32)]
    absent = {"results": [], "absent": [{"mode": "", "reason": "none"}]}
    record["peers"] = {"tensorrt": absent, "onnxruntime": {"results": [], "absent": [{"mode": "cuda-graph"}]}, "pytorch": {"results": graph + [{**row, "mode": "compile"} for row in graph if row["batch"] != 8]}}
    # A faster memory format, mode or document takes the place of the usual one, a slower one does not, and TF32 is no fp32.
    rows = record["peers"]["pytorch"]["results"]
    rows += [{**row, "format": "nchw", "median_us": 7000.0 if row["batch"] == 1 else 300.0} for row in graph]
    rows += [{**graph[1], "mode": "compile-graph", "median_us": 222.0},
             {**graph[0], "mode": "graph", "precision": "tf32", "median_us": 7001.0},
             {**graph[0], "mode": "compile", "precision": "tf32", "median_us": 333.0}]
    record["peers"]["pytorchMaxAutotune"] = {
        "results": [{**row, "mode": "compile-max", "median_us": 111.0 if row["batch"] == 32 else 7002.0} for row in graph],
        "left": [{**graph[0], "mode": "compile-max-graph", "format": "channels_last"}], "absent": []}
    record["peers"]["pytorchNetworks"] = {"results": [
        {**graph[0], "network": "vgg16", "median_us": 444.0, "format": "nchw"},
        {**graph[0], "network": "vgg16", "median_us": 7003.0, "format": "channels_last"}], "absent": []}
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
    for median in (300, 222, 111, 333):
        expect(f"| {median} µs (" in written, f"{median}\n{written}")
    vgg16 = next(line for line in written.splitlines() if line.startswith("| `vgg16` |"))
    custom = next(row["medianUs"] for row in record["networks"]["vgg16"]["results"] if (row["impl"], row["batch"]) == ("custom", 1))
    expect(f"| {444 / custom:.1f}x |" in vgg16 and f"{7003 / custom:.1f}x" not in vgg16, vgg16)
    expect(not re.search(r"7,00\d µs", written), written)
    fp16, fp32 = (written[written.index(f"**{precision}**"):] for precision in ("fp16", "fp32"))
    expect("PyTorch CUDA graph: nchw (batches 8, 32); torch.compile: `compile-graph` (batch 8), `compile-max` (batch 32)." in fp16 and
           "not among these: torch.compile: `compile-max-graph` (batch 1)." in fp16, fp16)
    expect("| PyTorch with TF32, not fp32 |" in fp32 and "| 333 µs (" in fp32 and "not fp32: `compile` (batch 1)." in fp32, fp32)
    expect("but for `vgg16`: nchw (batch 1)." in written, written)
    expect("was measured, so without figures here: ONNX Runtime on CUDA, TensorRT. Not measured yet, so without figures here: JAX "
           "(XLA).\n" in written, written)
    expect("Other GPU, 2999-12-31 ([bench/results/other.json](bench/results/other.json)): `stress`." in written, written)
    absent = next(line for line in written.splitlines() if line.startswith("Not in this record: "))
    expect("`resnet50`" in absent and "`vgg16`" not in absent, absent)
    expect("not all of it: `sanitize` (stages of" in written, written)
    expect("img/s with 3 sessions in flight" in written, written)
    expect(tree.run("readme_tables", "--check")[0] == 0, "--check differs from what was written")
    record["options"] = {"infStreams": 5}
    write(results, json.dumps(record))
    code, text = tree.run("readme_tables")
    expect(code == 0, text)
    expect("img/s with 5 sessions in flight" in readme.read_text(encoding="utf-8"), "infStreams is not read")
    expect("kernel by kernel" not in written, "floors where none were counted")
    case = {"precision": "fp16", "batch": 8, "floorsUs": {"launches": 24.4, "tensor": 15.0},
            "binding": "launches", "structuralUs": 31.2}
    record["floors"] = {"gpu": {"powerLimitW": 700}, "cases": [{**case, "batch": 1}, case]}
    record["sustained"] = {"cases": [{"impl": "custom", "precision": "fp16", "batch": 8, "seconds": 60.4, "runs": 1000,
                                      "burstPicturesPerSecond": 82000.4, "picturesPerSecond": 79000.6, "energyPerPictureJ": 0.007,
                                      "energySource": "counter", "powerW": {"mean": 699.7}, "smClockMhz": {"min": 1700, "max": 1980},
                                      "clockReasons": ["power cap"]}]}
    record["singleCalls"] = [{"impl": "cudnn", "precision": "fp32", "batch": 1, "deviceMs": {"median": 0.3}, "singleCallMs": {
        "warm": {"median": 0.31}, "afterRest": {"median": 0.33, "p99": 0.4}, "l2Swept": {"median": 0.32}}}]
    latency = {(r["impl"], r["precision"], r["batch"]): r for r in record["latency"]}
    custom = 1e3 * latency["custom", "fp16", 8]["latencyMs"]["median"]
    cudnn = 1e3 * latency["cudnn", "fp16", 8]["latencyMs"]["median"]
    # cudnn's processes reach custom's: no ratio can be told.
    first, last = (1e3 * latency["custom", "fp16", batch]["latencyMs"]["median"] for batch in (1, 256))
    record["repeat"] = {"custom": {"processes": 2, "cases": {
        "custom fp16 batch 8": [custom, 1.2 * cudnn], "custom fp16 batch 1": [0.9 * first], "custom fp16 batch 256": [last]}},
                        "cudnn": {"processes": 2, "cases": {"cudnn fp16 batch 8": [cudnn, 1.1 * cudnn]}}}
    record["labels"] = {"bench": {"files": {"imagesPerSecond": 47576.4, "coresBusy": 3.07}}}
    case = {"case": "one JPEG a request", "clients": 64, "latencyUs": {"p99": 7620}}
    record["serving"] = {"rates": {"cases": [{**case, "imagesPerSecond": 11969.6}, {**case, "imagesPerSecond": 14313.9}]}}
    record["timedInput"] = "real pictures"
    record["randomNumbers"] = [{**latency["custom", "fp16", batch], "deviceMs": {"median": share * alone / 1e3}}
                               for batch, share, alone in ((1, 0.99, 0.9 * first), (256, 1.03, last))]
    write(results, json.dumps(record))
    code, text = tree.run("readme_tables")
    expect(code == 0, text)
    written = readme.read_text(encoding="utf-8")
    expect("| batch | custom | floor | kernel by kernel | power limit | cuDNN |" in written, written)
    expect("(docs/performance.md#floors)" in written, written)
    for batch, cells in ((1, "| 24 µs (launches) | 31 µs |  |"), (8, "| 24 µs (launches) | 31 µs | 80 µs |"), (32, "|  |  |  |")):
        expect(any(line.startswith(f"| {batch} | ") and cells in line for line in written.splitlines()),
               f"{cells}\n{written}")
    expect("| custom fp16, batch 8 | 82,000 | 79,001 | 7.00 mJ | 700 W | 1,700 to 1,980 MHz | power cap |" in written, written)
    expect("| cudnn fp32 | 300 µs | 310 µs | 330 µs | 320 µs | 400 µs |" in written, written)
    expect("from files to the five best classes: **47,576 img/s**, 3.1 cores busy" in written, written)
    expect("fp16: one JPEG a request: **14,314 img/s** (64 clients, p99 7.6 ms) ([docs/serving.md]" in written, written)
    expect("From JPEG files to logits: **" in written and "its times by -1.0 to +3.0 %" in written, written)
    expect(f"| {cudnn:,.0f} µs (tie) |" in written and "| custom without cuDNN, 2 processes |" in written, written)
    expect(f"beside the other: custom fp16 batch 1 {first:.1f} instead of {0.9 * first:.1f} µs." in written, written)


def check_gpu_check(tree):
    sys.path.insert(0, str(SOURCE / "scripts/lib"))
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SOURCE / "scripts/gpu_check"))
    gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(gpu_check)
    check_kept(tree, gpu_check)
    check = gpu_check.Check(argparse.Namespace(build_dir=str(tree.root), out=str(tree.root / "out"), duration=0.5,
                                               shared=str(tree.root), python="python3"))
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
    check_parts(gpu_check, check)
    check_sustained(check)
    check_int8(check)
    check_split(check)
    check_shapes(check)
    check_pictures(check)
    check_repeat(gpu_check, check)
    check_stress(tree, check)
    check_floors(tree, check)
    check_networks(check)
    check_peer_script(tree, gpu_check, check)
    check_peers(check)
    check_usage(tree)


def check_kept(tree, gpu_check):
    """Of a record of other sources, the peers of this GPU and the stress are kept."""
    gpu_check.gpu_name = lambda: "A GPU"
    of_gpu, of_other = {"gpu": "A GPU", "results": [1]}, {"gpu": "Another", "results": [2]}
    for peers, stage, expected in (({"jax": of_gpu}, True, {"peers": "2999-12-31"}), ({"jax": of_gpu}, False, {}),
                                   ({"jax": of_gpu, "pytorch": of_other}, True, {}), ({}, True, {})):
        stages = {"bench": "2999-12-31", **({"peers": "2999-12-31"} if stage else {})}
        earlier = {"source_hash": "of others", "stages": stages, "latency": [1], "peers": peers, "stress": {"kernels": {}}}
        write(tree.root / "kept/record.json", json.dumps(earlier))
        record = gpu_check.Check(argparse.Namespace(build_dir=str(tree.root), out=str(tree.root / "kept"), shared="")).record
        expect(record["stages"] == expected and "latency" not in record, record)
        expect(record.get("peers", {}) == {name: one for name, one in peers.items() if one == of_gpu}, record)
        expect(record["stress"] == {"source_hash": "of others", "kernels": {}}, record)


def check_parts(gpu_check, check):
    """What a call with --missing and --time-limit does of the stages, and the record's text."""
    ran = []
    check.out.mkdir(parents=True, exist_ok=True)
    check.accuracy = lambda: ran.append("accuracy")
    check.repeat = lambda: (ran.append("repeat"), check.unfinished.append("repeat"))
    check.expected_seconds = lambda stage: 100
    check.arguments.missing, check.arguments.time_limit, check.unfinished = True, 50, []
    for stage in ("accuracy", "repeat"):  # the first would not end in time, the second knows itself how far it comes
        check.run_stage(stage)
    expect(ran == ["repeat"] and not check.record["stages"], f"{ran} {check.record['stages']}")
    check.arguments.time_limit, check.unfinished = None, []
    for stage in ("accuracy", "accuracy", "repeat"):
        check.run_stage(stage)
    expect(ran == ["repeat", "accuracy", "repeat"] and list(check.record["stages"]) == ["accuracy"], f"{ran} {check.record}")
    check.arguments.missing = False
    check.run_stage("accuracy")
    expect(ran[-1] == "accuracy", "a stage that ran is left out without --missing")
    check.accuracy = lambda: check.fail("something")
    check.run_stage("accuracy")
    expect("accuracy" not in check.record["stages"], "a stage that failed has run")
    del check.accuracy, check.repeat, check.expected_seconds
    check.record["stages"], check.unfinished, check.failures = {}, [], []

    record = {"a": [{"name": "x", "us": 1.5}, {"name": "[", "us": 2}], "b": {"long": "x" * 200, "c": 1}, "d": [1, 2]}
    text = gpu_check.compact(record)
    expect(json.loads(text) == record and '{ "name": "x", "us": 1.5 },' in text and '"d": [ 1, 2 ]' in text, text)
    expect(max(map(len, text.splitlines())) < 250, text)

    # Real pictures are for real weights only.
    expect(check.timed_input() == [] and check.record.pop("timedInput") == "random numbers", check.record)
    write(check.real_model(), "")
    check.picture_folder().mkdir(parents=True)
    options = list(map(str, check.timed_input()))
    expect("--timeImages" in options and str(check.picture_folder()) in options and check.record["timedInput"] == "real pictures", options)
    shutil.rmtree(check.shared / "models")
    try:
        check.timed_input()
    except SystemExit as error:
        expect("real pictures" in str(error) and "random numbers" in str(error), error)
    else:
        expect(False, "times of two inputs are in one record")
    del check.record["timedInput"]


def check_sustained(check):
    """Which cases a call measures, and what must hold of them."""
    gpu_sustained = importlib.import_module("gpu_sustained")
    asked = []

    def bench_engine(name, *options):
        implementation, precision, batch = (options[options.index(flag) + 1] for flag in ("--impl", "--precision", "--batch"))
        asked.append((implementation, precision, batch))
        used = dict.fromkeys(("powerW", "smClockMhz", "temperatureC", "clockReasons"))
        return {"results": [{"impl": implementation, "precision": precision, "batch": batch, "picturesPerSecond": 11.0,
                             "sustained": {"seconds": 60.1, "runs": 5, "picturesPerSecond": 10.0, "utilisation": {
                                 **used, "energyPerPictureJ": 0.002, "energySource": "counter", "samples": 7}}}]}

    check.bench_engine, earlier = bench_engine, check.bench_engine
    check.arguments.missing, check.arguments.time_limit, check.unfinished = False, 10, []
    gpu_sustained.run(check)
    expect(not asked and "sustained" in check.unfinished, asked)
    check.arguments.time_limit, check.unfinished = None, []
    gpu_sustained.run(check)
    cases = check.record["sustained"]["cases"]
    expect(asked == list(gpu_sustained.CASES) and not check.unfinished and len(cases) == len(asked), asked)
    asked.clear()
    del cases[1]
    check.arguments.missing = True
    gpu_sustained.run(check)
    expect(asked == [gpu_sustained.CASES[1]] and cases[1]["batch"] == gpu_sustained.CASES[1][2], cases)

    def rows():
        found = []
        gpu_sustained.requirements(check.record, lambda *row: found.append(row))
        return found

    expect(all(row[3] for row in rows()) and "10 img/s (11 in bursts), 2.00 mJ" in rows()[0][2], rows())
    cases[0]["seconds"], cases[1]["energySource"] = 59, "power"
    expect([row[3] for row in rows()][:3] == [False, False, True], rows())
    del check.record["sustained"]
    check.bench_engine = earlier


def check_int8(check):
    """What is left out without the real model, and what must hold of its times and pictures."""
    gpu_int8 = importlib.import_module("gpu_int8")
    timed_input = check.record.pop("timedInput", None)
    gpu_int8.run(check)
    expect(check.record["int8"] is None, check.record["int8"])
    for file in (check.shared / gpu_int8.MODEL, check.real_model()):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    check.picture_folder().mkdir(parents=True, exist_ok=True)
    int8_ms, agreement, apart = 0.02, 0.996, 0.0

    def bench_engine(name, *options):
        if "--referenceLogits" in options:
            with_logits = {"pictures": 500, "top1Equal": round(500 * agreement), "top1Agreement": agreement}
            return {"images": {"results": [{"impl": "cpu", "top1": 0.8, "withReferenceLogits": with_logits},
                                           {"impl": "custom", "top1": 0.8, "withReferenceLogits": with_logits,
                                            "withReference": {"pictures": 500, "maxAbs": apart}}]}}
        model = options[options.index("--model") + 1]
        quantised = model.name.endswith("_int8.onnx")
        ms = int8_ms if quantised or model == check.shared / gpu_int8.MODEL else 0.04
        batches = options[options.index("--batch") + 1].split(",")
        return {"results": [{"batch": int(batch), "deviceMs": {"median": ms}} for batch in batches]}

    def missed():
        gpu_int8.run(check)
        found = []
        gpu_int8.requirements(check.record, lambda *row: found.append(row))
        expect(len(found) == len(gpu_int8.MOST_US) + len(gpu_int8.BATCHES) + 3 + len(quantised), found)
        return [row[0] for row in found if not row[3]]

    check.bench_engine, earlier = bench_engine, check.bench_engine
    quantised, quantises, run = [], 1, check.run
    check.run = lambda command, log: (quantises if command[1] == gpu_int8.QUANTIZE else 0, "needs the Python package")
    expect(not missed(), missed())
    quantises = 0
    resnet = [f"int8: ResNet-50 against fp16, batch {batch}" for batch in gpu_int8.RESNET_BATCHES]
    shapes = [f"int8: width {width}, {size} pixels, batch {batch}" for width, size in gpu_int8.SHAPES
              for batch in gpu_int8.SHAPE_BATCHES]
    quantised = ["int8: ResNet-50, batch 128"] + resnet + shapes
    expect(not missed(), missed())
    int8_ms = 0.05
    expect(missed() == ["int8: MobileNetV2, batch 1"] + [f"int8: against fp16, batch {batch}" for batch in gpu_int8.BATCHES]
           + resnet + shapes, missed())
    check.run = run
    int8_ms, agreement, apart = 0.04, 0.98, 1e-3
    check.run, run = lambda command, log: (0, ""), check.run
    expect(missed() == [f"int8: {engine} against ONNX Runtime's logits" for engine in ("cpu", "custom")]
           + ["int8: custom against the CPU engine, real pictures"], missed())
    check.run = run
    for file in (check.shared / gpu_int8.MODEL, check.real_model()):
        file.unlink()
    check.record.pop("int8")
    check.record.pop("timedInput")
    if timed_input:
        check.record["timedInput"] = timed_input
    check.bench_engine = earlier


def check_split(check):
    """What must hold of fp32_split's times and pictures, these where there are any."""
    gpu_split = importlib.import_module("gpu_split")
    timed_input = check.record.pop("timedInput", None)
    split_ms, equal, apart = 0.05, 500, 2e-6

    def bench_engine(name, *options):
        if "--referenceLogits" in options:
            compared = {"pictures": 500, "top1Equal": equal, "relativeL2": apart}
            return {"images": {"results": [{"precision": precision, "top1": 0.8, "withReferenceLogits": compared, "withReference": compared}
                                           for precision in ("fp32", "fp32_split")]}}
        return {"results": [{"batch": batch, "precision": precision, "deviceMs": {"median": ms}} for batch in gpu_split.BATCHES
                            for precision, ms in (("fp32", 0.06), ("fp32_split", split_ms))]}

    def missed():
        gpu_split.run(check)
        found = []
        gpu_split.requirements(check.record, lambda *row: found.append(row))
        expect(len(found) == 2 * len(gpu_split.MOST_US) + len(gpu_split.BATCHES) + (2 if check.real_model().exists() else 0), found)
        return [row[0] for row in found if not row[3]]

    check.bench_engine, earlier = bench_engine, check.bench_engine
    expect(not missed(), missed())
    check.record.pop("timedInput")
    check.real_model().parent.mkdir(parents=True, exist_ok=True)
    check.real_model().write_bytes(b"")
    check.picture_folder().mkdir(parents=True, exist_ok=True)
    expect(not missed(), missed())
    split_ms, equal, apart = 0.08, 499, 6e-6
    expect(missed() == ["speed: fp32_split batch 1"] + [f"speed: fp32_split against fp32, batch {batch}" for batch in gpu_split.BATCHES]
           + ["speed: fp32_split against exact fp32, real pictures", "speed: fp32_split, logits against the reference"], missed())
    check.real_model().unlink()
    check.record.pop("split")
    check.record.pop("timedInput")
    if timed_input:
        check.record["timedInput"] = timed_input
    check.bench_engine = earlier


def check_shapes(check):
    """Which models a call measures, and what must hold of their times."""
    gpu_shapes = importlib.import_module("gpu_shapes")
    asked = []

    def bench_engine(name, *options):
        value = {options[i]: str(options[i + 1]) for i in range(0, len(options), 2)}
        asked.append((value["--impl"], pathlib.Path(value["--model"]).stem, value.get("--maxBatch")))
        return {"model": {"flopsPerPicture": 1},
                "results": [{"impl": value["--impl"], "precision": precision, "batch": int(batch), "compileMs": 1.2,
                             "memoryBytes": {"weights": 1},
                             "deviceMs": {"median": (0.03 if precision == "fp16" else 0.05) * (5 if value["--impl"] == "cudnn" else 1)}}
                            for precision in value["--precision"].split(",") for batch in value["--batch"].split(",")]}

    def rows():
        found = []
        gpu_shapes.requirements(check.record, lambda *row: found.append(row))
        return {row[0].removeprefix("shapes: "): row for row in found}

    check.bench_engine, earlier = bench_engine, check.bench_engine
    written = gpu_shapes.model_file
    gpu_shapes.model_file = lambda check, width, size: f"{width}_{size}.onnx"
    exported = gpu_shapes.network_file
    gpu_shapes.network_file = lambda check, network: f"{network}.onnx"
    expect(not rows(), rows())
    check.arguments.missing, check.arguments.time_limit, check.unfinished = False, 10, []
    gpu_shapes.run(check)
    expect(not asked and "shapes" in check.unfinished, asked)
    check.arguments.time_limit, check.unfinished = None, []
    gpu_shapes.run(check)
    expect(len(asked) == 42 + 2 + 4 + 6 + 16 and asked[0] == ("custom", "0.35_224", None) and not check.unfinished, asked)
    expect(all(row[3] for row in rows().values()) and len(rows()) == 23 + 24 + 3 + 8 + 4 + 3 + 16, rows())
    asked.clear()
    check.arguments.missing = True
    check.record["shapes"]["grid"] = [row for row in check.record["shapes"]["grid"] if (row["width"], row["size"]) != (0.5, 192)]
    expect(not rows()["every width, size and batch timed"][3], rows())
    gpu_shapes.run(check)
    expect(asked == [("custom", "0.5_192", None)], asked)
    asked.clear()
    del check.record["shapes"]["loads"][3]  # the cache that it was warm by may be gone: all four again
    expect(not any(name.startswith("first load") for name in rows()), rows())
    gpu_shapes.run(check)
    expect(len(asked) == 4 and len(check.record["shapes"]["loads"]) == 4, asked)
    asked.clear()
    check.record["shapes"]["others"] = [row for row in check.record["shapes"]["others"] if row["network"] != "fbnetc"]
    gpu_shapes.network_file = lambda check, network: None
    gpu_shapes.run(check)
    expect(not asked and "shapes" in check.unfinished, asked)
    for row in check.record["shapes"]["grid"]:
        if (row["impl"], row["width"], row["size"], row["precision"], row["batch"]) == ("custom", 0.5, 224, "fp16", 8):
            row["us"] = 51
    check.record["shapes"]["fewer"][3]["us"] *= 1.1
    check.record["shapes"]["fewer"][7]["weightBytes"] = 1.6  # 128 images in half
    check.record["shapes"]["loads"][3]["compileMs"] = 302
    failed = {name: row[2] for name, row in rows().items() if not row[3]}
    expect(set(failed) == {"fp16 against fp32, every point", "more work is never faster, fp16",
                           "n on an engine for 256 against one for n, fp16",
                           "weights of an engine for 256 against one of a single plan, fp16",
                           "first load of width 0.5, engine for 256, warm cache"}, failed)
    expect("width 0.5, 224 pixels, batch 8" in failed["fp16 against fp32, every point"], failed)
    expect("width 0.5 to 0.75 at 224 pixels, batch 8: 51.0 to 30.0 us" in failed["more work is never faster, fp16"], failed)
    expect("1.100x at 8, 8 sizes" in failed["n on an engine for 256 against one for n, fp16"], failed)
    del check.record["shapes"]
    gpu_shapes.model_file, gpu_shapes.network_file, check.bench_engine = written, exported, earlier


def check_pictures(check):
    """The stage pictures: parts as there is time for them, and what each requirement is decided by."""
    gpu_pictures = importlib.import_module("gpu_pictures")
    check.picture_folder().mkdir(parents=True, exist_ok=True)
    check.real_model().parent.mkdir(parents=True, exist_ok=True)
    check.real_model().touch()
    rate = {"imagesPerSecond": 41000.0, "coresBusy": 1.9, "againstNvjpeg": 0.95}
    agreement = {"pictures": 500, "bothClassified": 500, "top1Equal": 499, "rightByNvjpeg": 433, "rightByCpu": 432}
    reports = {"bench": {"colours": "nvjpeg", "memory": rate, "files": rate, "nvjpeg": {"imagesPerSecond": 43000.0},
                         "large": {"onePicture": {"medianMs": 0.3, "p99Ms": 0.4}}, "agreement": agreement},
               "ways": {"other": {"colours": "exact", "memory": rate, "files": rate, "agreement": agreement}},
               "stream": {"one model": {"picturesPerSecond": 40000.0}, "one model, 2 GPUs": {"picturesPerSecond": 79000.0}},
               "mixed": {"files": 10000, "broken": 500, "labelled": 9500, "named": 500, "rightVerdict": 10000, "once": True,
                         "peakBytes": 1 << 30, "peakBytesOfFourTimes": 1 << 30},
               "killed": {"kills": gpu_pictures.KILLS, "items": 9, "distinct": 9, "expected": 9},
               "noGpu": {"picturesPerSecond": 900.0, "cores": 16, "coresBusy": 15.5},
               "peers": {"results": [{"mode": "dataloader", "batch": 256, "median_us": 256 / 4000 * 1e6}],
                         "own": {"by default": [24000.0, 36000.0], "other": [33000.0, 32100.0]}},
               "memcheck": {"exit": 0, "summary": "0 errors"}}
    asked = []

    def measured(part):
        return lambda check: (asked.append(part), reports[part])[1]

    names = {part: f"run_{'without_gpu' if part == 'noGpu' else part}" for part in gpu_pictures.PARTS}
    earlier, time_left = {name: getattr(gpu_pictures, name) for name in names.values()}, check.time_left
    for part, name in names.items():
        setattr(gpu_pictures, name, measured(part))
    check.unfinished.clear()
    check.arguments.missing = True
    check.record.pop("labels", None)
    check.time_left = lambda: 120
    gpu_pictures.run(check)
    left = [part for part, seconds in gpu_pictures.PARTS.items() if seconds <= 120]
    expect(asked == left and "pictures" in check.unfinished, asked)
    check.unfinished.clear()
    check.time_left = lambda: float("inf")
    gpu_pictures.run(check)
    expect(sorted(asked) == sorted(gpu_pictures.PARTS) and not check.unfinished, asked)

    def missed():
        found = []
        gpu_pictures.requirements(check.record, lambda *row: found.append(row))
        return [name for name, _, _, met in found if not met], len(found)

    expect(missed() == ([], 12), missed())
    # The first is of both ways, whose rates are one object here: a bar is missed where each way misses it.
    for path, wrong in ((("bench", "memory", "coresBusy"), 2.1), (("bench", "large", "onePicture", "medianMs"), 1.3),
                        (("bench", "agreement", "top1Equal"), 494), (("bench", "agreement", "rightByCpu"), 430),
                        (("mixed", "rightVerdict"), 9999), (("mixed", "peakBytesOfFourTimes"), 2 << 30), (("memcheck", "exit"), 9),
                        (("peers", "own", "other"), [33000.0, 31900.0]), (("killed", "distinct"), 8), (("noGpu", "coresBusy"), 12.0), (("stream", "one model", "picturesPerSecond"), 30000.0)):
        before = json.loads(json.dumps(check.record["labels"]))
        place = check.record["labels"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        expect(len(missed()[0]) >= 1, path)
        check.record["labels"] = before
        reports.update(before)
    for name, function in earlier.items():
        setattr(gpu_pictures, name, function)
    jpeg = b"\xff\xd8\xff\xc0\0\x11\x08\0\x10\0\x20" + bytes(100)
    bases = gpu_pictures.write_mixed(check.out / "mixed", [jpeg, jpeg + b"x"])
    expect(len(bases) == gpu_pictures.MIXED and sum(base is None for base in bases.values()) * 20 == gpu_pictures.MIXED, len(bases))
    expect(gpu_pictures.broken_file(jpeg, 4)[7:11] == b"\xff\xdc\xff\xdc", gpu_pictures.broken_file(jpeg, 4)[:12])
    expect((check.out / "mixed/00003.jpg").read_bytes().startswith(b"\x89PNG"), "a PNG file that is called JPEG")
    check.time_left = time_left
    check.record.pop("labels")
    shutil.rmtree(check.shared / "models")  # others' times are of random numbers


def check_repeat(gpu_check, check):
    """Processes are counted by implementation, and those of an earlier call are kept."""
    def bench_engine(name, *options):
        implementation, batches = (options[options.index(flag) + 1] for flag in ("--impl", "--batch"))
        return {"results": [{"impl": implementation, "precision": "fp16", "batch": int(batch), "deviceMs": {"median": 0.1}}
                            for batch in batches.split(",")]}

    check.bench_engine, earlier = bench_engine, check.bench_engine
    check.arguments.missing, check.arguments.time_limit, check.unfinished = True, gpu_check.PROCESS_SECONDS - 1, []
    check.repeat()
    expect(all(one["processes"] == 0 for one in check.record["repeat"].values()) and check.unfinished, check.record["repeat"])
    check.arguments.time_limit, check.unfinished = None, []
    check.record["repeat"] = {"custom": {"processes": 4, "cases": {"custom fp16 batch 1": [90.0] * 4}}}
    check.repeat()
    repeats = check.record["repeat"]
    expect(repeats["custom"]["cases"]["custom fp16 batch 1"] == [90.0] * 4 + [100.0] and not check.unfinished, repeats)
    expect(repeats["cudnn"]["processes"] == 5 and set(repeats["cudnn"]["cases"]) == {
        f"cudnn fp16 batch {batch}" for batch in dict((one[0], one[2]) for one in gpu_check.REPEATED)["cudnn"]}, repeats)
    del check.record["repeat"]
    check.bench_engine = earlier


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
              engines=[dict(engine=engine, sessions=3, reloads=1, runs=5, pictures=9, wrong=0,
                            first=dict(p999Us=100), last=dict(p999Us=130 + len(engines))) for engine in engines])
if float(sys.argv[sys.argv.index("--window") + 1]):
    result["memory"] = dict(hostBytes=[900, 1000, 1005, 1010], deviceBytes=[900, 1000, 1005, 1030])
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

    # However busy the machine is, each GPU has every scenario twice: only they take time.
    check.arguments.stress_seconds = 6
    scenario, clock = stress.scenario, [0.0]

    def timed(*arguments):
        run = scenario(*arguments)
        clock[0] += 0.25
        return run

    stress.scenario = timed
    gpu_stress.time = types.SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep)
    stress.mixed()
    stress.scenario, gpu_stress.time = scenario, time
    mixed = next(iter(rows().values()))
    expect(not mixed[1] and "0 faults, 0 wrong" in mixed[0] and "resnet50 fp32 0" not in mixed[0], mixed)
    check.record["stress"]["mixed"][0]["seconds"] = 900
    expect(next(iter(rows().values()))[1], rows())
    check.record["stress"]["mixed"][0]["processes"][0]["engines"][0]["wrong"] = 1
    expect(not next(iter(rows().values()))[1], "a wrong output counts as right")
    check.arguments.stress_soak_seconds = 1
    stress.soak()
    soak = {name: row for name, row in rows().items() if name.startswith("stress: soak")}
    expect([met for _, met in soak.values()] == [False, True, False, True] and "2 s, 50 runs, 30 sessions, 10 engines read" in
           str(soak) and "+3.00 %" in str(soak) and "1.33x (133 / 100 us" in str(soak), soak)
    gpu_stress.SOAK_LEAST_SECONDS = 2
    expect(next(met for name, (_, met) in rows().items() if name.startswith("stress: soak")), rows())
    check.record["stress"].pop("soak")
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
    long, short = ([{"seconds": seconds}] for seconds in (gpu_stress.LEAST_SECONDS, 10))
    one = {"some, seed 1": {"seconds": 1, "beside": 1}}
    for record, unfinished in (({}, True), ({"mixed": long, "kernels": {"exit": 0}}, False),
                               ({"mixed": short, "kernels": {"exit": 0}}, True),
                               ({"mixed": long, "kernels": {"exit": 0}, "reports": one}, True)):
        check.record["stress"], check.unfinished = record, []
        gpu_stress.run(check)
        expect(("stress" in check.unfinished) == unfinished, record)
    check.record["stress"], check.unfinished = {}, []


# As ncu 2025 prints its tables. The program launches four runs of its kernels one after the other.
NCU_STUB = r"""#!/usr/bin/env python3
import csv, pathlib, sys
here = pathlib.Path(sys.argv[0]).parent
mode = (here / "ncu_mode").read_text()
if "--version" in sys.argv:
    sys.exit(print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1) (public-release)"))
known = {"smsp__inst_executed": "inst", "sm__pipe_tensor_cycles_active": "cycle", "sm__inst_executed_pipe_fma": "inst",
         "dram__bytes_read": "byte", "dram__bytes_write": "byte", "lts__t_bytes": "byte"}
if mode == "unknown":
    known.pop("sm__pipe_tensor_cycles_active")
if "--query-metrics" in sys.argv:
    print("Device NVIDIA H200 (GH100)\n" + "-" * 40)
    for name, unit in known.items():
        print(f"{name:50} Counter         {unit:10} # of something")
    sys.exit(0)
option = {flag: sys.argv[sys.argv.index(flag) + 1] for flag in (
    "--launch-skip", "--launch-count", "--metrics", "--log-file", "--precision", "--batch")}
with open(here / "ncu_calls", "a") as calls:
    calls.write(f"{option['--precision']} {option['--batch']}\n")
if mode == "denied":
    sys.exit("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
if mode == f"fails {option['--precision']} {option['--batch']}":
    sys.exit("bench_engine: out of memory")
first = "void first<(int)1, 2>(Arguments)"
counted = {first: {"smsp__inst_executed.sum": "1,056,000", "dram__bytes_read.sum": "8,000,000",
                   "dram__bytes_write.sum": "4,000,000"},
           "second(int)": {"sm__pipe_tensor_cycles_active.sum": "2,640,000"}, "third(int)": {}}
names = [*counted, *(["third(int)"] if mode == "split" else [])]
peaks = {"sm__pipe_tensor_cycles_active.sum.peak_sustained": "132", "lts__t_bytes.sum.peak_sustained": "5,120",
         "sm__inst_executed_pipe_fma.sum.peak_sustained": "528", "lts__cycles_elapsed.avg.per_second": "1.50"}
metrics = option["--metrics"].split(",")
begin = int(option["--launch-skip"])
chosen = (names * 4)[begin:begin + int(option["--launch-count"])]
head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC"]
units = ["Ghz" if "per_second" in metric else known[metric.split(".")[0]] for metric in metrics]
with open(option["--log-file"], "w") as log:
    for i, name in enumerate(chosen):
        log.write(f'==PROF== Profiling "{name}" - {i}\n')
    table = csv.writer(log, quoting=csv.QUOTE_ALL)
    table.writerow(head + metrics)
    table.writerow([""] * len(head) + units)
    for i, name in enumerate(chosen):
        table.writerow([i, 7, "bench_engine", "127.0.0.1", name, 1, 13, "(128, 1, 1)", "(132, 1, 1)", 0, "9.0"] +
                       [{**peaks, **counted[name]}.get(metric, "0") for metric in metrics])
"""


def check_floors(tree, check):
    """Which kernels are counted, what becomes of the counts, and what is said where there are none."""
    gpu_floors = importlib.import_module("gpu_floors")
    batches = [1, 8, 32, 128, 256]
    cases = [(precision, batch) for precision in ("fp16", "fp32") for batch in batches]
    write(tree.stubs / "ncu", NCU_STUB, executable=True)
    write(tree.stubs / "nvidia-smi", "#!/bin/sh\necho 700.00, 1980\n", executable=True)
    write(tree.root / gpu_floors.CEILINGS, '#!/bin/sh\necho \'{"multiprocessors": 132, "graphLaunchUs": 4.0, '
          '"boundaryUs": 0.5, "handOverUs": 1.0, "copyBytesPerSecond": 4e12}\'\n', executable=True)
    path, os.environ["PATH"] = os.environ["PATH"], f"{tree.stubs}:{os.environ['PATH']}"
    engine, check.bench_engine = check.bench_engine, lambda name, *options: {"results": [
        {"impl": "custom", "precision": precision, "batch": batch, "layers": ["one", "two", "three"]}
        for precision, batch in cases]}
    latency = [{"impl": "custom", "precision": precision, "batch": batch, "latencyMs": {"median": 0.020},
                "utilisation": {"smClockMhz": {"mean": 2000.0}} if batch == 1 else None} for precision, batch in cases]
    # Another engine's times and energies must not pass for custom's.
    other = {"impl": "cudnn", "precision": "fp16", "batch": 1, "latencyMs": {"median": 0.001}, "energyPerPictureJ": 1.0,
             "utilisation": {"smClockMhz": {"mean": 1.0}}}
    check.record["latency"] = [*latency, other]
    failures, check.failures, check.unfinished = check.failures, [], []

    def run(mode, missing=False):
        """What ncu was called for, and what failed."""
        write(tree.stubs / "ncu_mode", mode)
        write(tree.stubs / "ncu_calls", "")
        check.arguments.missing, check.failures, check.unfinished = missing, [], []
        gpu_floors.run(check, batches)
        return (tree.stubs / "ncu_calls").read_text(encoding="utf-8").splitlines(), check.failures, check.unfinished

    def row():
        found = []
        gpu_floors.requirements(check.record, batches, lambda *one: found.append(one))
        return found[0] if found else None

    expect(row() is None, "a requirement of a stage that did not run")
    calls, failed, unfinished = run("fails fp32 32")
    expect(len(calls) == 10 and unfinished == ["floors"], f"{calls} {unfinished}")
    expect(len(failed) == 1 and "fp32 batch 32" in failed[0] and "out of memory" in failed[0], failed)
    expect("9 cases" in row()[2] and not row()[3], row())
    expect(run("", missing=True) == (["fp32 32"], [], []), check.record["floors"])
    floors = check.record["floors"]
    expect([(case["precision"], case["batch"]) for case in floors["cases"]] == cases, floors)
    expect(floors["gpu"]["powerLimitW"] == 700 and floors["gpu"]["ncu"] == "2025.3.1.0", floors["gpu"])
    case = floors["cases"][0]
    expect(case["usedBy"] == {"issue": 1056000, "tensor": 2640000, "fma": 0, "dram": 12000000, "l2": 0}, case)
    expect(case["floorsUs"] == {"launches": 6, "issue": 1, "tensor": 10, "fma": 0, "dram": 3, "l2": 0}, case)
    expect((case["kernels"], case["binding"], case["structuralUs"]) == (3, "tensor", 17.5), case)
    expect(case["kernelsBoundBy"] == {"dram": 1, "tensor": 1, "launches": 1} and case["clockOf"] == "timed runs", case)
    expect(case["peaks"] == {"tensor": 132, "fma": 528, "l2": 5120 * 1.5e9}, case)
    expect(floors["cases"][1]["clockMhz"] == 1980 and floors["cases"][1]["clockOf"] == "clocks.max.sm", floors)
    expect(row()[3] and "10 cases" in row()[2] and "kernel by kernel" in row()[2], row())
    latency[1]["utilisation"] = {"smClockMhz": {"mean": 1980.0}}  # known by now: counted again
    expect(run("", missing=True) == (["fp16 8"], [], []) and floors["cases"][1]["clockOf"] == "clocks.max.sm", floors)
    expect(check.record["floors"]["cases"][1]["clockOf"] == "timed runs", check.record["floors"])

    check_power_limit(gpu_floors, check.record, row)
    latency[1]["latencyMs"]["median"] = 0.0169  # the structural floor is 17.6
    expect(not row()[3] and "fp16 batch 8: 17.6 of 16.9 us (kernel by kernel, 104 %)" in row()[2], row())
    latency[1]["latencyMs"]["median"] = 0.0172
    expect(row()[3], row())
    check.record["latency"] = latency[1:]
    expect(not row()[3], "a case without a time passes")
    check.record["latency"] = latency

    for mode, said in (("unknown", "ncu has none of sm__pipe_tensor_cycles_active"), ("denied", "ERR_NVGPUCTRPERM")):
        expect(run(mode)[1:] == ([], []) and said in check.record["floors"]["absent"], check.record["floors"])
        expect(not row()[3] and said in row()[2], row())
    calls, failed, unfinished = run("split")
    expect(len(failed) == 10 and unfinished == ["floors"], failed)
    expect("before it ('third(int)'" in failed[0] and "its last ('second(int)'" in failed[0], failed)

    for unit, expected in (("byte", 1), ("Kbyte", 1e3), ("Ghz", 1e9), ("cycle/nsecond", 1e9), ("Gbyte/s", 1e9)):
        expect(gpu_floors.factor(unit) == expected, unit)
    for text, said in (("==ERROR== boom", "==ERROR== boom"), ('"ID","Kernel Name"\n"0","a"\n', "counted 1 kernels")):
        try:
            gpu_floors.one_run(gpu_floors.parse_counters(text), 1)
            expect(False, f"{text} passes")
        except gpu_floors.Failed as error:
            expect(said in str(error), error)
    kernel = gpu_floors.parse_counters('"ID","Kernel Name","a.sum","b.sum"\n"","","byte",""\n"0","k","n/a","1"\n')[0]
    for metric, said in (("a.sum", "ncu has a.sum = 'n/a' of k"), ("c.sum", "ncu has no c.sum of k; it printed ID")):
        try:
            gpu_floors.value(kernel, metric)
            expect(False, f"{metric} has a value")
        except gpu_floors.Failed as error:
            expect(said in str(error), error)
    os.environ["PATH"], check.bench_engine = path, engine
    check.failures, check.unfinished = failures, []
    del check.record["floors"], check.record["latency"]


def check_power_limit(gpu_floors, record, row):
    """Without a new count: what sustained runs say. It is no floor."""
    sustained = {"impl": "custom", "precision": "fp16", "batch": 8, "energyPerPictureJ": 0.00175,
                 "picturesPerSecond": 4e5}
    before = row()
    for without in ({}, {"cases": []}, {"cases": [{**sustained, "impl": "cudnn"}]},
                    {"cases": [{**sustained, "energyPerPictureJ": None}]}):
        record["sustained"] = without
        expect(gpu_floors.view(record)[1]["atPowerLimitUs"] is None, without)
    record["sustained"] = {"cases": [sustained]}
    case = gpu_floors.view(record)[1]
    expect(case["atPowerLimitUs"] == 20 and case["binding"] == "tensor" and row() == before, case)
    expect("atPowerLimitUs" not in record["floors"]["cases"][1], "view() changes the record")
    # What an idle GPU takes as well is not of the pictures: (8 mJ - 100 W x 20 us) / 600 W.
    record["gpuStates"] = [{"before": {"powerW": 300.0}}, {"before": {"powerW": 100.0}}, {"before": None}]
    expect(gpu_floors.view(record)[1]["atPowerLimitUs"] == 20, gpu_floors.view(record)[1])
    sustained["energyPerPictureJ"] = 0.001
    expect(gpu_floors.view(record)[1]["atPowerLimitUs"] == 10, gpu_floors.view(record)[1])
    del record["gpuStates"], record["sustained"]


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
    """--networks, --missing and --time-limit: what the peers measure, and what is kept of an earlier call."""
    network_check = importlib.import_module("network_check")
    asked, broken, left = [], {"resnet152"}, set()

    def peer(name, script, earlier, *options):
        """As the scripts with --resume: what there is stays, and what lacks a result is measured."""
        named = options[options.index("--networks") + 1].split(",") if "--networks" in options else ["mobilenet_v2"]
        asked.append((name, named))
        rows = [{"network": name, "mode": "graph", "precision": "fp16", "batch": batch} for name in named
                for batch in network_check.BATCHES]
        earlier = earlier or {"results": [], "failed": [], "left": []}
        there = {(row["network"], row["batch"]) for row in earlier["results"]}
        rows = [row for row in rows if (row["network"], row["batch"]) not in there]
        document = {"engine": script, "absent": [], **{key: [row for row in earlier[key] if row["network"] not in named]
                                                      for key in ("failed", "left")}}
        for row in rows:
            key = "failed" if row["network"] in broken else "left" if name in left else "results"
            document.setdefault(key, []).append(row)
        document["results"] = earlier["results"] + document.get("results", [])
        return document

    def measure(networks, missing):
        """What was asked for, and the networks that are there and that failed."""
        asked.clear()
        check.unfinished = []
        check.arguments.networks, check.arguments.missing, check.arguments.compile_batches = networks, missing, "1"
        check.peers()
        document = check.record["peers"]["pytorchNetworks"]
        return list(asked), *(list(dict.fromkeys(row["network"] for row in document[key])) for key in ("results", "failed"))

    check.peer = peer
    everything = list(network_check.TORCHVISION)
    without = [name for name in everything if name not in broken]
    first = [(name, ["mobilenet_v2"]) for name in ("pytorch", "onnxruntime", "jax", "tensorrt")]
    last = [("pytorchMaxAutotune", ["mobilenet_v2"])]

    def networks(*names):
        return [("pytorchNetworks", list(names))]

    expect(measure(None, False) == (first + networks(*everything) + last, without, ["resnet152"]), asked)
    expect(measure(["vgg16", "lenet"], False) == (first + networks("vgg16") + last, without, ["resnet152"]), asked)
    broken.clear()
    expect(measure(None, True) == (networks("resnet152"), everything, []), asked)
    expect(measure(None, True) == ([], everything, []) and not check.unfinished, asked)
    check.record["peers"]["tensorrt"]["results"] = []  # absent at that time
    expect(measure(["lenet"], True) == (first[3:], everything, []), asked)
    # What is left makes a stage that is not whole, and is all that a later call asks for.
    left.update(("jax", "pytorchNetworks"))
    expect(measure(["vgg16"], False)[0] == first + networks("vgg16") + last and "peers" in check.unfinished, asked)
    saved = json.loads((check.out / "record.json").read_text(encoding="utf-8"))["peers"]
    expect(not saved["jax"]["results"] and saved["jax"]["left"], "not kept call by call")
    check.arguments.time_limit = 10  # too short for any to start
    expect(measure(None, True)[0] == [] and "peers" in check.unfinished, asked)
    check.arguments.time_limit = None
    left.clear()
    expect(measure(None, True) == (first[2:3] + networks("vgg16"), everything, []) and not check.unfinished, asked)


PEER_STUB = """#!/usr/bin/env python3
import json, pathlib, sys
print("arguments", *sys.argv[1:])
file = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
print("seed", file.read_text() if file.exists() else None)
document = json.loads(file.read_text()) if file.exists() else dict(results=[], failed=[], absent=[], left=[])
document["results"].append(dict(mode="graph", batch=len(document["results"])))
file.write_text(json.dumps(document))
sys.exit(3 if "--dies" in sys.argv else 0)
"""


def check_peer_script(tree, gpu_check, check):
    """A script of bench/peers gets the earlier document and the time that is left, and what it wrote before it died counts."""
    write(tree.root / "bench/peers/stub.py", PEER_STUB)
    gpu_check.ROOT, root = tree.root, gpu_check.ROOT
    check.arguments.python, check.arguments.peer_timeout, check.arguments.time_limit = sys.executable, 60, None
    document = check.peer("one", "stub", None, "--dies")
    expect(len(document["results"]) == 1 and document["failed"][0]["mode"] == "" and
           document["failed"][0]["error"].startswith("stub.py ended with exit code 3: seed None"), document)
    expect("--resume" in check.log("peers").read_text() and "--time-limit" not in check.log("peers").read_text(), document)
    check.arguments.time_limit = 1000 + time.monotonic() - check.start
    document = check.peer("one", "stub", document)
    expect(len(document["results"]) == 2 and not document["failed"], document)
    limit = re.findall(r"--time-limit (\d+)", check.log("peers").read_text())
    expect(len(limit) == 1 and 900 < int(limit[0]) <= 1000, limit)
    check.arguments.time_limit, gpu_check.ROOT = None, root


def check_peer_results(tree):
    """bench/peers/peer.py and pytorch.py: the order, --resume and --time-limit, with no engine at all."""
    sys.path[:0] = [str(SOURCE / "bench/peers"), str(SOURCE / "scripts/lib")]
    sys.dont_write_bytecode = True
    import peer
    import peer_results
    import pytorch
    file = tree.root / "peer.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    measured, clock = [], [0.0]
    peer.time = argparse.Namespace(monotonic=lambda: clock[0])
    peer.START = 0.0

    def configuration(mode, batch, memory_format="nchw"):
        return {"network": "net", "mode": mode, "precision": "fp16", "batch": batch, "format": memory_format}

    def measure(mode, batch, **_):
        clock[0] += batch
        measured.append((mode, batch))
        if (mode, batch) == ("eager", 7):
            raise peer.DeviceLost("illegal address")
        if (mode, batch) == ("eager", 5):
            raise RuntimeError("out of memory\nand more")
        return {"median_us": 100.0, "mean_us": 100.0, "p90_us": 100.0, "runs": 200}, {"extra": 1}

    def call(configurations, limit=None, resume=True, version="1"):
        """The exit code, and the document."""
        measured.clear()
        clock[0] = 0.0
        document = peer.Document(argparse.Namespace(json=str(file), resume=resume), "Engine")
        document.tell(version=version)
        peer.measure_all(document, configurations, measure, {"graph": 30, "eager": 30, "max": 100}, limit)
        return document.exit_code(), json.loads(file.read_text(encoding="utf-8"))

    # Whatever would pass the limit is left and named: by the guess, and once there is one by the longest of the mode.
    wanted = [configuration("graph", 20), configuration("graph", 10), configuration("max", 1), configuration("graph", 3)]
    code, document = call(wanted, limit=45)
    expect(measured == [("graph", 20), ("graph", 10)] and code == 0, f"{measured} {code}")
    expect(document["left"] == wanted[2:] and not document["failed"], document)
    expect([(row["batch"], row["seconds"], row["extra"], row["format"]) for row in document["results"]] ==
           [(20, 20.0, 1, "nchw"), (10, 10.0, 1, "nchw")], document)
    # A later call measures those, and knows how long the mode took.
    code, document = call(wanted, limit=19)
    expect(measured == [] and document["left"] == wanted[2:], measured)
    code, document = call(wanted)
    expect(measured == [("max", 1), ("graph", 3)] and document["left"] == [] and len(document["results"]) == 4, document)
    # Another memory format is another configuration; what fails is measured again, last; the rest of it stays.
    more = [configuration("eager", 5), configuration("graph", 20, "channels_last"), configuration("eager", 2)]
    code, document = call(more)
    expect(code == peer.EXIT_FAILED and document["failed"] == [{**more[0], "error": "RuntimeError: out of memory"}], document)
    expect(measured == [("eager", 5), ("graph", 20), ("eager", 2)] and len(document["results"]) == 6, document)
    code, document = call([configuration("graph", 4)])
    expect(code == peer.EXIT_FAILED and len(document["failed"]) == 1, "a failure of others is forgotten")
    code, document = call([more[0], configuration("eager", 6)])
    expect(measured == [("eager", 6), ("eager", 5)], measured)
    # A lost device leaves what follows; killed while it measures, a script has named what it did not come to.
    lost = [configuration("eager", 7), configuration("eager", 8)]
    code, document = call(lost)
    expect(document["left"] == lost[1:] and "DeviceLost: illegal address" in document["failed"][-1]["error"], document)
    code, document = call(lost)
    expect(measured == [("eager", 8), ("eager", 7)] and document["left"] == [], document)

    def killed(**_):
        raise KeyboardInterrupt

    document = peer.Document(argparse.Namespace(json=str(file), resume=False), "Engine")
    try:
        peer.measure_all(document, lost, killed, {"eager": 1}, None)
    except KeyboardInterrupt:
        pass
    expect(json.loads(file.read_text(encoding="utf-8"))["left"] == lost, "not named")
    # Nothing is mixed with another version's.
    call(wanted[:1], resume=False)
    before = file.read_text(encoding="utf-8")
    try:
        call(wanted, version="2")
        expect(False, "another version's results were kept")
    except SystemExit as end:
        expect(end.code == peer.EXIT_USAGE and file.read_text(encoding="utf-8") == before, end)
    file.write_text("[]", encoding="utf-8")
    try:
        call(wanted)
        expect(False, "no document was resumed")
    except SystemExit as end:
        expect(end.code == peer.EXIT_USAGE, end)

    sys.argv = ["pytorch.py"]
    chosen = [tuple(one.values())[1:] for one in pytorch.configurations(pytorch.parse_arguments())]
    expect(chosen[:4] == [("graph", "fp16", batch, memory_format) for batch in (1, 32) for memory_format in pytorch.FORMATS], chosen[:4])
    formats = {mode: {row[3] for row in chosen if row[0] == mode} for mode in pytorch.MODES}
    expect(len(formats["graph"]) == 2 and formats["compile-max"] == {"channels_last"}, formats)
    for mode in ("graph", "compile-max"):
        some = list(dict.fromkeys(row[1:3] for row in chosen if row[0] == mode))
        expect(some == [(precision, batch) for precision in ("fp16", "tf32", "fp32") for batch in (1, 32, 256, 8, 128)], some)
    first = {mode: chosen.index((mode, "fp32", 128, "channels_last")) for mode in ("graph", "compile")}
    expect(first["graph"] < first["compile"] < chosen.index(("compile-max", "fp16", 1, "channels_last")), first)

    rows = [{**configuration("graph", 1), "median_us": 9.0}, {**configuration("graph", 1, "channels_last"), "median_us": 10.0}]
    for results in (rows, rows[::-1]):
        best = peer_results.fastest(results, peer_results.GRAPH, "fp16")
        expect(best[1]["median_us"] == 9.0 and peer_results.variant(best[1], "graph") == "nchw", best)
    check_fastest_required(rows, [{**rows[1], "mode": mode, "precision": precision, "median_us": time} for mode, precision, time in (
        ("compile", "fp16", 30.0), ("compile-max", "fp16", 8.0), ("compile-graph", "fp16", 40.0), ("compile", "tf32", 1.0))])


def check_fastest_required(graphs, compiled):
    """The requirements, too, count the fastest format and mode."""
    import gpu_requirements
    latency = {("cudnn", "fp16", 1): 9.5, ("custom", "fp16", 1): 4.0}
    for results in (graphs + compiled, (graphs + compiled)[::-1]):
        found = {}

        def add(name, target, measured, met):
            found[name] = (measured, met)

        gpu_requirements.add_comparisons(latency, results, [1], add)
        gpu_requirements.add_latencies(latency, results, add)
        expect(found["cudnn / PyTorch CUDA graph, fp16, batch 1"] == ("1.056 (9.5 / 9.0 us, nchw)", False), found)
        expect(found["custom against torch.compile, fp16, batch 1"] == ("2.00x (`compile-max`)", False), found)


def module_of(tree, name):
    """A module of the tree's scripts."""
    sys.path.insert(0, str(tree.root / "scripts/lib"))
    sys.dont_write_bytecode = True
    return importlib.import_module(name)


def check_gpu_pack(tree):
    write_sources(tree)
    build, folder = tree.root / "build", tree.root / "pack"
    library = tree.root / "scripts/lib/gpu_programs.py"
    text = library.read_text(encoding="utf-8")
    expect("libonnx-testdata/data\"" in text, "where are ONNX's test models?")
    write(library, text.replace("libonnx-testdata/data\"", "libonnx-testdata/data/simple\""))  # all take 20 s to compress
    programs = module_of(tree, "gpu_programs")
    wanted = "\n".join((SOURCE / "scripts" / script).read_text(encoding="utf-8")
                       for script in ("gpu_check", "lib/gpu_floors.py", "lib/gpu_stress.py", "lib/network_check.py"))
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
    server = tree.root / "server"
    write(server / programs.triton_server.PROGRAM, "", executable=True)
    shutil.copy("/bin/cat", server / programs.triton_server.PROGRAM)
    try:
        programs.pack_server(server, folder)
        expect(False, "a server without the wheel's libraries was packed")
    except programs.PackError as error:
        expect("needs none of" in str(error), error)
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
        expect("no Triton Inference Server" in text, text)
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
    for folder in ("engine", "kernels", "baselines", "pictures", "onnx_import/ops", "bench/bench_engine", "models/zoo"):
        write(tree.root / folder / "a.cpp", "int a;\n")
    for file in ("onnx_import/b.cpp", "bench/l2_sweep.cu", "bench/kernels/ceilings.cu", "bench/kernels/gpu_ceilings.cpp",
                 "bench/kernels/launch_costs.cu", "tests/bench/outside_clock.cpp"):
        write(tree.root / file, "int b;\n")


def check_no_arguments(tree, script):
    write_sources(tree)
    code, text = tree.run(script)
    expect(code == 0 and "usage" not in text, text)
    code, text = tree.run(script, "--help")
    expect(code == 0 and text.startswith(f"usage: scripts/{script}\n\n") and "recorded GPU results" in text, text)
    for argument in ("--nonsense", "file"):
        code, text = tree.run(script, argument)
        expect(code == 2 and f"{script} takes no arguments, got {argument}" in text, text)


def check_hash_of_sources(tree):
    """What measures changes the hash, what shows and traces does not."""
    write_sources(tree)
    before = tree.run("source_hash")[1]
    for file, changes in (("bench/report/page.cpp", False), ("bench/bench_engine/export/file.cpp", False),
                          ("bench/bench_engine/terminal/text.cpp", False), ("bench/bench_engine/trace/row.cpp", False),
                          ("bench/bench_engine/notes.md", False), ("bench/l2_sweep.cu", True),
                          ("tests/bench/outside_clock.cpp", True), ("kernels/new.cuh", True)):
        write(tree.root / file, "int changed;\n")
        after = tree.run("source_hash")[1]
        expect((after != before) == changes, f"{file}: {before} {after}")
        before = after


def check_quantize(tree):
    """What it refuses before it quantises anything, without the packages that quantise."""
    os.environ["PYTHONPATH"] = str(tree.root / "modules")
    write(tree.root / "modules/onnx.py", "raise ImportError('not here')\n")
    model, pictures = tree.root / "m.onnx", tree.root / "pictures"
    write(model, "no protobuf")
    pictures.mkdir()
    code, text = tree.run("quantize", "--help")
    expect(code == 0 and text.startswith("usage: quantize ") and "pip install onnxruntime" in text, text)
    for arguments in ([], [model], [model, pictures, "--calibrate", "0"], [model, pictures, "--evaluate", "-1"],
                      [model, pictures, "--method", "guess"], [model, pictures, "--percentile", "101"]):
        code, text = tree.run("quantize", *arguments)
        expect(code == 2 and "usage: quantize " in text, text)
    refused = [([tree.root / "none.onnx", pictures], "none.onnx' is no file"),
               ([model, tree.root / "none"], "none' is no folder"),
               ([model, pictures], "has no pictures (.bmp, "),
               ([model, pictures, "-o", model], "--output must be another file")]
    for arguments, words in refused:
        code, text = tree.run("quantize", *arguments)
        expect(code == 1 and text.startswith("quantize: ") and words in text and "Traceback" not in text, text)
    write(pictures / "class/one.JPG", "no picture")
    code, text = tree.run("quantize", model, pictures, "--labels", tree.root / "none.txt")
    expect(code == 1 and "--labels: " in text, text)
    code, text = tree.run("quantize", model, pictures)
    expect(code == 1 and "needs the Python package 'onnx' (not here): pip install" in text, text)
    expect(sorted(file.name for file in tree.root.glob("*.onnx")) == ["m.onnx"], "files are left behind")


MUTANT = """\
# the sum is a difference
file.cpp
- return a + b;
+ return a - b;
file_tests "sums*"
"""


def check_mutants(tree):
    """Each mutant of this tree applies; what does not is told with its file. Nothing is built."""
    done = subprocess.run([SOURCE / "scripts/mutants", "--check"], capture_output=True, text=True, check=False)
    expect(done.returncode == 0 and re.fullmatch(r"(\d+) mutants apply\n", done.stdout), done.stdout + done.stderr)
    expect(int(done.stdout.split()[0]) >= 60, "docs/reliability.md asks for 60 mutants:\n" + done.stdout)
    mutants = tree.root / "tests/mutants/all.txt"
    source = "int sum(int a, int b) {\n  return a + b;\n}\n"
    for text, in_file, words in ((MUTANT, source, "1 mutants apply"),
                                 (MUTANT, source.replace("+", "*"), "file.cpp: has the text of 'the sum is a difference' 0 times"),
                                 (MUTANT, source + source, "2 times, not once"),
                                 (MUTANT.replace("a - b", "a + b"), source, "changes nothing"),
                                 (MUTANT + "\n" + MUTANT, source, "two mutants are named 'the sum is a difference'"),
                                 (MUTANT.replace("- return", "return"), source, "a mutant has five lines")):
        write(mutants, text)
        write(tree.root / "file.cpp", in_file)
        code, output = tree.run("mutants", "--check")
        expect((code == 0) == ("apply" in words) and words in output and "Traceback" not in output, f"{words}:\n{output}")
    code, output = tree.run("mutants", "--check", "nothing of this name")
    expect(code == 1 and "two mutants" not in output, output)
    code, output = tree.run("mutants", "--nonsense")
    expect(code == 2 and "unknown option --nonsense" in output, output)


def check_sanitize(tree):
    write(tree.stubs / "cmake", '#!/bin/sh\necho "cmake $*"\n', executable=True)
    write(tree.stubs / "ctest", '#!/bin/sh\necho "ctest $*"\n', executable=True)
    code, text = tree.run("sanitize")
    built = [line for line in text.splitlines() if line.startswith(("cmake", "ctest"))]
    expect(code == 0 and len(built) == 4, text)
    for i, preset in ((0, "asan"), (2, "tsan")):
        expect(built[i].endswith(f"build-{preset}") and built[i + 1].startswith(f"ctest --preset {preset} --parallel ") and
               " -R " not in built[i + 1], text)
    code, text = tree.run("sanitize", "thread")
    expect(code == 0 and "asan" not in text and "build-tsan" in text, text)
    write(tree.stubs / "ctest", "#!/bin/sh\nexit 8\n", executable=True)
    expect(tree.run("sanitize")[0] == 1, "a failing test is no failure")
    code, text = tree.run("sanitize", "memory")
    expect(code == 2 and "unknown option memory" in text, text)


def check_sanitize_since(tree):
    """With --since, a build is left out unless what it compiles, or how, is not as it was at a commit."""
    root = tree.root
    write(tree.stubs / "ctest", '#!/bin/sh\necho "ctest $*"\n', executable=True)
    for file, text in ((".gitignore", "/build-*/\n"), ("CMakeLists.txt", ""), ("CMakePresets.json", ""), ("engine/CMakeLists.txt", ""),
                       ("engine/a.cpp", '#include "a.h"\n'), ("engine/a.h", ""), ("engine/b.cpp", ""), ("kernels/c.cu", ""),
                       ("plan_file/plan.proto", "")):
        write(root / file, text)
    unity = root / "build-asan/Unity/unity_0_cxx.cxx"
    write(unity, f'#include "{root}/engine/a.cpp"\n')
    for build, source in ((unity.parents[1], unity), (root / "build-tsan", root / "engine/b.cpp")):
        write(build / "compile_commands.json", json.dumps([{"directory": str(build), "command": f"c++ -c {source} -o x.o", "file": str(source)}]))
    commit = first_commit(root)
    asan, tsan = "ctest --preset asan", "ctest --preset tsan"
    for file, presets in (("README.md", ()), ("kernels/c.cu", ()), ("engine/a.cpp", (asan,)), ("engine/a.h", (asan,)), ("engine/b.cpp", (tsan,)),
                          ("engine/CMakeLists.txt", (asan, tsan)), ("CMakeLists.txt", (asan, tsan)), ("cmake/new.cmake", (asan, tsan)),
                          ("CMakePresets.json", (asan, tsan)), ("plan_file/plan.proto", (asan, tsan))):
        write(root / file, "changed\n")
        code, text = tree.run("sanitize", "--since", commit)
        ran = tuple(preset for preset in (asan, tsan) if preset in text)
        expect(code == 0 and ran == presets and text.count("not run") == 2 - len(ran), f"{file}: {ran}\n{text}")
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", file)
        expect(all(preset in tree.run("sanitize", "--since", commit)[1] for preset in presets), f"{file}, committed")
        git(root, "reset", "--quiet", "--hard", commit)
    code, text = tree.run("sanitize", "--since", "0" * 40)
    expect(code == 0 and asan in text and tsan in text and "not in the history" in text, text)
    expect(tree.run("sanitize", "--since")[0] == 2, "no commit")


def check_fuzz_since(tree):
    """With --since, nothing is built or run unless what the targets are built of is not as it was at a commit."""
    root = tree.root
    with open(root / "scripts/lib/common.sh", "a", encoding="utf-8") as common:
        common.write("\ninstall_clang() { :; }\nfuzzing_clang() { echo clang++; }\n")
    write(tree.stubs / "cmake", '#!/bin/sh\necho "cmake $*"\nexit 1\n', executable=True)
    for file, text in ((".gitignore", "/build-*/\n"), ("engine/a.cpp", ""), ("kernels/c.cu", ""), ("tests/fuzz/targets/a.cpp", ""),
                       ("tests/fuzz/corpus/a.tar.xz", "")):
        write(root / file, text)
    write(root / "build-fuzz/compile_commands.json", json.dumps(
        [{"directory": f"{root}/build-fuzz", "command": f"clang++ -c {root}/{name} -o x.o", "file": f"{root}/{name}"}
         for name in ("engine/a.cpp", "tests/fuzz/targets/a.cpp")]))
    commit = first_commit(root)
    for file, runs in (("README.md", False), ("kernels/c.cu", False), ("engine/a.cpp", True), ("tests/fuzz/targets/a.cpp", True),
                       ("tests/fuzz/corpus/a.tar.xz", True)):
        write(root / file, "changed\n")
        code, text = tree.run("fuzz", "--since", commit)
        expect((code == 1 and "cmake --build" in text and file in text) if runs else (code == 0 and "not run" in text and "cmake" not in text),
               f"{file}: {code}\n{text}")
        git(root, "add", ".")
        git(root, "reset", "--quiet", "--hard", commit)
    expect(tree.run("fuzz", "--since")[0] == 2, "no commit")


def check_zoo(program):
    sys.path.insert(0, str(SOURCE / "scripts/lib"))
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
            check_hash_of_sources(tree)
        else:
            globals()[f"check_{subject}"](tree)


SOURCE = pathlib.Path(sys.argv[1]).resolve()
if __name__ == "__main__":
    main()
