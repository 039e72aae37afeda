"""Families whose models may call in Hermes' way beside their own: their prompts show calls that are written so.

Chat templates without a place for tools or for earlier calls get them as text, in that way.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsShape
from orchard.formats.calls import Region, Syntax
from orchard.formats.families.json_calls import BARE, HERMES
from orchard.formats.families.tagged import TaggedFamily
from orchard.formats.format_events import Family
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Reading


class _AlsoHermes(Struct, frozen=True):
    """A family's own calls and Hermes'; `described`: it is Hermes' that the model is asked for."""

    own: Syntax
    described: bool

    @property
    def opens(self) -> tuple[str, ...]:
        """The texts that open a call of either."""
        return tuple(dict.fromkeys((*self.own.opens, *HERMES.opens)))

    @property
    def leads(self) -> tuple[str, ...]:
        """The family's own."""
        return self.own.leads

    @property
    def closes(self) -> str:
        """The family's own: Hermes' broken calls are read to their end in `read`."""
        return self.own.closes

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read a region; where both open so, JSON is Hermes'."""
        source = region.source
        shared = opener in self.own.opens
        if opener not in HERMES.opens or (shared and (yield from source.skip()) not in "{["):
            yield from self.own.read(region, opener)
            return
        try:
            yield from HERMES.read(region, opener)
        except OutputEnded:
            raise
        except MalformedOutput:
            if not region.certain:
                raise
            yield from _to_the_end(region)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        return (HERMES if self.described else self.own).shape(tools)


def _to_the_end(region: Region) -> Reading[None]:
    """Give a broken call's text up to Hermes' end tag."""
    source = region.source

    def give(text: str) -> None:
        region.raw(text)
        source.mark()  # what is left when the text ends here is given by whoever asked for the region

    region.raw(source.kept())
    yield from source.until(HERMES.closes, give)
    region.end()


def also_hermes(family: Family, *, described: bool = False) -> Family:
    """Let a family read Hermes' calls too. `described`: its prompts describe tools in that way, so calls are forced so.

    Those with a machine of their own are left as they are: their templates take tools and calls. Where nothing tells
    how the model writes calls, it writes them as they are described.
    """
    if not isinstance(family, TaggedFamily) or family.syntax in (None, HERMES):
        return family
    if described and family.syntax == BARE:
        return replace(family, name="hermes", syntax=HERMES)
    return replace(family, syntax=_AlsoHermes(family.syntax, described))
