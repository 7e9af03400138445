#!/usr/bin/env python3
"""changed_source.py BUILD_DIR COMMIT [FOLDER...]: prints why the build is not what it was at that commit: a file that it
compiles, reads or is made by has changed. Prints nothing where none has. With FOLDERs of the build, only what goes into their
objects counts."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from run_clang_tidy import ROOT, included

RULES = re.compile(r"cmake/.*|CMakeLists\.txt|CMakePresets\.json|scripts/(sanitize|fuzz|test_arm64)|scripts/lib/changed_source\.py|tests/fuzz/.*|.*\.proto")


def changed_since(commit):
    """Names of the files that are not as they were at a commit; None where git does not know it."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.split("\0")[:-1] if done.returncode == 0 else None
    changed, new = git("diff", "--name-only", "--no-renames", "-z", commit, "--"), git("ls-files", "-z", "--others", "--exclude-standard")
    return None if changed is None or new is None else {*changed, *new}


def files_of(build, parts):
    """All files of the project that the build compiles and includes for objects in these folders of it, and what says how."""
    seen = set()
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        if parts and not words[words.index("-o") + 1].startswith(tuple(f"{part}/" for part in parts)):
            continue
        folders = tuple(os.path.normpath(word[2:]) for word in words if word.startswith(f"-I{ROOT}/"))
        waiting = [os.path.abspath(os.path.join(entry["directory"], entry["file"]))]  # a unity build's includes its sources
        while waiting:
            path = waiting.pop()
            if (path, folders) not in seen and os.path.isfile(path):
                seen.add((path, folders))
                waiting += included(path, folders)
    names = {os.path.relpath(path, ROOT) for path, _ in seen if path.startswith(f"{ROOT}/")}
    return names | {str(folder / "CMakeLists.txt") for name in names for folder in pathlib.Path(name).parents}


def main():
    build, commit = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    changed = changed_since(commit)
    if changed is None:
        print(f"{commit} is not in the history that is here")
        return
    # What a message is made of, or the rules, stands in no source.
    found = sorted(name for name in changed if RULES.fullmatch(name)) or sorted(changed & files_of(build, sys.argv[3:]))
    if found:
        print(f"{found[0]} is not as it was at {commit}")


if __name__ == "__main__":
    main()
