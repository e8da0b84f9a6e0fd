"""Models by the shape that their config.json gives."""

from dataclasses import asdict, dataclass
from typing import Any

from tandem_engine.serve.engine_settings import EngineSettings, Role
from tandem_engine.serve.served_shape import model_shape
from tandem_operator.core.observation import ModelShape


@dataclass(frozen=True, slots=True)
class Model:
    """A dense decoder of the Llama kind."""

    layers: int
    hidden: int
    heads: int
    shared_heads: int
    feed_forward: int
    vocabulary: int
    head_dim: int = 128

    def config(self) -> dict[str, Any]:
        """Return its part of a config.json."""
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.shared_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.feed_forward,
            "vocab_size": self.vocabulary,
            "dtype": "bfloat16",
        }

    def shape(self, *, quantization: str | None) -> ModelShape:
        """Return its shape as the engine's launcher reports it."""
        settings = EngineSettings(role=Role.PREFILL, model="any", quantization=quantization)
        shape = model_shape(self.config(), settings)
        assert shape is not None
        return ModelShape(**asdict(shape))


MODELS = {
    "llama-3.1-8b": Model(32, 4096, 32, 8, 14336, 128256),
    "llama-3.1-70b": Model(80, 8192, 64, 8, 28672, 128256),
    "qwen3-32b": Model(64, 5120, 64, 8, 25600, 151936),
}
