"""`PolicyAgent`: a trained policy as an agent, which can be saved to a folder."""

from __future__ import annotations

import dataclasses
import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agentgym.agents.basic.view import View
from agentgym.errors import ConfigError
from agentgym.evaluation.failures import OVERFLOWS
from agentgym.tools.grammar import call_grammar
from agentgym.trainers.critics.state_values import state_values
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.rollout.context import Context, ContextSettings, Conversation
from agentgym.trainers.settings.config import TrainConfig

if TYPE_CHECKING:
    from agentgym.trainers.critics.heads import ValueHead
    from agentgym.trainers.policy.policy import Policy

SETTINGS_FILE = "agentgym_policy.json"


@dataclass(eq=False)
class _Seen:
    """The context of an episode in progress.

    Attributes:
        conversation: the prompt context.
        slot: key of the episode in the prefix cache.
        turns: number of turns in the conversation.
        action: the last action of the agent.
    """

    conversation: Conversation
    slot: int
    turns: int = 0
    action: str = ""


class PolicyAgent:
    """Acts with a policy, with the same prompts and constraint as in training.

    If an episode exceeds the maximum length of a context of mode "full", training truncates it. The
    agent instead continues with the current observation as its only context, and counts
    `context_overflows` in `View.costs`.

    Args:
        policy: the policy.
        settings: settings of the prompt context.
        sampling: sampling parameters. Temperature 0 is greedy decoding.
        constrain: whether to restrict actions to `info["admissible"]` if it is not empty.
        name: name of the agent in reports.
        wrap: the wrappers of the environments it was trained in (see `make_env`), which
            evaluations use too.

    Attributes:
        critic: the state-value critic, if the policy is that of a checkpoint with one.
        trained_in: id and arguments of the environment of its training, if it was loaded.
        tokens: number of tokens of all prompts and actions so far.
        generated: number of generated tokens among them.
    """

    critic: ValueHead | None = None
    trained_in: tuple[Any, Mapping[str, Any]] = "", {}

    def __init__(
        self,
        policy: Policy,
        settings: ContextSettings,
        sampling: Sampling,
        *,
        constrain: bool = False,
        name: str = "policy",
        wrap: Sequence[str] = (),
    ):
        self.policy = policy
        self.sampling = sampling
        self.constrain = constrain
        self.name = name
        self.wrap = tuple(wrap)
        self.settings = settings
        self._context = make_context(policy, settings)
        self._cache = self._context.session(policy)
        self._seen: weakref.WeakKeyDictionary[View, _Seen] = weakref.WeakKeyDictionary()
        self._slots = self.tokens = self.generated = 0

    def save(self, folder: Path, **notes: Any) -> None:
        """Saves the policy and the agent's settings, to be loaded with `load_agent`.

        Args:
            folder: folder to write to.
            **notes: additional JSON values for the settings file.
        """
        self.policy.save(folder)
        saved = {
            "name": self.name,
            "context": dataclasses.asdict(self.settings),
            "sampling": dataclasses.asdict(self.sampling),
            "constrain": self.constrain,
            "wrap": self.wrap,
            **notes,
        }
        text = json.dumps(saved, indent=1) + "\n"
        (folder / SETTINGS_FILE).write_text(text, encoding="utf-8")

    def __reduce__(self) -> Any:
        """Refuses to be copied or sent to another process, such as of a vector environment.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"Policy agent {self.name!r} cannot be sent to another process. Save it with "
            "`agent.save(folder)` and name it as 'policy:FOLDER', which each process loads."
        )

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        seen = [self._read(view) for view in views]
        requests = [self._request(view, s) for view, s in zip(views, seen, strict=True)]
        samples = self.policy.act(requests, self.sampling, self._cache)
        self._count(views, requests, samples)
        for s, sample in zip(seen, samples, strict=True):
            self._record(s, sample)
        return [sample.text for sample in samples]

    @property
    def memoryless(self) -> bool:
        """Whether actions depend on the instructions and the current observation only."""
        return self._context.window == 0

    def probabilities(self, views: Sequence[View]) -> list[NDArray[np.float64]]:
        """Returns for each view the probabilities of its admissible actions.

        They are those of constrained sampling, whether or not the agent is constrained. Top-k and
        top-p are left out of account.

        Raises:
            ConfigError: if the distribution of the policy cannot be computed.
        """
        requests = [self.request(view, constrain=True) for view in views]
        candidates = [request.candidates or () for request in requests]
        self.tokens += sum(
            len(request.prompt) + sum(len(self.policy.encode_action(text)) for text in texts)
            for request, texts in zip(requests, candidates, strict=True)
        )
        if self.sampling.temperature == 0:
            samples = self.policy.act(requests, self.sampling)
            pairs = zip(samples, candidates, strict=True)
            return [np.array([a == sample.text for a in texts], float) for sample, texts in pairs]
        if self.policy.steered:
            raise ConfigError(
                "The actions of this policy are chosen with a learned critic, so that it has no "
                "probabilities. Use samples=100, which estimates them."
            )
        prompts = [request.prompt for request in requests]
        try:
            found = sampling_logprobs(self.policy, prompts, candidates, self.sampling)
        except ValueError as error:
            raise ConfigError(f"The probabilities of {self.name!r}: {error}") from error
        return [np.exp(logprobs.astype(np.float64)) for logprobs in found]

    def values(self, views: Sequence[View]) -> list[float]:
        """Returns the critic's value of each state.

        Raises:
            ConfigError: if there is no critic.
        """
        if self.critic is None:
            raise ConfigError(
                f"Policy {self.name!r} has no critic. Name a checkpoint such as "
                "RUN/checkpoints/000012 of a recipe whose critic reads the policy's hidden states."
            )
        prompts = [self.request(view).prompt for view in views]
        self.tokens += sum(map(len, prompts))
        return state_values(self.policy, self.critic, prompts)

    def request(self, view: View, *, constrain: bool | None = None) -> Request:
        """Returns the generation request of a view, whose context is built from its history.

        Args:
            view: the episode, in a state that need not follow the one before.
            constrain: whether to restrict the action to the admissible ones, if there are any.
                None: as the agent does.
        """
        conversation = self._replayed(view)
        conversation.observe(view.observation)
        return self._request(view, _Seen(conversation, 0), constrain)

    def _count(
        self, views: Sequence[View], requests: Sequence[Request], samples: Sequence[Sample]
    ) -> None:
        """Counts the tokens of requests and their answers, of which each view has equally many."""
        each = len(requests) // max(1, len(views))
        for i, (request, sample) in enumerate(zip(requests, samples, strict=True)):
            costs = views[i // each].costs
            costs["prompt_tokens"] += len(request.prompt)
            costs["completion_tokens"] += len(sample.tokens)
            self.tokens += len(request.prompt) + len(sample.tokens)
            self.generated += len(sample.tokens)

    def _record(self, seen: _Seen, sample: Sample) -> None:
        """Adds an action to the context of its episode."""
        seen.conversation.act(sample.tokens)
        seen.turns += 1
        seen.action = sample.text

    def _read(self, view: View) -> _Seen:
        """Returns the conversation up to the current observation."""
        seen = self._seen.get(view)
        turns = len(view.history)
        if seen is None or seen.turns != turns or (turns and view.history[-1][1] != seen.action):
            seen = self._begin(view)
            seen.turns = turns
        seen.conversation.observe(view.observation)
        return seen

    def _begin(self, view: View) -> _Seen:
        self._slots += 1
        seen = self._seen[view] = _Seen(self._replayed(view), self._slots)
        weakref.finalize(view, self._cache.drop, seen.slot)
        return seen

    def _replayed(self, view: View) -> Conversation:
        """Returns the context of an episode's earlier turns."""
        conversation = self._context.begin(view.instructions)
        for observation, action in view.history:
            conversation.observe(observation)
            conversation.act(self.policy.encode_action(action))
        return conversation

    def _request(self, view: View, seen: _Seen, constrain: bool | None = None) -> Request:
        constrain = self.constrain if constrain is None else constrain
        admissible = tuple(view.info.get("admissible", ())) if constrain else ()
        free = constrain and not admissible and view.env is not None
        grammar = call_grammar(view.env) if free else None
        lengths = [len(self.policy.encode_action(text)) for text in admissible]
        room = max(lengths, default=self.sampling.max_new_tokens)
        prompt = seen.conversation.prompt(room)
        if prompt is None:
            view.costs[OVERFLOWS] += 1
            seen.conversation = self._context.begin(view.instructions)
            seen.conversation.observe(view.observation)
            prompt = seen.conversation.prompt(room)
            assert prompt is not None, "the first observation is cut to fit"
        return Request(prompt, view.rng, admissible or None, slot=seen.slot, grammar=grammar)


def make_context(policy: Policy, settings: ContextSettings) -> Context:
    """Returns the prompt builder of a policy."""
    return Context(
        settings,
        policy.tokenizer,
        policy.format,
        model_max_tokens=policy.max_length,
    )


def policy_agent(config: TrainConfig, policy: Policy, name: str) -> PolicyAgent:
    """Returns the policy as an agent with the prompts and sampling of the settings."""
    return PolicyAgent(
        policy,
        config.context_settings(),
        config.evaluation_sampling(),
        constrain=config.rollout.constrain,
        name=name,
        wrap=config.environment.wrap,
    )
