"""`VLLMEngine`: generation by vLLM in the trainer's process, on the trainer's device.

vLLM has its own copy of the model, which takes over the policy's weights after each update, and its
own prefix cache (PagedAttention, Kwon et al., arXiv 2309.06180).
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from agentgym.errors import ConfigError, MissingExtraError
from agentgym.trainers.policy.generate import finish
from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.prefix_cache import Slot
from agentgym.trainers.policy.protocol import LanguageModel
from agentgym.trainers.policy.row import Row
from agentgym.trainers.policy.sampling import Request, Sample, Sampling

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy

CPU_CACHE = 1 << 30
"""Bytes of keys and values on a CPU."""
RESTRICTED = (
    "vLLM does not return the tokens that top_k and top_p keep, over which training normalises: "
    "set engine to 'own', or leave top_k at 0 and top_p at 1."
)
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Maximum ranks of an adapter that vLLM offers."""


class VLLMSession:
    """A session without contents: vLLM's prefix cache finds shared prefixes by their tokens."""

    def drop(self, slot: Slot) -> None:
        """Does nothing: vLLM evicts the prefixes that were not used for the longest time."""

    def clear(self) -> None:
        """Does nothing."""


class VLLMEngine:
    """Generates with vLLM.

    Constrained actions follow the policy's token tries, so both engines sample from the same
    distribution. The random numbers differ: a request's generator seeds vLLM's.

    Args:
        policy: the policy. All its weights are copied, or those of its adapter.
        dtype: dtype of the copy, such as "bfloat16". If None, that of the policy's weights.
        max_length: maximum length of a prompt with its action in tokens. If None, the policy's.
        memory: share of the GPU's memory for vLLM's copy of the weights and its prefix cache.

    Raises:
        MissingExtraError: if vLLM is not installed.
        ConfigError: if the rank of the adapter is above 512.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        dtype: str | None = None,
        max_length: int | None = None,
        memory: float = 0.3,
    ):
        # Weights and tries are handed over as objects, so vLLM may not start processes.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        # On a CPU, vLLM would tie the trainer's threads to cores.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        self._vllm = _import_vllm()
        from agentgym.trainers.policy.vllm_trie import TrieProcessor

        self._policy = policy
        self._folder = Path(tempfile.mkdtemp(prefix="agentgym-vllm-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._adapter: Any = None
        self._adapters = 0
        self._base_synced = False
        self._adapted = policy.has_adapter
        base = base_model(policy.model)
        config = copy.deepcopy(base.config)
        config.architectures = [type(base).__name__]  # as save_pretrained of a model sets it
        config.save_pretrained(self._folder)
        policy.tokenizer.save_pretrained(self._folder)
        self._llm = self._vllm.LLM(
            str(self._folder),
            load_format="dummy",  # `sync` loads the weights
            dtype=dtype or str(base.dtype).removeprefix("torch."),
            max_model_len=max_length or policy.max_length,
            logprobs_mode="processed_logprobs",
            logits_processors=[TrieProcessor],
            disable_log_stats=True,
            seed=0,
            **self._memory_options(memory),
            **self._adapter_options(),
        )
        # Some of vLLM's models with tied embeddings, such as Gemma's, have no output head.
        self._has_head = all(self._llm.apply_model(lambda model: hasattr(model, "lm_head")))

    def _memory_options(self, memory: float) -> dict[str, Any]:
        if self._policy.device.type == "cpu":
            return {"kv_cache_memory_bytes": CPU_CACHE, "enforce_eager": True}
        return {"gpu_memory_utilization": memory}

    def _adapter_options(self) -> dict[str, Any]:
        if not self._adapted:
            return {}
        rank = self._policy.model.peft_config[self._policy.model.active_adapter].r
        fitting = [most for most in LORA_RANKS if most >= rank]
        if not fitting:
            raise ConfigError(f"vLLM supports adapters up to rank {LORA_RANKS[-1]}, got {rank}.")
        return {"enable_lora": True, "max_loras": 1, "max_lora_rank": fitting[0]}

    def session(self) -> VLLMSession:
        """Returns a session without contents."""
        return VLLMSession()

    def sync(self, policy: LanguageModel) -> None:
        """Takes over the policy's weights and resets the prefix cache, which holds keys of the old.

        The base of an adapter never changes and is copied only once.
        """
        if not (self._adapted and self._base_synced):
            weights = (
                (name, tensor)
                for name, tensor in _weights(policy.model)
                if self._has_head or not name.startswith("lm_head.")
            )
            arguments = {"weights_iterator": weights, "is_checkpoint_format": True}
            self._llm.collective_rpc("reload_weights", kwargs=arguments)
            self._base_synced = True
        if self._adapted:
            self._replace_adapter(policy.model)
        self._llm.reset_prefix_cache()

    def _replace_adapter(self, model: Any) -> None:
        """Saves the adapter under a new id, because vLLM loads the files of an id only once."""
        from vllm.lora.request import (  # pyright: ignore[reportMissingImports]
            LoRARequest,
        )

        self._adapters += 1
        folder = self._folder / f"adapter-{self._adapters}"
        model.save_pretrained(
            str(folder), selected_adapters=[model.active_adapter], save_embedding_layers=False
        )
        if self._adapter is not None:
            self._llm.llm_engine.remove_lora(self._adapter.lora_int_id)
            shutil.rmtree(self._adapter.lora_path)
        self._adapter = LoRARequest(folder.name, self._adapters, str(folder))

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        session: VLLMSession | None = None,
    ) -> list[Sample]:
        """Generates one action for each request.

        Args:
            requests: prompts, each with its random generator and optional candidates.
            sampling: sampling parameters, without top-k, top-p and `normalization`.
            session: not used.

        Raises:
            ConfigError: if `sampling` has top-k or top-p.
            ValueError: as `generate.generate`.
        """
        if sampling.top_k or sampling.top_p < 1:
            raise ConfigError(RESTRICTED)
        rows = [Row(request, self._policy, sampling) for request in requests]
        # A row is not done after one pass if a candidate contains the end token.
        while waiting := [row for row in rows if not row.done]:
            outputs = self._llm.generate(
                [{"prompt_token_ids": [*row.request.prompt.tolist(), *row.tokens]}
                 for row in waiting],
                [self._parameters(row, sampling) for row in waiting],
                use_tqdm=False,
                lora_request=self._adapter,
            )  # fmt: skip
            for row, output in zip(waiting, outputs, strict=True):
                _take_over(row, output.outputs[0], greedy=sampling.temperature == 0)
        return finish(rows, self._policy, sampling)

    def _parameters(self, row: Row, sampling: Sampling) -> Any:
        """Returns vLLM's parameters for the next tokens of a row."""
        form, free = self._policy.format, row.trie is None
        done = len(row.tokens)
        return self._vllm.SamplingParams(
            temperature=sampling.temperature,
            max_tokens=row.limit - done,
            seed=int(row.uniforms[done] * 2**53),
            logprobs=0,  # those of the sampled tokens only
            ignore_eos=True,
            stop_token_ids=sorted(form.end_tokens) if free else [form.end_token],
            stop=[*form.stop, *sampling.stop] if free else None,
            detokenize=free,
            extra_args=None if free else {"trie": row.trie, "tokens": tuple(row.tokens)},
            skip_clone=True,  # a copy would copy the trie
        )


def _take_over(row: Row, output: Any, greedy: bool) -> None:
    """Appends generated tokens to a row, up to the end of its action.

    `Row.add` also appends the forced tokens that follow. vLLM generated the same ones.
    """
    start = len(row.tokens)
    while not row.done and (place := len(row.tokens) - start) < len(output.token_ids):
        token = output.token_ids[place]
        logprob = 0.0 if greedy else output.logprobs[place][token].logprob
        allowed = () if row.trie is None else row.trie.children(row.node)
        row.add(token, logprob, (token,) if greedy else allowed)


def _weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights of a model, without those of its adapter, by their names in files."""
    from transformers.core_model_loading import revert_weight_conversion

    base = base_model(model)
    weights = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in base.state_dict().items()
        if "lora_" not in name
    }
    yield from revert_weight_conversion(base, weights).items()


def _import_vllm() -> Any:
    try:
        import vllm  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("The engine 'vllm'", "vllm") from error
    return vllm
