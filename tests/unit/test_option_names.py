"""Errors of commands name options, not fields of the HTTP API."""

import pytest
import typer

from mailwright.actions import load_noun
from mailwright.cli import article, campaign, contact
from mailwright.cli.derived import make_group
from mailwright.cli.option_names import option_name

LISTS = make_group(load_noun("list"))
SEGMENTS = make_group(load_noun("segment"))


@pytest.mark.parametrize(
    ("app", "arguments", "field", "expected"),
    [
        (campaign.app, ["create", "--name", "x"], "limits.dailyLimit", "--daily-limit"),
        (campaign.app, ["create"], "limits.ratePerHour", "--rate-per-hour"),
        (campaign.app, ["create"], "limits.inReadersTimeZone", "--readers-time"),
        (campaign.app, ["create"], "lists[0]", "--list"),
        (campaign.app, ["create"], "from", "--from"),
        (campaign.app, ["create"], "replyTo", "--reply-to"),
        (campaign.app, ["create"], "filter", "--filter"),
        (campaign.app, ["create"], "scheduledAt", "--schedule"),
        (campaign.app, ["create"], "experiment.testPercent", "--test-percent"),
        (campaign.app, ["create"], "experiment.variants[1].name", "--variant"),
        (campaign.app, ["create"], "content.subject", "--subject"),
        (campaign.app, ["create"], "content.templateId", "--template"),
        (contact.app, ["import", "people.csv"], "map", "--map"),
        (contact.app, ["import", "people.csv"], "encoding", "--encoding"),
        (contact.app, ["import", "people.csv"], "listKey", "--list"),
        (article.app, ["send"], "send_batch_id", "--batch"),
        (article.app, ["send"], "article_key", "--key"),
        (SEGMENTS, ["create", "vip"], "segmentKey", "segmentKey"),
        (LISTS, ["edit", "news"], "isPublic", "--public"),
        (LISTS, ["edit", "news"], "requiresConfirmation", "--confirm"),
        (SEGMENTS, ["no such command"], "name", "name"),
    ],
)
def test_field_becomes_the_option_of_the_command(
    app: typer.Typer, arguments: list[str], field: str, expected: str
) -> None:
    assert option_name(field, typer.main.get_command(app), arguments) == expected
