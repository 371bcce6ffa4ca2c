"""Clinic: find the disease of a patient by questions and tests, at a price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agentgym.core import TextEnv
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks, draw_level, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.fast_pcg64 import Draws

DISEASES = (
    *("arvitis", "belosis", "corvinia", "dalmia", "ertosis", "falgia", "gormitis", "helvosis"),
    *("irdania", "jolitis", "kermosis", "lurgia"),
)
SYMPTOMS = (
    *("fever", "cough", "headache", "rash", "nausea", "dizziness", "fatigue", "chills"),
    *("back pain", "chest pain", "sore throat", "thirst", "night sweats", "swollen legs"),
)
TESTS = ("blood test", "urine test", "x-ray", "ultrasound", "throat swab", "blood pressure")
LEVELS = {"rarely": 0.1, "sometimes": 0.5, "usually": 0.9}
"""Words of the handbook, and their probabilities."""
SURE = 0.9
"""The expert's diagnosis needs this probability, if a further finding is still worth its price."""


@dataclass
class State:
    """The handbook, the case and the interview so far.

    Attributes:
        diseases: names of the diseases, equally likely.
        table: word of the handbook for each disease and finding.
        sick: the patient's disease.
        findings: whether the patient has each finding.
        first: the finding that the patient mentions at the start.
        known: the findings that have been asked for, with their results.
        diagnosis: the agent's diagnosis, "" before it.
    """

    diseases: list[str]
    table: dict[str, dict[str, str]]
    sick: str
    findings: dict[str, bool]
    first: str
    known: dict[str, bool] = field(default_factory=dict)
    diagnosis: str = ""


def handbook(table: dict[str, dict[str, str]]) -> str:
    """Returns the text of a handbook, one line per disease."""
    lines = ["Handbook:"]
    for disease, row in table.items():
        found: dict[str, list[str]] = {word: [] for word in reversed(LEVELS)}
        for finding, word in row.items():
            found[word].append(finding)
        words = [f"{word} {', '.join(names)}" for word, names in found.items() if names]
        lines.append(f"- {disease}: {'; '.join(words)}")
    return "\n".join(lines)


def posterior(
    table: dict[str, dict[str, str]], diseases: Sequence[str], known: dict[str, bool]
) -> np.ndarray:
    """Returns the probability of each disease, given findings. All are equally likely at first."""
    odds = np.ones(len(diseases))
    for finding, present in known.items():
        chances = np.array([LEVELS[table[disease][finding]] for disease in diseases])
        odds *= chances if present else 1 - chances
    return odds / odds.sum()


def gain_of(
    table: dict[str, dict[str, str]], diseases: Sequence[str], belief: np.ndarray, finding: str
) -> float:
    """Returns the expected gain in bits of information about the disease by a finding."""
    chances = np.array([LEVELS[table[disease][finding]] for disease in diseases])
    before = _bits(belief)
    yes = float(belief @ chances)
    after = yes * _bits(belief * chances / yes) + (1 - yes) * _bits(
        belief * (1 - chances) / (1 - yes)
    )
    return before - after


def _bits(belief: np.ndarray) -> float:
    positive = belief[belief > 0]
    return float(-(positive * np.log2(positive)).sum())


class Clinic(TextEnv):
    """Diagnose a patient with a hidden case by asking questions and ordering tests.

    ## Description
    A handbook tells how often each disease of the day leads to each finding. The patient has one of
    these diseases, all equally likely, and findings sampled by the handbook. At first the patient
    mentions one of them. Questions are cheap and tests are dear. The agent decides when it knows
    enough, and makes one diagnosis. Diseases and handbook are made up and differ in every task, so
    that no medical knowledge helps.

    ## Action Space
    Text, one of:
    - `ask about fever`: a question to the patient.
    - `order blood test`: a test.
    - `diagnose arvitis`: ends the episode.

    ## Observation Space
    Text: the handbook, the findings so far, and the patient's last answer.

    ## Rewards
    - Term `task`: 1 for the right diagnosis, else 0.
    - Term `cost`: minus `question_cost` for a question and minus `test_cost` for a test.

    ## Starting State
    Diseases, handbook, the patient's disease and findings are sampled from the task name.

    ## Episode End
    - Termination: a diagnosis.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: the right diagnosis. `progress`: probability of the true disease
    given the findings so far, 1 after the right diagnosis and 0 after a wrong one.

    ## Arguments
    - `diseases` (int, default 5): number of diseases, 2 to 12.
    - `symptoms` (int, default 8): symptoms that can be asked for, 1 to 14.
    - `tests` (int, default 3): tests that can be ordered, 0 to 6. Half of a test's words are
      "rarely" and half "usually", while symptoms are vaguer.
    - `question_cost` (float, default 0.02): price of a question, 0 to 1.
    - `test_cost` (float, default 0.1): price of a test, 0 to 1.
    - `max_turns` (int or None, default 30): turn limit.

    ## Notes
    The expert computes probabilities by Bayes' rule (as if the first finding had been asked for)
    and takes the finding with the most information per price, until one disease has a probability
    of 0.9 or no finding is worth its price. It looks one step ahead and may be wrong.

    ## References
    Doctor-R1: Mastering Clinical Inquiry with Experiential Agentic Reinforcement Learning (inquiry
    as sequential decisions with a hidden case). Self-Evolving Multi-Agent Simulations for Realistic
    Clinical Interactions (a doctor asks a patient and orders measurements). The diseases here are
    made up.

    ## Version History
    v0: first version.
    """

    State = State
    state: State
    reward_names = ("task", "cost")

    def __init__(
        self,
        *,
        diseases: int = 5,
        symptoms: int = 8,
        tests: int = 3,
        question_cost: float = 0.02,
        test_cost: float = 0.1,
        max_turns: int | None = 30,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        for name, value, low, high in (
            ("diseases", diseases, 2, len(DISEASES)),
            ("symptoms", symptoms, 1, len(SYMPTOMS)),
            ("tests", tests, 0, len(TESTS)),
            ("question_cost", question_cost, 0, 1),
            ("test_cost", test_cost, 0, 1),
        ):
            if not low <= value <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, got {value}.")
        self.sizes = diseases, symptoms, tests
        self.prices = float(question_cost), float(test_cost)
        self.tasks = Tasks.generated()
        self.instructions = (
            "You are a doctor. Find out which disease the patient has.\n"
            "Each turn, reply with one action:\n"
            "- ask about fever: ask the patient about a symptom of the handbook\n"
            "- order blood test: order a test of the handbook\n"
            "- diagnose arvitis: name the disease, which ends the interview\n"
            "Rules:\n"
            "- The patient has exactly one disease of the handbook, and all are equally likely.\n"
            "- Given the disease, a finding is present with a probability of 0.1 (rarely), 0.5 "
            "(sometimes) or 0.9 (usually), independently of other findings.\n"
            f"The right diagnosis is worth 1, a question costs {question_cost:g} and a test "
            f"{test_cost:g}."
        )

    def _start(self, task: str) -> TimeStep:
        draws = task_draws(task, "Clinic", block=64)
        self.state = draw_level(task, lambda: self._case(draws))
        self._restored()
        return self._look("")

    def _restored(self) -> None:
        self._handbook = handbook(self.state.table)

    def _case(self, draws: Draws) -> State:
        """Samples a handbook, and a patient with at least one symptom."""
        count, symptoms, tests = self.sizes
        diseases = sorted(draws.choice(DISEASES, count))
        asked = sorted(draws.choice(SYMPTOMS, symptoms))
        ordered = sorted(draws.choice(TESTS, tests))
        below, words = draws.below, (*LEVELS,)
        table = {
            disease: {finding: words[below(3)] for finding in asked}
            | {finding: words[2 * below(2)] for finding in ordered}
            for disease in diseases
        }
        while True:
            sick = diseases[below(count)]
            findings = {name: draws.random() < LEVELS[w] for name, w in table[sick].items()}
            present = [name for name in asked if findings[name]]
            if present:
                break
        first = present[below(len(present))]
        return State(diseases, table, sick, findings, first, {first: True})

    def _advance(self, action: str) -> TimeStep:
        state = self.state
        if action not in self._options():
            return self._invalid(f"Invalid action {action[:40]!r}. Valid: {self._examples()}.")
        if action.startswith("diagnose "):
            state.diagnosis = action.removeprefix("diagnose ")
            return self._look("")
        test = action.startswith("order ")
        finding = action.removeprefix("order ").removeprefix("ask about ")
        state.known[finding] = found = state.findings[finding]
        if test:
            told = f"The {finding} is {'positive' if found else 'negative'}."
        else:
            told = f'The patient says: "{"I have" if found else "No"} {finding}."'
        return self._look(told, -self.prices[test])

    def _options(self) -> list[str]:
        state = self.state
        findings = [name for name in state.findings if name not in state.known]
        return [
            *(f"{'order' if name in TESTS else 'ask about'} {name}" for name in findings),
            *(f"diagnose {disease}" for disease in state.diseases),
        ]

    def _examples(self) -> str:
        return ", ".join(self._options()[:3]) + ", ..."

    def _look(self, told: str, cost: float = 0.0) -> TimeStep:
        state = self.state
        over, right = bool(state.diagnosis), state.diagnosis == state.sick
        belief = posterior(state.table, state.diseases, state.known)
        lines = [self._handbook, "Findings so far:"]
        for name, present in state.known.items():
            result = ("positive" if present else "negative") if name in TESTS else _yes(present)
            lines.append(f"- {name}: {result}")
        if over:
            lines.append(f"The diagnosis {state.diagnosis} is {'right' if right else 'wrong'}.")
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": float(right), "cost": cost},
            terminated=over,
            success=right,
            progress=float(right) if over else float(belief[state.diseases.index(state.sick)]),
            admissible=() if over else tuple(self._options()),
            feedback=told,
        )

    def privileged_text(self) -> str:
        """Returns the disease and its probability given the findings."""
        belief = posterior(self.state.table, self.state.diseases, self.state.known)
        place = self.state.diseases.index(self.state.sick)
        return f"Disease: {self.state.sick} ({belief[place]:.2f})."

    def expert(self) -> str | None:
        """Returns the most informative finding per price, or the diagnosis: see the notes."""
        state = self.state
        if self._over:
            return None
        belief = posterior(state.table, state.diseases, state.known)
        best = f"diagnose {state.diseases[int(belief.argmax())]}"
        if belief.max() >= SURE:
            return best
        worth: list[tuple[float, str]] = []
        for name in state.findings:
            if name not in state.known:
                price = self.prices[name in TESTS]
                gain = gain_of(state.table, state.diseases, belief, name)
                if gain > 2 * price:
                    verb = "order" if name in TESTS else "ask about"
                    worth.append((gain / max(price, 1e-3), f"{verb} {name}"))
        return max(worth)[1] if worth else best


def _yes(present: bool) -> str:
    return "yes" if present else "no"
