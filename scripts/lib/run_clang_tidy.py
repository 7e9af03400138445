#!/usr/bin/env python3
"""run_clang_tidy.py CLANG_TIDY BUILD_DIR [--deep] [--since COMMIT] [PATH...]: what scripts/tidy does once everything is
installed."""
import argparse
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mobicuda/clang-tidy"
STARTED = time.time()
UNUSED_DAYS = 30  # results that no run asked for in this time are forgotten

# Device code, for its branches by __CUDA_ARCH__; the bodies of host functions are parsed with it. Clang takes an unknown
# version of the toolkit for an old one that launches kernels otherwise, and CUDA's cluster groups for a thing of nvcc.
CUDA = ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90a", "-nocudalib", "-Wno-unknown-cuda-version",
        "-Xclang", "-target-sdk-version=12.9", "-D_CG_CLUSTER_INTRINSICS_AVAILABLE", "-Wall", "-Wextra"]
DEEP = "--checks=clang-analyzer-*,-clang-analyzer-optin.performance.Padding"  # order of members is for readers
RULES = ("cmake/", "CMakeLists.txt", ".clang-tidy", "scripts/lib/clang_tidy_version", "scripts/lib/run_clang_tidy.py")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
WRITTEN = re.compile(r'^#include "([^"/]+\.inc)"', re.MULTILINE)  # by a program of the build
INCLUDED = re.compile(r"^\.+ ")  # what -H writes: a dot for each level
FINDING = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<where>\d+:\d+): (?:warning|error): ")


def cuda_folder(compiler):
    folder = pathlib.Path(compiler).resolve().parents[1]
    return folder if (folder / "include/cuda.h").exists() else pathlib.Path("/usr/local/cuda")


def arguments(command):
    """Those of the compiler's that decide what the source says, and its warnings, for clang."""
    words = shlex.split(command)
    kept = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-isystem", "-include"):
            kept += [word, next(rest)]
        elif word.startswith("-isystem="):
            kept += ["-isystem", word.removeprefix("-isystem=")]
        elif word.startswith("-I") and not os.path.abspath(word[2:]).startswith(f"{ROOT}/"):
            kept += ["-isystem", word[2:]]  # a library's
        elif word.startswith(("-I", "-D", "-std=")) or (word.startswith("-W") and word != "-Werror"):
            kept.append(word)
    if "-x cu " in command:
        toolkit = cuda_folder(words[0])
        kept += [*CUDA, f"--cuda-path={toolkit}", "-isystem", str(toolkit / "include/cccl")]
    return [*kept, "-Wno-unknown-warning-option"]


@functools.cache
def digest(path):
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return "none"


def text_digest(*texts):
    return hashlib.sha256("\0".join(texts).replace(str(ROOT), ".").encode()).hexdigest()


@functools.cache
def includes(path):
    return INCLUDE.findall(pathlib.Path(path).read_text(encoding="utf-8"))


@functools.cache
def included(path, folders):
    """The project's files that a file includes itself; those that the build writes are not among them."""
    found = set()
    for name in includes(path):
        file = next(filter(os.path.isfile, (os.path.join(folder, name) for folder in (os.path.dirname(path), *folders))), None)
        if file:
            found.add(os.path.realpath(file))  # boxes see each other through links
    return found


def changed_since(commit):
    """Names of the files that are not as they were at a commit, or None where that is not known or all may be found otherwise."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.split("\0")[:-1] if done.returncode == 0 else None
    changed, new = git("diff", "--name-only", "--no-renames", "-z", commit, "--"), git("ls-files", "-z", "--others", "--exclude-standard")
    if changed is None or new is None:
        print(f"{commit} is not in the history that is here: every source is looked at")
        return None
    rules = [name for name in changed if name.startswith(RULES)]
    if rules:
        print(f"{rules[0]} has changed since {commit}: every source is looked at")
        return None
    return {*changed, *new}


class Source:
    def __init__(self, tidy, path, command):
        self.path = path
        self.name = os.path.relpath(path, ROOT)
        self.folders = tuple(os.path.normpath(word[2:]) for word in shlex.split(command) if word.startswith(f"-I{ROOT}/"))
        self.command = [*tidy.command, path, "--", "-H", *arguments(command)]
        self.identity = text_digest(tidy.identity, *self.command[1:])
        self.headers_file = CACHE / "headers" / self.identity

    def is_whole(self, build):
        return all(any(build.rglob(name)) for name in WRITTEN.findall(pathlib.Path(self.path).read_text(encoding="utf-8")))

    def result_file(self, headers):
        """There if nothing was found in this source with what these headers say now."""
        return CACHE / "clean" / text_digest(self.identity, *(f"{file} {digest(file)}" for file in [self.path, *headers]))

    def is_of(self, changed):
        """Whether it, what it includes, or how its folder is built is among these names."""
        folders = [str(folder / "CMakeLists.txt") for folder in pathlib.Path(self.name).parents]
        waiting, seen = [self.path], {self.path}
        while waiting:
            new = included(waiting.pop(), self.folders) - seen
            seen |= new
            waiting += new
        return not changed.isdisjoint([*folders, *(os.path.relpath(file, ROOT) for file in seen)])

    def is_known(self):
        try:
            headers = [os.path.join(ROOT, name) for name in json.loads(self.headers_file.read_text(encoding="utf-8"))]
            for file in (self.result_file(headers), self.headers_file):
                os.utime(file)
        except (OSError, ValueError):
            return False
        return True

    def look(self):
        done = subprocess.run(self.command, cwd=ROOT, capture_output=True, text=True, check=False, errors="replace")
        lines = done.stderr.splitlines()
        if done.returncode == 0:
            self.remember(sorted({os.path.abspath(os.path.join(ROOT, INCLUDED.sub("", line)))
                                  for line in lines if INCLUDED.match(line)}))
        return done.returncode, done.stdout, "\n".join(line for line in lines if not INCLUDED.match(line))

    def remember(self, headers):
        if any(os.stat(file).st_mtime >= STARTED for file in [self.path, *headers]):
            return  # edited meanwhile
        names = [os.path.relpath(file, ROOT) if file.startswith(f"{ROOT}/") else file for file in headers]
        write(self.headers_file, json.dumps(names))
        write(self.result_file(headers), "")


class Tidy:
    def __init__(self, program, deep):
        config = ROOT / ".clang-tidy"
        self.command = [program, "--quiet", f"--config-file={config}", *([DEEP] if deep else [])]
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = re.search(r"version (\S+)", version).group(1)
        self.identity = text_digest(version, digest(config), digest(__file__))


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as part:
        part.write(text)
    os.replace(part.name, file)


def forget_unused():
    for folder in ("headers", "clean"):
        for file in (CACHE / folder).glob("*"):
            if STARTED - file.stat().st_mtime > UNUSED_DAYS * 86400:
                file.unlink(missing_ok=True)


def findings(output):
    """(where, text) of each; a header is found under the name by which it was included."""
    found = []
    for line in output.splitlines():
        match = FINDING.match(line)
        if match:
            name = os.path.relpath(os.path.realpath(ROOT / match["file"]), ROOT)
            found.append((f"{name}:{match['where']}", [f"{name}{line[match.end('file'):]}"]))
        elif found:
            found[-1][1].append(line)
    return [(f"{where} {lines[0]}", "\n".join(lines)) for where, lines in found]


def chosen(build, paths, tidy):
    """The sources of the build, each once, those of CUDA first: they take longest."""
    sources = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        if "emulator/device_language.h" in entry["command"]:
            continue  # device code in a host's language: what there is to find in it, clang finds in the kernels
        path = os.path.abspath(os.path.join(entry["directory"], entry["file"]))
        name = os.path.relpath(path, ROOT)
        ours = path.startswith(f"{ROOT}/") and not path.startswith((f"{build}/", f"{ROOT}/build"))
        if ours and (not paths or name.startswith(tuple(paths))):
            sources.setdefault(name, Source(tidy, path, entry["command"]))
    return sorted(sources.values(), key=lambda source: (not source.name.endswith(".cu"), source.name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--since")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_intermixed_args()
    paths = [os.path.relpath(path, ROOT) for path in options.paths]
    tidy = Tidy(options.program, options.deep)
    build = options.build.resolve()
    sources = chosen(build, paths, tidy)
    if not sources:
        sys.exit("error: the build compiles no such source")
    for source in [source for source in sources if not source.is_whole(build)]:
        print(f"left out until the build has written what it includes: {source.name}")
        sources.remove(source)
    changed = changed_since(options.since) if options.since else None
    unknown = [source for source in sources if (changed is None or source.is_of(changed)) and not source.is_known()]
    cuda = sum(source.name.endswith(".cu") for source in sources)
    print(f"== clang-tidy {tidy.version}: {len(sources)} sources ({cuda} of CUDA), {len(unknown)} of them to look at", flush=True)
    told, failed = set(), 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for future in as_completed([pool.submit(source.look) for source in unknown]):
            code, output, errors = future.result()
            failed += code != 0
            found = findings(output)
            for where, text in found:
                if where not in told:
                    told.add(where)
                    print(text, flush=True)
            if code and not found:
                print(output + errors, flush=True)
    forget_unused()
    print(f"== {len(told)} findings, {time.time() - STARTED:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
