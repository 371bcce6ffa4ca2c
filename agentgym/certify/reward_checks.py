"""Checks of rewards and success: for what does the environment pay?"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.certify.episodes import follow, mean, standard_error
from agentgym.certify.findings import (
    CONSISTENT,
    CYCLE,
    FLOOR,
    ORACLE,
    SEMANTIC,
    Finding,
    Unchecked,
    check,
)
from agentgym.certify.players import FLOOR_PLAYERS
from agentgym.certify.subject import EXPERT, Subject

TINY = 1e-6
MARGIN = 0.1
"""Share of the range by which a return has to exceed another one."""
MUCH = 0.5
"""Share of the range, or of successes, above the floor that a canary must not reach."""
LUCKY, TOO_LUCKY = 0.05, 0.2
"""Success of nonsense that is a warning, and that is a failure."""
BY_CHANCE, EASY = 0.4, 0.6
"""Success of random actions, as a share of the expert's, that is a warning, and a failure."""
REPLAYS = 10
"""Other seeds and tasks in which an exploit is tried."""
SHORTCUTS = ("last action alone", "last action repeated", "plan of another task")
"""Canaries that know a part of a solution: they only warn."""
JUDGED = (*SEMANTIC, ORACLE)


@check(
    FLOOR,
    "Pay and report success only for the solution of the task.",
    needs=JUDGED,
)
def floor_gap(subject: Subject) -> list[Finding]:
    """The expert earns more than players that know nothing, which rarely succeed."""
    found = []
    best, floor = mean(list(subject.returns(EXPERT))), subject.floor
    if best - floor < MARGIN * max(abs(best), abs(floor), TINY):
        found.append(Finding(f"the expert earns {best:.3f}, players that know nothing {floor:.3f}"))
    for player in FLOOR_PLAYERS:
        share, bounds = subject.success(player), (LUCKY, TOO_LUCKY)
        if player == "random" or subject.is_seat:  # invalid actions lead to random moves
            solved = subject.success(EXPERT)
            bounds = (BY_CHANCE * solved, EASY * solved)
        if share > bounds[0]:
            severity = "fail" if share > bounds[1] else "warn"
            found.append(Finding(f"{player} actions succeed in {share:.0%} of tasks", severity))
    return found


@check(
    "semantic.nonsense_floor",
    "Let an invalid action cost at least as much as a valid one (invalid_penalty).",
    needs=JUDGED,
)
def nonsense_floor(subject: Subject) -> list[Finding]:
    """Nonsense earns less than the expert, and no more than chance."""
    best, nonsense, chance = subject.paired(EXPERT, "nonsense", "random")
    error = standard_error(best - nonsense)
    numbers = f"nonsense earns {mean(list(nonsense)):.3f}"
    if nonsense.mean() > best.mean() - error - TINY and len(best) > 1:
        return [Finding(f"{numbers}, the expert {mean(list(best)):.3f}")]
    luck = 2 * standard_error(nonsense - chance)
    if nonsense.mean() > chance.mean() + max(MARGIN * subject.range, TINY) + luck:
        return [Finding(f"{numbers}, random actions {mean(list(chance)):.3f}", "warn")]
    return []


@check(
    "semantic.canary_floor",
    "Check in the rules that the steps of a solution were taken, and vary the solutions.",
    needs=(*JUDGED, FLOOR, CONSISTENT),
)
def canary_floor(subject: Subject) -> list[Finding]:
    """Players that choose by place or length, or know a part of a solution, stay near the floor."""
    found = []
    floor, span = subject.floor, subject.range
    lucky = max(subject.success(player) for player in FLOOR_PLAYERS)
    turns = mean([len(episode.actions) for episode in subject.experts])
    for player in subject.record.keys() - {EXPERT, *FLOOR_PLAYERS}:
        if player in SHORTCUTS[:2] and (turns < 2 or subject.hidden):
            continue  # the last action is the whole solution, or names what was hidden
        returns, success = subject.returns(player), subject.success(player)
        total = mean(list(returns))
        luck = 2 * standard_error(returns) if subject.uncertain else 0.0
        if total > floor + MUCH * span + luck + TINY or success > lucky + MUCH:
            severity = "warn" if player in SHORTCUTS else "fail"
            text = f"{player}: return {total:.3f} (floor {floor:.3f}), success {success:.0%}"
            found.append(Finding(text, severity))
    return sorted(found, key=lambda finding: finding.evidence)


@check(
    CONSISTENT,
    "Report success with the reward for it, and do not take it back.",
    needs=JUDGED,
)
def success_consistent(subject: Subject) -> list[Finding]:
    """Success is final, and no failure of the same task earns as much."""
    for episode in subject.episodes:
        successes = [row["info"]["success"] for row in episode.rows]
        if any(successes) and not episode.success and episode.over:
            turn = successes.index(True)
            return [Finding(f"task {episode.task}: success at turn {turn} is taken back")]
    for own in subject.experts:
        if not own.success:
            continue
        for player, played in subject.record.items():
            for episode in played:
                same = episode.task == own.task and episode.over
                if same and not episode.success and episode.total >= own.total - TINY:
                    text = f"task {own.task}: {player} earns {episode.total:.3f} without success"
                    return [Finding(f"{text}, the expert {own.total:.3f} with it")]
    return []


@check(
    CYCLE,
    "Pay a step of progress once per episode, or charge the way back.",
    needs=JUDGED,
)
def positive_cycle(subject: Subject) -> list[Finding]:
    """No cycle of actions pays again and again."""
    found = []
    for search in subject.searches:
        if (cycle := search.cycle) is not None:
            paid = ", ".join(f"{total:.3f}" for total in cycle.returns)
            text = f"task {search.task}: {_quoted(cycle.around)} repeated earns {paid}"
            found.append(Finding(text))
    return found


@check(
    "statistical.gameability_gap",
    "Pay less on the way than for the success at its end.",
    needs=(*JUDGED, FLOOR, CONSISTENT, CYCLE),
)
def gameability_gap(subject: Subject) -> list[Finding]:
    """No plan earns much without success, in other tasks and with other seeds."""
    found = []
    if subject.range <= TINY:
        raise Unchecked("the expert earns no more than the floor")
    for search in subject.searches:
        if search.failed is None or not search.failed.actions:
            continue
        earned = robust_return(subject, search.task, search.failed.actions)
        gap = (earned - subject.floor) / subject.range
        if gap >= MUCH:
            text = f"{_quoted(search.failed.actions)} earns {earned:.3f} without success"
            finding = f"task {search.task}: {text}, {gap:.0%} of the range"
            found.append(Finding(finding, "fail" if gap >= 1 else "warn"))
    return found


def robust_return(subject: Subject, task: str, actions: Sequence[str]) -> float:
    """Returns the mean return of a plan without success, in its task and others, at other seeds.

    An episode with success counts as the floor: it is no exploit.
    """
    others = [episode.task for episode in subject.experts if episode.task != task]
    tasks = [task] * (REPLAYS // 2) + others[: REPLAYS - REPLAYS // 2]
    played = [subject.play(each, follow(actions), seed=seed) for seed, each in enumerate(tasks)]
    return mean([subject.floor if each.success else each.total for each in played])


@check(
    "statistical.reward_reachability",
    "Add rewards on the way, or easier tasks.",
    needs=(*JUDGED, FLOOR),
)
def reward_reachability(subject: Subject) -> list[Finding]:
    """Chance or a search finds a reward."""
    base = float(subject.returns("nonsense").min())
    if (subject.returns("random") > base + TINY).any():
        return []
    for search in subject.searches:
        ways = [way for way in (search.solved, search.failed, search.best) if way is not None]
        if any(way.total > base + TINY for way in ways):
            return []
    steps = sum(search.steps for search in subject.searches)
    text = f"neither {len(subject.experts)} random episodes nor {steps} steps of search earn more"
    return [Finding(text + " than nonsense", "warn")]


@check(
    "statistical.difficulty_separation",
    "Check that the expert is better than chance in every kind of task.",
    needs=(*JUDGED, FLOOR),
)
def difficulty_separation(subject: Subject) -> list[Finding]:
    """The expert's return is above that of random actions by more than chance."""
    best, chance = subject.paired(EXPERT, "random")
    gain = best - chance
    error = 1.96 * standard_error(gain)
    if gain.mean() > error:
        return []
    text = f"the expert earns {gain.mean():.3f} +- {error:.3f} more than random actions"
    return [Finding(text, "warn")]


def _quoted(actions: Sequence[str], most: int = 6) -> str:
    """Returns a list of actions, the first ones if there are many."""
    more = f" and {len(actions) - most} more" if len(actions) > most else ""
    return ", ".join(repr(each[:40]) for each in actions[:most]) + more
