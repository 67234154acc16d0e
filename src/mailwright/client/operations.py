"""A method for every operation. Made by tools/client.py; `make docs` makes it anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from mailwright.client import models
from mailwright.client.call import Call, Send, SendAsync, as_bytes, as_is, nothing, path


class ArticleRuns:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list_runs(
        self, *, limit: int | None = None, cursor: str | None = None, article_key: str | None = None
    ) -> models.RunList:
        """The latest first."""
        return self._send(
            Call(
                "GET",
                "/v1/article-runs",
                models.RunList.read,
                query={"limit": limit, "cursor": cursor, "article_key": article_key},
            )
        )

    def show_run(self, run_id: str) -> models.RunStory:
        """Where its messages stand, and how many readers each variant has."""
        return self._send(Call("GET", path("/v1/article-runs/{}", run_id), models.RunStory.read))

    def list_runs_all(self, *, limit: int | None = None, article_key: str | None = None) -> Iterator[models.RunAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list_runs(limit=limit, cursor=cursor, article_key=article_key)
            yield from page.runs
            cursor = page.next_cursor
            if cursor is None:
                return


class Articles:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> models.ArticleList:
        """By key."""
        return self._send(Call("GET", "/v1/articles", models.ArticleList.read))

    def send(self, request: models.ArticleSendRequest) -> models.SendingAnswer:
        """Answered as soon as the run is on disk: a worker then writes to everyone. The same batch again gets
        200 and the run as it is; nothing is sent twice.
        """
        return self._send(Call("POST", "/v1/articles/send", models.SendingAnswer.read, body=request.as_json()))

    def show_article(self, article_key: str) -> models.SliceList:
        """All slices, whether they are published or not."""
        return self._send(Call("GET", path("/v1/articles/{}", article_key), models.SliceList.read))

    def coverage(self, article_key: str, request: models.CoverageRequest) -> models.CoverageAnswer:
        """How many readers would get which variant now, and which slices nobody would get."""
        return self._send(
            Call(
                "POST",
                path("/v1/articles/{}/coverage", article_key),
                models.CoverageAnswer.read,
                body=request.as_json(),
            )
        )

    def preview(self, article_key: str, request: models.ArticlePreviewRequest) -> models.ArticlePreviewAnswer:
        """As this reader would get it now, with the reason for each slice that is in it or is not."""
        return self._send(
            Call(
                "POST",
                path("/v1/articles/{}/preview", article_key),
                models.ArticlePreviewAnswer.read,
                body=request.as_json(),
            )
        )

    def export(self, article_key: str) -> bytes:
        """Taken in again, it changes nothing."""
        return self._send(Call("GET", path("/v1/articles/{}/slices.csv", article_key), as_bytes))


class Campaigns:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.CampaignList:
        """The latest first."""
        return self._send(
            Call("GET", "/v1/campaigns", models.CampaignList.read, query={"limit": limit, "cursor": cursor})
        )

    def create(self, request: models.CampaignRequest) -> models.CampaignAnswer:
        """A draft. Whether it can start is asked when it starts, or by its preflight."""
        return self._send(Call("POST", "/v1/campaigns", models.CampaignAnswer.read, body=request.as_json()))

    def get(self, campaign_id: str) -> models.CampaignAnswer:
        """What was written down, how far it is, and what holds it."""
        return self._send(Call("GET", path("/v1/campaigns/{}", campaign_id), models.CampaignAnswer.read))

    def edit(self, campaign_id: str, request: models.CampaignRequest) -> models.CampaignAnswer:
        """Replaces the whole of a draft. What has started is fixed, but for its limits."""
        return self._send(
            Call("PUT", path("/v1/campaigns/{}", campaign_id), models.CampaignAnswer.read, body=request.as_json())
        )

    def accept_failures(self, campaign_id: str) -> models.CampaignAnswer:
        """The campaign counts as sent, without those whom it did not reach."""
        return self._send(
            Call("POST", path("/v1/campaigns/{}/accept-failures", campaign_id), models.CampaignAnswer.read)
        )

    def show_archived(self, campaign_id: str) -> models.ArchiveAnswer:
        """Whether everyone may read the campaign, and where."""
        return self._send(Call("GET", path("/v1/campaigns/{}/archive", campaign_id), models.ArchiveAnswer.read))

    def set_archived(self, campaign_id: str, request: models.ArchiveRequest) -> models.ArchiveAnswer:
        """Opens a campaign that has started to everyone, without anything of its readers, or closes it again."""
        return self._send(
            Call(
                "PUT", path("/v1/campaigns/{}/archive", campaign_id), models.ArchiveAnswer.read, body=request.as_json()
            )
        )

    def cancel(self, campaign_id: str) -> models.CampaignAnswer:
        """What was not sent is not sent any more; what was, stays in the report."""
        return self._send(Call("POST", path("/v1/campaigns/{}/cancel", campaign_id), models.CampaignAnswer.read))

    def duplicate(self, campaign_id: str, request: models.DuplicateRequest) -> models.CampaignAnswer:
        """A draft with the same content and audience, to be changed and started by itself."""
        return self._send(
            Call(
                "POST",
                path("/v1/campaigns/{}/duplicate", campaign_id),
                models.CampaignAnswer.read,
                body=request.as_json(),
            )
        )

    def explain(self, campaign_id: str) -> models.CampaignExplanationAnswer:
        """Why it is not sent yet: which rule holds it, until when, what would change that, what it then does,
        and what you can do now.
        """
        return self._send(
            Call("GET", path("/v1/campaigns/{}/explain", campaign_id), models.CampaignExplanationAnswer.read)
        )

    def extend(self, campaign_id: str, request: models.ExtendRequest) -> models.ExtendedAnswer:
        """Also for whoever has joined since, and for another segment where one is named; nobody gets it twice."""
        return self._send(
            Call(
                "POST", path("/v1/campaigns/{}/extend", campaign_id), models.ExtendedAnswer.read, body=request.as_json()
            )
        )

    def failures(self, campaign_id: str, *, limit: int | None = None, cursor: str | None = None) -> models.FailureList:
        """Whom it did not reach, and why, in the order of addresses. Whoever left before their turn is not among
        them.
        """
        return self._send(
            Call(
                "GET",
                path("/v1/campaigns/{}/failures", campaign_id),
                models.FailureList.read,
                query={"limit": limit, "cursor": cursor},
            )
        )

    def edit_limits(self, campaign_id: str, request: models.CampaignLimits) -> models.CampaignAnswer:
        """Replaces the campaign's own limits, within one batch also while it is being sent."""
        return self._send(
            Call(
                "PUT", path("/v1/campaigns/{}/limits", campaign_id), models.CampaignAnswer.read, body=request.as_json()
            )
        )

    def pause(self, campaign_id: str) -> models.CampaignAnswer:
        """Nothing more leaves after the batch that is under way. It keeps its place."""
        return self._send(Call("POST", path("/v1/campaigns/{}/pause", campaign_id), models.CampaignAnswer.read))

    def preflight(self, campaign_id: str) -> models.CampaignPreflightAnswer:
        """What starting would say, without starting: all that keeps it from that, and what readers would mind."""
        return self._send(
            Call("POST", path("/v1/campaigns/{}/preflight", campaign_id), models.CampaignPreflightAnswer.read)
        )

    def report_csv(self, campaign_id: str) -> bytes:
        """What became of every recipient's mail, in the order of addresses."""
        return self._send(Call("GET", path("/v1/campaigns/{}/report.csv", campaign_id), as_bytes))

    def resume(self, campaign_id: str) -> models.CampaignAnswer:
        """Goes on where it was."""
        return self._send(Call("POST", path("/v1/campaigns/{}/resume", campaign_id), models.CampaignAnswer.read))

    def retry_failed(self, campaign_id: str) -> models.RetriedAnswer:
        """Everyone whose mail failed gets all attempts again."""
        return self._send(Call("POST", path("/v1/campaigns/{}/retry-failed", campaign_id), models.RetriedAnswer.read))

    def start(self, campaign_id: str) -> models.StartedAnswer:
        """Freezes the content and takes a place in line; a worker then writes to everyone in the audience. It is
        refused with every reason at once.
        """
        return self._send(Call("POST", path("/v1/campaigns/{}/start", campaign_id), models.StartedAnswer.read))

    def test(self, campaign_id: str, request: models.CampaignTestRequest) -> models.CampaignTestAnswer:
        """The campaign's mail to a few addresses, one for each version and address, marked as a test and not
        counted.
        """
        return self._send(
            Call(
                "POST",
                path("/v1/campaigns/{}/test", campaign_id),
                models.CampaignTestAnswer.read,
                body=request.as_json(),
            )
        )

    def choose_winner(self, campaign_id: str, request: models.WinnerRequest) -> models.CampaignAnswer:
        """Decides an experiment by your own word: the version goes to everyone who has none yet."""
        return self._send(
            Call(
                "POST", path("/v1/campaigns/{}/winner", campaign_id), models.CampaignAnswer.read, body=request.as_json()
            )
        )

    def list_all(self, *, limit: int | None = None) -> Iterator[models.CampaignLine]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor)
            yield from page.campaigns
            cursor = page.next_cursor
            if cursor is None:
                return

    def failures_all(self, campaign_id: str, *, limit: int | None = None) -> Iterator[models.FailureAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.failures(campaign_id, limit=limit, cursor=cursor)
            yield from page.failures
            cursor = page.next_cursor
            if cursor is None:
                return


class Contacts:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, status: models.ContactStatus | None = None
    ) -> models.ContactList:
        """The latest first."""
        return self._send(
            Call(
                "GET",
                "/v1/contacts",
                models.ContactList.read,
                query={"limit": limit, "cursor": cursor, "status": status},
            )
        )

    def export(
        self,
        *,
        format_: Literal["csv", "jsonl"] | str | None = None,
        list_key: str | None = None,
        segment_key: str | None = None,
    ) -> bytes:
        """People with lists, tags and attributes, in the order of addresses. An import takes the CSV back as it
        is.
        """
        return self._send(
            Call(
                "GET",
                "/v1/contacts/export",
                as_bytes,
                query={"format": format_, "listKey": list_key, "segmentKey": segment_key},
            )
        )

    def erase(self, email: str) -> None:
        """Erases all that tells who the person is, also in mails that were sent. The address is kept only as one
        that gets no bulk mail, so that no import writes to them again.
        """
        self._send(Call("DELETE", path("/v1/contacts/{}", email), nothing))

    def get(self, email: str) -> models.ContactAnswer:
        """A person's status, lists, suppressions and latest mails, by any spelling of the address."""
        return self._send(Call("GET", path("/v1/contacts/{}", email), models.ContactAnswer.read))

    def put(self, email: str, request: models.ContactRequest) -> models.ContactAnswer:
        """Tells of a person, who becomes a contact if not known yet. What is not named stays; an attribute that
        is null is taken away. Whether they may be written to is not changed by this.
        """
        return self._send(
            Call("PUT", path("/v1/contacts/{}", email), models.ContactAnswer.read, body=request.as_json())
        )

    def activate(self, email: str) -> models.ContactAnswer:
        """Writes to a person again who bounced, complained or left all bulk mail. Lists that they left stay
        left.
        """
        return self._send(Call("POST", path("/v1/contacts/{}/activate", email), models.ContactAnswer.read))

    def data(self, email: str) -> Any:
        """Everything that is known of a person, mails and all, to be handed to them."""
        return self._send(Call("GET", path("/v1/contacts/{}/data", email), as_is))

    def history(self, email: str) -> Any:
        """What happened with a person, the latest first: lists, status, and every step of their latest mails."""
        return self._send(Call("GET", path("/v1/contacts/{}/history", email), as_is))

    def list_all(
        self, *, limit: int | None = None, status: models.ContactStatus | None = None
    ) -> Iterator[models.ContactLine]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor, status=status)
            yield from page.contacts
            cursor = page.next_cursor
            if cursor is None:
                return


class DeadLetters:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.DeadLetterList:
        """Messages that wait for an operator, the latest first. `POST /v1/email/{outboxId}/retry` tries one
        again.
        """
        return self._send(
            Call("GET", "/v1/dead-letters", models.DeadLetterList.read, query={"limit": limit, "cursor": cursor})
        )

    def list_all(self, *, limit: int | None = None) -> Iterator[models.DeadLetterAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor)
            yield from page.dead_letters
            cursor = page.next_cursor
            if cursor is None:
                return


class Email:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: models.Status | None = None,
        to: str | None = None,
        source: models.Source | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> models.MessageList:
        """Messages, the latest first. There is more as long as there is a `nextCursor`, also after a page that
        is short.
        """
        return self._send(
            Call(
                "GET",
                "/v1/email",
                models.MessageList.read,
                query={
                    "limit": limit,
                    "cursor": cursor,
                    "status": status,
                    "to": to,
                    "source": source,
                    "since": since,
                    "until": until,
                },
            )
        )

    def send_batch(self, request: models.BatchRequest, *, idempotency_key: str | None = None) -> models.BatchAnswer:
        """Accepts up to 1,000 messages in one commit. A bad item is answered with its error and stops no other.

        With an idempotency key, each item has a key of its own, made of the key and the item's index.
        """
        return self._send(
            Call(
                "POST",
                "/v1/email/batch",
                models.BatchAnswer.read,
                body=request.as_json(),
                takes_key=True,
                idempotency_key=idempotency_key,
            )
        )

    def send(self, request: models.SendRequest, *, idempotency_key: str | None = None) -> models.AcceptedAnswer:
        """Accepts one message: 202 once it is on disk, 200 when the idempotency key was used before with this
        body.
        """
        return self._send(
            Call(
                "POST",
                "/v1/email/send",
                models.AcceptedAnswer.read,
                body=request.as_json(),
                takes_key=True,
                idempotency_key=idempotency_key,
            )
        )

    def get(self, outbox_id: str) -> models.MessageAnswer:
        """One message with its whole story."""
        return self._send(Call("GET", path("/v1/email/{}", outbox_id), models.MessageAnswer.read))

    def cancel(self, outbox_id: str) -> models.StatusAnswer:
        """Holds back a message that no provider has been called for yet."""
        return self._send(Call("POST", path("/v1/email/{}/cancel", outbox_id), models.StatusAnswer.read))

    def explain(self, outbox_id: str) -> models.ExplanationAnswer:
        """Why it is not sent yet: which rule holds it, until when, what would change that, and what you can do
        now.
        """
        return self._send(Call("GET", path("/v1/email/{}/explain", outbox_id), models.ExplanationAnswer.read))

    def resolve(self, outbox_id: str, request: models.ResolveRequest) -> models.StatusAnswer:
        """Ends a doubt: the mail was `sent`, is to `resend`, or nobody will know and it is to `close`."""
        return self._send(
            Call("POST", path("/v1/email/{}/resolve", outbox_id), models.StatusAnswer.read, body=request.as_json())
        )

    def retry(self, outbox_id: str) -> models.StatusAnswer:
        """Gives a failed message all its attempts again."""
        return self._send(Call("POST", path("/v1/email/{}/retry", outbox_id), models.StatusAnswer.read))

    def list_all(
        self,
        *,
        limit: int | None = None,
        status: models.Status | None = None,
        to: str | None = None,
        source: models.Source | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[models.MessageLine]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor, status=status, to=to, source=source, since=since, until=until)
            yield from page.messages
            cursor = page.next_cursor
            if cursor is None:
                return


class Forecast:
    def __init__(self, send: Send) -> None:
        self._send = send

    def get(self, *, days: int | None = None) -> models.ForecastAnswer:
        """Your campaigns in line, on the rules and counters of this moment."""
        return self._send(Call("GET", "/v1/forecast", models.ForecastAnswer.read, query={"days": days}))


class Health:
    def __init__(self, send: Send) -> None:
        self._send = send

    def alive(self) -> models.Alive:
        """The process is alive. Nothing else is asked, so that a database's outage restarts nobody."""
        return self._send(Call("GET", "/healthz", models.Alive.read))

    def metrics(self) -> bytes:
        """Prometheus' text format, or OpenMetrics for whoever asks for it: only that one shows examples of
        messages.
        """
        return self._send(Call("GET", "/metrics", as_bytes))

    def ready(self) -> models.Readiness:
        """The database answers and has the newest form, and the worker in this process, if there is one, runs.

        Providers are told beside that: while one is left alone, mail is accepted and waits, or goes through
        another.
        """
        return self._send(Call("GET", "/readyz", models.Readiness.read))


class Images:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.ImageList:
        """The latest first."""
        return self._send(Call("GET", "/v1/images", models.ImageList.read, query={"limit": limit, "cursor": cursor}))

    def upload(self, content: bytes, *, content_type: str = "image/gif", name: str) -> models.ImageAnswer:
        """PNG, JPEG, GIF or WebP, known by its content. Templates that are written from now on show it under its
        name.
        """
        return self._send(
            Call(
                "POST",
                "/v1/images",
                models.ImageAnswer.read,
                query={"name": name},
                body=content,
                content_type=content_type,
            )
        )

    def list_all(self, *, limit: int | None = None) -> Iterator[models.ImageAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor)
            yield from page.images
            cursor = page.next_cursor
            if cursor is None:
                return


class Imports:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> models.ImportList:
        """The latest first."""
        return self._send(Call("GET", "/v1/contacts/imports", models.ImportList.read))

    def begin(
        self,
        content: bytes,
        *,
        content_type: str = "text/csv",
        list_key: str | None = None,
        tag: Sequence[str] | None = None,
        map_: Sequence[str] | None = None,
        encoding: str | None = None,
        confirmed: bool | None = None,
        file_name: str | None = None,
    ) -> models.ImportAnswer:
        """The body is the file. It is stored whole and its columns are understood before the answer; the rows
        follow.
        """
        return self._send(
            Call(
                "POST",
                "/v1/contacts/imports",
                models.ImportAnswer.read,
                query={
                    "listKey": list_key,
                    "tag": tag,
                    "map": map_,
                    "encoding": encoding,
                    "confirmed": confirmed,
                    "fileName": file_name,
                },
                body=content,
                content_type=content_type,
            )
        )

    def preview(
        self,
        content: bytes,
        *,
        content_type: str = "text/csv",
        list_key: str | None = None,
        tag: Sequence[str] | None = None,
        map_: Sequence[str] | None = None,
        encoding: str | None = None,
        confirmed: bool | None = None,
        file_name: str | None = None,
    ) -> models.ImportPreviewAnswer:
        """How the first rows would be read. Nothing is stored."""
        return self._send(
            Call(
                "POST",
                "/v1/contacts/imports/preview",
                models.ImportPreviewAnswer.read,
                query={
                    "listKey": list_key,
                    "tag": tag,
                    "map": map_,
                    "encoding": encoding,
                    "confirmed": confirmed,
                    "fileName": file_name,
                },
                body=content,
                content_type=content_type,
            )
        )

    def get(self, import_id: str) -> models.ImportAnswer:
        """How far it has come."""
        return self._send(Call("GET", path("/v1/contacts/imports/{}", import_id), models.ImportAnswer.read))

    def report(self, import_id: str) -> bytes:
        """A line of CSV for every row that is done: line, email, outcome, why."""
        return self._send(Call("GET", path("/v1/contacts/imports/{}/report", import_id), as_bytes))


class Journal:
    def __init__(self, send: Send) -> None:
        self._send = send

    def get(
        self, *, limit: int | None = None, cursor: str | None = None, subject: str | None = None
    ) -> models.JournalAnswer:
        """The latest first."""
        return self._send(
            Call(
                "GET",
                "/v1/journal",
                models.JournalAnswer.read,
                query={"limit": limit, "cursor": cursor, "subject": subject},
            )
        )

    def get_all(self, *, limit: int | None = None, subject: str | None = None) -> Iterator[models.DeedAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.get(limit=limit, cursor=cursor, subject=subject)
            yield from page.deeds
            cursor = page.next_cursor
            if cursor is None:
                return


class Lists:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> models.ListList:
        """By name. `general`, which stands for all bulk mail, is always there and not among them."""
        return self._send(Call("GET", "/v1/lists", models.ListList.read))

    def create(self, request: models.ListRequest) -> models.ListAnswer:
        """A list that is not public is shown only to those who are on it. One that requires confirmation asks
        everyone who is put on it by mail, and sends them nothing else before they have agreed.
        """
        return self._send(Call("POST", "/v1/lists", models.ListAnswer.read, body=request.as_json()))

    def change(self, list_key: str, request: models.ListChange) -> models.ListAnswer:
        """What is not given stays as it is, and so do its key and everyone who is on it: another way of joining
        holds for those who come from now on. An empty description takes it away.
        """
        return self._send(Call("PATCH", path("/v1/lists/{}", list_key), models.ListAnswer.read, body=request.as_json()))

    def subscribe(self, list_key: str, request: models.JoiningRequest) -> models.ContactAnswer:
        """Puts a person on the list, also one who left it: ask them first. It opens no other door: whoever left
        all bulk mail, bounced or complained gets nothing all the same, and `suppressions` says so. Where the
        list requires it, the person gets a mail to confirm, and `isPending` says that they have not yet.
        """
        return self._send(
            Call("POST", path("/v1/lists/{}/subscribe", list_key), models.ContactAnswer.read, body=request.as_json())
        )

    def unsubscribe(self, list_key: str, request: models.MembershipRequest) -> models.ContactAnswer:
        """The person leaves the list; `general` leaves all bulk mail. Doing it again changes nothing."""
        return self._send(
            Call("POST", path("/v1/lists/{}/unsubscribe", list_key), models.ContactAnswer.read, body=request.as_json())
        )


class Mailouts:
    def __init__(self, send: Send) -> None:
        self._send = send

    def send(self, request: models.MailoutRequest) -> models.MailoutAnswer:
        """Answered as soon as the run is on disk and the page was looked at; a worker does the rest. What speaks
        against the mailout is answered by its code, and stands in Notion's table of errors as well.
        """
        return self._send(Call("POST", "/send-mailout", models.MailoutAnswer.read, body=request.as_json()))

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.MailoutList:
        """The latest first."""
        return self._send(
            Call("GET", "/v1/mailouts", models.MailoutList.read, query={"limit": limit, "cursor": cursor})
        )

    def get(self, mailout_id: str) -> models.MailoutAnswer:
        """How far it has come, or why it did not begin."""
        return self._send(Call("GET", path("/v1/mailouts/{}", mailout_id), models.MailoutAnswer.read))

    def report_of(self, mailout_id: str) -> bytes:
        """A line of CSV for every recipient: email, status, error_message, message_id, sent_at."""
        return self._send(Call("GET", path("/v1/mailouts/{}/report.csv", mailout_id), as_bytes))

    def list_all(self, *, limit: int | None = None) -> Iterator[models.MailoutAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor)
            yield from page.mailouts
            cursor = page.next_cursor
            if cursor is None:
                return


class Notifications:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, status: models.Fanout | None = None
    ) -> models.NotificationList:
        """The newest first, each with the reason of its wait. Where no queue is configured, there are none."""
        return self._send(
            Call(
                "GET",
                "/v1/notifications",
                models.NotificationList.read,
                query={"limit": limit, "cursor": cursor, "status": status},
            )
        )

    def emit(self, request: models.EventRequest) -> models.EmittedAnswer:
        """Everyone who is subscribed to the subject gets a notification. The same again within the window of its
        kind changes nothing, and says so.
        """
        return self._send(Call("POST", "/v1/notifications/events", models.EmittedAnswer.read, body=request.as_json()))

    def get(self, notification_id: str) -> models.NotificationAnswer:
        """Where it stands, why it waits, and the message that it became."""
        return self._send(Call("GET", path("/v1/notifications/{}", notification_id), models.NotificationAnswer.read))

    def requeue(self, notification_id: str) -> models.NotificationAnswer:
        """One that failed, was skipped or expired begins anew. What was sent stays sent."""
        return self._send(
            Call("POST", path("/v1/notifications/{}/requeue", notification_id), models.NotificationAnswer.read)
        )

    def list_all(
        self, *, limit: int | None = None, status: models.Fanout | None = None
    ) -> Iterator[models.NotificationAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor, status=status)
            yield from page.notifications
            cursor = page.next_cursor
            if cursor is None:
                return


class Progress:
    def __init__(self, send: Send) -> None:
        self._send = send

    def poll_progress(self) -> models.ProgressAnswer:
        """Straight from the queue: the reason and its end are those that the workers go by."""
        return self._send(Call("GET", "/mail/progress/poll/", models.ProgressAnswer.read))


class Providers:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> models.ProviderList:
        """In the order of the route."""
        return self._send(Call("GET", "/v1/providers", models.ProviderList.read))


class Segments:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> models.SegmentList:
        """By name."""
        return self._send(Call("GET", "/v1/segments", models.SegmentList.read))

    def create(self, request: models.SegmentRequest) -> models.SegmentAnswer:
        """A segment is asked anew each time: whoever answers to it now is in it now."""
        return self._send(Call("POST", "/v1/segments", models.SegmentAnswer.read, body=request.as_json()))

    def count(self, request: models.FilterRequest) -> Any:
        """How many people answer to a filter that is not saved, and the filter in a sentence."""
        return self._send(Call("POST", "/v1/segments/count", as_is, body=request.as_json()))

    def forget(self, segment_key: str) -> None:
        """The people stay."""
        self._send(Call("DELETE", path("/v1/segments/{}", segment_key), nothing))

    def get(self, segment_key: str) -> models.SegmentCount:
        """With the number of people who are in it now, whether they may be written to or not."""
        return self._send(Call("GET", path("/v1/segments/{}", segment_key), models.SegmentCount.read))

    def change(self, segment_key: str, request: models.SegmentChange) -> models.SegmentAnswer:
        """Campaigns that were started keep the question that they were started with."""
        return self._send(
            Call("PATCH", path("/v1/segments/{}", segment_key), models.SegmentAnswer.read, body=request.as_json())
        )

    def members(self, segment_key: str, *, limit: int | None = None, after: str | None = None) -> models.ContactList:
        """In the order of addresses; `nextCursor` is the `after` of the next page."""
        return self._send(
            Call(
                "GET",
                path("/v1/segments/{}/contacts", segment_key),
                models.ContactList.read,
                query={"limit": limit, "after": after},
            )
        )


class Slices:
    def __init__(self, send: Send) -> None:
        self._send = send

    def put_slice(self, request: models.SliceRequest) -> models.SliceAnswer:
        """In its place: what is there is changed, what is not is added."""
        return self._send(Call("PUT", "/v1/slices", models.SliceAnswer.read, body=request.as_json()))

    def take_in(self, content: bytes, *, content_type: str = "text/csv") -> models.SlicesTaken:
        """A CSV whose columns are the fields of a slice. All of it is taken, or nothing, with the line of what
        is wrong.
        """
        return self._send(
            Call("POST", "/v1/slices/import", models.SlicesTaken.read, body=content, content_type=content_type)
        )

    def remove_slice(self, slice_id: str) -> None:
        """Runs that have begun keep what they were begun with."""
        self._send(Call("DELETE", path("/v1/slices/{}", slice_id), nothing))

    def show_slice(self, slice_id: str) -> models.SliceAnswer:
        return self._send(Call("GET", path("/v1/slices/{}", slice_id), models.SliceAnswer.read))

    def change_slice(self, slice_id: str, request: models.SliceRequest) -> models.SliceAnswer:
        """Replaces the whole of it, also in another place, unless that is taken."""
        return self._send(Call("PUT", path("/v1/slices/{}", slice_id), models.SliceAnswer.read, body=request.as_json()))


class Suppressions:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.SuppressionList:
        """The latest first."""
        return self._send(
            Call("GET", "/v1/suppressions", models.SuppressionList.read, query={"limit": limit, "cursor": cursor})
        )

    def add(self, request: models.SuppressRequest) -> models.SuppressionAnswer:
        """Nothing is sent to this address any more, not even what already waits. Adding it again keeps the first
        reason.

        A `listKey` narrows that: `general` stops all bulk mail, a list's key the mail of that list.
        """
        return self._send(Call("POST", "/v1/suppressions", models.SuppressionAnswer.read, body=request.as_json()))

    def remove(self, email: str, *, list_key: str | None = None) -> None:
        """The address may be written to again: altogether, or by what its `listKey` names."""
        self._send(Call("DELETE", path("/v1/suppressions/{}", email), nothing, query={"listKey": list_key}))

    def list_all(self, *, limit: int | None = None) -> Iterator[models.SuppressionAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=limit, cursor=cursor)
            yield from page.suppressions
            cursor = page.next_cursor
            if cursor is None:
                return


class Templates:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, *, limit: int | None = None, after: str | None = None) -> models.TemplateList:
        """In the order of their ids, each with its newest versions."""
        return self._send(
            Call("GET", "/v1/templates", models.TemplateList.read, query={"limit": limit, "after": after})
        )

    def get(self, template_id: str, *, locale: str | None = None, version: int | None = None) -> models.TemplateAnswer:
        """The newest version for everyone, or the one that is asked for."""
        return self._send(
            Call(
                "GET",
                path("/v1/templates/{}", template_id),
                models.TemplateAnswer.read,
                query={"locale": locale, "version": version},
            )
        )

    def write(self, template_id: str, request: models.TemplateRequest) -> models.TemplateAnswer:
        """A new version. Old ones stay, and so do the mails that were asked for with them."""
        return self._send(
            Call("PUT", path("/v1/templates/{}", template_id), models.TemplateAnswer.read, body=request.as_json())
        )

    def diff(self, template_id: str, *, before: int | None = None, after: int | None = None) -> models.DifferenceAnswer:
        """What changed from one version to another, as its author wrote it."""
        return self._send(
            Call(
                "GET",
                path("/v1/templates/{}/diff", template_id),
                models.DifferenceAnswer.read,
                query={"before": before, "after": after},
            )
        )

    def check(
        self, template_id: str, *, locale: str | None = None, version: int | None = None, bulk: bool | None = None
    ) -> models.PreflightAnswer:
        """What readers and mailbox providers would mind. Nothing is fetched."""
        return self._send(
            Call(
                "GET",
                path("/v1/templates/{}/preflight", template_id),
                models.PreflightAnswer.read,
                query={"locale": locale, "version": version, "bulk": bulk},
            )
        )

    def preview(self, template_id: str, request: models.PreviewRequest) -> models.PreviewAnswer:
        """What a reader with these values would get. Declared samples stand in for what is not given."""
        return self._send(
            Call(
                "POST", path("/v1/templates/{}/preview", template_id), models.PreviewAnswer.read, body=request.as_json()
            )
        )

    def versions(self, template_id: str) -> models.VersionList:
        """All versions of all locales, the latest first."""
        return self._send(Call("GET", path("/v1/templates/{}/versions", template_id), models.VersionList.read))


class Webhooks:
    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> models.WebhookList:
        """The oldest first."""
        return self._send(Call("GET", "/v1/webhooks", models.WebhookList.read))

    def create(self, request: models.WebhookRequest) -> models.WebhookSecretAnswer:
        """It is told what happens from now on. Its secret is in this answer and in no other."""
        return self._send(Call("POST", "/v1/webhooks", models.WebhookSecretAnswer.read, body=request.as_json()))

    def show_delivery(self, delivery_id: str) -> models.DeliveryAnswer:
        """What was told, and what came of each attempt."""
        return self._send(Call("GET", path("/v1/webhooks/deliveries/{}", delivery_id), models.DeliveryAnswer.read))

    def redeliver(self, delivery_id: str) -> models.DeliveryAnswer:
        """Once more under the same id, with all attempts again."""
        return self._send(
            Call("POST", path("/v1/webhooks/deliveries/{}/redeliver", delivery_id), models.DeliveryAnswer.read)
        )

    def remove(self, webhook_id: str) -> None:
        """With everything that was told to it, and everything that was to be told."""
        self._send(Call("DELETE", path("/v1/webhooks/{}", webhook_id), nothing))

    def get(self, webhook_id: str) -> models.WebhookAnswer:
        """How it stands with it."""
        return self._send(Call("GET", path("/v1/webhooks/{}", webhook_id), models.WebhookAnswer.read))

    def edit(self, webhook_id: str, request: models.WebhookRequest) -> models.WebhookAnswer:
        """Replaces what was written down. One that was paused is tried again, beginning with what waited for it."""
        return self._send(
            Call("PUT", path("/v1/webhooks/{}", webhook_id), models.WebhookAnswer.read, body=request.as_json())
        )

    def list_deliveries(
        self,
        webhook_id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | str | None = None,
    ) -> models.DeliveryList:
        """The latest first, each with what came of its attempts. They are kept for 30 days."""
        return self._send(
            Call(
                "GET",
                path("/v1/webhooks/{}/deliveries", webhook_id),
                models.DeliveryList.read,
                query={"limit": limit, "cursor": cursor, "status": status},
            )
        )

    def rotate_secret(self, webhook_id: str) -> models.WebhookSecretAnswer:
        """A new secret, shown once. The one before signs beside it for a day."""
        return self._send(Call("POST", path("/v1/webhooks/{}/secret", webhook_id), models.WebhookSecretAnswer.read))

    def test(self, webhook_id: str) -> models.DeliveryAnswer:
        """A delivery of the type `test`, made like any other; its log tells what came of it."""
        return self._send(Call("POST", path("/v1/webhooks/{}/test", webhook_id), models.DeliveryAnswer.read))

    def list_deliveries_all(
        self,
        webhook_id: str,
        *,
        limit: int | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | str | None = None,
    ) -> Iterator[models.DeliveryAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = self.list_deliveries(webhook_id, limit=limit, cursor=cursor, status=status)
            yield from page.deliveries
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncArticleRuns:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list_runs(
        self, *, limit: int | None = None, cursor: str | None = None, article_key: str | None = None
    ) -> models.RunList:
        """The latest first."""
        return await self._send(
            Call(
                "GET",
                "/v1/article-runs",
                models.RunList.read,
                query={"limit": limit, "cursor": cursor, "article_key": article_key},
            )
        )

    async def show_run(self, run_id: str) -> models.RunStory:
        """Where its messages stand, and how many readers each variant has."""
        return await self._send(Call("GET", path("/v1/article-runs/{}", run_id), models.RunStory.read))

    async def list_runs_all(
        self, *, limit: int | None = None, article_key: str | None = None
    ) -> AsyncIterator[models.RunAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list_runs(limit=limit, cursor=cursor, article_key=article_key)
            for item in page.runs:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncArticles:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self) -> models.ArticleList:
        """By key."""
        return await self._send(Call("GET", "/v1/articles", models.ArticleList.read))

    async def send(self, request: models.ArticleSendRequest) -> models.SendingAnswer:
        """Answered as soon as the run is on disk: a worker then writes to everyone. The same batch again gets
        200 and the run as it is; nothing is sent twice.
        """
        return await self._send(Call("POST", "/v1/articles/send", models.SendingAnswer.read, body=request.as_json()))

    async def show_article(self, article_key: str) -> models.SliceList:
        """All slices, whether they are published or not."""
        return await self._send(Call("GET", path("/v1/articles/{}", article_key), models.SliceList.read))

    async def coverage(self, article_key: str, request: models.CoverageRequest) -> models.CoverageAnswer:
        """How many readers would get which variant now, and which slices nobody would get."""
        return await self._send(
            Call(
                "POST",
                path("/v1/articles/{}/coverage", article_key),
                models.CoverageAnswer.read,
                body=request.as_json(),
            )
        )

    async def preview(self, article_key: str, request: models.ArticlePreviewRequest) -> models.ArticlePreviewAnswer:
        """As this reader would get it now, with the reason for each slice that is in it or is not."""
        return await self._send(
            Call(
                "POST",
                path("/v1/articles/{}/preview", article_key),
                models.ArticlePreviewAnswer.read,
                body=request.as_json(),
            )
        )

    async def export(self, article_key: str) -> bytes:
        """Taken in again, it changes nothing."""
        return await self._send(Call("GET", path("/v1/articles/{}/slices.csv", article_key), as_bytes))


class AsyncCampaigns:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.CampaignList:
        """The latest first."""
        return await self._send(
            Call("GET", "/v1/campaigns", models.CampaignList.read, query={"limit": limit, "cursor": cursor})
        )

    async def create(self, request: models.CampaignRequest) -> models.CampaignAnswer:
        """A draft. Whether it can start is asked when it starts, or by its preflight."""
        return await self._send(Call("POST", "/v1/campaigns", models.CampaignAnswer.read, body=request.as_json()))

    async def get(self, campaign_id: str) -> models.CampaignAnswer:
        """What was written down, how far it is, and what holds it."""
        return await self._send(Call("GET", path("/v1/campaigns/{}", campaign_id), models.CampaignAnswer.read))

    async def edit(self, campaign_id: str, request: models.CampaignRequest) -> models.CampaignAnswer:
        """Replaces the whole of a draft. What has started is fixed, but for its limits."""
        return await self._send(
            Call("PUT", path("/v1/campaigns/{}", campaign_id), models.CampaignAnswer.read, body=request.as_json())
        )

    async def accept_failures(self, campaign_id: str) -> models.CampaignAnswer:
        """The campaign counts as sent, without those whom it did not reach."""
        return await self._send(
            Call("POST", path("/v1/campaigns/{}/accept-failures", campaign_id), models.CampaignAnswer.read)
        )

    async def show_archived(self, campaign_id: str) -> models.ArchiveAnswer:
        """Whether everyone may read the campaign, and where."""
        return await self._send(Call("GET", path("/v1/campaigns/{}/archive", campaign_id), models.ArchiveAnswer.read))

    async def set_archived(self, campaign_id: str, request: models.ArchiveRequest) -> models.ArchiveAnswer:
        """Opens a campaign that has started to everyone, without anything of its readers, or closes it again."""
        return await self._send(
            Call(
                "PUT", path("/v1/campaigns/{}/archive", campaign_id), models.ArchiveAnswer.read, body=request.as_json()
            )
        )

    async def cancel(self, campaign_id: str) -> models.CampaignAnswer:
        """What was not sent is not sent any more; what was, stays in the report."""
        return await self._send(Call("POST", path("/v1/campaigns/{}/cancel", campaign_id), models.CampaignAnswer.read))

    async def duplicate(self, campaign_id: str, request: models.DuplicateRequest) -> models.CampaignAnswer:
        """A draft with the same content and audience, to be changed and started by itself."""
        return await self._send(
            Call(
                "POST",
                path("/v1/campaigns/{}/duplicate", campaign_id),
                models.CampaignAnswer.read,
                body=request.as_json(),
            )
        )

    async def explain(self, campaign_id: str) -> models.CampaignExplanationAnswer:
        """Why it is not sent yet: which rule holds it, until when, what would change that, what it then does,
        and what you can do now.
        """
        return await self._send(
            Call("GET", path("/v1/campaigns/{}/explain", campaign_id), models.CampaignExplanationAnswer.read)
        )

    async def extend(self, campaign_id: str, request: models.ExtendRequest) -> models.ExtendedAnswer:
        """Also for whoever has joined since, and for another segment where one is named; nobody gets it twice."""
        return await self._send(
            Call(
                "POST", path("/v1/campaigns/{}/extend", campaign_id), models.ExtendedAnswer.read, body=request.as_json()
            )
        )

    async def failures(
        self, campaign_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> models.FailureList:
        """Whom it did not reach, and why, in the order of addresses. Whoever left before their turn is not among
        them.
        """
        return await self._send(
            Call(
                "GET",
                path("/v1/campaigns/{}/failures", campaign_id),
                models.FailureList.read,
                query={"limit": limit, "cursor": cursor},
            )
        )

    async def edit_limits(self, campaign_id: str, request: models.CampaignLimits) -> models.CampaignAnswer:
        """Replaces the campaign's own limits, within one batch also while it is being sent."""
        return await self._send(
            Call(
                "PUT", path("/v1/campaigns/{}/limits", campaign_id), models.CampaignAnswer.read, body=request.as_json()
            )
        )

    async def pause(self, campaign_id: str) -> models.CampaignAnswer:
        """Nothing more leaves after the batch that is under way. It keeps its place."""
        return await self._send(Call("POST", path("/v1/campaigns/{}/pause", campaign_id), models.CampaignAnswer.read))

    async def preflight(self, campaign_id: str) -> models.CampaignPreflightAnswer:
        """What starting would say, without starting: all that keeps it from that, and what readers would mind."""
        return await self._send(
            Call("POST", path("/v1/campaigns/{}/preflight", campaign_id), models.CampaignPreflightAnswer.read)
        )

    async def report_csv(self, campaign_id: str) -> bytes:
        """What became of every recipient's mail, in the order of addresses."""
        return await self._send(Call("GET", path("/v1/campaigns/{}/report.csv", campaign_id), as_bytes))

    async def resume(self, campaign_id: str) -> models.CampaignAnswer:
        """Goes on where it was."""
        return await self._send(Call("POST", path("/v1/campaigns/{}/resume", campaign_id), models.CampaignAnswer.read))

    async def retry_failed(self, campaign_id: str) -> models.RetriedAnswer:
        """Everyone whose mail failed gets all attempts again."""
        return await self._send(
            Call("POST", path("/v1/campaigns/{}/retry-failed", campaign_id), models.RetriedAnswer.read)
        )

    async def start(self, campaign_id: str) -> models.StartedAnswer:
        """Freezes the content and takes a place in line; a worker then writes to everyone in the audience. It is
        refused with every reason at once.
        """
        return await self._send(Call("POST", path("/v1/campaigns/{}/start", campaign_id), models.StartedAnswer.read))

    async def test(self, campaign_id: str, request: models.CampaignTestRequest) -> models.CampaignTestAnswer:
        """The campaign's mail to a few addresses, one for each version and address, marked as a test and not
        counted.
        """
        return await self._send(
            Call(
                "POST",
                path("/v1/campaigns/{}/test", campaign_id),
                models.CampaignTestAnswer.read,
                body=request.as_json(),
            )
        )

    async def choose_winner(self, campaign_id: str, request: models.WinnerRequest) -> models.CampaignAnswer:
        """Decides an experiment by your own word: the version goes to everyone who has none yet."""
        return await self._send(
            Call(
                "POST", path("/v1/campaigns/{}/winner", campaign_id), models.CampaignAnswer.read, body=request.as_json()
            )
        )

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[models.CampaignLine]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor)
            for item in page.campaigns:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def failures_all(self, campaign_id: str, *, limit: int | None = None) -> AsyncIterator[models.FailureAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.failures(campaign_id, limit=limit, cursor=cursor)
            for item in page.failures:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncContacts:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, status: models.ContactStatus | None = None
    ) -> models.ContactList:
        """The latest first."""
        return await self._send(
            Call(
                "GET",
                "/v1/contacts",
                models.ContactList.read,
                query={"limit": limit, "cursor": cursor, "status": status},
            )
        )

    async def export(
        self,
        *,
        format_: Literal["csv", "jsonl"] | str | None = None,
        list_key: str | None = None,
        segment_key: str | None = None,
    ) -> bytes:
        """People with lists, tags and attributes, in the order of addresses. An import takes the CSV back as it
        is.
        """
        return await self._send(
            Call(
                "GET",
                "/v1/contacts/export",
                as_bytes,
                query={"format": format_, "listKey": list_key, "segmentKey": segment_key},
            )
        )

    async def erase(self, email: str) -> None:
        """Erases all that tells who the person is, also in mails that were sent. The address is kept only as one
        that gets no bulk mail, so that no import writes to them again.
        """
        await self._send(Call("DELETE", path("/v1/contacts/{}", email), nothing))

    async def get(self, email: str) -> models.ContactAnswer:
        """A person's status, lists, suppressions and latest mails, by any spelling of the address."""
        return await self._send(Call("GET", path("/v1/contacts/{}", email), models.ContactAnswer.read))

    async def put(self, email: str, request: models.ContactRequest) -> models.ContactAnswer:
        """Tells of a person, who becomes a contact if not known yet. What is not named stays; an attribute that
        is null is taken away. Whether they may be written to is not changed by this.
        """
        return await self._send(
            Call("PUT", path("/v1/contacts/{}", email), models.ContactAnswer.read, body=request.as_json())
        )

    async def activate(self, email: str) -> models.ContactAnswer:
        """Writes to a person again who bounced, complained or left all bulk mail. Lists that they left stay
        left.
        """
        return await self._send(Call("POST", path("/v1/contacts/{}/activate", email), models.ContactAnswer.read))

    async def data(self, email: str) -> Any:
        """Everything that is known of a person, mails and all, to be handed to them."""
        return await self._send(Call("GET", path("/v1/contacts/{}/data", email), as_is))

    async def history(self, email: str) -> Any:
        """What happened with a person, the latest first: lists, status, and every step of their latest mails."""
        return await self._send(Call("GET", path("/v1/contacts/{}/history", email), as_is))

    async def list_all(
        self, *, limit: int | None = None, status: models.ContactStatus | None = None
    ) -> AsyncIterator[models.ContactLine]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor, status=status)
            for item in page.contacts:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncDeadLetters:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.DeadLetterList:
        """Messages that wait for an operator, the latest first. `POST /v1/email/{outboxId}/retry` tries one
        again.
        """
        return await self._send(
            Call("GET", "/v1/dead-letters", models.DeadLetterList.read, query={"limit": limit, "cursor": cursor})
        )

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[models.DeadLetterAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor)
            for item in page.dead_letters:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncEmail:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: models.Status | None = None,
        to: str | None = None,
        source: models.Source | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> models.MessageList:
        """Messages, the latest first. There is more as long as there is a `nextCursor`, also after a page that
        is short.
        """
        return await self._send(
            Call(
                "GET",
                "/v1/email",
                models.MessageList.read,
                query={
                    "limit": limit,
                    "cursor": cursor,
                    "status": status,
                    "to": to,
                    "source": source,
                    "since": since,
                    "until": until,
                },
            )
        )

    async def send_batch(
        self, request: models.BatchRequest, *, idempotency_key: str | None = None
    ) -> models.BatchAnswer:
        """Accepts up to 1,000 messages in one commit. A bad item is answered with its error and stops no other.

        With an idempotency key, each item has a key of its own, made of the key and the item's index.
        """
        return await self._send(
            Call(
                "POST",
                "/v1/email/batch",
                models.BatchAnswer.read,
                body=request.as_json(),
                takes_key=True,
                idempotency_key=idempotency_key,
            )
        )

    async def send(self, request: models.SendRequest, *, idempotency_key: str | None = None) -> models.AcceptedAnswer:
        """Accepts one message: 202 once it is on disk, 200 when the idempotency key was used before with this
        body.
        """
        return await self._send(
            Call(
                "POST",
                "/v1/email/send",
                models.AcceptedAnswer.read,
                body=request.as_json(),
                takes_key=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get(self, outbox_id: str) -> models.MessageAnswer:
        """One message with its whole story."""
        return await self._send(Call("GET", path("/v1/email/{}", outbox_id), models.MessageAnswer.read))

    async def cancel(self, outbox_id: str) -> models.StatusAnswer:
        """Holds back a message that no provider has been called for yet."""
        return await self._send(Call("POST", path("/v1/email/{}/cancel", outbox_id), models.StatusAnswer.read))

    async def explain(self, outbox_id: str) -> models.ExplanationAnswer:
        """Why it is not sent yet: which rule holds it, until when, what would change that, and what you can do
        now.
        """
        return await self._send(Call("GET", path("/v1/email/{}/explain", outbox_id), models.ExplanationAnswer.read))

    async def resolve(self, outbox_id: str, request: models.ResolveRequest) -> models.StatusAnswer:
        """Ends a doubt: the mail was `sent`, is to `resend`, or nobody will know and it is to `close`."""
        return await self._send(
            Call("POST", path("/v1/email/{}/resolve", outbox_id), models.StatusAnswer.read, body=request.as_json())
        )

    async def retry(self, outbox_id: str) -> models.StatusAnswer:
        """Gives a failed message all its attempts again."""
        return await self._send(Call("POST", path("/v1/email/{}/retry", outbox_id), models.StatusAnswer.read))

    async def list_all(
        self,
        *,
        limit: int | None = None,
        status: models.Status | None = None,
        to: str | None = None,
        source: models.Source | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[models.MessageLine]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(
                limit=limit, cursor=cursor, status=status, to=to, source=source, since=since, until=until
            )
            for item in page.messages:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncForecast:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def get(self, *, days: int | None = None) -> models.ForecastAnswer:
        """Your campaigns in line, on the rules and counters of this moment."""
        return await self._send(Call("GET", "/v1/forecast", models.ForecastAnswer.read, query={"days": days}))


class AsyncHealth:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def alive(self) -> models.Alive:
        """The process is alive. Nothing else is asked, so that a database's outage restarts nobody."""
        return await self._send(Call("GET", "/healthz", models.Alive.read))

    async def metrics(self) -> bytes:
        """Prometheus' text format, or OpenMetrics for whoever asks for it: only that one shows examples of
        messages.
        """
        return await self._send(Call("GET", "/metrics", as_bytes))

    async def ready(self) -> models.Readiness:
        """The database answers and has the newest form, and the worker in this process, if there is one, runs.

        Providers are told beside that: while one is left alone, mail is accepted and waits, or goes through
        another.
        """
        return await self._send(Call("GET", "/readyz", models.Readiness.read))


class AsyncImages:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.ImageList:
        """The latest first."""
        return await self._send(
            Call("GET", "/v1/images", models.ImageList.read, query={"limit": limit, "cursor": cursor})
        )

    async def upload(self, content: bytes, *, content_type: str = "image/gif", name: str) -> models.ImageAnswer:
        """PNG, JPEG, GIF or WebP, known by its content. Templates that are written from now on show it under its
        name.
        """
        return await self._send(
            Call(
                "POST",
                "/v1/images",
                models.ImageAnswer.read,
                query={"name": name},
                body=content,
                content_type=content_type,
            )
        )

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[models.ImageAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor)
            for item in page.images:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncImports:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self) -> models.ImportList:
        """The latest first."""
        return await self._send(Call("GET", "/v1/contacts/imports", models.ImportList.read))

    async def begin(
        self,
        content: bytes,
        *,
        content_type: str = "text/csv",
        list_key: str | None = None,
        tag: Sequence[str] | None = None,
        map_: Sequence[str] | None = None,
        encoding: str | None = None,
        confirmed: bool | None = None,
        file_name: str | None = None,
    ) -> models.ImportAnswer:
        """The body is the file. It is stored whole and its columns are understood before the answer; the rows
        follow.
        """
        return await self._send(
            Call(
                "POST",
                "/v1/contacts/imports",
                models.ImportAnswer.read,
                query={
                    "listKey": list_key,
                    "tag": tag,
                    "map": map_,
                    "encoding": encoding,
                    "confirmed": confirmed,
                    "fileName": file_name,
                },
                body=content,
                content_type=content_type,
            )
        )

    async def preview(
        self,
        content: bytes,
        *,
        content_type: str = "text/csv",
        list_key: str | None = None,
        tag: Sequence[str] | None = None,
        map_: Sequence[str] | None = None,
        encoding: str | None = None,
        confirmed: bool | None = None,
        file_name: str | None = None,
    ) -> models.ImportPreviewAnswer:
        """How the first rows would be read. Nothing is stored."""
        return await self._send(
            Call(
                "POST",
                "/v1/contacts/imports/preview",
                models.ImportPreviewAnswer.read,
                query={
                    "listKey": list_key,
                    "tag": tag,
                    "map": map_,
                    "encoding": encoding,
                    "confirmed": confirmed,
                    "fileName": file_name,
                },
                body=content,
                content_type=content_type,
            )
        )

    async def get(self, import_id: str) -> models.ImportAnswer:
        """How far it has come."""
        return await self._send(Call("GET", path("/v1/contacts/imports/{}", import_id), models.ImportAnswer.read))

    async def report(self, import_id: str) -> bytes:
        """A line of CSV for every row that is done: line, email, outcome, why."""
        return await self._send(Call("GET", path("/v1/contacts/imports/{}/report", import_id), as_bytes))


class AsyncJournal:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def get(
        self, *, limit: int | None = None, cursor: str | None = None, subject: str | None = None
    ) -> models.JournalAnswer:
        """The latest first."""
        return await self._send(
            Call(
                "GET",
                "/v1/journal",
                models.JournalAnswer.read,
                query={"limit": limit, "cursor": cursor, "subject": subject},
            )
        )

    async def get_all(
        self, *, limit: int | None = None, subject: str | None = None
    ) -> AsyncIterator[models.DeedAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.get(limit=limit, cursor=cursor, subject=subject)
            for item in page.deeds:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncLists:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self) -> models.ListList:
        """By name. `general`, which stands for all bulk mail, is always there and not among them."""
        return await self._send(Call("GET", "/v1/lists", models.ListList.read))

    async def create(self, request: models.ListRequest) -> models.ListAnswer:
        """A list that is not public is shown only to those who are on it. One that requires confirmation asks
        everyone who is put on it by mail, and sends them nothing else before they have agreed.
        """
        return await self._send(Call("POST", "/v1/lists", models.ListAnswer.read, body=request.as_json()))

    async def change(self, list_key: str, request: models.ListChange) -> models.ListAnswer:
        """What is not given stays as it is, and so do its key and everyone who is on it: another way of joining
        holds for those who come from now on. An empty description takes it away.
        """
        return await self._send(
            Call("PATCH", path("/v1/lists/{}", list_key), models.ListAnswer.read, body=request.as_json())
        )

    async def subscribe(self, list_key: str, request: models.JoiningRequest) -> models.ContactAnswer:
        """Puts a person on the list, also one who left it: ask them first. It opens no other door: whoever left
        all bulk mail, bounced or complained gets nothing all the same, and `suppressions` says so. Where the
        list requires it, the person gets a mail to confirm, and `isPending` says that they have not yet.
        """
        return await self._send(
            Call("POST", path("/v1/lists/{}/subscribe", list_key), models.ContactAnswer.read, body=request.as_json())
        )

    async def unsubscribe(self, list_key: str, request: models.MembershipRequest) -> models.ContactAnswer:
        """The person leaves the list; `general` leaves all bulk mail. Doing it again changes nothing."""
        return await self._send(
            Call("POST", path("/v1/lists/{}/unsubscribe", list_key), models.ContactAnswer.read, body=request.as_json())
        )


class AsyncMailouts:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def send(self, request: models.MailoutRequest) -> models.MailoutAnswer:
        """Answered as soon as the run is on disk and the page was looked at; a worker does the rest. What speaks
        against the mailout is answered by its code, and stands in Notion's table of errors as well.
        """
        return await self._send(Call("POST", "/send-mailout", models.MailoutAnswer.read, body=request.as_json()))

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.MailoutList:
        """The latest first."""
        return await self._send(
            Call("GET", "/v1/mailouts", models.MailoutList.read, query={"limit": limit, "cursor": cursor})
        )

    async def get(self, mailout_id: str) -> models.MailoutAnswer:
        """How far it has come, or why it did not begin."""
        return await self._send(Call("GET", path("/v1/mailouts/{}", mailout_id), models.MailoutAnswer.read))

    async def report_of(self, mailout_id: str) -> bytes:
        """A line of CSV for every recipient: email, status, error_message, message_id, sent_at."""
        return await self._send(Call("GET", path("/v1/mailouts/{}/report.csv", mailout_id), as_bytes))

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[models.MailoutAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor)
            for item in page.mailouts:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncNotifications:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, status: models.Fanout | None = None
    ) -> models.NotificationList:
        """The newest first, each with the reason of its wait. Where no queue is configured, there are none."""
        return await self._send(
            Call(
                "GET",
                "/v1/notifications",
                models.NotificationList.read,
                query={"limit": limit, "cursor": cursor, "status": status},
            )
        )

    async def emit(self, request: models.EventRequest) -> models.EmittedAnswer:
        """Everyone who is subscribed to the subject gets a notification. The same again within the window of its
        kind changes nothing, and says so.
        """
        return await self._send(
            Call("POST", "/v1/notifications/events", models.EmittedAnswer.read, body=request.as_json())
        )

    async def get(self, notification_id: str) -> models.NotificationAnswer:
        """Where it stands, why it waits, and the message that it became."""
        return await self._send(
            Call("GET", path("/v1/notifications/{}", notification_id), models.NotificationAnswer.read)
        )

    async def requeue(self, notification_id: str) -> models.NotificationAnswer:
        """One that failed, was skipped or expired begins anew. What was sent stays sent."""
        return await self._send(
            Call("POST", path("/v1/notifications/{}/requeue", notification_id), models.NotificationAnswer.read)
        )

    async def list_all(
        self, *, limit: int | None = None, status: models.Fanout | None = None
    ) -> AsyncIterator[models.NotificationAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor, status=status)
            for item in page.notifications:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncProgress:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def poll_progress(self) -> models.ProgressAnswer:
        """Straight from the queue: the reason and its end are those that the workers go by."""
        return await self._send(Call("GET", "/mail/progress/poll/", models.ProgressAnswer.read))


class AsyncProviders:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self) -> models.ProviderList:
        """In the order of the route."""
        return await self._send(Call("GET", "/v1/providers", models.ProviderList.read))


class AsyncSegments:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self) -> models.SegmentList:
        """By name."""
        return await self._send(Call("GET", "/v1/segments", models.SegmentList.read))

    async def create(self, request: models.SegmentRequest) -> models.SegmentAnswer:
        """A segment is asked anew each time: whoever answers to it now is in it now."""
        return await self._send(Call("POST", "/v1/segments", models.SegmentAnswer.read, body=request.as_json()))

    async def count(self, request: models.FilterRequest) -> Any:
        """How many people answer to a filter that is not saved, and the filter in a sentence."""
        return await self._send(Call("POST", "/v1/segments/count", as_is, body=request.as_json()))

    async def forget(self, segment_key: str) -> None:
        """The people stay."""
        await self._send(Call("DELETE", path("/v1/segments/{}", segment_key), nothing))

    async def get(self, segment_key: str) -> models.SegmentCount:
        """With the number of people who are in it now, whether they may be written to or not."""
        return await self._send(Call("GET", path("/v1/segments/{}", segment_key), models.SegmentCount.read))

    async def change(self, segment_key: str, request: models.SegmentChange) -> models.SegmentAnswer:
        """Campaigns that were started keep the question that they were started with."""
        return await self._send(
            Call("PATCH", path("/v1/segments/{}", segment_key), models.SegmentAnswer.read, body=request.as_json())
        )

    async def members(
        self, segment_key: str, *, limit: int | None = None, after: str | None = None
    ) -> models.ContactList:
        """In the order of addresses; `nextCursor` is the `after` of the next page."""
        return await self._send(
            Call(
                "GET",
                path("/v1/segments/{}/contacts", segment_key),
                models.ContactList.read,
                query={"limit": limit, "after": after},
            )
        )


class AsyncSlices:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def put_slice(self, request: models.SliceRequest) -> models.SliceAnswer:
        """In its place: what is there is changed, what is not is added."""
        return await self._send(Call("PUT", "/v1/slices", models.SliceAnswer.read, body=request.as_json()))

    async def take_in(self, content: bytes, *, content_type: str = "text/csv") -> models.SlicesTaken:
        """A CSV whose columns are the fields of a slice. All of it is taken, or nothing, with the line of what
        is wrong.
        """
        return await self._send(
            Call("POST", "/v1/slices/import", models.SlicesTaken.read, body=content, content_type=content_type)
        )

    async def remove_slice(self, slice_id: str) -> None:
        """Runs that have begun keep what they were begun with."""
        await self._send(Call("DELETE", path("/v1/slices/{}", slice_id), nothing))

    async def show_slice(self, slice_id: str) -> models.SliceAnswer:
        return await self._send(Call("GET", path("/v1/slices/{}", slice_id), models.SliceAnswer.read))

    async def change_slice(self, slice_id: str, request: models.SliceRequest) -> models.SliceAnswer:
        """Replaces the whole of it, also in another place, unless that is taken."""
        return await self._send(
            Call("PUT", path("/v1/slices/{}", slice_id), models.SliceAnswer.read, body=request.as_json())
        )


class AsyncSuppressions:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> models.SuppressionList:
        """The latest first."""
        return await self._send(
            Call("GET", "/v1/suppressions", models.SuppressionList.read, query={"limit": limit, "cursor": cursor})
        )

    async def add(self, request: models.SuppressRequest) -> models.SuppressionAnswer:
        """Nothing is sent to this address any more, not even what already waits. Adding it again keeps the first
        reason.

        A `listKey` narrows that: `general` stops all bulk mail, a list's key the mail of that list.
        """
        return await self._send(Call("POST", "/v1/suppressions", models.SuppressionAnswer.read, body=request.as_json()))

    async def remove(self, email: str, *, list_key: str | None = None) -> None:
        """The address may be written to again: altogether, or by what its `listKey` names."""
        await self._send(Call("DELETE", path("/v1/suppressions/{}", email), nothing, query={"listKey": list_key}))

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[models.SuppressionAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list(limit=limit, cursor=cursor)
            for item in page.suppressions:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncTemplates:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self, *, limit: int | None = None, after: str | None = None) -> models.TemplateList:
        """In the order of their ids, each with its newest versions."""
        return await self._send(
            Call("GET", "/v1/templates", models.TemplateList.read, query={"limit": limit, "after": after})
        )

    async def get(
        self, template_id: str, *, locale: str | None = None, version: int | None = None
    ) -> models.TemplateAnswer:
        """The newest version for everyone, or the one that is asked for."""
        return await self._send(
            Call(
                "GET",
                path("/v1/templates/{}", template_id),
                models.TemplateAnswer.read,
                query={"locale": locale, "version": version},
            )
        )

    async def write(self, template_id: str, request: models.TemplateRequest) -> models.TemplateAnswer:
        """A new version. Old ones stay, and so do the mails that were asked for with them."""
        return await self._send(
            Call("PUT", path("/v1/templates/{}", template_id), models.TemplateAnswer.read, body=request.as_json())
        )

    async def diff(
        self, template_id: str, *, before: int | None = None, after: int | None = None
    ) -> models.DifferenceAnswer:
        """What changed from one version to another, as its author wrote it."""
        return await self._send(
            Call(
                "GET",
                path("/v1/templates/{}/diff", template_id),
                models.DifferenceAnswer.read,
                query={"before": before, "after": after},
            )
        )

    async def check(
        self, template_id: str, *, locale: str | None = None, version: int | None = None, bulk: bool | None = None
    ) -> models.PreflightAnswer:
        """What readers and mailbox providers would mind. Nothing is fetched."""
        return await self._send(
            Call(
                "GET",
                path("/v1/templates/{}/preflight", template_id),
                models.PreflightAnswer.read,
                query={"locale": locale, "version": version, "bulk": bulk},
            )
        )

    async def preview(self, template_id: str, request: models.PreviewRequest) -> models.PreviewAnswer:
        """What a reader with these values would get. Declared samples stand in for what is not given."""
        return await self._send(
            Call(
                "POST", path("/v1/templates/{}/preview", template_id), models.PreviewAnswer.read, body=request.as_json()
            )
        )

    async def versions(self, template_id: str) -> models.VersionList:
        """All versions of all locales, the latest first."""
        return await self._send(Call("GET", path("/v1/templates/{}/versions", template_id), models.VersionList.read))


class AsyncWebhooks:
    def __init__(self, send: SendAsync) -> None:
        self._send = send

    async def list(self) -> models.WebhookList:
        """The oldest first."""
        return await self._send(Call("GET", "/v1/webhooks", models.WebhookList.read))

    async def create(self, request: models.WebhookRequest) -> models.WebhookSecretAnswer:
        """It is told what happens from now on. Its secret is in this answer and in no other."""
        return await self._send(Call("POST", "/v1/webhooks", models.WebhookSecretAnswer.read, body=request.as_json()))

    async def show_delivery(self, delivery_id: str) -> models.DeliveryAnswer:
        """What was told, and what came of each attempt."""
        return await self._send(
            Call("GET", path("/v1/webhooks/deliveries/{}", delivery_id), models.DeliveryAnswer.read)
        )

    async def redeliver(self, delivery_id: str) -> models.DeliveryAnswer:
        """Once more under the same id, with all attempts again."""
        return await self._send(
            Call("POST", path("/v1/webhooks/deliveries/{}/redeliver", delivery_id), models.DeliveryAnswer.read)
        )

    async def remove(self, webhook_id: str) -> None:
        """With everything that was told to it, and everything that was to be told."""
        await self._send(Call("DELETE", path("/v1/webhooks/{}", webhook_id), nothing))

    async def get(self, webhook_id: str) -> models.WebhookAnswer:
        """How it stands with it."""
        return await self._send(Call("GET", path("/v1/webhooks/{}", webhook_id), models.WebhookAnswer.read))

    async def edit(self, webhook_id: str, request: models.WebhookRequest) -> models.WebhookAnswer:
        """Replaces what was written down. One that was paused is tried again, beginning with what waited for it."""
        return await self._send(
            Call("PUT", path("/v1/webhooks/{}", webhook_id), models.WebhookAnswer.read, body=request.as_json())
        )

    async def list_deliveries(
        self,
        webhook_id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | str | None = None,
    ) -> models.DeliveryList:
        """The latest first, each with what came of its attempts. They are kept for 30 days."""
        return await self._send(
            Call(
                "GET",
                path("/v1/webhooks/{}/deliveries", webhook_id),
                models.DeliveryList.read,
                query={"limit": limit, "cursor": cursor, "status": status},
            )
        )

    async def rotate_secret(self, webhook_id: str) -> models.WebhookSecretAnswer:
        """A new secret, shown once. The one before signs beside it for a day."""
        return await self._send(
            Call("POST", path("/v1/webhooks/{}/secret", webhook_id), models.WebhookSecretAnswer.read)
        )

    async def test(self, webhook_id: str) -> models.DeliveryAnswer:
        """A delivery of the type `test`, made like any other; its log tells what came of it."""
        return await self._send(Call("POST", path("/v1/webhooks/{}/test", webhook_id), models.DeliveryAnswer.read))

    async def list_deliveries_all(
        self,
        webhook_id: str,
        *,
        limit: int | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | str | None = None,
    ) -> AsyncIterator[models.DeliveryAnswer]:
        """All of them, page by page; `limit` is the size of a page."""
        cursor: str | None = None
        while True:
            page = await self.list_deliveries(webhook_id, limit=limit, cursor=cursor, status=status)
            for item in page.deliveries:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class Operations:
    def __init__(self, send: Send) -> None:
        self.article_runs = ArticleRuns(send)
        self.articles = Articles(send)
        self.campaigns = Campaigns(send)
        self.contacts = Contacts(send)
        self.dead_letters = DeadLetters(send)
        self.email = Email(send)
        self.forecast = Forecast(send)
        self.health = Health(send)
        self.images = Images(send)
        self.imports = Imports(send)
        self.journal = Journal(send)
        self.lists = Lists(send)
        self.mailouts = Mailouts(send)
        self.notifications = Notifications(send)
        self.progress = Progress(send)
        self.providers = Providers(send)
        self.segments = Segments(send)
        self.slices = Slices(send)
        self.suppressions = Suppressions(send)
        self.templates = Templates(send)
        self.webhooks = Webhooks(send)


class AsyncOperations:
    def __init__(self, send: SendAsync) -> None:
        self.article_runs = AsyncArticleRuns(send)
        self.articles = AsyncArticles(send)
        self.campaigns = AsyncCampaigns(send)
        self.contacts = AsyncContacts(send)
        self.dead_letters = AsyncDeadLetters(send)
        self.email = AsyncEmail(send)
        self.forecast = AsyncForecast(send)
        self.health = AsyncHealth(send)
        self.images = AsyncImages(send)
        self.imports = AsyncImports(send)
        self.journal = AsyncJournal(send)
        self.lists = AsyncLists(send)
        self.mailouts = AsyncMailouts(send)
        self.notifications = AsyncNotifications(send)
        self.progress = AsyncProgress(send)
        self.providers = AsyncProviders(send)
        self.segments = AsyncSegments(send)
        self.slices = AsyncSlices(send)
        self.suppressions = AsyncSuppressions(send)
        self.templates = AsyncTemplates(send)
        self.webhooks = AsyncWebhooks(send)
