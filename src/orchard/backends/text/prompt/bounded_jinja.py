"""Limits how much a chat template may make: in one operation, which can't be interrupted, and in total.

A template is interrupted between two bytecodes of Python, but not while native code multiplies a text by 10^9. The
sandbox of Jinja, which transformers renders with, forbids a range of more than 100,000 numbers and nothing else of this
kind.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Template, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

MOST_CHARACTERS = 64 * 2**20
"""The most characters of a text that a template makes: many times more than a prompt may have."""
MOST_WORK = 2 * 2**30
"""The most characters of all texts that one rendering makes, including those that it throws away."""
_MOST_WIDTH = 1000
_MOST_BITS = 2**14  # of a whole number
_ITEM_CHARACTERS = 64  # the characters that an item of a list counts as
# Methods of texts, and filters, whose result is as long as an argument says, or repeats an argument.
_WIDTH_METHODS = {"batch", "center", "expandtabs", "indent", "ljust", "rjust", "tojson", "wordwrap", "zfill"}
# A width of four digits or more, or one that is an argument, in the syntax of `%` or of `format`.
_WIDE_FORMAT = re.compile(r"%(\([^()%]*\))?[^%a-zA-Z]*(\d{4}|\*)|\{[^{}:]*:[^{}]*(\d{4}|\{)")


def install_bounded_jinja() -> None:
    """Let transformers render chat templates with these bounds."""
    chat_template_utils.ImmutableSandboxedEnvironment = BoundedEnvironment


def _check_size(size: int) -> None:
    if size > MOST_CHARACTERS:
        raise OverflowError(f"it makes a text of more than {MOST_CHARACTERS:,} characters")


def _operand_size(value: Any) -> int:
    """Return a number itself; otherwise the number of characters or items, 0 if there are none."""
    if isinstance(value, int):
        return value
    return len(value) if hasattr(value, "__len__") else 0


class _BoundedCode(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """Write the code of `a ~ b`."""
        self.write("environment.concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        """Write the code of `a[b]`."""
        self.write("environment.count(")
        super().visit_Getitem(node, frame)
        self.write(")")


class _CountedTemplate(Template):
    def render(self, *args: Any, **kwargs: Any) -> str:
        """Render the template once."""
        self.environment.work = 0  # type: ignore[attr-defined]
        return super().render(*args, **kwargs)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with limits for operators, methods and filters. Only one thread at a time may render."""

    code_generator_class = _BoundedCode
    template_class = _CountedTemplate
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.work = 0
        self.filters = _BoundedFilters(self.filters, self)

    def count(self, value: Any) -> Any:
        """Count a text or a list that the template has made, and return it."""
        if isinstance(value, str):
            self.work += len(value)
        elif isinstance(value, list | tuple):
            self.work += len(value) * _ITEM_CHARACTERS
        if self.work > MOST_WORK:
            raise OverflowError(f"it makes texts of more than {MOST_WORK:,} characters together")
        return value

    def concat(self, pieces: Iterable[Any]) -> str:
        """Join texts, as `~` and the whole template do."""
        texts: list[str] = []
        size = 0
        for piece in pieces:
            texts.append(str(piece))
            size += len(texts[-1])
            _check_size(size)
        return str(self.count("".join(texts)))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator. Raise OverflowError if the result would be too large."""
        match operator:
            case "**" if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() * right)
            case "*" if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() + right.bit_length())
            case "*":
                _check_size(_operand_size(left) * _operand_size(right))
            case "+" if not isinstance(left, int):
                _check_size(_operand_size(left) + _operand_size(right))
            case "%" if isinstance(left, str):
                _check_format(left, *(right if isinstance(right, tuple) else (right,)))
        return self.count(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function or a method. Raise OverflowError if the result would be too large."""
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja wraps `format`
        if isinstance(subject := getattr(method, "__self__", None), str):
            _check_call(method.__name__, subject, args, kwargs)
        return __self.count(super().call(__context, __obj, *args, **kwargs))


class _BoundedFilters(dict[str, Callable[..., Any]]):
    """Filters by their names, with bounds."""

    def __init__(self, filters: Mapping[str, Callable[..., Any]], environment: BoundedEnvironment) -> None:
        super().__init__()
        self._count = environment.count
        for name, filter_ in filters.items():
            self[name] = filter_

    def __setitem__(self, name: str, filter_: Callable[..., Any]) -> None:
        @functools.wraps(filter_)
        def call_bounded(*args: Any, **kwargs: Any) -> Any:
            # Leave out Jinja's own argument.
            subject, *arguments = args[1:] if hasattr(filter_, "jinja_pass_arg") else args
            _check_call(name, subject, arguments, kwargs)
            return self._count(filter_(*args, **kwargs))

        super().__setitem__(name, call_bounded)


def _check_bits(bits: int) -> None:
    if bits > _MOST_BITS:
        raise OverflowError(f"it makes a number of more than {_MOST_BITS:,} bits")


def _check_call(name: str, subject: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise OverflowError if a method of a text, or a filter, would make too large a result of the subject."""
    arguments = (*args, *kwargs.values())
    widest = max(map(_operand_size, arguments), default=0)
    match name:
        case "replace" if isinstance(subject, str) and len(args) > 1:
            _check_size(len(subject) + subject.count(str(args[0])) * _operand_size(args[1]))
        case "join":
            items, separator = (arguments[0], subject) if isinstance(subject, str) and arguments else (subject, "")
            count = _operand_size(items)
            _check_size(count * max(len(separator), widest if items is subject else 0))
            if isinstance(items, list | tuple):
                _check_size(sum(len(item) for item in items if isinstance(item, str)))
        case "sum" if any(isinstance(start, list | tuple) for start in arguments):
            _check_size(_operand_size(subject) ** 2)  # each addition copies what there is
        case "translate":
            longest = max((_operand_size(text) for text in args[0].values() if isinstance(text, str)), default=0)
            _check_size(len(subject) * longest)
        case "format" | "format_map":
            _check_format(str(subject), *(args[0].values() if name == "format_map" else arguments))
        case _ if name in _WIDTH_METHODS and widest > _MOST_WIDTH:
            raise OverflowError(f"it uses `{name}` with a width of more than {_MOST_WIDTH:,}")
        case "indent":
            _check_size(str(subject).count("\n") * widest)


def _check_format(text: str, *args: Any) -> None:
    if _WIDE_FORMAT.search(text):
        raise OverflowError(f"it formats with a width of more than {_MOST_WIDTH - 1:,}")
    longest = max((len(arg) for arg in args if isinstance(arg, str)), default=0)
    _check_size(max(text.count("%"), text.count("{")) * longest)
