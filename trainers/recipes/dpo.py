"""DPO: preferences between the better and worse episodes of a group, online.

"Direct Preference Optimization: Your Language Model is Secretly a Reward Model" (arXiv 2305.18290)
on pairs of whole episodes, as in ETO (arXiv 2403.02502). The loss of a pair is

    -log sigmoid(beta [log pi/ref (better) - log pi/ref (worse)])

Its gradient weighs all tokens of an episode alike, by a number that is known after one forward
pass. That number is the credit. One step on it (one epoch, one minibatch, the default) is one step
of DPO up to a constant factor, which Adam ignores but `max_grad_norm` does not. With
`thought_coef`, log pi is a sum in which thought tokens have this weight.

With `judge`, pairs follow the scores of a judge in place of the returns: of a language model as in
"DPO Learning with LLMs-Judge Signal for Computer Use Agents" (arXiv 2506.03095), or of a judge that
assigns credit to the agents and turns of a team as in "Advancing Language Multi-Agent Learning with
Credit Re-Assignment for Interactive Environment Generalization" (arXiv 2502.14496). From that paper
is `adversary`, too: a language model writes worse actions, from which the policy learns by pairs of
actions. Its agents whose messages reach a changing part of the team are those of `Team` with
`edges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agentgym.agents.text_model import text_model
from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.hooks.adversary import PROMPT, AdversarialPairs
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.preferences import GroupPairs, JudgedPairs
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.rewards.shaping import scorer
from agentgym.trainers.rollout.env_pool import instructions_by_id
from agentgym.trainers.settings.kinds import PreferenceConfig


@dataclass
class Config(PreferenceConfig):
    """Settings of DPO."""

    judge: str = ""
    """Ranks the episodes of a group by the mean score of their turns in place of their return. A
    source of `process_reward`: progress, valid, a reward term, module:function, judge:FOLDER,
    chat:MODEL@URL or rubric=FILE:chat:MODEL@URL (empty: returns)."""
    adversary: str = ""
    """A language model (chat:MODEL@URL, policy:FOLDER, model:NAME) that writes a worse action for
    one turn of each preferred episode. Both actions are a further pair (empty: none)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.judge:
            scorer(self.judge, option="judge")
        if self.adversary:
            text_model(self.adversary, PROMPT)

    @property
    def score_sources(self) -> dict[str, str]:
        """Those of all recipes, and `judge`."""
        return {**super().score_sources, "judge": self.judge}

    @property
    def recompute_logprobs(self) -> bool:
        """True: a preferred episode need not be the policy's own."""
        return True


def build(config: Config) -> Algorithm:
    """Returns the parts of DPO."""
    signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    data = "foreign" if config.adversary else "own"
    return Algorithm(signal, data=data, outcomes="group", hooks=partial(_hooks, config))


def _hooks(config: Config, trainer: Run) -> RecipeHooks:
    """Returns the hooks of a run."""
    pairs: RecipeHooks = GroupPairs()
    if config.judge:
        rules = instructions_by_id(trainer.pool.env(0))
        pairs = JudgedPairs(config.judge, scorer(config.judge, rules))
    return AdversarialPairs(trainer, config.adversary, pairs) if config.adversary else pairs
