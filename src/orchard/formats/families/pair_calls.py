"""Calls as a name and pairs of tagged keys and values.

- GLM-4.5 and 4.6: https://huggingface.co/zai-org/GLM-4.6/blob/main/chat_template.jinja; 4.7 leaves the newlines out
- LongCat: https://huggingface.co/meituan-longcat/LongCat-Flash-Chat/blob/main/chat_template.jinja
- Hy3: https://huggingface.co/tencent/Hy3/blob/main/chat_template.jinja; its calls stand in a section
"""

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar
from orchard.formats.calls import CallEmitter, SectionSyntax
from orchard.formats.families.json_calls import read_call
from orchard.formats.schema import Signature
from orchard.formats.text_reader import Reading
from orchard.formats.xml_values import TaggedArguments, arguments_grammar


class PairCalls(SectionSyntax, frozen=True, kw_only=True):
    """Calls as pairs. `key` and `value` are the tags around each; `line` is what the model writes between tags.

    `behind_name`: a tag behind the name of each call.
    """

    end_call: str
    key: tuple[str, str]
    value: tuple[str, str]
    line: str = "\n"
    behind_name: str = ""

    def read(self, calls: CallEmitter, opener: str) -> Reading[None]:
        """Read calls; LongCat's and some of GLM's are JSON."""
        if not self.section and (yield from calls.source.skip()) == "{":
            yield from read_call(calls)
            yield from calls.close(self.closes)
        else:
            yield from SectionSyntax.read(self, calls, opener)

    def read_call(self, calls: CallEmitter) -> Reading[None]:
        """Read a call from behind what opens it, over the tag that ends it."""
        source = calls.source
        yield from source.skip()
        name = yield from source.name()
        if self.behind_name:
            yield from source.leading((self.behind_name,))
        arguments = TaggedArguments(calls, calls.start(name), self.key[0], (self.end_call,))
        while (yield from arguments.tag()) == self.key[0]:
            parameter = yield from source.word(self.key[1], "<\n")
            yield from source.expect(self.value[0])
            yield from arguments.read(parameter.strip(), self.value[1])
        calls.end()

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like."""

        def opening(name: str, _: frozenset[str]) -> tuple[str, ...]:
            return self.key[0], name, self.key[1], self.line, self.value[0]

        body = arguments_grammar(Signature(tool), opening, (self.value[1], self.line))
        begin = f"{self.each}{tool.name}{self.behind_name}{self.line}"
        return CallGrammar(tool.name, begin, body, f"{self.end_call}{self.line if self.section else ''}")


def _pairs(tag: str = "", line: str = "\n") -> PairCalls:
    """Return the syntax of calls without a section; `tag` stands before the names of all tags."""
    key, value = ((f"<{tag}arg_{part}>", f"</{tag}arg_{part}>") for part in ("key", "value"))
    each, end = f"<{tag}tool_call>", f"</{tag}tool_call>"
    return PairCalls(
        opens=(each,), each=each, end_call=end, closes=end, key=key, value=value, line=line, separator="\n"
    )


GLM = _pairs()
GLM_4_7 = _pairs(line="")
LONGCAT = _pairs("longcat_")
HY3 = PairCalls(
    opens=("<tool_calls:opensource>", "<tool_call:opensource>"),
    each="<tool_call:opensource>",
    end_call="</tool_call:opensource>",
    closes="</tool_calls:opensource>",
    key=("<arg_key:opensource>", "</arg_key:opensource>"),
    value=("<arg_value:opensource>", "</arg_value:opensource>"),
    behind_name="<tool_sep:opensource>",
    prefix="<tool_calls:opensource>\n",
    suffix="</tool_calls:opensource>",
)
