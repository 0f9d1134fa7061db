"""What the operator measures about itself, under the names that stand in docs/operations.md."""

from trainwright.operator.metrics import Counter, Gauge, Histogram, exposition


class Measures:
    """Every number of one operator."""

    def __init__(self) -> None:
        self.queue_depth = Gauge("trainwright_queue_depth", "Jobs that wait for a round.")
        self.queue_seconds = Histogram("trainwright_queue_seconds", "How long jobs waited for a round.")
        self.round_seconds = Histogram("trainwright_round_seconds", "How long rounds took.", "kind")
        self.rounds = Counter("trainwright_rounds_total", "Rounds, by how they ended.", "kind", "result")
        self.calls = Counter("trainwright_api_calls_total", "Answers of the API server; code 0: none.", "verb", "code")
        self.jobs = Gauge("trainwright_jobs", "Jobs there are, by their last condition.", "kind", "phase")
        self.start_seconds = Histogram(
            "trainwright_job_start_seconds", "From the creation of a job until all its pods are created.", "kind"
        )
        self.resizes = Counter("trainwright_resizes_total", "Jobs made larger or smaller.", "kind", "direction")
        self.gangs_waiting = Gauge("trainwright_gangs_waiting", "Gangs that gates hold back.")
        self.leader = Gauge("trainwright_leader", "Whether this operator acts (1) or stands by (0).")
        self.plan_seconds = Histogram("trainwright_plan_seconds", "How long planning the sizes of all jobs took.")
        self.review_seconds = Histogram(
            "trainwright_review_seconds", "How long webhooks took to judge an object.", "webhook", "result"
        )
        self.certificate_end = Gauge(
            "trainwright_webhook_certificate_end_seconds", "When the webhooks' certificate ends, in Unix time."
        )

    def called(self, verb: str, code: int) -> None:
        """Count a call of the API."""
        self.calls.add(verb, str(code))

    def text(self) -> str:
        """Return everything as Prometheus reads it."""
        families = (
            self.queue_depth,
            self.queue_seconds,
            self.round_seconds,
            self.rounds,
            self.calls,
            self.jobs,
            self.start_seconds,
            self.resizes,
            self.gangs_waiting,
            self.leader,
            self.plan_seconds,
            self.review_seconds,
            self.certificate_end,
        )
        return exposition(families)
