"""Processes of Ray's that tests have started."""

import contextlib
import os
import pathlib
import signal


def _processes():
    """All of this machine: process id -> (its parent's, its title)."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = parent, (folder / "cmdline").read_bytes().decode(errors="replace").strip("\0 ")
        except OSError:  # it has ended
            continue
    return found


def children(of=None):
    """Processes that one, by default this one, has started, and theirs: process id -> title."""
    found = _processes()

    def is_ours(process):
        while process in found:
            process = found[process][0]
            if process == (of or os.getpid()):
                return True
        return False

    return {process: title for process, (_, title) in found.items() if is_ours(process)}


def kill(found):
    for process in found:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(process, signal.SIGKILL)
