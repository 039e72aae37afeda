import os

import pytest
from hypothesis import HealthCheck, settings

# Speed is measured in benchmarks/, not here: a busy machine is no reason to fail.
settings.register_profile("orchard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("orchard")


@pytest.fixture(scope="session", autouse=True)
def _what_is_found_out_of_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is remembered in a folder of the tests' own."""
    os.environ["ORCHARD_CACHE_DIR"] = str(tmp_path_factory.mktemp("orchard-cache"))
