"""The table of presets says of mflux what is so."""

import json
import subprocess

from orchard.environments.environment import IMAGES
from orchard.gateway.pool.worker_process import _environment

PROGRAM = """
import inspect, json, pkgutil, runpy, sys
runpy.run_path(sys.argv[1])["add_orchard"]()
from mflux.cli.defaults.defaults import model_inference_steps
from mflux.models.common.config.model_config import AVAILABLE_MODELS
from orchard.backends.images.presets import PRESETS
wrong = []
for preset in PRESETS.values():
    config, made = AVAILABLE_MODELS[preset.alias], pkgutil.resolve_name(preset.type)
    takes = inspect.signature(made.generate_image).parameters
    wanted = {"seed", "prompt", "num_inference_steps", "height", "width"}
    wanted |= {name for name in ("guidance", "negative_prompt") if name in preset.parameters}
    wanted |= {preset.pictures_in} if preset.can_edit else set()
    wanted |= {"masked_image_path"} if preset.mask else set()
    load = {"quantize", "model_path", "model_config"} | ({"lora_paths", "lora_scales"} if preset.loras else set())
    checks = {
        "repository": config.model_name == preset.repository,
        "steps": model_inference_steps(preset.alias) == preset.steps,
        "least steps": preset.least_steps == (2 if config.sigma_shift_terminal else 1),
        "takes": takes.keys() >= wanted,
        "load": inspect.signature(made.__init__).parameters.keys() >= load,
        "latents": not preset.latents or hasattr(pkgutil.resolve_name(preset.latents), "unpack_latents"),
        "distilled": preset.guidance is None or config.supports_guidance is not False,
        "layers": preset.marks.get("num_layers") in (None, config.transformer_overrides.get("num_layers")),
        "zero_cond_t": preset.marks.get("zero_cond_t", False) == config.transformer_overrides.get("zero_cond_t", False),
    }
    wrong += [f"{preset.name}: {name}" for name, right in checks.items() if not right]
print(json.dumps([len(PRESETS), wrong]))
"""


def test_every_row_is_what_mflux_has() -> None:
    python, isolated, start = IMAGES.command
    command = [python, isolated, "-c", PROGRAM, start]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    count, wrong = json.loads(done.stdout.splitlines()[-1])
    assert count > 15
    assert wrong == []
