"""User agents of image proxies, link scanners and people, as their vendors publish them or servers log them."""

import pytest

from mailwright.domain.machines import is_machine_agent, is_machine_report, is_machine_request
from tests.tracking import BROWSER

MACHINES = [
    "",
    "Mozilla/5.0",  # Apple Mail Privacy Protection
    "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/42.0.2311.135 "
    "Safari/537.36 Edge/12.246 Mozilla/5.0",
    "YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html",
    "Barracuda Sentinel (EE)",
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
    "TelegramBot (like TwitterBot)",
    "WhatsApp/2.23.20.0",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/120.0.0.0 Safari/537.36",
    "Microsoft Office Existence Discovery",
    "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
    "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
    "Twitterbot/1.0",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 "
    "Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
    "Google-Safety; +http://www.google.com/bot.html",
    "Mozilla/5.0 (compatible; urlscan/1.0; +https://urlscan.io/)",
    "Mozilla/5.0 (compatible; PetalBot; +https://webmaster.petalsearch.com/site/petalbot)",
    "Embedly/0.2; +http://support.embed.ly/",
    "Wget/1.21.3",
    "Java/17.0.2",
    "Apache-HttpClient/4.5.13 (Java/11.0.12)",
    "okhttp/4.9.3",
    "axios/1.6.2",
    "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)",
    "GuzzleHttp/7",
    "libwww-perl/6.67",
    "Scrapy/2.11.0 (+https://scrapy.org)",
    "Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
    "curl/8.5.0",
    "python-requests/2.31.0",
    "Go-http-client/1.1",
]
PEOPLE = [
    BROWSER,
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 "
    "Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Thunderbird/128.1.0",
    "Mozilla/4.0 (compatible; ms-office; MSOffice 16)",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile "
    "Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 "
    "Safari/537.36 Edg/126.0.0.0",
]


@pytest.mark.parametrize("agent", MACHINES)
def test_programs_are_recognised(agent: str) -> None:
    assert is_machine_agent(agent)


@pytest.mark.parametrize("agent", PEOPLE)
def test_email_programs_of_people_are_not_machines(agent: str) -> None:
    assert not is_machine_request({"user-agent": agent}, "203.0.113.9", is_click=False)


@pytest.mark.parametrize(
    "agent",
    [
        "Mozilla/4.0 (compatible; ms-office; MSOffice 16)",
        "Viber/13.3.0.5",
        "GoogleDocs; apps-spreadsheets",
        "PostmanRuntime/7.32.1",
        "reqwest/0.11.4",
        "Vade Secure",
        "FortiGuard-URL",
        "node",
        "Microsoft Outlook 16.0",
    ],
)
def test_link_is_followed_by_browsers_only(agent: str) -> None:
    assert is_machine_request({"user-agent": agent}, None, is_click=True)
    assert is_machine_report(agent, is_click=True)
    assert not is_machine_report(agent, is_click=False)


@pytest.mark.parametrize(
    "agent",
    [
        BROWSER,
        "Opera/9.80 (J2ME/MIDP; Opera Mini/9.80) Presto/2.12",
        "Lynx/2.8.9rel.1 libwww-FM/2.14",
        "w3m/0.5.3",
        "Mozilla/5.0 (Linux; Android 13; CUBOT NOTE 20) AppleWebKit/537.36 Chrome/116.0 Mobile Safari/537.36",
    ],
)
def test_click_in_a_browser_counts_as_a_persons(agent: str) -> None:
    assert not is_machine_request({"user-agent": agent}, None, is_click=True)


@pytest.mark.parametrize("name", ["purpose", "sec-purpose", "x-moz"])
def test_prefetching_browsers_are_machines(name: str) -> None:
    assert is_machine_request({"user-agent": BROWSER, name: "prefetch"}, None, is_click=True)


@pytest.mark.parametrize(
    ("address", "is_machine"),
    [("40.94.31.2", True), ("::ffff:40.94.31.2", True), ("104.47.1.1", True), ("not-an-ip", False)],
)
def test_networks_of_scanners_are_machines(address: str, is_machine: bool) -> None:
    assert is_machine_request({"user-agent": BROWSER}, address, is_click=True) is is_machine


def test_report_without_user_agent_says_nothing() -> None:
    assert not is_machine_report(None, is_click=True)
    assert is_machine_report("YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html", is_click=False)
