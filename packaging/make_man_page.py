#!/usr/bin/env python3
"""make_man_page.py PROGRAM FILE.gz: writes bench_engine's page of the manual (section 1), compressed, out of what
PROGRAM --help, PROGRAM report --help and PROGRAM --version print. A line of help that it does not understand is an
error, so that none is lost."""
import gzip
import pathlib
import re
import subprocess
import sys

NAME = "bench_engine"


def ask(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def escaped(text):
    for character, escape in {"\\": r"\(rs", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha"}.items():
        text = text.replace(character, escape)
    return r"\&" + text if text.startswith(".") else text


class Help:
    """A help text in parts: first line, usage, sections of options, examples, what stands below."""

    def __init__(self, text):
        self.sections, self.examples, self.foot = [], [], []  # sections: (title, [(option, [line of description])])
        self.first, usage, *lines = text.splitlines()
        match = re.fullmatch(rf"Usage: {NAME} (.*)", usage)
        if not match:
            raise SystemExit(f"make_man_page: no usage line: {usage!r}")
        self.usage = match.group(1)
        where = None
        for line in filter(str.strip, lines):
            option = re.fullmatch(r"  (-{1,2}\S.*?|[A-Z]+ REQUIRED)(?:  +(\S.*))?", line)
            described = re.fullmatch(r" {20,}(\S.*)", line)
            if line == "Examples:":
                where = "examples"
            elif re.fullmatch(r"[A-Z][^:]*:", line):
                where = "options"
                self.sections.append((line[:-1], []))
            elif where == "examples" and line.startswith("  "):
                self.examples.append(line.strip())
            elif where in ("examples", "foot") and not line.startswith(" "):
                where = "foot"
                self.foot.append(line)
            elif where == "options" and option:
                self.sections[-1][1].append((option.group(1), [option.group(2)] if option.group(2) else []))
            elif where == "options" and described:
                self.sections[-1][1][-1][1].append(described.group(1))
            else:
                raise SystemExit(f"make_man_page: what is this line of help? {line!r}")

    def option_lines(self):
        for title, options in self.sections:
            yield f".SS {escaped(title)}"
            for option, description in options:
                names, _, value = option.partition(" ")
                yield ".TP"
                yield f"\\fB{escaped(names.replace(',', ', '))}\\fR" + (f" \\fI{escaped(value)}\\fR" if value else "")
                yield escaped(" ".join(description))

    def example_lines(self):
        yield ".nf"
        yield from (escaped(line) for line in self.examples)
        yield ".fi"


def page(program):
    main, report = Help(ask(program, "--help")), Help(ask(program, "report", "--help"))
    version = ask(program, "--version").split()[1]
    yield f'.TH BENCH_ENGINE 1 "" "mobicuda {version}" "User Commands"'
    yield ".SH NAME"
    yield f"{NAME} \\- {escaped(main.first[0].lower() + main.first[1:].rstrip('.'))}"
    yield ".SH SYNOPSIS"
    for usage in (main.usage, report.usage):
        yield f".B {NAME}\n{escaped(usage)}\n.br"
    yield ".SH DESCRIPTION"
    yield escaped(main.first)
    yield ".SH OPTIONS"
    yield from main.option_lines()
    yield f".SH {NAME.upper()} REPORT"
    yield escaped(report.first)
    yield from report.option_lines()
    yield ".SH EXAMPLES"
    yield from main.example_lines()
    yield from report.example_lines()
    yield ".SH EXIT STATUS"
    yield escaped(" ".join(main.foot).removeprefix("Exit codes: "))
    yield ".PP"
    yield escaped("report: " + " ".join(report.foot).removeprefix("Exit codes: "))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    file = pathlib.Path(sys.argv[2])
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(page(sys.argv[1])) + "\n"
    file.write_bytes(gzip.compress(text.encode(), mtime=0))  # the same bytes every time


if __name__ == "__main__":
    main()
