"""When messages may be sent: pure functions of limits and a time. They decide; others reserve, defer and write."""
