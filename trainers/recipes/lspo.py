"""LSPO: clusters of actions, regret matching in the game of these, and DPO towards its solution.

"Learning Strategic Language Agents in the Werewolf Game with Iterative Latent Space Policy
Optimization" (arXiv 2502.04686). Many sentences mean the same move. Three steps are repeated:

1. Latent space: the actions of each role are clustered into k latent actions.
2. Policy: counterfactual regret minimisation solves the game of latent actions. With v(I, z) the
   mean outcome of the samples of z in the abstract situation I,

       R(I, z) <- max(R(I, z) + n(I) [v(I, z) - sum_z' sigma(z') v(I, z')], 0),    sigma ~ R.

3. Translation: DPO (see `dpo`) between actions a and b in one state prefers a with the probability
   p = s(z_a) / (s(z_a) + s(z_b)), where s is the average of all sigma:

       -p log sigmoid(m) - (1 - p) log sigmoid(-m),    m = beta [log pi/ref (a) - log pi/ref (b)]

The outcome of an action is the return from its turn on, in all episodes. A random state of each
episode is branched: its agents act `candidates` times in it. These actions are compared. After
`expand_every` iterations actions are clustered anew, with one latent action more. The game is
`Werewolf-Menu-v0`.

Kept: clusters for each role by k-means, CFR in the latent game, DPO, more clusters later. Changed:
texts are compared by their words (theirs: embeddings of a language model, which are `--encoder
module:function`). Regrets are tables over clusters of observations (theirs: deep CFR), of returns
of the policy in training, sums over z' are over the sampled latent actions, and later sigma weigh
more in s. Actions are its samples (theirs: prompted to differ). Labels of preferences are soft, so
that a mixed strategy stays mixed: at the optimum, the policy is the reference times s^(1/beta).
There is one loop in place of separate phases of self-play, CFR and DPO. Votes and secret actions
are latent actions too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge

from agentgym.errors import ConfigError
from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.clusters import Clusters, Embed, Floats, Ints, embed
from agentgym.trainers.rollout.branches import (
    episodes_of,
    orders_of,
    single_turn,
    turn_at,
    turns_before,
)
from agentgym.trainers.settings import (
    Count,
    NonNegative,
    OptimisationConfig,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import PreferenceConfig
from agentgym.utils.importing import imported

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


Several = Annotated[int, Ge(2)]


@dataclass
class Config(PreferenceConfig):
    """Settings of LSPO."""

    rollout: RolloutConfig = defaults(RolloutConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1)
    beta: NonNegative = 1.0
    """Temperature of the preference loss. Smaller values allow a larger KL to the reference."""
    candidates: Several = 4
    """Actions that are sampled and played to the end in a state of each episode."""
    latents: Several = 4
    """Latent actions of a role at first."""
    situations: Positive = 64
    """Largest number of abstract situations of a role."""
    expand_every: Count = 50
    """Iterations after which actions are clustered anew, with one latent action more (0: never)."""
    encoder: str = "words"
    """Vectors of texts, which are clustered by distance: of their words and pairs of words
    ("words"), or module:function, which maps a list of texts to an array [n, d]."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.encoder != "words":
            imported(self.encoder, "encoder")


class LatentActions(RecipeHooks):
    """Branches a state of each episode, and prefers the latent actions of the solved game.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        self.encode: Embed = embed
        if config.encoder != "words":
            self.encode = partial(_encoded, config.encoder, imported(config.encoder, "encoder"))
        self.abstract: dict[str, AbstractGame] = {}

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the actions in the branched states, each as a trajectory of its own."""
        every = self.config.expand_every
        if every and iteration % every == 0:
            self.abstract = {}
        states = [(each, int(rng.choice(orders_of(each)))) for each in episodes_of(fresh)]
        samples = [(each, place) for each in fresh for place in range(len(each.turns))]
        outputs: list[Trajectory] = []
        compared: list[tuple[int, str]] = []
        branches = self._branches(states, iteration)
        for i, ((first, order), others) in enumerate(zip(states, branches, strict=True)):
            for each in (each for members in [first, *others] for each in members):
                if (place := turn_at(each, order)) is not None:
                    outputs.append(single_turn(each, place))
                    compared.append((i, each.agent))
            samples += [
                (each, place)
                for each in (each for members in others for each in members)
                for place in range(turns_before(each, order), len(each.turns))
            ]
        strategy = np.zeros(len(outputs))
        for name in sorted({_game(each) for each, _ in samples}):
            mine = [(each, place) for each, place in samples if _game(each) == name]
            self._solve(name, mine, iteration, rng)
            chosen = [i for i, each in enumerate(outputs) if _game(each) == name]
            strategy[chosen] = self._strategy(name, [outputs[i] for i in chosen], rng)
        return Learn(outputs, pairs=pairs(outputs, compared, strategy))

    def _branches(
        self, states: Sequence[tuple[list[Trajectory], int]], iteration: int
    ) -> list[list[list[Trajectory]]]:
        """Plays the branches of some states, and returns the judged episodes of each."""
        more, seed = self.config.candidates - 1, self.trainer.config.run.seed
        requests = [
            self.trainer.lineup.branch(each, order, stream(seed, "states", iteration, more * i + k))
            for i, (each, order) in enumerate(states)
            for k in range(more)
        ]
        episodes = episodes_of(self.trainer.play(requests))
        each = [episodes[more * i : more * (i + 1)] for i in range(len(states))]
        return [[members for members in some if is_judged(members)] for some in each]

    def _solve(
        self,
        name: str,
        samples: Sequence[tuple[Trajectory, int]],
        iteration: int,
        rng: np.random.Generator,
    ) -> None:
        """Updates a game with some turns and the returns from them on."""
        every = self.config.expand_every
        latents = self.config.latents + (iteration // every if every else 0)
        game = self.abstract.setdefault(
            name, AbstractGame(self.config.situations, latents, self.encode)
        )
        turns = [each.turns[place] for each, place in samples]
        returns = [sum(turn.reward for turn in each.turns[place:]) for each, place in samples]
        game.update(
            game.situations.assign([turn.observation for turn in turns], rng),
            game.latents.assign([turn.action for turn in turns], rng),
            np.array(returns, np.float64),
        )

    def _strategy(
        self, name: str, outputs: Sequence[Trajectory], rng: np.random.Generator
    ) -> Float64:
        """Returns the probability of the latent action of each output."""
        game, turns = self.abstract[name], [each.turns[0] for each in outputs]
        situations = game.situations.assign([turn.observation for turn in turns], rng)
        actions = game.latents.assign([turn.action for turn in turns], rng)
        return game.average()[situations, actions]

    def state_dict(self) -> dict[str, Any]:
        """Returns the games of the roles."""
        return {name: game.state_dict() for name, game in self.abstract.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.abstract = {
            name: AbstractGame.restored(saved, self.encode) for name, saved in state.items()
        }


def pairs(
    outputs: Sequence[Trajectory], states: Sequence[tuple[int, str]], strategy: Float64
) -> list[Pair]:
    """Returns the pairs of different actions of an agent in a state.

    The label is the share of the first action in the probability of both.

    Args:
        outputs: the actions, each as a trajectory.
        states: the state and the agent of each.
        strategy: the probability of the latent action of each.
    """
    members: dict[tuple[int, str], list[int]] = {}
    for number, key in enumerate(states):
        members.setdefault(key, []).append(number)
    actions = [each.turns[0].action for each in outputs]
    found = []
    for some in members.values():
        for a, b in combinations(some, 2):
            if actions[a] != actions[b]:
                total = float(strategy[a] + strategy[b])
                found.append(Pair(a, b, float(strategy[a]) / total if total > 0 else 0.5))
    return found


def _game(trajectory: Trajectory) -> str:
    """Returns the name of the game of latent actions: the environment and the role."""
    return f"{trajectory.env_id} {trajectory.role}"


def _encoded(name: str, encode: Any, texts: Sequence[str]) -> np.ndarray:
    found = np.asarray(encode([*texts]), np.float64)
    if found.ndim != 2 or len(found) != len(texts) or not np.isfinite(found).all():
        raise ConfigError(
            f"The encoder {name!r} must map {len(texts)} texts to finite numbers of the shape "
            f"({len(texts)}, d), got the shape {found.shape}."
        )
    return found


class AbstractGame:
    """Regrets of the latent actions of a role in its abstract situations.

    Regret matching with regrets of at least 0 and linear weights of the average strategy, as in
    CFR+ (Tammelin et al., Solving Heads-up Limit Texas Hold'em, IJCAI 2015).

    Args:
        situations: largest number of abstract situations.
        latents: largest number of latent actions.
        embed: the vectors of texts.
    """

    def __init__(self, situations: int, latents: int, embed: Embed = embed):
        self.situations = Clusters(situations, embed=embed)
        self.latents = Clusters(latents, embed=embed)
        self.regrets = np.zeros((situations, latents))
        self.strategies = np.zeros((situations, latents))
        self.updates = 0

    def strategy(self) -> Floats:
        """Returns the probability of each latent action in each situation [m, k]."""
        return _normalised(self.regrets, len(self.latents.centres))

    def average(self) -> Floats:
        """Returns the average strategy of all updates [m, k]."""
        return _normalised(self.strategies, len(self.latents.centres))

    def update(self, situations: Ints, latents: Ints, outcomes: Floats) -> None:
        """Adds the regrets of sampled actions.

        The value of a latent action is its mean outcome in the situation. Latent actions that were
        not sampled keep their regrets. A situation counts as often as it was sampled.

        Args:
            situations: [n] situation of each sample.
            latents: [n] latent action of each sample.
            outcomes: [n] outcome of each sample for the role.
        """
        self.updates += 1
        counts, totals = np.zeros_like(self.regrets), np.zeros_like(self.regrets)
        np.add.at(counts, (situations, latents), 1)
        np.add.at(totals, (situations, latents), outcomes)
        values, strategy = totals / np.maximum(counts, 1), self.strategy()
        sampled = strategy * (counts > 0)
        reach = counts.sum(1, keepdims=True)
        share = sampled.sum(1, keepdims=True)
        sampled = np.where(share > 0, sampled / np.maximum(share, 1e-12), counts / reach.clip(1))
        value = (sampled * values).sum(1, keepdims=True)
        change = reach * (values - value) * (counts > 0)
        self.regrets = np.maximum(self.regrets + change, 0)
        self.strategies += self.updates * reach * self.strategy()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain Python values."""
        return {
            "situations": self.situations.centres.tolist(),
            "latents": self.latents.centres.tolist(),
            "regrets": self.regrets.tolist(),
            "strategies": self.strategies.tolist(),
            "updates": self.updates,
        }

    @classmethod
    def restored(cls, state: dict[str, Any], embed: Embed = embed) -> AbstractGame:
        """Returns the game of a checkpoint, whose centres are of the same kind of vectors."""
        regrets = np.array(state["regrets"])
        situations, latents = regrets.shape
        game = cls(situations, latents, embed)
        game.situations = Clusters(game.situations.size, state["situations"], embed)
        game.latents = Clusters(game.latents.size, state["latents"], embed)
        game.regrets, game.strategies = regrets, np.array(state["strategies"])
        game.updates = state["updates"]
        return game


def _normalised(weights: Floats, used: int) -> Floats:
    """Returns rows of sum 1, which are uniform over the first `used` entries if all are 0."""
    total = weights.sum(1, keepdims=True)
    uniform = (np.arange(weights.shape[1]) < used) / max(used, 1)
    return np.where(total > 0, weights / np.where(total > 0, total, 1), uniform)


def build(config: Config) -> Algorithm:
    """Returns the parts of LSPO."""
    signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    return Algorithm(
        signal,
        seats="mirror",
        replays=True,
        hooks=lambda trainer: LatentActions(trainer, config),
    )
