"""Figures in the documentation, generated from `results/`.

README.md, benchmarks/README.md and docs/*.md hold measured figures only between two comments:

    <!-- figures:NAME -->generated<!-- end -->

NAME is a function in the `BLOCKS` of `figure_blocks.py` or of a module `*_figures.py`. A block may
also span lines, for tables. A table that is too long for a file is on the site only: it stands
there for `<!-- built:NAME -->`. Pictures in `PICTURES` are drawn from the results, too.

    python benchmarks/figures/figures.py --write    # after new results
    python benchmarks/figures/figures.py --check    # in `make lint`: fails if one is stale
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import (
    addresses,
    compose_figures,
    credit_figures,
    curriculum_figures,
    documents_figures,
    evidence_figures,
    families_figures,
    figure_blocks,
    gateway_figures,
    gpu_figures,
    graph_figures,
    grid_figures,
    interpreter_figures,
    multiagent_figures,
    pretrained_figures,
    small_judge_figures,
    solve_figures,
    study_figures,
    update_figures,
    worlds_figures,
)

BLOCKS = (
    figure_blocks.BLOCKS
    | addresses.BLOCKS
    | evidence_figures.BLOCKS
    | gateway_figures.BLOCKS
    | gpu_figures.BLOCKS
    | graph_figures.BLOCKS
    | grid_figures.BLOCKS
    | multiagent_figures.BLOCKS
    | solve_figures.BLOCKS
    | study_figures.BLOCKS
    | update_figures.BLOCKS
    | families_figures.BLOCKS
    | curriculum_figures.BLOCKS
    | credit_figures.BLOCKS
    | interpreter_figures.BLOCKS
    | compose_figures.BLOCKS
    | worlds_figures.BLOCKS
    | documents_figures.BLOCKS
    | small_judge_figures.BLOCKS
    | pretrained_figures.BLOCKS
)
PICTURES = (
    figure_blocks.PICTURES
    | evidence_figures.PICTURES
    | multiagent_figures.PICTURES
    | families_figures.PICTURES
)
ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- figures:(\S+) -->)(.*?)(<!-- end -->)", re.DOTALL)
RESULT = re.compile(
    r"(?<![\w.,])[-+]?\d+\.\d+(?![\w.]*\d)"  # 0.71
    r"|\b\d[\d,.]*\s?%"  # 23 %
    r"|\b\d[\d,.]*\s+(?:steps|tokens|resets|episodes)/s"
    r"|\b\d[\d,.]* times\b"
)
"""Text that reads like a measured result."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MARK = "\0"
"""Takes the place of a generated number."""
MOST = 3
"""Generated numbers in a sentence. A table shows more of them better."""
PARAGRAPHS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.)\s)")
"""Between paragraphs, items of lists and rows of tables."""
BUILT = re.compile(r"<!-- built:(\S+) -->")
"""The place of a block that is too long for a file: only the site has it."""
ALLOWED = {
    r"\b\d{4}\.\d{4,5}\b": "arXiv ids",
    r"\b(?:Python|torchrl|torch|TorchRL) \d+\.\d+": "versions",
    r"\b0\.2 million parameters": "size of a model, by construction",
    r"\b95 % (?:confidence|interval)": "level of an interval",
    r"\bin \[0, 1\]": "a range",
}
"""Numbers that are no results, with the reason."""


def documents() -> list[Path]:
    """Returns the files that hold figures in blocks only."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *docs]


def render(text: str) -> str:
    """Returns a text with all its blocks generated anew.

    Raises:
        ValueError: for a block without a generator.
    """

    def generated(match: re.Match[str]) -> str:
        start, name, old, end = match.groups()
        new = generate(name)
        return f"{start}\n\n{new}\n\n{end}" if "\n" in new or "\n" in old else start + new + end

    return BLOCK.sub(generated, text)


def build(text: str) -> str:
    """Returns a page of the site: a text with the blocks that only the site has.

    Raises:
        ValueError: for a block without a generator.
    """
    return BUILT.sub(lambda match: generate(match[1]), text)


def generate(name: str) -> str:
    """Returns the text of a block.

    Raises:
        ValueError: for a block without a generator.
    """
    if name not in BLOCKS:
        raise ValueError(f"There is no figures block {name!r}; known: {', '.join(BLOCKS)}.")
    return BLOCKS[name]()


def stray_figures(text: str) -> list[str]:
    """Returns the lines with result-like numbers outside code, links and blocks."""
    text = BLOCK.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = re.sub(
        r"^(`{3,}).*?^\1`*$", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.M
    )
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)|https?://\S+", "", text)
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        rest = line
        for pattern in ALLOWED:
            rest = re.sub(pattern, "", rest)
        if numbers := [match[0].strip() for match in RESULT.finditer(rest)]:
            found.append(f"line {number}: {', '.join(numbers)}")
    return found


def crowded_sentences(text: str) -> list[str]:
    """Returns the sentences outside tables with more than `MOST` generated numbers.

    A number in code, such as a setting, is none.
    """

    def marked(match: re.Match[str]) -> str:
        parts = re.split(r"(`[^`\n]*`|^\|.*$)", match[3], flags=re.MULTILINE)  # code and table rows
        return "".join(part if i % 2 else NUMBER.sub(MARK, part) for i, part in enumerate(parts))

    plain = PARAGRAPHS.split(BLOCK.sub(marked, text.replace(MARK, "")))
    sentences = [each for part in plain for each in re.split(r"(?<=[.!?])\s+", part)]
    crowded = [each for each in sentences if each.count(MARK) > MOST]
    return [" ".join(each.replace(MARK, "#").split()) for each in crowded]


def problems() -> list[str]:
    """Returns stale blocks, stale pictures, figures outside blocks and crowded sentences."""
    found = []
    for path in documents():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if render(text) != text:
            found.append(
                f"{name}: stale figures, run `python benchmarks/figures/figures.py --write`"
            )
        found += [f"{name}, {stray}: outside a figures block" for stray in stray_figures(text)]
        for sentence in crowded_sentences(build(text)):
            found.append(f"{name}: more than {MOST} numbers, take a table: {sentence}")
    for name, picture in PICTURES.items():
        file = ROOT / name
        if not file.exists() or picture()[0].encode() not in file.read_bytes():
            found.append(
                f"{name}: stale picture, run `python benchmarks/figures/figures.py --write`"
            )
    return found


def write() -> None:
    """Generates all blocks and the stale pictures."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (new := render(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"Wrote {path.relative_to(ROOT)}.")
    for name, picture in PICTURES.items():
        file, (digest, draw) = ROOT / name, picture()
        if not file.exists() or digest.encode() not in file.read_bytes():
            file.write_bytes(draw())
            print(f"Wrote {name}.")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="generate blocks and pictures")
    action.add_argument("--check", action="store_true", help="fail if a block or picture is stale")
    if parser.parse_args(argv).write:
        write()
        return 0
    found = problems()
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
