"""When mail may go: pure functions over limits and a moment. They decide; others reserve, defer and write."""
