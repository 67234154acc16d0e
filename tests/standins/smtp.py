"""An SMTP server for rehearsals: it accepts every message and prints its recipients, or rejects as configured."""

import asyncio

from tests.standins.options import StandInOptions
from tests.standins.smtp_sink import SmtpSink, Step

# The code for an unknown recipient.
REASONS = {550: "5.1.1 there is no such user"}


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    async with SmtpSink(host=host, port=port, delay_seconds=asked.delay_seconds) as sink:
        if asked.fail is not None:
            sink.answer(Step.RCPT, f"{asked.fail} {REASONS.get(asked.fail, 'not now')}", times=asked.times)
        outage = asyncio.create_task(_fail_for_a_while(sink, asked))
        print(f"An SMTP server listens at {sink.host}:{sink.port}. For `mailwright serve`, set:")
        print(
            f"  export MAILWRIGHT_PROVIDER=smtp MAILWRIGHT_SMTP_URL='smtp://{sink.host}:{sink.port}?tls=none&purpose=test'"
        )
        print(
            f"or, beside the stand-in for smtp.bz, SMTPBZ_SMTP_URL='smtp://{sink.host}:{sink.port}?tls=none&purpose=test'",
            flush=True,
        )
        told = 0
        while True:
            await asyncio.sleep(0.1)
            for message in sink.messages[told:]:
                print(f"a message to {', '.join(message.recipients)}, {len(message.content)} bytes", flush=True)
            told = len(sink.messages)
            if outage.done():
                outage.result()


async def _fail_for_a_while(sink: SmtpSink, asked: StandInOptions) -> None:
    if asked.outage == "refuse":
        await sink.refuse_connections()
    elif asked.outage == "hang":
        sink.hang()
    if asked.outage_seconds is not None:
        await asyncio.sleep(asked.outage_seconds)
        await sink.recover()
