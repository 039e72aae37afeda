"""Families whose models may call in Hermes' way beside their own: their prompts show calls that are written so.

Chat templates without a place for tools or for earlier calls get them as text, in that way.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsGrammar
from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.families.json_calls import BARE, HERMES
from orchard.formats.families.tagged import TaggedFamily
from orchard.formats.format_events import Family
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Reading


class _AlsoHermes(CallSyntax, frozen=True, kw_only=True):
    """A family's own calls and Hermes'; `described`: it is Hermes' that the model is asked for.

    `closes` is the family's own: Hermes' broken calls are read to their end in `read`.
    """

    own: CallSyntax
    described: bool

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
            yield from _to_the_end(calls)

    def grammar(self, tools: Sequence[Tool]) -> CallsGrammar:
        """Return what one or more calls of these tools look like."""
        return (HERMES if self.described else self.own).grammar(tools)


def _to_the_end(calls: CallEmitter) -> Reading[None]:
    """Give out a broken call's text up to Hermes' end tag."""
    source = calls.source

    def give(text: str) -> None:
        calls.raw(text)
        source.mark()  # what is left when the text ends here is given by whoever asked for the calls

    calls.raw(source.kept())
    yield from source.until(HERMES.closes, give)
    calls.end()


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
    both = _AlsoHermes(opens=opens, leads=own.leads, closes=own.closes, own=own, described=described)
    return replace(family, syntax=both)
