"""The leases of flights on the server that all workers share."""

from __future__ import annotations

from toolstash.contracts import Address
from toolstash.store.flights import Standing
from toolstash.wire import scripts
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys


class RedisFlights:
    """Leases on the server that all workers share."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    async def join(self, at: Address, token: str, digest: str, followed: str = "") -> Standing:
        call = scripts.join_flight(self._keys.workspace(at), token, digest, followed)
        reply: list[bytes] = await self._connections.run(call)
        if reply[0] == b"leading":
            return Standing("leading", generation=reply[1].decode())
        if reply[0] == b"busy":
            return Standing("busy", leader=reply[1].decode(), is_same=reply[2] == b"1")
        return Standing("landed", outcome=reply[1])

    async def keep(self, at: Address, token: str) -> None:
        await self._connections.run(scripts.keep_flight(self._keys.workspace(at), token))

    async def land(self, at: Address, token: str, outcome: bytes = b"") -> None:
        await self._connections.run(scripts.land_flight(self._keys.workspace(at), token, outcome))
