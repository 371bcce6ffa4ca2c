"""Checks of the run time: contracts, determinism, isolation, snapshots and state keys."""

from __future__ import annotations

import math
import warnings
from itertools import zip_longest

import numpy as np
from gymnasium.utils.env_checker import check_env

from agentgym.certify.episodes import difference, row_of, seed_of
from agentgym.certify.findings import (
    DETERMINISM,
    ISOLATION,
    SEMANTIC,
    SNAPSHOTS,
    STARTUP,
    Finding,
    check,
)
from agentgym.certify.subject import Subject, some_tasks
from agentgym.errors import UnknownTaskError
from agentgym.time_step import INFO_KEYS

RESET_TASKS = 20
"""Tasks of each split that have to start."""
SLOW_STEP = 1.0
"""Seconds above which the slowest hundredth of the steps is a finding."""
LARGE_SNAPSHOT = 2**20
"""Bytes of a snapshot above which it is a finding."""


@check(
    STARTUP, "Make the environment start and satisfy gymnasium.utils.env_checker.", declarable=False
)
def startup(subject: Subject) -> list[Finding]:
    """The environment can be made, started and passes Gymnasium's own check."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject.calls.limited(check_env)(subject.make(), skip_render_check=True)
        subject.env.reset(seed=0)
    except Exception as error:  # an author's code may raise anything
        return [Finding(f"{type(error).__name__}: {error!s:.300}")]
    return []


@check(
    "runtime.reward_well_formed",
    "Return finite numbers in TimeStep.rewards.",
    needs=(STARTUP,),
)
def reward_well_formed(subject: Subject) -> list[Finding]:
    """Rewards are finite floats and the sums of their terms."""
    for episode in subject.episodes:
        for turn, row in enumerate(episode.rows[1:], 1):
            reward, terms = row["reward"], row["info"]["reward_terms"]
            fits = type(reward) is float and math.isfinite(reward)
            if not fits or not math.isclose(reward, sum(terms.values()), abs_tol=1e-9):
                place = f"task {episode.task}, turn {turn}"
                return [Finding(f"{place}: reward {reward!r}, terms {terms}")]
    return []


@check(
    "runtime.state_contract",
    "Return the info that agentgym.core.TextEnv builds, and strings as observations.",
    needs=(STARTUP,),
)
def state_contract(subject: Subject) -> list[Finding]:
    """Infos have all keys, turns count up, and observations are in their space."""
    for episode in subject.episodes:
        for turn, row in enumerate(episode.rows):
            info, place = row["info"], f"task {episode.task}, turn {turn}"
            if missing := [key for key in INFO_KEYS if key not in info]:
                return [Finding(f"{place}: info has no {', '.join(missing)}")]
            if info["turn"] != turn or info["task"] != episode.task:
                return [Finding(f"{place}: info names turn {info['turn']} of {info['task']}")]
            if row["observation"] not in subject.env.observation_space:
                return [Finding(f"{place}: observation {row['observation']!r:.80}")]
    return []


@check(
    "runtime.seed_control",
    "Sample chance events with self.np_random only.",
    needs=(STARTUP,),
    declarable=False,
)
def seed_control(subject: Subject) -> list[Finding]:
    """The same task and seed give the same start."""
    for task in subject.test_tasks:
        starts = []
        for env in (subject.env, subject.env, subject.make()):
            observation, info = env.reset(seed=seed_of(task), options={"task": task})
            starts.append([row_of(observation, info, 0.0, False, False)])
        for other in starts[1:]:
            if differs := difference(starts[0], other):
                return [Finding(f"task {task}: {differs}")]
    return []


@check(
    DETERMINISM,
    "Use self.np_random and task_rng for all chance. Sort sets, and read no clock.",
    needs=(STARTUP,),
    declarable=False,
)
def episode_determinism(subject: Subject) -> list[Finding]:
    """Episodes are equal in processes with another hash seed, clock and global random state."""
    one, other = subject.forward
    found = []
    for before, after in zip(one.episodes, other.episodes, strict=True):
        if differs := difference(before, after):
            found.append(Finding(f"task {before[0]['info']['task']}, {differs}"))
    return found


@check(
    ISOLATION,
    "Keep the state of an episode in self.state, set by _start, and nothing in class attributes.",
    needs=(DETERMINISM,),
)
def episode_isolation(subject: Subject) -> list[Finding]:
    """An episode does not depend on other ones before or beside it, nor changes global state."""
    found = []
    for before, after in zip(
        subject.forward[0].episodes, subject.backward.episodes[::-1], strict=True
    ):
        if differs := difference(before, after):
            task = before[0]["info"]["task"]
            found.append(Finding(f"task {task}, in another order of episodes, {differs}"))
    if subject.forward[0].global_random:
        found.append(Finding("episodes change the global random state"))
    return found


@check(
    SNAPSHOTS,
    "Keep everything that the rules read in State, and rebuild the rest in _restored.",
    needs=SEMANTIC,
)
def snapshot_fidelity(subject: Subject) -> list[Finding]:
    """A snapshot continues in another process as the episode does."""
    found = []
    branches = zip(subject.branches, subject.backward.snapshots, strict=True)
    for (snapshot, _, rows), after in branches:
        if differs := difference(rows, after):
            found.append(Finding(f"after turn {snapshot['turn']}, {differs}"))
    return found


@check(
    "runtime.state_key_exact",
    "Put every fact that the agent sees, or that decides its future, into state_key.",
    needs=SEMANTIC,
)
def state_key_exact(subject: Subject) -> list[Finding]:
    """States with equal keys show the agent the same text and the same actions."""
    found: list[Finding] = []
    for episodes in zip_longest(*subject.record.values()):
        seen: dict[str, tuple[str, list[str], str]] = {}
        for episode in filter(None, episodes):
            # The text of an end may differ from that of the same state during the episode.
            for turn, (row, text) in enumerate(zip(episode.rows, episode.texts, strict=True)):
                if row["terminated"] or row["truncated"]:
                    continue
                key, listed = row["info"]["state_key"], sorted(row["info"]["admissible"])
                place = f"turn {turn} of {episode.task}"
                text_before, listed_before, where = seen.setdefault(key, (text, listed, place))
                if listed_before != listed:
                    return [Finding(f"{where} and {place} have one key and other actions")]
                if text_before != text and not found:
                    # The text may hold the result of the last action, which is no part of a state.
                    text = f"{where} and {place} have one key and look different"
                    found.append(Finding(text, "warn"))
    return found


@check(
    "runtime.task_declaration_accuracy",
    "Let every name of Tasks start, and refuse others with Tasks.check.",
    needs=(STARTUP,),
)
def task_declaration_accuracy(subject: Subject) -> list[Finding]:
    """Tasks of both splits start, and unknown names are refused."""
    tasks = subject.env.tasks
    for split in ("train", "test"):
        for task in some_tasks(tasks.split(split), RESET_TASKS, "certify/reset"):
            _, info = subject.env.reset(seed=0, options={"task": task})
            if info["task"] != task or task not in tasks:
                return [Finding(f"{task!r} of {split} starts as {info['task']!r}")]
    try:
        subject.env.reset(seed=0, options={"task": "no such task"})
    except UnknownTaskError:
        return []
    return [Finding("an unknown task is accepted")]


@check(
    "semantic.resource_envelope",
    "Move work from steps to the constructor, and keep large data out of State.",
    needs=(STARTUP,),
)
def resource_envelope(subject: Subject) -> list[Finding]:
    """Steps compute for less than a second, and snapshots take less than a megabyte."""
    found = []
    seconds = [each for player in subject.record.values() for e in player for each in e.seconds]
    if float(np.quantile(seconds, 0.99)) > SLOW_STEP:
        # Without the time, which is another one in each run.
        found.append(
            Finding(f"one step of a hundred computes for more than {SLOW_STEP:.0f} s", "warn")
        )
    size = max(len(repr(snapshot)) for snapshot, _, _ in subject.branches)
    if size > LARGE_SNAPSHOT:
        found.append(Finding(f"a snapshot has {size:,} bytes", "warn"))
    return found
