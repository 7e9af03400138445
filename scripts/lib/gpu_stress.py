"""The stage `stress` of scripts/gpu_check: engines, sessions and kernels side by side, every output compared.

Parts, of which a call may run some (--stress):
  mixed    scenarios of two processes with several engines and sessions each, one after the other, on every GPU that there
           is, until --stress-seconds have passed or one had a fault; their times add up over the calls, and with --missing
           those before count
  soak     with --stress soak: the processes of SOAK on every GPU for --stress-soak-seconds, in which sessions are made anew and
           engines read anew from their plans: memory by minutes, slow runs of the first and of the last; times add up over the calls
  kernels  each variant of each family of kernels, and each family, by itself and beside all kernels; on one GPU
  reports  what a user saw fail or not fail, as reported: REPORTED. With --time-limit none is started that would not end
           before, and --missing runs the rest
  before   with --before: programs of sources before a fix. The scenarios must find the fault in each of ten runs, and
           MobileNetV2 must not be slower than it was
The stage has run when engines were under load for LEAST_SECONDS, kernels have run, and no report lacks a seed where some
have.
"""
import concurrent.futures
import json
import os
import signal
import statistics
import subprocess
import threading
import time

ENGINES = "tests/stress/engine_stress"
KERNELS = "tests/stress/kernel_stress_tests"
BENCH = "bench/bench_engine"
PARTS = ("mixed", "soak", "kernels", "reports", "before")

SCENARIO_SECONDS = 40
LEAST_SECONDS = 900  # of GPU time under load by engines, over all calls and GPUs
SOAK_SECONDS = 480
SOAK_LEAST_SECONDS = 1800  # of GPU time, over all calls and GPUs
SOAK_WINDOW = 60
# Of memory, from the minute in the middle to the last, in medians: a leak grows on, while at first the allocators' pools fill.
MOST_GROWTH = 1.02
MOST_TAIL_GROWTH = 1.5  # of the 99.9th percentile, from the first minute to the last
REPORT_SECONDS = 30
START_SECONDS = 5  # of a process, at most
KERNELS_SECONDS = 60  # of the part kernels
LOST = ("device_lost", "wrong output")  # what a fault says, not a program that cannot run
REPORT_SEEDS = (1, 2, 3)
FAULT_RUNS = 10
BENCH_ROUNDS = 4
MOST_SLOWER = 1.01
TIMEOUT = 180  # of a process beyond the seconds of its load

V2 = "{mobilenet_v2}"  # the real model, or the zoo's
# Name, and of each process its longest pause between host calls (us) and its engines.
SCENARIOS = (
    ("a dynamic batcher, exact floats beside it",
     ((0, (f"{V2},input=bytes,sessions=8",)),
      (200, (f"{V2},precision=fp32,max_batch=8,sessions=3,calls=any",)))),
    ("large grids and small ones",
     ((0, (f"{V2},input=bytes,max_batch=128,sessions=3,calls=any,graph=0", f"{V2},max_batch=4,sessions=3,calls=any")),
      (2000, (f"{V2},precision=fp32,max_batch=48,sessions=2,programmatic=0",
              "network=mobilenet_v2,resolution=96,max_batch=32,sessions=2",
              "network=mobilenet_v2,precision=fp64,resolution=96,max_batch=4,sessions=1,calls=any")))),
    ("MobileNetV3 and EfficientNet-B0",
     ((0, ("network=mobilenet_v3_large,sessions=3,calls=any",
           "network=efficientnet_b0,precision=fp32,max_batch=8,sessions=2,input=bytes")),
      (200, ("network=mobilenet_v3_large,precision=fp32,max_batch=8,sessions=2,graph=0,calls=any",
             "network=efficientnet_b0,sessions=3,input=bytes,programmatic=0")))),
    ("ResNet-50 beside MobileNetV2",
     ((0, ("network=resnet50,max_batch=8,sessions=3,calls=any", f"{V2},sessions=4,max_batch=32")),
      (200, ("network=resnet50,precision=fp32,max_batch=4,sessions=2,input=bytes",
             f"{V2},precision=fp32,sessions=2,input=bytes,graph=0,programmatic=0")))),
    ("four networks in half, four in float",
     ((0, (f"{V2},input=bytes,sessions=3", "network=mobilenet_v3_large,max_batch=8,sessions=2,graph=0",
           "network=efficientnet_b0,max_batch=8,sessions=2", "network=resnet50,max_batch=4,sessions=2")),
      (1000, (f"{V2},precision=fp32,max_batch=8,sessions=2",
              "network=mobilenet_v3_large,precision=fp32,max_batch=4,sessions=2",
              "network=efficientnet_b0,precision=fp32,max_batch=4,sessions=2",
              "network=resnet50,precision=fp32,max_batch=2,sessions=2,graph=0")))),
)
COVERED = ("mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "resnet50")

RENEWED = "calls=any,renew=300,reload=20"
SOAK = (
    (0, (f"{V2},input=bytes,max_batch=32,sessions=4,{RENEWED}", f"network=mobilenet_v3_large,sessions=2,{RENEWED}")),
    (500, (f"{V2},precision=fp32,max_batch=8,sessions=3,{RENEWED}", f"network=efficientnet_b0,max_batch=8,sessions=2,{RENEWED}",
           f"network=resnet50,max_batch=4,sessions=2,graph=0,{RENEWED}")),
)

# Of one engine of MobileNetV2, without pauses: what was seen, and what was varied.
REPORTED = (
    ("eight threads, a CUDA graph", f"{V2},input=bytes,max_batch=16,sessions=8"),
    ("eight threads, eager", f"{V2},input=bytes,max_batch=16,sessions=8,graph=0"),
    ("eight threads, no programmatic launch", f"{V2},input=bytes,max_batch=64,sessions=8,programmatic=0"),
    ("the same without fused blocks and stem, a CUDA graph",
     f"{V2},input=bytes,max_batch=16,sessions=8,variants=block:layers+stem:layers"),
    ("the same without fused blocks and stem, eager",
     f"{V2},input=bytes,max_batch=16,sessions=8,graph=0,variants=block:layers+stem:layers"),
    ("the same without fused blocks and stem, no programmatic launch",
     f"{V2},input=bytes,max_batch=64,sessions=8,programmatic=0,variants=block:layers+stem:layers"),
    ("the same without a fused head, a CUDA graph", f"{V2},input=bytes,max_batch=16,sessions=8,variants=head:layers"),
    ("the same without a fused head, eager", f"{V2},input=bytes,max_batch=16,sessions=8,graph=0,variants=head:layers"),
    ("three threads, no programmatic launch", f"{V2},input=bytes,max_batch=64,sessions=3,programmatic=0"),
    ("three threads, eager", f"{V2},input=bytes,max_batch=64,sessions=3,graph=0"),
    ("three threads, a CUDA graph", f"{V2},input=bytes,max_batch=16,sessions=3"),
    ("three threads, floats", f"{V2},max_batch=16,sessions=3"),
    ("three threads, floats, max_batch 64", f"{V2},max_batch=64,sessions=3"),
    ("three threads, fp32", f"{V2},precision=fp32,input=bytes,max_batch=16,sessions=3"),
    ("three threads, fp32, floats", f"{V2},precision=fp32,max_batch=16,sessions=3"),
    ("three threads, whole batches", f"{V2},input=bytes,max_batch=16,sessions=3,batches=whole"),
    ("three threads, whole batches of 64", f"{V2},input=bytes,max_batch=64,sessions=3,batches=whole"),
    ("three threads, eighths of a batch", f"{V2},input=bytes,max_batch=64,sessions=3,batches=eighths"),
    ("three threads, eighths of a batch, eager", f"{V2},input=bytes,max_batch=64,sessions=3,batches=eighths,graph=0"),
    ("one session, bytes", f"{V2},input=bytes,max_batch=16,sessions=1"),
    ("one session, floats, eager", f"{V2},max_batch=16,sessions=1,graph=0"),
)


class Stress:
    def __init__(self, check):
        self.check = check
        self.model = check.real_model()
        self.lock = threading.Lock()
        self.results = check.record.setdefault("stress", {})
        if self.results.setdefault("source_hash", check.source_hash) != check.source_hash:  # kept(), until there are new ones
            self.results.clear()
            self.results["source_hash"] = check.source_hash
        self.stop = threading.Event()  # set by Ctrl-C

    def spec(self, text):
        """An engine as the program takes it."""
        return text.replace(V2, f"model={self.model}" if self.model.exists() else "network=mobilenet_v2")

    def start(self, build_dir, name, gpu, seconds, seed, pause, engines, window=0):
        """A process of engine_stress, and the file that it writes."""
        json_file = self.check.out / "stress" / f"{name}.json"
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.unlink(missing_ok=True)
        command = [build_dir / ENGINES, "--seconds", seconds, "--seed", seed, "--maxPause", pause, "--window", window,
                   "--json", json_file, *map(self.spec, engines)]
        log = open(json_file.with_suffix(".log"), "w", encoding="utf-8")
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT,
                                   env={**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)})
        return process, json_file, log

    def finish(self, started, seconds):
        """What a process says it did; `fault` is empty where all went well."""
        process, json_file, log = started
        late = ""
        try:
            code = process.wait(timeout=seconds + TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
            late = f"did not end within {seconds + TIMEOUT:.0f} s"
        if code == -signal.SIGINT:
            self.stop.set()  # it may know of Ctrl-C before this program does
        log.close()
        said = json_file.with_suffix(".log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        text = json_file.read_text(encoding="utf-8") if json_file.exists() else ""  # empty until the load ends
        result = json.loads(text) if text else {"seconds": 0, "fault": "", "engines": []}
        if code != 0 and not result["fault"]:
            result["fault"] = late or f"exit code {code}: {said[-1] if said else 'no output'}"
        for engine in result["engines"]:
            engine["engine"] = engine["engine"].replace(f"model={self.model}", "network=mobilenet_v2")
        result["fault"] = result["fault"].replace(f"model={self.model}", "network=mobilenet_v2")
        return result

    def scenario(self, build_dir, index, gpu, seed, seconds, label, until_fault=False):
        """The processes of a scenario. A fault ends its process alone, or, until_fault, the others too."""
        name, processes = SCENARIOS[index]
        started = [self.start(build_dir, f"{label}_{index}_{seed}_gpu{gpu}_{i}", gpu, seconds, seed + i, pause, engines)
                   for i, (pause, engines) in enumerate(processes)]
        others = []  # ended for the fault of another
        if until_fault:
            while all(process.poll() is None for process, _, _ in started):
                time.sleep(0.05)
            if any(process.poll() for process, _, _ in started):
                others = [one for one in started if one[0].poll() is None]
        for process, _, _ in others:
            process.terminate()
        results = [{**self.finish(one, seconds), **({"fault": ""} if one in others else {})} for one in started]
        return {"scenario": name, "gpu": gpu, "seed": seed, "seconds": round(max(one["seconds"] for one in results), 1),
                "processes": [{key: one[key] for key in ("fault", "engines")} for one in results]}

    def on_each(self, places, work):
        """Runs work(place) for all at a time; Ctrl-C lets none begin anything new."""
        with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
            try:
                list(pool.map(work, places))
            except KeyboardInterrupt:
                self.stop.set()
                raise

    def mixed(self):
        done = self.results.setdefault("mixed", [])
        places = list(enumerate(gpus()))
        seconds = self.check.arguments.stress_seconds
        if self.check.arguments.missing:
            seconds -= sum(run["seconds"] for run in done) / len(places)
        end = time.monotonic() + min(seconds, self.check.time_left() - START_SECONDS)
        first_turn = len(done) // len(places)

        def work(place):
            turn, gpu = first_turn + place[0], place[1]  # each GPU has all scenarios in turn, and begins with another
            while (left := end - time.monotonic()) > 1:
                run = self.scenario(self.check.build_dir, turn % len(SCENARIOS), gpu, 100 * turn + 10 * place[0] + 1,
                                    min(SCENARIO_SECONDS, left), "mixed")
                if self.stop.is_set():
                    return
                turn += 1
                with self.lock:
                    done.append(run)
                    self.tell(f"gpu {gpu}: {run['scenario']}", run["processes"])
                    self.check.save()
                if any(process["fault"] for process in run["processes"]):
                    return  # more of the same says no more, and a program that cannot run would be started for ever

        self.on_each(places, work)

    def soak(self):
        done = self.results.setdefault("soak", [])
        seconds = min(self.check.arguments.stress_soak_seconds, self.check.time_left() - START_SECONDS)
        window = min(SOAK_WINDOW, seconds / 4)
        first_seed = 1 + len(done)

        def work(place):
            index, gpu = place
            started = [self.start(self.check.build_dir, f"soak_{first_seed + index}_{i}", gpu, seconds, first_seed + index, pause,
                                  engines, window) for i, (pause, engines) in enumerate(SOAK)]
            processes = [self.finish(one, seconds) for one in started]
            with self.lock:
                done.append({"gpu": gpu, "source_hash": self.check.source_hash, "seed": first_seed + index, "window": window,
                             "processes": processes})
                self.tell(f"gpu {gpu}: soak", processes)
                self.check.save()

        self.on_each(list(enumerate(gpus())), work)

    def tell(self, what, results):
        runs = sum(engine["runs"] for one in results for engine in one["engines"])
        faults = "; ".join(one["fault"] for one in results if one["fault"])
        print(f"   {what}: {runs} runs, {faults or 'ok'}", flush=True)
        if faults:
            self.check.fail(f"stress: {what}: {faults}")

    def kernels(self):
        known = self.results.get("kernels")
        if self.check.arguments.missing and known and known["exit"] == 0:
            return
        if self.check.time_left() < KERNELS_SECONDS:
            print("   kernels: left to a later call", flush=True)
            return
        seconds = self.check.arguments.stress_kernel_seconds
        code, output = self.check.run([self.check.program(KERNELS), "--rng-seed", "1"], self.check.log("stress_kernels"),
                                      timeout=self.check.arguments.timeout,
                                      env={**os.environ, "MOBICUDA_STRESS_SECONDS": str(seconds)})
        print(output[-2000:])
        if code != 0 or "skipped: no CUDA device" in output:
            self.check.fail("stress: kernels")
        self.results["kernels"] = {"exit": code, "secondsOfVariant": seconds,
                                   "summary": (output.strip().splitlines() or ["no output"])[-1]}

    def reports(self):
        """Every seed of each in a process of its own; --stress-beside of them share a GPU."""
        done = self.results.setdefault("reports", {})
        wanted = [(name, engine, seed) for name, engine in REPORTED for seed in REPORT_SEEDS
                  if not (self.check.arguments.missing and report_key(name, seed) in done)]

        def work(gpu):
            while not self.stop.is_set():
                with self.lock:
                    if not wanted or self.check.time_left() < REPORT_SECONDS + START_SECONDS:
                        return
                    name, engine, seed = wanted.pop(0)
                label = f"report_{REPORTED.index((name, engine))}_{seed}"
                result = self.finish(self.start(self.check.build_dir, label, gpu, REPORT_SECONDS, seed, 0, [engine]),
                                     REPORT_SECONDS)
                if self.stop.is_set():
                    return
                with self.lock:
                    done[report_key(name, seed)] = {"beside": self.check.arguments.stress_beside,
                                                    **{key: result[key] for key in ("seconds", "fault", "engines")}}
                    self.tell(report_key(name, seed), [result])
                    self.check.save()

        self.on_each(gpus() * self.check.arguments.stress_beside, work)
        if wanted:
            print(f"   {len(wanted)} reports left to a later call: they would pass --time-limit", flush=True)

    def before(self):
        folder = self.check.arguments.before
        gpu = gpus()[0]
        found = []
        for run in range(FAULT_RUNS):
            start = time.monotonic()
            fault = ""
            for index in range(len(SCENARIOS)):
                its = self.scenario(folder, index, gpu, 1000 * (run + 1), SCENARIO_SECONDS, "before", until_fault=True)
                fault = next((one["fault"] for one in its["processes"] if one["fault"]), "")
                if fault:
                    break
            found.append({"fault": fault, "scenario": index, "seconds": round(time.monotonic() - start, 1)})
            print(f"   sources before the fix, run {run + 1}: {fault or 'nothing found'}", flush=True)
        self.results["before"] = {"faultRuns": found, "times": self.times(folder)}

    def times(self, folder):
        """MobileNetV2 by both builds in turn: {precision: {batch: [medians before, medians now]}}, in us."""
        times = {}
        for _ in range(BENCH_ROUNDS):
            for which, build_dir in enumerate((folder, self.check.build_dir)):
                json_file = self.check.out / "stress" / "times.json"
                json_file.unlink(missing_ok=True)
                code, output = self.check.run(
                    [build_dir / BENCH, "--impl", "custom", "--precision", "fp16,fp32", "--model", self.check.model(),
                     "--batch", "1,8,32,128,256", "--duration", "0.15", "--warmUp", "100", "--json", json_file],
                    self.check.log("stress_times"), timeout=self.check.arguments.timeout)
                if code != 0:
                    self.check.fail(f"stress: {build_dir / BENCH}: {output[-300:]}")
                    return {}
                for result in json.loads(json_file.read_text(encoding="utf-8"))["results"]:
                    case = times.setdefault(f"{result['precision']} batch {result['batch']}", [[], []])
                    case[which].append(round(1e3 * result["latencyMs"]["median"], 2))
        return times


def gpus():
    """Those that a process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return visible.split(",")
    done = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True,
                          check=True)
    return done.stdout.split()


def report_key(name, seed):
    return f"{name}, seed {seed}"


def default_seconds():
    """Of the part mixed: what is required, on these GPUs."""
    return LEAST_SECONDS / max(1, len(gpus()))


def run(check):
    stress = Stress(check)
    for part in PARTS:
        if part in check.arguments.stress:
            getattr(stress, part)()
            check.save()
    done = check.record["stress"]
    reports = done.get("reports") or {}
    lacking = [name for name, _ in REPORTED if any(report_key(name, seed) not in reports for seed in REPORT_SEEDS)]
    if sum(load_seconds(done)) < LEAST_SECONDS or not done.get("kernels") or (reports and lacking):
        check.unfinished.append("stress")


def kept(earlier):
    """What a record of these sources starts with, of one of other sources: a quarter of an hour of load says something of
    the next sources too, as long as nothing newer does. The rows of requirements() name the sources."""
    return {"stress": {"source_hash": earlier["source_hash"], **earlier["stress"]}} if earlier.get("stress") else {}


def requirements(record, add_row):
    stress = record.get("stress")
    if not stress:
        return

    def add_of(sources):
        other = f" (of other sources, {sources[:8]})" if sources != record.get("source_hash") else ""
        return lambda name, *columns: add_row(name + other, *columns)

    add = add_of(stress.get("source_hash", record.get("source_hash")))

    add_load(stress, add)
    soak = stress.get("soak") or []
    add_soak(soak, add_of(soak[-1]["source_hash"]) if soak else add)
    kernels = stress.get("kernels")
    if kernels:
        add("stress: the families of kernels that have variants, each variant by itself and beside all of them",
            "0 faults, 0 wrong outputs",
            f"exit code {kernels['exit']}, {kernels['secondsOfVariant']} s each: {kernels['summary']}",
            kernels["exit"] == 0)
    add_reports(stress.get("reports") or {}, add)
    before = stress.get("before")
    if before:
        found = sum(any(lost in one["fault"] for lost in LOST) for one in before["faultRuns"])
        longest = max(one["seconds"] for one in before["faultRuns"])
        add("stress: the fault of the sources before the fix", f"found in {FAULT_RUNS} of {FAULT_RUNS} runs",
            f"in {found} of {len(before['faultRuns'])}, within {longest} s", found == FAULT_RUNS)
        ratios = {case: statistics.median(now) / statistics.median(earlier)
                  for case, (earlier, now) in before["times"].items()}
        if ratios:
            worst = max(ratios, key=ratios.get)
            add(f"stress: times of MobileNetV2 against the sources before the fix, the worst of {len(ratios)}",
                f"<= +{100 * (MOST_SLOWER - 1):.0f} %", f"{100 * (ratios[worst] - 1):+.2f} % ({worst})",
                ratios[worst] <= MOST_SLOWER)


def load_seconds(stress):
    """GPU time under load by engines: of the scenarios, and of the reports, some of which shared a GPU."""
    return [sum(run["seconds"] for run in stress.get("mixed") or []),
            sum(one["seconds"] / one["beside"] for one in (stress.get("reports") or {}).values())]


def add_load(stress, add):
    """Over all engines: those of the scenarios, and those of the reports, some of which shared a GPU."""
    mixed, reports = stress.get("mixed") or [], list((stress.get("reports") or {}).values())
    processes = [process for run in mixed for process in run["processes"]] + reports
    if not processes:
        return
    times = load_seconds(stress)
    engines = [engine for process in processes for engine in process["engines"]]
    faults = sum(bool(process["fault"]) for process in processes)
    wrong = sum(engine["wrong"] for engine in engines)
    runs = sum(engine["runs"] for engine in engines)
    idle = sum(engine["runs"] == 0 for engine in engines)
    networks = {f"{network} {precision}": network_seconds(mixed, network, precision) for network in COVERED
                for precision in ("fp16", "fp32")}
    add("stress: MobileNetV2, MobileNetV3, EfficientNet-B0 and ResNet-50, fp16 and fp32, several processes, engines and "
        "sessions at a time", f">= {LEAST_SECONDS} s of GPU time in all, 0 faults, 0 wrong outputs",
        f"{times[0]:.0f} s of scenarios ({', '.join(f'{name} {seconds:.0f}' for name, seconds in networks.items())}), "
        f"{times[1]:.0f} s of MobileNetV2 as reported; {runs:,} runs, {faults} faults, {wrong} wrong",
        sum(times) >= LEAST_SECONDS and faults == 0 and wrong == 0 and idle == 0 and all(networks.values()))


def add_soak(done, add):
    processes = [process for run in done for process in run["processes"]]
    if not processes:
        return
    seconds = sum(min(process["seconds"] for process in run["processes"]) for run in done)
    engines = [engine for process in processes for engine in process["engines"]]
    faults = sum(bool(process["fault"]) for process in processes)
    wrong = sum(engine["wrong"] for engine in engines)
    add("stress: soak: several processes, engines and sessions at a time, sessions made anew, engines read anew from their plans",
        f">= {SOAK_LEAST_SECONDS} s of GPU time in all, 0 faults, 0 wrong outputs",
        f"{seconds:.0f} s, {sum(engine['runs'] for engine in engines):,} runs, {sum(engine['sessions'] for engine in engines):,} "
        f"sessions, {sum(engine['reloads'] for engine in engines):,} engines read, {faults} faults, {wrong} wrong",
        seconds >= SOAK_LEAST_SECONDS and faults == 0 and wrong == 0 and all(engine["reloads"] for engine in engines))
    watched = [process["memory"] for process in processes if "memory" in process]
    for kind in ("hostBytes", "deviceBytes"):
        growth = max((memory[kind][-1] / memory[kind][len(memory[kind]) // 2 - 1] for memory in watched
                      if memory[kind] and memory[kind][0]), default=None)
        if growth is not None:
            add(f"stress: soak: memory of the last minute against that in the middle, {kind.removesuffix('Bytes')}, the worst of "
                f"{len(watched)} processes", f"<= +{100 * (MOST_GROWTH - 1):.0f} %", f"{100 * (growth - 1):+.2f} %",
                growth <= MOST_GROWTH)
    slow = [(engine["last"]["p999Us"] / engine["first"]["p999Us"], engine) for engine in engines
            if engine.get("first") and engine.get("last")]
    if slow:
        ratio, engine = max(slow, key=lambda one: one[0])
        add(f"stress: soak: 99.9th percentile of runs in the last minute and in the first, the worst of {len(slow)} engines", f"<= {MOST_TAIL_GROWTH}x",
            f"{ratio:.2f}x ({engine['last']['p999Us']:.0f} / {engine['first']['p999Us']:.0f} us, {engine['engine']})", ratio <= MOST_TAIL_GROWTH)


def network_seconds(mixed, network, precision):
    """Of the scenarios in which an engine of that network ran."""
    def there(engine):
        return (network in engine["engine"] and engine["runs"] > 0
                and ("precision=fp32" in engine["engine"]) == (precision == "fp32"))
    return sum(run["seconds"] for run in mixed
               if any(there(engine) for process in run["processes"] for engine in process["engines"]))


def add_reports(done, add):
    if not done:
        return
    for name, engine in REPORTED:
        results = [done.get(report_key(name, seed)) for seed in REPORT_SEEDS]
        there = [result for result in results if result]
        runs = sum(its["runs"] for result in there for its in result["engines"])
        faults = [result["fault"] for result in there if result["fault"]]
        short = [result for result in there if result["seconds"] < REPORT_SECONDS
                 or not all(its["runs"] for its in result["engines"])]
        add(f"stress: {name} ({engine.replace(V2, 'mobilenet_v2')})",
            f"ok for {REPORT_SECONDS} s, {len(REPORT_SEEDS)} seeds",
            f"{len(there)} seeds, {runs:,} runs, {faults[0] if faults else 'ok'}",
            len(there) == len(REPORT_SEEDS) and not faults and not short)
