"""What the peers have in common: options, statistics, the loop over configurations, README.md's document.

A configuration is a dict of `network`, `mode`, `precision`, `batch` and, where an engine has several, `format`.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import time

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ABSENT = 4
LEAST_RUNS = 200
START = time.monotonic()  # of the script, for --time-limit
CONFIGURATION = ("network", "mode", "precision", "batch", "format")
LISTS = ("results", "failed", "absent", "left")


class DeviceLost(Exception):
    """A configuration has left the device unusable: this process can measure no other."""


def list_of(kind, choices=None):
    """argparse type: a comma-separated list."""

    def parse(text):
        values = [kind(part) for part in text.split(",")]
        for value in values:
            if choices and value not in choices:
                raise argparse.ArgumentTypeError(f"'{value}' is not one of {', '.join(choices)}")
            if kind is int and value < 1:
                raise argparse.ArgumentTypeError(f"{value} is not a positive number")
        return values

    return parse


def statistics_of(microseconds):
    """Median, mean and 90th percentile (nearest rank) of single runs."""
    times = sorted(microseconds)
    middle = len(times) // 2
    median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
    rank = max(0, -(-9 * len(times) // 10) - 1)
    return {"median_us": median, "mean_us": sum(times) / len(times), "p90_us": times[rank], "runs": len(times)}


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def gpu_name(device=0):
    """As nvidia-smi has it; empty without a GPU."""
    try:
        done = subprocess.run(["nvidia-smi", f"--id={device}", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip().split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


def key_of(row):
    """Of a configuration, or of any row of a document that has one."""
    return tuple(row.get(field) for field in CONFIGURATION)


def title_of(configuration):
    network, mode, precision, batch, memory_format = key_of(configuration)
    known = [f"{mode or '':17}", precision, batch and f"batch {batch:4}", memory_format]
    return " ".join(filter(None, [network, *known])).rstrip()


class Document:
    """Results so far; written after each, so that what was measured survives a time limit."""

    def __init__(self, arguments, engine, **facts):
        self.path = arguments.json
        earlier = self.read() if arguments.resume and os.path.exists(self.path) else {}
        self.facts = {name: fact for name, fact in earlier.items() if name not in LISTS}
        self.lists = {name: earlier.get(name, []) for name in LISTS}
        self.lists["absent"] = []  # what was absent then may be there now
        self.tell(engine=engine, **facts)
        if not earlier:
            self.write()

    def read(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                content = json.load(file)
        except ValueError as error:
            self.refuse(f"is no JSON: {error}")
        if not isinstance(content, dict) or "results" not in content:
            self.refuse("is no document of bench/peers")
        return content

    def refuse(self, reason):
        print(f"--resume: {self.path} {reason}", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_USAGE)

    def tell(self, **facts):
        """Facts of all rows. Ends the script where the file to resume tells others."""
        for name, fact in facts.items():
            if self.facts.get(name, fact) != fact:
                self.refuse(f"was measured with {name} {self.facts[name]}, which is {fact} now: give another --json "
                            "file, or leave --resume out")
        self.facts.update(facts)

    def plan(self, configurations):
        """Those that have no result yet, in their order, but last what failed in an earlier call. They are `left` until
        they are measured or fail, so that a script that is killed has told what it did not come to."""
        configurations = list(configurations)
        measured, failed = ({key_of(row) for row in self.lists[name]} for name in ("results", "failed"))
        chosen = set(map(key_of, configurations))
        missing = [one for one in configurations if key_of(one) not in measured]
        missing.sort(key=lambda one: key_of(one) in failed)
        for name in ("failed", "left"):
            self.lists[name] = [row for row in self.lists[name] if row.get("mode") and key_of(row) not in chosen]
        self.lists["left"] += missing
        self.write()
        return missing

    def came_to(self, configuration):
        self.lists["left"] = [row for row in self.lists["left"] if key_of(row) != key_of(configuration)]

    def add(self, configuration, statistics, **more):
        per_second = 1e6 * configuration["batch"] / statistics["median_us"]
        row = {**configuration, **statistics, "images_per_second": per_second, **more}
        self.lists["results"].append(row)
        self.came_to(configuration)
        print(f"{title_of(row)}: median {row['median_us']:9.1f} us, mean {row['mean_us']:9.1f} us, "
              f"{row['images_per_second']:9.0f} img/s", flush=True)
        self.write()

    def fail(self, configuration, error):
        """Something that fails before there are configurations has `network` and an empty `mode`."""
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
        self.lists["failed"].append({**configuration, "error": reason})
        self.came_to(configuration)
        print(f"{title_of(configuration)}: failed: {reason}", flush=True)
        self.write()

    def absent(self, mode, reason):
        """A mode that this machine cannot run; an empty one stands for the whole engine."""
        self.lists["absent"].append({"mode": mode, "reason": reason})
        print(f"absent: {' '.join(filter(None, (self.facts['engine'], mode)))}: {reason}", flush=True)
        self.write()

    def exit_code(self):
        if self.lists["failed"]:
            return EXIT_FAILED
        if any(not row["mode"] for row in self.lists["absent"]):
            return EXIT_ABSENT
        return 0 if self.lists["results"] or self.lists["left"] else EXIT_ABSENT

    def write(self):
        if self.path:
            whole = f"{self.path}.new"  # a reader never sees half a document
            with open(whole, "w", encoding="utf-8") as file:
                json.dump({**self.facts, **self.lists}, file, indent=1)
                file.write("\n")
            os.replace(whole, self.path)


def measure_all(document, configurations, measure, guesses, time_limit):
    """Adds to the document what it lacks: `measure(**configuration)` gives statistics and what else a row has.

    With a time limit (seconds of this script) a configuration starts only if it should end before: it is expected to
    take as long as the longest of its mode so far, in earlier calls too, and before there is one as long as `guesses`
    says of the mode."""
    longest = {}
    for row in document.lists["results"]:
        longest[row["mode"]] = max(longest.get(row["mode"], 0), row.get("seconds", 0))
    for configuration in document.plan(configurations):
        mode = configuration["mode"]
        expected = longest.get(mode) or guesses[mode]
        if time_limit is not None and time.monotonic() - START + expected > time_limit:
            print(f"{title_of(configuration)}: left, {expected:.0f} s would pass --time-limit", flush=True)
            continue
        started = time.monotonic()
        try:
            statistics, more = measure(**configuration)
            seconds = time.monotonic() - started
            document.add(configuration, statistics, seconds=seconds, **more)
            longest[mode] = max(longest.get(mode, 0), seconds)
        except DeviceLost as error:
            document.fail(configuration, error)
            break
        except Exception as error:  # whatever one configuration dies of, the others are still wanted
            document.fail(configuration, error)
            longest[mode] = max(expected, time.monotonic() - started)  # it may have failed early
    if document.lists["left"]:
        print(f"left to a later call: {len(document.lists['left'])} configurations (--resume)", flush=True)


def input_of(onnx, model):
    """Name and extents of the network's one input, 0 for those that the file leaves open."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if len(inputs) != 1:
        raise ValueError(f"the network has {len(inputs)} inputs, one is expected")
    return inputs[0].name, [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]


def shape_for(extents, batch):
    """The input's extents with this batch. Raises ValueError where the file has another one."""
    if extents[0] not in (0, batch):
        raise ValueError(f"the file is for batch {extents[0]}; mobicuda_write_model --batch 0 leaves it open")
    if 0 in extents[1:]:
        raise ValueError("the file leaves more than the batch open")
    return [batch, *extents[1:]]


def parse(parser):
    """The arguments, with what the scripts share checked."""
    arguments = parser.parse_args()
    if arguments.runs < LEAST_RUNS:
        parser.error(f"--runs must be at least {LEAST_RUNS}")
    if arguments.resume and not arguments.json:
        parser.error("--resume needs --json FILE")
    model = getattr(arguments, "model", None)
    if model is not None and not model.is_file():
        parser.error(f"--model: no such file: {model}")
    return arguments


def add_document_options(parser):
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--resume", action="store_true", help="keep what FILE has, if it is there, and measure what it "
                        "lacks or what failed; refused where FILE is of another version or device")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="from the start of the script, after "
                        "which no configuration is expected to end; those that would are left out and named in FILE; default "
                        "none")


def add_common_options(parser, precisions, default_batches):
    parser.add_argument("--precisions", type=list_of(str, precisions), default=list(precisions),
                        help=f"default {','.join(precisions)}")
    parser.add_argument("--batches", type=list_of(int), default=default_batches,
                        help=f"default {','.join(map(str, default_batches))}")
    parser.add_argument("--runs", type=int, default=400, help=f"timed runs, at least {LEAST_RUNS}; default 400")
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds before timing, default 0.3")
    parser.add_argument("--device", type=int, default=0, help="CUDA device index")
    add_document_options(parser)
