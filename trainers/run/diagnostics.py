"""`Watch`: warnings about a run that learns nothing, with their usual remedies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.rollout.env_pool import MakeEnv
from agentgym.trainers.run.environment import has_expert
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.learning import CloningConfig
from agentgym.wrappers.wrapping import answer_format

PATIENCE = 10
"""Iterations without a sign of learning before a warning."""
CRITIC_PATIENCE = 5
"""Measured iterations with an explained variance of 0 or below before a warning."""
LARGEST_KL = 0.1
"""KL divergence per token, in nats, by which an update may move the policy without a warning."""
LARGEST_LOSS = 0.15
"""Success rate of a clone on held-out tasks that RL may lose without a warning, if the intervals
of the rewards overlap."""
LARGEST_GAP = 0.3
"""Difference between the success rates of training and of held-out tasks without a warning."""
FEWEST_PEERS = 0.3
"""Share of turns with another one in the same state that need no hint."""
LARGEST_FORK = 0.01
"""Share of repeated actions with different outcomes that a graph of states bears."""
MORE = 4
"""Factor of demonstrations that is proposed for a clone that is far from them."""


class Watch:
    """Reads the scalars of each iteration and warns at most once per cause.

    The last iterations of a critic are the last ones in which its explained variance was measured.
    Where returns do not vary, it is not, and the iteration counts neither for nor against it.

    Args:
        replies: whether actions are read from longer replies (`ExtractAction`).
        cloned: whether RL started from a clone of demonstrations.
        greedy: whether evaluations play greedily, in contrast to training, and the same game.
        clone_success: success rate of the clone on held-out tasks. None: that of the first
            evaluation.
        expert: whether the environment has a scripted expert, which is asked when it matters.
    """

    def __init__(
        self,
        *,
        replies: bool = False,
        cloned: bool = False,
        greedy: bool = False,
        clone_success: float | None = None,
        expert: Callable[[], bool] = lambda: True,
    ) -> None:
        self._replies, self._cloned, self._greedy = replies, cloned, greedy
        self._expert = expert
        self._success: float | None = None
        self._clone_success = clone_success
        self._clone_reward: float | None = None  # the lower end of its interval
        self._returns: deque[float] = deque(maxlen=PATIENCE)
        self._explained: deque[float] = deque(maxlen=CRITIC_PATIENCE)
        self._equal: deque[bool] = deque(maxlen=PATIENCE)
        self._warned: set[str] = set()

    @classmethod
    def of(cls, config: TrainConfig, state: RunState, make_env: MakeEnv) -> Watch:
        """Returns the watch of a run with these settings, counters and environments."""
        return cls(
            replies=answer_format(config.environment.wrap) is not None,
            cloned=config.imitates,
            greedy=config.evaluation.eval_temperature == 0
            and config.game.scripted
            and config.environment.curriculum == "uniform",
            clone_success=state.cloned,
            expert=lambda: has_expert(make_env, config.environment.env_seconds),
        )

    def warnings(
        self, metrics: Mapping[str, float], alarms: Mapping[str, str] | None = None
    ) -> list[str]:
        """Returns the warnings after an iteration, or after an evaluation.

        Args:
            metrics: the scalars.
            alarms: those of an evaluation of self-play, by their causes.
        """
        if "rollout/return" not in metrics:
            held_out = {"gap": self._gap(metrics), "lost": self._lost(metrics)}
            return self._new(held_out | dict(alarms or {}))
        self._success = metrics.get("rollout/success")
        found = {
            "kl": self._moved(metrics),
            "overflow": self._overflow(metrics),
            "flat": self._flat(metrics),
            "critic": self._critic(metrics),
            "equal": self._equal_outcomes(metrics),
            "peers": self._peers(metrics),
            "forked": self._forked(metrics),
        }
        return self._new(found)

    def _new(self, found: Mapping[str, str | None]) -> list[str]:
        """Returns the warnings whose cause is new."""
        new = {cause: text for cause, text in found.items() if text and cause not in self._warned}
        self._warned |= new.keys()
        return [text for text in new.values() if text]

    def _overflow(self, metrics: Mapping[str, float]) -> str | None:
        cut = metrics.get("rollout/observations_cut", 0.0)
        overflows = metrics.get("rollout/context_overflows", 0.0)
        if not cut + overflows:
            return None
        return (
            f"{overflows:.0f} episodes exceeded the context and {cut:.0f} observations were cut. "
            "A shorter prompt helps (--context window, actions or current), or a larger "
            "--max-tokens if the model allows it."
        )

    def _moved(self, metrics: Mapping[str, float]) -> str | None:
        kl = metrics.get("losses/kl", 0.0)
        if not kl > LARGEST_KL:
            return None
        return (
            f"An update moved the policy by {kl:.2f} nats of KL divergence per token, so that it "
            "may forget the abilities that it started with. A smaller --lr helps, or fewer "
            "--epochs."
        )

    def _lost(self, metrics: Mapping[str, float]) -> str | None:
        held_out = metrics.get("eval/success")
        if held_out is None or not self._cloned:
            return None
        low, high = (metrics.get(f"eval/reward_{end}", 0.0) for end in ("low", "high"))
        if self._clone_success is None:
            self._clone_success, self._clone_reward = held_out, low
        apart = self._clone_reward is not None and low < high < self._clone_reward
        if held_out >= self._clone_success - LARGEST_LOSS and not apart:
            return None
        return (
            f"The policy succeeds in {held_out:.0%} of held-out tasks, its clone did in "
            f"{self._clone_success:.0%}. Smaller steps keep more of the clone: a third of --lr, or "
            "more --episodes-per-iteration. The folder best has the best policy of all evaluations."
        )

    def _gap(self, metrics: Mapping[str, float]) -> str | None:
        held_out, played = metrics.get("eval/success"), self._success
        if not self._greedy or held_out is None or played is None:
            return None
        if abs(held_out - played) < LARGEST_GAP:
            return None
        return (
            f"Greedy play succeeds in {held_out:.0%} of held-out tasks, sampled play in "
            f"{played:.0%} of training tasks. If samples fail, train at a lower --temperature or "
            "cut the tail of the distribution (--top-p 0.9). If greedy play fails, evaluate at the "
            "temperature of training (--eval-temperature 1)."
        )

    def _flat(self, metrics: Mapping[str, float]) -> str | None:
        self._returns.append(metrics["rollout/return"])
        if len(self._returns) < PATIENCE or metrics.get("rollout/success", 0.0) > 0:
            return None
        if max(self._returns) - min(self._returns) > 1e-9:
            return None
        if "flat" in self._warned:
            return None
        clone = "clone better (more --bc-demonstrations or --bc-epochs)"
        if not self._cloned:
            clone = first_clone(self._expert())
        valid = metrics.get("rollout/valid", 1.0)
        start = f"The return has not changed for {PATIENCE} iterations and no episode succeeds."
        if valid < 0.5 and self._replies:
            return (
                f"{start} {valid:.0%} of the replies hold a valid action. trajectories.jsonl has "
                "examples: raise --max-new-tokens if thoughts are cut off, reward the format "
                f"(--wrap ExtractAction:format_reward=0.1), or {clone}."
            )
        if valid < 0.5:
            return (
                f"{start} {valid:.0%} of the actions are valid: sample from the admissible ones "
                f"(--constrain), {clone}, or use a pretrained --model."
            )
        return (
            f"{start} Remedies: {clone}, raise --temperature or --group-size, or start with "
            "easier tasks (--curriculum window, --env-kwargs)."
        )

    def _critic(self, metrics: Mapping[str, float]) -> str | None:
        if "losses/explained_variance" not in metrics:
            return None
        self._explained.append(metrics["losses/explained_variance"])
        if len(self._explained) < CRITIC_PATIENCE or max(self._explained) > 0:
            return None
        return (
            f"The critic's explained variance has been 0 or below for {CRITIC_PATIENCE} "
            "iterations: its advantages carry no more information than returns. A recipe without "
            "a critic (grpo, rloo) is as good here. Or give the critic a model of its own, which "
            "reads the hidden state if the environment has a text of it, and more episodes "
            "(--critic-backbone separate --critic-sees state --critic-episodes 512)."
        )

    def _equal_outcomes(self, metrics: Mapping[str, float]) -> str | None:
        if "credit/advantage_std" not in metrics:
            return None
        self._equal.append(metrics["credit/advantage_std"] < 1e-9)
        # `_flat` speaks about runs without a success. Where all succeed, nothing is left to learn.
        if sum(self._equal) < PATIENCE / 2 or not 0 < metrics.get("rollout/success", 0.0) < 1:
            return None
        return (
            f"In {sum(self._equal)} of {len(self._equal)} iterations, no action did better or "
            "worse than those that it was compared with, so nothing was learned. If the entropy is "
            "almost 0, the policy repeats one action per state: train again with a smaller --lr, "
            "or keep it exploring (--entropy-coef 0.01, --temperature 1.2). Otherwise compare more "
            "episodes (--group-size 16)."
        )

    def _peers(self, metrics: Mapping[str, float]) -> str | None:
        alone = metrics.get("credit/anchor/alone", 0.0)
        if 1 - alone >= FEWEST_PEERS:
            return None
        return (
            f"In {1 - alone:.0%} of the turns, the group acted in the same state again. The others "
            "are compared with none, so that the turn-level credit of this recipe adds little to "
            "that of whole episodes (grpo). More peers need a larger --group-size. A critic needs "
            "none (turn, poad)."
        )

    def _forked(self, metrics: Mapping[str, float]) -> str | None:
        forked = metrics.get("credit/graph/forked", 0.0)
        if forked <= LARGEST_FORK:
            return None
        return (
            f"{forked:.0%} of the actions that the group repeated in a state led to different "
            "states: chance, other players, a simulated user or hidden facts decide too. The "
            "shortest path to a success may then be a gamble, which this recipe prefers. gagpo "
            "weighs the odds, and so does a critic (turn, poad)."
        )


def first_clone(expert: bool) -> str:
    """Returns what a run can imitate before RL, with or without a scripted expert."""
    if expert:
        return "clone the expert first (--bc-demonstrations 300)"
    return "clone recorded episodes first (--data FILE), as there is no scripted expert"


def poor_clone(cloning: CloningConfig) -> str:
    """Returns the remedies for a clone that is far from its demonstrations."""
    if cloning.bc_demonstrations:
        flag = f"--bc-demonstrations {MORE * cloning.bc_demonstrations}"
    else:
        flag = "--data" if cloning.data else "--bc-share"
    return (
        f"The clone is far from its demonstrations. More of them help most ({flag}), then more "
        "epochs (--bc-epochs) if the action loss is still falling, or another --model."
    )
