#!/usr/bin/env python3
"""What scripts/mutants does: run_mutants.py check ROOT [NAME...], copy ROOT COPY, run BUILD_DIR [NAME...].

Mutants are written in tests/mutants/*.txt, apart by empty lines, each in five lines; \\n in a text is a line's end:
    # name
    file
    - text that is in the file once
    + what stands there instead
    test-program "tests of Catch2"
"""
import dataclasses
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

KERNELS = "emulated_kernel_tests"  # has a build of its own, with CUDA; the others have one without
BUILD_SECONDS = 3600
PATIENCE = 4  # a mutant's tests may take so many times what they take without it, and a minute


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    text: str
    replacement: str
    program: str
    tests: str

    def applied(self, source):
        count = source.count(self.text)
        if count != 1:
            raise ValueError(f"{self.file}: has the text of '{self.name}' {count} times, not once: {self.text}")
        return source.replace(self.text, self.replacement)

    @property
    def build(self):
        return "kernels" if self.program == KERNELS else "library"


def read_mutant(file, block):
    lines = block.split("\n")
    if len(lines) != 5 or [line[:2] for line in (lines[0], *lines[2:4])] != ["# ", "- ", "+ "]:
        raise ValueError(f"{file}: a mutant has five lines, '# name', file, '- text', '+ replacement' and tests, not:\n{block}")
    text, replacement = (line[2:].replace("\\n", "\n") for line in lines[2:4])
    program, tests = shlex.split(lines[4])
    if not text or text == replacement:
        raise ValueError(f"{file}: '{lines[0][2:]}' changes nothing")
    return Mutant(lines[0][2:], lines[1], text, replacement, program, tests)


def read_mutants(root, names):
    mutants = [read_mutant(file.name, block) for file in sorted((root / "tests/mutants").glob("*.txt"))
               for block in re.split(r"\n{2,}", file.read_text(encoding="utf-8").strip("\n"))]
    known = set()
    for mutant in mutants:
        if mutant.name in known:
            raise ValueError(f"two mutants are named '{mutant.name}'")
        known.add(mutant.name)
    chosen = [mutant for mutant in mutants if not names or any(name in mutant.name or name in mutant.file for name in names)]
    if not chosen:
        raise ValueError("no mutant has such a name")
    return chosen


def check(root, names):
    mutants = read_mutants(root, names)
    for mutant in mutants:
        mutant.applied((root / mutant.file).read_text(encoding="utf-8"))
    print(f"{len(mutants)} mutants apply")


def copy(root, target):
    """Files keep the time at which they were written where their content is the same, so that little is compiled anew."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
                            capture_output=True, check=True).stdout.decode().split("\0")
    files = {name for name in listed if name and (root / name).is_file()}
    for old in list(target.rglob("*")):
        if old.is_file() and str(old.relative_to(target)) not in files:
            old.unlink()
    for name in files:
        source, place = root / name, target / name
        if place.is_file() and place.read_bytes() == source.read_bytes():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)


class Runner:
    def __init__(self, build_dir):
        self.build_dir = build_dir
        self.source = build_dir / "source"
        self.seconds = {}  # of tests without a mutant

    def build(self, mutant):
        done = subprocess.run(["cmake", "--build", self.build_dir / mutant.build, "--target", mutant.program],
                              capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        return "" if done.returncode == 0 else done.stdout[-4000:] + done.stderr[-4000:]

    def test(self, mutant, limit):
        """How the tests ended, "" where they passed, and what they said."""
        (program,) = (file for file in (self.build_dir / mutant.build / "tests").glob(f"*/{mutant.program}") if file.is_file())
        try:
            done = subprocess.run([program, mutant.tests, "--abort"], cwd=program.parent, capture_output=True, text=True,
                                  errors="replace", check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return f"not done after {limit:.0f} s", ""
        output = done.stdout + done.stderr
        if "No test cases matched" in output or "No tests ran" in output:
            raise ValueError(f"'{mutant.name}': {mutant.program} has no tests '{mutant.tests}'")
        return (f"exit code {done.returncode}" if done.returncode else ""), output

    def prepare(self, mutant):
        """Without the mutant its tests must pass."""
        tests = (mutant.program, mutant.tests)
        if tests in self.seconds:
            return
        failure = self.build(mutant)
        if failure:
            raise ValueError(f"{mutant.program} does not compile without a mutant:\n{failure}")
        start = time.monotonic()
        ended, output = self.test(mutant, BUILD_SECONDS)
        if ended:
            raise ValueError(f"{mutant.program} '{mutant.tests}' fails without a mutant: {ended}\n{output[-4000:]}")
        self.seconds[tests] = time.monotonic() - start

    def run(self, mutant):
        """Whether the mutant was killed, and how."""
        file = self.source / mutant.file
        original = file.read_text(encoding="utf-8")
        try:
            file.write_text(mutant.applied(original), encoding="utf-8")
            failure = self.build(mutant)
            if failure:
                return False, f"does not compile:\n{failure}"
            ended, _ = self.test(mutant, PATIENCE * self.seconds[mutant.program, mutant.tests] + 60)
            return bool(ended), ended
        finally:
            file.write_text(original, encoding="utf-8")


def run(build_dir, names):
    runner = Runner(build_dir)
    mutants = read_mutants(runner.source, names)
    begin = time.monotonic()
    survivors = []
    for mutant in mutants:
        runner.prepare(mutant)
        start = time.monotonic()
        killed, how = runner.run(mutant)
        print(f"{'killed  ' if killed else 'SURVIVED'}  {time.monotonic() - start:4.0f} s  {mutant.name}{': ' + how if how else ''}",
              flush=True)
        if not killed:
            survivors.append(mutant)
    print(f"== {len(mutants) - len(survivors)} of {len(mutants)} mutants killed, {time.monotonic() - begin:.0f} s")
    sys.exit(1 if survivors else 0)


def main():
    subject, folder, *rest = sys.argv[1:]
    try:
        if subject == "check":
            check(pathlib.Path(folder), rest)
        elif subject == "copy":
            copy(pathlib.Path(folder), pathlib.Path(rest[0]))
        else:
            run(pathlib.Path(folder).resolve(), rest)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
