"""Builders of bounce emails and feedback reports with defaults."""

OURS = "0192f0c1-7a3b-7cde-8f01-23456789abcd"
READER = "ann@reader.example"

ORIGINAL = (
    f"Message-ID: <{OURS}@sender.example>\n"
    f"X-Mailwright-Message: {OURS}\n"
    f"From: News <news@sender.example>\nTo: {READER}\nSubject: Hello\n\nThe text of our mail.\n"
)


def a_group(recipient: str = READER, action: str = "failed", status: str = "5.1.1", diagnostic: str = "") -> str:
    lines = [f"Final-Recipient: rfc822; {recipient}"]
    lines += [f"Action: {action}"] if action else []
    lines += [f"Status: {status}"] if status else []
    lines += [f"Diagnostic-Code: smtp; {diagnostic}"] if diagnostic else []
    return "\n".join(lines) + "\n"


def a_report(
    *groups: str,
    content_type: str = 'multipart/report; report-type=delivery-status; boundary="edge"',
    headers: str = "",
    text: str = "Your mail did not arrive.",
    original: str = ORIGINAL,
    original_type: str = "message/rfc822",
) -> bytes:
    fields = "\n".join(("Reporting-MTA: dns; mx.reader.example\n", *(groups or (a_group(),))))
    return (
        f"Return-Path: <>\nMessage-ID: <report-1@mx.reader.example>\nFrom: MAILER-DAEMON@mx.reader.example\n"
        f"To: bounces@sender.example\nSubject: Undelivered\n{headers}Content-Type: {content_type}\n\n"
        f"--edge\nContent-Type: text/plain\n\n{text}\n"
        f"--edge\nContent-Type: message/delivery-status\n\n{fields}\n"
        f"--edge\nContent-Type: {original_type}\n\n{original}\n--edge--\n"
    ).encode()


def a_feedback(fields: str = "Feedback-Type: abuse\nUser-Agent: Loop/1\n", original: str = ORIGINAL) -> bytes:
    return (
        "Message-ID: <feedback-1@isp.example>\nFrom: feedback@isp.example\nSubject: Fw: Hello\n"
        "Content-Type: multipart/report; report-type=feedback-report; boundary=edge\n\n"
        "--edge\nContent-Type: text/plain\n\nSomebody complained.\n"
        f"--edge\nContent-Type: message/feedback-report\n\n{fields}\n"
        f"--edge\nContent-Type: message/rfc822\n\n{original}\n--edge--\n"
    ).encode()


def a_text(
    text: str, *, sender: str = "MAILER-DAEMON@mx.example", subject: str = "failure notice", more: str = ""
) -> bytes:
    return f"From: {sender}\nSubject: {subject}\n{more}\n{text}\n".encode()
