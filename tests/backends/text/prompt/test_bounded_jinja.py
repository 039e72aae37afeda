"""No single step of a chat template makes a huge text or number, nor do all of them together; others are as usual."""

import importlib
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

from orchard.backends.text.prompt import bounded_jinja
from orchard.backends.text.prompt.bounded_jinja import BoundedEnvironment

LOOP = "{% for _ in range(100000) %}"
LARGE = "('a' * 60000000)"


def rendered(source: str, **variables: Any) -> str:
    return BoundedEnvironment(trim_blocks=True).from_string(source).render(**variables)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ [0] * 10**9 }}",
        "{{ 10 ** (10**8) }}",
        "{{ (10 ** 4000) * (10 ** 4000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%(a)1000000000s' % {'a': 1} }}",
        "{{ '%1000000000s'|format('a') }}",
        "{{ ('%s' * 10000) % ((" + LARGE + ",) * 10000) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{width}}'.format(1, width=10**9) }}",
        "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ ['a']|map('center', 10**9)|list }}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ 'a'.rjust(width) }}",
        "{{ 'a'.zfill(10**9) }}",
        "{{ '\t'.expandtabs(10**9) }}",
        "{{ 'a'|indent(10**9, true) }}",
        "{{ 'a'|indent('a' * 10000, true) }}",
        "{{ ('\n' * 1000000)|indent(1000) }}",
        "{{ [1]|batch(10**9, 'a')|list }}",
        "{{ {'a': 1}|tojson(indent=10**9) }}",
        "{{ ('a ' * 1000000)|wordwrap(1, wrapstring='a' * 10000) }}",
        "{{ ('a' * 1000000).replace('a', 'a' * 1000) }}",
        "{{ ('a' * 1000000)|replace('a', 'a' * 1000) }}",
        "{{ 'a'.translate({97: 'a' * 10**9}) }}",
        "{{ ([[1]] * 100000)|sum(start=[]) }}",
        "{{ ('a' * 1000000).translate({97: 'a' * 1000}) }}",
        "{{ ([" + LARGE + "] * 1000)|join }}",
        "{{ (['a'] * 1000)|join(" + LARGE + ") }}",
        "{{ " + LARGE + ".join(['a'] * 1000) }}",
        LOOP + "{{ 'a' * 10000 }}{% endfor %}",
        "{% macro endless() %}" + LOOP + "{{ 'a' * 10000 }}{% endfor %}{% endmacro %}{{ endless() }}",
        "{% set ns = namespace(s='a') %}" + LOOP + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='a') %}" + LOOP + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    ],
)
def test_a_step_that_makes_too_much_is_refused(source: str) -> None:
    with pytest.raises(OverflowError, match=r"^it (makes a (text|number) of|uses `\w+` with|formats with) "):
        rendered(source, width=10**9)


@pytest.mark.parametrize("made", ["large[i:]", "large|upper", "large.upper()", "large ~ i", "large + 'a'", "[0] * 999"])
def test_what_is_thrown_away_counts_too(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_jinja, "MOST_WORK", 10**6)
    source = "{% set large = 'a' * 10000 %}{% for i in range(most) %}{% set _ = " + made + " %}{% endfor %}"
    with pytest.raises(OverflowError, match="texts of more than 1,000,000 characters together"):
        rendered(source, most=1000)
    assert rendered(source, most=5) == ""  # each rendering begins anew


@pytest.mark.parametrize(
    "source",
    [
        "{{ 5 % 3 }} {{ '%05.2f of %s' % (2.5, 'a') }} {{ '%(a)s' % {'a': 1} }} {{ '%d%%'|format(5) }}",
        "{{ '{:>5} {x}'.format('a', x=2) }} {{ '{a}'.format_map({'a': 1}) }}",
        "{{ '{name}{subject}'.format(name=1, subject=2) }}",
        "{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.5 ** 3 }} {{ 1.5 * 2 }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ 1 + 2 }}",
        "{{ 'a' ~ 1 ~ none ~ [1] }} {{ 'a' + 'b' }}",
        "{{ 'a b'|replace('a', 'c') }} {{ 'aa'.replace('a', 'bc', 1) }} {{ [1, 2]|join(' ') }} {{ ', '.join(['a']) }}",
        "{{ [{'x': 1}, {'x': 2}]|join('-', attribute='x') }} {{ [1, 2]|map('string')|join(' ') }}",
        "{{ {'a': [1, 'é']}|tojson(indent=4) }} {{ 'a\nb'|indent(4) }} {{ 'a'|center(9) }} {{ 'a'.zfill(3) }}",
        "{{ 'abc'[1:] }} {{ [1, 2][-1] }} {{ {'a': 1}['a'] }} {{ 'a,b'.split(',')[1] }} {{ 'A'.lower() }}",
        "{% set ns = namespace(n=0) %}{% for i in range(9) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
        "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') ~ m(1) }}{% set block %}a{{ 1 }}{% endset %}{{ block }}",
        "{{ [[1], [2]]|sum(start=[]) }}",
        "{{ 1234567 }} {{ '2024: %s' % 1 }} {{ 1700000000|string }} {{ 'a'|default(10**8) }} {{ missing }}",
        "{{ 'a'.translate({97: 'b'}) }} {{ [1, 2]|sum }} {{ 'a b c'|wordwrap(2) }} {{ [1, 2, 3]|batch(2)|list }}",
    ],
)
def test_other_templates_are_rendered_as_usual(source: str) -> None:
    assert rendered(source) == ImmutableSandboxedEnvironment(trim_blocks=True).from_string(source).render()


def test_transformers_renders_with_these_bounds() -> None:
    importlib.import_module("orchard.backends.text.prompt.chat_template")
    template = chat_template_utils._compile_jinja_template("{{ messages[0].content * 10**9 }}")
    assert isinstance(template.environment, BoundedEnvironment)
