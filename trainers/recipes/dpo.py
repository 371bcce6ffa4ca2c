"""DPO: preferences between the better and worse episodes of a group, online.

"Direct Preference Optimization: Your Language Model is Secretly a Reward Model" (arXiv 2305.18290)
on pairs of whole episodes, as in ETO (arXiv 2403.02502). The loss of a pair is

    -log sigmoid(beta [log pi/ref (better) - log pi/ref (worse)])

Its gradient weighs all tokens of an episode alike, by a number that is known after one forward
pass. That number is the credit. One step on it (one epoch, one minibatch, the default) is one step
of DPO up to a constant factor, which Adam ignores but `max_grad_norm` does not. With
`thought_coef`, log pi is a sum in which thought tokens have this weight.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.hooks.preferences import GroupPairs
from agentgym.trainers.settings.kinds import PreferenceConfig


@dataclass
class Config(PreferenceConfig):
    """Settings of DPO."""

    @property
    def recompute_logprobs(self) -> bool:
        """True: a preferred episode need not be the policy's own."""
        return True


def build(config: Config) -> Algorithm:
    """Returns the parts of DPO."""
    signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    return Algorithm(signal, outcomes="group", hooks=lambda _: GroupPairs())
