"""One side of the comparison of GRPO with TRL's `GRPOTrainer`, in a process of its own.

Equal on both sides: the model and its tokenizer, the environment with one turn per episode, the
format of the prompts, the episodes per update and their groups, the maximum length of a completion,
sampling from the whole vocabulary at temperature 1, float32, one epoch with one optimiser step,
AdamW, no KL term, no gradient checkpointing, one thread. The tasks are others of the same kind:
this project samples them, and TRL gets the first ones. An update is a rollout, its rewards, the
loss, its gradient, a step and a line of metrics. A random model never solves a task, so the reward
is 0 or 1 by a checksum of the answer, and differs in nearly every group. In about a share `equal`
of the groups it is 0, as in groups that all fail: these have no advantage, and this project leaves
out their backward pass. `peers.py` runs it:

    python benchmarks/speed/peers_grpo.py {own,trl} SETTINGS.json

Prints a line of JSON: CPU seconds and generated tokens of each update after the first, the peak of
the process's memory in bytes, and its memory at the start, after the imports. On a GPU
(`gpu_grpo.py`), weights are in bfloat16, seconds are those of the clock when the GPU has finished,
and memory is that of the GPU.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
import torch

from agentgym.registration.making import make_env
from agentgym.trainers.api import make_trainer
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.run.iteration import Iteration

GROUP = 8
LR = 1e-5


@dataclass
class Settings:
    """Settings of both sides.

    Attributes:
        model: folder of the model.
        env_id: the environment. Its first turn is an episode.
        episodes: episodes per update, a multiple of the group size.
        tokens: maximum length of an action in tokens.
        updates: updates after a first one that is not measured.
        equal: share of the tasks whose answers all get the reward 0.
        seed: seed of the run.
        device: "cpu" or "cuda".
    """

    model: str
    env_id: str
    episodes: int
    tokens: int
    updates: int
    equal: float = 0.0
    seed: int = 0
    device: str = "cpu"

    @property
    def dtype(self) -> Literal["float32", "bfloat16"]:
        """The data type of the weights."""
        return "float32" if self.device == "cpu" else "bfloat16"

    def seconds(self) -> float:
        """Returns the seconds so far: of the CPU, or of the clock when the GPU has finished."""
        if self.device == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def memory(self) -> tuple[int, int]:
        """Returns the bytes that are held now, and the most so far, of the process or the GPU."""
        if self.device == "cpu":
            return psutil.Process().memory_info().rss, peak_bytes()
        return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()

    def reward(self, task: str, answer: str) -> float:
        """Returns the reward of an answer: 0 or 1 by its checksum, or 0 in the tasks of `equal`."""
        place = zlib.crc32(task.encode()) / 2**32
        return 0.0 if place < self.equal else float(zlib.crc32(answer.encode()) % 2)


Clock = Callable[[int], None]
"""Called after each update with the number of tokens that were generated for it."""


def own(settings: Settings, folder: str, clock: Clock) -> None:
    """Trains with this project's recipe `grpo`."""
    keep: dict[str, Any] = {} if settings.device == "cpu" else {"gradient_checkpointing": False}
    trainer = make_trainer(
        "grpo",
        reward=lambda turn: settings.reward(turn.info["task"], turn.action),
        model=settings.model,
        env_id=settings.env_id,
        horizons=(1,),
        episodes_per_iteration=settings.episodes,
        num_envs=settings.episodes,
        group_size=GROUP,
        max_new_tokens=settings.tokens,
        iterations=1 + settings.updates,
        seed=settings.seed,
        run_dir=folder,
        lr=LR,
        epochs=1,
        minibatches=1,
        constrain=False,
        bc_demonstrations=0,
        kl_coef=0.0,
        log_with=(),
        threads=1,
        quiet=True,
        device=settings.device,
        dtype=settings.dtype,
        **keep,
    )
    for _ in range(1 + settings.updates):
        before = trainer.state.tokens
        Iteration(trainer).run()
        clock(trainer.state.tokens - before)
    for part in (trainer.pool, trainer.log, trainer.folder):
        part.close()


def trl(settings: Settings, folder: str, clock: Clock) -> None:
    """Trains with TRL."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    env, policy = make_env(settings.env_id), Policy.load(settings.model)
    context = make_context(policy, ContextSettings())
    tasks, groups = env.get_wrapper_attr("tasks").train, settings.episodes // GROUP
    rows = []
    for i in range(groups * (1 + settings.updates)):
        start = {"task": tasks[i % len(tasks)], "seed": i}
        observation, _ = env.reset(seed=i, options={"task": start["task"]})
        conversation = context.begin(str(env.get_wrapper_attr("instructions")))
        conversation.observe(str(observation))
        tokens = conversation.prompt(settings.tokens)
        assert tokens is not None
        prompt = policy.tokenizer.decode(tokens.tolist())
        if policy.tokenizer(prompt)["input_ids"] != tokens.tolist():
            raise ValueError(f"The prompt {prompt!r} is tokenised differently by TRL.")
        rows.append(start | {"prompt": prompt})
    del policy
    generated: list[int] = []

    def reward(completions: list[str], task: list[str], seed: list[int], **rest: Any) -> Any:
        generated.append(sum(map(len, rest["completion_ids"])))
        found = []
        for text, name, number in zip(completions, task, seed, strict=True):
            env.reset(seed=number, options={"task": name, "max_turns": 1})
            env.step(text)
            found.append(settings.reward(name, text))
        return found

    class Clocked(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            clock(generated.pop())

    tokenizer = AutoTokenizer.from_pretrained(settings.model)
    GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(
            settings.model, dtype=getattr(torch, settings.dtype)
        ),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=settings.episodes,
            num_generations=GROUP,
            max_completion_length=settings.tokens,
            max_steps=1 + settings.updates,
            learning_rate=LR,
            num_iterations=1,
            steps_per_generation=1,
            beta=0.0,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            gradient_checkpointing=False,
            bf16=settings.dtype == "bfloat16",
            use_cpu=settings.device == "cpu",
            shuffle_dataset=False,
            save_strategy="no",
            report_to="none",
            logging_steps=1,
            disable_tqdm=True,
            seed=settings.seed,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[Clocked()],
    ).train()


def peak_bytes() -> int:
    """Returns the most memory that the process has held (Linux).

    The `ru_maxrss` of a process is at least the memory of the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) * 1024


def main(side: str, path: str) -> None:
    """Trains with one side and prints its figures."""
    torch.set_num_threads(1)
    settings = Settings(**json.loads(Path(path).read_text()))
    if side == "trl":
        import trl as _  # noqa: F401  (its imports are not part of an update's memory)
    start = settings.memory()[0]
    times, tokens = [], []

    def clock(new_tokens: int) -> None:
        times.append(settings.seconds())
        tokens.append(new_tokens)

    with tempfile.TemporaryDirectory() as folder:
        {"own": own, "trl": trl}[side](settings, folder, clock)
    report = {
        "seconds": np.diff(times).tolist(),
        "tokens": tokens[1:],
        "peak_bytes": settings.memory()[1],
        "start_bytes": start,
    }
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
