"""`AdversarialPairs`: pairs of a good action and a worse one that a language model writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentgym.agents.text_model import text_model
from agentgym.data.episode_text import LONGEST
from agentgym.reading.typography import without_thoughts
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.trajectory import Support, Trajectory, Turn, rules_of
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.policy.support import candidate_support
from agentgym.trainers.rollout.branches import single_turn, with_action
from agentgym.trainers.rollout.env_pool import instructions_by_id
from agentgym.utils.action_parsing import match_action, plain

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

PROMPT = (
    "You write a bad action, from which another agent learns what not to do. You read its rules, "
    "an observation and a good action. Reply with another action of the same form that the rules "
    "allow there, that looks plausible, and that helps the task less. Reply with the action alone, "
    "in one line."
)


class AdversarialPairs(RecipeHooks):
    """Adds a pair of actions for each preferred episode: one of its own, and a worse one.

    A language model reads the observation and the action of a random valid turn of the episode and
    writes the worse action, which gets the thoughts of the good one. An empty reply, the same
    action as the environment reads it, or one that is not admissible makes no pair.

    Source: the adversarial agent of "Enhancing Language Multi-Agent Learning with Multi-Agent
    Credit Re-Assignment for Interactive Environment Generalization" (CollabUIAgents, arXiv
    2502.14496).

    Args:
        trainer: the trainer of the policy.
        source: the language model (see `text_model`).
        pairs: the hooks that prefer episodes.
    """

    def __init__(self, trainer: Run, source: str, pairs: RecipeHooks):
        super().__init__()
        self.trainer, self.pairs = trainer, pairs
        self.write = text_model(source, PROMPT)
        self.rules = instructions_by_id(trainer.pool.env(0))

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes and the actions, with the pairs of both."""
        learn = self.pairs.on_rollout_end(fresh, iteration, rng)
        good: list[tuple[Trajectory, int]] = []
        for i in sorted({each.better for each in learn.pairs or ()}):
            valid = [n for n, turn in enumerate(learn.trajectories[i].turns) if turn.valid]
            if valid:
                good.append((learn.trajectories[i], valid[int(rng.integers(len(valid)))]))
        texts = [self._text(each, each.turns[place]) for each, place in good]
        replies = self.write(texts) if texts else []
        found, pairs = list(learn.trajectories), list(learn.pairs or ())
        for (each, place), reply in zip(good, replies, strict=True):
            worse = self._sample(each.turns[place], reply)
            if worse is not None:
                pairs.append(Pair(len(found), len(found) + 1))
                found += [single_turn(each, place), with_action(each, place, worse)]
        added = float(len(found) - len(learn.trajectories)) / 2
        self.metrics = {**self.pairs.metrics, "adversarial_pairs": added}
        return Learn(found, pairs=pairs)

    def _text(self, trajectory: Trajectory, turn: Turn) -> str:
        """Returns the text that the model reads about a turn."""
        parts = [
            rules_of(trajectory, self.rules),
            f"Observation: {turn.observation[:LONGEST]}",
        ]
        if turn.admissible:
            parts.append(f"Admissible actions: {', '.join(turn.admissible)[:LONGEST]}")
        return "\n\n".join([*parts, f"Good action: {turn.action[:LONGEST]}"])

    def _sample(self, turn: Turn, reply: str) -> Sample | None:
        """Returns the action of a reply in place of that of a turn, or None if it is the same."""
        text: str | None = reply
        if turn.admissible:
            text = match_action(reply, turn.admissible, cased=True)
        own = without_thoughts(turn.action)
        if not text or plain(text) == plain(own):
            return None
        text = turn.action.removesuffix(own) + text
        tokens = np.array(self.trainer.policy.encode_action(text), np.int32)
        support, choice = None, None
        if turn.choice is not None:  # a whole action, as `policy.candidates` samples it
            choice = turn.admissible.index(text)
            support = Support(np.arange(len(tokens) + 1, dtype=np.int32), tokens)
        elif self.trainer.config.rollout.constrain and turn.admissible:
            support = candidate_support(self.trainer.policy, turn.admissible, text)
            if support is None:
                return None
        return Sample(tokens, np.zeros(len(tokens), np.float32), support, text, True, choice)
