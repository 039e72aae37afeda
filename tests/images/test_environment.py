"""What `make test-images` runs, in the environment that it has made."""

import json
import subprocess

from orchard.environments.environment import IMAGES
from orchard.gateway.pool.worker_process import _environment

PROGRAM = """
import json, runpy, sys
from importlib.metadata import version
from importlib.util import find_spec
runpy.run_path(sys.argv[1])["add_orchard"]()
from orchard.worker.main import import_service
for service in ("mflux.models.flux.variants.txt2img.flux:Flux1", "mflux.models.z_image.variants.z_image:ZImage"):
    import_service(service, "orchard.core.request:LoadOptions", ["orchard.core.request:Task"])
absent = [name for name in ("torch", "fastapi", "mlx_lm") if find_spec(name) is None]
print(json.dumps([absent, version("huggingface-hub"), version("mflux")]))
"""


def test_mflux_can_be_imported_by_a_worker() -> None:
    python, isolated, start = IMAGES.command
    command = [python, isolated, "-c", PROGRAM, start]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    absent, hub, mflux = json.loads(done.stdout.splitlines()[-1])
    assert absent == ["torch", "fastapi", "mlx_lm"]
    assert int(hub.split(".")[0]) < 2
    assert mflux == IMAGES.packages["mflux"]
