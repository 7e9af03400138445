#!/usr/bin/env python3
"""usage: toolkit_headers.py NINJA BUILD_DIR CUDA_INCLUDE_DIR...

Whether everything that was compiled has found the CUDA Toolkit's headers in the toolkit's own folders, which its target must
name. A machine may have them in the compiler's default folders too, as links, where a target that forgot to name them finds
them all the same; on other machines it does not compile."""
import os
import subprocess
import sys


def main():
    ninja, build, *includes = sys.argv[1:]
    own = tuple(os.path.realpath(folder) + "/" for folder in includes)
    listed = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    strangers, known, target, compiled = {}, {}, "", 0
    for line in listed.splitlines():
        if not line.startswith(" "):
            target = line.split(": ", 1)[0]
            compiled += target != ""
            continue
        header = line.strip()
        if header not in known:
            folder = os.path.realpath(os.path.dirname(header)) + "/"
            known[header] = os.path.isabs(header) and not folder.startswith(own) and os.path.realpath(header).startswith(own)
        if known[header]:
            strangers.setdefault(target, header)
    for target, header in sorted(strangers.items()):
        print(f"{target} reads {header}: its CMake target does not name the toolkit's headers (CUDA::toolkit)")
    print(f"{compiled} compiled files, {len(strangers)} wrong")
    return bool(strangers) or compiled == 0


if __name__ == "__main__":
    sys.exit(main())
