"""`PolicyAgent`: a trained policy as an agent, and the folder it is kept in."""

from __future__ import annotations

import dataclasses
import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from agentgym.agents.view import View
from agentgym.errors import CheckpointError
from agentgym.trainers.checkpoint import loading
from agentgym.trainers.context import Context, ContextSettings, Conversation
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.policy import STEERING_FILE, Policy, Request, Sample, Sampling

SETTINGS_FILE = "agentgym_policy.json"


@dataclass(eq=False)
class _Seen:
    """What the model has read of an episode: a conversation of so many turns."""

    conversation: Conversation
    slot: int
    turns: int = 0
    said: str = ""


class PolicyAgent:
    """Acts as a policy does in training: same prompts, same constraint.

    Where an episode outgrows a context of mode "full", in which training would end it, the agent
    goes on from the current observation alone.

    Args:
        policy: the policy.
        settings: what it reads.
        sampling: how it speaks; temperature 0 says the most probable action.
        constrain: whether it chooses among `info["admissible"]` wherever that is not empty.
        name: how reports call it.
    """

    def __init__(
        self,
        policy: Policy,
        settings: ContextSettings,
        sampling: Sampling,
        *,
        constrain: bool = False,
        name: str = "policy",
    ):
        self.policy = policy
        self.sampling = sampling
        self.constrain = constrain
        self.name = name
        self.settings = settings
        self._context = make_context(policy, settings)
        self._cache = policy.session() if self._context.repeats else None
        self._seen: weakref.WeakKeyDictionary[View, _Seen] = weakref.WeakKeyDictionary()
        self._slots = 0

    @classmethod
    def from_folder(
        cls,
        folder: str,
        *,
        temperature: float | None = None,
        constrain: bool | None = None,
        max_new_tokens: int | None = None,
        device: str = "cpu",
    ) -> PolicyAgent:
        """Loads what `save` wrote. Python code in the folder is never run.

        Args:
            folder: `run_dir/policy`, `run_dir/best` or a checkpoint's `policy`.
            temperature: instead of the saved one.
            constrain: instead of the saved one.
            max_new_tokens: instead of the saved one.
            device: where the model runs.

        Raises:
            CheckpointError: if there is no policy in the folder.
            ConfigError: if there is no such device.
        """
        file = Path(folder) / SETTINGS_FILE
        if not file.exists() and (Path(folder) / "policy" / SETTINGS_FILE).exists():
            return cls.from_folder(
                str(Path(folder) / "policy"),
                temperature=temperature,
                constrain=constrain,
                max_new_tokens=max_new_tokens,
                device=device,
            )
        try:
            saved = json.loads(file.read_text(encoding="utf-8"))
            sampling = Sampling(**saved["sampling"])
            settings = ContextSettings(**saved["context"])
            constrain = bool(saved["constrain"]) if constrain is None else constrain
            name = str(saved.get("name", "policy"))
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise CheckpointError(
                f"{folder} holds no policy: {SETTINGS_FILE} is missing or damaged "
                f"({error!r:.200}). Give the folder `policy` or `best` of a training run."
            ) from error
        if temperature is not None:
            sampling = dataclasses.replace(sampling, temperature=temperature)
        if max_new_tokens is not None:
            sampling = dataclasses.replace(sampling, max_new_tokens=max_new_tokens)
        transformers_logging.disable_progress_bar()
        policy = Policy.load(folder, dtype="auto", device=device)
        if (steering := Path(folder) / STEERING_FILE).exists():
            with loading(steering):
                policy.steer(TokenQ.load(steering).to(device))
        agent = cls(
            policy,
            settings,
            sampling,
            constrain=constrain,
            name=name,
        )
        from agentgym.trainers.best_of import BestOf

        with loading(Path(folder) / "judge.pt"):
            return BestOf.load(agent, Path(folder))

    def save(self, folder: Path, **notes: Any) -> None:
        """Saves the policy with everything needed to act again.

        Args:
            folder: where to.
            **notes: kept in the file of settings.
        """
        self.policy.save(folder)
        saved = {
            "name": self.name,
            "context": dataclasses.asdict(self.settings),
            "sampling": dataclasses.asdict(self.sampling),
            "constrain": self.constrain,
            **notes,
        }
        text = json.dumps(saved, indent=1) + "\n"
        (folder / SETTINGS_FILE).write_text(text, encoding="utf-8")

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        seen = [self._read(view) for view in views]
        requests = [self._request(view, s) for view, s in zip(views, seen, strict=True)]
        samples = self.policy.act(requests, self.sampling, self._cache)
        for s, sample in zip(seen, samples, strict=True):
            self._spoke(s, sample)
        return [sample.text for sample in samples]

    def _spoke(self, seen: _Seen, sample: Sample) -> None:
        """Takes down what is said in an episode."""
        seen.conversation.act(sample.tokens)
        seen.turns += 1
        seen.said = sample.text

    def _read(self, view: View) -> _Seen:
        """Returns the conversation up to the current observation."""
        seen = self._seen.get(view)
        turns = len(view.history)
        if seen is None or seen.turns != turns or (turns and view.history[-1][1] != seen.said):
            seen = self._begin(view)
            for observation, action in view.history:
                seen.conversation.observe(observation)
                seen.conversation.act([*self.policy.encode(action), self.policy.end_token])
            seen.turns = turns
        seen.conversation.observe(view.observation)
        return seen

    def _begin(self, view: View) -> _Seen:
        self._slots += 1
        seen = self._seen[view] = _Seen(self._context.begin(view.instructions), self._slots)
        if self._cache is not None:
            weakref.finalize(view, self._cache.drop, seen.slot)
        return seen

    def _request(self, view: View, seen: _Seen) -> Request:
        admissible = tuple(view.info.get("admissible", ())) if self.constrain else ()
        lengths = [len(self.policy.encode(text)) + 1 for text in admissible]
        room = max(lengths, default=self.sampling.max_new_tokens)
        prompt = seen.conversation.prompt(room)
        if prompt is None:
            seen.conversation = self._context.begin(view.instructions)
            seen.conversation.observe(view.observation)
            prompt = seen.conversation.prompt(room)
            assert prompt is not None, "a first observation is cut to fit"
        return Request(prompt, view.rng, admissible or None, slot=seen.slot)


def make_context(policy: Policy, settings: ContextSettings) -> Context:
    """Returns the prompt builder of a policy."""
    return Context(
        settings,
        policy.tokenizer,
        end_token=policy.end_token,
        model_max_tokens=policy.max_length,
    )
