"""Settings of credit assignment: changes of the rewards, and the critic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from agentgym.trainers.rollout.context import AtLimit
from agentgym.trainers.settings.fields import (
    BY_MODEL,
    ByModel,
    Count,
    Fraction,
    KeyNumbers,
    NonNegative,
    Positive,
)
from agentgym.trainers.settings.learning import GROUPED
from agentgym.trainers.settings.schema import When, needs

PROCESS = When("process_reward")
SEPARATE = When("critic_backbone", ("separate",))
SHARED = When("critic_backbone", ("shared",))

SEEN = (
    needs(
        "the critic reads the observations of all agents of a game",
        "opponents to mirror or another kind than scripted", of=("all",), scripted=False,
    ),
    needs(
        "the critic reads the hidden state of an environment of a single agent",
        of=("hidden", "state"), opponents="scripted",
    ),
)  # fmt: skip


@dataclass
class RewardConfig:
    """Changes of the rewards before credit assignment, for recipes that assign credit from rewards.

    Metrics of the rollout and evaluations show the environment's rewards.
    """

    shape_progress: NonNegative = 0.0
    """Weight of potential-based shaping by `info["progress"]`, which leaves optimal policies
    unchanged (0: none). The potential is 0 at the end of an episode, so the discounted return from
    a state on is lower by the weight times the progress in this state, whatever happens next."""
    process_reward: str = ""
    """Process reward of each turn: "progress" (1 if the turn raises the progress), "valid" (1 for a
    valid action), a reward term of the environment in [0, 1], module:function, which maps an
    episode, with the turns of all its agents, to scores in [0, 1], judge:FOLDER, the reward model
    of a run of agentprm, orm, spa, inverse_prm, read or istar, with values v as 1 / (1 + exp(-v)),
    chat:MODEL@URL, a language model that scores every turn, or rubric=FILE:chat:MODEL@URL, which
    does so by the criteria of a file (empty: none)."""
    process_weight: Annotated[Fraction, PROCESS] = 0.5
    """Weight w of the process reward: (1 - w) reward + w process reward."""
    process_iterations: Annotated[Count, PROCESS] = 0
    """Iterations in which the weight falls linearly to 0, so that outcomes decide in the end
    (Atom-Searcher, 0: a constant weight)."""
    process_combine: Annotated[Literal["mean", "outcome", "gated", "episode", "turn"], PROCESS] = (
        "mean"
    )
    """Process reward of an episode: the mean score of its turns ("mean"), or scores that are moved
    by the outcome so that no turn of a success is penalised and none of a failure is rewarded
    ("outcome", ReNorm), or the mean score in a success and 0 in a failure ("gated", DeepTravel). Or
    the rewards of all agents, divided anew in proportion to the scores: over all turns of the
    episode ("episode"), or over the agents that act in a turn of the environment ("turn")."""
    reward_constraints: KeyNumbers = field(default_factory=dict)
    """Least means of reward terms per played episode, such as format=0. The weight of a term starts
    at 1, grows while its mean is below and falls while it is above."""
    constraint_lr: Annotated[NonNegative, When("reward_constraints")] = 0.1
    """Step size of these weights."""
    novelty_bonus: NonNegative = 0.0
    """Reward of a turn that leads to a state which is new in the episode, except for the last."""
    count_bonus: NonNegative = 0.0
    """Reward of an action that was rarely taken in its state: the bonus divided by the square root
    of the number of times in the run so far (MBIE-EB). States are compared by `info["state_key"]`
    within an environment, also between tasks."""
    overlong_margin: Count = 0
    """Soft overlong penalty, subtracted from the rewards: over this number of tokens before
    `max_new_tokens`, it grows from 0 to 1 (0: no penalty)."""
    group_weight: Annotated[Literal["none", "difficulty"], GROUPED] = "none"
    """Weight of a group's advantages: equal, or from 1 for a task that the whole group solves to 2
    for one that it fails ("difficulty"), divided by the mean."""

    @property
    def splits_rewards(self) -> bool:
        """Whether rewards of several agents are divided anew among them."""
        return bool(self.process_reward) and self.process_combine in ("episode", "turn")


@dataclass
class CriticConfig:
    """The critic, for recipes that have one."""

    critic_lr: ByModel[NonNegative] = BY_MODEL
    """Learning rate of the critic (None: 1e-3, for a loaded model 1e-4). With a separate
    backbone, it is constant."""
    value_coef: Annotated[NonNegative, SHARED] = 0.5
    """Value loss coefficient of a critic that shares the policy's backbone."""
    value_clip: Annotated[NonNegative | None, SHARED] = None
    """Clip of the value change per iteration, of a critic that shares the policy's backbone (None:
    no clip)."""
    critic_lambda: Fraction | None = None
    """GAE lambda of the critic's targets, between turns and inside an action (None: those of the
    advantages). With 1, the critic is fitted to returns (VC-PPO)."""
    critic_layers: tuple[Positive, ...] = (256,)
    """Widths of the critic's hidden layers."""
    critic_detach: Annotated[bool, SHARED] = False
    """Stop the gradient of the value loss at the model's hidden states."""
    critic_warmup: Count = 0
    """Number of first iterations in which only the critic is trained, that of every role also with
    `alternate`."""
    lr_by_reliability: bool = True
    """Multiply the policy's learning rate by the reliability of the advantages: the standard
    deviation of returns divided by that of the advantages, at most 1. Advantages that vary more
    than returns are the critic's error, and a batch of equal returns takes no step."""
    critic_backbone: Literal["shared", "separate"] = "shared"
    """Backbone of the critic: shared with the policy, or a separate copy that only the value loss
    trains (an adapter's base is shared). Values of the copy are normalised. Roles with policies of
    their own share one such critic."""
    critic_sees: Annotated[Literal["own", "all", "hidden", "state"], SEPARATE, *SEEN] = "own"
    """Input of a critic with a separate backbone: the prompt of the agent ("own"), or a text that
    the policy never reads. "hidden": the hidden state (`TextEnv.privileged_text`) beside the prompt
    (asymmetric actor-critic). "state": the same in place of the prompt, with less computation.
    "all": beside the prompt, the observations of all other agents of a game at that time, as for
    the central critic of MAPPO."""
    critic_head: Annotated[Literal["scalar", "two_hot"], SEPARATE] = "scalar"
    """Output of a critic with a separate backbone: the value, or logits over bins whose
    expectation is the value, trained by cross-entropy (DreamerV3). The bins follow the scale of
    the returns."""
    critic_epochs: Annotated[Positive, SEPARATE] = 2
    """Epochs per iteration of a critic with a separate backbone."""
    critic_window: Annotated[Positive, SEPARATE] = 4
    """Iterations of episodes in the replay window of a critic with a separate backbone."""
    critic_batch_tokens: Annotated[Positive, SEPARATE] = 8192
    """Tokens per step of a critic with a separate backbone."""
    critic_episodes: Annotated[Count, SEPARATE] = 0
    """Episodes played before RL to fit a critic with a separate backbone."""

    @property
    def sees_hidden_state(self) -> bool:
        """Whether the critic reads the hidden state of the environment."""
        return self.critic_sees in ("hidden", "state")


@dataclass
class EndConfig:
    """Ends of episodes at a limit, for recipes that value the state after them."""

    overflow: AtLimit = "truncate"
    """End of an episode whose prompt exceeds the context: truncated, so that a critic bootstraps
    its last value, or terminal ("terminate"), so that no reward is expected after it."""
    turn_limit: AtLimit = "truncate"
    """End of an episode at its turn limit, in the same way. Choose "terminate" if a task must be
    solved within the limit: with "truncate", a critic expects rewards after it, and wasted turns
    cost nothing."""
