"""`AdamW` with float32 master weights, Muon for hidden matrices on request, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

MASTER = "master"
LOW_PRECISION = (torch.bfloat16, torch.float16)


class WithMuon(torch.optim.AdamW):
    """AdamW, and Muon for the parameters whose indices a group lists as `hidden`.

    Muon replaces the momentum of a matrix by the nearest orthogonal one, about, so that its step
    has the same size in all directions, whatever the size of the gradient. The step has the root
    mean square of one of AdamW ("match_rms_adamw"), and therefore its learning rate and weight
    decay. Its state is the momentum, which belongs to the state of this optimiser.

    Sources: "Muon is Scalable for LLM Training" (Moonlight, arXiv 2502.16982), `torch.optim.Muon`.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Takes a step. The arguments are those of `torch.optim.AdamW.step`."""
        parts = [(group, _hidden(group)) for group in self.param_groups]
        kept = [(p, p.grad) for _, hidden in parts for p in hidden]
        for parameter, _ in kept:
            parameter.grad = None
        loss = super().step(closure)
        for parameter, gradient in kept:
            parameter.grad = gradient
        for group, hidden in parts:
            if hidden:
                decay = group["weight_decay"]
                muon = torch.optim.Muon(
                    hidden, lr=group["lr"], weight_decay=decay, adjust_lr_fn="match_rms_adamw"
                )
                muon.state = self.state
                muon.step()
                for parameter in hidden:  # AdamW reads the number when it restores a state
                    steps = self.state[parameter].get("step", torch.zeros(()))
                    self.state[parameter]["step"] = steps + 1
        return loss


def _hidden(group: dict[str, Any]) -> list[nn.Parameter]:
    """Returns the parameters of a group that Muon updates, if they have a gradient."""
    found = (group["params"][index] for index in group.get("hidden", ()))
    return [parameter for parameter in found if parameter.grad is not None]


class AdamW(WithMuon):
    """AdamW that updates parameters in bfloat16 or float16 through float32 master weights.

    A bfloat16 weight has 8 significant bits, so a step below 1/512 of its magnitude is rounded away
    ("Mixed Precision Training", arXiv 1710.03740, section 3.1). The optimiser therefore holds a
    float32 copy of each such parameter, and its averages in float32, and rounds the copy into the
    parameter after each step. They are part of its state, so that a resumed run continues exactly.
    The gradients of such parameters are accumulated over backward passes in float32 too. Parameters
    in float32 are updated as by `torch.optim.AdamW`: on a CPU, as with `fused`, which takes a
    quarter of the time.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters. The arguments are those of `torch.optim.AdamW.add_param_group`."""
        super().add_param_group(param_group)
        # Fused arithmetic goes through memory, so the gradient must have the layout of the weights.
        if all(p.device.type == "cpu" and p.is_contiguous() for p in param_group["params"]):
            param_group["fused"] = True
        for parameter in self._low_precision():
            parameter.grad_dtype = torch.float32

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Takes a step. The arguments are those of `torch.optim.AdamW.step`."""
        rounded = [(p, p.data) for p in self._low_precision() if p.grad is not None]
        for parameter, weights in rounded:
            gradient, state = parameter.grad, self.state[parameter]
            assert gradient is not None
            parameter.grad = None
            parameter.data = state[MASTER] if MASTER in state else weights.float()
            parameter.grad = gradient.float()
        loss = super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"] if group["fused"] else ():
                if parameter.grad is not None:  # fused changes are not counted by themselves
                    torch.autograd.graph.increment_version(parameter)
        for parameter, weights in rounded:
            self.state[parameter][MASTER] = parameter.data
            parameter.grad = None
            parameter.data = weights.copy_(parameter.data)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state. The base class converts states to the parameters' data type."""
        super().load_state_dict(state_dict)
        numbers = [i for group in state_dict["param_groups"] for i in group["params"]]
        saved = dict(zip(self._parameters(), numbers, strict=True))
        for parameter in self._low_precision():
            for name, value in state_dict["state"].get(saved[parameter], {}).items():
                if name != "step":
                    self.state[parameter][name] = value.to(parameter.device, copy=True)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _low_precision(self) -> list[Tensor]:
        return [p for p in self._parameters() if p.dtype in LOW_PRECISION]


def parameter_group(module: nn.Module, lr: float) -> dict[str, Any]:
    """Returns the trainable parameters of a module as a group of an optimiser."""
    return {"params": [p for p in module.parameters() if p.requires_grad], "lr": lr}


def hidden_matrices(module: nn.Module, parameters: Iterable[nn.Parameter]) -> list[int]:
    """Returns the indices of the parameters that are matrices between hidden states.

    Embeddings and the output head, which maps hidden states to tokens, are none, and neither are
    biases and norms.

    Args:
        module: a policy.
        parameters: its trainable parameters.
    """
    model: Any = module.model
    outside = [model.get_input_embeddings(), model.get_output_embeddings()]  # with their adapters
    outside += [each for each in module.modules() if isinstance(each, nn.Embedding)]
    outer = {id(p) for each in outside for p in each.parameters()}
    return [i for i, p in enumerate(parameters) if p.ndim == 2 and id(p) not in outer]


def clip_gradients(accelerator: Accelerator, optimizer: Any, limit: float) -> list[float]:
    """Clips the gradient norm of each parameter group separately and returns the norms before.

    Under fp16 the gradients are scaled. `accelerator.clip_grad_norm_` would unscale those of all
    its optimisers at every call, which torch allows only once per step, and cannot tell the
    parameters of several sharded models apart.

    Args:
        accelerator: the accelerator.
        optimizer: the optimiser.
        limit: bound of the norm of each group.
    """
    if accelerator.scaler is not None:
        accelerator.unscale_gradients(optimizer)
    groups = [group["params"] for group in optimizer.param_groups]
    return [float(nn.utils.clip_grad_norm_(group, limit)) for group in groups]


def divide_gradients(parameters: Iterable[nn.Parameter], count: float) -> None:
    """Divides the gradients of a sum of `count` losses, so that they are those of the mean."""
    if gradients := [p.grad for p in parameters if p.grad is not None]:
        torch._foreach_div_(gradients, count)  # pyright: ignore[reportPrivateImportUsage]
