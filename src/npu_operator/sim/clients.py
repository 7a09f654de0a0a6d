"""The front of the server: gives each user a line of its own and knows all open watches."""

from npu_operator.sim.call_log import CallLog
from npu_operator.sim.client import Hook, SimClient, no_hook
from npu_operator.sim.faults import Faults
from npu_operator.sim.server.access import MASTERS, User
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.watching import Watch

ADMIN = User("admin", (MASTERS, "system:authenticated"))


class Clients:
    """Makes clients of one server; `log` has the calls of all of them."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.log = CallLog()
        self._watches: dict[Watch, None] = {}

    def client(
        self,
        user: User = ADMIN,
        *,
        faults: Faults | None = None,
        before_write: Hook = no_hook,
        after_write: Hook = no_hook,
    ) -> SimClient:
        """A `Cluster` for one user, without faults unless told otherwise."""
        return SimClient(
            self.server,
            user,
            log=self.log,
            faults=faults or Faults(),
            watches=self._watches,
            before_write=before_write,
            after_write=after_write,
        )

    def break_watches(self) -> None:
        """All watches break off, as when the API server restarts or a load balancer hangs up."""
        for watch in tuple(self._watches):
            watch.break_off()

    def expire_watches(self) -> None:
        """All watches end with an in-stream 410, as when the server's window has moved on."""
        for watch in tuple(self._watches):
            watch.expire()
