"""The starter templates: complete, and within what Outlook and Gmail can show."""

import re
from dataclasses import replace

import pytest
from selectolax.lexbor import LexborHTMLParser

from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.document import parse_document
from mailwright.content.blocks.starters import Starter, list_starters, load_starter
from mailwright.content.brand import Brand
from mailwright.content.presend_checks import PresendContext, run_presend_checks
from mailwright.content.template_store import StoredTemplate
from mailwright.content.variables import STANDARD_VARIABLES, check_declared
from mailwright.domain.errors import NotFound

BRAND = Brand(name="Northwind", postal_address="12 River Street\n1200 Lisbon", website="https://example.com")
CLIPPED_BY_GMAIL = 102 * 1024
# Outlook for Windows ignores these; Gmail drops the whole style attribute that has some of them.
UNSUPPORTED_CSS = re.compile(r"(?:flex|grid|position\s*:|float\s*:|calc\(|var\(|@import|url\()", re.IGNORECASE)
ALL = [pytest.param(starter, id=starter.name) for starter in list_starters()]


def stored(starter: Starter) -> StoredTemplate:
    compiled = compile_document(parse_document(starter.document), BRAND, title=starter.subject, locale="en")
    assert compiled.warnings == ()
    return StoredTemplate(
        0, 1, starter.name, 1, starter.subject, compiled.html, None, 0, "en", variables=starter.variables
    )


def test_there_are_twelve_starters_with_unique_names() -> None:
    assert len({starter.name for starter in list_starters()}) == len(list_starters()) == 12
    assert load_starter("newsletter").title == "Newsletter"
    with pytest.raises(NotFound, match="There is no starter 'nothing'"):
        load_starter("nothing")


@pytest.mark.parametrize("starter", ALL)
def test_starter_uses_only_html_of_email_programs(starter: Starter) -> None:
    html = stored(starter).render({}).html or ""
    assert len(html.encode()) < CLIPPED_BY_GMAIL
    tree = LexborHTMLParser(html)
    assert tree.body is not None
    assert not tree.css("link, script, form, video, svg, iframe, object, div[background]")
    assert all(table.attributes.get("role") == "presentation" for table in tree.css("table"))
    assert all(image.attributes.get("alt") and image.attributes.get("width") for image in tree.css("img"))
    assert all(link.attributes.get("href") for link in tree.css("a"))
    for node in tree.body.css("[style]"):
        assert not UNSUPPORTED_CSS.search(node.attributes["style"] or ""), node.html
    assert 'name="color-scheme"' in html
    assert "prefers-color-scheme:dark" in html
    assert re.search(r'<html lang="en"', html)


@pytest.mark.parametrize("starter", ALL)
def test_starter_passes_the_presend_checks(starter: Starter) -> None:
    template = stored(starter)
    check_declared(template.compiled(), starter.variables)
    context = PresendContext(is_bulk=starter.kind == "bulk", postal_address="12 River Street, 1200 Lisbon")
    issues = run_presend_checks(subject=template.subject, html=template.html, text=None, context=context)
    assert {issue.code for issue in issues} <= {"SAMPLE_LINK"}  # The links are samples.
    has_link = "unsubscribe_url" in template.compiled().variables
    assert has_link is (starter.kind == "bulk")
    assert "12 River Street" in (template.render({}).text or "")


@pytest.mark.parametrize("starter", ALL)
def test_starter_greets_contacts_without_a_name(starter: Starter) -> None:
    samples = tuple(each for each in starter.variables if each.name != "name")
    standard = {name: value for name, value in STANDARD_VARIABLES.items() if name != "name"}
    template = replace(stored(starter), variables=samples)
    nameless = template.render({}, standard)
    assert template.render({"name": ""}, standard) == nameless
    uses_name = "name" in template.compiled().variables
    assert (template.render({"name": "Ann"}, standard) != nameless) is uses_name


@pytest.mark.parametrize("starter", ALL)
def test_starter_names_no_real_person_or_site(starter: Starter) -> None:
    addresses = re.findall(r"https?://([^/\"?]+)", str(starter.document))
    assert set(addresses) <= {"example.com"}


def test_bulk_starters_need_no_attribute_of_the_contact() -> None:
    declared = {each.name for starter in list_starters() if starter.kind == "bulk" for each in starter.variables}
    assert declared <= set(STANDARD_VARIABLES)
