"""The stage `serving` of scripts/gpu_check: Triton Inference Server with libtriton_mobicuda.so, loaded over gRPC on the loopback
interface by bench/serving/serving_load, answers compared with those to the same images alone (docs/serving.md).

Parts, each with servers of its own:
  rates     requests of one image and of many, UINT8 and JPEG, tensors in system shared memory; one client at a time
  overload  more requests than are served: which code, how long the accepted ones take, what is left of it
  kills     one of two servers is killed, again and again, under a client that asks again
  models    models come, change and go while another one is under load
  gpus      requests of many images on one GPU and on two, where there are two
"""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import gpu_programs
import triton_server

ROOT = pathlib.Path(__file__).resolve().parents[2]

LOAD = "bench/serving/serving_load"
BACKEND = "serving/backends/mobicuda/libtriton_mobicuda.so"
PARTS = ("rates", "overload", "kills", "models", "gpus")
PART_SECONDS = {"rates": 60, "overload": 110, "kills": 40, "models": 25, "gpus": 50}  # with the start of servers; models: and its soak

CLIENTS = 64          # of requests of one image
IMAGES = 64           # of a large request
LARGE_CLIENTS = 24
MOST_BATCH = 128
OVERLOAD_IMAGES = 8   # of a request: the network is the limit then, not what is in front of it
OVERLOAD_QUEUE = 8    # requests
OVERLOAD_INSTANCES = 2
OVERLOAD_CLIENTS = OVERLOAD_QUEUE  # that are never refused
LEAST_TWO_GPUS = 1.9  # times the rate of one
GPUS_MEMORIES = {"system": "system shared memory", "cuda": "CUDA shared memory"}
GROWTH = 64 << 20     # bytes that a server may grow by under a load that goes on
MIB = 1 << 20


@dataclasses.dataclass
class Scale:
    """How much of everything: the GPU's by default, less where a test goes through the stage on the CPU engine."""
    gpu: bool = True
    seconds: float = 2.5       # of a case
    warm_up: float = 1.0
    instances: tuple = (2, 4)  # of requests of one image
    large_instances: tuple = (6, 12)  # each copies its images to page-locked memory on one core
    overload_seconds: float = 60
    kills: int = 3
    soak_seconds: float = 15
    precisions: tuple = ("fp16", "fp32")  # of the rates, and of the server that is overloaded
    model: tuple = ()          # options of mobicuda_write_model, of a network that stands in for the real one


class Stage:
    def __init__(self, check, scale, triton):
        self.check, self.scale, self.triton = check, scale, triton
        self.folder = check.out / "serving"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.results = check.record.setdefault("serving", {})
        self.kind = "KIND_CPU"
        if scale.gpu:
            self.kind = self.results["kind"] = self.kind_of_gpu()

    def kind_of_gpu(self):
        """Of instances: on the GPU as the server sees it, or, where it sees none, as the library does."""
        self.kind = "KIND_GPU"
        repository = self.repository("kind")
        self.add_model(repository, "probe", "TYPE_UINT8", 1, 1, self.scale.precisions[0])
        try:
            with self.server(repository, "kind"):
                return "KIND_GPU"
        except RuntimeError as error:
            with open(self.check.log("serving"), "a", encoding="utf-8") as file:
                file.write(f"== KIND_GPU\n{error}\n")
            return "KIND_MODEL"

    def network(self, seed=1):
        """An ONNX file: the real network, or one with seeded weights."""
        if not self.scale.model and seed == 1:
            return self.check.model()
        file = self.folder / f"network_{seed}.onnx"
        if not file.exists():
            code, output = self.check.run([self.check.program("models/mobicuda_write_model"), "--output", file, "--seed", seed,
                                           *self.scale.model], self.check.log("serving"))
            if code != 0:
                raise RuntimeError(f"mobicuda_write_model: {output[-300:]}")
        return file

    def add_model(self, repository, name, data_type, most, instances, precision, more="", seed=1, gpus=None):
        """`instances` of each of the GPUs; by default of the first one alone."""
        placed = f" gpus: {list(gpus or (0,))}" if self.kind == "KIND_GPU" else ""
        (repository / name / "1").mkdir(parents=True)
        shutil.copy(self.network(seed), repository / name / "1" / "model.onnx")
        (repository / name / "config.pbtxt").write_text(
            f'backend: "mobicuda"\nmax_batch_size: {most}\ninput [ {{ data_type: {data_type} }} ]\n'
            f"instance_group [ {{ kind: {self.kind} count: {instances}{placed} }} ]\n"
            f'parameters {{ key: "precision" value {{ string_value: "{precision}" }} }}\n'
            f"{more}\n", encoding="utf-8")

    def repository(self, name):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def server(self, repository, name, **more):
        return triton_server.Server(self.triton, self.check.program(BACKEND).parents[1], repository, self.folder / f"{name}.log",
                                    **more)

    def load(self, server, model, seconds=None, **options):
        """serving_load's document; None where it failed, which is told."""
        process = self.start_load(server, model, self.scale.seconds if seconds is None else seconds, options)
        told = "".join(f", {name} {value}" for name, value in options.items() if name != "files")
        return self.finish_load(process, model + told)

    def start_load(self, server, model, seconds, options):
        options = {"warmUp": self.scale.warm_up, "threads": 4, "seed": 1, **options}
        command = [self.check.program(LOAD), server.grpc_url, model, "--seconds", seconds,
                   *(word for name, value in options.items() for word in (f"--{name}", *(value if isinstance(value, list) else [value])))]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish_load(self, process, what):
        output, errors = process.communicate(timeout=600)
        with open(self.check.log("serving"), "a", encoding="utf-8") as file:
            file.write(f"== {what}\n{output}{errors}\n")
        if not output:
            self.check.fail(f"serving: {what}: {errors[-500:]}")
            return None
        result = json.loads(output)
        if process.returncode != 0:
            self.check.fail(f"serving: {what}: {result['wrong']} wrong answers")
        rounded = result["latencyUs"] and {name: round(value) for name, value in result["latencyUs"].items()}
        print(f"   {what}: {result['imagesPerSecond']:,.0f} img/s, {rounded} us, {result['statuses']}, {result['wrong']} wrong, "
              f"{result['coresBusy']:.1f} cores", flush=True)
        return result

    # ---- rates ------------------------------------------------------------------------------------

    def rates(self):
        half = self.scale.precisions[0]
        repository = self.repository("rates")
        for count in self.scale.instances:
            self.add_model(repository, f"one_{count}", "TYPE_UINT8", IMAGES, count, half)
            self.add_model(repository, f"jpeg_{count}", "TYPE_STRING", IMAGES, count, half)
        for count in self.scale.large_instances:
            self.add_model(repository, f"many_{count}", "TYPE_UINT8", MOST_BATCH, count, half)
        pictures = self.pictures()
        rows = []
        with self.server(repository, "rates") as server:
            def measure(what, model, instances, **options):
                cpu = server.cpu_seconds()
                result = self.load(server, model, **options)
                if result:
                    rows.append({"case": what, "instances": instances, "serverCores": (server.cpu_seconds() - cpu) /
                                 (self.scale.seconds + self.scale.warm_up), **result})

            for count in self.scale.instances:
                measure("one UINT8 image a request", f"one_{count}", count, clients=CLIENTS)
            for count in self.scale.instances[-1:]:
                measure("one UINT8 image a request, in the message", f"one_{count}", count, clients=CLIENTS, memory="message")
            for count in self.scale.instances if pictures else ():
                measure("one JPEG a request", f"jpeg_{count}", count, clients=CLIENTS, sets=2 * CLIENTS, files=pictures)
            for count in self.scale.large_instances:
                measure(f"{IMAGES} UINT8 images a request", f"many_{count}", count, clients=LARGE_CLIENTS, sets=4, images=IMAGES)
            for count in self.scale.large_instances[:1] if self.kind == "KIND_GPU" else ():
                measure(f"{IMAGES} UINT8 images a request, in CUDA shared memory", f"many_{count}", count, clients=LARGE_CLIENTS,
                        sets=4, images=IMAGES, memory="cuda")
            measure("one UINT8 image at a time", f"one_{self.scale.instances[0]}", self.scale.instances[0], clients=1, threads=1)
        if not pictures:
            print(f"   no pictures in {self.check.picture_folder()}: JPEG is left out", flush=True)
        report = self.check.bench_engine(
            "serving_alone", "--impl", "custom" if self.scale.gpu else "cpu", "--precision", half, "--batch", "1", "--input", "uint8",
            "--model", self.network(), "--duration", "0.5")
        return {"cases": rows, "runStagedUs": report and 1e3 * report["results"][0]["hostMs"]["median"]}

    def pictures(self):
        folder = self.check.picture_folder()
        return sorted(map(str, folder.rglob("*.jp*g")))[:2 * CLIENTS] if folder.is_dir() else []

    # ---- overload ---------------------------------------------------------------------------------

    def overload(self):
        repository = self.repository("overload")
        limit = f'parameters {{ key: "max_queue_size" value {{ string_value: "{OVERLOAD_QUEUE}" }} }}'
        self.add_model(repository, "limited", "TYPE_UINT8", 4 * OVERLOAD_IMAGES, OVERLOAD_INSTANCES, self.scale.precisions[1], limit)
        case = {"images": OVERLOAD_IMAGES, "clients": OVERLOAD_CLIENTS, "sets": 4}
        with self.server(repository, "overload") as server:
            # Long enough that a stall of the host counts here as it does below.
            busy = self.load(server, "limited", self.scale.overload_seconds / 3, **case)
            rate = 2 * busy["requestsPerSecond"]
            process = self.start_load(server, "limited", self.scale.overload_seconds, {**case, "rate": rate})
            time.sleep(self.scale.warm_up + self.scale.overload_seconds / 3)
            before = server.resident_bytes()
            over = self.finish_load(process, f"limited, {rate:.0f} requests a second")
            grown = server.resident_bytes() - before
            after = self.load(server, "limited", 1.0, **case, warmUp=0)
        return {"busy": busy, "over": over, "after": after, "grownBytes": grown}

    # ---- servers that are killed ------------------------------------------------------------------

    def kills(self):
        repository = self.repository("kills")
        self.add_model(repository, "killed", "TYPE_UINT8", 8, 1, self.scale.precisions[0])
        ports = triton_server.free_ports(3)
        with self.server(repository, "stays") as stays:
            goes = self.server(repository, "goes", ports=ports)
            client = subprocess.Popen([self.check.arguments.python, ROOT / "tests/serving/asking_again.py", "killed", stays.grpc_url,
                                       goes.grpc_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, env=self.client_environment())
            try:
                client.stdout.readline()  # it has its first answers
                done = 0
                while done < self.scale.kills and client.poll() is None:
                    time.sleep(1)
                    goes.process.send_signal(signal.SIGKILL)
                    goes.process.wait(60)
                    done += 1
                    time.sleep(0.5)  # the other one has it all
                    goes = self.server(repository, "goes", ports=ports)
                time.sleep(1)
                output, errors = client.communicate("\n", timeout=120)
            finally:
                client.kill()
                goes.kill()
        if client.returncode != 0:
            raise RuntimeError(f"the client that asks again: {errors[-500:]}")
        result = {"kills": done, **json.loads(output)}
        print(f"   {result}", flush=True)
        return result

    def client_environment(self):
        """Where the client's packages lie: those that came with the pack, else those of --python itself."""
        site = self.check.build_dir / gpu_programs.SITE
        return {**os.environ, "PYTHONPATH": str(site)} if site.is_dir() else dict(os.environ)

    # ---- models that come and go ------------------------------------------------------------------

    def models(self):
        repository = self.repository("models")
        half = self.scale.precisions[0]
        self.add_model(repository, "stays", "TYPE_UINT8", 32, 2, half)
        names = ("comes_0", "comes_1", "comes_2")
        for i, name in enumerate(names):
            self.add_model(repository, name, "TYPE_UINT8", 8, 1, half, seed=2 + i)
        with self.server(repository, "models", models=["stays"]) as server:
            process = self.start_load(server, "stays", self.scale.soak_seconds, {"clients": 16})
            end = time.monotonic() + self.scale.warm_up + self.scale.soak_seconds
            turns, failed, sizes = 0, [], []
            while time.monotonic() < end - 1:
                try:
                    self.turn(server, repository, names, turns)
                except (OSError, RuntimeError) as error:
                    failed.append(f"{error}: {error.read().decode(errors='replace')}" if isinstance(error, urllib.error.HTTPError)
                                  else str(error))
                turns += 1
                sizes.append((server.resident_bytes(), self.gpu_bytes()))
            result = self.finish_load(process, f"beside {turns} turns of three models")
        first = sizes[len(sizes) // 3] if sizes else (0, 0)
        last = sizes[-1] if sizes else (0, 0)
        return {"turns": turns, "failed": failed[:3], "load": result, "grownBytes": last[0] - first[0],
                "grownGpuBytes": last[1] - first[1]}

    # ---- two GPUs ---------------------------------------------------------------------------------

    def gpus(self):
        """The same requests to a server of one GPU and to one of two, each with the same instances and clients for each GPU."""
        if not self.scale.gpu or gpu_programs.gpus() < 2 or self.kind != "KIND_GPU":
            print("   gpus: there are no two of them: left out", flush=True)
            return None
        rows = []
        for placed in ((0,), (0, 1)):
            repository = self.repository(f"gpus_{len(placed)}")
            name, instances = f"on_{len(placed)}", self.scale.large_instances[0]
            self.add_model(repository, name, "TYPE_UINT8", MOST_BATCH, instances, self.scale.precisions[0], gpus=placed)
            with self.server(repository, f"gpus_{len(placed)}") as server:
                for memory in GPUS_MEMORIES:
                    cpu = server.cpu_seconds()
                    result = self.load(server, name, clients=LARGE_CLIENTS * len(placed), sets=4, images=IMAGES,
                                       threads=4 * len(placed), memory=memory, gpus=len(placed))
                    if result is None:
                        raise RuntimeError(f"{name} failed")
                    rows.append({"gpus": len(placed), "instances": instances * len(placed), "serverCores":
                                 (server.cpu_seconds() - cpu) / (self.scale.seconds + self.scale.warm_up), **result})
        return rows

    def turn(self, server, repository, names, number):
        """Each model is loaded, asked, changed and loaded again while it is there, asked, and unloaded."""
        for name in names:
            ask(server, f"v2/repository/models/{name}/load")
            self.ask_once(server, name)
            config = repository / name / "config.pbtxt"
            text = config.read_text(encoding="utf-8").split("version_policy")[0]
            config.write_text(f"{text}version_policy {{ latest {{ num_versions: {2 + number % 2} }} }}\n", encoding="utf-8")
            ask(server, f"v2/repository/models/{name}/load")
            self.ask_once(server, name)
            ask(server, f"v2/repository/models/{name}/unload")

    def ask_once(self, server, name):
        process = self.start_load(server, name, 0.05, {"clients": 1, "threads": 1, "sets": 2, "warmUp": 0})
        output, errors = process.communicate(timeout=60)
        if process.returncode != 0:
            raise RuntimeError(f"{name}: {errors[-300:]}{output[-300:]}")

    def gpu_bytes(self):
        if not self.scale.gpu:
            return 0
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                              text=True, check=True)
        return int(done.stdout.split()[0]) * MIB


def ask(server, path, body=b"{}"):
    with urllib.request.urlopen(urllib.request.Request(f"http://{server.http_url}/{path}", data=body), timeout=60) as answer:
        return answer.read()


def default_triton(build_dir):
    """The server's folder: of a pack, else where scripts/test installs it; None where there is none."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "mobicuda"
    found = [build_dir / gpu_programs.TRITON, *sorted(cache.glob("serving-*/triton"))]
    return next((folder for folder in found if (folder / triton_server.PROGRAM).is_file()), None)


def build_options(build_dir):
    """CMake's, where there is a server to load."""
    return ["-DMOBICUDA_TRITON=ON"] if default_triton(build_dir) else []


def run(check, scale, parts=PARTS):
    triton = default_triton(check.build_dir)
    if triton is None or not check.program(LOAD).is_file():
        print("== serving: no Triton Inference Server (scripts/test installs one, scripts/gpu_pack takes it along), or no grpc++ "
              "for serving_load: left out")
        check.unfinished.append("serving")
        return
    if not check.arguments.missing:
        for part in parts:
            check.record.get("serving", {}).pop(part, None)
    stage = Stage(check, scale, triton)
    for part in parts:
        if part in stage.results:
            continue
        if check.time_left() < PART_SECONDS[part] + (scale.soak_seconds if part == "models" else 0):
            check.unfinished.append("serving")
            print(f"   {part}: left to a later call", flush=True)
            continue
        start = time.monotonic()
        try:
            result = getattr(stage, part)()
            if result is not None:
                stage.results[part] = result
        except (OSError, RuntimeError, subprocess.SubprocessError, TypeError) as error:  # the other parts still say something
            check.fail(f"serving: {part}: {error}")
        print(f"   {part}: {time.monotonic() - start:.0f} s", flush=True)
        check.save()


def requirements(record, add):
    """Calls add(name, target, measured, met) for what was measured."""
    serving = record.get("serving") or {}
    if "rates" in serving:
        add_rates(serving["rates"], add)
    if "overload" in serving:
        add_overload(serving["overload"], add)
    if "kills" in serving:
        kills = serving["kills"]
        add("serving: kill -9 of one of two servers under load", "0 requests lost, 0 wrong",
            f"{kills['kills']} kills, {kills['answers']:,} answers, {kills['retries']} asked again, {kills['lost']} lost, "
            f"{kills['wrong']} wrong", kills["kills"] > 0 and kills["lost"] == 0 and kills["wrong"] == 0)
    if serving.get("gpus"):
        add_gpus(serving["gpus"], add)
    if "models" in serving:
        models = serving["models"]
        load = models["load"] or {"wrong": -1, "statuses": {}}
        others = {status: count for status, count in load["statuses"].items() if status != "OK"}
        add("serving: three models loaded, changed and unloaded, over and over, beside one under load",
            f"0 wrong, 0 failed, grows by <= {GROWTH // MIB} MiB after the first third",
            f"{load.get('seconds', 0):.0f} s, {models['turns']} turns, {load['statuses'].get('OK', 0):,} answers, {load['wrong']} wrong, {others or 0} failed, "
            f"host {models['grownBytes'] / MIB:+.0f} MiB, GPU {models['grownGpuBytes'] / MIB:+.0f} MiB"
            + "".join(f"; {text}" for text in models["failed"]),
            models["turns"] > 0 and not models["failed"] and load["wrong"] == 0 and not others
            and max(models["grownBytes"], models["grownGpuBytes"]) <= GROWTH)


def add_gpus(rows, add):
    """The best of the memories that tensors may lie in has to suffice; the others are told beside it."""
    ratios, texts, wrong = [], [], 0
    for memory, name in GPUS_MEMORIES.items():
        pair = [row for row in rows if row["memory"] == memory]
        if len(pair) != 2:
            continue
        one, two = pair
        ratios.append(two["imagesPerSecond"] / one["imagesPerSecond"])
        wrong += one["wrong"] + two["wrong"]
        texts.append(f"{ratios[-1]:.2f}x in {name} ({two['imagesPerSecond']:,.0f} / {one['imagesPerSecond']:,.0f} img/s, "
                     f"{two['serverCores']:.1f} + {two['coresBusy']:.1f} cores)")
    add(f"serving: two GPUs against one, {IMAGES} UINT8 images a request", f">= {LEAST_TWO_GPUS}x",
        f"{', '.join(texts)}; {wrong} wrong", max(ratios) >= LEAST_TWO_GPUS and wrong == 0)


def add_rates(rates, add):
    def best(case, most_p99_us=float("inf")):
        """The fastest of the case's that are in time; else the fastest of all."""
        of_case = [row for row in rates["cases"] if row["case"] == case]
        return max((row for row in of_case if row["latencyUs"]["p99"] <= most_p99_us), default=None,
                   key=lambda row: row["imagesPerSecond"]) or max(of_case, default=None, key=lambda row: row["imagesPerSecond"])

    def told(row):
        return (f"{row['imagesPerSecond']:,.0f} img/s, p50 {row['latencyUs']['p50'] / 1e3:.2f} ms, p99 "
                f"{row['latencyUs']['p99'] / 1e3:.2f} ms, {row['instances']} instances, {row['serverCores']:.1f} + "
                f"{row['coresBusy']:.1f} cores, {row['wrong']} wrong")

    def right(row):
        return row["wrong"] == 0 and set(row["statuses"]) == {"OK"}

    if row := best("one UINT8 image a request", 5000):
        add(f"serving: one UINT8 image a request, {CLIENTS} clients, system shared memory", ">= 15,000 img/s at p99 <= 5 ms", told(row),
            right(row) and row["imagesPerSecond"] >= 15e3 and row["latencyUs"]["p99"] <= 5e3)
    if row := best("one JPEG a request"):
        add(f"serving: one JPEG a request, {CLIENTS} clients", ">= 10,000 img/s", told(row), right(row) and row["imagesPerSecond"] >= 10e3)
    if row := best(f"{IMAGES} UINT8 images a request"):
        add(f"serving: {IMAGES} UINT8 images a request, {LARGE_CLIENTS} clients, system shared memory", ">= 150,000 img/s", told(row),
            right(row) and row["imagesPerSecond"] >= 150e3)
    row = best("one UINT8 image at a time")
    if row and rates["runStagedUs"]:
        added = row["latencyUs"]["p50"] - rates["runStagedUs"]
        add("serving: one client, one UINT8 image: added to Session::run_staged by server, backend and client", "<= 250 us",
            f"{added:.0f} us ({row['latencyUs']['p50']:.0f} - {rates['runStagedUs']:.0f} us, medians)", right(row) and added <= 250)


def add_overload(overload, add):
    busy, over, after = overload["busy"], overload["over"], overload["after"]
    if not busy or not over or not after:
        return
    most = 2 * busy["latencyUs"]["p99"]
    statuses = set(over["statuses"])
    add("serving: twice as many requests as are served", "the others UNAVAILABLE, p99 of the accepted <= 2x",
        f"{over['rate']:,.0f} a second for {over['seconds']:.0f} s: {over['statuses']}, {over['notSent']} not sent, p99 "
        f"{over['latencyUs']['p99'] / 1e3:.2f} ms against {busy['latencyUs']['p99'] / 1e3:.2f} ms, {over['wrong']} wrong",
        statuses == {"OK", "UNAVAILABLE"} and over["notSent"] == 0 and over["wrong"] == 0 and over["latencyUs"]["p99"] <= most)
    add("serving: memory while too many requests come", f"grows by <= {GROWTH // MIB} MiB after the first third",
        f"{overload['grownBytes'] / MIB:+.0f} MiB", overload["grownBytes"] <= GROWTH)
    add("serving: the second after too many requests came", "all answered, p99 <= 2x",
        f"{after['statuses']}, p99 {after['latencyUs']['p99'] / 1e3:.2f} ms",
        set(after["statuses"]) == {"OK"} and after["latencyUs"]["p99"] <= most)
