"""Components by name: ours, and those that other packages bring (entry points `palaestra.components`)."""

from __future__ import annotations

from palaestra.core import plugins
from palaestra.core.errors import UsageError, did_you_mean
from palaestra.policies.components.attention import Attention
from palaestra.policies.components.base import Component
from palaestra.policies.components.codes import Codes
from palaestra.policies.components.convolution import Conv, ConvTower
from palaestra.policies.components.dense import Linear, Mlp, Residual
from palaestra.policies.components.heads import ActionHead, EmbeddingHead, ValueHead
from palaestra.policies.components.observe import Embedding, Image, Vector
from palaestra.policies.components.recurrent import Gru, Lstm, MinGru
from palaestra.policies.components.shaping import Activation, Flatten, Merge, Norm
from palaestra.policies.components.tokens import TokenGrid, Tokens, TokensPresent

SHIPPED: dict[str, type[Component]] = {
    "vector": Vector,
    "image": Image,
    "embedding": Embedding,
    "codes": Codes,
    "tokens": Tokens,
    "tokens_present": TokensPresent,
    "token_grid": TokenGrid,
    "linear": Linear,
    "mlp": Mlp,
    "residual": Residual,
    "conv": Conv,
    "conv_tower": ConvTower,
    "attention": Attention,
    "activation": Activation,
    "norm": Norm,
    "flatten": Flatten,
    "merge": Merge,
    "lstm": Lstm,
    "gru": Gru,
    "mingru": MinGru,
    "action_head": ActionHead,
    "action_embedding_head": EmbeddingHead,
    "value_head": ValueHead,
}


def component_names() -> list[str]:
    """In the order of the documentation; those of other packages last."""
    return [*SHIPPED, *(name for name in plugins.names("components") if name not in SHIPPED)]


def find_component(name: str) -> type[Component]:
    if name in SHIPPED:
        return SHIPPED[name]
    if name not in plugins.names("components"):
        hint = did_you_mean(name, component_names()) or f"Known: {', '.join(component_names())}."
        raise UsageError(f"no component named '{name}'", hint)
    found = plugins.load("components", name)
    if not (isinstance(found, type) and issubclass(found, Component)):
        raise UsageError(
            f"the component '{name}' is not a palaestra.policies.components.base.Component", "Derive it from that."
        )
    return found
