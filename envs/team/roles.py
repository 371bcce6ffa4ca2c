"""Roles of a team, the teams of the literature, and the replies of a role that checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.messages import clip
from agentgym.reading import find_clauses
from agentgym.utils.action_parsing import plain

KINDS = ("note", "try", "act", "check", "score")
SCORES = ("1", "2", "3")
"""The scores of a role of kind "score", the worst one first."""
ACCEPT, REJECT = "accept", "reject"
MAX_NOTE = 1000
"""Characters of a message."""
_REPLY = re.compile(r"(accept|reject)(?:ed)?(?![\w?-])[ :,.!-]{0,9}(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Role:
    """A role of a team.

    Attributes:
        name: name of the role, such as "verifier".
        kind: "note": writes a message to the roles after it. "act": proposes an action for the
            environment. "try": proposes an action, which is also tried out for its reward. "check":
            accepts the proposed action, which is then played, or rejects it. "score": scores the
            proposed action, which is played in any case.
        instructions: the assignment of the role, shown to all roles and repeated when it acts.
    """

    name: str
    kind: str
    instructions: str


TEAMS: dict[str, tuple[Role, ...]] = {
    "thinker-reasoner": (
        Role("thinker", "note", "Plan how to solve the task. Write the plan for the reasoner."),
        Role("reasoner", "act", "Follow the plan of the thinker. Reply with the action."),
    ),
    "generator-verifier-refiner": (
        Role("generator", "act", "Reply with the action that you think is right."),
        Role("verifier", "note", "Check the action of the generator. Write down its mistakes."),
        Role(
            "refiner",
            "act",
            "Reply with the final action, improved by the remarks of the verifier.",
        ),
    ),
    "proposer-checker": (
        Role("proposer", "act", "Reply with an action. If one was rejected, reply with another."),
        Role(
            "checker",
            "check",
            "Check the proposed action. Reply accept, or reject: and the reason.",
        ),
    ),
    "teacher-student": (
        Role(
            "teacher",
            "note",
            "In the first round, write a similar and easier task with its solution. Later, correct "
            "the action of the student.",
        ),
        Role("student", "act", "Learn from the teacher. Reply with the action."),
    ),
    "pioneer-observer": (
        Role("pioneer", "try", "Reply with the action that you think is right."),
        Role("observer", "act", "Reply with the action, or a better one than that of the pioneer."),
    ),
    "solver-evaluator-scorer": (
        Role("solver", "act", "Reply with the action that you think is right."),
        Role("evaluator", "note", "Criticise the action of the solver. Write down its mistakes."),
        Role(
            "scorer",
            "score",
            "Weigh the action and the critique. Reply with the score of the action: 1 (wrong), 2 "
            "(partly right) or 3 (right).",
        ),
    ),
    "planner-actor-reflector": (
        Role(
            "planner",
            "note",
            "Divide the task into steps. Name the step that comes next, and the kind of action "
            "that it needs.",
        ),
        Role("actor", "act", "Reply with the action that the planner asks for, with its details."),
        Role(
            "reflector",
            "check",
            "Check whether the action fits the plan and the observations. Reply accept, or reject: "
            "and what to change.",
        ),
    ),
    "planner-executor-verifier-generator": (
        Role(
            "planner",
            "note",
            "Choose the next step towards the task, and the action that serves it. Write both for "
            "the executor.",
        ),
        Role("executor", "act", "Carry out the step of the planner. Reply with the action."),
        Role(
            "verifier",
            "note",
            "Read the earlier actions and the observations after them. Write down whether they "
            "suffice to finish the task, or what is missing.",
        ),
        Role(
            "generator",
            "act",
            "Reply with the action that finishes the task if the verifier finds that enough is "
            "known. If not, reply with the action of the executor.",
        ),
    ),
}
"""The named teams. The roles are in the order in which they act.

thinker-reasoner: the meta-thinker and the reasoner of ReMA (arXiv 2503.09501).
generator-verifier-refiner: MALT (arXiv 2412.01928).
teacher-student: the analogue of LTC (arXiv 2310.01444), in rounds of `TeamGame`.
proposer-checker: an action is played once the checker accepts it.
pioneer-observer: CORY (arXiv 2410.06101). Both get the sum of the rewards of their actions.
solver-evaluator-scorer: CoMAS (arXiv 2510.08529), whose recipe rewards them by the scores.
planner-actor-reflector: the agents for plans, tools and reflection of AutoAct (arXiv 2401.05268).
planner-executor-verifier-generator: the modules of AgentFlow (arXiv 2510.05592), which share a
`memory` of `TeamGame`.
"""


def as_roles(roles: str | Sequence[Role | Mapping[str, Any]]) -> tuple[Role, ...]:
    """Returns the roles of a team given by name or one by one.

    Args:
        roles: a name of `TEAMS`, or roles, each a `Role` or a mapping with its fields.

    Raises:
        ConfigError: for an unknown team, or roles that cannot form a team.
    """
    if isinstance(roles, str):
        if roles not in TEAMS:
            hint = did_you_mean(roles, TEAMS)
            raise ConfigError(f"roles must be one of {', '.join(TEAMS)}, got {roles!r}.{hint}")
        return TEAMS[roles]
    if not isinstance(roles, Sequence):
        raise ConfigError(
            f"roles must be the name of a team or a list of roles, got {roles!r:.80}."
        )
    found = tuple(_as_role(role) for role in roles)
    names = [role.name for role in found]
    if len(found) < 2 or len(set(names)) < len(names):
        raise ConfigError(f"A team needs at least two roles with different names, got {names}.")
    kinds = [role.kind for role in found]
    if "act" not in kinds or kinds[-1] in ("note", "try"):
        raise ConfigError(
            'A team needs a role of kind "act", and its last role must act, check or score, got '
            f"{kinds}."
        )
    for kind in ("check", "score"):
        if kind in kinds[: kinds.index("act")]:
            raise ConfigError(
                f'A role of kind "{kind}" must come after one of kind "act", got {kinds}.'
            )
    return found


def _as_role(role: Role | Mapping[str, Any]) -> Role:
    fields = asdict(role) if isinstance(role, Role) else role
    keys = tuple(Role.__dataclass_fields__)
    if (
        not isinstance(fields, Mapping)
        or set(fields) != set(keys)
        or not all(isinstance(value, str) and value.strip() for value in fields.values())
        or fields["kind"] not in KINDS
    ):
        raise ConfigError(
            f"A role has the texts {', '.join(keys)}, and kind is one of {', '.join(KINDS)}. "
            f"Got {fields!r:.200}."
        )
    return Role(**fields)


def checked(said: str) -> str:
    """Returns "accept", or "reject: " with the reason, or "" if a reply is neither.

    Behind "accept", a condition or a denial contradicts it ("accept? No.", "accept only if ...").
    """
    reply = _REPLY.fullmatch(plain(said, cased=True))
    if reply is None:
        return ""
    if reply[1].lower() == REJECT:
        return f"{REJECT}: {clip(reply[2], MAX_NOTE)}"
    doubts = [c for c in find_clauses(reply[2]) if c.negated or c.conditional or c.answer == "no"]
    return "" if doubts or REJECT in reply[2].lower() else ACCEPT
