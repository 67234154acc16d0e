"""Documents of sequences: every mistake is reported with its path and a sentence."""

from typing import Any

import pytest

from mailwright.sources.sequences.definition import InvalidSequence, parse_definition
from mailwright.sources.sequences.program import compile_program
from tests.sequences import a_document, a_wait, an_email

END = {"id": "end", "end": True}


def problems(document: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSequence) as caught:
        compile_program(parse_definition(document))
    return [(each.field, each.message) for each in caught.value.errors]


MISTAKES: dict[str, tuple[Any, str, str]] = {
    "no object": ([], "document", "must be a JSON object"),
    "no name": (a_document(name=""), "name", "must be text of 1 to 200 printable characters"),
    "unknown field": (a_document(trigers={}), "trigers", "is not a known field"),
    "no steps": ({**a_document(), "steps": []}, "steps", "needs at least one step"),
    "no trigger": (a_document(trigger={}), "trigger", "needs exactly one of"),
    "two triggers": (a_document(trigger={"manual": True, "joinsList": "a"}), "trigger", "needs exactly one of"),
    "feed": (
        a_document(trigger={"rss": "feed", "list": "news"}, reentry="each"),
        "trigger.rss",
        "must be the web address of a feed",
    ),
    "nobody of a feed": (
        a_document(trigger={"rss": "https://a.example"}, reentry="each"),
        "trigger",
        "needs exactly one of list and segment: who enters",
    ),
    "schedule once": (
        a_document(trigger={"schedule": {"time": "09:00"}, "list": "news"}),
        "reentry",
        'must be "each" or afterDays, because a schedule starts the sequence for the same people again and again',
    ),
    "schedule of both kinds": (
        a_document(
            trigger={"schedule": {"time": "09:00", "weekdays": ["mon"], "monthDays": [1]}, "list": "news"},
            reentry="each",
        ),
        "trigger.schedule",
        "has weekdays and monthDays; keep one of them",
    ),
    "schedule in no zone": (
        a_document(trigger={"schedule": {"time": "09:00", "timezone": "Moon"}, "list": "news"}, reentry="each"),
        "trigger.schedule.timezone",
        "is not an IANA time zone",
    ),
    "condition of no event": (
        a_document({"id": "a", "waitFor": {"filter": {"tag": "x"}, "where": {"total": 5}, "timeout": {"days": 1}}}),
        "steps[0].waitFor",
        "has where without event",
    ),
    "days of the goal": (a_document(goalDays=True), "goalDays", "must be a whole number of days from 0 to 90"),
    "exit by event": (a_document(exits=[{"event": "a", "were": {}}]), "exits[0].were", "is not a known field"),
    "event": (a_document(trigger={"event": ""}), "trigger.event", "must have at least 1 character"),
    "nothing to wait for": (
        a_document({"id": "a", "waitFor": {"timeout": {"days": 1}}}),
        "steps[0].waitFor",
        "needs exactly one of filter and event",
    ),
    "list key": (a_document(trigger={"joinsList": "A b"}), "trigger.joinsList", "must be a key such as product-news"),
    "both offsets": (
        a_document(trigger={"dateAttribute": "birthday", "daysBefore": 1, "daysAfter": 1}),
        "trigger",
        "has daysBefore and daysAfter; keep one of them",
    ),
    "yearly once": (
        a_document(trigger={"dateAttribute": "birthday", "yearly": True}),
        "reentry",
        'must be "each" or afterDays, because a yearly date starts the sequence every year',
    ),
    "reentry": (a_document(reentry="often"), "reentry", 'must be "never", "each" or {"afterDays": N}'),
    "filter": (a_document(exits=[{"tags": "x"}]), "exits[0]", "filter: needs exactly one of"),
    "two kinds": (a_document({"id": "a", "end": True, "goTo": "a"}), "steps[0]", "needs exactly one of"),
    "webhook": (
        a_document({"id": "a", "webhook": {"to": "https://a.example"}}),
        "steps[0].webhook.to",
        "must be the ID of a webhook",
    ),
    "no id": (a_document({"end": True}), "steps[0].id", "must have 1 to 63 characters"),
    "same id": (a_document(END, END), "steps[1].id", "is used twice: steps[0] has the id end too"),
    "no template": (a_document({"id": "a", "send": {}}), "steps[0].send.template", "is required"),
    "no time": (a_document({"id": "a", "wait": {}}), "steps[0].wait", "needs days, hours or minutes"),
    "clock": (
        a_document({"id": "a", "waitUntil": {"time": "9"}}),
        "steps[0].waitUntil.time",
        "must be a time such as 09:00",
    ),
    "shares": (
        a_document({"id": "a", "split": [{"percent": 50, "steps": []}, {"percent": 40, "steps": []}]}),
        "steps[0].split",
        "the shares add up to 90 percent; they must add up to 100",
    ),
    "nested": (
        a_document({"id": "a", "branch": [{"if": {"tag": "x"}, "steps": [{"id": "b", "send": {}}]}]}),
        "steps[0].branch[0].steps[0].send.template",
        "is required",
    ),
    "subscribes to all": (
        a_document({"id": "a", "change": {"subscribe": ["general"]}}),
        "steps[0].change",
        "subscribes to general, which only people themselves can do; name a list",
    ),
    "no change": (a_document({"id": "a", "change": {}}), "steps[0].change", "needs addTags, removeTags, attributes"),
    "address": (
        a_document({"id": "a", "notify": {"to": "team", "subject": "a", "text": "b"}}),
        "steps[0].notify.to",
        "must be an email address",
    ),
    "target": (a_document({"id": "a", "goTo": "b"}), "steps[0].goTo", "there is no step with the id b"),
    "cycle": (
        a_document(an_email("a"), a_wait("b", minutes=59), {"id": "c", "goTo": "a"}),
        "steps[2]",
        "the steps a, b, c repeat without a wait of at least one hour; add one between them",
    ),
    "own cycle": (a_document({"id": "a", "goTo": "a"}), "steps[0]", "the steps a repeat without a wait"),
    "cycle in a branch": (
        a_document(
            an_email("a"),
            {"id": "b", "branch": [{"if": {"tag": "x"}, "steps": [a_wait("w"), {"id": "c", "goTo": "a"}]}]},
            {"id": "d", "goTo": "b"},
        ),
        "steps[2]",
        "the steps b, d repeat without a wait",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_reported_with_its_path(mistake: str) -> None:
    document, path, message = MISTAKES[mistake]
    [(found, sentence)] = problems(document)
    assert found == path
    assert sentence.startswith(message)


def test_all_mistakes_are_reported_at_once() -> None:
    document = a_document({"id": "A", "send": {}}, {"id": "b", "goTo": "c"}, name="", list=5)
    assert {path for path, _ in problems(document)} == {
        "name",
        "list",
        "steps[0].id",
        "steps[0].send.template",
        "steps[1].goTo",
    }


def test_too_many_or_too_deep_steps_are_refused() -> None:
    many = [{"id": f"s{number}", "end": True} for number in range(201)]
    assert problems(a_document(*many)) == [("steps", "a sequence has at most 200 steps")]
    step = END
    for number in range(8):
        step = {"id": f"b{number}", "branch": [{"if": {"tag": "x"}, "steps": [step]}]}
    assert "is nested deeper than 6 levels" in {message for _, message in problems(a_document(step))}
