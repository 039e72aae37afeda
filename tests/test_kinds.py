import pkgutil
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard import kinds
from orchard.backends.service import Service
from orchard.config import ModelType
from orchard.core.errors import OrchardError
from orchard.core.tasks.embed import Embed
from orchard.core.tasks.speak import Speak
from orchard.core.tasks.text_options import TextOptions
from orchard.kinds import KINDS, TEXT, VISION, kind_by_name, recognise_kind


@pytest.mark.parametrize(
    ("config", "files", "kind"),
    [
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, (), "text"),
        ({"model_type": "qwen3_vl", "vision_config": {"depth": 1}}, (), "vision"),
        ({"model_type": "llava", "mm_vision_tower": "clip"}, (), "vision"),
        ({"model_type": "gemma3", "vision_config": None}, (), "text"),
        ({"model_type": "whisper"}, (), "transcription"),
        ({"n_mels": 80, "n_audio_state": 384}, ("weights.npz",), "transcription"),
        ({"model_type": "qwen3_tts"}, (), "speech"),
        ({"model_type": ["qwen3_tts"]}, (), "text"),
        ({"model_type": "smart_turn", "encoder_config": {}}, (), "turn_detection"),
        ({"model_type": "bert"}, (), "embeddings"),
        ({"model_type": "embedding_gemma2", "vision_config": {"depth": 1}}, (), "embeddings"),
        ({"model_type": "other", "architectures": ["OtherForMaskedLM"]}, (), "embeddings"),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, ("modules.json",), "embeddings"),
        ({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}, ("modules.json",), "rerank"),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, ("modules.json", "1_LogitScore"), "rerank"),
        ({}, ("model_index.json",), "image"),
        ({}, ("transformer", "vae", "README.md"), "image"),
        ({}, (), "text"),
    ],
)
def test_kind(config: dict[str, Any], files: tuple[str, ...], kind: str) -> None:
    assert recognise_kind(config, files) == kind


_NAMES = st.sampled_from(["model_type", "architectures", *kinds._MEDIA_KEYS])
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.sampled_from(["whisper", "bert", "soprano", "XForMaskedLM", ""])
)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=10
)


@given(st.dictionaries(_NAMES, _JSON))
def test_every_config_is_of_a_kind(config: dict[str, Any]) -> None:
    assert recognise_kind(config, ()) in ("text", "vision", "embeddings", "transcription", "speech")


def test_the_configuration_has_a_word_for_each_kind() -> None:
    types = ["lm", "multimodal", "embeddings", "rerank", "transcription", "whisper", "speech", "turn-detection"]
    types += ["image-generation", "image-edit"]
    assert list(get_args(ModelType)) == types
    assert [kind_by_name(name) for name in types] == [
        *("text", "vision", "embeddings", "rerank", "transcription", "transcription", "speech", "turn_detection"),
        *("image", "image"),
    ]


def test_a_row_names_a_service() -> None:
    for backend in {kind.backend for kind in KINDS.values()}:
        assert Service in pkgutil.resolve_name(backend.service).__mro__


def test_models_of_text_and_vision_give_embeddings_only_where_their_options_say_so() -> None:
    for backend in (TEXT, VISION):
        backend.check_task("chat", Embed, TextOptions(embeddings=True))
        with pytest.raises(OrchardError) as caught:
            backend.check_task("chat", Embed, TextOptions())
        assert caught.value.param == "model"
        assert "'chat' gives text and no embeddings" in caught.value.message
        assert "/v1/embeddings" not in caught.value.message
        assert caught.value.message.endswith("(the setting `embeddings: true` makes it give embeddings, too)")
        with pytest.raises(OrchardError, match=r"gives text and embeddings and no speech; .*, /v1/embeddings$"):
            backend.check_task("chat", Speak, TextOptions(embeddings=True))
