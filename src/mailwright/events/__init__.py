"""What came back: reports of providers about mails that they took."""
