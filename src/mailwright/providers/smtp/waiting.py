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

    def take(self, *, only_bulk: bool = False) -> SmtpJob | None:
        while queue := self._bulk if only_bulk else self._transactional or self._bulk:
            job = queue.popleft()
            if not job.is_over:  # Skip jobs whose caller has cancelled.
                return job
        return None

    def take_second(self, opening: int) -> SmtpJob | None:
        """Return a message that may begin behind another, if `opening` new connections will not send it sooner.

        While a connection is being opened, this is no transactional message.
        """
        return self.take(only_bulk=opening > 0) if len(self) > opening else None

    def _queue_of(self, job: SmtpJob) -> deque[SmtpJob]:
        return self._bulk if job.message.is_bulk else self._transactional
