"""Log and lake are compared again and again; what is wrong is reported when it is found."""

import pytest
from backends.contract import CATALOGUE, append
from backends.jetstream.conftest import Opener
from support.journal import recorded

from aviso_server.backends.jetstream.agreement import Agreement, Disagreement
from aviso_server.core.mark import Mark

DISAGREES = "backend.jetstream.stream.lake.disagrees"


async def test_a_contradiction_is_reported_once(opened: Opener) -> None:
    """Each look refuses; the log has one record, and another when it is something else."""
    backend = await opened()
    await append(backend, 3)
    schema = CATALOGUE.schemas["ev"]
    held = await backend._streams.state(schema)
    agreement = Agreement(backend._connection)
    with recorded() as journal:
        for through, reported in ((5, 1), (5, 1), (9, 2)):
            with pytest.raises(Disagreement, match=f"ends at sequence 3.*up to {through}"):
                await agreement.check(schema, held, Mark(through))
            assert len(journal.all(DISAGREES)) == reported
        await agreement.check(schema, held, Mark(3))
        with pytest.raises(Disagreement):
            await agreement.check(schema, held, Mark(9))
        assert len(journal.all(DISAGREES)) == 3
