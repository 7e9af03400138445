"""The programs that scripts/gpu_check runs: packed where they are built, unpacked where there is a GPU."""
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import triton_server

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGES = {
    "test": ("tests/engine/custom_engine_tests", "tests/baselines/cudnn_tests", "tests/ops/op_gpu_tests",
             "tests/c_api/c_api_gpu_tests", "tests/pictures/pictures_gpu_tests", "tests/serving/triton_memory_tests",
             "tests/specialise/specialised_kernel_tests", "tests/models/network_tests", "tests/kernels/kernel_tests"),
    "conformance": ("tests/conformance/onnx_conformance",),
    "sanitize": ("tests/kernels/kernel_tests", "tests/engine/custom_engine_tests"),
    "accuracy": ("bench/bench_engine",),
    "bench": ("bench/bench_engine", "models/mobicuda_write_model", "tests/bench/outside_clock"),
    "repeat": ("bench/bench_engine", "models/mobicuda_write_model"),
    "sustained": ("bench/bench_engine", "models/mobicuda_write_model"),
    "networks": ("bench/bench_engine", "models/mobicuda_write_model"),
    "shapes": ("bench/bench_engine", "models/mobicuda_write_model"),
    "pictures": ("tests/pictures/pictures_bench", "tests/pictures/pictures_gpu_tests", "stream/mobicuda_stream",
                 "models/mobicuda_write_model"),
    "int8": ("bench/bench_engine",),
    "split": ("bench/bench_engine", "models/mobicuda_write_model"),
    "floors": ("bench/bench_engine", "bench/kernels/gpu_ceilings", "models/mobicuda_write_model"),
    "stress": ("tests/stress/engine_stress", "tests/stress/kernel_stress_tests", "bench/bench_engine",
               "models/mobicuda_write_model"),
    "serving": ("serving/backends/mobicuda/libtriton_mobicuda.so", "bench/serving/serving_load", "bench/bench_engine",
                "models/mobicuda_write_model"),
    "python": ("python/mobicuda/_native.*.so", "tests/python/call_times", "models/mobicuda_write_model"),
    "peers": ("models/mobicuda_write_model",),
}
OPTIONAL = ("tests/baselines/cudnn_tests", "tests/serving/triton_memory_tests")  # without cuDNN, without MOBICUDA_TRITON
TESTDATA = pathlib.Path("/usr/share/libonnx-testdata/data")
TESTDATA_ARCHIVE = "onnx_testdata.tar.xz"
# Of the stage serving: Triton Inference Server, and its client for the Python of the GPU machine.
TRITON = "triton"
SITE = "site"
SITE_PYTHON = "3.12"
SITE_PACKAGES = ("tritonclient", "grpcio", "protobuf>=6.31,<7", "python-rapidjson", "ml_dtypes", "packaging", "typing_extensions")
MANIFEST = "manifest.json"
# Every machine that runs them has its own of these: the C and C++ runtime, and what comes with CUDA, cuDNN or the driver.
LEFT_OUT = re.compile(r"lib(c|m|mvec|dl|rt|pthread|gcc_s|stdc\+\+)\.so|lib(cuda|cudnn|cublas|cupti|nvidia|nvrtc|nvJitLink)")


class PackError(Exception):
    """A pack that cannot be made or used; the text says why."""


def programs_of(stages):
    """What these stages run, each once; stages that run none are left out."""
    return list(dict.fromkeys(name for stage in stages for name in STAGES.get(stage, ())))


def file_of(build_dir, name):
    """The file of a program; a name may have a * for what differs between Pythons. None where there is none."""
    found = sorted((build_dir / name).parent.glob(pathlib.PurePath(name).name))
    return next((file for file in found if file.is_file()), None)


def absent_programs(stages, build_dir):
    return [name for name in programs_of(stages) if name not in OPTIONAL and not file_of(build_dir, name)]


def gpus():
    """How many GPUs CUDA_VISIBLE_DEVICES leaves."""
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False).stdout
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len(listed.splitlines()) if visible is None else len([one for one in visible.split(",") if one.strip()])


def source_hash():
    return subprocess.run([ROOT / "scripts/source_hash"], capture_output=True, text=True, check=True).stdout.strip()


def libraries(program):
    """Shared libraries that a program needs and another machine may lack."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    missing = re.findall(r"(\S+) => not found", listed)
    if missing:
        raise PackError(f"{program}: {', '.join(missing)} not found")
    found = [pathlib.Path(path) for path in re.findall(r"=> (/\S+)", listed)]
    return [path for path in found if not LEFT_OUT.match(path.name)]


def compress(file, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "rb") as source, lzma.open(to, "wb", preset=6) as packed:
        shutil.copyfileobj(source, packed)


def archive(folder, file):
    with tarfile.open(file, "w:xz") as packed:
        packed.add(folder, arcname=".")


def pack_server(server, folder):
    """Triton Inference Server out of an unpacked wheel: the program, and of the wheel's libraries those that it needs."""
    program = triton_server.PROGRAM
    listed = subprocess.run(["ldd", server / program], capture_output=True, text=True, check=True,
                            env={**os.environ, "LD_LIBRARY_PATH": str(server / triton_server.LIBRARIES)}).stdout
    needed = {pathlib.Path(path).name for path in re.findall(r"=> (/\S+)", listed) if triton_server.LIBRARIES in path}
    if not needed:
        raise PackError(f"{server}: {program} needs none of {triton_server.LIBRARIES}")
    with tempfile.TemporaryDirectory() as there:
        target = pathlib.Path(there)
        for name in (program, *(pathlib.Path(triton_server.LIBRARIES) / name for name in sorted(needed))):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(server / name, target / name)
        archive(target, folder / f"{TRITON}.tar.xz")


def pack_client(folder):
    """The packages of the client of tests/serving, for SITE_PYTHON."""
    pins = dict(re.findall(r"^([a-z_-]+)(?:\[[^]]*\])?==(\S+)", (ROOT / "tests/serving/requirements.txt").read_text("utf-8"), re.M))
    wanted = [f"{name}=={pins[name]}" if name in pins else name for name in SITE_PACKAGES]
    with tempfile.TemporaryDirectory() as there:
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                               "--no-compile", "--only-binary", ":all:", "--python-version", SITE_PYTHON, "--target", there, *wanted],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PackError(f"pip cannot install {', '.join(wanted)}: {done.stderr[-500:]}")
        archive(there, folder / f"{SITE}.tar.xz")


def pack(build_dir, folder, stages, server=None):
    """Writes what the stages take into `folder`: programs, stripped and compressed, their libraries, ONNX's test models, and of
    `server`, an unpacked wheel, Triton Inference Server with a client. Returns how many programs."""
    cache = build_dir / "CMakeCache.txt"
    if f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in (cache.read_text(encoding="utf-8") if cache.is_file() else ""):
        raise PackError(f"{build_dir} is no build folder of {ROOT}: scripts/test makes one")
    # Programs of older sources would pass for these.
    if subprocess.run(["cmake", "--build", build_dir], check=False).returncode != 0:
        raise PackError(f"building in {build_dir} failed")
    programs = programs_of(stages)
    absent = [name for name in programs if not file_of(build_dir, name)]
    if absent:
        raise PackError(f"{build_dir} has no {', '.join(absent)}: build everything first, with CUDA and cuDNN")
    if folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir()):
        raise PackError(f"{folder} holds something else: name an empty folder")
    shutil.rmtree(folder, ignore_errors=True)
    needed = {}
    def pack_stripped(program, to):
        stripped = folder / "stripped"
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["strip", "-o", stripped, program], check=True)
        compress(stripped, to)
        stripped.unlink()

    for name in programs:
        program = file_of(build_dir, name)
        needed.update({path.name: path for path in libraries(program)})
        pack_stripped(program, folder / "programs" / f"{program.relative_to(build_dir)}.xz")
    for name, path in sorted(needed.items()):
        pack_stripped(path, folder / "lib" / f"{name}.xz")
    if "serving" in stages and server:
        pack_server(server, folder)
        pack_client(folder)
    if "conformance" in stages and TESTDATA.is_dir():
        with tarfile.open(folder / TESTDATA_ARCHIVE, "w:xz") as archive:
            archive.add(TESTDATA, arcname=".")
    (folder / MANIFEST).write_text(json.dumps({"source_hash": source_hash()}) + "\n", encoding="utf-8")
    return len(programs)


def unpack(folder, build_dir):
    """Puts the programs of a pack into `build_dir`, with libraries where use_libraries() looks for them; programs of other
    sources than this tree's are refused."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise PackError(f"{folder} is no pack of scripts/gpu_pack: it has no {MANIFEST}")
    packed = json.loads(manifest.read_text(encoding="utf-8"))["source_hash"]
    here = source_hash()
    if packed != here:
        raise PackError(f"{folder} was built from other sources (pack {packed[:12]}, here {here[:12]})")
    for part, to in (("programs", build_dir), ("lib", build_dir / "lib")):
        for file in sorted((folder / part).rglob("*.xz")):
            target = (to / file.relative_to(folder / part)).with_suffix("")
            target.parent.mkdir(parents=True, exist_ok=True)
            with lzma.open(file) as source, open(target, "wb") as unpacked:
                shutil.copyfileobj(source, unpacked)
            target.chmod(0o755)
    for part in (TRITON, SITE):
        if (folder / f"{part}.tar.xz").is_file():
            shutil.unpack_archive(folder / f"{part}.tar.xz", build_dir / part)


def use_libraries(build_dir):
    """Lets programs find the libraries that came with them."""
    if (build_dir / "lib").is_dir():
        folders = [str(build_dir / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        os.environ["LD_LIBRARY_PATH"] = ":".join(folders)
