"""The messages that wait for a connection, transactional ones first."""

from collections import deque

from mailwright.providers.smtp.job import SmtpJob


class WaitingJobs:
    def __init__(self) -> None:
        self._bulk: deque[SmtpJob] = deque()
        self._transactional: deque[SmtpJob] = deque()

    def __len__(self) -> int:
        return len(self._transactional) + len(self._bulk)

    @property
    def transactional(self) -> int:
        return len(self._transactional)

    def add(self, job: SmtpJob) -> None:
        self._queue_of(job).append(job)

    def put_first(self, job: SmtpJob) -> None:
        self._queue_of(job).appendleft(job)

    def take(self) -> SmtpJob | None:
        while self:
            job = (self._transactional or self._bulk).popleft()
            if not job.is_over:  # Skip jobs whose caller has cancelled.
                return job
        return None

    def _queue_of(self, job: SmtpJob) -> deque[SmtpJob]:
        return self._bulk if job.message.is_bulk else self._transactional
