"""Pages of the environments: one per class, an index, and tables of baselines and speed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sized
from typing import Any

import certificate_pages
import cloning_notes
import gallery
import project
import transcripts
from project import EnvironmentClass
from writing import anchor, code_block, details, link_papers, sections, table

from agentgym.registration.entry import Entry
from agentgym.registration.families import family_title

GENERATED = ("Example Transcript", "Baselines", "Registered Configurations")
"""Sections of older docstrings that the pages generate."""
AGENTS = ("random", "behaviour cloning", "expert")
LAST = ("References", "Version History")
"""Sections at the end of a page."""


def pages() -> dict[str, str | bytes]:
    """Returns the generated files, Markdown, SVG and PNG, by path.

    Raises:
        transcripts.EmptyTranscriptError: if an environment that can start has no transcript.
    """
    found: dict[str, str | bytes] = {}
    for cls in project.environment_classes():
        found |= class_page(cls)
    found["environments/index.md"] = _index(set(found))
    found["environments/baselines.md"] = _baselines_page()
    found["environments/speed.md"] = _speed_page()
    found["environments/certificates.md"] = _certificates_page()
    return found


def navigation() -> list[Any]:
    """Returns the section of the navigation: a family with one environment is a single line."""
    items: list[Any] = ["environments/index.md"]
    for family, classes in families().items():
        lines = [{cls.title: cls.page} for cls in classes]
        items += lines if len(lines) == 1 else [{family_title(family): lines}]
    tables = ("baselines", "speed", "certificates")
    return [*items, *({name.title(): f"environments/{name}.md"} for name in tables)]


def families() -> dict[str, list[EnvironmentClass]]:
    """Returns the classes of each family, in the order of the site."""
    found: dict[str, list[EnvironmentClass]] = {}
    for cls in project.environment_classes():
        found.setdefault(cls.family, []).append(cls)
    return found


# The page of a class.


def class_page(cls: EnvironmentClass) -> dict[str, str | bytes]:
    """Returns the page of a class and its pictures."""
    entry = cls.entries[0]
    env = project.make(entry)
    instructions = cls.instructions if env is None else env.instructions
    lines = [f"# {cls.title}", "", link_papers(cls.summary), ""]
    lines += _facts(cls, env)
    files: dict[str, str | bytes] = {}
    if (drawn := None if env is None else gallery.png(env)) is not None:
        files[cls.picture(".png")] = drawn
        lines += ["", f"![A picture of {cls.title}]({cls.name}.png)"]
    text = _transcript(cls, instructions)
    if text is not None:
        files[cls.picture(".svg")] = transcripts.picture(text, entry.id)
        lines += ["", f"![The start of an episode of {cls.title}]({cls.name}.svg){{ .transcript }}"]
    doc = dict(sections(cls.doc))
    body = [heading for heading in doc if heading and heading not in (*GENERATED, *LAST)]
    for heading in body:
        lines += _section(heading, doc[heading])
        if heading == "Description":
            lines += _instructions(instructions)
    lines += _variants(cls) + _baselines(cls) + certificate_pages.section(cls.entries)
    lines += _transcript_text(cls, text)
    for heading in LAST:
        if heading in doc:
            lines += _section(heading, doc[heading])
    lines += ["", "## Source", "", f"`{cls.source}`"]
    files[cls.page] = "\n".join(lines) + "\n"
    return files


def _section(heading: str, body: str) -> list[str]:
    text = link_papers(body)
    if heading == "Information":
        text = re.sub(r"([Tt]he common keys)", r"[\1](../../info.md)", text, count=1)
    return ["", f"## {heading}", "", text]


def _facts(cls: EnvironmentClass, env: Any) -> list[str]:
    entry = cls.entries[0]
    rows = [
        ("Id", f"`{entry.id}`"),
        ("Make", f'`gymnasium.make("{entry.id}")`'),
    ]
    if entry.multi_agent:
        rows.append(
            ("PettingZoo", f'`agentgym.make_aec("{entry.id}")`, `agentgym.make_parallel(...)`')
        )
    if env is not None:
        rows += [
            ("Action space", f"`{env.action_space}`"),
            ("Observation space", f"`{env.observation_space}`"),
        ]
    rows.append(("Agents", _agents(entry, env)))
    rows.append(("Turn limit", _limit(entry)))
    if env is not None:
        rows += [
            ("Reward terms", ", ".join(f"`{name}`" for name in (*env.reward_names, "invalid"))),
            ("Tasks", f"{_count(env.tasks.train)} train, {_count(env.tasks.test)} test"),
        ]
    if entry.extra is not None:
        rows.append(("Extra", f"`pip install 'agentgym-suite[{entry.extra}]'`"))
    if entry.files:
        rows.append(("Files", "Plays files of your own. See Arguments."))
    if (speed := speeds().get(entry.name)) is not None:
        rows.append(("Speed", f"{speed['steps_per_second']:,.0f} steps/s on one core"))
    measured = project.results("baselines")["environments"].get(entry.name, {})
    scores = {
        name: _result(measured[f"{name}/test"]) for name in AGENTS if f"{name}/test" in measured
    }
    if (cloned := cloning().get(entry.name)) is not None:
        scores["behaviour cloning"] = _mean(cloned["imitation"])
    rows += [
        (f"{name.capitalize()}: reward, success", scores[name]) for name in AGENTS if name in scores
    ]
    return table(("", ""), [(f"**{name}**", value) for name, value in rows])


def _agents(entry: Entry, env: Any) -> str:
    if not entry.multi_agent or env is None:
        return "1"
    players = env.game.players
    count = str(players.start) if len(players) == 1 else f"{players.start} to {players.stop - 1}"
    levels = ", ".join(f"`{level}`" for level in env.game.levels)
    return f"{count}. Scripted opponents: {levels} (default: `{env.game.default_opponents}`)"


def _limit(entry: Entry) -> str:
    turns = project.describe(entry).max_turns
    return "none" if turns is None else str(turns)


def _count(tasks: Sized) -> str:
    number = len(tasks)
    return "2³¹ - 1" if number == 2**31 - 1 else f"{number:,}"  # every seed is a task


def _instructions(instructions: str | Mapping[str, str] | None) -> list[str]:
    if instructions is None:
        return []
    lines = ["", "## Instructions", "", "The system prompt, `env.unwrapped.instructions`:", ""]
    if isinstance(instructions, str):
        return lines + code_block(instructions)
    for role, text in instructions.items():
        lines += [f"**{role}**", "", *code_block(text), ""]
    return lines


def _transcript(cls: EnvironmentClass, instructions: Any) -> str | None:
    """Returns the golden transcript; None where the environment needs the user's files or extra."""
    entry = cls.entries[0]
    file = project.golden_file(entry)
    if not file.exists():
        if entry.files or entry.extra is not None:
            return None
        raise transcripts.EmptyTranscriptError(f"{entry.name} has no golden file: {file.name}.")
    return transcripts.read(file, instructions if isinstance(instructions, str) else None)


def _transcript_text(cls: EnvironmentClass, text: str | None) -> list[str]:
    lines = ["", "## Example Transcript", ""]
    if text is None:
        entry = cls.entries[0]
        needs = "files of your own" if entry.files else f"the extra `{entry.extra}`"
        return [*lines, f"This environment needs {needs}, so that no transcript is recorded here."]
    whose = "The scripted players" if cls.entries[0].multi_agent else "The expert"
    lines += [
        f"{whose}, if available, or a random agent. The first action is invalid on purpose.",
        f"Recorded in `{project.golden_file(cls.entries[0]).relative_to(project.ROOT)}`.",
        "",
    ]
    return lines + details("Transcript as text", code_block(transcripts.shorten(text)))


def _variants(cls: EnvironmentClass) -> list[str]:
    rows = []
    for entry in cls.entries:
        arguments = project.arguments(entry)
        rows.append(
            (
                f'<span id="{anchor(entry.name)}"></span>`{entry.id}`',
                f"`{arguments}`" if arguments else "defaults",
                _limit(entry),
            )
        )
    return ["", "## Registered Ids", "", *table(("Id", "Arguments", "Turn limit"), rows)]


def _baselines(cls: EnvironmentClass) -> list[str]:
    rows = _baseline_rows(cls.entries, link=False)
    if not rows:
        return []
    lines = ["", "## Baselines", "", *baseline_notes(), "", *table(BASELINE_HEADER, rows, 6)]
    if rows := _speed_rows(cls.entries, link=False):
        lines += ["", "## Speed", "", *SPEED_NOTES, "", *table(SPEED_HEADER, rows, 5)]
    return lines


# Measured figures.


def speeds() -> dict[str, dict[str, Any]]:
    """Returns the rows of `env_speed.json` by name."""
    rows = project.results("env_speed")["environments"]
    return {row["id"].partition("/")[2]: row for row in rows}


def cloning() -> dict[str, dict[str, Any]]:
    """Returns the rows of `imitation.json` by name."""
    return project.results("imitation")["environments"]


def _result(row: Mapping[str, Any]) -> str:
    mean, low, high = row["reward"]
    return f"{mean:.2f} [{low:.2f}, {high:.2f}], {_percent(row['success'][0])}"


def _mean(row: Mapping[str, float]) -> str:
    return f"{row['reward']:.2f}, {_percent(row['success'])}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


BASELINE_HEADER = (
    "Id",
    "Random",
    "Behaviour cloning",
    "Demonstrations",
    "Expert",
    "Expert's turns",
    "Episodes",
)
SPEED_HEADER = ("Id", "Reference", "Steps/s", "Expert's steps/s", "Resets/s", "Start, s", "MiB")
SPEED_NOTES = (
    "Random admissible actions, and those of the expert with its own time, on one core, resets",
    "included, measured by `benchmarks/speed/env_speed.py`. Figures vary by a third between runs.",
    "The reference was measured on the same class of machine.",
)

SLOW = """
## Slow Environments

Environments below 5,000 steps/s spend most of their time on one of these:

- **An engine of others**: TextWorld, ScienceWorld and Jericho. In Chess and ChessEndgames,
  python-chess generates and names all legal moves.
- **Programs in a sandbox**: BugFix, DataSciCoding and ProposeSolve-Programs.
- **Exact inference**: EinsteinPuzzle counts the worlds that are left for every player in every
  turn. In Debate-Judge, scripted debaters solve the game of each case by backward induction. In
  Codenames-Menu, scripted spymasters compute the expected gain of all legal clues.
- **Search and planning**: WebShop-Large searches 100,000 products, and in Overcooked-Cooks-Three
  two co-players plan several errands per step of the agent.
- **A scripted partner**: in Retail-TwoPlayer, Airline-TwoPlayer and Telecom-TwoPlayer, the user or
  the service agent answers in every step, and in WatchAndHelp-TwoPlayer the partner or the helper.
"""


def baseline_notes() -> list[str]:
    """Returns the sentences above a table of baselines."""
    cloned = project.results("imitation")
    settings, rows = cloned["settings"], cloned["environments"]
    limited = sum(bool(row.get("characters")) for row in rows.values())
    return [
        "Mean reward on test tasks with its 95 % confidence interval, and share of successes,",
        "measured by `benchmarks/learning/baselines.py`. A multi-agent id is one seat against its",
        "default opponents. Behaviour cloning is a decoder of 0.2 million parameters trained for",
        f"{settings['passes']} epochs on at most {settings['demonstrations']} expert episodes",
        f"(`benchmarks/learning/imitation.py`). In {limited} of {len(rows)} ids, their prompts",
        f"have at most about {settings['characters']:,} characters together. Their evaluations",
        f"have at most about {settings['evaluated_turns']:,} turns.",
    ]


def _baseline_rows(entries: Iterable[Entry], link: bool) -> list[tuple[str, ...]]:
    measured = project.results("baselines")["environments"]
    rows = []
    for entry in entries:
        if (row := measured.get(entry.name)) is None:
            continue
        expert, cloned = row.get("expert/test"), cloning().get(entry.name)
        rows.append(
            (
                _name(entry, link),
                _result(row["random/test"]),
                "-" if cloned is None else _mean(cloned["imitation"]),
                "-" if cloned is None else str(cloned["demonstrations"]),
                "-" if expert is None else _result(expert),
                "-" if expert is None else f"{expert['turns'][0]:.1f}",
                f"{row['random/test']['n']}",
            )
        )
    return rows


def _speed_rows(entries: Iterable[Entry], link: bool) -> list[tuple[str, ...]]:
    found = speeds()
    return [
        (
            _name(entry, link),
            row["reference"] or "-",
            f"{row['steps_per_second']:,.0f}",
            "-" if (expert := row.get("expert_steps_per_second")) is None else f"{expert:,.0f}",
            f"{row['resets_per_second']:,.0f}",
            f"{row['start_seconds']:.2f}",
            f"{row['megabytes']:.0f}",
        )
        for entry in entries
        if (row := found.get(entry.name)) is not None
    ]


def _name(entry: Entry, link: bool) -> str:
    if not link:
        return f"`{entry.name}`"
    cls = next(cls for cls in project.environment_classes() if entry in cls.entries)
    page = cls.page.removeprefix("environments/")
    return f"[{entry.name}]({page}#{anchor(entry.name)})"


# Pages of all environments.


def _entries() -> list[Entry]:
    return [entry for cls in project.environment_classes() for entry in cls.entries]


def _index(files: set[str]) -> str:
    """Returns the index, a gallery by family.

    Args:
        files: paths of the pictures that exist.
    """
    lines = ["# Environments", "", *inspect.cleandoc(INDEX).split("\n"), ""]
    for family, classes in families().items():
        lines += ["", f"## {family_title(family)}", "", '<div class="gallery" markdown>', ""]
        for cls in classes:
            lines += gallery.tile(cls, files)
        lines += ["</div>", ""]
    return "\n".join(lines) + "\n"


INDEX = """
Every id is registered with Gymnasium in the namespace `AgentGym`. Multi-agent games are also
PettingZoo environments. Grids, boards and cards have pictures (`render_mode="rgb_array"`). Each
page shows the facts, the instructions, an example transcript, the
registered variants and the baselines of an environment. `agentgym list` prints the ids.

[Baselines](baselines.md) and [Speed](speed.md) compare all environments in one table.
[Certificates](certificates.md) shows for what they pay. The
[`info` dictionary](../info.md) is the same for all of them.
"""


def _baselines_page() -> str:
    rows = _baseline_rows(_entries(), link=True)
    lines = ["# Baselines", "", *baseline_notes(), "", cloning_notes.skipped(), ""]
    lines += [*cloning_notes.solved_section(), "", "## All Environments", ""]
    return "\n".join([*lines, *table(BASELINE_HEADER, rows, 6)]) + "\n"


def _speed_page() -> str:
    rows = _speed_rows(_entries(), link=True)
    lines = ["# Speed", "", *SPEED_NOTES, *SLOW.splitlines(), "", "## All Environments", ""]
    return "\n".join([*lines, *table(SPEED_HEADER, rows, 5)]) + "\n"


def _certificates_page() -> str:
    ids = {
        family_title(family): [entry for cls in classes for entry in cls.entries]
        for family, classes in families().items()
    }
    links = {entry.name: _name(entry, link=True) for entry in _entries()}
    return certificate_pages.page(ids, links)
