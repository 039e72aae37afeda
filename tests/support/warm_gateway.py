"""Makes an application once, in the process that servers are forked from.

What that imports and caches, such as the schemas of bodies, none of the servers has to make again.
"""

from orchard.config import Settings
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app import create_app

_settings = Settings(responses_path=":memory:")
create_app(Pool(Registry((), _settings), _settings), _settings)
