"""Load the settings: gather, decode, check, and report every fault at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aviso_server.core.json import Json
from aviso_server.settings import addresses, files, schemas
from aviso_server.settings.checks import check
from aviso_server.settings.decode import decode, without_nulls
from aviso_server.settings.environment import Overlay, merge, overlay
from aviso_server.settings.faults import Fault, SettingsError, Warning_
from aviso_server.settings.keys import knows, strays
from aviso_server.settings.model import Document, Settings

ETC = Path("/etc")


def load(
    *,
    config_file: Path | None,
    environ: Mapping[str, str],
    cwd: Path,
    home: Path | None,
    overrides: Mapping[str, Json] | None = None,
    etc: Path = ETC,
) -> Settings:
    """The effective settings, or a SettingsError with every fault.

    Files first (the named one only, else the search path), then the environment, then
    ``overrides``, which is how command-line options arrive. Later wins.
    """
    one = files.named_file(config_file, environ)
    looked = (one,) if one else files.search(cwd, home, etc)
    gathered = _gather([path for path in looked if path.is_file()], environ)
    raw = merge(_with_nats_token(gathered.raw, environ), overrides or {})
    try:
        return parse(raw, before=gathered)
    except SettingsError as error:
        if any(path.is_file() for path in looked):
            raise
        places = ", ".join(str(path) for path in looked)
        hint = Fault("configuration", f"no configuration file found; searched {places}")
        raise SettingsError([hint, *error.faults]) from None


def parse(raw: Mapping[str, Json], *, before: Overlay | None = None) -> Settings:
    """Settings of a merged configuration; ``before`` carries what gathering it turned up."""
    noticed = list(strays(raw))
    decoded = decode(raw)
    document = decoded.document
    faults = [
        *(before.faults if before else ()),
        *decoded.faults,
        *(item for item in noticed if isinstance(item, Fault)),
        *decoded.fresh(check(document)),
    ]
    if faults:
        raise SettingsError(faults)
    warnings = [
        *(before.warnings if before else ()),
        *(item for item in noticed if isinstance(item, Warning_)),
        *_doubts(document),
    ]
    return Settings(
        **{name: getattr(document, name) for name in Document.model_fields},
        catalogue=schemas.catalogue(document),
        warnings=tuple(warnings),
    )


def _gather(paths: list[Path], environ: Mapping[str, str]) -> Overlay:
    raw: dict[str, Json] = {}
    faults: list[Fault] = []
    for path in paths:
        try:
            raw = merge(raw, files.read(path))
        except SettingsError as error:
            faults.extend(error.faults)
    if faults:
        # Checking what is left of an unreadable file would only add noise.
        raise SettingsError(faults)
    return overlay(raw, environ, knows)


def _with_nats_token(raw: dict[str, Json], environ: Mapping[str, str]) -> dict[str, Json]:
    """``NATS_TOKEN`` counts where the configuration has no token."""
    token = environ.get("NATS_TOKEN")
    if not token:
        return raw
    under: dict[str, Json] = {"notification_backend": {"jetstream": {"token": token}}}
    # A token key without a value counts as no token, so nulls go before the two are merged.
    return merge(under, without_nulls(raw))


def _doubts(document: Document) -> list[Warning_]:
    doubts = []
    address = addresses.split(document.application.base_url)
    if isinstance(address, str) or not address.netloc:
        doubts.append(
            Warning_(
                "configuration.base_url.not_absolute",
                "application.base_url",
                "application.base_url is not an absolute URL; it is used unchanged",
            )
        )
    if document.notification_schema_strict is False and document.notification_schema:
        doubts.append(
            Warning_(
                "configuration.schema_strict.explicit_disabled",
                "notification_schema_strict",
                "event types without a schema are accepted, without validation",
            )
        )
    return doubts


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the settings came from, to read them again."""

    config: Path | None = None
    overrides: Mapping[str, Json] = field(default_factory=dict)

    def read(self) -> Settings:
        """The settings as now configured; SettingsError with every fault."""
        home = os.environ.get("HOME")
        return load(
            config_file=self.config,
            environ=os.environ,
            cwd=Path.cwd(),
            home=Path(home) if home else None,
            overrides=self.overrides,
        )
