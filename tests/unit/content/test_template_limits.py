"""Templates of tenants cannot exhaust the stack, the memory or the time of the process that reads them."""

from typing import Any

import pytest

from mailwright.content.template import InvalidTemplate, Template, TemplatePart
from mailwright.content.template_syntax import MAX_LEVELS, MAX_TAG_TOKENS
from tests.faults.templates import fuzz


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize("link", ["1+", "not ", "-", "x~", "x and ", "1 if x else ", "x or ", "1//"])
@pytest.mark.parametrize("length", [MAX_TAG_TOKENS, 17_500])
def test_chain_of_operators_is_refused(link: str, length: int) -> None:
    with pytest.raises(InvalidTemplate, match="Line 2: One tag has more than"):
        TemplatePart("text", f"\n{{{{ {link * length}1 }}}}")


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize("suffix", [".b", "|upper", "[0]", " is defined"])
def test_chain_after_a_value_is_refused(suffix: str) -> None:
    with pytest.raises(InvalidTemplate, match="One tag has more than"):
        TemplatePart("text", f"{{{{ x{suffix * 5_000} }}}}")


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% if x %}" + "{% elif x %}" * 10_000 + "{% endif %}", "if, elif and for counts"),
        ("{% if x %}" * 150 + "{% endif %}" * 150, "are nested"),
        (("{% if x %}" + "{% elif x %}" * 20) * 20 + "{% endif %}" * 20, "are nested"),
        ("{{ " + "(" * 21 + "1" + ")" * 21 + " }}", "Brackets are nested"),
        ("{{ " + "9" * 5_000 + " }}", "A number has more than 40 digits"),
        ("{{ 1" + ".b" * 5_000 + " }}", "A number has more than 40 digits"),
        ("{{ '" + "a" * 10_000 + "' }}", "One tag has more than 10,000 characters"),
        ("{% if x %}" + "".join(f"{{{{ v{n} }}}}" for n in range(600)) + "{% endif %}", "at most 500 variables"),
    ],
)
def test_nested_or_long_code_is_refused(source: str, message: str) -> None:
    with pytest.raises(InvalidTemplate, match=message):
        TemplatePart("text", source)


def test_template_within_the_limits_renders() -> None:
    branches = "{% if x == 0 %}" + "".join(f"{{% elif x == {n} %}}{n}" for n in range(1, MAX_LEVELS)) + "{% endif %}"
    assert TemplatePart("text", branches).render({"x": 42}) == "42"
    chain = "{{ " + " ~ ".join(["x"] * 249) + " }}"
    assert TemplatePart("text", chain).render({"x": "a"}) == "a" * 249
    assert (
        TemplatePart("text", "{{ x|list }}{{ range(3)|list }}{{ 5|string }}{{ y|list }}").render(
            {"x": "ab", "y": {"a": 1}}
        )
        == "['a', 'b'][0, 1, 2]5['a']"
    )


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("{% set a = '\\\\' %}" + "{% set a = [a] ~ '' %}" * 40 + "{{ a|length }}", {}),
        ("{% set a = x %}" + "{% for a in [[a] ~ ''] %}" * 40 + "{{ a|length }}" + "{% endfor %}" * 40, {"x": "\\"}),
        ("{{ x" + "|list|string" * 12 + "|length }}", {"x": "abc"}),
        ("{{ x" + "|urlencode" * 200 + "|length }}", {"x": "%" * 100_000}),
        ("{{ range(99999999)|length }}", {}),
        ("{% for i in range(1000) %}{% for j in range(1000) %}{% if x|upper %}{% endif %}{% endfor %}{% endfor %}", {}),
        ("{% for i in y %}{{ y }}{% endfor %}", {"y": list(range(10_000))}),
        ("{% set a = " + "~".join(["x"] * 11) + " %}{{ " + "~".join(["a"] * 200) + " }}", {"x": "a" * 10_000}),
        ("{{ x|length }}{% if y %}{% endif %}", {"x": "a" * 3_000_000, "y": 1}),
    ],
)
def test_growing_values_and_long_loops_are_refused(source: str, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidTemplate):
        TemplatePart("text", source).render({"x": "abc", **values})


def test_deeply_nested_values_are_refused() -> None:
    nested: list[Any] = []
    for _ in range(900):
        nested = [nested]
    template = Template(subject="x", html="<p>{% if a %}{{ a }}{% endif %}</p>", text=None)
    with pytest.raises(InvalidTemplate, match="nested more than 50 levels"):
        template.render({"a": nested})


@pytest.mark.promise("body-limits")
def test_random_templates_never_crash_on_a_small_stack() -> None:
    outcomes = fuzz(seed=1, count=250)
    assert outcomes.total() == 250
    assert set(outcomes) == {"refused", "rendered"}
