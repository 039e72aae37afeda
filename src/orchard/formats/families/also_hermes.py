"""Families whose models may call in Hermes' way beside their own: their prompts show calls that are written so.

Chat templates without a place for tools or for earlier calls get them as text, in that way.
"""

from msgspec.structs import replace

from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.families.json_calls import BARE, HERMES
from orchard.formats.families.tagged import TaggedFamily
from orchard.formats.registry import Family
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Reading


class _AlsoHermes(CallSyntax, frozen=True, kw_only=True):
    """A family's own calls and Hermes'.

    `closes` is the family's own: Hermes' broken calls are read to their end in `read`.
    """

    own: CallSyntax

    def read(self, calls: CallEmitter, opener: str) -> Reading[None]:
        """Read a calls; where both open so, JSON is Hermes'."""
        source = calls.source
        shared = opener in self.own.opens
        if opener not in HERMES.opens or (shared and (yield from source.skip()) not in "{["):
            yield from self.own.read(calls, opener)
            return
        try:
            yield from HERMES.read(calls, opener)
        except OutputEnded:
            raise
        except MalformedOutput:
            if not calls.certain:
                raise
            yield from calls.rest(HERMES.closes)


def also_hermes(family: Family, *, described: bool = False) -> Family:
    """Let a family read Hermes' calls too. `described`: its prompts describe tools in that way, so calls are forced so.

    Those with a machine of their own are left as they are: their templates take tools and calls. Where nothing tells
    how the model writes calls, it writes them as they are described.
    """
    if not isinstance(family, TaggedFamily) or family.syntax in (None, HERMES):
        return family
    if described and family.syntax == BARE:
        return replace(family, name="hermes", syntax=HERMES)
    own = family.syntax
    opens = tuple(dict.fromkeys((*own.opens, *HERMES.opens)))
    writes = HERMES if described else own
    both = _AlsoHermes(opens=opens, leads=own.leads, closes=own.closes, own=own, writes=writes)
    return replace(family, syntax=both)
